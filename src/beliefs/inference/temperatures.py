"""The temperature of each variable: the question's own, or the user's for a power sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.base import Bound, Problem, Task
from beliefs.model.factor import numeric
from beliefs.options import check_option, is_number
from beliefs.typing import Floats, Ints

COLDEST = 1e-6  # beyond, exponents overflow where the maximum would do

__all__ = ["COLDEST", "check_temperature", "chosen_stages", "chosen_temperatures", "power_sum_bound"]


def check_temperature(name: str, value: object) -> None:
    """Refuse what is neither 0 nor a number between the coldest and the warmest temperature."""
    ok = is_number(value) and (value == 0 or COLDEST <= value <= 1 / COLDEST)  # type: ignore[operator]
    check_option(ok, name, f"0 or between {COLDEST:g} and {1 / COLDEST:g}", value)


def chosen_temperatures(problem: Problem, tau: Any) -> Floats:
    """Return ``(n_vars,)``: ``tau`` checked, or those of the question (1 to sum, 0 to maximise) for None."""
    if tau is None:
        return problem.tau
    if problem.task is not Task.INFER:
        raise ModelError("tau is fixed by maximize and marginal_map; give it to infer only")
    given = numeric(tau, "tau")
    n = problem.graph.n_vars
    check_option(given.shape == (n,), "tau", f"of shape ({n},)", given.shape)
    check_option(bool((given >= 0).all() and np.isfinite(given).all()), "tau", "finite and at least 0", tau)
    warm = given[given > 0]
    ok = bool(((warm >= COLDEST) & (warm <= 1 / COLDEST)).all())
    check_option(ok, "tau", f"0 or between {COLDEST:g} and {1 / COLDEST:g}", tau)
    return given


def chosen_stages(problem: Problem, tau: Floats, stages: Any) -> Ints | None:
    """Return who is eliminated first, ``(n_vars,)``, lower stages before higher; None: any order gives the same.

    ``stages`` None: the warmest first, as sums stand inside the maximum of marginal MAP. Within a stage all
    temperatures must be equal, else the value would depend on the heuristic that orders it.
    """
    if problem.task is not Task.INFER:
        check_option(stages is None, "stages", "None for maximize and marginal_map, which fix them", stages)
        return None
    free = ~problem.graph.layout.observed
    warm = tau[free]
    mixed = warm.min(initial=np.inf) < warm.max(initial=-np.inf)
    if stages is None:
        return np.where(free, np.searchsorted(-np.unique(warm)[::-1], -tau), 0) if mixed else None
    given = np.asarray(stages)
    ok = given.shape == tau.shape and given.dtype.kind in "iu" and not (given < 0).any()
    check_option(ok, "stages", f"integers of at least 0, of shape {tau.shape}", stages)
    if not mixed:
        return None
    for stage in np.unique(given[free]):
        inside = tau[free & (given == stage)]
        if inside.min() < inside.max():
            raise ModelError(f"temperatures within a stage must be equal, found {inside.min():g} and {inside.max():g}")
    return given.astype(np.int64)


def power_sum_bound(problem: Problem, tau: Floats) -> Bound:
    """Return what the exact power sum says about log Z: a power sum grows with its temperatures."""
    hidden = tau[~problem.graph.layout.observed]
    if (hidden == 1).all():
        return Bound.EXACT
    return Bound.LOWER if (hidden <= 1).all() else Bound.UPPER if (hidden >= 1).all() else Bound.ESTIMATE
