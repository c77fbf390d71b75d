"""What only a real process shows: signals, closed pipes, exit codes, encodings, and what the warm-up compiles."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import beliefs as bl

SOURCE = Path(bl.__file__).parent
PATIENCE = 120  # seconds; a cold cache compiles first

# The command with one thing added: it says when the method has begun its steps.
ANNOUNCED = """
import sys, time
from beliefs.inference.messages.bp import BP
step = BP.step
def announced(self, state):
    residual = step(self, state)
    if state.n_steps == 1:
        print("stepping", file=sys.stderr, flush=True)
        {then}
    return residual
BP.step = announced
from beliefs.cli import main
main()
"""


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return clean | {"PYTHONPATH": str(SOURCE.parent)} | more


def start(folder: Path, *arguments: str, code: str | None = None, **env: str) -> subprocess.Popen[str]:
    program = ["-m", "beliefs"] if code is None else ["-c", code]
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        cwd=folder,
        env=environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # ignored where the tests run in the background
    )


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grid")
    bl.write(bl.datasets.make_ising_grid(60, 60, seed=0), folder / "grid.uai")
    return folder


ENDLESS = ["infer", "grid.uai", "--method", "bp", "--tol", "0", "--max-iters", "1000000000"]


def started(folder: Path, *arguments: str, then: str = "pass") -> subprocess.Popen[str]:
    """Start a run and wait for its first step."""
    process = start(folder, *ENDLESS, *arguments, code=ANNOUNCED.format(then=then))
    assert process.stderr is not None
    assert process.stderr.readline() == "stepping\n"
    return process


def test_ctrl_c_prints_the_result_so_far(grid: Path) -> None:
    process = started(grid, "--json")
    process.send_signal(signal.SIGINT)
    text, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors == "beliefs: stopping after this step; once more to abort\n"
    found = json.loads(text)
    assert found["status"] == "STOPPED"
    assert found["n_iters"] >= 1
    assert len(found["marginals"]) == 3600
    assert all(abs(sum(p.values()) - 1) < 1e-9 for p in found["marginals"].values())


def test_ctrl_c_writes_the_result_so_far_whole(grid: Path) -> None:
    process = started(grid, "--output", "so-far.MAR")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    task, marginals = bl.io.uai.read_solution(grid / "so-far.MAR")
    assert (task, len(marginals)) == ("MAR", 3600)  # type: ignore[arg-type]


def test_second_ctrl_c_aborts_and_leaves_nothing(grid: Path) -> None:
    before = sorted(grid.iterdir())
    process = started(grid, "--output", "never.MAR", then="time.sleep(600)")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "once more to abort" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    text, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, text, errors) == (130, "", "beliefs: aborted\n")
    assert sorted(grid.iterdir()) == before


def test_ctrl_c_before_the_method_starts_ends_at_once(grid: Path) -> None:
    code = (
        "import time, beliefs.cli.names as names\n"
        "names.read = lambda path: (print('reading', flush=True), time.sleep(600))\n"
        "from beliefs.cli import main; main()"
    )
    process = start(grid, "infer", "grid.uai", code=code)
    assert process.stdout is not None
    assert process.stdout.readline() == "reading\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors.strip() == "beliefs: interrupted"


def test_terminated_competition_run_writes_its_answer(grid: Path) -> None:
    code = ANNOUNCED.format(then="pass").replace(
        "BP.step = announced", "BP.step, BP.default_tol, BP.default_max_iters = announced, 0.0, 10**9"
    )
    process = start(grid, "uai", "grid.uai", "", "", "MAR", code=code)
    assert process.stderr is not None
    assert process.stderr.readline() == "stepping\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert len(bl.io.uai.read_solution(grid / "grid.uai.MAR")[1]) == 3600  # type: ignore[arg-type]


def test_a_closed_pipe_is_no_error(grid: Path) -> None:
    process = start(grid, "sample", "asia", "--n", "20000", "--csv")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "asia,tub,smoke,lung,bronc,either,xray,dysp\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=PATIENCE) == 141
    process.stderr.close()


@pytest.mark.parametrize("closed", ["stdout", "stderr", "stdin stdout stderr"])
@pytest.mark.parametrize("arguments", [["infer", "asia", "--output", "asia.MAR"], ["methods"], ["--version"]])
def test_streams_that_the_shell_closed_are_no_error(tmp_path: Path, closed: str, arguments: list[str]) -> None:
    done = closed_run(tmp_path, closed, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert (done.stdout != "") == ("stdout" not in closed)
    if "asia.MAR" in arguments:
        assert len(bl.io.uai.read_solution(tmp_path / "asia.MAR")[1]) == 8  # type: ignore[arg-type]


def test_errors_and_warnings_need_no_open_stream(tmp_path: Path) -> None:
    assert closed_run(tmp_path, "stderr", "info", "absent.uai").returncode == 2
    done = closed_run(tmp_path, "stderr", "infer", "asia", "--method", "bp", "--max-iters", "1", "--progress")
    assert done.returncode == 0
    assert done.stdout.startswith("log Z")


def closed_run(folder: Path, closed: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as after ``>&-``, ``2>&-``, ``<&-``."""
    files = [("stdin", "stdout", "stderr").index(name) for name in closed.split()]
    code = (
        "import os, sys\n"
        f"for number in {files}: os.close(number)\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'beliefs', *sys.argv[1:]])"
    )
    process = start(folder, *arguments, code=code)
    text, errors = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(arguments, process.returncode, text, errors)


