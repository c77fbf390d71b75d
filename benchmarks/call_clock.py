"""How long a whole call takes, and how much of that its kernels are: processor seconds of the calling thread.

The call is timed alone, the best of a few. What the kernels take is found in another run under the profiler, which
counts them apart (calling them included); matrix products of features and weights count as kernels.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable
from dataclasses import dataclass

PRODUCTS = {("features.py", "theta"), ("features.py", "add_pullback")}
"""Functions besides kernels that do little but arithmetic: their own time counts."""


@dataclass(frozen=True)
class Timing:
    """Seconds of a call and of its kernels."""

    call: float
    kernels: float

    @property
    def ratio(self) -> float:
        """The call over its kernels."""
        return self.call / self.kernels if self.kernels > 0 else float("inf")


def timed(run: Callable[[], object], repeats: int = 3) -> Timing:
    """Return the timing of a call; a first one loads kernels and is not counted."""
    run()
    calls, inside = [], []
    for _ in range(repeats):
        start = time.thread_time()
        run()
        calls.append(time.thread_time() - start)
        inside.append(kernel_seconds(run))
    return Timing(min(calls), min(inside))


def kernel_seconds(run: Callable[[], object]) -> float:
    """Return the seconds that a call spends in kernels and products."""
    profile = cProfile.Profile(time.thread_time)
    profile.runcall(run)
    counted = pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
    return sum(own for (path, _, name), (_, _, own, _, _) in counted if _is_counted(path.replace("\\", "/"), name))


def _is_counted(path: str, name: str) -> bool:
    compiled = "/beliefs/kernels/" in path and not path.endswith("/_jit.py")
    return compiled or any(path.endswith(f"/beliefs/model/{file}") and name == function for file, function in PRODUCTS)
