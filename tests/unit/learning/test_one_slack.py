"""The bundle method: its gap against optima found in other ways, stops, refusals; and the quadratic program inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import beliefs as bl
from beliefs.errors import DataWarning, ModelError
from beliefs.kernels.optimizers.simplex_qp import factor_row, leave, simplex_qp, support_of
from beliefs.learning.fit import fit
from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.losses.likelihood import Likelihood
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.learning.losses.saddle_point import SaddlePoint
from beliefs.learning.optimizers import OneSlack
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.result import FitProgress
from margin_reference import Hinge, crammer_singer, digits
from small_crf import TEMPLATE, chains

X, Y = digits(80)
C = 1.0
HINGE = Hinge(10, 64, 1 / (2 * C * len(Y)))
ROWS: list[Any] = list(zip(X, Y))  # data of its own kind, which Hinge reads
SMOOTH = Likelihood(template=TEMPLATE, l2=1e-3)
CHAINS = chains(8)


# -- the quadratic program -------------------------------------------------------------------------------------------
def solved(quadratic: np.ndarray, linear: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, float]:
    m, alpha = len(linear), alpha.copy()
    return alpha, simplex_qp(quadratic, linear, support_of(m), 1e-14, 100 * m, alpha)


def by_slsqp(q: np.ndarray, b: np.ndarray) -> float:
    m = len(b)
    return minimize(
        lambda x: 0.5 * x @ q @ x - b @ x,
        np.full(m, 1 / m),
        jac=lambda x: q @ x - b,
        method="SLSQP",
        bounds=[(0, 1)] * m,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 1000},
    ).fun


@pytest.mark.parametrize("kind", ["independent", "repeated", "flat", "far", "one"])
def test_the_program_agrees_with_a_general_solver(kind: str) -> None:
    rng = np.random.default_rng(3)
    for m, d in [(5, 12), (12, 3), (20, 20)]:
        a, b = rng.normal(size=(m, d)), rng.normal(size=m)
        if kind == "repeated":  # planes that are there twice, and in the middle of others
            a[m // 2 :], a[0] = a[: m - m // 2], (a[1] + a[2]) / 2
        if kind == "flat":
            a[:] = 0.0
        if kind == "far":  # nearly the same direction
            a += 100.0
        if kind == "one":
            a, b, m = a[:1], b[:1], 1
        q = a @ a.T
        start = np.eye(m)[0]
        alpha, gap = solved(q, b, start)
        value, size = 0.5 * alpha @ q @ alpha - b @ alpha, np.abs(b).max() + q.max()
        assert (alpha >= 0).all() and alpha.sum() == pytest.approx(1.0, abs=1e-14)
        g = q @ alpha - b
        assert alpha @ g - g.min() <= 1e-12 * size and gap <= 1e-12 * size
        other = by_slsqp(q, b)
        assert value <= other + 1e-10 * size and value == pytest.approx(other, abs=1e-6 * size)
        again, _ = solved(q, b, rng.dirichlet(np.ones(m)))
        assert 0.5 * again @ q @ again - b @ again == pytest.approx(value, abs=1e-11 * size)


def test_the_program_goes_on_from_its_answer() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(60, 40)), 5.0 * rng.normal(size=60)
    alpha, _ = solved(a @ a.T, b, np.eye(60)[7])
    again = alpha.copy()
    simplex_qp(a @ a.T, b, support_of(60), 1e-12, 1, again)  # one turn: nothing is left to do
    np.testing.assert_allclose(again, alpha, atol=1e-10)


@pytest.mark.parametrize("at", [0, 3, 8])
def test_the_factor_of_those_that_stay_is_theirs(at: int) -> None:
    a, support = np.random.default_rng(11).normal(size=(9, 12)), support_of(9)
    quadratic = a @ a.T
    support.order[:], support.place[:], support.size[0] = np.arange(9)[::-1], np.arange(9)[::-1], 9
    for k in range(9):
        assert factor_row(quadratic, 0.5, support, k) > 0
    leave(support, at)
    stay = np.delete(np.arange(9)[::-1], at)
    assert support.size[0] == 8 and support.order[:8].tolist() == stay.tolist()
    assert support.place[stay].tolist() == list(range(8)) and support.place[8 - at] == -1
    expected = np.linalg.cholesky(quadratic[np.ix_(stay, stay)] + 0.5)
    np.testing.assert_allclose(np.tril(support.factor[:8, :8]), expected, rtol=1e-11, atol=1e-12)


# -- the gap ---------------------------------------------------------------------------------------------------------
def test_the_optimum_is_that_of_liblinear_and_every_gap_is_true() -> None:
    optimum = HINGE.evaluate(crammer_singer(X, Y, C), ROWS).value
    seen: list[FitProgress] = []
    result = fit(HINGE, ROWS, optimizer="one_slack", tol=1e-6, callback=lambda now: seen.append(now))
    trace = result.trace
    assert result.status is bl.Status.CONVERGED and "gap fell below tol" in result.reason
    assert 0 <= result.gap <= 1e-6 * result.loss and result.loss - optimum <= result.gap + 1e-11
    assert result.loss == HINGE.evaluate(result.weights, ROWS).value == trace.loss[-1]
    assert (trace.gap >= trace.loss - optimum - 1e-11).all() and (np.diff(trace.loss) <= 0).all()
    assert (np.diff(trace.loss - trace.gap) >= -1e-15).all(), "the lower bound never falls"
    assert trace.delta[0] > 0.5 and trace.iteration.tolist() == list(range(result.n_iters + 1))
    assert [now.gap for now in seen] == trace.gap.tolist() and result.bound is bl.Bound.EXACT
    assert result.n_evaluations == result.n_iters + 1


@pytest.mark.parametrize("optimizer", ["one_slack", "one_slack(step=1)", "one_slack(keep=1, inertia=0)"])
def test_smooth_losses_have_a_true_gap_too(optimizer: str) -> None:
    optimum = fit(SMOOTH, CHAINS, tol=1e-8).loss
    result = fit(SMOOTH, CHAINS, optimizer=optimizer, tol=1e-5)
    assert result.converged and (result.trace.gap >= result.trace.loss - optimum - 1e-12).all()
    assert result.loss - optimum <= 1e-5 * result.loss


def test_weights_may_be_held() -> None:
    free = np.arange(10) % 3 > 0
    start = np.linspace(-0.5, 0.5, 10)
    optimum = fit(SMOOTH, CHAINS, start, free=free, tol=1e-8)
    result = fit(SMOOTH, CHAINS, start, free=free, optimizer="one_slack", tol=1e-6)
    assert (result.weights[~free] == start[~free]).all()
    assert (result.trace.gap >= result.trace.loss - optimum.loss - 1e-12).all()
    np.testing.assert_allclose(result.weights, optimum.weights, atol=0.02)


def test_without_certified_planes_there_is_no_gap() -> None:
    result = fit(Hinge(10, 64, HINGE.l2, certified=False), ROWS, optimizer="one_slack", tol=1e-2)
    assert result.converged and result.gap == np.inf and "does not certify" in result.reason
    assert result.loss <= fit(HINGE, ROWS, optimizer="one_slack", tol=1e-2).loss * (1 + 1e-2)


def test_a_minimum_of_zero_is_met_at_once() -> None:
    """The saddle point's risk is 0 at weights of 0, and so is the lower bound."""
    result = fit(SaddlePoint(template=TEMPLATE, l2=0.1), CHAINS, optimizer="one_slack")
    assert result.converged and not result.weights.any() and result.loss == 0.0 and result.n_iters <= 1


