"""Gradients through exact inference are covariances, written out state by state."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.learning.gradients.exact import Exact, ForestBeliefs, TreeBeliefs
from families import FAMILIES, evidence, family


def covariances(graph: bl.FactorGraph, bar_var: np.ndarray, bar_factor: np.ndarray) -> np.ndarray:
    """E[f g] - E[f] E[g] of all cells with g = bar . f, by the joint table."""
    p = reference.probabilities(reference.joint_table(graph))
    lay, g = graph.layout, np.zeros_like(p)
    spread = []
    for f in range(graph.n_factors):
        table = bar_factor[lay.table_ptr[f] : lay.table_ptr[f + 1]].reshape(lay.shape(f))
        g = g + reference._spread(table, [int(v) for v in lay.scope(f)], p.ndim)
    for v in range(graph.n_vars):
        g = g + reference._spread(bar_var[lay.state_ptr[v] : lay.state_ptr[v + 1]], [v], p.ndim)
    centred = p * (g - (p * g).sum())
    grad = np.zeros(lay.n_cells)
    for f in range(graph.n_factors):
        scope = [int(v) for v in lay.scope(f)]
        summed = centred.sum(axis=tuple(v for v in range(p.ndim) if v not in scope))
        kept = sorted(scope)
        spread.append(summed.transpose([kept.index(v) for v in scope]).ravel())
        grad[lay.cells(f)] += spread[-1]
    return grad


def random_bars(graph: bl.FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.normal(size=graph.layout.n_states), rng.normal(size=int(graph.layout.table_ptr[-1]))


@pytest.mark.parametrize("observed", [0, 2])
@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_are_covariances(name: str, observed: int) -> None:
    graph = family(name).condition(evidence(name, observed))
    joint = reference.joint_table(graph)
    beliefs = Exact().run(graph)
    np.testing.assert_allclose(beliefs.mu_var, reference.mu_var(joint), rtol=0, atol=1e-12)
    assert beliefs.log_z == pytest.approx(reference.log_z(joint), rel=1e-12, abs=1e-12)
    bar_var, bar_factor = random_bars(graph)
    expected = covariances(graph, bar_var, bar_factor)
    np.testing.assert_allclose(beliefs.pullback(bar_var, bar_factor), expected, rtol=0, atol=1e-12)
    only = covariances(graph, bar_var, np.zeros(bar_factor.size))
    np.testing.assert_allclose(beliefs.pullback(bar_var), only, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["chain", "tree", "higher_order_tree", "hard_zeros_tree", "isolated_variables"])
def test_forests_and_junction_trees_agree(name: str) -> None:
    graph = family(name)
    bars = random_bars(graph)
    forest, tree = Exact().run(graph), TreeBeliefs(graph)
    assert isinstance(forest, ForestBeliefs)
    np.testing.assert_allclose(forest.mu_factor, tree.mu_factor, rtol=0, atol=1e-13)
    np.testing.assert_allclose(forest.pullback(*bars), tree.pullback(*bars), rtol=0, atol=1e-13)
    assert forest.log_z == pytest.approx(tree.log_z, rel=1e-13)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_blocks_of_large_clusters(scale: float) -> None:
    """An 9 x 9 grid has clusters of many blocks; at large scales the passes are those in logs."""
    graph = bl.datasets.make_ising_grid(9, seed=0)
    graph = graph.with_theta(scale * graph.theta)
    beliefs = Exact().run(graph)
    assert isinstance(beliefs, TreeBeliefs) and beliefs.in_logs == (scale > 1)
    bar, direction = np.random.default_rng(0).normal(size=(2, graph.layout.n_cells))
    h = 1e-4
    far = [
        bl.infer(graph.with_theta(graph.theta + s * h * direction), "junction_tree").mu @ bar for s in (-2, -1, 1, 2)
    ]
    slope = (8 * (far[2] - far[1]) - (far[3] - far[0])) / (12 * h)
    assert beliefs.pullback(bar_factor=bar) @ direction == pytest.approx(slope, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("name", ["grid", "chain", "higher_order", "repeated_scopes"])
def test_the_jacobian_is_symmetric_and_positive(name: str) -> None:
    graph = family(name)
    beliefs = Exact().run(graph)
    jacobian = np.stack([beliefs.pullback(bar_factor=row) for row in np.eye(int(graph.layout.table_ptr[-1]))])
    np.testing.assert_allclose(jacobian, jacobian.T, rtol=0, atol=1e-12)
    assert np.linalg.eigvalsh(jacobian).min() > -1e-12


def test_impossible_models_and_models_too_large_are_refused() -> None:
    with pytest.raises(bl.ZeroProbabilityError):
        Exact().run(bl.FactorGraph.from_tables([2, 2], [((0, 1), np.zeros((2, 2)))]))
    with pytest.raises(bl.BudgetError):
        Exact().run(bl.datasets.make_ising_grid(60, seed=0))
