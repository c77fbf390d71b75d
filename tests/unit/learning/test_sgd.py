"""Mini-batch optimisers: the same optimum as L-BFGS, one-shot data, scaling, penalties, divergence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.learning.fit import fit
from beliefs.learning.instances import Instance
from beliefs.learning.optimizers import SGD, Adam
from beliefs.learning.optimizers.batches import Batches
from beliefs.learning.result import FitProgress
from small_crf import TEMPLATE, Enumerated, chains

LOSS = Enumerated(template=TEMPLATE, l2=0.01)
DATA = chains(12)
OPTIMUM = fit(LOSS, DATA, tol=1e-9)


class Quadratic:
    """Mean over instances (numbers) of (w - a)^2 / 2: every update can be written down."""

    def __init__(self) -> None:
        self.batches: list[list[float]] = []

    def value_and_grad(self, w: np.ndarray, instances: Any) -> tuple[float, np.ndarray]:
        numbers = [float(a) for a in instances]
        self.batches.append(numbers)
        return float(np.mean([(w[0] - a) ** 2 / 2 for a in numbers])), np.array([np.mean([w[0] - a for a in numbers])])


class Again:
    """An iterable that starts anew each time, without a length."""

    def __init__(self, items: list[Any]) -> None:
        self.items, self.passes = items, 0

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        yield from self.items


@pytest.mark.parametrize(
    "optimizer",
    [
        "sgd(step=1.0, batch_size=3, t0=100)",
        "sgd(step=1.0, batch_size=3, t0=100, average=True)",
        "sgd(step=0.2, batch_size=3, t0=100, momentum=0.8)",
        "adam(step=0.1, batch_size=3, t0=100, average=True)",
    ],
)
def test_the_optimum_is_that_of_lbfgs(optimizer: str) -> None:
    """Chains of two to five variables in batches of three: without the scaling this is another optimum."""
    result = fit(LOSS, DATA, optimizer=optimizer, max_iters=400)
    assert result.status is bl.Status.MAX_ITERS and result.n_iters == 400
    assert result.loss == LOSS.value_and_grad(result.weights, DATA)[0]
    assert 0 <= result.loss - OPTIMUM.loss < 3e-6
    np.testing.assert_allclose(result.weights, OPTIMUM.weights, atol=3e-3)


def test_gradients_of_batches_average_to_that_of_all() -> None:
    """A tiny step, so that the weights hardly move: the mean over a pass is the full gradient, ridge and all."""
    start = np.linspace(-1, 1, 10)
    data = [replace(i, weight=0.5 + k % 3) for k, i in enumerate(DATA)]
    data[3] = replace(data[3], labels=np.where(np.arange(data[3].labels.size) == 1, -1, data[3].labels))
    result = fit(LOSS, data, start, optimizer="sgd(step=1e-12, batch_size=3)", max_iters=1)
    value, grad = LOSS.value_and_grad(start, data)
    assert result.trace.loss[-1] == pytest.approx(value, abs=1e-9)
    assert result.trace.grad_norm[-1] == pytest.approx(np.abs(grad).max(), abs=1e-9)


def test_updates_follow_the_formulas() -> None:
    data = Again([1.0, 2.0, 3.0])
    w = 0.0
    for t, a in enumerate([1.0, 2.0, 3.0, 1.0, 2.0, 3.0]):
        w -= 0.5 / (1 + t / 4.0) * (w - a)
    result = fit(Quadratic(), data, [0.0], optimizer="sgd(step=0.5, t0=4.0, batch_size=1)", max_iters=2)
    assert result.weights[0] == pytest.approx(w, rel=1e-14)

    w, velocity = 0.0, 0.0
    for a in [1.0, 2.0, 3.0]:
        velocity = 0.5 * velocity + (w - a)
        w -= 0.1 * velocity
    result = fit(Quadratic(), data, [0.0], optimizer=SGD(step=0.1, t0=None, batch_size=1, momentum=0.5), max_iters=1)
    assert result.weights[0] == pytest.approx(w, rel=1e-14)

    w, m, s = 0.0, 0.0, 0.0
    for t, a in enumerate([1.0, 2.0, 3.0], 1):
        m, s = 0.9 * m + 0.1 * (w - a), 0.999 * s + 0.001 * (w - a) ** 2
        w -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(s / (1 - 0.999**t)) + 1e-8)
    result = fit(Quadratic(), data, [0.0], optimizer=Adam(step=0.1, batch_size=1), max_iters=1)
    assert result.weights[0] == pytest.approx(w, rel=1e-14)

    w, average = 0.0, 0.0
    for t, a in enumerate([1.0, 2.0, 3.0], 1):
        w -= 0.5 * (w - a)
        average += 4 / (t + 3) * (w - average)
    result = fit(Quadratic(), data, [0.0], optimizer=SGD(step=0.5, t0=None, batch_size=1, average=True), max_iters=1)
    assert result.weights[0] == pytest.approx(average, rel=1e-14)


def test_a_list_is_shuffled_by_the_seed_and_every_pass_anew() -> None:
    def order(seed: int | None) -> list[list[float]]:
        loss = Quadratic()
        fit(loss, [1.0, 2.0, 3.0, 4.0, 5.0], [0.0], optimizer="sgd(batch_size=2)", max_iters=2, seed=seed)  # type: ignore[list-item]
        return loss.batches

    batches = order(3)
    assert batches == order(3) != order(4) and order(None) == order(0)
    first, second = batches[:3], batches[3:6]
    assert [len(b) for b in first] == [2, 2, 1] and first != second
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert len(batches) == 7 and len(batches[6]) == 5  # the objective at the end


def test_instances_of_any_kind_are_read_pass_by_pass() -> None:
    data = Again([1.0, 2.0, 3.0])
    loss = Quadratic()
    result = fit(loss, data, [0.0], optimizer="sgd(batch_size=2)", max_iters=3)
    assert loss.batches[:4] == [[1.0, 2.0], [3.0], [1.0, 2.0], [3.0]] and result.n_iters == 3 and data.passes == 4


def test_a_generator_gives_one_pass() -> None:
    result = fit(LOSS, (i for i in DATA), optimizer="sgd(batch_size=3)")
    assert result.n_iters == 1 and result.trace.iteration.tolist() == [1] and np.isfinite(result.loss)
    assert result.loss == result.trace.loss[0]
    with pytest.raises(bl.ModelError, match="read once, and 5 passes ask for more: give a list, .* max_iters=1"):
        fit(LOSS, (i for i in DATA), optimizer="sgd", max_iters=5)


def test_a_running_mean_of_labels_serves_data_of_unknown_size() -> None:
    result = fit(LOSS, Again(DATA), optimizer="adam(step=0.1, batch_size=3, t0=50)", max_iters=300)
    np.testing.assert_allclose(result.weights, OPTIMUM.weights, atol=0.02)


@pytest.mark.parametrize("optimizer", ["sgd(step=1.0, batch_size=3, t0=100)", "adam(step=0.1, batch_size=3, t0=50)"])
def test_l1_bounds_and_held_weights(optimizer: str) -> None:
    free = np.arange(10) != 1
    start = np.where(free, 0.0, -0.5)
    options: dict[str, Any] = {"l1": 0.03, "bounds": (-0.4, 0.4), "free": free}
    best = fit(LOSS, DATA, start, tol=1e-8, **options)
    result = fit(LOSS, DATA, start, optimizer=optimizer, max_iters=300, **options)
    assert result.weights[1] == -0.5 and np.abs(result.weights[free]).max() <= 0.4
    np.testing.assert_allclose(result.weights, best.weights, atol=0.01)


def test_a_soft_threshold_makes_weights_exactly_zero() -> None:
    """The minimum of (w - a)^2 / 2 + l1 |w| with the mean of a within l1 of zero, by steps that would cross it."""
    result = fit(Quadratic(), Again([0.1, 0.3]), [3.0], l1=0.5, optimizer="sgd(step=0.1, t0=None, batch_size=1)")
    assert result.weights[0] == 0.0 and result.grad_norm == 0.0


def test_a_step_that_is_too_large_diverges_to_the_last_whole_pass() -> None:
    def value(w: np.ndarray, instances: Any) -> tuple[float, np.ndarray]:
        with np.errstate(over="ignore", invalid="ignore"):
            return float((w**4).sum()), 4 * w**3

    class Quartic:
        value_and_grad = staticmethod(value)

    with pytest.warns(bl.ConvergenceWarning, match="not finite after update .* use a smaller step"):
        result = fit(Quartic(), [1, 2, 3], [2.0], optimizer="sgd(step=0.3, batch_size=1)")  # type: ignore[list-item]
    assert (
        result.status is bl.Status.DIVERGED
        and np.isfinite(result.weights).all()
        and np.isfinite(result.trace.loss).all()
    )


def test_the_tolerance_is_on_the_change_between_passes() -> None:
    result = fit(LOSS, DATA, optimizer="adam(step=0.05, t0=20)", tol=1e-4, max_iters=500)
    losses = result.trace.loss
    changes = np.abs(np.diff(losses)) / np.maximum(np.abs(losses[1:]), np.abs(losses[:-1]))
    assert (
        result.converged
        and changes[-1] <= 1e-4
        and (changes[:-1] > 1e-4).all()
        and "between two passes" in result.reason
    )


def test_callbacks_come_after_every_update_and_stop_within_a_pass() -> None:
    seen: list[FitProgress] = []

    def callback(now: FitProgress) -> bool:
        seen.append(now)
        return now.step == 6

    result = fit(LOSS, DATA, optimizer="sgd(batch_size=3)", callback=callback)
    assert [p.step for p in seen] == [1, 2, 3, 4, 5, 6] and [p.iteration for p in seen] == [0, 0, 0, 1, 1, 1]
    assert result.status is bl.Status.STOPPED and result.n_iters == 1 and (result.weights == seen[-1].weights).all()


def test_early_stopping_and_time_limits() -> None:
    target = OPTIMUM.weights / 2
    result = fit(LOSS, DATA, optimizer="sgd(step=0.5)", validation=lambda w: ((w - target) ** 2).sum(), patience=3)
    best = int(np.argmin(result.trace.validation))
    assert result.status is bl.Status.STOPPED and result.n_iters == best + 1 + 3  # the first row is that of pass 1
    assert result.validation == ((result.weights - target) ** 2).sum()
    assert fit(LOSS, DATA, optimizer="sgd", time_limit=0.1, max_iters=10**6).status is bl.Status.TIME_LIMIT


def test_instances_without_labels_are_passed_over() -> None:
    blank = replace(DATA[0], labels=np.full(DATA[0].labels.size, -1))
    result = fit(LOSS, [blank, *DATA[1:]], optimizer="sgd(batch_size=1)", max_iters=2)
    assert np.isfinite(result.trace.loss).all()
    with pytest.raises(bl.ModelError, match="no variable of any instance has a label"):
        fit(LOSS, [blank], optimizer="sgd")
    with pytest.raises(bl.ModelError, match="no instances to learn from"):
        fit(LOSS, [], optimizer="sgd")


def test_no_passes_are_a_legal_wish() -> None:
    result = fit(LOSS, DATA, np.ones(10), optimizer="adam", max_iters=0)
    assert (result.weights == 1).all() and result.loss == LOSS.value_and_grad(np.ones(10), DATA)[0]


def test_sampled_losses_are_served() -> None:
    class Sampled(Enumerated):
        stochastic = True

    assert fit(Sampled(template=TEMPLATE), DATA, optimizer="adam", max_iters=1).n_iters == 1


@pytest.mark.parametrize(
    "text, message",
    [
        ("sgd(step=0)", "step must be a number above 0"),
        ("sgd(batch_size=0)", "batch_size must be an integer of at least 1"),
        ("sgd(t0=0)", "t0 must be None or a number above 0"),
        ("sgd(momentum=1)", r"momentum must be in \[0, 1\)"),
        ("sgd(average=1)", "average must be True or False"),
        ("adam(beta1=1.0)", r"beta1 must be in \[0, 1\)"),
        ("adam(epsilon=0)", "epsilon must be a number above 0"),
        ("adam(momentum=0.5)", "adam has no option 'momentum'"),
    ],
)
def test_options_are_checked(text: str, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        fit(LOSS, DATA, optimizer=text)


def test_text_forms() -> None:
    assert repr(SGD()) == "sgd" and repr(Adam()) == "adam"
    assert repr(SGD(step=0.5, momentum=0.9)) == "sgd(step=0.5, momentum=0.9)"


def test_a_pass_can_be_entered_anywhere() -> None:
    data: list[Instance] = chains(7)
    whole = Batches(data, 2, 5, n_pass=3)
    whole.take()
    later = Batches(data, 2, 5, n_pass=3, position=2)
    while not whole.over:
        assert [i.name for i in whole.take()] == [i.name for i in later.take()]
    assert later.over


def test_the_subgradient_learner_of_the_literature() -> None:
    """theta <- (1 - eta) theta - eta g with g the gradient of C times the sum of losses: one batch, one step size."""
    n, c, eta = 12, 2.0, 0.02
    loss = Enumerated(template=TEMPLATE, l2=1 / (2 * c * sum(i.n_labelled for i in DATA)))
    n_labels = sum(i.n_labelled for i in DATA)
    step = eta * c * n_labels
    result = fit(loss, DATA, optimizer=SGD(step=step, batch_size=n, t0=None), max_iters=3)
    theta = np.zeros(10)
    for _ in range(3):
        value, grad = replace(loss, l2=0.0).value_and_grad(theta, DATA)
        theta = (1 - eta) * theta - eta * c * n_labels * grad
    np.testing.assert_allclose(result.weights, theta, atol=1e-12)


def test_the_best_iterate_is_kept() -> None:
    """A step so large that the objective goes up and down: what is returned is the lowest that was seen."""
    seen: list[float] = []
    loss = replace(LOSS, l2=0.05)

    class Told(Enumerated):
        def evaluate(self, weights: np.ndarray, data: Any) -> Any:
            found = super().evaluate(weights, data)
            seen.append(found.value)
            return found

    told = Told(template=TEMPLATE, l2=loss.l2)
    last = fit(loss, DATA, optimizer="sgd(step=9.0, batch_size=12, t0=3)", max_iters=12)
    result = fit(told, DATA, optimizer="sgd(step=9.0, batch_size=12, t0=3, best=True)", max_iters=12)
    assert (np.diff(seen[:12]) > 0).any(), "the objective must rise at least once for this to be a test"
    assert result.loss == pytest.approx(min(seen[:12]), abs=1e-12) and result.loss <= last.trace.loss.min() + 1e-12
    assert (np.diff(result.trace.loss) <= 0).all() and result.trace.loss[-1] == min(seen[:12])
    assert loss.value_and_grad(result.weights, DATA)[0] == result.loss


def test_the_best_pass_of_many_batches_survives_a_cut(tmp_path: Any) -> None:
    text = "sgd(step=3.0, batch_size=5, best=True)"
    whole = fit(LOSS, DATA, optimizer=text, max_iters=6)
    for passes in (0, 2, 6):
        cut = fit(LOSS, DATA, optimizer=text, max_iters=passes, checkpoint=tmp_path / "fit.npz")
    assert cut.weights.tobytes() == whole.weights.tobytes() and (np.diff(whole.trace.loss) <= 0).all()
    with pytest.raises(bl.errors.ModelError, match="average and best"):
        SGD(average=True, best=True)
