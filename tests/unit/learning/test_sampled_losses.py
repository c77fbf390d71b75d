"""Sampled gradients: laws of the chains written out as matrices, and what they converge to.

Comparisons of averages over S independent chains allow five standard errors, at most ``sqrt(p (1 - p) / S)`` per cell:
about one false alarm in 30,000 runs of a test with 50 cells. Seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest

import reference
from beliefs.errors import ModelError, ZeroProbabilityError
from beliefs.inference.sampling.sweeps import Schedule
from beliefs.learning.instances import Instance, Slot
from beliefs.learning.losses.pseudo_likelihood import PseudoLikelihood
from beliefs.learning.losses.sampled import ContrastiveDivergence, StochasticLikelihood
from beliefs.model import FactorGraph
from families import family, random_model
from learning_reference import identity
from losses_reference import TEMPLATE, labelled, square

MANY = 40_000
LABELS = np.array([1, 2, 0, 1])


def transition(graph: FactorGraph) -> np.ndarray:
    """The matrix of one sweep over joint states: the product of those that redraw one variable."""
    joint, card = reference.joint_table(graph), graph.layout.card
    states = reference.joint_states(card)
    index = {x: i for i, x in enumerate(states)}
    sweep = np.eye(len(states))
    for v in Schedule.of(graph.layout, "color").order:
        redraw = np.zeros_like(sweep)
        for x in states:
            p = reference.probabilities(joint[tuple(slice(None) if u == v else x[u] for u in range(len(x)))])
            for k in range(int(card[v])):
                redraw[index[x], index[(*x[:v], k, *x[v + 1 :])]] = p[k]
        sweep = sweep @ redraw
    return sweep


def mean_statistics(graph: FactorGraph, p: np.ndarray) -> np.ndarray:
    """Expected indicators under a law over joint states, last variable fastest."""
    with np.errstate(divide="ignore"):
        return reference.mu(graph, np.log(p).reshape(tuple(graph.layout.card)))


def start_law(graph: FactorGraph, labels: np.ndarray) -> np.ndarray:
    p = np.zeros(tuple(graph.layout.card))
    p[tuple(labels)] = 1.0
    return p.ravel()


def assert_close(found: np.ndarray, expected: np.ndarray, statistics: np.ndarray, n: int) -> None:
    p = np.clip(expected + statistics, 0.0, 1.0)
    assert (np.abs(found - expected) <= 5.0 * np.sqrt(p * (1.0 - p) / n) + 1e-12).all()


def exact_gradient(graph: FactorGraph, instance: Instance) -> np.ndarray:
    """The likelihood's: expectations of the model minus those given the labels."""
    seen = {int(v): int(instance.labels[v]) for v in np.flatnonzero(instance.labels >= 0)}
    free, given = reference.joint_table(graph), reference.joint_table(graph, seen)
    return reference.mu(graph, free) - reference.mu(graph, given)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_contrastive_divergence_has_the_law_of_k_sweeps(k: int) -> None:
    graph = square()
    instance = Instance(graph.layout, None, LABELS)
    law = start_law(graph, LABELS) @ np.linalg.matrix_power(transition(graph), k)
    expected = mean_statistics(graph, law) - instance.statistics
    loss = ContrastiveDivergence(template=TEMPLATE, sweeps=k, chains=MANY, seed=3)
    found = loss.part(np.array(graph.theta), instance).grad_theta
    assert_close(found, expected, instance.statistics, MANY)


def test_contrastive_divergence_tends_to_the_likelihood_gradient() -> None:
    """The law after k sweeps does exactly, and what is drawn follows it."""
    graph = square()
    instance = Instance(graph.layout, None, LABELS)
    sweep, exact = transition(graph), exact_gradient(graph, instance)
    gaps = []
    for k in (1, 4, 16, 64):
        law = start_law(graph, LABELS) @ np.linalg.matrix_power(sweep, k)
        gaps.append(np.abs(mean_statistics(graph, law) - instance.statistics - exact).max())
    assert gaps == sorted(gaps, reverse=True) and gaps[0] > 0.05 and gaps[-1] < 1e-10
    loss = ContrastiveDivergence(template=TEMPLATE, sweeps=64, chains=MANY, seed=4)
    assert_close(loss.part(np.array(graph.theta), instance).grad_theta, exact, instance.statistics, MANY)


