"""The keywords of every door, and what they may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from beliefs.driver import Limits, Progress
from beliefs.elsewhere import meant_option
from beliefs.errors import ModelError, UnsupportedError
from beliefs.options import MANY, check_integer
from beliefs.typing import Evidence

__all__ = ["Options", "check_options"]


class Options(TypedDict, total=False):
    """Keywords of every door; None or absent means the method's own default.

    ``evidence``: ``{variable: state}``, as if asked about ``model.condition(evidence)``; ``tol``: the residual at which
    to stop; ``max_iters``; ``time_limit``: seconds from the call; ``max_bytes``: memory budget (default: half of what
    is available); ``seed``; ``init``: an earlier result to start from; ``callback``: called after each step, returns
    True to stop; ``progress``: show a progress line; ``threads``: how many a method may use, None means all (it changes
    no byte of the answer); ``trace_every``: steps between recorded values. Exact methods take one step, whatever
    ``tol`` and ``max_iters`` are.

    When ``time_limit`` is over an iterative method returns what it has, with the status TIME_LIMIT. A method of one
    step has nothing before its end: if it is still at work a tenth of the limit and half a second later, that is a
    BudgetError. ``auto`` tries exact inference where that is predicted to take no more than its share of the time, and
    answers with bounds if it takes longer after all, and with a first iterate and what single tables say where there is
    no time for more. Compiling is not counted; ``beliefs warmup`` does it beforehand.
    """

    evidence: Evidence | None
    tol: float | None
    max_iters: int | None
    time_limit: float | None
    max_bytes: int | None
    seed: int | None
    init: Any
    callback: Callable[[Progress], object] | None
    progress: bool
    threads: int | None
    trace_every: int | None


def check_options(options: Options, *, batch: bool = False, also: tuple[str, ...] = ()) -> None:
    """Refuse unknown keywords and values that make no sense; machines of a batch have no evidence.

    ``also``: keywords of the door's own, which may have been meant.
    """
    if batch and options.get("evidence") is not None:
        raise UnsupportedError("evidence is for single models; a batch of machines is given its inputs")
    for name, value in options.items():
        check = _CHECKS.get(name)
        if check is None:
            known = [*also, *_CHECKS]
            hint = meant_option(name, known) or f"; known: {', '.join(known)}"
            raise TypeError(
                f"no keyword {name!r}{hint.removesuffix('?')}; options of a method are in its text, 'bp(damping=0.3)'"
            )
        if value is not None:
            check(value)


def _any(value: object) -> None:
    """Leave a value to those who use it."""


def _function(value: object) -> None:
    if not callable(value):
        raise ModelError(f"callback must be a function, found {value!r}")


_CHECKS: dict[str, Callable[[Any], object]] = {
    "evidence": _any,
    "tol": lambda value: Limits(tol=value),
    "max_iters": lambda value: Limits(max_iters=value),
    "time_limit": lambda value: Limits(time_limit=value),
    "max_bytes": lambda value: check_integer("max_bytes", value, 0, none=True),
    "seed": lambda value: check_integer("seed", value, 0, none=True),
    "init": _any,
    "callback": _function,
    "progress": _any,
    "threads": lambda value: check_integer("threads", value, 1, MANY, none=True),
    "trace_every": lambda value: Limits(trace_every=value),
}
"""What each of the :class:`Options` may be, where it is not None."""
