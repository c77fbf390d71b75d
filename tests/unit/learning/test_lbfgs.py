"""L-BFGS: the optimum, sparse and bounded weights, and what it does with losses that misbehave."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.learning.fit import fit
from beliefs.learning.optimizers import LBFGS
from small_crf import TEMPLATE, Enumerated, chains


class Function:
    """A loss without instances, from a function and its gradient."""

    def __init__(self, function: Any, gradient: Any) -> None:
        self.function, self.gradient, self.asked = function, gradient, 0

    def value_and_grad(self, w: np.ndarray, instances: Any) -> tuple[float, np.ndarray]:
        self.asked += 1
        return float(self.function(w)), np.asarray(self.gradient(w), float)


def rosenbrock() -> Function:
    def value(w: np.ndarray) -> float:
        return 100 * (w[1] - w[0] ** 2) ** 2 + (1 - w[0]) ** 2

    def gradient(w: np.ndarray) -> list[float]:
        return [-400 * w[0] * (w[1] - w[0] ** 2) - 2 * (1 - w[0]), 200 * (w[1] - w[0] ** 2)]

    return Function(value, gradient)


def test_a_curved_valley_is_followed_to_its_end() -> None:
    loss = rosenbrock()
    result = fit(loss, [], [-1.2, 1.0], tol=1e-9)
    assert result.converged and result.grad_norm <= 1e-9
    np.testing.assert_allclose(result.weights, 1.0, atol=1e-8)
    assert result.n_evaluations == loss.asked and result.n_iters <= loss.asked
    assert (np.diff(result.trace.loss) < 0).all() and result.trace.iteration.tolist() == list(range(result.n_iters + 1))


def test_the_gradient_of_a_likelihood_vanishes_at_the_optimum() -> None:
    loss, data = Enumerated(template=TEMPLATE, l2=1e-3), chains(12)
    result = fit(loss, data, tol=1e-8)
    value, grad = loss.value_and_grad(result.weights, data)
    assert result.converged and result.loss == value and np.abs(grad).max() <= 1e-8
    rng = np.random.default_rng(0)
    for _ in range(20):  # convex: no other point is lower
        assert loss.value_and_grad(result.weights + rng.normal(size=10), data)[0] > value


@pytest.mark.parametrize("l1", [0.01, 0.05, 0.2])
def test_an_l1_penalty_makes_weights_exactly_zero(l1: float) -> None:
    """The optimality conditions of the lasso, weight by weight."""
    loss, data = Enumerated(template=TEMPLATE, l2=1e-4), chains(12)
    result = fit(loss, data, l1=l1, tol=1e-7)
    value, grad = loss.value_and_grad(result.weights, data)
    zero = result.weights == 0.0
    assert result.converged and zero.any()
    assert (np.abs(grad[zero]) <= l1 + 1e-7).all()
    np.testing.assert_allclose(grad[~zero], -l1 * np.sign(result.weights[~zero]), atol=1e-7)
    assert result.loss == pytest.approx(value + l1 * np.abs(result.weights).sum(), rel=1e-14)


def test_a_large_l1_penalty_leaves_nothing() -> None:
    result = fit(Enumerated(template=TEMPLATE), chains(6), np.ones(10), l1=10.0)
    assert result.converged and not result.weights.any()


def test_l1_by_weight_spares_the_others() -> None:
    loss, data = Enumerated(template=TEMPLATE, l2=1e-3), chains(12)
    penalty = np.where(np.arange(10) < 6, 0.0, 5.0)
    result = fit(loss, data, l1=penalty, tol=1e-7)
    assert result.converged and not result.weights[6:].any() and result.weights[:6].all()
    assert np.abs(loss.value_and_grad(result.weights, data)[1][:6]).max() <= 1e-7


@pytest.mark.parametrize("l1", [0.0, 0.3])
def test_bounds_hold_and_bind(l1: float) -> None:
    """The minimum of sum (w - c)^2 + l1 |w| in a box, by hand."""
    c = np.array([-2.0, -0.1, 0.5, 3.0])
    loss = Function(lambda w: ((w - c) ** 2).sum(), lambda w: 2 * (w - c))
    low, high = np.array([-1.0, -np.inf, 0.7, -1.0]), np.array([1.0, np.inf, 2.0, 1.5])
    result = fit(loss, [], np.zeros(4), l1=l1, bounds=(low, high))
    free = np.sign(c) * np.maximum(np.abs(c) - l1 / 2, 0.0)
    assert result.converged
    np.testing.assert_allclose(result.weights, np.clip(free, low, high), atol=1e-6)
    assert result.weights[1] == 0.0 if l1 else result.weights[1] != 0.0


def test_weights_that_may_not_move_do_not() -> None:
    loss, data = Enumerated(template=TEMPLATE, l2=1e-3), chains(12)
    start, free = np.linspace(-1, 1, 10), np.arange(10) < 6
    result = fit(loss, data, start, free=free, tol=1e-8)
    _, grad = loss.value_and_grad(result.weights, data)
    assert result.converged and (result.weights[6:] == start[6:]).all()
    assert np.abs(grad[:6]).max() <= 1e-8 and np.abs(grad[6:]).max() > 1e-3


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_step_into_nowhere_is_refused(bad: float) -> None:
    """-log w + w/100 is defined for w > 0 only, and steps from its steep side leave it."""
    loss = Function(
        lambda w: -np.log(w[0]) + w[0] / 100 if w[0] > 0 else bad, lambda w: [-1 / w[0] + 0.01 if w[0] > 0 else bad]
    )
    for start in (1e-3, 1.0, 1e4):
        result = fit(loss, [], [start], tol=1e-9)
        assert result.converged and result.weights[0] == pytest.approx(100.0, rel=1e-4)
        assert np.isfinite(result.trace.loss).all() and np.isfinite(result.weights).all()


def test_a_gradient_of_nan_is_refused_too() -> None:
    loss = Function(lambda w: w[0] ** 2, lambda w: [2 * w[0] if w[0] < 0.5 else math.nan])
    result = fit(loss, [], [-1.0], tol=1e-9)
    assert result.converged and abs(result.weights[0]) < 1e-8


def test_a_bad_start_is_an_error() -> None:
    with pytest.raises(bl.ModelError, match="not finite at the starting weights"):
        fit(Function(lambda w: math.nan, lambda w: w), [], [1.0])


def test_a_wrong_gradient_ends_after_a_fresh_start() -> None:
    """With the gradient's sign turned no direction descends: one restart, one more failure, and a warning."""
    loss = Function(lambda w: (w**2).sum(), lambda w: -2 * w)
    with pytest.warns(bl.ConvergenceWarning, match="two line searches in a row"):
        result = fit(loss, [], [1.0, 2.0])
    assert result.status is bl.Status.OSCILLATING and result.weights.tolist() == [1.0, 2.0] and result.loss == 5.0
    with pytest.raises(bl.NotConvergedError, match="two line searches"):
        result.require_converged()