def test_persistent_chains_reach_the_likelihood_gradient_and_restarted_ones_do_not() -> None:
    graph, n = square(), 10_000
    exact = exact_gradient(graph, Instance(graph.layout, None, LABELS))
    gaps = {}
    for kind in (StochasticLikelihood, ContrastiveDivergence):
        instance, loss = Instance(graph.layout, None, LABELS), kind(template=TEMPLATE, sweeps=1, chains=n, seed=5)
        grads = [loss.part(np.array(graph.theta), instance).grad_theta for _ in range(64)]
        gaps[kind.name] = np.abs(grads[-1] - exact).max()
        if kind is StochasticLikelihood:
            assert_close(grads[-1], exact, instance.statistics, n)
    assert gaps["stochastic_likelihood"] < 0.03 < 0.05 < gaps["contrastive_divergence"]


def test_the_first_evaluation_of_both_is_the_same() -> None:
    graph = square()
    grads = [
        kind(template=TEMPLATE, sweeps=2, chains=7).part(np.array(graph.theta), Instance(graph.layout, None, LABELS))
        for kind in (StochasticLikelihood, ContrastiveDivergence)
    ]
    np.testing.assert_array_equal(grads[0].grad_theta, grads[1].grad_theta)


@pytest.mark.parametrize("kind", [StochasticLikelihood, ContrastiveDivergence])
@pytest.mark.parametrize("make", [square, lambda: random_model([2, 2, 3, 2], [(0, 1, 2), (2, 3), (1,)], seed=32)])
def test_hidden_variables_are_drawn_given_the_labels(kind, make) -> None:  # type: ignore[no-untyped-def]
    graph, n = make(), 10_000
    instance = Instance(graph.layout, None, np.array([1, -1, -1, 0]))
    loss = kind(template=TEMPLATE, sweeps=8, chains=n, seed=6)
    for _ in range(6):
        found = loss.part(np.array(graph.theta), instance).grad_theta
    joint = reference.joint_table(graph, {0: 1, 3: 0})
    given, law = (
        reference.mu(graph, joint),
        reference.probabilities(joint).ravel(),
    )  # after 48 clamped sweeps
    sweeps = 8 if kind is ContrastiveDivergence else 48
    free = mean_statistics(graph, law @ np.linalg.matrix_power(transition(graph), sweeps))
    spread = sum(np.sqrt(np.clip(p * (1.0 - p), 0.0, 1.0) / n) for p in (given, free))  # the two may be correlated
    assert (np.abs(found - (free - given)) <= 5.0 * spread + 1e-12).all()
    if kind is StochasticLikelihood:
        np.testing.assert_allclose(free - given, exact_gradient(graph, instance), atol=1e-9)


def test_averages_of_stochastic_likelihood_converge_to_the_maximum_of_the_likelihood() -> None:
    """Moments of the averaged weights match those of the data, which single iterates with large steps do not."""
    graph = square()
    data = random_model([2, 3, 2, 2], [(0, 1), (1, 2), (2, 3), (3, 0)], seed=33)
    p = reference.probabilities(reference.joint_table(data))
    template = identity(graph.layout.n_cells)
    instances = [
        Instance(graph.layout, None, np.array(x), weight=float(p[x])) for x in reference.joint_states(data.layout.card)
    ]
    wanted = sum(s.weight * s.statistics for s in instances)
    loss = StochasticLikelihood(template=template, sweeps=1, chains=10, seed=7)
    w, mean = np.zeros(graph.layout.n_cells), np.zeros(graph.layout.n_cells)
    for t in range(400):
        w = w - 8.0 / (1.0 + t / 50.0) * loss.value_and_grad(w, instances)[1]
        if t >= 200:
            mean += w / 200.0
    apart = [
        float(np.abs(reference.mu(graph, reference.joint_table(graph.with_theta(at))) - wanted).max())
        for at in (np.zeros(w.size), mean)
    ]
    assert apart[0] > 0.3 and apart[1] < 0.01


