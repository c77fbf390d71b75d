"""Factor graphs: builders, views, scores, unions; what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import beliefs as bl
import reference
from families import FAMILIES, family, random_model

RAIN, GRASS = bl.Variable("Rain", ["no", "yes"]), bl.Variable("Grass", ["dry", "wet"])


def test_theta_is_the_tables_in_the_order_given_nothing_merged_or_added() -> None:
    graph = bl.FactorGraph.from_tables(
        [2, 3], [((1, 0), [[1, 2], [3, 4], [5, 6]]), ((), 7), ((1,), [8, 9, 10]), ((1, 0), np.full((3, 2), 11))]
    )
    assert np.exp(graph.theta).round(9).tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 11, 11, 11, 11]
    assert graph.n_factors == 4 and repr(graph) == "FactorGraph(2 variables, 4 factors, 16 cells)"


def test_logs_are_taken_as_they_are() -> None:
    graph = bl.FactorGraph.from_tables([2], [((0,), [-3.0, -math.inf])], log=True)
    assert graph.theta.tolist() == [-3.0, -math.inf]


def test_unnamed_variables_have_default_names_and_states() -> None:
    graph = random_model([2, 3], [(0, 1)], seed=0)
    assert graph.variables[1] == bl.Variable("x1", 3) and graph.index("x1") == 1 and graph.state("x1", "2") == 2
    assert [v.name for v in graph.variables] == ["x0", "x1"] and [v.name for v in graph.variables[1:]] == ["x1"]


def test_names_and_labels() -> None:
    graph = bl.FactorGraph.from_tables([2, 2], [], names=["a", "b"], states=[["no", "yes"], None])
    assert graph.variables[0].states == ("no", "yes") and graph.variables[1].states == ("0", "1")
    assert graph.index("b") == 1 and graph.state("a", "yes") == 1


def test_from_factors_numbers_variables_by_first_appearance() -> None:
    factors = [bl.Factor.from_table([GRASS, RAIN], [[1, 2], [3, 4]]), bl.Factor.from_table([RAIN], [5, 6])]
    graph = bl.FactorGraph.from_factors(factors)
    assert [v.name for v in graph.variables] == ["Grass", "Rain"]
    listed = bl.FactorGraph.from_factors(factors, [RAIN, bl.Variable("Alone", 2), GRASS])
    assert [v.name for v in listed.variables] == ["Rain", "Alone", "Grass"]
    assert listed.factors[0].scope == (GRASS, RAIN) and np.array_equal(listed.theta, graph.theta)
    assert bl.infer(listed).log_z == pytest.approx(bl.infer(graph).log_z + math.log(2))


def test_factors_are_views_made_on_demand() -> None:
    graph = family("higher_order")
    assert len(graph.factors) == 5 and graph.factors[-1].scope == (graph.variables[1],)
    rebuilt = bl.FactorGraph.from_factors(graph.factors, list(graph.variables))
    assert rebuilt.theta.tobytes() == graph.theta.tobytes() and rebuilt.layout.equals(graph.layout)
    assert [f.scope for f in graph.factors[1:3]] == [graph.factors[1].scope, graph.factors[2].scope]
    with pytest.raises(IndexError):
        graph.factors[5]


def test_pairwise_puts_unary_factors_first_and_ties_one_table() -> None:
    unary, table = np.arange(6.0).reshape(3, 2), np.array([[1.0, 2.0], [3.0, 4.0]])
    tied = bl.FactorGraph.pairwise(unary, [(0, 1), (2, 1)], table)
    free = bl.FactorGraph.pairwise(unary, [(0, 1), (2, 1)], [table, table])
    assert tied.layout.tied and tied.theta.tolist() == [0, 1, 2, 3, 4, 5, 1, 2, 3, 4]
    assert not free.layout.tied and free.theta.size == 14
    assert tied.layout.scope(4).tolist() == [2, 1]
    assert np.allclose(reference.joint_table(tied), reference.joint_table(free))
    assert bl.FactorGraph.pairwise(unary, [], table).n_factors == 3


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: bl.FactorGraph.pairwise([1, 2], [], np.eye(2)), r"unary must have shape \(n, K\)"),
        (lambda: bl.FactorGraph.pairwise(np.zeros((2, 2)), [(0, 1, 1)], np.eye(2)), r"edges must have shape \(m, 2\)"),
        (lambda: bl.FactorGraph.pairwise(np.zeros((2, 2)), [(0, 1)], np.eye(3)), r"or \(2, 2\), found \(3, 3\)"),
        (lambda: bl.FactorGraph.pairwise(np.zeros((2, 2)), [(0, 0)], np.eye(2)), "variable twice"),
        (lambda: bl.FactorGraph.pairwise(np.zeros((2, 2)), [(0, 0.5)], np.eye(2)), "edges must be integers"),
        (lambda: bl.FactorGraph.from_tables([2, 2], [((0, 1), np.zeros((4, 1)))]), r"factor 0 over \(0, 1\) must have"),
        (lambda: bl.FactorGraph.from_tables([2], [((0,), [1, -1])]), r"table of factor 0 over \(0,\).*found -1.0"),
        (lambda: bl.FactorGraph.from_tables([2], [((0,), [1, np.nan])], log=True), "found nan"),
        (lambda: bl.FactorGraph.from_tables([2], [], names=["a", "b"]), "expected 1 names, found 2"),
        (lambda: bl.FactorGraph.from_tables([2, 2], [], names=["a", "a"]), "two variables have the name 'a'"),
        (lambda: bl.FactorGraph.from_tables([2], [], states=[["a"]]), "'x0' has 2 states but 1 labels"),
        (lambda: bl.FactorGraph.from_tables([2], [], states=[]), "state labels for 1 variables, found 0"),
        (lambda: bl.FactorGraph.from_factors([], [RAIN, RAIN]), "same name"),
        (
            lambda: bl.FactorGraph.from_factors([bl.Factor([RAIN], [0, 0]), bl.Factor([bl.Variable("Rain", 1)], [0])]),
            "'Rain' occurs with different states",
        ),
        (lambda: family("chain").with_theta([1.0]), r"theta must have shape \(75,\), found \(1,\)"),
        (lambda: family("chain").with_theta(np.full(75, np.inf)), "-inf or finite log potentials .*found inf"),
    ],
)  # fmt: skip
def test_a_malformed_graph_is_refused(make: Any, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        make()


@pytest.mark.parametrize("name", list(FAMILIES))
def test_log_scores_against_the_tables(name: str) -> None:
    graph = family(name)
    rows = reference.joint_states(graph.layout.card)[::7]
    expected = [reference.log_score(graph, row) for row in rows]
    np.testing.assert_allclose(graph.log_scores(rows), expected, rtol=1e-12)
    assert graph.log_score(rows[-1]) == pytest.approx(expected[-1], rel=1e-12)


def test_a_score_takes_names_and_labels() -> None:
    graph = bl.FactorGraph.from_factors([bl.Factor.from_table([RAIN, GRASS], [[1, 2], [3, 4]])])
    assert math.exp(graph.log_score({"Rain": "yes", "Grass": 0})) == pytest.approx(3)
    given = graph.condition({"Rain": "yes"})
    assert given.log_score({"Grass": "wet"}) == pytest.approx(math.log(4))
    assert given.log_score([0, 1]) == -math.inf  # contradicts the evidence
    with pytest.raises(bl.ModelError, match="gives no state for 'Grass'"):
        graph.log_score({"Rain": 0})


@pytest.mark.parametrize("row", [[0], [0.5, 1.0], [0, 2], [-1, 0]])
def test_a_malformed_assignment_is_refused(row: list[Any]) -> None:
    with pytest.raises(bl.ModelError, match="assignment|states 0..1"):
        bl.FactorGraph.from_factors([bl.Factor([RAIN, GRASS], np.zeros(4))]).log_score(row)


def test_the_graph_is_immutable() -> None:
    theta = np.zeros(75)
    graph = family("chain").with_theta(theta)
    theta[0] = 9
    assert graph.theta[0] == 0 and not graph.theta.flags.writeable
    with pytest.raises(AttributeError):
        graph.theta = theta  # type: ignore[misc]


def test_a_union_concatenates_indices() -> None:
    one, two = random_model([2, 3], [(0, 1)], seed=1), family("tied_tables")
    both = one.union(two, one)
    assert both.n_vars == 2 + 9 + 2 and both.layout.scope(1).tolist() == [2] and both.layout.tied
    assert [v.name for v in both.variables[:3]] == ["x0", "x1", "x2"]
    np.testing.assert_array_equal(both.theta, np.concatenate([one.theta, two.theta, one.theta]))


def test_a_union_keeps_evidence_and_names() -> None:
    named = bl.FactorGraph.from_factors([bl.Factor.from_table([RAIN], [1, 2])])
    other = random_model([2], [(0,)], seed=0)
    both = named.union(other.condition({0: 1}))
    assert [v.name for v in both.variables] == ["Rain", "x1"] and both.evidence == {1: 1}
    with pytest.raises(bl.ModelError, match="two variables have the name 'Rain'"):
        named.union(named)
    twice = named.union(named, prefixes=["a.", "b."])
    assert [v.name for v in twice.variables] == ["a.Rain", "b.Rain"] and twice.state("b.Rain", "yes") == 1
    with pytest.raises(bl.ModelError, match="expected 2 prefixes, found 1"):
        named.union(named, prefixes=["a."])


def test_many_unnamed_variables_cost_no_python_objects() -> None:
    n = 200_000
    graph = bl.FactorGraph.pairwise(np.zeros((n, 2)), np.stack([np.arange(n - 1), np.arange(1, n)], 1), np.eye(2))
    assert graph.naming.names is None and graph.naming.labels is None
    assert graph.variables[n - 1].name == "x199999" and graph.index("x123456") == 123456
    assert graph.factors[n].scope[1].name == "x1"


@pytest.mark.parametrize("name", ["x2", "x01", "x-1", "x", "y0", "X0", "x٣", "x" + "9" * 5000])
def test_only_the_exact_default_names_exist(name: str) -> None:
    with pytest.raises(bl.ModelError, match="no variable 'x|no variable 'y|no variable 'X"):
        random_model([2, 2], [], seed=0).index(name)


@pytest.mark.parametrize("ref", [2, -1, 0.5, None, (0,), [1], np.array([0, 1])])
def test_a_variable_is_a_name_or_an_index(ref: Any) -> None:
    with pytest.raises(bl.ModelError, match=r"no variable -?\d: the model has variables 0\.\.1|addressed by name"):
        random_model([2, 2], [], seed=0).index(ref)


GRAPHS: Any = bl.FactorGraph  # to be called as no type checker would allow


@pytest.mark.parametrize(
    "build",
    [
        lambda: GRAPHS.from_tables([2, 2], None),
        lambda: GRAPHS.from_tables([2, 2], "x0"),
        lambda: GRAPHS.from_tables([2, 2], [(0, [1, 1])]),
        lambda: GRAPHS.from_tables([2, 2], [[1, 2, 3]]),
        lambda: GRAPHS.from_tables([2, 2], [([[0, 1]], [1, 1, 1, 1])]),
        lambda: GRAPHS.from_tables([2, 2], [([0, [1]], [1, 1, 1, 1])]),
        lambda: GRAPHS.from_factors([3]),
        lambda: GRAPHS.from_tables([2], []).with_factors([(0, [1, 1])]),
        lambda: GRAPHS.from_tables([2], []).with_likelihood([0.5, 0.5]),
    ],
)
def test_what_is_no_pair_of_a_scope_and_a_table_is_refused_in_one_line(build: Callable[[], bl.FactorGraph]) -> None:
    with pytest.raises(bl.ModelError) as refused:
        build()
    assert "\n" not in str(refused.value)
