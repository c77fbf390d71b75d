"""Margins by approximate methods: what the value claims to be, it is; what a method cannot answer is refused."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
from beliefs.errors import BudgetError, UnsupportedError
from beliefs.inference.base import Bound
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import InstanceLoss
from beliefs.learning.losses.max_margin import MaxMargin
from families import family
from losses_reference import TEMPLATE, labelled, margin

METHODS = [bl.BP(), bl.TRW(), bl.WMB(ibound=1), bl.GDD()]
HIDDEN = [1, 4, 6, 11]


def cases() -> list[tuple[bl.FactorGraph, Instance]]:
    graph = family("grid")
    return [(graph, labelled(graph, seed, hidden)) for seed in range(2) for hidden in ([], HIDDEN)]


def check_claims(found: InstanceLoss, exact: float) -> None:
    """A number is on the side of the truth that its bound says, and so is the certified one."""
    assert np.isfinite(found.value) and np.isfinite(found.grad_theta).all()
    assert found.upper >= exact - 1e-9
    if found.bound in (Bound.EXACT, Bound.LOWER):
        assert found.value <= exact + 1e-9
    if found.bound in (Bound.EXACT, Bound.UPPER):
        assert found.value >= exact - 1e-9


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_values_are_what_they_claim_to_be(method: bl.Method) -> None:
    certified = 0
    for graph, instance in cases():
        for eps_y, eps_h in ((0.0, 0.0), (0.0, 1.0), (0.0, 0.5), (1.0, 1.0), (0.5, 0.5)):
            loss = MaxMargin(template=TEMPLATE, eps_y=eps_y, eps_h=eps_h, method=method)
            loss.check(instance)
            found = loss.part(np.array(graph.theta), instance)
            exact = margin(graph, instance.labels, "hamming", eps_y, eps_h)[0]
            check_claims(found, exact)
            if eps_y == 0:
                assert found.value >= 0 and found.bound is not Bound.UPPER
                assert found.minorant == (instance.n_labelled == 12)
            certified += found.upper < np.inf
    assert bool(certified) == (method.name != "bp")


def test_outputs_are_not_valued_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss sums over what is hidden itself; bounds on that sum would take far longer than the messages."""
    graph, instance = cases()[1]
    loss = MaxMargin(template=TEMPLATE, method=bl.BP())
    expected = loss.part(np.array(graph.theta), instance)
    monkeypatch.setattr("beliefs.inference.messages.decoding.query_value", None)
    found = loss.part(np.array(graph.theta), instance)
    assert found.value == expected.value > 0
    with pytest.raises(TypeError):  # the door asks for the value
        bl.marginal_map(graph, [0, 2, 3], "bp")
    theta = np.array(graph.theta)
    theta[0] = -np.inf
    with pytest.raises(TypeError):  # which tells whether hard zeros exclude the states
        loss.part(theta, instance)


