"""Expected statistics are a gradient: d log Z / d theta = mu, tied cells and evidence included.

Along a random direction the central difference of log Z must equal the inner product with mu. With a step of 1e-5 the
difference is good to about 1e-9 for values of order one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beliefs as bl
from beliefs.inference import Bound, Method
from families import FAMILIES, evidence, family
from strategies import examples, factor_graphs, possible_evidence, tied_graphs

STEP = 1e-5
METHODS = [pytest.param(cls(), id=cls.name) for cls in bl.methods(task="infer") if cls.general]


def slope(graph: bl.FactorGraph, direction: np.ndarray, method: Method, seen: dict[int, int], **options: Any) -> float:
    """Central difference of log Z along a direction of the unconditioned graph's theta."""
    values = [
        bl.infer(graph.with_theta(graph.theta + sign * STEP * direction).condition(seen), method, **options).log_z
        for sign in (1, -1)
    ]
    return (values[0] - values[1]) / (2 * STEP)


def scattered(graph: bl.FactorGraph, given_: bl.FactorGraph, mu: np.ndarray) -> np.ndarray:
    """Send mu of a conditioned graph back to the parent's cells."""
    assert given_.parent_cells is not None
    return np.bincount(given_.parent_cells, weights=mu, minlength=graph.layout.n_cells)


@pytest.mark.parametrize("observed", [0, 2])
@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "huge_range"])
@pytest.mark.parametrize("method", METHODS)
def test_mu_is_the_gradient_of_log_z(method: Method, name: str, observed: int) -> None:
    """For exact answers by definition; for the Bethe value because a fixed point of the messages is stationary."""
    graph, seen = family(name), evidence(name, observed)
    options: dict[str, Any] = {"tol": 1e-14, "max_iters": 2000} if method.fixed_point else {}
    given_ = graph.condition(seen)
    result = bl.infer(given_, method, **options)
    if result.bound is not Bound.EXACT and not (method.fixed_point and result.converged):
        pytest.skip("no promise: neither exact nor a fixed point")
    rng = np.random.default_rng(0)
    for _ in range(3):
        direction = rng.normal(size=graph.layout.n_cells)
        expected = slope(graph, direction, method, seen, **options)
        assert scattered(graph, given_, result.mu) @ direction == pytest.approx(expected, rel=2e-6, abs=2e-6)


@given(data=st.data(), graph=st.one_of(tied_graphs(), factor_graphs(scales=(1.0, 5.0))))
@examples(60)
def test_mu_scatters_back_through_the_evidence(data: st.DataObject, graph: bl.FactorGraph) -> None:
    seen = data.draw(possible_evidence(graph))
    given_ = graph.condition(seen)
    mu = scattered(graph, given_, bl.infer(given_, "junction_tree").mu)
    direction = np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=graph.layout.n_cells)
    assert mu @ direction == pytest.approx(slope(graph, direction, bl.JunctionTree(), seen), rel=1e-6, abs=1e-6)


def test_each_cell_of_a_tied_table_sums_over_its_factors() -> None:
    """One free cell at a time on a triangle whose three edges share a table."""
    unary = np.array([[0.0, 0.3], [0.1, -0.2], [0.5, 0.0]])
    graph = bl.FactorGraph.pairwise(unary, [(0, 1), (1, 2), (2, 0)], [[0.2, -0.4], [0.1, 0.6]])
    result = bl.infer(graph, "junction_tree")
    for k in range(graph.layout.n_cells):
        direction = np.eye(graph.layout.n_cells)[k]
        expected = slope(graph, direction, bl.JunctionTree(), {})
        assert result.mu[k] == pytest.approx(expected, abs=1e-9)
    assert result.mu[6:].sum() == pytest.approx(3) and result.mu.shape == graph.theta.shape


def test_a_hard_zero_has_no_weight_and_a_constant_has_weight_one() -> None:
    graph = bl.FactorGraph.from_tables([2, 2], [((), 3.0), ((0, 1), [[0, 1], [2, 3]])])
    for method in (cls for cls in bl.methods(task="infer") if cls.general):
        result = bl.infer(graph, method())
        assert result.mu[0] == pytest.approx(1) and result.mu[1] == 0 and result.mu.sum() == pytest.approx(2)
        if result.bound is bl.Bound.EXACT:
            np.testing.assert_allclose(result.mu, [1, 0, 1 / 6, 2 / 6, 3 / 6], atol=1e-12)


def test_the_gradient_of_the_maximum_is_the_maximiser() -> None:
    """At temperature zero mu is the indicator of the MAP state."""
    graph = family("higher_order")
    indicator = bl.infer(graph, bl.Elimination(tau=np.zeros(graph.n_vars)))
    best = bl.maximize(graph)
    assert indicator.mu_var.sum() == graph.n_vars and indicator.mpm().tolist() == best.assignment.tolist()
    assert indicator.mu @ graph.theta == pytest.approx(best.log_score)
