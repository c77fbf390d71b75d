"""Losses on marginals: their formulas, their gradients in the beliefs, and through inference."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from beliefs.errors import ModelError
from beliefs.inference.messages.bp import BP
from beliefs.inference.messages.trw import TRW
from beliefs.inference.variational.mean_field import MeanField
from beliefs.kernels.losses.marginal import logistic_loss, quadratic_loss, smoothed_classification_loss
from beliefs.learning.gradients.convergence import AtConvergence
from beliefs.learning.gradients.exact import Exact
from beliefs.learning.gradients.truncated import Truncated
from beliefs.learning.instances import Instance
from beliefs.learning.losses.marginal import (
    CliqueLogistic,
    CliqueQuadratic,
    CliqueSmoothedClassification,
    SmoothedClassification,
    UnivariateLogistic,
    UnivariateQuadratic,
)
from families import family
from learning_reference import identity, labelled, slope

KERNELS = [logistic_loss, quadratic_loss, smoothed_classification_loss]
LOSSES = [
    UnivariateLogistic, CliqueLogistic, UnivariateQuadratic, CliqueQuadratic, SmoothedClassification,
    CliqueSmoothedClassification,
]  # fmt: skip


def pieces(seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    size = rng.integers(2, 6, 7)
    begin = np.cumsum(size) - size
    return begin, size, rng.integers(0, size), rng.uniform(0.5, 2.0, 7), rng.uniform(0.05, 1.0, int(size.sum()))


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_in_the_beliefs(kernel):
    begin, size, target, weight, mu = pieces()
    bar = np.zeros(mu.size)
    kernel(begin, size, target, weight, 5.0, mu, bar)
    direction = np.random.default_rng(1).standard_normal(mu.size)
    found = slope(lambda m: kernel(begin, size, target, weight, 5.0, m, np.zeros(mu.size)), mu, direction, 1e-6)
    assert abs(found - bar @ direction) < 1e-7 * max(1.0, abs(found))


def test_formulas_by_hand():
    begin, size, target, weight = np.array([0]), np.array([3]), np.array([2]), np.array([2.0])
    mu, bar = np.array([0.2, 0.5, 0.3]), np.zeros(3)
    assert logistic_loss(begin, size, target, weight, 0.0, mu, bar) == pytest.approx(-2 * np.log(0.3))
    assert quadratic_loss(begin, size, target, weight, 0.0, mu, bar) == pytest.approx(2 * (0.04 + 0.25 + 0.09 - 0.6))
    smooth = 2 / (1 + np.exp(-5 * 0.2))
    assert smoothed_classification_loss(begin, size, target, weight, 5.0, mu, bar) == pytest.approx(smooth)


def test_limits_of_smoothed_classification():
    begin, size, target, weight, mu = pieces()
    weight = np.ones(begin.size)
    errors = sum(mu[b : b + s].argmax() != t for b, s, t in zip(begin, size, target, strict=True))
    bar = np.zeros(mu.size)
    assert smoothed_classification_loss(begin, size, target, weight, 1e-9, mu, bar) == pytest.approx(begin.size / 2)
    assert smoothed_classification_loss(begin, size, target, weight, 1e6, mu, bar) == pytest.approx(errors)


def test_uniform_beliefs():
    graph = family("grid").with_theta(np.zeros(family("grid").layout.n_cells))
    instance = labelled(graph)
    card, through = graph.layout.card, Truncated(method=TRW(), n_sweeps=2)
    n = graph.n_vars
    template = identity(graph.layout.n_cells)
    logistic = UnivariateLogistic(template=template, through=through).value_and_grad(graph.theta, [instance])[0]
    quadratic = UnivariateQuadratic(template=template, through=through).value_and_grad(graph.theta, [instance])[0]
    assert logistic == pytest.approx(np.log(card).sum() / n)
    assert quadratic == pytest.approx((-1.0 / card).sum() / n)


@pytest.mark.parametrize("cls", LOSSES)
@pytest.mark.parametrize("method", [TRW(), BP(), MeanField()], ids=repr)
@pytest.mark.parametrize("name", ["grid", "mixed_cardinalities", "tied_tables"])
def test_gradients_through_truncated_inference(cls, method, name):
    graph = family(name)
    instance = labelled(graph, hidden=1)
    loss = cls(template=identity(graph.layout.n_cells), through=Truncated(method=method, n_sweeps=3))
    _, grad = loss.value_and_grad(graph.theta, [instance])
    direction = np.random.default_rng(2).standard_normal(graph.theta.size)
    found = slope(lambda t: loss.value_and_grad(t, [instance])[0], graph.theta, direction)
    assert abs(found - grad @ direction) < 1e-7 * max(1.0, abs(found))


@pytest.mark.parametrize("name", ["grid", "tree", "higher_order", "disconnected"])
def test_exact_clique_logistic_is_that_of_enumeration(name):
    graph = family(name)
    instance = labelled(graph)
    loss = CliqueLogistic(template=identity(graph.layout.n_cells), through=Exact())
    joint = reference.joint_table(graph)
    wanted, joined = 0.0, set()
    for f in range(graph.n_factors):
        scope = graph.layout.scope(f)
        if scope.size > 1:
            joined |= set(scope.tolist())
            wanted -= np.log(reference.marginal(joint, scope)[tuple(instance.labels[scope])])
    for v in set(range(graph.n_vars)) - joined:
        wanted -= np.log(reference.marginal(joint, [v])[instance.labels[v]])
    value, grad = loss.value_and_grad(graph.theta, [instance])
    assert value * graph.n_vars == pytest.approx(wanted, rel=1e-10)
    direction = np.random.default_rng(2).standard_normal(graph.theta.size)
    found = slope(lambda t: loss.value_and_grad(t, [instance])[0], graph.theta, direction)
    assert abs(found - grad @ direction) < 1e-7 * max(1.0, abs(found))


def test_weights_of_labels_and_instances():
    graph = family("grid")
    instance = labelled(graph)
    weights = np.linspace(0.5, 2.0, graph.n_vars)
    heavy = Instance(graph.layout, None, instance.labels, 3.0, weights)
    loss = UnivariateLogistic(template=identity(graph.theta.size), through=Truncated(method=TRW(), n_sweeps=2))
    beliefs = Truncated(method=TRW(), n_sweeps=2).run(graph)
    picked = beliefs.mu_var[graph.layout.state_ptr[:-1] + instance.labels]
    assert loss.value_and_grad(graph.theta, [heavy])[0] == pytest.approx(-(weights * np.log(picked)).mean())


def test_threads_change_no_byte():
    graph = family("grid")
    instances = [labelled(graph, seed=s) for s in range(9)]
    make = lambda threads: CliqueLogistic(  # noqa: E731
        template=identity(graph.theta.size), through=Truncated(method=TRW(), n_sweeps=3), threads=threads, l2=0.1
    )
    alone, together = (make(t).value_and_grad(graph.theta, instances) for t in (1, 2))
    assert alone[0] == together[0] and np.array_equal(alone[1], together[1])


def test_an_instance_that_comes_twice_goes_on_from_itself_with_any_number_of_threads():
    """Messages are kept with the instance, so its two turns must not run side by side."""
    graph = family("grid")
    found = []
    for threads in (1, 2, 2, 2):
        first, second = (labelled(graph, seed=s) for s in range(2))
        loss = CliqueLogistic(
            template=identity(graph.theta.size), through=AtConvergence(method=TRW(), tol=1e-3), threads=threads
        )
        found.append(loss.value_and_grad(graph.theta, [first, first, second, first, second]))
    assert all(value == found[0][0] and np.array_equal(grad, found[0][1]) for value, grad in found)


def test_all_hidden_is_an_error():
    graph = family("grid")
    loss = UnivariateLogistic(template=identity(graph.theta.size), through=Truncated(method=TRW(), n_sweeps=2))
    with pytest.raises(ModelError, match="no variable of any instance has a label"):
        loss.value_and_grad(graph.theta, [labelled(graph, hidden=graph.n_vars)])


@pytest.mark.parametrize("alpha", [0, -1.0, np.inf, "much"])
def test_alpha_out_of_range(alpha):
    with pytest.raises(ModelError, match="alpha"):
        SmoothedClassification(template=identity(4), through=Exact(), alpha=alpha)
