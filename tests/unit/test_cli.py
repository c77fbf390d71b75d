"""The commands give the library's answers: numbers worked by hand, as tables, JSON, CSV and files."""

from __future__ import annotations

import csv
import io
import json
import math
import threading
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import beliefs as bl
from beliefs.cli import commands

# sum 10; marginals (0.3, 0.7) and (0.4, 0.6); the best state is (1, 1) with 4; x0 = 1 has 7
SMALL = "MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 3 4\n"
TREE = """
network weather { }
variable rain { type discrete [ 2 ] { yes, no }; }
variable grass { type discrete [ 3 ] { dry, damp, wet }; }
probability ( rain ) { table 0.2, 0.8; }
probability ( grass | rain ) { (yes) 0.0, 0.1, 0.9; (no) 0.7, 0.2, 0.1; }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.uai").write_text(SMALL)
    (tmp_path / "tree.bif").write_text(TREE)
    return tmp_path


def runner() -> CliRunner:
    """Standard output and error apart, which older releases of click must be asked for."""
    apart: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
    return CliRunner(**apart)


def run(*arguments: str) -> Result:
    result = runner().invoke(commands, list(arguments))
    assert result.exit_code == 0, result.output
    return result


def graph_in(path: str) -> bl.FactorGraph | bl.BayesianNetwork:
    model = bl.read(path)
    assert isinstance(model, bl.FactorGraph | bl.BayesianNetwork)
    return model


def answer(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return found


COMMON = [
    "command",
    "model",
    "evidence",
    "method",
    "reason",
    "status",
    "advice",
    "converged",
    "bound",
    "n_iters",
    "seconds",
    "trace",
]


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (["infer"], ["log_z", "log_lower", "log_upper", "exact_marginals", "marginals"]),
        (["maximize"], ["log_score", "log_upper", "gap", "assignment"]),
        (["marginal-map", "--query", "x0"], ["log_value", "log_lower", "log_upper", "gap", "assignment", "query"]),
        (["sample"], ["variables", "samples"]),
    ],
)
def test_json_has_stable_keys(folder: Path, arguments: list[str], more: list[str]) -> None:
    found = answer(arguments[0], "small.uai", *arguments[1:])
    assert sorted(found) == sorted([*COMMON, *more])
    assert found["command"] == arguments[0]
    assert found["status"] == "CONVERGED"


def test_infer(folder: Path) -> None:
    found = answer("infer", "small.uai")
    assert found["log_z"] == pytest.approx(math.log(10), rel=1e-14)
    assert found["bound"] == "EXACT"
    assert found["marginals"]["x0"] == pytest.approx({"0": 0.3, "1": 0.7}, abs=1e-15)
    assert found["marginals"]["x1"] == pytest.approx({"0": 0.4, "1": 0.6}, abs=1e-15)


def test_evidence_by_name_and_label(folder: Path) -> None:
    found = answer("infer", "tree.bif", "--evidence", "grass=wet")
    assert found["evidence"] == {"grass": "wet"}
    assert found["log_z"] == pytest.approx(math.log(0.2 * 0.9 + 0.8 * 0.1), rel=1e-13)
    assert found["marginals"]["rain"]["yes"] == pytest.approx(0.18 / 0.26, rel=1e-13)
    assert found["marginals"]["grass"] == {"dry": 0.0, "damp": 0.0, "wet": 1.0}


def test_evidence_of_several_options_adds_up(folder: Path) -> None:
    found = answer("infer", "tree.bif", "-e", "grass=2", "-e", "rain=no")
    assert found["evidence"] == {"rain": "no", "grass": "wet"}
    assert found["log_z"] == pytest.approx(math.log(0.08), rel=1e-13)


def test_evidence_and_query_files(folder: Path) -> None:
    (folder / "e.evid").write_text("1 1 2")
    (folder / "q.query").write_text("1 0")
    found = answer("marginal-map", "tree.bif", "--evidence", "e.evid", "--query", "q.query")
    assert found["assignment"] == {"rain": "yes"}
    assert found["log_value"] == pytest.approx(math.log(0.18), rel=1e-13)


def test_maximize(folder: Path) -> None:
    found = answer("maximize", "small.uai")
    assert found["assignment"] == {"x0": "1", "x1": "1"}
    assert found["log_score"] == pytest.approx(math.log(4), rel=1e-14)
    assert found["gap"] == 0.0
    assert found["bound"] == "EXACT"


def test_marginal_map(folder: Path) -> None:
    found = answer("marginal-map", "small.uai", "-q", "x0")
    assert (found["query"], found["assignment"]) == (["x0"], {"x0": "1"})
    assert found["log_value"] == pytest.approx(math.log(7), rel=1e-14)


def test_sample_is_the_librarys_sample(folder: Path) -> None:
    found = answer("sample", "small.uai", "--n", "50", "--seed", "3")
    expected = bl.sample(graph_in("small.uai"), 50, seed=3).samples
    assert found["variables"] == ["x0", "x1"]
    assert np.array_equal(np.array(found["samples"], dtype=int), expected)


def test_method_and_limits_reach_the_driver(folder: Path) -> None:
    loop = bl.datasets.make_ising_grid(3, 3, seed=1)
    bl.write(loop, folder / "loop.uai")
    found = answer(
        "infer", "loop.uai", "-m", "bp(damping=0.25)", "--tol", "0", "--max-iters", "6", "--trace-every", "2"
    )
    assert (found["method"], found["status"], found["n_iters"]) == ("bp(damping=0.25)", "MAX_ITERS", 6)
    assert found["trace"]["iteration"] == [2, 4, 6]
    assert found["bound"] == "ESTIMATE"
    assert (found["log_lower"], found["log_upper"]) == (None, None)  # infinities
    assert found["trace"]["lower"] == [None] * 3


def test_time_limit_of_zero_stops_before_the_first_step(folder: Path) -> None:
    found = answer("infer", "small.uai", "--method", "bp", "--time-limit", "0")
    assert (found["status"], found["n_iters"]) == ("TIME_LIMIT", 0)


def test_warning_is_one_line(folder: Path) -> None:
    bl.write(bl.datasets.make_ising_grid(3, 3, seed=1), folder / "loop.uai")
    result = run("infer", "loop.uai", "-m", "bp", "--max-iters", "1")
    (line,) = result.stderr.splitlines()
    assert line.startswith("beliefs: warning: bp: max_iters was reached")


def test_memory_budget_chooses_the_method(folder: Path) -> None:
    bl.write(bl.datasets.make_ising_grid(6, 6, seed=1), folder / "grid.uai")
    assert answer("infer", "grid.uai")["method"] == "junction_tree"
    small = answer("infer", "grid.uai", "--max-bytes", "1kB")
    assert small["method"] == "bp"
    assert "over the budget" in small["reason"]


def test_targets_are_what_is_shown(folder: Path) -> None:
    assert list(answer("infer", "tree.bif", "--targets", "rain")["marginals"]) == ["rain"]


def test_variables_choose_what_is_shown(folder: Path) -> None:
    assert list(answer("infer", "tree.bif", "--variables", "grass")["marginals"]) == ["grass"]
    assert answer("maximize", "tree.bif", "--variables", "grass")["assignment"] == {"grass": "dry"}
    assert answer("sample", "tree.bif", "--variables", "1")["variables"] == ["grass"]


def test_a_question_from_another_thread(folder: Path) -> None:
    """Signals belong to the main thread; elsewhere the question is asked without them."""
    found: list[Result] = []
    thread = threading.Thread(target=lambda: found.append(run("infer", "small.uai")))
    thread.start()
    thread.join()
    assert "log Z   = 2.302585093" in found[0].stdout


# -- for people -------------------------------------------------------------------------------------------------------
def test_infer_table(folder: Path) -> None:
    lines = run("infer", "small.uai").stdout.splitlines()
    assert lines[0] == "log Z   = 2.302585093 (EXACT)"
    assert lines[1].startswith("method  junction_tree (exact inference fits")
    assert lines[2].startswith("status  CONVERGED after 1 step, ")
    assert lines[3:] == ["", "variable        0        1", "x0        0.30000  0.70000", "x1        0.40000  0.60000"]


def test_states_of_different_names_are_told_in_words(folder: Path) -> None:
    lines = run("infer", "tree.bif", "-e", "rain=yes").stdout.splitlines()
    assert lines[-2:] == ["rain (observed)  yes 1  no 0", "grass            dry 0  damp 0.10000  wet 0.90000"]


def test_many_states_are_summed_up(folder: Path) -> None:
    weights = np.arange(1.0, 21.0)  # 1 .. 20, sum 210; the twelve smallest sum to 78
    graph = bl.FactorGraph.from_tables([20, 2], [((0,), weights), ((1,), [1, 1])])
    bl.write(graph, folder / "many.uai")
    line = run("infer", "many.uai").stdout.splitlines()[-2]
    assert line.startswith("x0        12 0.06190  13 0.06667")
    assert line.endswith("19 0.09524  12 others 0.37143")


def test_long_tables_say_how_much_is_left_out(folder: Path) -> None:
    bl.write(bl.datasets.make_chain(50, seed=0), folder / "chain.uai")
    text = run("infer", "chain.uai").stdout
    assert text.endswith("... and 10 more variables; --limit 0 shows all\n")
    assert "x39 " in text
    assert "x40 " not in text
    assert "x49 " in run("infer", "chain.uai", "--limit", "0").stdout
    assert run("maximize", "chain.uai", "--limit", "49").stdout.endswith(
        "... and 1 more variable; --limit 0 shows all\n"
    )


def test_maximize_table(folder: Path) -> None:
    lines = run("maximize", "tree.bif", "-e", "grass=damp").stdout.splitlines()
    assert lines[0] == f"log score  {math.log(0.16):.10g} (proved optimal)"
    assert lines[-2:] == ["rain      no", "grass     damp (observed)"]


def test_sample_table_shows_what_fits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    lines = run("sample", "alarm", "-n", "3", "--limit", "2").stdout.splitlines()
    assert max(map(len, lines[3:6])) <= 30
    assert lines[-2:] == [
        "... and 1 more sample; --limit 0 shows all",
        "... and 35 more variables; --variables chooses, --csv prints all",
    ]


def test_names_with_brackets_and_commas_survive(folder: Path) -> None:
    graph = bl.FactorGraph.from_tables([2], [((0,), [1, 3])], names=["[red]a,b=c"], states=[["x,y", "[/z]"]])
    bl.write(graph, folder / "odd.npz")
    found = answer("infer", "odd.npz", "-e", r"[red]a\,b\=c=x\,y")
    assert found["evidence"] == {"[red]a,b=c": "x,y"}
    assert "[red]a,b=c" in run("infer", "odd.npz").stdout


# -- files ------------------------------------------------------------------------------------------------------------
def test_csv(folder: Path) -> None:
    rows = list(csv.reader(io.StringIO(run("infer", "tree.bif", "-e", "rain=yes", "--csv").stdout)))
    assert rows[0] == ["variable", "state", "probability"]
    assert [(name, label) for name, label, _ in rows[1:]] == [
        ("rain", "yes"), ("rain", "no"), ("grass", "dry"), ("grass", "damp"), ("grass", "wet"),
    ]  # fmt: skip
    assert [float(p) for *_, p in rows[1:]] == pytest.approx([1, 0, 0, 0.1, 0.9], abs=1e-15)
    assert run("maximize", "tree.bif", "--csv").stdout == "variable,state\nrain,no\ngrass,dry\n"
    assert run("sample", "tree.bif", "-n", "2", "--csv").stdout.splitlines()[0] == "rain,grass"


@pytest.mark.parametrize("suffix", ["MAR", "MAR.gz"])
def test_output_of_marginals(folder: Path, suffix: str) -> None:
    text = run("infer", "small.uai", "--output", f"small.uai.{suffix}").stdout
    assert text.splitlines()[-1] == f"written  small.uai.{suffix}"
    task, marginals = bl.io.uai.read_solution(f"small.uai.{suffix}")
    assert task == "MAR"
    assert isinstance(marginals, list)
    assert np.concatenate(marginals) == pytest.approx([0.3, 0.7, 0.4, 0.6], abs=1e-15)


def test_output_of_the_other_tasks(folder: Path) -> None:
    run("infer", "small.uai", "-o", "z.PR")
    assert (folder / "z.PR").read_text().split() == ["PR", "1.0"]  # log10 of 10
    run("maximize", "small.uai", "-o", "z.MPE")
    assert (folder / "z.MPE").read_text() == "MPE\n2 1 1\n"
    run("marginal-map", "small.uai", "-q", "x1", "-o", "z.mmap")
    assert (folder / "z.mmap").read_text() == "MMAP\n1 1 1\n"
    assert sorted(path.name for path in folder.iterdir()) == ["small.uai", "tree.bif", "z.MPE", "z.PR", "z.mmap"]


def test_output_as_json_is_what_is_printed(folder: Path) -> None:
    printed = answer("maximize", "small.uai", "-o", "best.json")
    assert json.loads((folder / "best.json").read_text()) == printed


def test_output_as_arrays(folder: Path) -> None:
    run("infer", "tree.bif", "-o", "a.npz")
    run("sample", "tree.bif", "-n", "5", "--seed", "1", "-o", "s.npz")
    with np.load("a.npz") as found:
        assert found["names"].tolist() == ["rain", "grass"]
        assert found["states"].tolist() == ["yes", "no", "dry", "damp", "wet"]
        assert found["mu_var"] == pytest.approx([0.2, 0.8, 0.56, 0.18, 0.26], abs=1e-15)
        assert found["state_ptr"].tolist() == [0, 2, 5]
    with np.load("s.npz") as found:
        assert np.array_equal(found["samples"], bl.sample(graph_in("tree.bif"), 5, seed=1).samples)


def test_convert_keeps_the_model(folder: Path) -> None:
    run("convert", "tree.bif", "tree.uai.gz")
    run("convert", "asia", "asia.xmlbif")
    assert bl.infer(graph_in("tree.uai.gz")).marginal(1) == pytest.approx([0.56, 0.18, 0.26], abs=1e-15)
    asia = bl.datasets.load_bn("asia").to_factor_graph()
    assert np.array_equal(graph_in("asia.xmlbif").to_factor_graph().theta, asia.theta)


def test_a_file_wins_over_a_bundled_network(folder: Path) -> None:
    assert answer("info", "asia")["n_vars"] == 8
    (folder / "asia").mkdir()
    result = runner().invoke(commands, ["info", "asia"])
    assert result.exit_code == 2


# -- info and methods -------------------------------------------------------------------------------------------------
def test_info_counts_and_predicts(folder: Path) -> None:
    found = answer("info", "tree.bif", "--max-bytes", "100")
    cost = found.pop("exact")
    assert found == {
        "model": "tree.bif",
        "kind": "Bayesian network",
        "n_vars": 2,
        "n_states": 5,
        "n_observed": 0,
        "n_factors": 2,
        "n_cells": 8,
        "n_zeros": 1,
        "tied": False,
        "cardinalities": {"2": 1, "3": 1},
        "arities": {"1": 1, "2": 1},
        "forest": True,
    }
    assert (cost["width"], cost["largest_cells"], cost["budget_bytes"]) == (1, 6, 100)
    assert cost["bytes"] > 100 and not cost["fits"]
    assert answer("info", "tree.bif", "--max-bytes", str(cost["bytes"]))["exact"]["fits"]


def test_info_of_a_grid_says_it_does_not_fit(folder: Path) -> None:
    bl.write(bl.datasets.make_ising_grid(4, 4, seed=0), folder / "grid.uai")
    text = run("info", "grid.uai", "--max-bytes", "1kB").stdout
    assert "factors    40: 16 over 1, 24 over 2" in text
    assert "has loops, so bp gives estimates" in text
    assert "width          4" in text
    assert "budget         1 kB: it does not fit" in text


def test_info_of_marginal_map_is_wider(folder: Path) -> None:
    star = bl.FactorGraph.from_tables([2] * 6, [((0, v), np.ones((2, 2))) for v in range(1, 6)])
    bl.write(star, folder / "star.uai")
    assert answer("info", "star.uai")["exact"]["width"] == 1
    assert answer("info", "star.uai", "--query", "1,2,3,4,5")["exact"]["width"] == 5  # the centre goes first


def test_info_after_evidence(folder: Path) -> None:
    found = answer("info", "tree.bif", "--evidence", "grass=wet")
    assert (found["n_observed"], found["n_cells"], found["exact"]["width"]) == (1, 4, 0)


def test_info_lists_states(folder: Path) -> None:
    assert run("info", "tree.bif", "--states").stdout.splitlines()[-2:] == [
        "0  rain      yes, no",
        "1  grass     dry, damp, wet",
    ]
    assert answer("info", "tree.bif", "--states")["variables"] == {
        "rain": ["yes", "no"],
        "grass": ["dry", "damp", "wet"],
    }


def test_info_of_an_empty_model(folder: Path) -> None:
    (folder / "empty.uai").write_text("MARKOV 0 0")
    assert answer("info", "empty.uai")["exact"]["cells"] == 0


def test_methods_lists_all(folder: Path) -> None:
    found = json.loads(run("methods", "--json").stdout)["methods"]
    assert [row["method"] for row in found] == [cls.name for cls in bl.METHODS]
    text = run("methods", "--task", "sample").stdout
    assert "junction_tree" in text
    assert "\nbp" not in text


@pytest.mark.parametrize(("wide", "shown"), [(80, 4), (160, 5)])
def test_a_narrow_terminal_gets_the_methods_without_their_references(
    wide: int, shown: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beliefs.cli import methods as command

    tables: list[Any] = []
    monkeypatch.setattr(command, "on_terminal", lambda: True)
    monkeypatch.setattr(command, "width", lambda: wide)
    monkeypatch.setattr(command, "show_table", tables.append)
    run("methods")
    assert {len(row) for row in [tables[0].columns, *tables[0].rows]} == {shown}


def test_help_and_version() -> None:
    assert "marginal-map" in run().stdout
    assert run("--version").stdout == f"beliefs {bl.__version__}\n"
    for name, command in commands.commands.items():
        assert command.help and command.help.splitlines()[0] in run(name, "--help").stdout


def test_a_folder_of_data_may_be_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFS_DATA", "")  # put back whatever the command sets
    (folder / "bn").mkdir()
    bl.write(bl.datasets.load_bn("cancer"), folder / "bn" / "munin.bif.gz")
    assert "variables  5" in run("--data", str(folder), "info", "munin").stdout
