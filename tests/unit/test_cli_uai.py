"""The calling conventions of the UAI competitions, 2014 by arguments and 2022 by the environment."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import beliefs as bl
from beliefs.cli import commands
from beliefs.cli.uai import Call

# p(x0) = (0.3, 0.7), p(x1 | x0) = ((0.9, 0.1), (0.2, 0.8)); with x1 = 1: 0.03 + 0.56 = 0.59
MODEL = "BAYES\n2\n2 2\n2\n1 0\n2 0 1\n2\n0.3 0.7\n4\n0.9 0.1\n0.2 0.8\n"
SOLUTIONS = {
    "PR": f"PR\n{math.log10(0.59)!r}\n",
    "MAR": f"MAR\n2 2 {0.03 / 0.59!r} {0.56 / 0.59!r} 2 0.0 1.0\n",
    "MAP": "MAP\n2 1 1\n",
    "MPE": "MPE\n2 1 1\n",
    "MMAP": "MMAP\n1 0 1\n",
}
OF_2022 = ("MODEL", "EVID", "QUERY", "RESULT", "TIMESEC", "MEMKB", "TASK")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    problems = tmp_path / "problems"
    problems.mkdir()
    (problems / "net.uai").write_text(MODEL)
    (problems / "net.uai.evid").write_text("1 1 1")
    (problems / "net.uai.query").write_text("1 0")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for name in (*OF_2022, "INF_TIME", "INF_MEMORY"):
        monkeypatch.delenv(name, raising=False)
    return work


def run(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(commands, ["uai", *arguments], env=env)


def same(text: str, expected: str) -> bool:
    """Whether two solutions agree, numbers to rounding."""
    words, others = text.split(), expected.split()
    return (
        len(words) == len(others)
        and words[0] == others[0]
        and [float(word) for word in words[1:]] == pytest.approx([float(word) for word in others[1:]], rel=1e-13)
    )


@pytest.mark.parametrize("task", SOLUTIONS)
@pytest.mark.parametrize("limits", [{}, {"INF_TIME": "20", "INF_MEMORY": "2"}])
def test_2014(folder: Path, task: str, limits: dict[str, str]) -> None:
    problem = "../problems/net.uai"
    result = run(problem, f"{problem}.evid", f"{problem}.query", task, env=limits)
    assert result.exit_code == 0, result.output
    assert [path.name for path in folder.iterdir()] == [f"net.uai.{task}"]
    assert same((folder / f"net.uai.{task}").read_text(), SOLUTIONS[task])


@pytest.mark.parametrize("task", SOLUTIONS)
@pytest.mark.parametrize("told", ["environment", "argument", "suffix"])
def test_2022(folder: Path, task: str, told: str) -> None:
    env = {
        "MODEL": "../problems/net.uai",
        "EVID": "../problems/net.uai.evid",
        "QUERY": "../problems/net.uai.query",
        "RESULT": f"answer.{task}" if told == "suffix" else "answer",
        "TIMESEC": "20",
        "MEMKB": "8000000",
    }
    result = run(*([task.lower()] if told == "argument" else []), env=env | ({"TASK": task} if told[0] == "e" else {}))
    assert result.exit_code == 0, result.output
    assert same((folder / env["RESULT"]).read_text(), SOLUTIONS[task])


def test_query_is_read_for_mmap_only_and_evidence_may_be_empty(folder: Path) -> None:
    result = run("../problems/net.uai", "", "nowhere.query", "PR")
    assert result.exit_code == 0, result.output
    assert (
        same((folder / "net.uai.PR").read_text(), "PR 0.0")
        or abs(float((folder / "net.uai.PR").read_text().split()[1])) < 1e-15
    )


def test_compressed_models_name_their_answer_without_the_compression(folder: Path) -> None:
    bl.write(bl.read("../problems/net.uai"), "Net.UAI.gz")
    assert run("Net.UAI.gz", "", "", "MAP").exit_code == 0
    assert (folder / "Net.UAI.MAP").exists()


def test_limits_become_keywords_of_the_doors() -> None:
    call = Call.of_2014(("m.uai", "", "", "pr"), {"INF_TIME": "1000", "INF_MEMORY": "2"})
    assert (call.task, call.result) == ("PR", "m.uai.PR")
    assert call.options(spent=100.0) == {"max_bytes": 1_600_000_000, "time_limit": 850.0}
    assert call.options(spent=2000.0)["time_limit"] == 0.0
    assert Call.of_2014(("m.uai", "", "", "PR"), {}).options(spent=1.0) == {}


@pytest.mark.parametrize("text", ["inf", "Infinity", "1e400"])
def test_an_infinite_limit_is_none(folder: Path, text: str) -> None:
    of_2014 = {"INF_TIME": text, "INF_MEMORY": text}
    assert Call.of_2014(("m.uai", "", "", "PR"), of_2014).options(spent=1.0) == {}
    of_2022 = {"MODEL": "m.uai", "RESULT": "m.PR", "TIMESEC": text, "MEMKB": text}
    assert Call.of_2022((), of_2022).options(spent=1.0) == {}
    result = run("../problems/net.uai", "", "", "PR", env=of_2014)
    assert result.exit_code == 0, result.output
    assert "(EXACT)" in result.stdout


def test_a_huge_limit_stays_within_64_bits() -> None:
    call = Call.of_2014(("m.uai", "", "", "PR"), {"INF_TIME": "1e308", "INF_MEMORY": "1e308"})
    assert call.options(spent=1.0) == {"time_limit": pytest.approx(0.95e308), "max_bytes": 2**62}


@pytest.mark.parametrize(("limit", "left"), [("0.01", 0.005), ("0.4", 0.2), ("0.6", 0.3), ("2", 1.5), ("20", 19.0)])
def test_of_a_short_time_at_most_half_is_kept_for_writing(limit: str, left: float) -> None:
    call = Call.of_2014(("m.uai", "", "", "PR"), {"INF_TIME": limit})
    assert call.options(spent=0.0)["time_limit"] == pytest.approx(left, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "text"), [("INF_TIME", "-inf"), ("INF_TIME", "soon"), ("INF_TIME", "-1"), ("INF_MEMORY", "nan")]
)
def test_limits_must_be_positive(folder: Path, name: str, text: str) -> None:
    result = run("../problems/net.uai", "", "", "PR", env={name: text})
    assert result.exit_code == 2
    assert result.stderr == f"beliefs: error: {name} must be a positive number, found '{text}'\n"


def test_an_exact_answer_that_would_come_late_is_replaced(folder: Path) -> None:
    bl.write(bl.datasets.make_ising_grid(30, 30, seed=0), "grid.uai")  # width 30 or more: over a minute, and 8 GB
    result = run("grid.uai", "", "", "PR", env={"INF_TIME": "3", "INF_MEMORY": "1000000"})
    assert result.exit_code == 0, result.output
    assert "(exact inference would take" in result.stdout and "certified" in result.stdout
