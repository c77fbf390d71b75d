"""Certified numbers hold to the last digit: potentials up to 5,000 nats, hard zeros, any options, exact truth.

A bound that is proved for real numbers and computed with floats may end up on the wrong side of the truth. The models
here are small enough for :mod:`exact_scores`, which is right to 1e-13 nats, and hard enough to drive weights and cost
shifts far: without widening, four in ten of the bound methods below are wrong somewhere, the worst by 3e-4 nats.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import beliefs as bl
import exact_scores
from beliefs.inference.base import Problem
from beliefs.inference.registry import METHODS
from beliefs.inference.search.cutset import CutsetSearch
from beliefs.inference.text import parse_method
from families import grid_pairs, unary

SEEDS = (*range(24), 1122, 1127, 1194, 1226, 1256)  # the last five took the longest strides before they were bounded
EXACT = 1e-13  # of all potentials together: what a claim to be EXACT may be wrong by
SUMS = [
    "wmb(ibound=1)",
    "wmb(ibound=2, weight_step=10)",
    "wmb(ibound=1, backtrack=False, step_size=0.5)",
    "wmb(ibound=1, side=lower)",
    "wmb(ibound=2, side=lower)",
    "wmb(ibound=1, side=lower, weight_step=10)",
    "wmb(ibound=2, side=lower, weight_step=10, backtrack=False)",
    "mini_bucket(ibound=1)",
    "mini_bucket(ibound=2, partition=content)",
    "gdd",
    "gdd(ibound=2)",
    "gdd(solver=lbfgs)",
    "gdd(weights=False)",
    "gdd(local_steps=3, floor=0, spread=0)",
    "trw",
    "convex_gbp",
    "convex_gbp(counting=covering)",
    "mean_field",
    "mean_field(structure=tree, restarts=2)",
    "gibbs(chains=8)",
    "auto",
]
MAXIMA = [
    "wmb(ibound=1)", "wmb(ibound=2, smoothing=0)", "mini_bucket(ibound=1)", "gdd", "gdd(ibound=2)",
    "gdd(solver=lbfgs)", "local_search", "trw",
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A model, the exact scores of its joint states, and what its potentials add up to."""

    graph: bl.FactorGraph
    scores: exact_scores.Scores
    size: float


@cache
def case(seed: int) -> Case:
    """A grid, a ring with chords, a complete graph, or factors of two and three variables; some have hard zeros."""
    rng = np.random.default_rng(seed)
    kind, card = rng.integers(0, 5), [2] * 9
    scopes = unary(9) + grid_pairs(3, 3)
    if kind == 1:
        card, scopes = [3] * 5, unary(5) + [(u, v) for u in range(5) for v in range(u)]
    elif kind == 2:
        card = [int(k) for k in rng.integers(2, 4, 6)]
        scopes = [tuple(int(v) for v in rng.choice(6, rng.integers(2, 4), replace=False)) for _ in range(7)]
    elif kind == 3:
        card = [2] * 8
        scopes = [(v, (v + 1) % 8) for v in range(8)] + [(v, (v + 3) % 8) for v in range(4)] + unary(8)
    elif kind == 4:
        card, scopes = [2] * 6, [(u, v) for u in range(6) for v in range(u)]
    scale, zeros = rng.choice([1.0, 30.0, 500.0, 5000.0, 5000.0]), rng.choice([0.0, 0.0, 0.1, 0.3])
    law, tables = rng.integers(0, 3), []
    for scope in scopes:
        shape = [card[v] for v in scope]
        if law == 0:
            table = rng.uniform(-scale, scale, shape)
        elif law == 1:
            table = scale * rng.choice([-1.0, 0.0, 1.0], shape) + rng.normal(size=shape)
        else:
            table = -scale * rng.random(shape)
        hard = np.asarray(rng.random(shape) < zeros)
        hard.flat[0] = False
        tables.append((scope, np.where(hard, -np.inf, table)))
    graph = bl.FactorGraph.from_tables(card, tables, log=True)
    size = sum(float(np.abs(table[table > -np.inf]).max()) for _, table in tables)
    return Case(graph, exact_scores.joint_scores(graph), size)


def budgets(seed: int, method: str) -> dict[str, Any]:
    """How long to go on, or for ``auto`` how little memory: so little that exact inference does not fit."""
    if method == "auto":
        return {"max_iters": 12, "max_bytes": 2000}
    return {"max_iters": 2 if method == "local_search" else int(np.random.default_rng(seed).choice([0, 1, 5, 30, 100]))}


@pytest.fixture(autouse=True)
def quiet() -> None:
    warnings.simplefilter("ignore", bl.ConvergenceWarning)


@pytest.mark.parametrize("method", SUMS)
def test_bounds_on_sums_hold_exactly(method: str) -> None:
    for seed in SEEDS:
        now = case(seed)
        result = bl.infer(now.graph, method, **budgets(seed, method))
        if result.bound is bl.Bound.EXACT:
            assert abs(exact_scores.above_sum(result.log_z, now.scores)) <= EXACT * now.size + exact_scores.ERROR, seed
            continue
        lower = max(result.log_lower, result.trace.lower.max())
        upper = min(result.log_upper, result.trace.upper.min())
        assert exact_scores.above_sum(lower, now.scores) <= exact_scores.ERROR, seed
        assert exact_scores.above_sum(upper, now.scores) >= -exact_scores.ERROR, seed
        if result.bound in (bl.Bound.UPPER, bl.Bound.LOWER):
            assert result.log_z == (result.log_upper if result.bound is bl.Bound.UPPER else result.log_lower)


