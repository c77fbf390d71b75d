"""Pseudo-likelihood: the conditionals of the joint table, their gradient, and what hidden labels leave of it."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from beliefs.errors import ModelError, ZeroProbabilityError
from beliefs.learning.instances import Instance
from beliefs.learning.losses.pseudo_likelihood import PseudoLikelihood
from beliefs.model import FactorGraph
from beliefs.model.features import FactorType, LogLinearTemplate, Rows
from families import family, grid_pairs
from losses_reference import (
    SMOOTH,
    TEMPLATE,
    check_gradient,
    check_renaming,
    composite,
    finite_differences,
    induced,
    labelled,
    log_conditional,
    population_gradient,
    square,
)

LOSS = PseudoLikelihood(template=TEMPLATE)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_value_is_that_of_the_conditionals(name: str) -> None:
    graph = family(name)
    instance = labelled(graph, seed=1)
    expected = composite(graph, instance.labels.tolist(), [[v] for v in range(graph.n_vars)])
    assert LOSS.part(np.array(graph.theta), instance).value == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    graph = family(name)
    check_gradient(LOSS, graph.theta, labelled(graph, seed=2))


@pytest.mark.parametrize("name", ["higher_order", "tied_tables", "mixed_cardinalities", "constants"])
def test_hidden_variables_leave_the_model_of_the_labelled_ones(name: str) -> None:
    graph = family(name)
    instance = labelled(graph, seed=3, hidden=[0])
    sub, labels, seen = induced(graph, instance.labels)
    expected = composite(sub, labels.tolist(), [[i] for i in range(len(seen))])
    assert LOSS.part(np.array(graph.theta), instance).value == pytest.approx(expected, abs=1e-11)
    check_gradient(LOSS, graph.theta, instance)


def test_label_weights_multiply_the_terms() -> None:
    graph = family("higher_order")
    weights = np.array([0.0, 2.0, 0.5, 1.0, 3.0, 0.25])
    instance = labelled(graph, seed=4, label_weights=weights)
    terms = [log_conditional(graph, instance.labels.tolist(), [v]) for v in range(graph.n_vars)]
    assert LOSS.part(np.array(graph.theta), instance).value == pytest.approx(-float(weights @ terms), abs=1e-11)
    check_gradient(LOSS, graph.theta, instance)


@pytest.mark.parametrize("make", [square, lambda: family("uniform"), lambda: family("hard_zeros_tree")])
def test_the_truth_is_stationary_in_the_population(make) -> None:  # type: ignore[no-untyped-def]
    graph = make()
    p = reference.probabilities(reference.joint_table(graph))
    total = np.zeros(graph.layout.n_cells)
    for x in reference.joint_states(graph.layout.card):
        if p[x] > 0:
            total += p[x] * LOSS.part(np.array(graph.theta), Instance(graph.layout, None, np.array(x))).grad_theta
    np.testing.assert_allclose(total, 0.0, atol=1e-13)


def test_another_parameter_is_not_stationary_in_the_population() -> None:
    """The test above can fail: labels of another model give a gradient."""
    graph = square()
    other = graph.with_theta(1.5 * graph.theta)
    p = reference.probabilities(reference.joint_table(graph))
    total = sum(
        p[x] * LOSS.part(np.array(other.theta), Instance(graph.layout, None, np.array(x))).grad_theta
        for x in reference.joint_states(graph.layout.card)
    )
    assert np.abs(total).max() > 0.01
    assert np.abs(population_gradient(LOSS, other)).max() < 1e-13


def test_without_coupling_it_is_the_likelihood() -> None:
    graph = FactorGraph.from_tables([2, 3, 2], [((0,), [1, 2]), ((1,), [1, 2, 5]), ((1,), [2, 1, 1])])
    instance = labelled(graph, seed=5)
    joint = reference.joint_table(graph)
    expected = reference.log_z(joint) - joint[tuple(instance.labels)]
    assert LOSS.part(np.array(graph.theta), instance).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("hidden", [[], [1, 4]])
def test_names_do_not_matter(hidden: list[int]) -> None:
    for name in ("higher_order", "tied_tables", "repeated_scopes"):
        graph = family(name)
        labels = labelled(graph, seed=6, hidden=[v for v in hidden if v < graph.n_vars]).labels
        check_renaming(lambda g: LOSS, graph, labels)


@pytest.mark.parametrize("scale", [1e3, 1e5])
def test_large_potentials_neither_overflow_nor_lose_the_gradient(scale: float) -> None:
    graph = family("higher_order")
    theta = scale * np.array(graph.theta)
    best = np.unravel_index(int(reference.joint_table(graph).argmax()), tuple(graph.layout.card))
    part = LOSS.part(theta, Instance(graph.layout, None, np.array(best)))
    assert 0.0 <= part.value < 1e-12  # the best state is the best given all others
    worst = Instance(graph.layout, None, 1 - np.minimum(np.array(best), 1))
    part = LOSS.part(theta, worst)
    expected = composite(graph.with_theta(theta), worst.labels.tolist(), [[v] for v in range(graph.n_vars)])
    assert part.value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(part.grad_theta, finite_differences(LOSS, theta, worst), atol=1e-4)


def test_labels_that_a_hard_zero_excludes_are_refused() -> None:
    graph = FactorGraph.from_tables([2, 2], [((0, 1), [[1, 0], [1, 1]])])
    instance = Instance(graph.layout, None, np.array([0, 1]), name="image 7")
    with pytest.raises(ZeroProbabilityError, match="image 7: the labels of variables 0, 1 have a potential of zero"):
        LOSS.part(np.array(graph.theta), instance)


def test_potentials_that_are_no_numbers_are_refused() -> None:
    graph = family("chain")
    theta = np.array(graph.theta)
    theta[3] = np.nan
    with pytest.raises(ModelError, match="nan"):
        LOSS.part(theta, labelled(graph))


def test_weights_get_the_gradient_of_the_risk_with_its_ridge() -> None:
    """Tied and untied types, two instances of different size, one of them with a hidden label."""
    rng = np.random.default_rng(7)
    template = LogLinearTemplate([FactorType("pixel", 2, 3), FactorType("pair", 4)])
    instances = []
    for rows, cols in ((2, 3), (3, 3)):
        n, edges = rows * cols, np.array(grid_pairs(rows, cols))
        graph = FactorGraph.pairwise(np.zeros((n, 2)), edges, np.zeros((2, 2)))
        labels = rng.integers(2, size=n)
        labels[0] = -1 if rows == 3 else labels[0]
        inputs = (Rows(n, rng.normal(size=(n, 3))), Rows(len(edges)))
        instances.append(Instance(graph.layout, inputs, labels, weight=1.0 + rows))
    w = rng.normal(size=template.n_weights)
    loss = PseudoLikelihood(template=template, l2=0.1)
    grad = loss.value_and_grad(w, instances)[1]
    for k in range(w.size):
        step = np.zeros(w.size)
        step[k] = 1e-5
        ends = [loss.value_and_grad(w + s * step, instances)[0] for s in (1, -1)]
        assert grad[k] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)
    threaded = PseudoLikelihood(template=template, l2=0.1, threads=2).value_and_grad(w, instances)[1]
    np.testing.assert_array_equal(threaded, grad)