def test_the_value_is_the_pseudo_likelihood() -> None:
    graph = family("higher_order")
    for hidden in ([], [1]):
        instance, theta = labelled(graph, seed=1, hidden=hidden), np.array(graph.theta)
        expected = PseudoLikelihood(template=TEMPLATE).part(theta, instance).value
        assert StochasticLikelihood(template=TEMPLATE).part(theta, instance).value == expected


@pytest.mark.parametrize("name", ["higher_order", "tied_tables", "constants", "mixed_cardinalities", "no_factors"])
def test_statistics_of_one_chain_add_up_over_each_table(name: str) -> None:
    graph = family(name)
    for hidden in ([], [0]):
        instance = labelled(graph, seed=2, hidden=hidden)
        grad = ContrastiveDivergence(template=TEMPLATE).part(np.array(graph.theta), instance).grad_theta
        for f in range(graph.n_factors):
            assert abs(grad[graph.layout.cells(f)].sum()) < 1e-12


@pytest.mark.parametrize("kind", [StochasticLikelihood, ContrastiveDivergence])
def test_the_seed_and_the_count_of_evaluations_decide_and_threads_do_not(kind) -> None:  # type: ignore[no-untyped-def]
    graph = family("tied_tables")
    w = np.array(graph.theta)

    def run(seed: int, threads: int) -> np.ndarray:
        instances = [labelled(graph, seed=s, hidden=[s], name=f"image {s}") for s in range(6)]
        loss = kind(template=identity(w.size), sweeps=2, chains=3, seed=seed, threads=threads)
        return np.array([loss.value_and_grad(w, instances)[1] for _ in range(3)])

    first = run(1, 1)
    np.testing.assert_array_equal(first, run(1, 2))
    assert (first[0] != first[1]).any() and (first != run(2, 1)).any()


def test_instances_have_numbers_of_their_own() -> None:
    graph, theta = square(), np.array(square().theta)
    loss = ContrastiveDivergence(template=TEMPLATE, chains=20)
    grads = [loss.part(theta, Instance(graph.layout, None, LABELS, name=name)).grad_theta for name in ("a", "b")]
    assert (grads[0] != grads[1]).any()


def test_hard_zeros_that_come_later_restart_the_chains() -> None:
    graph = FactorGraph.from_tables([2, 2, 2], [((0, 1), [[1, 1], [1, 1]]), ((1, 2), [[1, 1], [1, 1]])])
    instance = Instance(graph.layout, None, np.array([0, 0, 0]))
    loss = StochasticLikelihood(template=TEMPLATE, chains=50)
    loss.part(np.array(graph.theta), instance)
    theta = np.array([0.0, -np.inf, -np.inf, 0.0, 0.0, -np.inf, -np.inf, 0.0])
    grad = loss.part(theta, instance).grad_theta  # only 000 and 111 are left, and no single change leads away
    np.testing.assert_array_equal(grad, np.zeros(8))
    with pytest.raises(ZeroProbabilityError, match="potential of zero"):
        loss.part(theta, Instance(graph.layout, None, np.array([0, 1, 1])))


def test_another_number_of_chains_begins_again() -> None:
    graph = square()
    instance = Instance(graph.layout, None, LABELS)
    for chains in (3, 5):
        StochasticLikelihood(template=TEMPLATE, chains=chains).part(np.array(graph.theta), instance)
        kept = instance.memory.get(Slot("chains", "stochastic_likelihood"))
        assert kept is not None and kept.free.shape == (4, chains)


@pytest.mark.parametrize("options", [{"sweeps": 0}, {"chains": 0}, {"chains": 1.5}, {"seed": -1}])
def test_bad_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ModelError, match=f"{next(iter(options))} must be an integer of at least"):
        ContrastiveDivergence(template=TEMPLATE, **options)
