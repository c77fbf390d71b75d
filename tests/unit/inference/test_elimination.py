"""Bucket elimination at any temperature: the power sum, its beliefs, what it says about log Z, and its arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beliefs as bl
import reference
from beliefs.inference import Bound
from families import family, random_model, sprinkler
from strategies import examples, factor_graphs, possible_evidence, temperatures

ONE_TWO_THREE = bl.FactorGraph.from_tables([3], [((0,), [1, 2, 3])])


@pytest.mark.parametrize(
    "tau, value",
    [
        (1.0, math.log(6)),
        (0.5, 0.5 * math.log(14)),
        (0.0, math.log(3)),
        (2.0, 2 * math.log(1 + math.sqrt(2) + math.sqrt(3))),
        (1e-3, math.log(3)),  # 1e-3 log(1 + (2/3)^1000 + ...) is below rounding
    ],
)
def test_power_sum_of_one_two_three(tau: float, value: float) -> None:
    assert bl.infer(ONE_TWO_THREE, bl.Elimination(tau=[tau])).log_z == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    "tau, belief",
    [
        (1.0, [1 / 6, 2 / 6, 3 / 6]),
        (0.5, [1 / 14, 4 / 14, 9 / 14]),
        (0.0, [0, 0, 1]),
        (2.0, np.sqrt([1, 2, 3]) / np.sqrt([1, 2, 3]).sum()),
    ],
)
def test_beliefs_of_one_two_three(tau: float, belief: list[float]) -> None:
    np.testing.assert_allclose(bl.infer(ONE_TWO_THREE, bl.Elimination(tau=[tau])).marginal(0), belief, rtol=1e-14)


@pytest.mark.parametrize(
    "order, tau, value",
    [
        ([0, 1], [1, 0], 10),  # column sums 8, 10: their maximum
        ([1, 0], [1, 0], 6 + 4 + 5),  # row maxima, summed
        ([0, 1], [0, 1], 6 + 5),  # column maxima, summed
        ([1, 0], [0, 1], 7),  # row sums 7, 6, 5: their maximum
        ([0, 1], [1, 1], 18),
        ([0, 1], [0, 0], 6),
    ],
)
def test_two_variables_by_hand(order: list[int], tau: list[float], value: float) -> None:
    g = bl.FactorGraph.from_tables([3, 2], [((0, 1), [[6, 1], [2, 4], [0, 5]])])
    assert math.exp(bl.infer(g, bl.Elimination(order=order, tau=tau)).log_z) == pytest.approx(value)


@given(data=st.data(), graph=factor_graphs(scales=(1.0, 5.0, 30.0)))
@examples(150)
def test_value_and_beliefs_are_the_nested_power_sum(data: st.DataObject, graph: bl.FactorGraph) -> None:
    seen = data.draw(possible_evidence(graph))
    hidden = [v for v in range(graph.n_vars) if v not in seen]
    order = data.draw(st.permutations(hidden))
    tau = data.draw(temperatures(graph.n_vars))
    given_ = graph.condition(seen)
    result = bl.infer(given_, bl.Elimination(order=order, tau=tau))
    value, belief = reference.power_sum(reference.joint_table(graph, seen), [*seen, *order], tau)
    assert result.log_z == pytest.approx(value, rel=1e-10, abs=1e-10)

    def summed(scope: list[int]) -> np.ndarray:
        left = belief.sum(axis=tuple(v for v in range(graph.n_vars) if v not in scope))
        return left.transpose([sorted(scope).index(v) for v in scope])

    for f in range(given_.n_factors):
        scope = [int(v) for v in given_.layout.scope(f)]
        np.testing.assert_allclose(result.factor_marginal(f), summed(scope), atol=1e-9)
    for v in hidden:
        if np.diff(given_.layout.var_ptr)[v] or tau[v] > 0:  # at 0 any distribution of an isolated variable is right
            np.testing.assert_allclose(result.marginal(v), summed([v]), atol=1e-9)


@given(data=st.data(), graph=factor_graphs(scales=(1.0, 5.0)))
@examples(60)
def test_beliefs_are_the_gradient_of_the_value(data: st.DataObject, graph: bl.FactorGraph) -> None:
    tau = data.draw(st.lists(st.sampled_from([1.0, 0.5, 0.1, 2.0]), min_size=graph.n_vars, max_size=graph.n_vars))
    order = data.draw(st.permutations(range(graph.n_vars)))
    method = bl.Elimination(order=order, tau=tau)
    direction = np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=graph.layout.n_cells)
    step = 1e-5

    def value(sign: int) -> float:
        return bl.infer(graph.with_theta(graph.theta + sign * step * direction), method).log_z

    slope = (value(1) - value(-1)) / (2 * step)
    assert bl.infer(graph, method).mu @ direction == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "tau, bound",
    [
        ([1, 1, 1], Bound.EXACT),
        ([1, 0.5, 1], Bound.LOWER),
        ([0, 0, 0], Bound.LOWER),
        ([1, 2, 1], Bound.UPPER),
        ([2, 1.5, 3], Bound.UPPER),
        ([2, 0.5, 1], Bound.ESTIMATE),
    ],
)
def test_the_label_says_what_the_power_sum_is_worth(tau: list[float], bound: Bound) -> None:
    graph = random_model([2, 3, 2], [(0, 1), (1, 2), (2, 0)], seed=0)
    result = bl.infer(graph, bl.Elimination(tau=tau))
    truth = reference.log_z(reference.joint_table(graph))
    assert result.bound is bound
    assert result.log_lower <= truth + 1e-12 and truth - 1e-12 <= result.log_upper
    assert (result.log_lower == result.log_z) == (bound in (Bound.EXACT, Bound.LOWER))
    assert (result.log_upper == result.log_z) == (bound in (Bound.EXACT, Bound.UPPER))
    assert (result.log_lower == -math.inf) == (bound in (Bound.UPPER, Bound.ESTIMATE))


def test_the_temperature_of_an_observed_variable_does_not_matter() -> None:
    graph = family("grid").condition({3: 1})
    tau = np.ones(12)
    plain = bl.infer(graph, bl.Elimination(tau=tau))
    tau[3] = 0.3
    assert bl.infer(graph, bl.Elimination(tau=tau)).log_z == plain.log_z
    assert bl.infer(graph, bl.Elimination(tau=tau)).bound is Bound.EXACT


def test_an_isolated_variable_counts_at_its_own_temperature() -> None:
    graph = bl.FactorGraph.from_tables([2, 5], [((0,), [1, 1])])
    value = bl.infer(graph, bl.Elimination(tau=[1, 0.5])).log_z
    assert value == pytest.approx(math.log(2) + 0.5 * math.log(5))


def test_an_order_may_use_names() -> None:
    bn = sprinkler()
    names = ["Cloudy", "Slip", "Rain", "Sprinkler", "Grass"]
    assert bl.infer(bn, bl.Elimination(order=names)).log_z == pytest.approx(0, abs=1e-12)


def test_an_order_and_its_width_decide_the_cost() -> None:
    """Eliminating a star's hub first joins all leaves: 2^11 cells, over a budget that leaves-first meets easily."""
    graph = random_model([2] * 11, [(0, v) for v in range(1, 11)], seed=1)
    leaves_first = bl.Elimination(order=[*range(1, 11), 0])
    hub_first = bl.Elimination(order=list(range(11)))
    assert bl.infer(graph, leaves_first, max_bytes=10_000).log_z == pytest.approx(bl.infer(graph, hub_first).log_z)
    with pytest.raises(bl.BudgetError, match=r"elimination needs \d+.* kB: .*width 10 .order given.*limit is 10 kB"):
        bl.infer(graph, hub_first, max_bytes=10_000)


