"""Max-margin min-entropy models: against enumeration, differences and their limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import beliefs as bl
from beliefs.errors import ModelError, UnsupportedError, ZeroProbabilityError
from beliefs.learning.instances import Instance
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.learning.losses.min_entropy import MinEntropy
from beliefs.learning.losses.saddle_point import SaddlePoint
from families import family
from learning_reference import slope
from losses_reference import TEMPLATE, check_renaming, labelled, min_entropy

INDEPENDENT = {
    "chain": [1, 3, 6], "tree": [0, 2, 4], "grid": [1, 6, 8], "star": [1, 2, 3], "higher_order": [2],
    "mixed_cardinalities": [0, 4], "tied_tables": [0, 4, 8], "isolated_variables": [0, 1], "no_factors": [0],
    "constants": [0], "repeated_scopes": [1, 3],
}  # fmt: skip


@pytest.mark.parametrize("order", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("name", INDEPENDENT)
def test_the_value_and_its_gradient(name: str, order: float) -> None:
    graph, loss = family(name), MinEntropy(template=TEMPLATE, order=order)
    for hidden in ([], INDEPENDENT[name]):
        instance = labelled(graph, 1, hidden)
        loss.check(instance)
        found = loss.part(np.array(graph.theta), instance)
        assert found.value == pytest.approx(min_entropy(graph, instance.labels, order), abs=1e-10)
        assert found.bound.name == "EXACT" and found.minorant == (not hidden)  # type: ignore[union-attr]
        direction = np.random.default_rng(2).normal(size=graph.theta.size)
        found_slope = slope(lambda t, one=instance: loss.part(t, one).value, graph.theta, direction)  # type: ignore[misc]
        assert found.grad_theta @ direction == pytest.approx(found_slope, abs=1e-6)


def test_the_outputs_predicted_are_those_that_no_others_beat() -> None:
    graph = family("grid")
    theta, instance = np.array(graph.theta), labelled(graph, 1, INDEPENDENT["grid"])
    best = MinEntropy(template=TEMPLATE).best(theta, instance)
    assert (best[instance.labelled] >= 0).all() and (best[~instance.labelled] == -1).all()
    plain = MinEntropy(template=TEMPLATE, delta="none")
    assert plain.part(theta, replace(instance, labels=best)).value == pytest.approx(0.0, abs=1e-12)
    assert plain.part(theta, instance).value > 1e-3


def test_hard_zeros() -> None:
    table = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [1.0, 0.0, 0.0]])
    graph = bl.FactorGraph.from_tables([3, 3, 3], [((0, 1), table), ((2, 1), table), ((0,), [1.0, 2.0, 0.5])])
    for order in (0.5, 1.0, 3.0):
        instance, loss = Instance(graph.layout, None, np.array([1, -1, 0])), MinEntropy(template=TEMPLATE, order=order)
        found = loss.part(np.array(graph.theta), instance)
        assert found.value == pytest.approx(min_entropy(graph, instance.labels, order), abs=1e-12)
        assert np.isfinite(found.grad_theta).all() and not found.grad_theta[graph.theta == -np.inf].any()
        with pytest.raises(ZeroProbabilityError, match="hard zeros exclude the labels"):
            empty = bl.FactorGraph.from_tables([2, 2, 2], [((0, 1), np.eye(2)), ((1, 2), np.eye(2))])
            loss.part(np.array(empty.theta), Instance(empty.layout, None, np.array([0, -1, 1])))


def test_large_orders_are_the_latent_structured_svm_and_without_hidden_variables_it_is_the_plain_one() -> None:
    graph = family("chain")
    theta = np.array(graph.theta)
    for hidden, order, tolerance in (([1, 3], 1e4, 1e-2), ([], 2.0, 1e-12)):
        instance = labelled(graph, 1, hidden)
        found = MinEntropy(template=TEMPLATE, order=order).part(theta, instance).value
        assert found == pytest.approx(
            MaxMargin(template=TEMPLATE, eps_h=0.0).part(theta, instance).value, abs=tolerance
        )
    plain = MinEntropy(template=TEMPLATE, delta="none").part(theta, labelled(graph, 1)).value
    assert plain == pytest.approx(SaddlePoint(template=TEMPLATE).part(theta, labelled(graph, 1)).value, abs=1e-12)


def test_names_do_not_matter() -> None:
    graph = family("mixed_cardinalities")
    check_renaming(lambda g: MinEntropy(template=TEMPLATE), graph, labelled(graph, 6, [0, 4]).labels)


def test_what_it_cannot_serve_is_refused() -> None:
    graph, loss = family("chain"), MinEntropy(template=TEMPLATE)
    with pytest.raises(
        UnsupportedError, match="independent given the outputs, and factor 8 holds .* 1, 2; use max_margin"
    ):
        loss.check(labelled(graph, hidden=[1, 2]))
    with pytest.raises(ModelError, match="no output is left"):
        loss.check(labelled(graph, hidden=range(7)))
    with pytest.raises(UnsupportedError, match="not delta='zero_one'"):
        MinEntropy(template=TEMPLATE, delta="zero_one")
    for order in (0.0, -1.0, float("nan"), float("inf"), "two"):
        with pytest.raises(ModelError, match="order must be a number above 0"):
            MinEntropy(template=TEMPLATE, order=order)  # type: ignore[arg-type]