# -- how it stops ----------------------------------------------------------------------------------------------------
def test_a_tolerance_of_nothing_ends_where_rounding_does() -> None:
    with pytest.warns(bl.ConvergenceWarning, match="neither bound has moved"):
        result = fit(HINGE, ROWS[:20], optimizer="one_slack", tol=0.0)
    assert result.status is bl.Status.OSCILLATING and result.gap <= 1e-10 * result.loss


def test_planes_stand_beside_a_ridge_that_dwarfs_them() -> None:
    """Slope and height are those of the risk, to the last digits, where the objective has none left for it."""
    data, ones = chains(6), np.ones(TEMPLATE.n_weights)
    alone = MaxMargin(template=TEMPLATE).evaluate(ones, data)
    model = OneSlack().model(Objective(MaxMargin(template=TEMPLATE, l2=1e12), data, ones), None)
    model.look(ones)
    model.cut()
    planes = model.arrays()
    np.testing.assert_allclose(planes["slopes"][0], alone.grad, rtol=1e-14)
    assert planes["offsets"][0] + planes["slopes"][0] @ ones == pytest.approx(alone.value, abs=1e-13)


def test_no_gap_is_above_what_the_loss_is_never_below() -> None:
    """Margins are never below 0, whatever the first planes say."""
    result = fit(MaxMargin(template=TEMPLATE, l2=1e-6), chains(6), optimizer="one_slack", max_iters=4)
    assert (result.trace.gap <= result.trace.loss * (1 + 1e-12)).all()