@pytest.mark.parametrize(
    "order, message",
    [
        ([0, 1], "lacks 'x2'"),
        ([0, 1, 2, 2], "twice or one observed"),
        ([0, 1, "x9"], "no variable 'x9'"),
    ],
)
def test_an_order_lists_every_hidden_variable_once(order: list[int], message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        bl.infer(random_model([2, 2, 2], [(0, 1), (1, 2)], seed=0), bl.Elimination(order=order))


def test_an_order_does_not_name_observed_variables() -> None:
    graph = random_model([2, 2, 2], [(0, 1), (1, 2)], seed=0).condition({2: 0})
    assert bl.infer(graph, bl.Elimination(order=[1, 0])).bound is Bound.EXACT
    with pytest.raises(bl.ModelError, match="observed"):
        bl.infer(graph, bl.Elimination(order=[1, 0, 2]))


def test_an_order_for_marginal_map_ends_with_the_query() -> None:
    graph = random_model([2, 2, 2], [(0, 1), (1, 2)], seed=0)
    truth = float(reference.query_values(reference.joint_table(graph), [1]).max())
    assert bl.marginal_map(graph, [1], bl.Elimination(order=[2, 0, 1])).log_value == pytest.approx(truth)
    with pytest.raises(bl.ModelError, match="must end with the query"):
        bl.marginal_map(graph, [1], bl.Elimination(order=[2, 1, 0]))


@pytest.mark.parametrize("order", ["fastest", None, 3])
def test_an_order_is_a_known_word_or_a_list(order: object) -> None:
    with pytest.raises(bl.ModelError, match="order must be one of .*min_fill.* or a list"):
        bl.Elimination(order=order)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "tau, message",
    [
        ([1, 1], r"tau must be of shape \(3,\)"),
        (1.0, r"tau must be of shape \(3,\)"),
        ([1, -0.5, 1], "at least 0"),
        ([1, math.inf, 1], "finite"),
        ([1, math.nan, 1], "finite"),
        ("warm", "tau must be"),
    ],
)
def test_temperatures_are_checked(tau: object, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        bl.infer(random_model([2, 2, 2], [(0, 1), (1, 2)], seed=0), bl.Elimination(tau=tau))


def test_maximize_and_marginal_map_fix_the_temperatures_themselves() -> None:
    graph = random_model([2, 2], [(0, 1)], seed=0)
    with pytest.raises(bl.ModelError, match="give it to infer only"):
        bl.maximize(graph, bl.Elimination(tau=[0, 0]))
    with pytest.raises(bl.ModelError, match="give it to infer only"):
        bl.marginal_map(graph, [0], bl.Elimination(tau=[0, 1]))


def test_stages_say_who_stands_innermost() -> None:
    """A heuristic order keeps to them: maxima inside a sum are another question than sums inside a maximum."""
    graph = family("chain")
    joint, cold = reference.joint_table(graph), [0, 3, 4]
    warm = [v for v in range(7) if v not in cold]
    tau, stages = np.ones(7), np.ones(7, int)
    tau[cold], stages[cold] = 0.0, 0
    inside = bl.infer(graph, bl.Elimination(tau=tau, stages=stages))
    value, belief = reference.power_sum(joint, [*cold, *warm], tau)
    assert inside.log_z == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(inside.marginal(2), belief.sum(axis=(0, 1, 3, 4, 5, 6)), atol=1e-12)
    outside = reference.power_sum(joint, [*warm, *cold], tau)[0]  # the warmest first, unless said otherwise
    assert bl.infer(graph, bl.Elimination(tau=tau)).log_z == pytest.approx(outside, abs=1e-12) != inside.log_z
    assert bl.infer(graph, bl.Elimination(tau=tau, stages=1 - stages)).log_z == pytest.approx(outside, abs=1e-12)
    assert bl.infer(graph, bl.Elimination(stages=stages)).bound is Bound.EXACT


def test_stages_are_checked() -> None:
    graph = random_model([2, 2, 2], [(0, 1), (1, 2)], seed=0)
    for stages, message in (
        ([0, 1], r"stages must be integers of at least 0, of shape \(3,\)"),
        ([0, -1, 0], "stages must be integers"),
        ([0.5, 1, 1], "stages must be integers"),
        ([0, 0, 1], "temperatures within a stage must be equal, found 0 and 1"),
    ):
        with pytest.raises(bl.ModelError, match=message):
            bl.infer(graph, bl.Elimination(tau=[1, 0, 0], stages=stages))
    with pytest.raises(bl.ModelError, match="stages must be None for maximize"):
        bl.maximize(graph, bl.Elimination(stages=[0, 1, 1]))


def test_zero_probability_is_proved_at_every_temperature() -> None:
    graph = bl.FactorGraph.from_tables([2, 2], [((0, 1), np.eye(2)), ((0, 1), 1 - np.eye(2))])
    for tau in ([1, 1], [0, 0], [0.5, 2], [0, 1]):
        with pytest.raises(bl.ZeroProbabilityError):
            bl.infer(graph, bl.Elimination(tau=tau))


def test_at_temperature_zero_ties_go_to_the_first_maximiser() -> None:
    """Beliefs stay distributions: one maximiser takes all, the smallest state of each variable in turn."""
    graph = bl.FactorGraph.from_tables([3, 2, 2], [((0, 1), [[2, 1], [1, 2], [2, 2]]), ((1, 2), np.ones((2, 2)))])
    for order, best in (([0, 1, 2], [0, 0, 0]), ([1, 0, 2], [0, 0, 0]), ([2, 1, 0], [0, 0, 0])):
        result = bl.infer(graph, bl.Elimination(order=order, tau=[0, 0, 0]))
        assert result.log_z == pytest.approx(math.log(2)) and result.mpm().tolist() == best
        for v in range(3):
            assert result.marginal(v).tolist() == np.eye(int(graph.layout.card[v]))[best[v]].tolist()