@pytest.mark.parametrize("method", SUMS)
def test_bounds_on_sums_hold_where_factors_cancel(method: str) -> None:
    """What is left of 1e12 and -1e12 is small, and wrong by 1e-4."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        scopes = [*unary(4), *grid_pairs(2, 2)]
        tables = [(s, rng.choice([0.0, 1e12, -1e12, 1e5]) + rng.uniform(-1, 1, [2] * len(s))) for s in scopes]
        tables += [(s, -table.flat[0] + rng.uniform(-1, 1, table.shape)) for s, table in tables]
        graph = bl.FactorGraph.from_tables([2] * 4, tables, log=True)
        scores = exact_scores.joint_scores(graph)
        size = sum(float(np.abs(table).max()) for _, table in tables)
        result = bl.infer(graph, method, **budgets(seed, method))
        room = EXACT * size * (result.bound is bl.Bound.EXACT) + exact_scores.ERROR
        assert exact_scores.above_sum(max(result.log_lower, result.trace.lower.max()), scores) <= room, seed
        assert exact_scores.above_sum(min(result.log_upper, result.trace.upper.min()), scores) >= -room, seed


@pytest.mark.parametrize("method", MAXIMA)
def test_bounds_on_maxima_hold_exactly_and_proofs_up_to_rounding(method: str) -> None:
    n_proofs = 0
    for seed in SEEDS:
        now = case(seed)
        query = [int(v) for v in np.random.default_rng(seed).choice(now.graph.n_vars, 2, replace=False)]
        best = bl.maximize(now.graph, method, **budgets(seed, method))
        mixed = bl.marginal_map(now.graph, query, method, **budgets(seed, method))
        n_proofs += (best.gap == 0.0) + (mixed.gap == 0.0)
        slack = exact_scores.ERROR + EXACT * now.size * np.array([best.gap == 0.0, mixed.gap == 0.0])
        assert exact_scores.above_maximum(best.log_upper, now.scores) >= -slack[0], seed
        assert exact_scores.above_query(mixed.log_upper, now.scores, query) >= -slack[1], seed
    assert n_proofs > 0, "widening must not keep both ends from meeting"


@pytest.mark.parametrize("card", [2, 3])
@pytest.mark.parametrize("scale", [1e-9, 1.0])
def test_states_that_are_nearly_best_are_not_proved_best(card: int, scale: float) -> None:
    """Messages on a tree are exact: states are told apart wherever rounding does not hide which is better."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        near = scale * np.round(rng.normal(size=(5, card))) + 1e-10 * rng.uniform(size=(5, card))
        edges = [(v, v + 1) for v in range(4)]
        tables = [*zip(unary(5), near), *((edge, scale * np.round(rng.normal(size=(card, card)))) for edge in edges)]
        graph = bl.FactorGraph.from_tables([card] * 5, tables, log=True)
        scores = exact_scores.joint_scores(graph)
        for method in ("bp", "trw"):
            best = bl.maximize(graph, method)
            assert best.gap == 0.0
            assert abs(exact_scores.above_maximum(best.log_score, scores)) <= 1e-13 * max(1.0, scale * 20), seed


@pytest.mark.parametrize("heats", [(0.2, 0.7, 1.0), (1.0, 1.5, 3.0)])
@pytest.mark.parametrize("kind", [bl.Elimination, bl.WMB, bl.GDD])
def test_power_sums_as_bounds_hold_exactly(kind: Any, heats: tuple[float, ...]) -> None:
    for seed in SEEDS:
        now = case(seed)
        tau = tuple(np.random.default_rng(seed).choice(heats, now.graph.n_vars))
        options = {"ibound": 1, "side": "lower" if max(heats) <= 1 else "upper"} if kind is bl.WMB else {}
        result = bl.infer(now.graph, kind(tau=tau, **options))
        if result.bound is not bl.Bound.EXACT:
            assert exact_scores.above_sum(result.log_lower, now.scores) <= exact_scores.ERROR, seed
            assert exact_scores.above_sum(result.log_upper, now.scores) >= -exact_scores.ERROR, seed


@pytest.mark.parametrize("method", [m for m in SUMS if m != "auto"])
def test_bounds_hold_exactly_where_most_variables_are_isolated(method: str) -> None:
    """The logs of their numbers of states are terms that round like others."""
    for states in (2, 4, 5, 16):
        graph = bl.FactorGraph.from_tables([states] * 1000, [])
        result = bl.infer(graph, method, max_iters=0)
        truth = 1000 * np.log(np.longdouble(states))
        if result.bound is not bl.Bound.EXACT:
            assert result.log_lower <= truth <= result.log_upper
        assert result.log_z == pytest.approx(float(truth), rel=1e-11)


def test_terms_of_a_cutset_hold_exactly() -> None:
    method, found = CutsetSearch(log2_cells=3.0), 0
    for seed in SEEDS:
        now = case(seed)
        try:
            state = method.init(Problem(now.graph))
        except bl.UnsupportedError:
            continue
        for _ in range(3):
            method.step(state)
            assert exact_scores.above_sum(method.value(state).lower, now.scores) <= exact_scores.ERROR, seed
        found += math.isfinite(method.value(state).lower)
    assert found > len(SEEDS) // 2


@pytest.mark.parametrize("method", [m for m in SUMS if m not in ("auto", "trw", "convex_gbp(counting=covering)")])
def test_nobody_sees_the_widening_of_a_normal_model(method: str) -> None:
    asked = parse_method(method, METHODS)
    state = asked.init(Problem(bl.datasets.make_ising_grid(8, seed=0)))
    for _ in range(3):
        asked.step(state)
    value = asked.value(state)
    assert 0.0 < value.rounding <= 1e-12 * abs(value.log_z)
