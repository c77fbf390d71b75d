"""Dual block descent over regions: plain numbers against logs, and the dual against full tables in NumPy."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.base import Problem
from beliefs.inference.clusters.concave_entropy import covering_numbers
from beliefs.inference.regions.choice import chosen_plan
from beliefs.inference.regions.concave import ConcaveState
from beliefs.inference.regions.double_loop import DoubleLoopState
from beliefs.inference.regions.plan import RegionPlan
from families import family, grid_pairs, random_model, unary


def small_grid(scale: float, zero: bool = True, card: tuple[int, ...] = (2, 3, 2, 3, 2, 2)) -> bl.FactorGraph:
    """A grid of 2x3 with a long edge, maybe with a hard zero."""
    graph = random_model(list(card), unary(6) + grid_pairs(2, 3) + [(0, 4)], seed=6, scale=scale)
    theta = graph.theta.copy()
    theta[graph.layout.cell_ptr[7] + 1] = -np.inf if zero else 0.0
    return graph.with_theta(theta)


def numbers(graph: bl.FactorGraph, plan: RegionPlan, which: str) -> Any:
    """Counting numbers: the regions' own positive ones, those that cover once, or some with odd powers."""
    if which == "positive":
        return np.maximum(plan.regions.counting, 0.0)
    if which == "covering":
        return covering_numbers(graph.layout, plan.regions.scopes, plan.regions.n_outer)
    return np.where(np.arange(plan.regions.n_regions) < plan.regions.n_outer, 0.6, 0.3)


@pytest.mark.parametrize("scale", [0.5, 20.0, 300.0])
@pytest.mark.parametrize("which", ["positive", "covering", "odd"])
@pytest.mark.parametrize("word", ["loops", "bethe", "cvm"])
def test_plain_descent_equals_logs(scale: float, which: str, word: str) -> None:
    """Sweep by sweep, also where a range turns out too large for plain numbers."""
    for card in ((2, 3, 2, 3, 2, 2), (2,) * 6):
        graph = small_grid(scale, card=card)
        plan = chosen_plan(Problem(graph), word, "convex_gbp")
        counting = numbers(graph, plan, which)
        one, other = (ConcaveState(Problem(graph), plan, counting) for _ in range(2))
        other.needs_logs = True
        for state in (one, other):
            state.aim(np.zeros(plan.n_cells))
        for _ in range(70):
            assert one.sweep() == pytest.approx(other.sweep(), abs=1e-9)
            assert one.dual()[0] == pytest.approx(other.dual()[0], rel=1e-11)
        assert (one.products is None) == one.needs_logs
        if scale == 0.5:
            assert not one.needs_logs
        if scale == 300.0:
            assert one.needs_logs
        assert one.primal() == pytest.approx(other.primal(), rel=1e-10)
        np.testing.assert_allclose(one.mu_var(), other.mu_var(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("word", ["loops", "bethe"])
def test_plain_double_loop_equals_logs(word: str) -> None:
    graph = small_grid(1.0)
    plan = chosen_plan(Problem(graph), word, "double_loop")
    one, other = (DoubleLoopState(Problem(graph), plan, plan.regions.counting) for _ in range(2))
    other.needs_logs = True
    for _ in range(12):
        assert one.climb() == pytest.approx(other.climb(), abs=1e-7)  # the inner loop may stop a sweep apart
    assert not one.needs_logs
    assert one.latest() == pytest.approx(other.latest(), abs=1e-9)


@pytest.mark.parametrize("scale", [1.0, 300.0])
@pytest.mark.parametrize("word", ["loops", "bethe", "cvm"])
def test_the_dual_is_its_formula(word: str, scale: float) -> None:
    """With full tables over all variables of each region, at the multipliers that some sweeps have left."""
    graph = family("higher_order") if word == "cvm" else small_grid(scale)
    plan = chosen_plan(Problem(graph), word, "convex_gbp")
    regions, card = plan.regions, graph.layout.card
    counting = np.where(np.arange(regions.n_regions) % 2 == 0, 1.0, 0.4)
    counting[-1] = 0.0
    state = ConcaveState(Problem(graph), plan, counting)
    state.aim(np.zeros(plan.n_cells))
    state.sweep()
    state.sweep()
    every = [int(k) for k in card]

    def wide(values: Any, scope: Any) -> Any:
        """The table with an axis for every variable of the model."""
        ordered = values.reshape([every[v] for v in scope]).transpose(np.argsort(scope))
        return ordered.reshape([k if v in scope else 1 for v, k in enumerate(every)])

    tables: list[Any] = [np.zeros([1] * len(every)) for _ in range(regions.n_regions)]
    axes, found = plan.axes, state.log_multipliers()
    for q in range(int(plan.tables.table_ptr[regions.n_outer])):
        r = int(np.searchsorted(plan.tables.table_ptr, q, side="right")) - 1
        cells = state.potentials[plan.tables.cell_ptr[q] : plan.tables.cell_ptr[q + 1]]
        tables[r] = tables[r] + wide(cells, axes[q])
    for i, inner in enumerate(state.pairs.inner.tolist()):
        for entry in range(state.pairs.ptr[i], state.pairs.ptr[i + 1]):
            size = int(np.prod([every[v] for v in regions.scopes[inner]]))
            own = found[state.pairs.start[entry] : state.pairs.start[entry] + size]
            r = int(state.pairs.region[entry])
            tables[r] = tables[r] + wide(own, regions.scopes[inner])
            tables[inner] = tables[inner] - wide(own, regions.scopes[inner])
    total = state.constant
    for r in range(regions.n_regions):
        table = np.broadcast_to(tables[r], [k if v in regions.scopes[r] else 1 for v, k in enumerate(every)]).copy()
        if r >= regions.n_outer:
            begin, end = (int(plan.tables.cell_ptr[plan.tables.table_ptr[k]]) for k in (r, r + 1))
            zero = state.inner_zero[begin - state.n_outer_cells : end - state.n_outer_cells]
            table[wide(zero, regions.scopes[r])] = -np.inf
        c = float(state.weight[r])
        total += c * np.logaddexp.reduce(table / c, axis=None) if c else table.max()
    assert state.dual()[0] == pytest.approx(total, rel=1e-11)


def test_the_double_loop_goes_on_where_a_maximum_lies_at_zero() -> None:
    """Hard zeros that only all factors together forbid: such beliefs fall ever more slowly, and no tolerance may run
    ahead of them."""
    rng = np.random.default_rng(5)
    tables = [
        ((u, v), np.where(rng.random((2, 2)) < 0.25, -np.inf, 0.3 * rng.normal(size=(2, 2))))
        for u, v in combinations(range(4), 2)
    ]
    graph = bl.FactorGraph.from_tables([2] * 4, tables, log=True)
    found = bl.infer(graph, "double_loop(regions=bethe)", trace_every=1)
    assert found.converged
    assert (np.diff(found.trace.log_z)[1:] >= -1e-7).all()  # the first inner loop takes more than a step
    messages = bl.infer(graph, "bp(damping=0.5)", max_iters=100_000)
    assert found.log_z == pytest.approx(messages.log_z, abs=1e-3)
