"""Piecewise training: each piece by hand, its gradient, and the bound on the likelihood."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from beliefs.errors import ModelError, ZeroProbabilityError
from beliefs.learning.instances import Instance
from beliefs.learning.losses.piecewise import Piecewise
from beliefs.learning.losses.pseudo_likelihood import PseudoLikelihood
from beliefs.model import FactorGraph
from families import family
from losses_reference import SMOOTH, TEMPLATE, check_gradient, check_renaming, induced, labelled

LOSS = Piecewise(template=TEMPLATE)


def by_hand(graph: FactorGraph, labels: np.ndarray) -> float:
    """One log-sum-exp per factor of two and more variables, and one per variable over the sum of its tables."""
    own = [np.zeros(int(k)) for k in graph.layout.card]
    total = 0.0
    for f in range(graph.n_factors):
        scope = [int(v) for v in graph.layout.scope(f)]
        table = graph.theta[graph.layout.cells(f)].reshape(graph.layout.shape(f))
        if len(scope) == 1:
            own[scope[0]] += table
        else:
            total += reference.log_z(table) - table[tuple(labels[scope])]
    return float(total + sum(reference.log_z(t) - t[x] for t, x in zip(own, labels, strict=True)))


@pytest.mark.parametrize("name", SMOOTH)
def test_value_and_gradient(name: str) -> None:
    graph = family(name)
    instance = labelled(graph, seed=1)
    part = LOSS.part(np.array(graph.theta), instance)
    assert part.value == pytest.approx(by_hand(graph, instance.labels), abs=1e-11)
    check_gradient(LOSS, graph.theta, instance)


@pytest.mark.parametrize("name", SMOOTH)
def test_it_is_at_least_the_negative_log_likelihood(name: str) -> None:
    graph = family(name)
    joint = reference.joint_table(graph)
    instance = labelled(graph, seed=2)
    likelihood = reference.log_z(joint) - float(joint[tuple(instance.labels)])
    assert LOSS.part(np.array(graph.theta), instance).value >= likelihood - 1e-12


def test_without_coupling_it_is_the_likelihood_and_the_pseudo_likelihood() -> None:
    graph = FactorGraph.from_tables([2, 3, 2], [((0,), [1, 2]), ((1,), [1, 2, 5]), ((1,), [2, 1, 1])])
    instance, theta = labelled(graph, seed=5), np.array(graph.theta)
    joint = reference.joint_table(graph)
    part, pseudo = LOSS.part(theta, instance), PseudoLikelihood(template=TEMPLATE).part(theta, instance)
    assert part.value == pytest.approx(reference.log_z(joint) - joint[tuple(instance.labels)], abs=1e-12)
    assert part.value == pytest.approx(pseudo.value, abs=1e-12)
    np.testing.assert_allclose(part.grad_theta, reference.mu(graph, joint) - instance.statistics, atol=1e-12)


@pytest.mark.parametrize("name", ["higher_order", "tied_tables", "mixed_cardinalities", "constants"])
def test_pieces_with_a_hidden_variable_are_left_out(name: str) -> None:
    graph = family(name)
    instance = labelled(graph, seed=3, hidden=[1])
    sub, labels, _ = induced(graph, instance.labels)
    assert LOSS.part(np.array(graph.theta), instance).value == pytest.approx(by_hand(sub, labels), abs=1e-11)
    check_gradient(LOSS, graph.theta, instance)


def test_names_do_not_matter() -> None:
    for name in ("higher_order", "tied_tables", "repeated_scopes"):
        check_renaming(lambda g: LOSS, family(name), labelled(family(name), seed=6, hidden=[2]).labels)


def test_hard_zeros_are_legal_where_labels_avoid_them() -> None:
    graph = FactorGraph.from_tables([2, 2], [((0, 1), [[1, 0], [1, 2]])])
    part = LOSS.part(np.array(graph.theta), Instance(graph.layout, None, np.array([1, 1])))
    assert part.value == pytest.approx(np.log(2 * 2 * 2), abs=1e-12)
    np.testing.assert_allclose(part.grad_theta, [0.25, 0.0, 0.25, -0.5], atol=1e-15)
    with pytest.raises(ZeroProbabilityError, match="potential of zero"):
        LOSS.part(np.array(graph.theta), Instance(graph.layout, None, np.array([0, 1])))


def test_labels_cannot_be_weighted_one_by_one() -> None:
    graph = family("chain")
    with pytest.raises(ModelError, match="piecewise is not a sum over variables"):
        LOSS.check(labelled(graph, label_weights=np.ones(graph.n_vars)))
