"""Ctrl-C in the library is KeyboardInterrupt and nothing else, whenever it comes."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import beliefs as bl
from beliefs.interrupts import interrupts_wait
from beliefs.kernels import _jit

PROGRAM = """
import signal, sys, time, warnings
import beliefs as bl
from beliefs.datasets import make_ising_grid
from beliefs.kernels._jit import Twofold

Twofold.always_compiled = True  # all kernels are loaded by the first question
warnings.simplefilter("ignore")
graph = make_ising_grid(7, seed=0)
options = {"max_bytes": 20_000, "max_iters": 3} if sys.argv[1] == "auto" else {}

def ask():
    fresh = bl.FactorGraph.from_tables([2] * graph.n_vars, [(graph.layout.scope(f), graph.theta[graph.layout.cells(f)]
        .reshape(graph.layout.shape(f))) for f in range(graph.n_factors)], log=True)  # plans are kept on a layout
    bl.infer(fresh, sys.argv[1], **options)

ask()
started = time.perf_counter()
ask()
whole = time.perf_counter() - started
seen = 0
for turn in range(150):
    try:
        signal.setitimer(signal.ITIMER_REAL, max(1e-4, whole * (turn + 0.5) / 150))
        ask()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        seen += 1
print(seen)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="timers that send signals are a matter of Unix")
@pytest.mark.parametrize("method", ["auto", "mini_bucket(ibound=6)"])
def test_only_keyboard_interrupt(method: str) -> None:
    """150 interrupts, spread over the course of a call; anything else ends the program with its traceback."""
    program = "import signal; signal.signal(signal.SIGALRM, signal.default_int_handler)\n" + PROGRAM
    done = subprocess.run([sys.executable, "-c", program, method], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 30


COMPILED = """
import signal, sys, time
import numpy as np
from beliefs.kernels._jit import kernel

signal.signal(signal.SIGALRM, signal.default_int_handler)

@kernel
def largest(x, start, end):
    top = -np.inf
    for k in range(start, end):
        top = max(top, x[k])
    return top

def totals(x, ptr, out):
    for s in range(ptr.size - 1):
        top, total = largest(x, ptr[s], ptr[s + 1]), 0.0
        for k in range(ptr[s], ptr[s + 1]):
            total += np.exp(x[k] - top)
        out[s] = top + np.log(total)

kept = []  # kernels live as long as their process

def ask(fresh):
    compiled = kernel(totals)
    kept.append(compiled)
    if fresh:
        compiled.dispatcher._cache.flush()
    out = np.zeros(2)
    compiled(np.zeros(6), np.array([0, 2, 6]), out)
    assert np.allclose(out, np.log([2, 4]))

for fresh in (True, False):
    ask(fresh)
    started = time.perf_counter()
    ask(fresh)
    whole = time.perf_counter() - started
    seen, n = 0, 60 if fresh else 100
    for turn in range(n):
        try:
            signal.setitimer(signal.ITIMER_REAL, max(1e-4, whole * (turn + 0.5) / n))
            ask(fresh)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            seen += 1
        if not fresh:
            ask(True)
    assert seen > n // 3, seen
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="timers that send signals are a matter of Unix")
def test_interrupts_while_kernels_are_compiled_and_loaded(tmp_path: Path) -> None:
    """LLVM calls back into Python, where exceptions are printed and lost; and kernels work afterwards."""
    (tmp_path / "compiled.py").write_text(COMPILED)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(tmp_path / "compiled.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_code_in_which_an_interrupt_is_lost() -> None:
    """What Python runs when an object dies prints exceptions and loses them; NumPy makes others of those in its own."""
    found = []
    for path in sorted(Path(bl.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            dies = isinstance(node, ast.FunctionDef) and node.name == "__del__"
            called = isinstance(node, ast.Call) and ast.unparse(node.func).rsplit(".")[-1]
            keys = {word.arg for word in node.keywords} if isinstance(node, ast.Call) else set()
            if dies or called in ("finalize", "WeakSet", "WeakKeyDictionary", "WeakValueDictionary"):
                found.append(f"{path.name}:{node.lineno}")  # type: ignore[attr-defined]
            if called == "unique" and "axis" in keys:
                found.append(f"{path.name}:{node.lineno}")  # type: ignore[attr-defined]
    assert [place for place in found if not place.startswith("_compiler.py:")] == []  # numba's passes have that name


def test_what_cannot_be_done_by_halves_is_done_first() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_wait():
        signal.raise_signal(signal.SIGINT)
        done.append(1)
    assert done == [1] and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_waits_comes_where_it_may() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_wait() as come:
        come()
        signal.raise_signal(signal.SIGINT)
        done.append(1)
        come()
        done.append(2)
    assert done == [1] and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_does_not_hide_an_interrupt_that_waits() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_wait():
        signal.raise_signal(signal.SIGINT)
        raise ImportError("half-way")
    with pytest.raises(ImportError), interrupts_wait():
        raise ImportError("half-way")


def test_other_handlers_are_told_and_other_threads_left_alone() -> None:
    told: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *_: told.append("handler"))
    try:
        with interrupts_wait():
            signal.raise_signal(signal.SIGINT)
            told.append("within")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with interrupts_wait():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert told == ["within", "handler"]

    def elsewhere() -> None:
        with interrupts_wait():
            told.append("elsewhere")

    worker = threading.Thread(target=elsewhere)
    worker.start()
    worker.join()
    assert told[-1] == "elsewhere"


def test_importing_the_compiler_is_no_part_of_a_time_limit_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    class Waiting:
        def __enter__(self) -> None:
            told.append("begin")

        def __exit__(self, *_: object) -> None:
            told.append("end")

    monkeypatch.setattr(_jit, "compiling", told.append)
    monkeypatch.setattr(_jit, "interrupts_wait", Waiting)
    monkeypatch.setattr("numba.core.event.register", lambda *_: None)
    _jit._numba.__wrapped__()
    assert told == [True, "begin", "end", False]
