"""Back-propagation at convergence: finite differences of converged inference, and the limit of truncated gradients."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
from beliefs.learning.gradients.convergence import AtConvergence
from beliefs.learning.gradients.registry import make_gradient
from beliefs.learning.gradients.truncated import Truncated
from families import family, grid_pairs, random_model, unary

TIGHT = {"tol": 1e-14, "back_tol": 1e-13, "max_iters": 2000}


def grid(states: int) -> bl.FactorGraph:
    return random_model([states] * 9, unary(9) + grid_pairs(3, 3), seed=states, scale=0.7)


def mixed() -> bl.FactorGraph:
    return random_model([2, 3, 2, 4, 2], [*unary(5), (0, 1), (1, 2), (2, 3, 0), (4, 3), (0, 4)], seed=7)


def bars(graph: bl.FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=graph.layout.n_states), rng.normal(size=int(graph.layout.table_ptr[-1]))


@pytest.mark.parametrize("method", [bl.BP(), bl.TRW(), bl.FractionalBP(rho=0.8)], ids=repr)
@pytest.mark.parametrize("graph", [grid(2), grid(3), grid(9), mixed()], ids=lambda g: f"{g.theta.size}")
def test_gradient_is_that_of_converged_inference(graph: bl.FactorGraph, method: bl.Method) -> None:
    var, factor = bars(graph)
    way = AtConvergence(method=method, **TIGHT)  # type: ignore[arg-type]
    beliefs = way.run(graph)
    found = beliefs.pullback(var, factor)
    assert beliefs.converged

    def value(theta: np.ndarray) -> float:
        at = AtConvergence(method=method, **TIGHT).run(graph.with_theta(theta))  # type: ignore[arg-type]
        return float(var @ at.mu_var + factor @ at.mu_factor)

    for k in np.random.default_rng(1).permutation(graph.theta.size)[:12]:
        step = np.zeros(graph.theta.size)
        step[k] = 2e-4
        near = value(graph.theta + step) - value(graph.theta - step)
        far = value(graph.theta + 2 * step) - value(graph.theta - 2 * step)
        assert found[k] == pytest.approx((8 * near - far) / (12 * step[k]), abs=1e-8)


def test_truncated_gradients_tend_to_it() -> None:
    """On a 3 x 3 grid with rho = 0.5 the error falls as 1e-3, 1e-6, 1e-12 after 5, 10, 20 iterations."""
    graph = grid(2)
    exact = AtConvergence(method=bl.TRW(rho=0.5), **TIGHT).run(graph).pullback(*bars(graph))  # type: ignore[arg-type]
    errors = []
    for n in (5, 10, 20):
        method = bl.TRW(rho=0.5)
        errors.append(np.abs(Truncated(method=method, n_sweeps=n).run(graph).pullback(*bars(graph)) - exact).max())
    assert 1e-4 < errors[0] < 1e-3
    assert 1e-7 < errors[1] < 1e-6
    assert errors[2] < 1e-11


def test_warm_start_goes_on() -> None:
    graph = grid(3)
    way = AtConvergence(method=bl.TRW(), tol=1e-10)
    cold = way.run(graph)
    few = AtConvergence(method=bl.TRW(), tol=1e-10, max_iters=2)
    assert not few.run(graph).converged
    again = few.run(graph, cold.warm_state)
    assert again.converged
    assert np.allclose(again.mu_var, cold.mu_var, rtol=0, atol=1e-9)


def test_short_runs_say_so() -> None:
    graph = grid(2)
    beliefs = AtConvergence(method=bl.TRW(), tol=1e-12).run(graph)
    assert beliefs.converged
    hasty = AtConvergence(method=bl.TRW(), tol=1e-3, back_tol=1e-300, max_iters=20).run(graph)
    assert hasty.converged
    hasty.pullback(*bars(graph))
    assert not hasty.converged


def test_observed_and_hard_zeros() -> None:
    graph = family("hard_zeros").condition({0: 0})
    beliefs = AtConvergence(method=bl.TRW()).run(graph)
    found = beliefs.pullback(*bars(graph))
    assert np.isfinite(found).all()
    assert not found[graph.theta == -np.inf].any()


def test_exact_methods_are_refused() -> None:
    with pytest.raises(bl.UnsupportedError, match="way back"):
        AtConvergence(method=bl.JunctionTree())


@pytest.mark.parametrize("gradient", ["convergence", "implicit", "perturbation", "convergence(tol=1e-6)"])
def test_a_number_of_sweeps_is_refused_where_it_would_be_ignored(gradient: str) -> None:
    with pytest.raises(bl.ModelError, match=r"takes inference to its end, not n_sweeps=5: give n_sweeps=None"):
        make_gradient(gradient, bl.TRW(), n_sweeps=5)
    assert make_gradient(gradient, bl.TRW()).name == gradient.partition("(")[0]
    with pytest.raises(bl.ModelError, match="n_sweeps=None"):
        bl.GridCRF(gradient=gradient).fit([np.zeros((2, 2, 1))], [[[0, 1], [1, 0]]])
