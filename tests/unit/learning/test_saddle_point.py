"""Saddle point: the gap between the best state and the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.driver import Value
from beliefs.errors import ModelError, UnsupportedError
from beliefs.inference.base import Bound, Decoding, Guarantee, Problem, Task
from beliefs.learning.instances import Instance
from beliefs.learning.losses.saddle_point import SaddlePoint
from families import family
from losses_reference import SMOOTH, TEMPLATE, check_gradient, check_renaming, labelled

LOSS = SaddlePoint(template=TEMPLATE)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_value_is_the_gap_of_scores(name: str) -> None:
    graph = family(name)
    instance = labelled(graph, seed=1)
    joint = reference.joint_table(graph)
    part = LOSS.part(np.array(graph.theta), instance)
    assert part.value == pytest.approx(float(joint.max() - joint[tuple(instance.labels)]), abs=1e-11)
    assert part.converged


@pytest.mark.parametrize("name", [name for name in SMOOTH if name != "uniform"])
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    """Where the best state is unique, which random tables make sure of."""
    graph = family(name)
    check_gradient(LOSS, graph.theta, labelled(graph, seed=1))


@pytest.mark.parametrize("name", SMOOTH)
def test_the_best_state_as_labels_costs_nothing(name: str) -> None:
    graph = family(name)
    joint = reference.joint_table(graph)
    best = np.array(np.unravel_index(int(joint.argmax()), joint.shape), np.int64)
    part = LOSS.part(np.array(graph.theta), Instance(graph.layout, None, best))
    assert part.value == 0.0 and not part.grad_theta.any()


@pytest.mark.parametrize("method", [bl.BP(), bl.TRW(), bl.LocalSearch()])
def test_an_approximate_method_gives_a_lower_bound_that_is_never_negative(method: bl.Method) -> None:
    graph = family("complete")
    loss = SaddlePoint(template=TEMPLATE, method=method, max_iters=1)
    for seed in range(5):
        instance = labelled(graph, seed=seed)
        part, exact = loss.part(np.array(graph.theta), instance), LOSS.part(np.array(graph.theta), instance)
        assert 0.0 <= part.value <= exact.value + 1e-12
        score = float(graph.theta @ part.grad_theta)
        assert score == pytest.approx(part.value, abs=1e-11)


@dataclass(frozen=True, kw_only=True, repr=False)
class FirstStates(bl.Method):
    """Takes the first state of every variable for the best."""

    name: ClassVar[str] = "first_states"
    tasks: ClassVar[tuple[Task, ...]] = (Task.MAXIMIZE,)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.ESTIMATE)

    def init(self, problem: Problem, warm: object = None) -> Problem:
        return problem

    def step(self, state: Problem) -> float:
        return 0.0

    def value(self, state: Problem) -> Value:
        return Value(state.graph.log_score(np.zeros(state.graph.n_vars, int)), -np.inf, np.inf)

    def finish(self, state: Problem) -> Decoding:
        score = self.value(state).log_z
        return Decoding(np.zeros(state.graph.n_vars, np.int64), score, Bound.ESTIMATE, score)


def test_an_approximation_that_loses_to_the_labels_leaves_no_gradient() -> None:
    graph = family("strong_couplings")
    joint = reference.joint_table(graph)
    best = np.array(np.unravel_index(int(joint.argmax()), joint.shape), np.int64)
    assert best.any()
    careless = SaddlePoint(template=TEMPLATE, method=FirstStates())
    part = careless.part(np.array(graph.theta), Instance(graph.layout, None, best))
    assert part.value == 0.0 and not part.grad_theta.any() and part.bound is Bound.LOWER
    worst = np.array(np.unravel_index(int(joint.argmin()), joint.shape), np.int64)
    part = careless.part(np.array(graph.theta), Instance(graph.layout, None, worst))
    assert part.value == pytest.approx(float(joint.flat[0] - joint.min()), rel=1e-12)


def test_inference_that_stops_short_says_so() -> None:
    graph = family("complete")
    loss = SaddlePoint(template=TEMPLATE, method=bl.BP(), max_iters=1, tol=0.0)
    assert not loss.part(np.array(graph.theta), labelled(graph)).converged


def test_names_do_not_matter() -> None:
    for name in ("higher_order", "repeated_scopes", "mixed_cardinalities"):
        check_renaming(lambda g: LOSS, family(name), labelled(family(name), seed=6).labels)


def test_what_it_cannot_serve_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="gibbs does not answer maximize"):
        SaddlePoint(template=TEMPLATE, method=bl.Gibbs())
    with pytest.raises(ModelError, match="method must be a method"):
        SaddlePoint(template=TEMPLATE, method="bp")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="max_iters must be an integer of at least 0"):
        SaddlePoint(template=TEMPLATE, max_iters=-1)
    with pytest.raises(ModelError, match="tol must be"):
        SaddlePoint(template=TEMPLATE, tol=-1.0)
    with pytest.raises(ModelError, match="variable 2 has no label"):
        LOSS.check(labelled(family("chain"), hidden=[2]))
