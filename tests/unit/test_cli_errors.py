"""Every wrong request ends in one line on standard error and exit code 2, and leaves no file behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from beliefs.cli import commands

MODEL = "MARKOV\n2\n2 2\n2\n1 0\n2 0 1\n2\n0 1\n4\n1 2 3 4\n"  # x0 = 0 is impossible


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.uai").write_text(MODEL)
    (tmp_path / "broken.uai").write_text("MARKOV\n2\n2 two\n")
    (tmp_path / "garbage.bif").write_bytes(bytes(range(256)))
    (tmp_path / "two.evid").write_text("2\n1 0 1\n1 1 0\n")
    (tmp_path / "out.evid").write_text("1 7 0")
    (tmp_path / "empty.uai").write_text("MARKOV 0 0")
    (tmp_path / "known.txt").write_text(MODEL)
    (tmp_path / "taken.MAR").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["infr"], "'infr'"),
        (["--nope"], "--nope"),
        (["infer"], "MODEL"),
        (["infer", "m.uai", "extra"], "extra"),
        (["infer", "absent.uai"], "absent.uai: no such file"),
        (["infer", "."], "."),
        (["infer", "known.txt"], "known.txt: unknown suffix"),
        (["infer", "m.txt"], "m.txt: no such file, and no network of that name comes with the package"),
        (["infer", "alarn"], "alarn: no such file, and no network of that name comes with the package; did you mean "),
        (["infer", "broken.uai"], "broken.uai, line 3: expected the cardinality of variable 1, found 'two'"),
        (["infer", "garbage.bif"], "garbage.bif, line "),
        (["infer", "empty.uai"], "no variables"),
        (["infer", "m.uai", "--evidence", "y=1"], "no variable 'y'"),
        (["infer", "m.uai", "--evidence", "9=1"], "variables 0..1"),
        (["infer", "m.uai", "--evidence", "x0=7"], "'x0'"),
        (["infer", "m.uai", "--evidence", "x0=1,x1"], "name=state"),
        (["infer", "m.uai", "--evidence", "x0"], "neither a file"),
        (["infer", "m.uai", "--evidence", "x0=0,x0=1"], "two states for variable 'x0'"),
        (["infer", "m.uai", "--evidence", "x0=0", "--evidence", "x0=1"], "two states for variable 'x0'"),
        (["infer", "m.uai", "--evidence", "two.evid"], "two.evid holds 2 samples"),
        (["infer", "m.uai", "--evidence", "out.evid"], "out.evid, line 1"),
        (["infer", "m.uai", "--evidence", "x0=0"], "probability zero: x0=0"),
        (["maximize", "m.uai", "--evidence", "x0=0"], "probability zero: x0=0"),
        (["infer", "m.uai", "--method", "magic"], "no method 'magic'"),
        (["infer", "m.uai", "--method", "bp(dampings=1)"], "damping"),
        (["infer", "m.uai", "--method", "bp(damping=2)"], "damping must be in [0, 1)"),
        (["infer", "m.uai", "--method", "bp(damping={[]:1})"], "option 'damping' must be a number"),
        (["infer", "m.uai", "--method", f"bp(damping={'-' * 5000}1)"], "damping"),
        (["infer", "m.uai", "--method", f"bp(damping={'-' * 20000}1)"], "name(field=value, ...)"),
        (["infer", "m.uai", "--method", "auto()"], "auto has no options"),
        (["infer", "m.uai", "--method", "bp("], "name(field=value, ...)"),
        (["maximize", "m.uai", "--method", "no such"], "name(field=value, ...)"),
        (["infer", "m.uai", "--tol", "small"], "--tol"),
        (["infer", "m.uai", "--tol", "-1"], "tol must be a number of at least 0"),
        (["infer", "m.uai", "--tol", "nan"], "tol must be a number of at least 0"),
        (["infer", "m.uai", "--max-iters", "1.5"], "--max-iters"),
        (["infer", "m.uai", "--max-iters", "-1"], "max_iters must be an integer of at least 0"),
        (["infer", "m.uai", "--time-limit", "-1"], "time_limit"),
        (["infer", "m.uai", "--max-bytes", "lots"], "2GB"),
        (["infer", "m.uai", "--max-bytes", "2 QB"], "2GB"),
        (["infer", "m.uai", "--max-bytes", "-1"], "2GB"),
        (["infer", "m.uai", "--max-bytes", "1e400"], "'1e400' is more than any machine has"),
        (["infer", "m.uai", "--max-bytes", "1e309GB"], "'1e309GB' is more than any machine has"),
        (["info", "m.uai", "--max-bytes", "4611687TB"], "'4611687TB' is more than any machine has"),
        (["infer", "m.uai", "--method", "junction_tree", "--max-bytes", "1"], "the limit is 1 B"),
        (["maximize", "m.uai", "--method", "junction_tree", "--max-bytes", "1"], "1 B"),
        (["infer", "m.uai", "--seed", "-1"], "seed"),
        (["infer", "m.uai", "--threads", "0"], "threads"),
        (["infer", "m.uai", "--trace-every", "0"], "trace_every"),
        (["infer", "m.uai", "--limit", "-1"], "--limit"),
        (["infer", "m.uai", "--variables", "x7"], "'x7'"),
        (["infer", "m.uai", "--targets", "x7"], "'x7'"),
        (["infer", "m.uai", "--targets", "x0", "--variables", "x1"], "variable 'x1' is not among the targets"),
        (["infer", "m.uai", "--targets", "x0", "--variables", "x0,x1"], "variable 'x1' is not among the targets"),
        (["infer", "m.uai", "--json", "--csv"], "--csv"),
        (["infer", "m.uai", "--output", "a.txt"], ".MAR, .PR"),
        (["infer", "m.uai", "--output", "a.MAP"], ".MAR, .PR"),
        (["infer", "m.uai", "--output", "no/such/a.MAR"], "no/such"),
        (["infer", "m.uai", "--output", "taken.MAR"], "taken.MAR"),
        (["infer", "m.uai", "--targets", "x0", "--output", "a.MAR"], "--targets"),
        (["maximize", "m.uai", "--output", "a.MMAP"], ".MAP, .MPE"),
        (["marginal-map", "m.uai"], "--query"),
        (["marginal-map", "m.uai", "--query", "x0,x0"], "twice"),
        (["marginal-map", "m.uai", "--query", "x0", "--evidence", "x0=1"], "'x0' is in the query and in the evidence"),
        (["marginal-map", "m.uai", "--query", "x0", "--variables", "x1"], "variable 'x1' is not in the query"),
        (["marginal-map", "m.uai", "--query", "x0", "--variables", "x0,x1"], "variable 'x1' is not in the query"),
        (["marginal-map", "m.uai", "--query", "absent.query"], "absent.query"),
        (["sample", "m.uai", "--n", "-1"], "number of samples"),
        (["sample", "m.uai", "--n", "many"], "many"),
        (["convert", "m.uai"], "OUT"),
        (["convert", "m.uai", "out.xyz"], "unknown suffix"),
        (["convert", "m.uai", "no/such/out.uai"], "no/such/out.uai"),
        (["convert", "m.uai", "out.bif"], ""),  # not a Bayesian network
        (["info", "absent.bif.gz"], "absent.bif.gz: no such file"),
        (["info", "m.uai", "--query", "x9"], "'x9'"),
        (["info", "m.uai", "--query", "x0,x0"], "the query names a variable twice"),
        (["info", "m.uai", "--query", "x0", "--evidence", "x0=1"], "'x0' is in the query and in the evidence"),
        (["methods", "--task", "guess"], "guess"),
        (["uai", "m.uai", "", ""], "MODEL EVID QUERY TASK"),
        (["uai", "m.uai", "", "", "SUM"], "unknown task 'SUM'"),
        (["uai", "m.uai", "absent.evid", "", "PR"], "absent.evid"),
        (["uai", "m.uai", "", "", "MMAP"], "query"),
        (["uai", "m.uai", "", "absent.query", "MMAP"], "absent.query"),
        (["--data", "nowhere", "info", "asia"], "nowhere"),
        (["uai"], "missing: MODEL, RESULT"),
    ],
)
def test_one_line_and_exit_code_2(folder: Path, arguments: list[str], said: str) -> None:
    before = sorted(folder.rglob("*"))
    result = CliRunner().invoke(commands, arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("beliefs: error: ")
    assert said in line
    assert sorted(folder.rglob("*")) == before


def test_a_folder_that_cannot_be_written_to_is_refused_before_any_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beliefs.io.files.os.access", lambda path, mode: False)
    impossible = ["infer", "m.uai", "--evidence", "x0=0", "--output"]  # which work would find out
    done = CliRunner().invoke(commands, [*impossible, "a.json"])
    assert done.exit_code == 2 and "a.json: the folder . cannot be written to" in done.stderr
