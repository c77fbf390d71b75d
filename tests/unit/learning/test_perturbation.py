"""Gradients by perturbation: right to the digits that the step rule promises, for every method with marginals."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference import Method
from beliefs.inference.run import Answer, answer
from beliefs.learning.gradients.convergence import AtConvergence
from beliefs.learning.gradients.exact import Exact
from beliefs.learning.gradients.mean_field import converge_mean_field
from beliefs.learning.gradients.perturbation import Perturbation
from families import evidence, family, grid_pairs, random_model, unary

EPSILON = float(np.finfo(float).eps)


def bars(graph: bl.FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    return rng.normal(size=graph.layout.n_states), rng.normal(size=int(graph.layout.table_ptr[-1]))


@pytest.mark.parametrize(("sides", "accuracy"), [(1, 5e-7), (2, 2e-9), (4, 5e-10)])
@pytest.mark.parametrize("name", ["grid", "higher_order", "tied_tables", "hard_zeros", "repeated_scopes", "constants"])
def test_exact_inference_and_mean_field(name: str, sides: int, accuracy: float) -> None:
    graph = family(name).condition(evidence(name, 1))
    for method, truth, curvature in (  # near its phase transitions mean field bends more
        (bl.JunctionTree(), Exact().run(graph), 1),
        (bl.MeanField(), converge_mean_field(bl.MeanField(), graph, 1e-15, 1e-15, 5000, None), 4),
    ):
        beliefs = Perturbation(method=method, sides=sides).run(graph)
        np.testing.assert_allclose(beliefs.mu_factor, truth.mu_factor, rtol=0, atol=1e-12)
        found, expected = (b.pullback(*bars(graph)) for b in (beliefs, truth))
        np.testing.assert_allclose(found, expected, rtol=0, atol=accuracy * curvature)
        assert beliefs.converged


@pytest.mark.parametrize(
    "method", [bl.TRW(), bl.BP(), bl.FractionalBP(rho=0.7), bl.MeanField(structure="tree"), bl.WMB(), bl.Elimination()]
)
def test_other_methods_against_coordinate_differences(method: Method) -> None:
    """Each cell by a difference of its own, in the loss instead of the marginals."""
    graph = random_model([2, 3, 2, 3], [*unary(4), *grid_pairs(2, 2)], seed=3, scale=0.7)
    bar = bars(graph)
    options: dict[str, Any] = {"tol": 1e-15, "max_iters": 3000}
    beliefs = Perturbation(method=method).run(graph)
    with warnings.catch_warnings():  # at this tolerance rounding may keep the residual up
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        first = bl.infer(graph, method, **options)

        def loss(theta: np.ndarray) -> float:
            found = bl.infer(graph.with_theta(theta), method, init=first, **options)
            return float(found.mu_var @ bar[0] + found.mu_factor @ bar[1])

        h = 1e-5
        steps = h * np.eye(graph.layout.n_cells)
        expected = [(loss(graph.theta + s) - loss(graph.theta - s)) / (2 * h) for s in steps]
    np.testing.assert_allclose(beliefs.pullback(*bar), expected, rtol=0, atol=2e-8)


def test_variables_without_a_factor_of_their_own() -> None:
    graph = random_model([2, 3, 2], [(0, 1), (2, 1)], seed=4)
    bar = bars(graph)[0]
    found = Perturbation(method=bl.BP()).run(graph).pullback(bar_var=bar)
    np.testing.assert_allclose(found, Exact().run(graph).pullback(bar_var=bar), rtol=0, atol=1e-9)


def test_errors_against_the_multiplier_are_v_shaped() -> None:
    """Rounding on the left, truncation on the right; the more sides, the larger the best step."""
    rng = np.random.default_rng(0)
    graph = bl.FactorGraph.pairwise(rng.normal(size=(36, 2)), grid_pairs(6, 6), 0.5 * rng.normal(size=(60, 2, 2)))
    bar = rng.normal(size=graph.layout.n_states)
    truth = Exact().run(graph).pullback(bar_var=bar)
    multipliers = 10.0 ** np.arange(-6, 5)
    best = {}
    for sides, (least, most) in {1: (1e-3, 1e-1), 2: (1e-1, 1e1), 4: (1e1, 1e3)}.items():
        errors = []
        for m in multipliers:
            way = Perturbation(method=bl.JunctionTree(), sides=sides, multiplier=m, exponent=1 / 3)
            errors.append(np.linalg.norm(way.run(graph).pullback(bar_var=bar) - truth) / np.linalg.norm(truth))
        lowest = int(np.argmin(errors))
        best[sides] = errors[lowest]
        assert least <= multipliers[lowest] <= most
        assert errors[0] > 30 * errors[lowest] and errors[-1] > 30 * errors[lowest]
        if sides == 2:
            assert errors[6] < 1e-8  # the multiplier 1
    assert best[1] > 10 * best[2] > 10 * best[4]


def test_the_step_rule() -> None:
    way = Perturbation(method=bl.BP(), multiplier=3.0)
    assert way.step(np.array([-4.0, 2.0, -np.inf]), np.array([0.5, -2.0])) == pytest.approx(
        3 * EPSILON ** (1 / 3) * 5 / 2
    )
    assert Perturbation(method=bl.BP(), sides=1).step(np.zeros(1), np.ones(1)) == pytest.approx(EPSILON**0.5)
    assert Perturbation(method=bl.BP(), sides=4, exponent=1 / 3).step(np.zeros(1), np.ones(1)) == pytest.approx(
        EPSILON ** (1 / 3)
    )


@pytest.mark.parametrize("method", [bl.TRW(), bl.MeanField()])
def test_jacobians_are_symmetric(method: Method) -> None:
    """And positive for TRW, whose surrogate of log Z is convex."""
    graph = random_model([2, 3, 2], [*unary(3), (0, 1), (1, 2), (2, 0)], seed=6, scale=0.5)
    beliefs = Perturbation(method=method, sides=4).run(graph)
    jacobian = np.stack([beliefs.pullback(bar_factor=row) for row in np.eye(graph.layout.n_cells)])
    np.testing.assert_allclose(jacobian, jacobian.T, rtol=0, atol=1e-9)
    if isinstance(method, bl.TRW):
        assert np.linalg.eigvalsh((jacobian + jacobian.T) / 2).min() > -1e-9


def test_warm_starts_and_runs_that_stop_short() -> None:
    graph = family("grid")
    cold = Perturbation(method=bl.TRW()).run(graph)
    warm = Perturbation(method=bl.TRW(), max_iters=3).run(graph, cold.warm_state)
    assert cold.converged and warm.converged and cold.rho is not None
    with pytest.warns(DeprecationWarning, match="Beliefs.kept is called warm_state"):
        assert cold.kept is cold.warm_state
    np.testing.assert_allclose(warm.mu_factor, cold.mu_factor, rtol=0, atol=1e-13)
    short = Perturbation(method=bl.TRW(), max_iters=1).run(graph)
    assert not short.converged and np.isfinite(short.pullback(*bars(graph))).all()


def test_nothing_to_pull_back_is_zero() -> None:
    graph = family("grid")
    assert not Perturbation(method=bl.TRW()).run(graph).pullback().any()


@pytest.mark.parametrize(
    "options",
    [{"sides": 3}, {"sides": True}, {"multiplier": 0.0}, {"exponent": -1.0}, {"tol": -1.0}, {"max_iters": 0}],
)
def test_bad_options(options: dict[str, object]) -> None:
    with pytest.raises(bl.ModelError, match=f"{next(iter(options))} must be"):
        Perturbation(method=bl.BP(), **options)  # type: ignore[arg-type]


def test_methods_that_cannot_be_differentiated() -> None:
    with pytest.raises(bl.UnsupportedError, match="sampling"):
        Perturbation(method=bl.Gibbs())


def test_runs_that_end_elsewhere_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A perturbed run may meet its tolerance and yet stop in another place, further off than the step has moved it."""
    graph, calls = family("grid"), []

    def disturbed(*args: Any, **given: Any) -> Answer:
        calls.append(answer(*args, **given))
        bend = 1.0 + 1e-6 * (len(calls) == 3)
        return replace(calls[-1], mu_factor=calls[-1].mu_factor * bend)

    monkeypatch.setattr("beliefs.learning.gradients.perturbation.answer", disturbed)
    beliefs = Perturbation(method=bl.TRW()).run(graph)
    assert beliefs.converged
    beliefs.pullback(*bars(graph))
    assert all(call.converged for call in calls) and not beliefs.converged


