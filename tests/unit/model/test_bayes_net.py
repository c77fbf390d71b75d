"""Bayesian networks: conditional tables, checks in the user's words, conversion, ancestral samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import beliefs as bl
import reference
from families import family, sprinkler

A, B, C = bl.Variable("a", ["no", "yes"]), bl.Variable("b", 3), bl.Variable("c", 2)


def test_axes_are_parents_then_child() -> None:
    bn = sprinkler()
    assert bn.parents("Grass") == ("Sprinkler", "Rain") and bn.parents("Cloudy") == ()
    assert bn.cpt("Grass").shape == (2, 2, 3) and bn.cpt("Grass")[1, 0].tolist() == [0.1, 0.5, 0.4]
    assert ("Grass", "Slip") in bn.edges and len(bn.edges) == 5
    assert repr(bn) == "BayesianNetwork(5 variables, 5 arcs, 28 cells)"


def test_its_partition_function_is_one() -> None:
    for method in (cls for cls in bl.methods(task="infer") if cls.general):
        result = bl.infer(sprinkler(), method())
        if result.bound is bl.Bound.EXACT:
            assert result.log_z == pytest.approx(0, abs=1e-12)


def test_the_joint_is_the_product_of_the_conditionals() -> None:
    bn = sprinkler()
    row = {"Cloudy": "yes", "Sprinkler": "no", "Rain": "yes", "Grass": "wet", "Slip": "no"}
    assert np.exp(bn.log_score(row)) == pytest.approx(0.5 * 0.9 * 0.8 * 0.3 * 0.6)


def test_numbers_are_kept_as_given() -> None:
    """Columns may be off by 1e-4, and are not rescaled."""
    bn = bl.BayesianNetwork.from_cpts([A], {"a": ([], [0.33335, 0.66670])})
    assert bn.probabilities.tolist() == [0.33335, 0.66670] and not bn.probabilities.flags.writeable
    assert bl.infer(bn).log_z == pytest.approx(np.log(1.00005))
    with pytest.raises(bl.ModelError, match="probabilities of 'a' must sum to 1, found 1.0002"):
        bl.BayesianNetwork.from_cpts([A], {"a": ([], [0.33345, 0.66675])})


def test_parents_come_before_children_in_its_order() -> None:
    bn = sprinkler()
    place = {int(v): k for k, v in enumerate(bn.order)}
    assert sorted(place) == list(range(5))
    assert all(place[bn.index(parent)] < place[bn.index(child)] for parent, child in bn.edges)


@pytest.mark.parametrize(
    "cpts, message",
    [
        ({"a": ([], [0.5, 0.6])}, "probabilities of 'a' must sum to 1, found 1.1"),
        ({"a": ([], [0.5, 0.5]), "b": (["a"], [[0.2, 0.3, 0.5], [0.3, 0.3, 0.3]])}, "'b' given a=yes must .*found 0.9"),
        ({"a": ([], [1.5, -0.5])}, "non-negative entries, found -0.5"),
        ({"a": ([], [np.nan, 0.5])}, "found nan"),
        ({"a": ([], [0.2, 0.3, 0.5])}, r"conditional table of 'a' must have shape \(2,\), found \(3,\)"),
        ({"a": (["b"], [[0.5, 0.5]] * 3), "b": (["a"], [[0.2, 0.3, 0.5]] * 2)}, "the arcs form a cycle: a <- b <- a"),
        ({"a": (["a"], [[0.5, 0.5]] * 2)}, "variable twice in its scope"),
        ({"a": (["z"], [[0.5, 0.5]])}, "no variable 'z'"),
        ({"aa": ([], [0.5, 0.5])}, "no variable 'aa'; did you mean 'a'?"),
    ],
)  # fmt: skip
def test_a_malformed_network_is_refused(cpts: dict[str, Any], message: str) -> None:
    names = {"a": A, "b": B}
    variables = [v for name, v in names.items() if name in cpts] or [A]
    with pytest.raises(bl.ModelError, match=message):
        bl.BayesianNetwork.from_cpts(variables, cpts)


def test_a_cycle_is_named_without_what_leads_to_it() -> None:
    flat2, flat4 = [[0.5, 0.5]] * 2, [[[0.5, 0.5]] * 2] * 2
    variables = [bl.Variable(n, 2) for n in "rstu"]
    cpts: dict[str, Any] = {"r": ([], [0.5, 0.5]), "s": (["r", "u"], flat4), "t": (["s"], flat2), "u": (["t"], flat2)}
    with pytest.raises(bl.ModelError, match="the arcs form a cycle: s <- u <- t <- s"):
        bl.BayesianNetwork.from_cpts(variables, cpts)


def test_every_variable_has_a_table_and_a_name_of_its_own() -> None:
    with pytest.raises(bl.ModelError, match="variable 'c' has no conditional table"):
        bl.BayesianNetwork.from_cpts([A, C], {"a": ([], [0.5, 0.5])})
    with pytest.raises(bl.ModelError, match="two variables have the same name"):
        bl.BayesianNetwork.from_cpts([A, A], {"a": ([], [0.5, 0.5])})


def test_a_factor_graph_read_as_a_network_is_the_same_model() -> None:
    bn = sprinkler()
    shuffled = bl.FactorGraph.from_factors([bn.graph.factors[f] for f in (3, 0, 4, 1, 2)], list(bn.variables))
    again = bl.BayesianNetwork.from_factor_graph(shuffled)
    assert again.edges == bn.edges and again.graph.children is not None
    np.testing.assert_allclose(again.graph.theta, bn.graph.theta, atol=1e-15)


@pytest.mark.parametrize(
    "graph, message",
    [
        (family("chain"), "last of exactly one factor's scope"),
        (bl.FactorGraph.from_tables([2], [((0,), [1, 2])]), "probabilities of 'x0' must sum to 1, found 3"),
        (sprinkler().condition({"Rain": 0}), "convert before conditioning"),
    ],
)
def test_not_every_factor_graph_is_a_network(graph: bl.FactorGraph, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        bl.BayesianNetwork.from_factor_graph(graph)


def test_kind_and_children_are_kept_where_they_stay_true() -> None:
    bn = sprinkler()
    assert bn.graph.kind == "BAYES" and bn.condition({"Rain": 1}).kind == "BAYES"
    assert bn.condition({"Rain": 1}).children is not None
    assert bn.graph.with_theta(bn.graph.theta).children is None
    soft = bn.graph.with_likelihood({"Rain": [1, 2]})
    assert soft.kind == "MARKOV" and soft.children is not None and soft.children[-1] == -1


def test_a_column_of_zeros_is_never_drawn_and_sums_are_rescaled() -> None:
    bn = bl.BayesianNetwork.from_cpts([B], {"b": ([], [0.0, 1.00005, 0.0])})
    assert (bn.sample(1000, seed=2) == 1).all()


def test_rounding_never_draws_a_state_of_probability_zero() -> None:
    """The largest uniform number below one, on columns that end in a zero and add up with rounding errors."""

    class Largest(np.random.Generator):
        def random(self, size: Any = None, *args: Any, **kwargs: Any) -> Any:
            return np.full(size, np.nextafter(1.0, 0.0))

    rng = np.random.default_rng(0)
    columns = rng.dirichlet(np.ones(20), size=300)
    columns[:, -3:] = 0.0
    columns /= columns.sum(axis=1, keepdims=True)
    variables = [bl.Variable(f"v{k}", 20) for k in range(300)]
    bn = bl.BayesianNetwork.from_cpts(variables, {v.name: ([], c) for v, c in zip(variables, columns, strict=True)})
    drawn = bn.sample(1, seed=Largest(np.random.PCG64(0)))[0]
    assert (drawn == 16).all()


def test_samples_repeat_with_their_seed() -> None:
    bn = sprinkler()
    assert bn.sample(50, seed=1).tolist() == bn.sample(50, seed=np.random.default_rng(1)).tolist()
    assert bn.sample(50, seed=1).tolist() != bn.sample(50, seed=2).tolist()
    assert bn.sample(0).shape == (0, 5)
    assert (bn.graph.log_scores(bn.sample(500)) > -np.inf).all()
    with pytest.raises(bl.ModelError, match="integer of at least 0, found -1"):
        bn.sample(-1)


def test_conditioning_matches_bayes_rule() -> None:
    bn = sprinkler()
    joint = np.exp(reference.joint_table(bn.graph))
    posterior = joint[:, 2].sum(axis=(0, 1, 3)) / joint[:, 2].sum()
    assert bl.infer(bn.condition({"Grass": "wet"})).marginal("Rain") == pytest.approx(posterior)
