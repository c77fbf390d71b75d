"""The temperature of each variable: the question's own, or the user's for a power sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.base import Bound, Problem, Task
from beliefs.model.factor import numeric
from beliefs.options import check_option
from beliefs.typing import Floats

_COLDEST = 1e-6  # beyond, exponents overflow where the maximum would do

__all__ = ["chosen_temperatures", "power_sum_bound"]


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
    ok = bool(((warm >= _COLDEST) & (warm <= 1 / _COLDEST)).all())
    check_option(ok, "tau", f"0 or between {_COLDEST:g} and {1 / _COLDEST:g}", tau)
    return given


def power_sum_bound(problem: Problem, tau: Floats) -> Bound:
    """Return what the exact power sum says about log Z: a power sum grows with its temperatures."""
    hidden = tau[~problem.graph.layout.observed]
    if (hidden == 1).all():
        return Bound.EXACT
    return Bound.LOWER if (hidden <= 1).all() else Bound.UPPER if (hidden >= 1).all() else Bound.ESTIMATE
