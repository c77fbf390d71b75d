"""Max-margin losses with two temperatures: every corner, cost and hidden pattern equals enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.errors import ModelError, UnsupportedError, ZeroProbabilityError
from beliefs.inference.base import Bound
from beliefs.learning.instances import Instance
from beliefs.learning.joined import Joiner
from beliefs.learning.losses.likelihood import Likelihood
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.learning.losses.registry import make_loss
from beliefs.learning.losses.saddle_point import SaddlePoint
from beliefs.model import FactorGraph
from beliefs.model.features import FactorType, LogLinearTemplate, Rows
from beliefs.model.layout import Layout
from families import family
from losses_reference import TEMPLATE, annealed, check_renaming, cost_table, margin, possible

CORNERS = [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.3, 0.3), (0.0, 0.5), (0.4, 2.0)]
FAMILIES = [
    "chain", "tree", "grid", "higher_order", "hard_zeros", "hard_zeros_tree", "parity", "disconnected",
    "mixed_cardinalities", "constants", "repeated_scopes", "tied_tables", "isolated_variables", "no_factors",
    "huge_range",
]  # fmt: skip
PATTERNS = ["nothing", "every second", "most"]


def hiding(graph: FactorGraph, labels: np.ndarray, pattern: str) -> np.ndarray:
    n, labels = graph.n_vars, labels.copy()
    where = {"nothing": [], "every second": range(1, n, 2), "most": range(1, n)}
    labels[list(where[pattern])] = -1
    return labels


def loss_of(eps_y: float, eps_h: float, delta: object = "hamming", **options: object) -> MaxMargin:
    return MaxMargin(template=TEMPLATE, eps_y=eps_y, eps_h=eps_h, delta=delta, **options)  # type: ignore[arg-type]


def assert_margin(loss: MaxMargin, graph: FactorGraph, instance: Instance, costs: object) -> None:
    found = loss.part(np.array(graph.theta), instance)
    value, grad, delta = margin(graph, instance.labels, costs, loss.eps_y, loss.eps_h)  # type: ignore[arg-type]
    size = max(1.0, float(np.abs(graph.theta[graph.theta > -np.inf]).sum()))
    assert found.value == pytest.approx(value, abs=1e-13 * size + 1e-10)
    assert found.bound.name == "EXACT" and found.upper == found.value  # type: ignore[union-attr]
    np.testing.assert_allclose(found.grad_theta, grad, rtol=0, atol=1e-9)
    assert found.delta == pytest.approx(delta, abs=1e-9)
    assert found.minorant == (instance.n_labelled == graph.n_vars)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_corner_equals_enumeration(name: str, pattern: str) -> None:
    graph = family(name)
    labels = hiding(graph, possible(graph), pattern)
    for eps_y, eps_h in CORNERS:
        for delta in ("hamming", "none", "zero_one"):
            assert_margin(loss_of(eps_y, eps_h, delta), graph, Instance(graph.layout, None, labels), delta)


# -- costs -----------------------------------------------------------------------------------------------------------
def test_tables_weights_and_costs_of_instances() -> None:
    graph, rng = family("chain"), np.random.default_rng(0)
    labels = hiding(graph, possible(graph), "every second")
    table = rng.uniform(size=(3, 3)) * (1 - np.eye(3))
    tabled = [table[max(k, 0)] for k in labels]
    weights = rng.uniform(size=7)
    hamming = [weights[v] * (np.arange(3) != labels[v]) for v in range(7)]
    given = rng.uniform(size=(7, 3)) * (np.arange(3) != labels[:, None])
    for eps_y, eps_h in CORNERS:
        plain = Instance(graph.layout, None, labels)
        assert_margin(loss_of(eps_y, eps_h, table), graph, plain, tabled)
        assert_margin(loss_of(eps_y, eps_h, table.tolist()), graph, plain, tabled)
        weighted = Instance(graph.layout, None, labels, label_weights=weights)
        assert_margin(loss_of(eps_y, eps_h), graph, weighted, hamming)
        for delta in ("hamming", "none", "zero_one"):
            costly = Instance(graph.layout, None, labels, costs=given.ravel())
            assert_margin(loss_of(eps_y, eps_h, delta), graph, costly, list(given))


def test_states_of_hidden_variables_cost_nothing() -> None:
    graph = family("chain")
    labels = hiding(graph, possible(graph), "every second")
    ones = np.where(np.arange(3) != labels[:, None], 1.0, 0.0)
    costly = Instance(graph.layout, None, labels, costs=ones.ravel())
    found = loss_of(0.0, 1.0).part(np.array(graph.theta), costly)
    assert found.value == loss_of(0.0, 1.0).part(np.array(graph.theta), Instance(graph.layout, None, labels)).value


# -- corners ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["chain", "grid", "higher_order", "mixed_cardinalities", "tied_tables"])
def test_corners_are_the_losses_they_generalise(name: str) -> None:
    graph = family(name)
    theta, labels = np.array(graph.theta), possible(graph, 3)
    whole, partly = (Instance(graph.layout, None, hiding(graph, labels, p)) for p in ("nothing", "every second"))
    pairs = [
        (loss_of(0.0, 0.0, "none"), SaddlePoint(template=TEMPLATE), whole),
        (loss_of(1.0, 0.3, "none"), Likelihood(template=TEMPLATE), whole),
        (loss_of(1.0, 1.0, "none"), Likelihood(template=TEMPLATE), partly),
    ]
    for margin_loss, landed, instance in pairs:
        found, other = margin_loss.part(theta, instance), landed.part(theta, instance)
        assert found.value == pytest.approx(other.value, abs=1e-9) and found.bound is other.bound
        np.testing.assert_allclose(found.grad_theta, other.grad_theta, rtol=0, atol=1e-9)
    for eps_y in (0.0, 0.5):  # nothing hidden: the other temperature is that of nobody
        values = {loss_of(eps_y, eps_h).part(theta, whole).value for eps_h in (0.0, 0.2, 1.0)}
        assert len(values) == 1


def test_temperatures_near_zero_are_near_the_maxima() -> None:
    graph = family("chain")
    for pattern in ("nothing", "every second", "most"):
        instance = Instance(graph.layout, None, hiding(graph, possible(graph), pattern))
        theta, n_hidden = np.array(graph.theta), 7 - instance.n_labelled
        for eps in (1e-1, 1e-3, 1e-6):
            for eps_h in (0.0, 1.0):
                cold = loss_of(0.0, eps_h).part(theta, instance).value
                near = loss_of(eps, eps_h).part(theta, instance).value
                assert -1e-9 <= near - cold <= eps * instance.n_labelled * np.log(3) + 1e-9
            cold, near = (loss_of(0.0, e).part(theta, instance).value for e in (0.0, eps))
            assert abs(near - cold) <= eps * n_hidden * np.log(3) + 1e-9


# -- properties of the objective -------------------------------------------------------------------------------------
@pytest.mark.parametrize("delta", ["hamming", "zero_one"])
@pytest.mark.parametrize("name", ["chain", "grid", "hard_zeros", "mixed_cardinalities"])
def test_the_loss_bounds_the_cost_of_the_annealed_marginal_map(name: str, delta: str) -> None:
    """Lemma B.1.1 [ping2016], for any theta; and it does not fall as outputs become warmer."""
    graph = family(name)
    for seed in range(3):
        instance = Instance(graph.layout, None, hiding(graph, possible(graph, seed), "every second"))
        theta = np.random.default_rng(seed).normal(size=graph.theta.size) + np.where(graph.theta == -np.inf, -np.inf, 0)
        model = graph.with_theta(theta)
        for eps_h in (0.0, 0.5, 1.0):
            values = [loss_of(e, eps_h, delta).part(theta, instance).value for e in (0.0, 0.1, 0.5, 1.0, 3.0)]
            assert (np.diff(values) >= -1e-10).all()
            belief = annealed(model, 0.0, instance.labels, 0.0, eps_h)[1]
            cost = float((belief * cost_table(model, instance.labels, delta)).sum())
            assert values[0] >= cost - 1e-10


def test_planes_are_below_the_loss_everywhere() -> None:
    graph, rng = family("grid"), np.random.default_rng(0)
    instance = Instance(graph.layout, None, possible(graph))
    cases: list[dict[str, Any]] = [
        {},
        {"delta": "zero_one"},
        {"eps_y": 1.0},
        {"method": bl.BP()},
        {"method": bl.TRW(), "max_iters": 1},
    ]
    for options in cases:
        loss = MaxMargin(template=TEMPLATE, **options)
        exact = MaxMargin(template=TEMPLATE, **{k: v for k, v in options.items() if k in ("delta", "eps_y")})
        found = loss.part(np.array(graph.theta), instance)
        assert found.minorant
        if loss.eps_y == 0:
            assert found.delta + graph.theta @ found.grad_theta == pytest.approx(found.value, abs=1e-10)
        for _ in range(20):
            theta = graph.theta + rng.normal(size=graph.theta.size)
            plane = found.value + found.grad_theta @ (theta - graph.theta)
            assert plane <= exact.part(theta, instance).value + 1e-10


def test_names_do_not_matter() -> None:
    for name in ("higher_order", "repeated_scopes", "mixed_cardinalities"):
        labels = hiding(family(name), possible(family(name), 6), "every second")
        for eps_y, eps_h in ((0.0, 1.0), (1.0, 0.0), (0.5, 0.5)):
            check_renaming(lambda g, e=eps_y, h=eps_h: loss_of(e, h), family(name), labels)  # type: ignore[misc]


# -- many instances --------------------------------------------------------------------------------------------------
def chains(n_instances: int, seed: int = 0) -> tuple[LogLinearTemplate, list[Instance]]:
    """Chains of a log-linear template, each with hidden variables of its own."""
    rng, out, n = np.random.default_rng(seed), [], 6
    made = LogLinearTemplate([FactorType("node", 3, 2), FactorType("pair", 9, 1)])
    ptr, edges = np.concatenate([np.arange(n), n + 2 * np.arange(n)]), np.array([(v, v + 1) for v in range(n - 1)])
    starts = np.concatenate([3 * np.arange(n), np.full(n - 1, 3 * n)])
    layout = Layout.build(np.full(n, 3), ptr, np.concatenate([np.arange(n), edges.ravel()]), starts)
    for k in range(n_instances):
        labels = np.where(rng.random(n) < 0.4, -1, rng.integers(3, size=n))
        labels[k % n] = 0
        weights = rng.uniform(size=n) if k % 3 else None
        inputs = (Rows(n, rng.normal(size=(n, 2))), Rows(n - 1))
        out.append(Instance(layout, inputs, labels, 1.0 + k % 2, weights, name=f"chain {k}"))
    return made, out


@pytest.mark.parametrize(("eps_y", "eps_h"), [(0.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.5, 0.5)])
def test_joined_instances_cost_what_they_cost_one_by_one(eps_y: float, eps_h: float) -> None:
    made, instances = chains(40)
    weights = np.random.default_rng(1).normal(size=made.n_weights)
    loss = MaxMargin(template=made, l2=0.01, eps_y=eps_y, eps_h=eps_h)
    joiner = Joiner.of(loss)
    assert joiner is not None and len(list(joiner.units(instances))) < 10
    found = loss.evaluate(weights, instances)
    single = [loss.evaluate(weights, [one]) for one in instances]
    counts = np.array([one.n_counted for one in instances]) / sum(one.n_counted for one in instances)
    for name in ("value", "upper", "delta"):
        assert getattr(found, name) == pytest.approx(counts @ [getattr(one, name) for one in single], rel=1e-10)
    np.testing.assert_allclose(found.grad, counts @ [one.grad for one in single], rtol=0, atol=1e-10)
    assert found.bound is Bound.EXACT and not found.minorant and found.n_not_converged == 0
    again = MaxMargin(template=made, l2=0.01, eps_y=eps_y, eps_h=eps_h, threads=3).evaluate(weights, instances)
    assert again.value == found.value and (again.grad == found.grad).all()


def test_what_is_known_of_the_objective_before_any_work() -> None:
    hidden, known = chains(3)[1], [Instance(i.layout, i.inputs, np.abs(i.labels)) for i in chains(3)[1]]
    assert not loss_of(0.0, 1.0).is_convex(hidden) and loss_of(0.0, 1.0).is_convex(known)
    for eps_y, eps_h, with_hidden, without in ((0, 1, False, False), (1, 0, False, True), (1, 1, True, True)):
        assert loss_of(eps_y, eps_h).is_smooth(hidden) == with_hidden
        assert loss_of(eps_y, eps_h).is_smooth(known) == without


# -- bad input -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["eps_y", "eps_h"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 1e-7, "warm", None, True])
def test_temperatures_are_checked(name: str, value: object) -> None:
    with pytest.raises(ModelError, match=f"{name} must be 0 or between 1e-06 and 1e.06"):
        MaxMargin(template=TEMPLATE, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        ("hammer", "delta must be hamming, zero_one, none, or a table"),
        (np.ones(3), "delta must be hamming"),
        (np.ones((2, 3)), "delta must be hamming"),
        ([[0, 1], [-1, 0]], "delta must be finite and at least 0, found -1"),
        ([[0, 1], [np.nan, 0]], "delta must be finite and at least 0, found nan"),
        ([[0, 1], [1, 2]], "delta must cost 0 where the prediction is true, found 2 for state 1"),
        (None, "delta must be hamming"),
    ],
)
def test_costs_are_checked(delta: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        loss_of(0.0, 1.0, delta)


def test_costs_of_instances_are_checked() -> None:
    graph = family("chain")
    good = np.where(np.arange(3) != 0, 1.0, 0.0) * np.ones((7, 1))
    for change, message in (
        (good[:6], r"costs must have shape \(21,\), found \(18,\)"),
        (-good, "costs must be finite and at least 0, found -1"),
        (np.where(good > 0, np.nan, 0), "costs must be finite"),
        (good + 1.0, "the label of variable 0 must cost 0, found 1"),
    ):
        instance = Instance(graph.layout, None, np.zeros(7, np.int64), costs=change.ravel())
        with pytest.raises(ModelError, match=message):
            loss_of(0.0, 1.0).check(instance)
    with pytest.raises(ModelError, match="a table for 2 states, and variable 0 has 3"):
        loss_of(0.0, 1.0, [[0, 1], [1, 0]]).check(Instance(graph.layout, None, np.zeros(7, np.int64)))


def test_labels_that_cannot_be_are_refused() -> None:
    graph = family("chain")
    with pytest.raises(ModelError, match="no variable has a label, so no output is left"):
        loss_of(0.0, 1.0).check(Instance(graph.layout, None, np.full(7, -1)))
    zeros = FactorGraph.from_tables([2, 2, 2], [((0, 1), np.eye(2)), ((1, 2), np.eye(2))])
    with pytest.raises(ZeroProbabilityError, match="potential of zero"):
        loss_of(0.0, 1.0).part(np.array(zeros.theta), Instance(zeros.layout, None, np.array([0, 1, 1])))
    for eps_h in (0.0, 1.0):
        for delta in ("hamming", "zero_one"):
            with pytest.raises(ZeroProbabilityError, match="an instance: hard zeros exclude the labels"):
                loss_of(0.0, eps_h, delta).part(
                    np.array(zeros.theta), Instance(zeros.layout, None, np.array([0, -1, 1]), name="an instance")
                )


def test_options_are_checked() -> None:
    for options, message in (
        ({"rescaling": "both"}, "rescaling must be margin or slack"),
        ({"certified": 1}, "certified must be True or False"),
        ({"method": "bp"}, "method must be a method"),
        ({"tol": -1.0}, "tol must be"),
        ({"max_iters": 1.5}, "max_iters must be"),
    ):
        with pytest.raises(ModelError, match=message):
            MaxMargin(template=TEMPLATE, **options)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="zero_one' needs eps_y of 0 or at least 0.1, found 0.01"):
        loss_of(0.01, 1.0, "zero_one")
    text = make_loss("max_margin(eps_h=0, delta=zero_one)", template=TEMPLATE, method=bl.JunctionTree())
    assert isinstance(text, MaxMargin) and (text.eps_y, text.eps_h, text.delta) == (0.0, 0, "zero_one")
