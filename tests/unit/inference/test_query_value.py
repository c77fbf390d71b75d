"""Values of marginal-MAP assignments: exact by conditioning, bounded beyond the budget, cheap to ask again."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.inference.search.query_value import QueryEvaluator, QueryPlan, bounded_value, query_value
from families import FAMILIES, evidence, family, grid_pairs, random_model


def truth_of(graph: bl.FactorGraph, query: np.ndarray, states: np.ndarray) -> float:
    return reference.log_z(reference.joint_table(graph, dict(zip(query.tolist(), states.tolist(), strict=True))))


def frustrated_grid(side: int) -> bl.FactorGraph:
    rng, edges = np.random.default_rng(0), grid_pairs(side, side)
    return bl.FactorGraph.pairwise(rng.normal(size=(side**2, 2)), edges, 0.3 * rng.normal(size=(len(edges), 2, 2)))


@pytest.mark.parametrize("observed", [0, 2])
@pytest.mark.parametrize("name", list(FAMILIES))
def test_many_assignments_of_one_query(name: str, observed: int) -> None:
    """The plan is made once; every value is that of the joint table."""
    graph = family(name).condition(evidence(name, observed))
    rng = np.random.default_rng(1)
    hidden = np.flatnonzero(~graph.layout.observed)
    for size in {0, 1, hidden.size // 2, hidden.size}:
        query = np.sort(rng.permutation(hidden)[:size])
        evaluator = QueryEvaluator(graph, query)
        for _ in range(6):
            states = rng.integers(graph.layout.card[query])
            assert evaluator.is_exact
            assert evaluator.log_value(states) == pytest.approx(truth_of(graph, query, states), rel=1e-10, abs=1e-10)


def test_the_plan_is_kept_on_the_layout() -> None:
    graph, query = family("grid"), np.array([1, 4, 7])
    plan = QueryPlan.of(graph.layout, query)
    assert QueryPlan.of(graph.layout, query.copy()) is plan
    assert QueryEvaluator(graph.with_theta(2.0 * graph.theta), query).plan is plan
    assert QueryPlan.of(graph.layout, np.array([1, 4])) is not plan


def test_an_impossible_assignment_has_value_minus_infinity() -> None:
    graph = bl.FactorGraph.from_tables([2, 2, 2], [((0, 1), [[1, 0], [0, 1]]), ((1, 2), np.ones((2, 2)))])
    for seconds in (3.0, 0.0):  # exactly, and by propagation
        found = query_value(graph, np.array([0, 1]), np.array([0, 1]), seconds=seconds)
        assert found.value == found.lower == found.upper == -np.inf and found.bound is bl.Bound.EXACT


def test_beyond_the_budget_it_is_an_estimate_within_bounds() -> None:
    graph, query, states = frustrated_grid(16), np.arange(4), np.array([0, 1, 0, 1])
    exact = query_value(graph, query, states)
    for rough in (query_value(graph, query, states, seconds=0.0), query_value(graph, query, states, max_bytes=1000)):
        assert exact.bound is bl.Bound.EXACT and rough.bound is bl.Bound.ESTIMATE
        assert rough.lower <= exact.value <= rough.upper and rough.lower <= rough.value <= rough.upper
        assert rough.value != exact.value and rough.value == pytest.approx(exact.value, abs=1.0)
        assert rough.upper < exact.value + 10.0


def test_the_lower_end_is_close_too() -> None:
    graph = frustrated_grid(16)
    found, exact = bounded_value(graph), query_value(graph, np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert exact.value - 1.0 < found.lower <= exact.value <= found.upper < exact.value + 1.0


def test_without_a_cycle_propagation_is_exact_too() -> None:
    found = query_value(family("chain"), np.array([3]), np.array([1]), seconds=0.0)
    assert found.bound is bl.Bound.EXACT


@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_the_interval_contains_the_truth(zeros: float) -> None:
    for seed in range(15):
        rng = np.random.default_rng(seed)
        scopes = [tuple(rng.choice(8, size=rng.integers(1, 4), replace=False)) for _ in range(10)]
        graph = random_model(list(rng.integers(1, 4, size=8)), scopes, seed=seed, zeros=zeros)
        found, truth = bounded_value(graph), reference.log_z(reference.joint_table(graph))
        assert found.lower <= truth + 1e-9 and truth - 1e-9 <= found.upper
        assert found.lower <= found.value <= found.upper


def test_no_time_still_gives_an_interval() -> None:
    graph = frustrated_grid(5)
    found, truth = bounded_value(graph, time_limit=0.0), reference.log_z(reference.joint_table(graph))
    assert found.lower - 1e-9 <= truth <= found.upper + 1e-9
