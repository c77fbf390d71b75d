"""With the compiler off (``NUMBA_DISABLE_JIT=1``) every answer is the same, later, and without a warning.

A person who debugs a kernel relies on it; and where Python runs a kernel, a cell that is not there is an IndexError
instead of a number from elsewhere. Sums may be reassociated by the compiler, so answers agree up to rounding.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from answers import answers

TESTS = Path(__file__).resolve().parents[1]


def test_every_method_and_loss_answers_alike_without_the_compiler() -> None:
    env = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-W", "error", str(TESTS / "answers.py")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    interpreted, compiled = json.loads(done.stdout), answers()
    assert interpreted.keys() == compiled.keys()
    for question, numbers in compiled.items():
        tol = 1e-5 if question == "bp wide_rbm" else 1e-9  # whose messages are of single precision
        np.testing.assert_allclose(interpreted[question], numbers, rtol=tol, atol=tol, err_msg=question)
