"""Enumeration and the junction tree: what their definitions say, ties, orders, budgets, both arithmetics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beliefs as bl
import reference
from beliefs.inference.base import Problem, Task
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.exact.tree_run import TreeRun
from beliefs.inference.portfolio.auto import EXACT_SHARE, choose
from families import FAMILIES, family, grid_pairs, random_model, unary
from strategies import examples, factor_graphs, possible_evidence

EXACT = ["enumeration", "elimination", "junction_tree"]


def test_four_numbers_by_hand() -> None:
    graph = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    for method in EXACT:
        result = bl.infer(graph, method)
        assert math.exp(result.log_z) == pytest.approx(10)
        assert result.marginal(0) == pytest.approx([0.3, 0.7]) and result.marginal(1) == pytest.approx([0.4, 0.6])
        assert bl.maximize(graph, method).states() == {"x0": "1", "x1": "1"}


def test_marginal_map_is_not_the_map() -> None:
    graph = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 4], [3, 3]])])
    for method in EXACT:
        result = bl.marginal_map(graph, [0], method)
        assert result.assignment.tolist() == [1] and math.exp(result.log_value) == pytest.approx(6)
        assert bl.maximize(graph, method).assignment.tolist() == [0, 1]


@pytest.mark.parametrize("method", EXACT)
def test_ties_go_to_the_smallest_index(method: str) -> None:
    flat = bl.FactorGraph.from_tables([3, 2, 4], [((2, 0), np.ones((4, 3))), ((1,), [2, 2])])
    assert bl.maximize(flat, method).assignment.tolist() == [0, 0, 0]
    assert bl.marginal_map(flat, [2, 1], method).assignment.tolist() == [0, 0]
    partly = bl.FactorGraph.from_tables([4], [((0,), [1, 5, 5, 2])])
    assert bl.maximize(partly, method).assignment.tolist() == [1]


@pytest.mark.parametrize("order", ["auto", "min_fill", "min_degree", "min_weight", "weighted_min_fill"])
@pytest.mark.parametrize("name", ["grid", "higher_order", "hard_zeros", "disconnected", "tied_tables"])
def test_every_order_gives_the_same_answer(name: str, order: str) -> None:
    graph, joint = family(name), reference.joint_table(family(name))
    result = bl.infer(graph, bl.JunctionTree(order=order, restarts=3))  # type: ignore[arg-type]
    assert result.log_z == pytest.approx(reference.log_z(joint), rel=1e-12)
    np.testing.assert_allclose(result.mu, reference.mu(graph, joint), atol=1e-12)
    assert bl.maximize(graph, bl.JunctionTree(order=order)).log_score == pytest.approx(  # type: ignore[arg-type]
        reference.maximum(joint), rel=1e-12
    )


def tree_run(graph: bl.FactorGraph, *, log_domain: bool) -> tuple[float, np.ndarray, np.ndarray, bool]:
    """One pass of the junction tree in a chosen arithmetic: value, marginals, and whether logs were used."""
    run = bl.JunctionTree().init(Problem(graph, Task.INFER))
    assert isinstance(run, TreeRun)
    run.collect(log_domain=log_domain)
    mu_var, mu_factor = run.distribute()
    return run.log_z, mu_var, mu_factor, run.in_logs


@given(data=st.data(), graph=factor_graphs(scales=(1.0, 5.0, 30.0)))
@examples(150)
def test_linear_and_log_arithmetic_agree(data: st.DataObject, graph: bl.FactorGraph) -> None:
    given_ = graph.condition(data.draw(possible_evidence(graph)))
    linear, logs = tree_run(given_, log_domain=False), tree_run(given_, log_domain=True)
    assert linear[0] == pytest.approx(logs[0], rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(linear[1], logs[1], atol=1e-12)
    np.testing.assert_allclose(linear[2], logs[2], atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_linear_and_log_arithmetic_agree_on_wide_clusters(seed: int) -> None:
    """An 8 x 8 grid of three states: clusters of up to 3^9 cells, walked in many blocks."""
    graph = random_model([3] * 64, unary(64) + grid_pairs(8, 8), seed=seed, scale=0.5 + seed)
    linear, logs = tree_run(graph, log_domain=False), tree_run(graph, log_domain=True)
    assert not linear[3] and logs[3]
    assert linear[0] == pytest.approx(logs[0], rel=1e-12)
    np.testing.assert_allclose(linear[1], logs[1], atol=1e-12)
    np.testing.assert_allclose(linear[2], logs[2], atol=1e-12)


def test_the_log_domain_is_entered_only_where_it_must_be() -> None:
    assert not tree_run(family("grid"), log_domain=False)[3]
    assert tree_run(family("huge_range"), log_domain=False)[3]


@pytest.mark.parametrize("name", list(FAMILIES))
def test_the_kept_plan_serves_other_potentials_and_other_evidence(name: str) -> None:
    graph = family(name)
    seen = {0: 0}
    first = graph.condition(seen)
    if not np.isfinite(reference.maximum(reference.joint_table(graph, seen))):
        pytest.skip("state 0 of variable 0 is impossible")
    bl.infer(first, "junction_tree")
    for k in range(1, int(graph.layout.card[0])):
        other = graph.condition({0: k})
        joint = reference.joint_table(graph, {0: k})
        assert other.layout is first.layout
        if reference.maximum(joint) == -np.inf:
            with pytest.raises(bl.ZeroProbabilityError):
                bl.infer(other, "junction_tree")
            continue
        np.testing.assert_allclose(bl.infer(other, "junction_tree").mu_var, reference.mu_var(joint), atol=1e-9)


def test_all_questions_of_one_layout_keep_their_own_plans() -> None:
    """infer, maximize and marginal MAP of several queries, interleaved on one layout."""
    graph = family("complete")
    joint = reference.joint_table(graph)
    for _ in range(2):
        for query in ([0, 1], [3], [2, 4], [0, 1, 2, 3, 4], []):
            value = bl.marginal_map(graph, query, "junction_tree").log_value
            assert value == pytest.approx(float(reference.query_values(joint, query).max()))
            assert bl.infer(graph, "junction_tree").log_z == pytest.approx(reference.log_z(joint))
            assert bl.maximize(graph, "junction_tree").log_score == pytest.approx(reference.maximum(joint))


def test_the_budget_is_met_to_the_byte() -> None:
    """A run that fits in what it says it needs, and not in one byte less."""
    graph = family("grid")
    needed = int(bl.JunctionTree().n_bytes(Problem(graph, Task.INFER)))
    assert bl.infer(graph, "junction_tree", max_bytes=needed).bound is bl.Bound.EXACT
    with pytest.raises(bl.BudgetError, match=r"junction_tree needs .*width 3.*the limit is"):
        bl.infer(graph, "junction_tree", max_bytes=needed - 1)
    states = 64 * 2**12
    assert bl.infer(graph, "enumeration", max_bytes=states).bound is bl.Bound.EXACT
    with pytest.raises(bl.BudgetError, match=r"2\^12.0 joint states"):
        bl.infer(graph, "enumeration", max_bytes=states - 1)


def test_marginal_map_needs_a_wider_tree() -> None:
    """A star whose hub is summed first: the query's leaves all meet."""
    graph = random_model([2] * 12, [(0, v) for v in range(1, 12)], seed=0)
    assert bl.maximize(graph, max_bytes=8_000).gap == 0
    with pytest.raises(bl.BudgetError, match="width 11"):
        bl.marginal_map(graph, range(1, 12), "junction_tree", max_bytes=8_000)
    value = bl.marginal_map(graph, range(1, 12)).log_value
    joint = reference.joint_table(graph)
    assert value == pytest.approx(float(reference.query_values(joint, range(1, 12)).max()))


