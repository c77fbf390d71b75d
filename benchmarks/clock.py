"""One rule of timing for everybody: the best of three runs, or of as many as a second allows, each under a cap.

Standard library only, because the processes that run the peers import it too.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

LONG = 20.0  # seconds: a run beyond this is not repeated
FEW, MANY = 3, 30  # runs: at least and at most
ENOUGH = 1.0  # seconds together: no more repeats after that, once there are FEW


def best_of(
    run: Callable[[Any], Any],
    prepare: Callable[[int], Any] = lambda repeat: None,
    cap: float = 0.0,
    now: Callable[[], float] = time.perf_counter,
) -> tuple[dict[str, Any], Any]:
    """Return ``{"first", "best", "repeats"}`` in seconds and the value of the last run.

    ``prepare(repeat)`` makes the argument of each run and is not timed; ``now`` is the clock. With a cap, a run that
    takes longer ends the process (see :func:`give_up_after`): compiled code cannot be interrupted otherwise.
    """
    seconds: list[float] = []
    while True:
        argument = prepare(len(seconds))
        give_up_after(cap)
        start = now()
        value = run(argument)
        seconds.append(now() - start)
        give_up_after(0.0)
        enough = len(seconds) >= FEW and (sum(seconds) > ENOUGH or len(seconds) >= MANY)
        if enough or seconds[-1] > LONG:
            return {"first": seconds[0], "best": min(seconds), "repeats": len(seconds)}, value
        del argument, value  # so that the next run may have their memory


def least(run: Callable[[], object], repeats: int, now: Callable[[], float] = time.perf_counter) -> float:
    """Return the best time of so many runs, in seconds, whatever they take."""
    seconds = []
    for _ in range(repeats):
        start = now()
        run()
        seconds.append(now() - start)
    return min(seconds)


def give_up_after(seconds: float) -> None:
    """Let the operating system end this process after so many seconds; 0 takes the order back."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