def on_a_terminal(folder: Path, *arguments: str, interrupt_at: bytes = b"", width: int = 60) -> tuple[int, bytes]:
    """Run the command on a terminal of its own, with Ctrl-C once it has shown these bytes; return code and output."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "beliefs", *arguments],
        cwd=folder,
        env=environment(COLUMNS=str(width), TERM="xterm"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
                if interrupt_at and interrupt_at in shown:
                    process.send_signal(signal.SIGINT)
                    interrupt_at = b""
        except OSError:  # how Linux says that the other side has closed
            pass
    os.close(ours)
    return process.returncode, shown


def as_text(shown: bytes) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r\n", "\n")


def test_tables_are_drawn_on_a_terminal(tmp_path: Path) -> None:
    graph = bl.FactorGraph.from_tables([2], [((0,), [1, 3])], names=["[red]"], states=[["[/b]", "no"]])
    bl.write(graph, tmp_path / "m.npz")
    code, shown = on_a_terminal(tmp_path, "infer", "m.npz")
    text = as_text(shown)
    assert code == 0
    assert "log Z   = 1.386294361 (EXACT)" in text
    assert "────" in text
    assert " [red]      0.25000   0.75000" in text
    assert shown.count(b"\x1b[?25h") == shown.count(b"\x1b[?25l") > 0  # the progress line gave the cursor back


def test_the_interval_is_drawn_while_it_closes(grid: Path) -> None:
    code, shown = on_a_terminal(grid, "infer", "grid.uai", "--time-limit", "3", "--limit", "2", width=80)
    text = as_text(shown)
    assert code == 0
    assert "of 3 s" in text and "≤ log Z" in text and "⠤" in text
    assert text.index("infer with") < text.index("certified  ")
    assert "TIME_LIMIT after" in text or "CONVERGED after" in text
    assert shown.count(b"\x1b[?25h") == shown.count(b"\x1b[?25l") > 0


@pytest.mark.parametrize("question", [["infer"], ["maximize"], ["marginal-map", "--query", "0,7,100,1000"]])
def test_ctrl_c_ends_a_drawing_with_the_interval_so_far(grid: Path, question: list[str]) -> None:
    code, shown = on_a_terminal(
        grid, *question, "grid.uai", "--time-limit", "600", "--limit", "2", interrupt_at="≤".encode(), width=80
    )
    text = as_text(shown)
    assert code == 130
    assert "beliefs: stopping after this step; once more to abort\n" in text
    assert "STOPPED after" in text and text.index("stopping after this step") < text.index("STOPPED after")
    assert "variable" in text.split("STOPPED after")[1]
    assert shown.count(b"\x1b[?25h") == shown.count(b"\x1b[?25l") > 0


def test_nothing_is_drawn_where_nobody_looks(grid: Path) -> None:
    process = start(grid, "infer", "grid.uai", "--time-limit", "1", "--json")
    text, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")
    found = json.loads(text)
    assert found["log_lower"] <= found["log_z"] <= found["log_upper"]
    assert len(found["trace"]["lower"]) == found["n_iters"] > 1


def test_a_terminal_without_the_letters_is_no_error(tmp_path: Path) -> None:
    graph = bl.FactorGraph.from_tables([2], [((0,), [1, 3])], names=["變數"])
    bl.write(graph, tmp_path / "names.npz")
    process = start(tmp_path, "infer", "names.npz", PYTHONIOENCODING="latin-1")
    text, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")
    assert "\\u8b8a\\u6578" in text


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device that is always full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "beliefs", "methods"],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, "beliefs: error: No space left on device\n")


def test_errors_of_a_process(tmp_path: Path) -> None:
    process = start(tmp_path, "info", "absent.uai")
    text, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, text, errors) == (2, "", "beliefs: error: absent.uai: no such file\n")


def entrances() -> set[tuple[str, str]]:
    """Every name that the package takes from its kernels."""
    found: set[tuple[str, str]] = set()
    for path in SOURCE.rglob("*.py"):
        if "kernels" in path.relative_to(SOURCE).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("beliefs.kernels."):
                found.update((str(node.module), alias.name) for alias in node.names)
    return found


def test_warmup_compiles_every_kernel_that_the_package_calls(tmp_path: Path) -> None:
    code = (
        "import json, importlib, sys\n"
        "from beliefs.cli import commands\n"
        "from beliefs.kernels._jit import Kernel\n"
        "try: commands.main(['warmup', 'all', '--jobs', '1'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "names = json.loads(sys.argv[1])\n"
        "found = [(m, n, getattr(importlib.import_module(m), n)) for m, n in names]\n"
        # asked of this process, not of the disk, where other tests may have left what warm-up forgets
        "print(json.dumps([[m, n] for m, n, k in found if isinstance(k, Kernel) and not k.dispatcher.signatures]))\n"
    )
    process = start(tmp_path, json.dumps(sorted(entrances())), code=code)
    text, errors = process.communicate(timeout=4 * PATIENCE)
    assert (process.returncode, errors) == (0, "")
    *_, said, cold = text.splitlines()
    assert said.endswith(" s)")
    assert json.loads(cold) == []


def test_after_a_plain_warmup_usual_questions_find_their_kernels(tmp_path: Path) -> None:
    code = (
        "import warnings, numpy as np, beliefs as bl\n"
        "from beliefs.cli import commands\n"
        "from beliefs.kernels._jit import kernels\n"
        "try: commands.main(['warmup', '--jobs', '1'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "def known(): return {(k.__module__, k.__qualname__, str(s)) for k in kernels() for s in k.signatures}\n"
        "before = known()\n"
        "warnings.simplefilter('ignore', bl.ConvergenceWarning)\n"
        "alarm, grid = bl.datasets.load_bn('alarm'), bl.datasets.make_ising_grid(20, seed=0)\n"
        "bl.infer(alarm), bl.maximize(alarm), bl.marginal_map(alarm, ['HISTORY']), bl.sample(alarm, 2)\n"
        "[bl.infer(grid, method).mu for method in ('bp', 'trw', 'mean_field', 'junction_tree')]\n"
        "bl.maximize(grid, 'bp'), bl.maximize(grid, 'trw')\n"
        "x = [np.arange(12.0).reshape(6, 2)]\n"
        "bl.ChainCRF(max_iters=2).fit(x, [np.arange(6) % 2]).predict(x)\n"
        "print(sorted(known() - before))\n"
    )
    process = start(tmp_path, code=code)
    text, errors = process.communicate(timeout=4 * PATIENCE)
    assert (process.returncode, errors) == (0, "")
    assert text.splitlines()[-1] == "[]"


def test_a_part_is_compiled_alone_and_then_its_questions_compile_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    code = "from beliefs.cli import main; main()"
    ends = start(tmp_path, "warmup", "mean_field", "--jobs", "1", code=code, NUMBA_CACHE_DIR=str(cache))
    _, errors = ends.communicate(timeout=4 * PATIENCE)
    assert (ends.returncode, errors) == (0, "")
    kept = {path.name for path in cache.rglob("*.nbc")}
    assert any("mean_field" in str(path) for path in cache.rglob("*.nbc"))
    assert not any("pairwise.binary" in str(path) or "dual" in str(path) for path in cache.rglob("*.nbc"))
    code = "import beliefs as bl; bl.infer(bl.datasets.make_ising_grid(30, seed=0), 'mean_field')"
    asks = start(tmp_path, code=code, NUMBA_CACHE_DIR=str(cache))
    _, errors = asks.communicate(timeout=PATIENCE)
    assert (asks.returncode, errors) == (0, "")
    assert {path.name for path in cache.rglob("*.nbc")} == kept


@pytest.mark.parametrize("module", ["numpy", "click", "beliefs.inference.doors"])
def test_ctrl_c_while_modules_load(tmp_path: Path, module: str) -> None:
    code = (
        "import builtins, os, signal, time\n"
        "original = builtins.__import__\n"
        "def slow(name, *rest, **further):\n"
        f"    if name == {module!r}:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(1)\n"
        "    return original(name, *rest, **further)\n"
        "from beliefs.cli import main\n"
        "builtins.__import__ = slow\n"
        "main()\n"
    )
    process = start(tmp_path, "infer", "asia", code=code)
    text, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, text, errors) == (130, "", "beliefs: interrupted\n")
