"""Max-margin min-entropy models: against enumeration, differences and their limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import beliefs as bl
from beliefs.errors import ModelError, UnsupportedError, ZeroProbabilityError
from beliefs.learning.fit import fit
from beliefs.learning.instances import Instance
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.learning.losses.min_entropy import MinEntropy
from beliefs.learning.losses.saddle_point import SaddlePoint
from families import family
from learning_reference import identity, slope
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


# -- the concave-convex procedure -----------------------------------------------------------------------------------
@pytest.mark.parametrize("order", [0.5, 2.0, 3.0])
@pytest.mark.parametrize("name", ["chain", "grid", "star", "higher_order", "mixed_cardinalities", "repeated_scopes"])
def test_the_majorant_is_above_touches_and_is_convex(name: str, order: float) -> None:
    graph, rng = family(name), np.random.default_rng(3)
    loss = MinEntropy(template=identity(graph.theta.size), order=order)
    for hidden in ([], INDEPENDENT[name]):
        instance, at = labelled(graph, 1, hidden), np.array(graph.theta)
        above = loss.majorant(at, [instance])
        here = above.part(at, instance)
        assert here.value == pytest.approx(loss.part(at, instance).value, abs=1e-10) and here.minorant
        for _ in range(6):
            one, other = (at + rng.normal(size=at.size) for _ in range(2))
            first, second = above.part(one, instance), above.part(other, instance)
            assert first.value >= loss.part(one, instance).value - 1e-10
            assert above.part(0.5 * (one + other), instance).value <= 0.5 * (first.value + second.value) + 1e-10
            assert second.value >= first.value + first.grad_theta @ (other - one) - 1e-10
            direction = rng.normal(size=at.size)
            expected = slope(lambda t, a=above, i=instance: a.part(t, i).value, one, direction)  # type: ignore[misc]
            assert first.grad_theta @ direction == pytest.approx(expected, abs=1e-6)


def test_rounds_never_raise_the_objective_and_others_are_refused() -> None:
    graph = family("grid")
    instances = [labelled(graph, seed, INDEPENDENT["grid"]) for seed in range(4)]
    start = 0.5 * np.random.default_rng(0).normal(size=graph.theta.size)
    loss = MinEntropy(template=identity(start.size), l2=0.02)
    found = fit(loss, instances, start, optimizer="cccp", tol=1e-4)
    assert found.converged and (np.diff(found.trace.loss) <= 0).all() and found.trace.loss.size > 2
    assert np.isinf(found.gap) and np.isfinite(found.trace.gap[1:]).all()
    rough = fit(loss, instances, start, optimizer="sgd(step=0.5, best=True)", max_iters=100)
    assert found.loss <= rough.loss + 1e-3
    with pytest.raises(ModelError, match='with hidden variables m3e is not: use optimizer="cccp", or sgd'):
        fit(loss, instances, start, optimizer="one_slack")
    with pytest.raises(ModelError, match="m3e is not: use sgd$"):
        fit(replace(loss, order=1.0), instances, start, optimizer="cccp")
    with pytest.raises(ModelError, match='m3e is not: use optimizer="sgd"$'):
        fit(replace(loss, order=1.0), instances, start, optimizer="one_slack")
