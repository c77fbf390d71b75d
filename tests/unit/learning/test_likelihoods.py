"""Likelihoods, exact, surrogate and truncated, with and without hidden variables."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from beliefs.datasets import make_ising_grid
from beliefs.errors import ModelError, ZeroProbabilityError
from beliefs.inference.base import Bound
from beliefs.inference.messages.bp import BP
from beliefs.inference.messages.trw import TRW
from beliefs.inference.variational.mean_field import MeanField
from beliefs.learning.fit import fit
from beliefs.learning.gradients.truncated import Truncated
from beliefs.learning.instances import Instance
from beliefs.learning.losses import make_loss
from beliefs.learning.losses.likelihood import Likelihood, SurrogateEM, SurrogateLikelihood
from beliefs.learning.losses.truncated import TruncatedEM, TruncatedLikelihood
from beliefs.model import FactorGraph
from families import family
from learning_reference import identity, labelled, slope

FAMILIES = ["chain", "tree", "grid", "higher_order", "mixed_cardinalities", "tied_tables", "disconnected"]


def true_loss(graph, instance):
    joint = reference.joint_table(graph)
    seen = {v: int(x) for v, x in enumerate(instance.labels) if x >= 0}
    return reference.log_z(joint) - reference.log_z(reference.joint_table(graph, seen))


def agrees(loss, graph, instance, tolerance=1e-7):
    _, grad = loss.value_and_grad(graph.theta, [instance])
    direction = np.random.default_rng(2).standard_normal(graph.theta.size)
    found = slope(lambda t: loss.value_and_grad(t, [instance])[0], graph.theta, direction)
    assert abs(found - grad @ direction) < tolerance * max(1.0, abs(found))


@pytest.mark.parametrize("hidden", [0, 2])
@pytest.mark.parametrize("name", FAMILIES)
def test_likelihood_is_that_of_enumeration(name, hidden):
    graph = family(name)
    instance = labelled(graph, hidden)
    loss = Likelihood(template=identity(graph.theta.size))
    found = loss.evaluate(graph.theta, [instance])
    assert found.value * instance.n_labelled == pytest.approx(true_loss(graph, instance), abs=1e-9)
    assert found.bound is Bound.EXACT
    agrees(loss, graph, instance)


@pytest.mark.parametrize("method", [TRW(), MeanField()], ids=repr)
@pytest.mark.parametrize("name", ["grid", "higher_order", "tied_tables"])
def test_surrogates_bound_the_likelihood_and_know_their_gradient(name, method):
    graph = family(name)
    instance = labelled(graph)
    loss = SurrogateLikelihood(template=identity(graph.theta.size), method=method, tol=1e-14, max_iters=20_000)
    found = loss.evaluate(graph.theta, [instance])
    truth, value = true_loss(graph, instance), found.value * instance.n_labelled
    if isinstance(method, TRW):
        assert found.bound is Bound.UPPER and value >= truth - 1e-9
    else:
        assert found.bound is Bound.LOWER and value <= truth + 1e-9
    agrees(loss, graph, instance, 1e-5)


@pytest.mark.parametrize("name", ["grid", "higher_order"])
@pytest.mark.parametrize("seed", range(4))
def test_mean_field_clamped_and_trw_free_is_an_upper_bound(name, seed):
    graph = family(name)
    instance = labelled(graph, hidden=3, seed=seed)
    loss = SurrogateEM(template=identity(graph.theta.size), method=TRW(), clamped_method=MeanField())
    found = loss.evaluate(graph.theta, [instance])
    assert found.bound is Bound.UPPER
    assert found.value * instance.n_labelled >= true_loss(graph, instance) - 1e-9


def test_em_with_nothing_hidden_is_the_likelihood():
    graph = family("grid")
    instance = labelled(graph)
    template = identity(graph.theta.size)
    plain = SurrogateLikelihood(template=template, method=TRW()).value_and_grad(graph.theta, [instance])
    em = SurrogateEM(template=template, method=TRW()).value_and_grad(graph.theta, [instance])
    assert plain[0] == pytest.approx(em[0], abs=1e-7)


@pytest.mark.parametrize("n_sweeps", [1, 3, 7])
@pytest.mark.parametrize("method", [TRW(), BP(), MeanField()], ids=repr)
@pytest.mark.parametrize("name", ["grid", "mixed_cardinalities", "higher_order", "tied_tables"])
@pytest.mark.parametrize("entropy", ["literal", "counted"])
def test_truncated_gradients(name, method, n_sweeps, entropy):
    graph = family(name)
    through = Truncated(method=method, n_sweeps=n_sweeps)
    template = identity(graph.theta.size)
    agrees(TruncatedLikelihood(template=template, through=through, entropy=entropy), graph, labelled(graph))
    agrees(TruncatedEM(template=template, through=through, entropy=entropy), graph, labelled(graph, hidden=2))


def test_truncated_tends_to_the_surrogate():
    graph = family("grid")
    instance, template = labelled(graph), identity(graph.theta.size)
    surrogate = SurrogateLikelihood(template=template, method=TRW(), tol=1e-13, max_iters=5000)
    wanted = surrogate.value_and_grad(graph.theta, [instance])
    found = TruncatedLikelihood(template=template, through=Truncated(method=TRW(), n_sweeps=200))
    value, grad = found.value_and_grad(graph.theta, [instance])
    assert value == pytest.approx(wanted[0], abs=1e-8)
    np.testing.assert_allclose(grad, wanted[1], atol=1e-7)


def test_too_few_sweeps_leave_the_objective_unbounded_and_raise_the_flag():
    """Descent finds log potentials whose surrogate gives the labels a probability far above one."""
    graph = make_ising_grid(5, seed=0)
    instance, weights = labelled(graph), graph.theta
    through = Truncated(method=TRW(schedule="forward"), n_sweeps=1)
    loss = TruncatedLikelihood(template=identity(graph.theta.size), through=through)
    found = [loss.evaluate(weights, [instance])]
    for _ in range(100):
        weights = weights - 3.0 * found[-1].grad
        found.append(loss.evaluate(weights, [instance]))
    assert found[0].n_diverged == 0
    assert found[-1].n_diverged == 1
    assert found[-1].value < -10
    for step in found:
        assert step.n_diverged == (step.value < 0) or abs(step.value) < 1e-4


@pytest.mark.parametrize("entropy", ["literal", "counted"])
def test_beliefs_too_small_to_divide_by_leave_gradients_finite(entropy):
    """A variable believes in a state by 1e-316 before its factors agree with it."""
    scopes = [(1, 0), (0, 1), (0, 1), (0,), (1,), (1, 0), (0, 1), (1, 0), (1, 0)]
    halves = [1, -2, 0, -2, 1, 0, 2, 0, 1, -2, -2, 0, 2, 2, 1, 0, 1, 2, 2, -2, 2, -2, -2, 2, -2, 2, 2, 0, 0, -2, 0, 2]
    ends = np.cumsum([2 ** len(scope) for scope in scopes])
    tables = list(zip(scopes, np.split(500.0 * np.array(halves), ends[:-1]), strict=True))
    graph = FactorGraph.from_tables([2, 2], tables, log=True)
    through = Truncated(method=TRW(), n_sweeps=3)
    assert 0 < through.run(graph).mu_var.min() < 1e-308
    loss = TruncatedLikelihood(template=identity(graph.theta.size), through=through, entropy=entropy)
    value, grad = loss.value_and_grad(graph.theta, [labelled(graph)])
    assert np.isfinite(value) and np.isfinite(grad).all()


def test_zero_sweeps_are_refused():
    with pytest.raises(ModelError, match="n_sweeps of at least 1"):
        TruncatedLikelihood(template=identity(4), through=Truncated(method=TRW(), n_sweeps=0))


def test_hidden_labels_are_refused_where_undefined():
    graph = family("grid")
    loss = SurrogateLikelihood(template=identity(graph.theta.size), method=TRW())
    with pytest.raises(ModelError, match="instance 0: variable .* has no label.*surrogate_em"):
        loss.value_and_grad(graph.theta, [labelled(graph, hidden=1)])


def test_alternating_steps_never_lose():
    graph = family("chain")
    instances = [labelled(graph, hidden=2, seed=s) for s in range(5)]
    loss = Likelihood(template=identity(graph.theta.size), l2=0.01)

    losses = fit(loss, instances, graph.theta.copy(), optimizer="cccp", max_iters=10).trace.loss
    assert len(losses) > 3
    assert (np.diff(losses) <= 0).all()


@pytest.mark.parametrize("name", ["likelihood", "surrogate_likelihood", "truncated_likelihood", "pseudo_likelihood"])
def test_labels_that_a_hard_zero_excludes_are_named(name):
    graph = FactorGraph.from_tables([2, 2], [((0, 1), [[1.0, 0.0], [1.0, 1.0]])])
    instance = Instance(graph.layout, None, np.array([0, 1]), name="instance 7")
    loss = make_loss(name, template=identity(4), method=TRW(), n_sweeps=2)
    with pytest.raises(ZeroProbabilityError, match="instance 7: the labels of variables 0, 1 have a potential of zero"):
        loss.value_and_grad(graph.theta, [instance])