def test_limits_are_kept() -> None:
    result = fit(HINGE, ROWS, optimizer="one_slack", max_iters=7)
    assert result.status is bl.Status.MAX_ITERS and result.n_iters == 7 and "relative gap" in result.reason
    assert fit(HINGE, ROWS, optimizer="one_slack", time_limit=0.0).status is bl.Status.TIME_LIMIT
    stopped = fit(HINGE, ROWS, optimizer="one_slack", callback=lambda now: now.iteration == 3)
    assert stopped.status is bl.Status.STOPPED and stopped.n_iters == 3
    held_out = fit(HINGE, ROWS[:60], optimizer="one_slack", validation=ROWS[60:], patience=5)
    assert held_out.validation == held_out.trace.validation.min()


def test_a_fit_that_is_cut_short_goes_on_alike(tmp_path: Path) -> None:
    whole = fit(HINGE, ROWS, optimizer="one_slack(keep=5)")
    assert whole.n_iters > 12
    file = tmp_path / "fit.npz"
    for iterations in (0, 5, 12):
        fit(HINGE, ROWS, optimizer="one_slack(keep=5)", max_iters=iterations, checkpoint=file)
    resumed = fit(HINGE, ROWS, optimizer="one_slack(keep=5)", checkpoint=file)
    assert resumed.weights.tobytes() == whole.weights.tobytes() and resumed.gap == whole.gap
    assert resumed.trace.loss.tobytes() == whole.trace.loss.tobytes()


def test_an_interrupt_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    def interrupt(now: FitProgress) -> None:
        if now.iteration == 9:
            raise KeyboardInterrupt

    file = tmp_path / "fit.npz"
    with pytest.raises(KeyboardInterrupt):
        fit(HINGE, ROWS, optimizer="one_slack", checkpoint=file, callback=interrupt)
    whole = fit(HINGE, ROWS, optimizer="one_slack")
    assert fit(HINGE, ROWS, optimizer="one_slack", checkpoint=file).weights.tobytes() == whole.weights.tobytes()


def test_threads_change_no_byte() -> None:
    one, two = (fit(Likelihood(template=TEMPLATE, l2=1e-3, threads=t), CHAINS, optimizer="one_slack") for t in (1, 2))
    assert one.weights.tobytes() == two.weights.tobytes()


class Steep(Hinge):
    """The hinge, but infinite where any weight is large: potentials that leave the range of numbers."""

    def evaluate(self, w, data):
        found = super().evaluate(w, data)
        if np.abs(w).max() <= 0.15:
            return found
        return Evaluation(np.inf, np.zeros(w.size), found.n_instances)


def test_a_point_whose_loss_is_infinite_is_left_for_one_nearer() -> None:
    result = fit(Steep(10, 64, HINGE.l2), ROWS, optimizer="one_slack", max_iters=30)
    assert np.isfinite(result.loss) and np.isfinite(result.trace.loss).all() and result.loss < 1.0


# -- refusals --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"l1": 0.1}, "does not take an l1 penalty; use lbfgs"),
        ({"bounds": (0.0, np.inf)}, "does not take bounds"),
    ],
)
def test_what_planes_cannot_serve_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        fit(HINGE, ROWS, optimizer="one_slack", **options)


def test_a_ridge_is_needed_and_kinks_are_not_for_lbfgs() -> None:
    with pytest.raises(ModelError, match="one_slack needs a ridge"):
        fit(Hinge(10, 64, 0.0), ROWS, optimizer="one_slack")
    with pytest.raises(ModelError, match="lbfgs needs a smooth loss, and hinge has kinks.*one_slack"):
        fit(HINGE, ROWS)
    for bad in ({"step": 0.0}, {"step": 1.5}, {"inertia": 1.0}, {"keep": 0}):
        with pytest.raises(ModelError):
            OneSlack(**bad)


@pytest.mark.parametrize("optimizer", ["one_slack", "n_slack"])
def test_rounding_leaves_no_plane_above_the_risk(optimizer: str) -> None:
    """Scores of thousands beside a minimum of 0.01, which one constraint decides: that labels (2, 1) lose by a cost."""
    x = np.array([[-8.486181898636667], [-3.9064124335299844]])
    costs = np.array([[0.5467043710128199, 0.45304327875948747, 0.0], [0.3750887220633633, 0.8641334593779851, 0.0]])
    c = 483.8012490178395
    svm = bl.ChainSVM(C=c, optimizer=optimizer, n_states=3, max_iters=54, tol=1e-6, intercept=False)
    with pytest.warns(DataWarning, match="classes 0, 1 never occur"):
        trace = svm.fit([x], [np.array([2, 2])], costs=[costs]).result_.trace
    minimum = costs[1, 1] ** 2 / (2.0 * (2.0 * x[1, 0] ** 2 + 2.0))
    assert (2.0 * c * (trace.loss - trace.gap) <= minimum).all()
    assert 2.0 * c * (trace.loss - trace.gap).max() > 0.99 * minimum
