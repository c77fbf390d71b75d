"""Implicit differentiation: the closed form where it exists, and all ways to differentiate agree at a fixed point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference import Method
from beliefs.learning.gradients.base import Beliefs
from beliefs.learning.gradients.convergence import AtConvergence
from beliefs.learning.gradients.implicit import Implicit
from beliefs.learning.gradients.mean_field import converge_mean_field, run_mean_field
from beliefs.learning.gradients.perturbation import Perturbation
from beliefs.learning.gradients.truncated import Truncated
from families import evidence, family, grid_pairs, random_model, unary

NAMES = [
    "grid", "complete", "star", "higher_order", "hard_zeros", "parity", "disconnected", "mixed_cardinalities",
    "single_states", "constants", "repeated_scopes", "tied_tables", "isolated_variables", "no_factors",
    "strong_couplings", "bayesian_network",
]  # fmt: skip


def bars(graph: bl.FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    return rng.normal(size=graph.layout.n_states), rng.normal(size=int(graph.layout.table_ptr[-1]))


def grid(side: int = 3, scale: float = 0.5, seed: int = 0) -> bl.FactorGraph:
    rng = np.random.default_rng(seed)
    edges = grid_pairs(side, side)
    return bl.FactorGraph.pairwise(rng.normal(size=(side**2, 2)), edges, scale * rng.normal(size=(len(edges), 2, 2)))


def dense_system(graph: bl.FactorGraph, beliefs: Beliefs) -> tuple[np.ndarray, np.ndarray]:
    """The diagonal of D and the rows of B by their definition, nodes first, then tables; no factor of one variable."""
    lay, rho = graph.layout, beliefs.rho
    assert rho is not None and (np.diff(lay.scope_ptr) > 1).all()
    n, size = lay.n_states, lay.n_states + int(lay.table_ptr[-1])
    diagonal, rows = np.empty(size), []
    for v in range(lay.n_vars):
        own = slice(lay.state_ptr[v], lay.state_ptr[v + 1])
        diagonal[own] = -(1 - sum(rho[f] for f in range(lay.n_factors) if v in lay.scope(f))) / beliefs.mu_var[own]
        row = np.zeros(size)
        row[own] = 1
        rows.append(row)
    for f in range(lay.n_factors):
        own = slice(n + lay.table_ptr[f], n + lay.table_ptr[f + 1])
        diagonal[own] = -rho[f] / beliefs.mu_factor[lay.table_ptr[f] : lay.table_ptr[f + 1]]
        digits = np.indices(lay.shape(f)).reshape(len(lay.shape(f)), -1)
        for axis, v in enumerate(lay.scope(f)):
            for x in range(lay.card[v] - (axis > 0)):
                row = np.zeros(size)
                row[own] = digits[axis] == x
                row[lay.state_ptr[v] + x] = -1
                rows.append(row)
    return diagonal, np.stack(rows)


def test_the_closed_form_where_no_counting_number_is_zero() -> None:
    graph = random_model([2, 3, 2, 2], [(0, 1), (1, 2), (2, 3), (3, 0), (0, 1, 2)], seed=1, scale=0.6)
    beliefs = Implicit(method=bl.FractionalBP(rho=0.45)).run(graph)
    d, b = dense_system(graph, beliefs)
    assert np.linalg.matrix_rank(b) == len(b)
    shrunk = b / d
    middle = np.linalg.solve(shrunk @ b.T, shrunk)
    bar = bars(graph)
    expected = (shrunk.T @ middle - np.diag(1 / d)) @ np.concatenate(bar)
    np.testing.assert_allclose(beliefs.pullback(*bar), expected[graph.layout.n_states :], rtol=0, atol=1e-11)


def test_grids_whose_corners_have_counting_number_zero() -> None:
    graph = grid()
    beliefs = Implicit(method=bl.TRW(rho="grid")).run(graph)
    pairs = random_model([2] * 9, grid_pairs(3, 3), seed=1)
    d, b = dense_system(pairs, Implicit(method=bl.TRW(rho="grid")).run(pairs))
    assert (d == 0).sum() == 8 and np.linalg.matrix_rank(b) == len(b)  # the closed form divides by these
    check_slopes(beliefs, bl.TRW(rho="grid"), graph)


def check_slopes(beliefs: Beliefs, method: Method, graph: bl.FactorGraph) -> None:
    bar, h = bars(graph), 1e-4
    grad = beliefs.pullback(*bar)
    options: dict[str, Any] = {"tol": 1e-14, "max_iters": 5000}
    assert not grad[graph.theta == -np.inf].any()
    rng = np.random.default_rng(2)
    for _ in range(3):
        d = rng.normal(size=graph.layout.n_cells)
        moved = [bl.infer(graph.with_theta(graph.theta + s * h * d), method, **options) for s in (-2, -1, 1, 2)]
        v = [float(r.mu_var @ bar[0] + r.mu_factor @ bar[1]) for r in moved]
        assert grad @ d == pytest.approx((8 * (v[2] - v[1]) - (v[3] - v[0])) / (12 * h), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("method", [bl.TRW(), bl.BP(damping=0.3), bl.FractionalBP(rho=0.8)])
@pytest.mark.parametrize("name", NAMES)
def test_it_equals_perturbation(name: str, method: Method) -> None:
    graph = family(name).condition(evidence(name, 1))
    found = Implicit(method=method).run(graph)
    large = np.abs(graph.theta[graph.theta > -np.inf]).max(initial=0.0)  # its square would be in the error
    expected = Perturbation(method=method, sides=4, multiplier=2 / (1 + large)).run(graph)
    assert found.converged and expected.converged
    bar = bars(graph)
    np.testing.assert_allclose(found.pullback(*bar), expected.pullback(*bar), rtol=0, atol=1e-9)


def test_four_ways_agree_for_messages() -> None:
    graph, bar = grid(), bars(grid())
    expected = Implicit(method=bl.TRW(rho="grid")).run(graph).pullback(*bar)
    for way in (
        Implicit(method=bl.TRW(rho="grid"), solver="minres"),
        Perturbation(method=bl.TRW(rho="grid")),
        AtConvergence(method=bl.TRW(rho="grid"), tol=1e-14, back_tol=1e-14),
        Truncated(method=bl.TRW(rho="grid"), n_sweeps=60),
    ):
        np.testing.assert_allclose(way.run(graph).pullback(*bar), expected, rtol=0, atol=1e-8)
    errors = [
        np.abs(Truncated(method=bl.TRW(rho="grid"), n_sweeps=n).run(graph).pullback(*bar) - expected).max()
        for n in (2, 5, 10)
    ]
    assert errors[0] > 1e-4 > errors[1] > 1e-9 > errors[2]


def test_three_ways_agree_for_mean_field() -> None:
    graph, bar = grid(), bars(grid())
    expected = converge_mean_field(bl.MeanField(), graph, 1e-15, 1e-15, 5000, None).pullback(*bar)
    for beliefs in (run_mean_field(bl.MeanField(), 200, graph, None), Perturbation(method=bl.MeanField()).run(graph)):
        np.testing.assert_allclose(beliefs.pullback(*bar), expected, rtol=0, atol=1e-8)


def test_the_jacobian_is_symmetric_and_positive() -> None:
    graph = random_model([2, 3, 2], [*unary(3), (0, 1), (1, 2), (2, 0)], seed=6, scale=0.5)
    beliefs = Implicit(method=bl.TRW()).run(graph)
    jacobian = np.stack([beliefs.pullback(bar_factor=row) for row in np.eye(graph.layout.n_cells)])
    np.testing.assert_allclose(jacobian, jacobian.T, rtol=0, atol=1e-10)
    assert np.linalg.eigvalsh(jacobian).min() > -1e-10


def test_what_it_is_not_for() -> None:
    with pytest.raises(bl.UnsupportedError, match="products of marginals"):
        Implicit(method=bl.MeanField())
    with pytest.raises(bl.UnsupportedError, match="use exact"):
        Implicit(method=bl.JunctionTree())


@pytest.mark.parametrize("options", [{"solver": "cholesky"}, {"tol": -1.0}, {"max_iters": 0}])
def test_bad_options(options: dict[str, object]) -> None:
    with pytest.raises(bl.ModelError, match=f"{next(iter(options))} must be"):
        Implicit(method=bl.BP(), **options)  # type: ignore[arg-type]
