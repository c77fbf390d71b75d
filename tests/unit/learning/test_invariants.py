"""What must hold between losses, and of every gradient through converged inference."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
from beliefs.learning.gradients import Truncated
from beliefs.learning.instances import Instance
from beliefs.learning.losses import LOSSES, make_loss
from beliefs.learning.losses.base import Loss
from families import family
from learning_reference import identity, labelled, slope

SETTLED = [
    "likelihood", "surrogate_likelihood", "pseudo_likelihood", "univariate_logistic", "clique_logistic",
    "univariate_quadratic", "smoothed_classification",
]  # fmt: skip


def made(name: str, graph: bl.FactorGraph, method: bl.Method | None = None) -> Loss:
    return make_loss(
        name, template=identity(graph.theta.size), method=method or bl.TRW(), tol=1e-14, gradient="auto", n_sweeps=None
    )


@pytest.mark.parametrize("name", SETTLED)
@pytest.mark.parametrize("kind", ["grid", "mixed_cardinalities", "higher_order"])
def test_moving_a_table_from_a_variable_into_a_factor_changes_nothing(name, kind):
    """So the gradient of a factor, summed onto a variable, is the gradient of the variable's own table."""
    rng = np.random.default_rng(1)
    graph = family(kind).with_factors([((v,), rng.normal(size=k)) for v, k in enumerate(family(kind).layout.card)])
    lay = graph.layout
    grad = made(name, graph).value_and_grad(graph.theta, [labelled(graph)])[1]
    alone = {int(lay.scope(f)[0]): f for f in range(lay.n_factors) if lay.scope(f).size == 1}
    compared = 0
    for f in range(lay.n_factors):
        scope = lay.scope(f).tolist()
        table = grad[lay.cells(f)].reshape(lay.shape(f))
        for axis, v in enumerate(scope):
            if len(scope) > 1 and v in alone:
                others = tuple(a for a in range(len(scope)) if a != axis)
                np.testing.assert_allclose(table.sum(axis=others), grad[lay.cells(alone[v])], atol=2e-7)
                compared += 1
    assert compared > 3


def test_without_couplings_all_these_losses_are_one():
    rng = np.random.default_rng(0)
    graph = bl.FactorGraph.from_tables([2, 3, 4], [((v,), rng.normal(size=v + 2)) for v in range(3)], log=True)
    instance = labelled(graph)
    names = ["likelihood", "surrogate_likelihood", "pseudo_likelihood", "piecewise", "univariate_logistic",
             "clique_logistic"]  # fmt: skip
    found = [made(name, graph).value_and_grad(graph.theta, [instance]) for name in names]
    for value, grad in found[1:]:
        assert value == pytest.approx(found[0][0], abs=1e-12)
        np.testing.assert_allclose(grad, found[0][1], atol=1e-12)


@pytest.mark.parametrize("kind", ["grid", "complete", "higher_order"])
@pytest.mark.parametrize("seed", range(3))
def test_surrogates_enclose_the_likelihood(kind, seed):
    """Piecewise and TRW are above the negative log-likelihood, mean field below it."""
    graph = family(kind)
    instance = labelled(graph, seed=seed)
    truth = made("likelihood", graph).value_and_grad(graph.theta, [instance])[0]
    assert made("piecewise", graph).value_and_grad(graph.theta, [instance])[0] >= truth - 1e-12
    assert made("surrogate_likelihood", graph).value_and_grad(graph.theta, [instance])[0] >= truth - 1e-9
    lower = made("surrogate_likelihood", graph, bl.MeanField())
    assert lower.value_and_grad(graph.theta, [instance])[0] <= truth + 1e-9


def test_the_likelihood_is_convex():
    graph = family("grid")
    instance, rng = labelled(graph), np.random.default_rng(0)
    loss = made("likelihood", graph)
    for _ in range(5):
        a, b = rng.standard_normal((2, graph.theta.size))
        ends = [loss.value_and_grad(t, [instance])[0] for t in (a, b, (a + b) / 2)]
        assert ends[2] <= (ends[0] + ends[1]) / 2 + 1e-12


def test_the_independent_model_of_noisy_pictures_errs_as_thresholding_does():
    labels = (np.add.outer(np.arange(120) // 7, np.arange(120) // 5) % 2).astype(np.int64)
    noisy = bl.datasets.make_noisy(labels, exponent=1.5, seed=3)
    crf = bl.GridCRF(loss="univariate_logistic", n_sweeps=0, l2=1e-5).fit([noisy], [labels])
    assert 1 - crf.score([noisy], [labels]) == pytest.approx(1 - 2 ** (-1 / 1.5), abs=0.02)


@pytest.mark.parametrize("cls", [c for c in LOSSES if c.by_variable], ids=lambda c: c.name)
def test_weights_of_labels_are_counts(cls):
    """A weight of two on everything doubles the loss."""
    graph = family("grid")
    labels = labelled(graph).labels
    plain, heavy = (Instance(graph.layout, None, labels, 1.0, np.full(labels.size, w)) for w in (1.0, 2.0))
    loss = make_loss(cls.name, template=identity(graph.theta.size), method=bl.TRW(), n_sweeps=3)
    once, twice = (loss.value_and_grad(graph.theta, [i]) for i in (plain, heavy))
    assert twice[0] == pytest.approx(2 * once[0])
    np.testing.assert_allclose(twice[1], 2 * once[1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("states", [2, 3, 4, 5, 8, 9, 21])
@pytest.mark.parametrize("method", [bl.TRW(), bl.BP(), bl.TRW(rho=0.6)], ids=repr)
def test_adjoints_that_are_all_rounding_do_no_harm(states, method):
    """Zero tables and a variable without label: what goes back through its messages is rounding, or nothing."""
    edges = [[0, 1], [2, 1], [2, 3], [3, 0]]
    graph = bl.FactorGraph.pairwise(np.zeros((4, states)), edges, np.zeros((4, states, states)))
    bar = np.zeros((4, states))
    bar[[0, 2, 3], [1, 0, 1]] = -3.0
    through = Truncated(method=method, n_sweeps=3)
    grad = through.run(graph).pullback(bar.ravel())
    direction = np.random.default_rng(0).standard_normal(grad.size)
    found = slope(lambda t: float(bar.ravel() @ through.run(graph.with_theta(t)).mu_var), graph.theta, direction)
    assert found == pytest.approx(grad @ direction, abs=1e-8)
