"""How much memory a question may use unless the caller says otherwise, and the error where it needs more."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

from beliefs.errors import BudgetError

__all__ = ["available_bytes", "besides", "default_budget", "over_budget", "readable_bytes"]

_SHARE = 0.5  # of what is available: room for results, copies and other programs
_FRESH = 1.0  # seconds: asking the system costs more than a small inference, so its answer is kept this long

_last: tuple[float, int] = (-_FRESH, 0)


def default_budget() -> int:
    """Return half of the memory available now, containers' limits respected."""
    global _last
    now = time.monotonic()
    if now - _last[0] >= _FRESH:
        _last = (now, int(_SHARE * available_bytes()))
    return _last[1]


def available_bytes() -> int:
    """Return the memory this process could still get: the machine's, or what is left of its control group."""
    free = _machine_bytes()
    for limit_file, used_file in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        limit, used = _number(limit_file), _number(used_file)
        if limit is not None and used is not None:
            free = min(free, max(0, limit - used))
    return free


def _machine_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return 4 * 2**30


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def readable_bytes(count: float) -> str:
    """Return ``1.5 GB`` for ``1.5e9``."""
    if count == math.inf:
        return "more than 1e293 PB"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} PB"


def over_budget(demand: str, needed: float, limit: float, advice: str, purpose: str = "") -> BudgetError:
    """Return the error of what does not fit: who needs how many bytes, what for, the limit, and what to do.

    Examples
    --------
    >>> print(over_budget("bp needs", 2e9, 1e9, "Raise max_bytes", " for messages"))
    bp needs 2 GB for messages; the limit is 1 GB. Raise max_bytes
    """
    error = BudgetError(f"{demand} {readable_bytes(needed)}{purpose}; the limit is {readable_bytes(limit)}. {advice}")
    error.parts = demand, needed, limit, advice, purpose
    return error


def besides(error: BudgetError, held: float, what: str) -> BudgetError:
    """Return the error with so many bytes more that are ``held`` besides, and that the limit is for as well.

    Examples
    --------
    >>> print(besides(over_budget("bp needs", 2e9, 1e9, "Raise max_bytes"), 5e8, "the model"))
    bp needs 2.5 GB with the model; the limit is 1.5 GB. Raise max_bytes
    """
    if error.parts is None:
        return error
    demand, needed, limit, advice, purpose = error.parts
    return over_budget(demand, needed + held, limit + held, advice, f"{purpose} with {what}")
