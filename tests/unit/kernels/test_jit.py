"""Compiled kernels are cached on disk, and a change in a kernel that they call makes them compile again."""

import os
import subprocess
import sys
from pathlib import Path

CALLEE = "from beliefs.kernels._jit import kernel\n\n\n@kernel\ndef inner(x):\n    return x + {step}\n"
CALLER = (
    "from callee import inner\n\nfrom beliefs.kernels._jit import kernel\n\n\n@kernel\ndef outer(x):\n"
    "    return 10 * inner(x)\n"
)
RUN = "from caller import outer; print(outer(1), sum(outer.stats.cache_hits.values()))"


def run(folder: Path) -> list[str]:
    env = os.environ | {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, env=env, check=True)
    return done.stdout.split()


def test_cache_is_used_and_follows_the_kernels_that_are_called(tmp_path):
    (tmp_path / "callee.py").write_text(CALLEE.format(step=1))
    (tmp_path / "caller.py").write_text(CALLER)
    assert run(tmp_path) == ["20", "0"]
    assert run(tmp_path) == ["20", "1"], "the second process reads the cache"
    (tmp_path / "callee.py").write_text(CALLEE.format(step=22))
    assert run(tmp_path) == ["230", "0"], "the caller holds the callee's code and must be compiled again"