class TestPredictedTime:
    """By the clusters of the tree and by its memory, not by all cliques of the order."""

    def test_by_hand(self) -> None:
        chain = bl.FactorGraph.from_tables([10, 20, 30], [((0, 1), np.ones((10, 20))), ((1, 2), np.ones((20, 30)))])
        cells = {Task.INFER: 200 + 600, Task.MAXIMIZE: 200 + 600, Task.MARGINAL_MAP: 200 + 600 + 30}
        for task, per_cell in ((Task.INFER, 2.5e-9), (Task.MAXIMIZE, 2.5e-9), (Task.MARGINAL_MAP, 6e-9)):
            problem = Problem(chain, task, np.array([2])) if task is Task.MARGINAL_MAP else Problem(chain, task)
            expected = per_cell * cells[task] + 1.5e-9 * JunctionTree().n_bytes(problem)
            assert JunctionTree().seconds(problem) == pytest.approx(expected)
            assert f"about {expected:.2g} s" in str(JunctionTree().report(problem))

    def test_small_cliques_within_large_ones_cost_nothing(self) -> None:
        """A grid of width 22 took 5 s where 19 were predicted: it was refused with a limit of 20 s."""
        problem = Problem(bl.datasets.make_ising_grid(22, seed=1), time_limit=20.0)
        order = JunctionTree().planned(problem)
        assert JunctionTree().seconds(problem, order) < 0.5 * order.seconds
        assert choose(problem)[0] == JunctionTree() and order.seconds > EXACT_SHARE * 20.0

    def test_messages_as_large_as_clusters_cost_most(self) -> None:
        """As in networks over time: 1.4 GB of messages took four times as long as their cells say."""
        pairs = np.array([(i, j) for i in range(26) for j in range(i + 1, min(i + 17, 26))])
        problem = Problem(bl.FactorGraph.pairwise(np.zeros((26, 2)), pairs, 0.1 * np.eye(2)))
        order = JunctionTree().planned(problem)
        assert JunctionTree().seconds(problem, order) > 1.5 * order.seconds

    def test_what_is_hopeless_is_not_laid_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        problem = Problem(bl.datasets.make_ising_grid(30, seed=0), time_limit=1.0)
        monkeypatch.setattr(JunctionTree, "_tree", None)
        assert JunctionTree().seconds(problem, most=600.0) == JunctionTree().planned(problem).seconds
        assert "about" in choose(problem)[1]
