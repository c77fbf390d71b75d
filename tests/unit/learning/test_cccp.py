"""Alternating convex problems: the objective never rises, EM is a corner, every learner inside, resuming, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import beliefs as bl
from beliefs.errors import ModelError
from beliefs.learning.em import alternate
from beliefs.learning.fit import fit
from beliefs.learning.linearised import Expected, Terms, expect
from beliefs.learning.losses.likelihood import Likelihood, SurrogateEM
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.learning.losses.pseudo_likelihood import PseudoLikelihood
from beliefs.learning.optimizers import CCCP
from beliefs.learning.result import FitProgress
from learning_reference import identity, slope
from small_crf import TEMPLATE, chains

DATA = [
    replace(c, labels=np.where(np.arange(c.labels.size) == k % 4, -1, c.labels), weight=1.0 + k % 2)
    for k, c in enumerate(chains(9))
]
START = np.random.default_rng(0).normal(scale=0.5, size=TEMPLATE.n_weights)
LIKELIHOOD = Likelihood(template=TEMPLATE, l2=0.02)
MARGIN = MaxMargin(template=TEMPLATE, l2=0.02)
CORNERS = [LIKELIHOOD, MARGIN, replace(MARGIN, eps_h=0.0), replace(MARGIN, eps_y=0.5, eps_h=0.5)]


@pytest.mark.parametrize("loss", CORNERS, ids=lambda loss: f"{loss.name}{getattr(loss, 'eps_h', '')}")
def test_the_convex_problem_is_above_and_touches(loss: Likelihood) -> None:
    """Both ways to write it agree, weights of instances and all, and the gradient is that of its value."""
    problem = Terms(loss).tangent(START, DATA)
    expect(loss, START, DATA)
    by_instance = Expected(template=TEMPLATE, l2=loss.l2, of=loss)
    here, there = loss.evaluate(START, DATA), problem.evaluate(START, DATA)
    assert there.value == pytest.approx(here.value, abs=1e-12)
    np.testing.assert_allclose(there.grad, here.grad, atol=1e-12)
    rng = np.random.default_rng(1)
    for _ in range(5):
        w = START + rng.normal(size=START.size)
        found = problem.evaluate(w, DATA)
        assert found.value >= loss.evaluate(w, DATA).value - 1e-12 and found.minorant
        assert found.value == pytest.approx(found.upper, abs=1e-12)
        kept = by_instance.evaluate(w, DATA)
        assert kept.value == pytest.approx(found.value, abs=1e-11)
        np.testing.assert_allclose(kept.grad, found.grad, atol=1e-11)
        direction = rng.normal(size=w.size)
        change = slope(lambda v: problem.evaluate(v, DATA).value, w, direction, 1e-6)
        assert change == pytest.approx(found.grad @ direction, abs=1e-6)


@pytest.mark.parametrize("loss", CORNERS, ids=lambda loss: f"{loss.name}{getattr(loss, 'eps_h', '')}")
def test_the_objective_never_rises(loss: Likelihood) -> None:
    result = fit(loss, DATA, START, optimizer="cccp", max_iters=12)
    trace = result.trace
    assert (np.diff(trace.loss) <= 0).all() and trace.loss[-1] < trace.loss[0] - 0.05
    assert result.loss == loss.evaluate(result.weights, DATA).value and result.gap == np.inf
    smooth = loss.is_smooth(DATA)
    assert np.isinf(trace.gap).all() if smooth else np.isfinite(trace.gap[1:]).all()
    assert trace.iteration.tolist() == list(range(len(trace)))


def test_em_reaches_the_stationary_point_of_the_likelihood() -> None:
    at_once = fit(LIKELIHOOD, DATA, START, tol=1e-8)
    by_rounds = fit(LIKELIHOOD, DATA, at_once.weights + 0.01, optimizer="cccp", tol=1e-12, max_iters=500)
    assert by_rounds.converged and by_rounds.reason == "the objective fell by less than tol in a round"
    assert by_rounds.loss == pytest.approx(at_once.loss, abs=1e-9)


def test_without_hidden_labels_one_problem_is_all() -> None:
    data = chains(6)
    bundle = fit(MARGIN, data, optimizer="one_slack", tol=1e-6)
    result = fit(MARGIN, data, optimizer="cccp", tol=1e-5)
    assert result.converged and result.loss - bundle.loss <= 1e-5 and result.trace.gap[-1] < 1e-5


@pytest.mark.parametrize("inner", ["n_slack", "sgd(step=0.5)", "adam(step=0.1)", "bcfw"])
def test_every_learner_inside(inner: str) -> None:
    loss = replace(MARGIN, eps_h=0.0)
    reference = fit(loss, DATA, START, optimizer="cccp", max_iters=2)
    result = fit(loss, DATA, START, optimizer=CCCP(inner=inner, inner_iters=20), max_iters=2)
    assert (np.diff(result.trace.loss) <= 0).all()
    assert result.loss < reference.trace.loss[0] - 0.8 * (reference.trace.loss[0] - reference.loss)


def test_planes_of_earlier_rounds_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    warm = fit(MARGIN, DATA, START, optimizer="cccp(inner=one_slack)", tol=1e-5)
    monkeypatch.setattr("beliefs.learning.optimizers.cccp._Rounds._warm", lambda *_: None)
    cold = fit(MARGIN, DATA, START, optimizer="cccp(inner=one_slack)", tol=1e-5)
    assert warm.loss == pytest.approx(cold.loss, rel=1e-3) and warm.n_evaluations < 0.8 * cold.n_evaluations


def test_rounds_stop_when_neither_they_nor_their_problems_gain_much() -> None:
    """The last decrease and the gap left inside are together within tol, and little is left."""
    result = fit(MARGIN, DATA, START, optimizer="cccp")
    last = (result.trace.loss[-2] - result.trace.loss[-1]) + result.trace.gap[-1]
    assert result.converged and last <= 1e-3 * result.trace.loss[-2]
    closer = fit(MARGIN, DATA, START, optimizer="cccp", tol=1e-6)
    assert result.loss - closer.loss <= 1e-3 * closer.loss and result.n_evaluations < closer.n_evaluations


def test_planes_that_nothing_certifies_are_let_go_and_the_end_says_so() -> None:
    """Belief propagation on grids with loops: each round no worse, and a reason that says what the end is worth."""
    rng = np.random.default_rng(0)
    Y = [np.cumsum(rng.random((5, 5)) < 0.2, axis=1) % 2 for _ in range(4)]
    X = [np.eye(2)[y] + rng.normal(size=(5, 5, 2)) for y in Y]
    hidden = [np.where(rng.random((5, 5)) < 0.5, -1, y) for y in Y]
    result = bl.GridSVM(C=5.0, max_iters=30).fit(X, hidden).result_
    assert (np.diff(result.trace.loss) <= 0).all() and result.gap == np.inf
    assert result.converged and "planes that inference does not certify" in result.reason


@pytest.mark.parametrize("inner", ["auto", "bcfw"])
def test_a_fit_that_is_cut_short_goes_on_alike(tmp_path: Path, inner: str) -> None:
    loss, optimizer = (
        replace(MARGIN, eps_h=0.0 if inner == "bcfw" else 1.0),
        CCCP(inner=inner, inner_iters=None if inner == "auto" else 10),
    )
    whole = fit(loss, DATA, START, optimizer=optimizer, max_iters=6)
    file = tmp_path / "fit.npz"
    for rounds in (0, 2, 3):
        fit(loss, DATA, START, optimizer=optimizer, max_iters=rounds, checkpoint=file)
    resumed = fit(loss, DATA, START, optimizer=optimizer, max_iters=6, checkpoint=file)
    assert resumed.weights.tobytes() == whole.weights.tobytes()
    assert resumed.trace.loss.tobytes() == whole.trace.loss.tobytes()
    assert resumed.trace.gap.tobytes() == whole.trace.gap.tobytes()


def test_threads_change_no_byte() -> None:
    one, two = (fit(replace(MARGIN, threads=t), DATA, START, optimizer="cccp", max_iters=3) for t in (1, 2))
    assert one.weights.tobytes() == two.weights.tobytes()


def test_callbacks_and_the_clock_reach_into_a_round() -> None:
    calls: list[FitProgress] = []

    def callback(now: FitProgress) -> bool:
        calls.append(now)
        return len(calls) == 5

    result = fit(MARGIN, DATA, START, optimizer="cccp", callback=callback)
    assert result.status is bl.Status.STOPPED and len(calls) == 5 and result.was_stopped
    assert fit(MARGIN, DATA, START, optimizer="cccp", time_limit=0.0).status is bl.Status.TIME_LIMIT
    held_out = fit(MARGIN, DATA[:6], START, optimizer="cccp", validation=DATA[6:], patience=2)
    assert held_out.gap == np.inf and held_out.validation == held_out.trace.validation.min()


def test_weights_may_be_held_and_penalised() -> None:
    free = np.arange(START.size) % 3 > 0
    result = fit(MARGIN, DATA, START, optimizer="cccp", free=free, max_iters=6)
    assert (result.weights[~free] == START[~free]).all() and (np.diff(result.trace.loss) <= 0).all()
    sparse = fit(LIKELIHOOD, DATA, START, optimizer="cccp", l1=0.05, max_iters=6)
    assert (np.diff(sparse.trace.loss) <= 0).all() and (sparse.weights == 0).any()


def test_a_surrogate_that_rises_is_said() -> None:
    """The same surrogate for both terms bounds nothing; the objective is still never higher than before."""
    loss = SurrogateEM(template=TEMPLATE, l2=0.02, method=bl.MeanField())
    result = fit(loss, DATA, START, optimizer="cccp", max_iters=10)
    assert (np.diff(result.trace.loss) <= 0).all()


def test_the_old_name_still_works() -> None:
    loss = Likelihood(template=identity(TEMPLATE.theta(START, DATA[0].inputs).size), l2=0.01)
    start = TEMPLATE.theta(START, DATA[0].inputs)
    seen: list[tuple[int, float]] = []
    with pytest.warns(DeprecationWarning, match='optimizer="cccp"'):
        rounds = alternate(
            loss,
            DATA[:1],
            start,
            lambda problem, data, w: fit(problem, data, w, max_iters=5).weights,
            n_rounds=4,
            callback=lambda n, value: seen.append((n, value)),
        )
    assert (np.diff(rounds.losses) <= 0).all() and [n for n, _ in seen] == [1, 2, 3, 4]
    assert [value for _, value in seen] == rounds.losses[1:].tolist()


def test_refusals() -> None:
    with pytest.raises(ModelError, match="cccp needs a loss with a free and a clamped term.*pseudo_likelihood is not"):
        fit(PseudoLikelihood(template=TEMPLATE, l2=0.1), chains(2), optimizer="cccp")
    with pytest.raises(ModelError, match="one_slack needs a ridge"):
        fit(replace(MARGIN, l2=0.0), DATA, optimizer="cccp")
    with pytest.raises(ModelError, match="lbfgs needs a smooth loss"):
        fit(MARGIN, DATA, optimizer="cccp(inner=lbfgs)")
    with pytest.raises(ModelError, match="one_slack needs a convex loss, and with hidden variables max_margin is not"):
        fit(MARGIN, DATA, optimizer="one_slack")
    with pytest.raises(ModelError, match="no inner optimizer 'cccp'"):
        CCCP(inner="cccp")
    with pytest.raises(ModelError, match="inner must be"):
        CCCP(inner=3)
