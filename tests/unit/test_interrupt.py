"""Ctrl-C in the library is KeyboardInterrupt and nothing else, whenever it comes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30
