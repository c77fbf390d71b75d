"""The door of fitting: limits, callbacks, early stopping, flags, and answers to bad input."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.learning.fit import fit
from beliefs.learning.fit_loss import as_fit_loss
from beliefs.learning.gradients.truncated import Truncated
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import Evaluation, InstanceLoss
from beliefs.learning.losses.truncated import TruncatedLikelihood
from beliefs.learning.result import FitProgress
from learning_reference import identity
from small_crf import TEMPLATE, Enumerated, chains

LOSS = Enumerated(template=TEMPLATE, l2=1e-3)
DATA = chains(6)


def test_the_small_field_of_these_tests_is_right() -> None:
    w = np.linspace(-1, 1, 10)
    for instance in DATA:
        graph = instance.graph(TEMPLATE.theta(w, instance.inputs))
        seen = {v: int(x) for v, x in enumerate(instance.labels)}
        part = LOSS.part(graph.theta, instance)
        joint, clamped = reference.joint_table(graph), reference.joint_table(graph, seen)
        assert part.value == pytest.approx(reference.log_z(joint) - reference.log_z(clamped), rel=1e-12)
        expected = reference.mu(graph, joint) - reference.mu(graph, clamped)
        np.testing.assert_allclose(part.grad_theta, expected, atol=1e-13)


class Valley:
    """A long valley, which takes many iterations: sum of 10^k (w_k - 1)^2."""

    scales = 10.0 ** np.linspace(-2, 4, 12)

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def value_and_grad(self, w: np.ndarray, instances: Any) -> tuple[float, np.ndarray]:
        time.sleep(self.seconds)
        return float(self.scales @ (w - 1) ** 2), 2 * self.scales * (w - 1)


START = np.linspace(-1, 1, 12)


def test_the_result_is_four_lines() -> None:
    result = fit(LOSS, DATA)
    lines = repr(result).splitlines()
    assert len(lines) == 4 and lines[0] == "FitResult" and lines[1] == "  optimizer  lbfgs, 10 weights"
    assert f"{result.loss:.10g}" in lines[2] and f"CONVERGED after {result.n_iters} iterations" in lines[3]
    assert result.require_converged() is result and result.reason == "the gradient fell below tol"
    assert result.validation == np.inf and np.isinf(result.trace.validation).all()


def test_a_fit_that_starts_at_the_optimum_stops_at_once() -> None:
    first = fit(LOSS, DATA)
    again = fit(LOSS, DATA, first.weights)
    assert again.n_iters == 0 and again.n_evaluations == 1 and (again.weights == first.weights).all()


def test_the_starting_weights_are_left_alone() -> None:
    start = np.zeros(10)
    result = fit(LOSS, DATA, start)
    assert not start.any() and result.weights.any()
    result.weights[0] = 7.0  # the caller's own copy


@pytest.mark.parametrize("max_iters", [0, 1, 3])
def test_an_iteration_limit_that_was_asked_for_is_kept_in_silence(max_iters: int) -> None:
    result = fit(Valley(), [], START, max_iters=max_iters)
    assert result.status is bl.Status.MAX_ITERS and result.n_iters == max_iters
    assert result.trace.iteration.tolist() == list(range(max_iters + 1)) and "raise max_iters" in result.reason


def test_the_optimisers_own_limit_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    from beliefs.learning.optimizers import LBFGS

    monkeypatch.setattr(LBFGS, "default_max_iters", 2)
    with pytest.warns(bl.ConvergenceWarning, match=r"lbfgs, gradient .*: max_iters was reached"):
        fit(Valley(), [], START)


def test_a_time_limit_is_kept_within_an_evaluation() -> None:
    result = fit(Valley(0.05), [], START, time_limit=0.2)
    assert result.status is bl.Status.TIME_LIMIT and result.seconds > 0.2 and result.n_evaluations <= 5
    assert result.loss == result.trace.loss[-1] == Valley().value_and_grad(result.weights, [])[0]
    assert fit(Valley(), [], START, time_limit=0).n_iters == 0


@pytest.mark.parametrize("answer", [True, np.True_])
def test_a_callback_stops_with_the_result_so_far(answer: object) -> None:
    seen: list[FitProgress] = []

    def callback(now: FitProgress) -> object:
        seen.append(now)
        return answer if now.iteration == 3 else None

    result = fit(Valley(), [], START, callback=callback)
    assert result.status is bl.Status.STOPPED and result.n_iters == 3 and "caller" in result.reason
    assert [p.iteration for p in seen] == [0, 1, 2, 3] and seen[-1].loss == result.loss
    assert [p.loss for p in seen] == result.trace.loss.tolist()
    assert (seen[-1].weights == result.weights).all() and not seen[-1].weights.flags.writeable


def test_an_exception_in_a_callback_leaves_as_it_is() -> None:
    def callback(now: FitProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(Valley(), [], START, callback=callback)


def test_early_stopping_returns_the_best_weights_by_validation() -> None:
    """The validation loss is a parabola along the way, best well before the end."""
    target = START + 0.2 * (1 - START)
    result = fit(Valley(), [], START, validation=lambda w: ((w - target) ** 2).sum(), patience=4, max_iters=1000)
    best = int(np.argmin(result.trace.validation))
    assert result.status is bl.Status.STOPPED and result.n_iters == best + 4
    assert result.validation == result.trace.validation.min() == ((result.weights - target) ** 2).sum()
    assert result.loss == result.trace.loss[best] and f"those of iteration {best}" in result.reason


def test_validation_by_instances_leaves_the_ridge_out() -> None:
    held_out = chains(5, seed=1)
    result = fit(LOSS, DATA, validation=(i for i in held_out), patience=1000)
    plain = Enumerated(template=TEMPLATE).value_and_grad(result.weights, held_out)[0]
    assert result.validation == pytest.approx(plain, rel=1e-12) and "validation" in repr(result)


@dataclass(frozen=True, kw_only=True)
class Flagged(Enumerated):
    """The likelihood, with flags on some instances."""

    def part(self, theta: np.ndarray, instance: Instance) -> InstanceLoss:
        part = super().part(theta, instance)
        number = int(instance.name.split()[1])
        return InstanceLoss(part.value, part.grad_theta, diverged=number < 2, converged=number > 2)


def test_flags_are_counted_and_divergence_warns_once() -> None:
    with pytest.warns(bl.ConvergenceWarning, match="2 instances .* more sweeps or a larger l2") as caught:
        result = fit(Flagged(template=TEMPLATE, l2=1e-3), DATA)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert (result.n_diverged, result.n_not_converged) == (2, 3) and "2 diverged, 3 not converged" in repr(result)


def test_estimates_are_refused_by_the_line_search() -> None:
    class Sampled(Enumerated):
        name = "sampled"
        stochastic = True

    with pytest.raises(bl.ModelError, match='sampled gives estimates .* use optimizer="adam" or "sgd"'):
        fit(Sampled(template=TEMPLATE), DATA)


def test_what_a_loss_from_elsewhere_declares_is_asked_and_the_rest_is_as_of_most_losses() -> None:
    class Declared(Valley):
        l2, least, stochastic, threads, weight_type = 0.5, -1.0, True, None, np.float32
        ridge = 0.5  # no method, so the default is asked

        def is_smooth(self, data: Any) -> bool:
            return False

    own, plain = as_fit_loss(Declared()), as_fit_loss(Valley())
    assert (own.name, own.l2, own.least, own.stochastic, own.is_smooth([])) == ("Declared", 0.5, -1.0, True, False)
    assert own.threads is None and own.weight_type is np.float32 and plain.weight_type is np.float64
    assert (plain.name, plain.l2, plain.least, plain.stochastic) == ("Valley", 0.0, -np.inf, False)
    assert own.ridge(np.array([1.0, 2.0])) == 2.5 and plain.n_weights is None and plain.is_smooth([])
    assert plain.evaluate(START, []).value == Valley().value_and_grad(START, [])[0]
    assert as_fit_loss(own) is own


class Evaluated:
    def evaluate(self, w: np.ndarray, instances: Any) -> Evaluation:
        return Evaluation(0.0, np.zeros(3), 1)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"loss": 3}, "loss must have value_and_grad"),
        ({"instances": 3}, "instances must be a list of instances, found int"),
        ({"instances": iter(DATA)}, "generator, which can be read once, and lbfgs asks for more: give a list"),
        ({"loss": Valley()}, "has no n_weights .* give the weights"),
        ({"weights": np.zeros(9)}, r"weights must be 10 numbers, found shape \(9,\)"),
        ({"weights": [np.nan] * 10}, "weight 0 to start from is not finite"),
        ({"optimizer": "newton"}, r"no optimizer 'newton' \(known: lbfgs"),
        ({"optimizer": "lbfgs(memry=3)"}, "lbfgs has no option 'memry'"),
        ({"optimizer": "lbfgs(3)"}, "options of lbfgs are written field=value"),
        ({"optimizer": "("}, "an optimizer is written name"),
        ({"optimizer": 3}, "optimizer must be an Optimizer or its text, found int"),
        ({"l1": -1.0}, "l1 must be finite and at least 0, found -1"),
        ({"l1": np.zeros(3)}, r"l1 must be a number or 10 numbers, one a weight; found shape \(3,\)"),
        ({"l1": "much"}, "l1 must be a number"),
        ({"free": np.ones(10)}, r"free must be a mask of 10 booleans, found shape \(10,\) of float64"),
        ({"bounds": 3}, r"bounds must be a pair \(low, high\), found 3"),
        ({"bounds": (1, -1)}, "low at most high"),
        ({"tol": -1.0}, "tol must be a number of at least 0"),
        ({"max_iters": -1}, "max_iters must be an integer of at least 0"),
        ({"time_limit": -1}, "time_limit must be a number of at least 0"),
        ({"callback": 3}, "callback must be a function, found 3"),
        ({"patience": 0}, "patience must be an integer of at least 1"),
        ({"seed": -1}, "seed must be an integer of at least 0"),
        ({"checkpoint_every": -1}, "checkpoint_every must be seconds"),
        ({"validation": lambda w: np.nan}, "the validation loss is nan at iteration 0"),
        ({"loss": Evaluated(), "weights": np.zeros(2)}, r"the gradient has shape \(3,\), the weights have \(2,\)"),
        ({"instances": []}, "no variable of any instance has a label"),
    ],
    ids=lambda a: str(a)[:60] if isinstance(a, str) else "",
)
def test_bad_input_is_answered_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(bl.ModelError, match=message) as caught:
        fit(**(dict[str, Any](loss=LOSS, instances=DATA) | arguments))
    assert "\n" not in str(caught.value)


def test_a_loss_without_a_bound_ends_the_fit() -> None:
    """One sweep on a grid: descent soon gives the labels a probability above one, and going on would gain nothing."""
    graph = bl.datasets.make_ising_grid(5, seed=0)
    instance = Instance(graph.layout, None, np.random.default_rng(0).integers(0, 2, 25))
    template = identity(graph.theta.size)
    through = Truncated(method=bl.TRW(schedule="forward"), n_sweeps=1)
    loss = TruncatedLikelihood(template=template, through=through, l2=1e-6)
    with pytest.warns(bl.ConvergenceWarning, match="more sweeps or a"):
        result = fit(loss, [instance], graph.theta, max_iters=500)
    assert result.status is bl.Status.DIVERGED
    assert (
        "too few sweeps, or a value below log Z such as mean_field's, leave the loss without a bound" in result.reason
    )
    assert result.n_iters < 100
    assert np.isfinite(result.weights).all()