@pytest.mark.parametrize("amount", [1e-3, 1e-1])
def test_no_iterate_is_higher_than_the_one_before(amount: float) -> None:
    """Noise in value and gradient, as of inference that stops short of a fixed point: the loss never rises."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        c, scale = rng.normal(size=6), 10.0 ** rng.uniform(-1, 1, 6)
        loss = Function(
            lambda w, c=c, s=scale, rng=rng: s @ (w - c) ** 2 + amount * rng.random(),
            lambda w, c=c, s=scale, rng=rng: 2 * s * (w - c) + amount * rng.normal(size=6),
        )
        with pytest.warns(bl.ConvergenceWarning, match="do not belong together"):
            result = fit(loss, [], np.zeros(6))
        assert result.status is bl.Status.OSCILLATING and (np.diff(result.trace.loss) <= 0).all()
        assert result.loss == result.trace.loss[-1] and scale @ (result.weights - c) ** 2 < amount


def test_a_fresh_start_goes_on_where_memory_misled() -> None:
    """A kink: the gradient jumps at 0, so line searches across it fail, yet the other weights still get home."""

    def gradient(w: np.ndarray) -> np.ndarray:
        return np.array([np.sign(w[0]) if w[0] else 1.0, 2e-3 * (w[1] - 5)])

    loss = Function(lambda w: abs(w[0]) + 1e-3 * (w[1] - 5) ** 2, gradient)
    with pytest.warns(bl.ConvergenceWarning):
        result = fit(loss, [], [0.3, 0.0])
    assert result.status is bl.Status.OSCILLATING and abs(result.weights[0]) < 0.03
    assert (np.diff(result.trace.loss) <= 0).all()


def test_options_are_checked_and_written() -> None:
    assert repr(LBFGS()) == "lbfgs" and repr(LBFGS(memory=20)) == "lbfgs(memory=20)"
    for options in ({"memory": 0}, {"memory": 2.5}, {"max_line_search": 0}):
        with pytest.raises(bl.ModelError, match="must be an integer of at least 1"):
            LBFGS(**options)  # type: ignore[arg-type]
    result = fit(rosenbrock(), [], [-1.2, 1.0], optimizer="lbfgs(memory=3)")
    assert result.optimizer == LBFGS(memory=3) and result.converged


def test_very_long_steps_are_not_looked_at() -> None:
    """A cliff of slope one at zero and a flat bottom far away: plain steps would jump to the millions."""
    seen: list[float] = []

    class Slope:
        def value_and_grad(self, w: np.ndarray, _: object) -> tuple[float, np.ndarray]:
            seen.append(float(np.abs(w).max()))
            far = np.hypot(1.0, w - 1e6)
            return float(far.sum()), (w - 1e6) / far

    result = fit(Slope(), [0], np.zeros(2), optimizer="lbfgs(max_step=2)", max_iters=100)  # type: ignore[list-item]
    assert result.status.name == "CONVERGED"
    np.testing.assert_allclose(result.weights, 1e6, atol=1e-3)
    best = np.maximum.accumulate([0.0, *seen])
    assert (np.array(seen) <= best[:-1] + 2.0 * (1.0 + best[:-1]) + 1e-9).all()
