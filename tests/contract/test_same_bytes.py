"""The same question has the same answer to the last bit: asked again, with any number of threads, on any machine.

Each test runs ``same_bytes.py`` in an interpreter of its own: once for this machine in the everyday suite; in the long
one for other instruction sets, as far as this machine can run them, and with the plain version of every loop of which
there are two. These compile all kernels anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from llvmlite import binding

import same_bytes

# What a processor must have to run another's code, besides features that can be switched off by name.
NEEDS = {
    "x86-64": (),
    "haswell": ("avx2", "fma", "bmi2"),
    "skylake-avx512": ("avx512f", "avx512vl", "avx512dq", "avx512bw", "avx512cd"),
    "znver4": ("avx512f", "avx512vl", "avx512dq", "avx512bw", "avx512cd"),
}


def run(*words: str, **settings: str) -> dict[str, Any]:
    program = Path(same_bytes.__file__)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(program.parent), *sys.path]), **settings)
    done = subprocess.run(
        [sys.executable, str(program), *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@cache
def here() -> dict[str, Any]:
    """What happens on this machine."""
    return run()


def test_same_bytes() -> None:
    """No kernel cares where its arrays lie; answers and fits stay with a disturbed heap and with two threads."""
    found = here()
    assert found["unstable"] == [] and found["changed"] == []
    assert len(found["outcomes"]) > 1000 and len(found["answers"]) > 200


@pytest.mark.long
@pytest.mark.parametrize("name", NEEDS)
def test_other_instruction_sets(name: str, tmp_path: Path) -> None:
    has = binding.get_host_cpu_features()
    missing = [feature for feature in NEEDS[name] if not has.get(feature, False)]
    if missing:
        pytest.skip(f"this machine cannot run code for {name}: it has no {', '.join(missing)}")
    without = ",".join(f"-{feature}" for feature, present in has.items() if not present) if NEEDS[name] else ""
    found = run(NUMBA_CPU_NAME=name, NUMBA_CPU_FEATURES=without, NUMBA_CACHE_DIR=str(tmp_path))
    assert found["unstable"] == [] and found["changed"] == []


@pytest.mark.long
def test_plain_loops_do_what_simd_does(tmp_path: Path) -> None:
    plain = run("plain", NUMBA_CACHE_DIR=str(tmp_path))
    assert plain["answers"] == here()["answers"]
    outcomes = here()["outcomes"]
    assert [into for into, out in plain["outcomes"].items() if outcomes.get(into, out) != out] == []
