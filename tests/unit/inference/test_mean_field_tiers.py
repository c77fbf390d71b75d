"""Mean field in its fast and general forms: the same answers, the same bytes for any threads."""

from __future__ import annotations

import math

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.base import Problem
from beliefs.inference.search.feasible import hard_factors
from beliefs.inference.variational.field import Orders
from beliefs.inference.variational.mean_field import MeanField
from beliefs.inference.variational.naive import BinaryField, NaiveField, PairwiseField
from families import grid_pairs, random_model


def pairwise_model(n_states: int, tied: bool, seed: int) -> bl.FactorGraph:
    """A grid with repeated and reversed edges, and unary factors on some variables, some twice."""
    rng = np.random.default_rng(seed)
    edges = [*grid_pairs(4, 5), (3, 2), (1, 0), (7, 12), (12, 7)]
    graph = bl.FactorGraph.pairwise(
        rng.normal(size=(20, n_states)),
        edges,
        rng.normal(size=(n_states,) * 2 if tied else (len(edges), *[n_states] * 2)),
    )
    return graph.with_likelihood({4: rng.uniform(0.1, 1, n_states)})


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n_states", [2, 3, 4, 5, 6, 7, 8, 9, 21, 256])
@pytest.mark.parametrize("schedule", ["sequential", "color"])
def test_fast_and_general_tiers_agree(n_states: int, tied: bool, schedule: str) -> None:
    graph = pairwise_model(n_states, tied, seed=n_states)
    kind = BinaryField if n_states == 2 else PairwiseField
    assert type(MeanField().init(Problem(graph)).field) is kind
    fields = [cls(graph, hard_factors(graph), schedule) for cls in (kind, NaiveField)]
    start = MeanField(restarts=1).init(Problem(graph)).runs[1].mu
    runs = [field.begin(start) for field in fields]
    for sweep in range(6):
        changes = [f.sweep(r, forward=sweep % 2 == 0, threads=1) for f, r in zip(fields, runs, strict=True)]
        assert changes[0] == pytest.approx(changes[1], abs=1e-10)
        np.testing.assert_allclose(runs[0].mu, runs[1].mu, rtol=0, atol=1e-10)


def test_rows_beyond_the_stack_are_left_to_the_general_tier() -> None:
    graph = random_model([257, 257], [(0, 1)], seed=0)
    assert type(MeanField().init(Problem(graph)).field) is NaiveField


@pytest.mark.parametrize("n_states", [2, 3, 4])
def test_updates_out_of_turn_leave_neighbours_in_turn_and_every_byte_as_it_is(n_states: int) -> None:
    rng = np.random.default_rng(n_states)
    grid = grid_pairs(30, 30)
    for pairs in (grid, [(0, 899), (17, 3)], [tuple(p) for p in rng.permutation(900)[:600].reshape(-1, 2)]):
        tables = rng.normal(size=(len(pairs), n_states, n_states))
        graph = bl.FactorGraph.pairwise(rng.normal(size=(900, n_states)), pairs, tables).condition({40: 0})
        fields = [MeanField().init(Problem(graph)).field for _ in range(2)]
        order = fields[0].orders.forward[0]
        place = np.empty(900, np.int64)
        place[order] = np.arange(order.size)
        free = np.array([p for p in pairs if 40 not in p])
        assert sorted(order) == [v for v in range(900) if v != 40]
        assert ((place[free[:, 0]] < place[free[:, 1]]) == (free[:, 0] < free[:, 1])).all()
        if pairs is grid:
            assert np.mean(np.abs(np.diff(place[free])) >= 3) > 0.98
        fields[1].orders = Orders.raster(np.sort(order))
        runs = [field.begin(MeanField(restarts=1).init(Problem(graph)).runs[1].mu) for field in fields]
        for sweep in range(4):
            for field, run in zip(fields, runs, strict=True):
                field.sweep(run, forward=sweep % 2 == 0, threads=1)
            assert runs[0].mu.tobytes() == runs[1].mu.tobytes()


@pytest.mark.parametrize("strength", [30.0, 1000.0, 1e6])
@pytest.mark.parametrize("n_states", [2, 3, 4, 7])
def test_tiers_agree_where_marginals_saturate(n_states: int, strength: float) -> None:
    graph = pairwise_model(n_states, False, seed=1)
    graph = graph.with_theta(strength * graph.theta)
    joint_best = bl.maximize(graph, "junction_tree").log_score
    kind = BinaryField if n_states == 2 else PairwiseField
    values = []
    for cls in (kind, NaiveField):
        field = cls(graph, hard_factors(graph), "sequential")
        run = field.begin(MeanField().init(Problem(graph)).runs[0].mu)
        for sweep in range(4):
            field.sweep(run, forward=sweep % 2 == 0, threads=1)
        assert np.isfinite(run.mu).all()
        values.append(field.value(run))
    assert values[0] == pytest.approx(values[1], rel=1e-10) and values[0] <= joint_best + 20 * math.log(n_states)


@pytest.mark.parametrize("model", ["binary", "pairwise", "vector", "general", "hard", "tree"])
def test_same_bytes_for_any_number_of_threads(model: str) -> None:
    rng = np.random.default_rng(0)
    k = {"binary": 2, "tree": 2, "hard": 2, "general": 3, "pairwise": 3, "vector": 5}[model]
    graph = bl.FactorGraph.pairwise(rng.normal(size=(6400, k)), grid_pairs(80, 80), rng.normal(size=(12640, k, k)))
    if model == "general":
        graph = graph.with_factors([((0, 1, 2), rng.normal(size=(3, 3, 3)))])
    if model == "hard":
        theta = np.array(graph.theta)
        theta[12800::17] = -np.inf
        graph = graph.with_theta(theta)
    method = MeanField(schedule="color", structure="tree" if model == "tree" else "none")
    answers = [bl.infer(graph, method, max_iters=5, threads=t) for t in (1, 2, 3)]
    assert len({a.mu_var.tobytes() for a in answers}) == 1 and len({a.log_z for a in answers}) == 1
    assert len({a.trace.residual.tobytes() for a in answers}) == 1 and answers[0].log_z > -np.inf