@pytest.mark.parametrize("clamped", [None, bl.MeanField()], ids=repr)
@pytest.mark.parametrize("method", METHODS[1:], ids=lambda m: m.name)
def test_a_certified_value_is_an_upper_bound(method: bl.Method, clamped: bl.Method | None) -> None:
    for graph, instance in cases()[1:3]:
        for eps_y, eps_h in ((0.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
            if clamped is not None and eps_h == 0:
                continue
            loss = MaxMargin(
                template=TEMPLATE, eps_y=eps_y, eps_h=eps_h, method=method, clamped_method=clamped, certified=True
            )
            found = loss.part(np.array(graph.theta), instance)
            exact = margin(graph, instance.labels, "hamming", eps_y, eps_h)[0]
            assert found.bound in (Bound.UPPER, Bound.EXACT) and found.upper == found.value >= exact - 1e-9


@pytest.mark.parametrize("method", METHODS[2:], ids=lambda m: m.name)
def test_different_temperatures_above_zero_are_bounded_by_methods_that_have_temperatures(method: bl.Method) -> None:
    graph, instance = cases()[1]
    loss = MaxMargin(template=TEMPLATE, eps_y=1.0, eps_h=0.0, method=method)
    loss.check(instance)
    check_claims(loss.part(np.array(graph.theta), instance), margin(graph, instance.labels, "hamming", 1.0, 0.0)[0])
    with pytest.raises(UnsupportedError, match="different temperatures, .*; use wmb, gdd, or None"):
        MaxMargin(template=TEMPLATE, eps_y=1.0, eps_h=0.0, method=bl.BP()).check(instance)


@pytest.mark.parametrize("method", [bl.JunctionTree(), bl.Elimination(), bl.Enumeration()], ids=lambda m: m.name)
def test_exact_methods_are_exact(method: bl.Method) -> None:
    graph, instance = cases()[1]
    found = MaxMargin(template=TEMPLATE, method=method).part(np.array(graph.theta), instance)
    plain = MaxMargin(template=TEMPLATE).part(np.array(graph.theta), instance)
    assert found.value == plain.value and found.bound is Bound.EXACT
    np.testing.assert_array_equal(found.grad_theta, plain.grad_theta)


def test_outputs_that_lose_to_the_labels_are_given_up_for_them() -> None:
    """One iteration on a frustrated graph decodes badly; labels that are the best state must cost nothing then."""
    graph = family("complete")
    joint_best = np.array(bl.maximize(graph).assignment)
    loss = MaxMargin(template=TEMPLATE, delta="none", method=bl.BP(), max_iters=0)
    found = loss.part(np.array(graph.theta), Instance(graph.layout, None, joint_best))
    assert found.value == 0.0 and not found.grad_theta.any() and not found.diverged


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": bl.MeanField()}, "mean_field does not give maxima.* use enumeration, .* bp, trw, .*or None"),
        ({"method": bl.LocalSearch(), "eps_y": 1.0}, "local_search does not give sums and their marginals"),
        ({"method": bl.Gibbs(), "eps_y": 1.0}, "gibbs does not give sums and their marginals"),
        ({"method": bl.WMB(side="lower")}, r"wmb\(side=lower\) does not give maxima"),
        ({"method": bl.BP(), "certified": True}, "bp does not give an upper bound on maxima"),
        ({"clamped_method": bl.LocalSearch()}, "local_search does not answer infer"),
        ({"method": bl.TRW(), "clamped_method": bl.TRW(), "certified": True}, "trw gives no lower bound on sums"),
        ({"method": bl.TRW(), "delta": "zero_one"}, "zero_one.* needs None for exact inference"),
    ],
)
def test_a_method_that_cannot_answer_is_refused_before_any_work(options: dict, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        MaxMargin(template=TEMPLATE, **options)


def test_what_is_too_wide_says_so_and_what_to_use() -> None:
    """Hidden variables in a row, with an output at each: eliminated first, they join all outputs."""
    n, rng = 40, np.random.default_rng(0)
    edges = [(v, v + 1) for v in range(n - 1)] + [(v, n + v) for v in range(n)]
    graph = bl.FactorGraph.pairwise(rng.normal(size=(2 * n, 4)), edges, rng.normal(size=(len(edges), 4, 4)))
    labels = np.where(np.arange(2 * n) < n, -1, rng.integers(4, size=2 * n))
    instance, theta = Instance(graph.layout, None, labels, name="a comb"), np.array(graph.theta)
    with pytest.raises(BudgetError, match="a comb is too wide for exact inference at eps_y=0, eps_h=1, .* such as bp"):
        MaxMargin(template=TEMPLATE).part(theta, instance)
    for eps in (0.0, 1.0):  # equal temperatures have no such order
        assert MaxMargin(template=TEMPLATE, eps_y=eps, eps_h=eps).part(theta, instance).bound is Bound.EXACT
    mixed = MaxMargin(template=TEMPLATE, method=bl.BP()).part(theta, instance)
    assert mixed.bound is Bound.LOWER and mixed.value > 0
    bounded = MaxMargin(template=TEMPLATE, method=bl.GDD(), certified=True).part(theta, instance)
    assert bounded.bound is Bound.UPPER and bounded.value >= mixed.value