def test_the_step_follows_from_how_exact_marginals_are() -> None:
    assert Perturbation(method=bl.TRW()).noise == EPSILON
    assert Perturbation(method=bl.TRW(), tol=1e-9).noise == 1e-9
    assert Perturbation(method=bl.WMB()).noise == pytest.approx(1e-7)
    assert Perturbation(method=bl.WMB(), tol=1e-8).noise == pytest.approx(1e-5)
    assert Perturbation(method=bl.JunctionTree(), tol=1e-9).noise == EPSILON


SHARP = random_model([3, 2, 3, 2], [*unary(4), *grid_pairs(2, 2)], seed=5, scale=3.0)
UNLIKELY = SHARP.with_theta(SHARP.theta - 40.0 * (np.arange(SHARP.layout.n_cells) == 0))


@pytest.mark.parametrize("sides", [1, 2, 4])
@pytest.mark.parametrize("label", [0, 1, 2])
@pytest.mark.parametrize("graph", [SHARP, UNLIKELY], ids=["sharp", "unlikely"])
def test_what_counts_as_converged_is_right_whatever_the_step(graph: bl.FactorGraph, label: int, sides: int) -> None:
    """Logistic losses of one label, which may be nearly impossible, and steps that are too short or too long."""
    counted = 0
    for method, way in (
        (bl.MeanField(), AtConvergence(method=bl.MeanField(), tol=1e-14, back_tol=1e-14)),
        (bl.JunctionTree(), Exact()),
    ):
        truth = way.run(graph)
        bar = np.zeros(graph.layout.n_states)
        bar[label] = -1.0 / truth.mu_var[label]
        expected = truth.pullback(bar_var=bar)
        for tol in (None, 1e-6):
            for multiplier in (1e-4, 1e-2, 1.0, 1e4):
                beliefs = Perturbation(method=method, sides=sides, multiplier=multiplier, tol=tol).run(graph)
                found = beliefs.pullback(bar_var=bar)
                counted += not beliefs.converged
                error = np.abs(found - expected).max() / max(np.abs(expected).max(), 0.02)
                assert error < 0.03 or not beliefs.converged, (method, tol, multiplier, error)
                if multiplier == 1.0 and tol is None and truth.mu_var[label] > 1e-3:
                    assert beliefs.converged
    assert counted
