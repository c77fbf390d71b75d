"""The double loop ends as it should: never oscillating, and CONVERGED where regions agree and only there."""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.base import Problem
from families import random_model, unary

PAIRS: list[tuple[int, ...]] = list(combinations(range(6), 2))
STATES = [3, 2, 3, 2, 3, 2]


def quietly(graph: bl.FactorGraph, method: str, **options: Any) -> bl.InferenceResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        return bl.infer(graph, method, trace_every=1, **options)


def apart(graph: bl.FactorGraph, result: bl.InferenceResult) -> float:
    """How far marginals of factors are from those of their variables."""
    worst = 0.0
    for f in range(graph.n_factors):
        table, scope = result.factor_marginal(f), graph.layout.scope(f).tolist()
        for axis, v in enumerate(scope):
            rest = tuple(a for a in range(table.ndim) if a != axis)
            worst = max(worst, float(np.abs(table.sum(axis=rest) - result.marginal(v)).max()))
    return worst


def test_what_leaves_a_saddle_slowly_does_not_oscillate() -> None:
    """Spins that attract each other in a small field: beliefs leave 1/2 in ever larger steps, and the value rises."""
    field = np.tile([1e-3, -1e-3], (8, 1))
    graph = bl.FactorGraph.pairwise(field, list(combinations(range(8), 2)), 0.3 * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    result = quietly(graph, "double_loop(regions=bethe)", max_iters=30)
    assert result.trace.residual[-1] == result.trace.residual.max()  # what is called an oscillation elsewhere
    assert (np.diff(result.trace.log_z) > 0).all() and result.status is bl.Status.MAX_ITERS
    regions = bl.RegionGraph.bethe(graph)
    state = bl.GBP(regions=regions).init(Problem(graph))
    assert bl.GBP().may_oscillate(state)  # messages may, and the double loop that takes over from them may not
    state.use("double_loop")
    assert not bl.GBP().may_oscillate(state)
    assert state.double is not None and not bl.DoubleLoop().may_oscillate(state.double)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scale", [100.0, 1000.0])
def test_saturated_beliefs_that_keep_still_have_not_converged(seed: int, scale: float) -> None:
    """They were called so with marginals 1 apart and values hundreds of nats from those of beliefs that agree."""
    graph = random_model(STATES, unary(6) + PAIRS, seed=seed, scale=scale)
    for regions in ("loops", "bethe"):
        result = quietly(graph, f"double_loop(regions={regions})", max_iters=60)
        assert result.status in (bl.Status.CONVERGED, bl.Status.MAX_ITERS)
        assert (np.diff(result.trace.log_z) > -1e-2).all()
        if result.converged:
            assert apart(graph, result) < 1e-7
            energy = float(result.mu @ graph.theta)  # these beliefs are of 0 and 1: the value is a score
            assert result.log_z == pytest.approx(energy, abs=1e-3)


def knotted() -> bl.FactorGraph:
    """Zeros that follow from others only together, so that regions agree on them ever more slowly."""
    rng, tables = np.random.default_rng(27), []
    for pair in combinations(range(9), 2):
        table = 2.0 * rng.normal(size=(3, 3))
        table[rng.random((3, 3)) < 0.25] = -np.inf
        table[0, 0] = 0.0  # something is possible
        tables.append((pair, table))
    return bl.FactorGraph.from_tables([3] * 9, tables, log=True)


def test_no_value_is_recorded_before_regions_agree() -> None:
    """The first inner loop takes more sweeps than a step has; the value that was recorded without it was too high."""
    values = quietly(knotted(), "double_loop(regions=bethe)", max_iters=40).trace.log_z
    assert (np.diff(values) > -1e-6).all()


def test_a_step_that_is_not_solved_is_not_called_converged() -> None:
    """A loose tolerance ended the run while its first maximisation was still under way."""
    first = quietly(knotted(), "double_loop(regions=bethe)", max_iters=1)
    loose = quietly(knotted(), "double_loop(regions=bethe)", tol=1e-2)
    assert loose.converged and loose.log_z > first.log_z + 1.0


def test_the_value_does_not_depend_on_who_looks() -> None:
    graph = random_model(STATES, unary(6) + PAIRS, seed=0, scale=100.0)
    for n in (3, 9, 20):
        found = []
        for every in (1, 2, None):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", bl.ConvergenceWarning)
                found.append(bl.infer(graph, "double_loop(regions=bethe)", max_iters=n, trace_every=every).log_z)
        assert found[0] == found[1] == found[2]


def test_what_zeros_forbid_together_has_no_bottomless_logs() -> None:
    """Logs of such beliefs doubled every few steps, up to 1e13 nats: nothing but rounding is left of the rest then."""
    rng, tables = np.random.default_rng(27), []
    for pair in combinations(range(10), 2):
        table = 0.1 * rng.normal(size=(3, 3))
        table[rng.random((3, 3)) < 0.25] = -np.inf
        table[0, 0] = 0.0
        tables.append((pair, table))
    method = bl.DoubleLoop(regions="bethe")
    state = method.init(Problem(bl.FactorGraph.from_tables([3] * 10, tables, log=True)))
    for _ in range(200):
        method.step(state)
    assert np.abs(state.concave_warm_start().multipliers).max() < 1e5
