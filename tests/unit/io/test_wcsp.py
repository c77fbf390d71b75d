"""Cost function networks: costs and hard limits, shared tables, named functions, and every way to be wrong."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from beliefs.errors import FormatError
from beliefs.io import wcsp
from beliefs.model import FactorGraph

INF = np.inf


def costs(functions: str, card: str = "3 3", top: int = 100, count: int = 1) -> list[np.ndarray]:
    """The cost tables of a problem; inf where forbidden."""
    n = len(card.split())
    graph = wcsp.loads(f"p {n} 9 {count} {top}\n{card}\n{functions}\n")
    return [-factor.log_table for factor in graph.factors]


def test_costs_become_log_potentials_and_the_bound_a_zero() -> None:
    (table,) = costs("2 0 1 7 3\n0 0 1\n1 2 100\n2 2 250")
    expected = np.full((3, 3), 7.0)
    expected[0, 0], expected[1, 2], expected[2, 2] = 1, INF, INF
    assert np.array_equal(table, expected)


def test_a_forbidden_default_and_an_empty_scope() -> None:
    table, constant = costs("1 1 100 1\n2 0\n0 5 0", count=2)
    assert table.tolist() == [INF, INF, 0]
    assert constant.tolist() == 5


def test_interval_domains_are_domains() -> None:
    (table,) = costs("2 0 1 -1 >= 1 9", card="-2 3")
    assert table.shape == (2, 3)


def test_shared_functions_are_tied_tables() -> None:
    text = "p 4 2 4 9\n2 2 2 2\n-2 0 1 0 1\n0 0 4\n-1 0 3 0\n2 2 3 0 -1\n1 3 3 -2\n"
    graph = wcsp.loads(text)
    assert graph.layout.cell_ptr.tolist() == [0, 4, 0, 4]
    assert graph.theta.tolist() == [-4, 0, 0, 0, -3, -3]


@pytest.mark.parametrize(
    ("keyword", "cost"),
    [
        (">= 1 1", lambda x, y: gap(y + 1 - x, 1)),
        ("> -1 2", lambda x, y: gap(y - 1 + 1 - x, 2)),
        ("<= 0 1", lambda x, y: gap(x - y, 1)),
        ("< 1 0", lambda x, y: gap(x + 1 - (y + 1), 0)),
        ("= 1 1", lambda x, y: gap(abs(y + 1 - x), 1)),
        ("disj 1 2 6", lambda x, y: 0 if x >= y + 2 or y >= x + 1 else 6),
        ("disj 1 2 100", lambda x, y: 0 if x >= y + 2 or y >= x + 1 else INF),
        (
            "sdisj 1 1 2 1 30 4",
            lambda x, y: (
                INF if y > 1 or (x < 2 and y < 1 and not (x >= y + 1 or y >= x + 1)) else 30 * (x == 2) + 4 * (y == 1)
            ),
        ),
        ("salldiff var 7", lambda x, y: 7 * (x == y)),
        ("salldiff dec 100", lambda x, y: INF if x == y else 0),
        ("clique 1 2 0 2 1 1", lambda x, y: INF if x in (0, 2) and y == 1 else 0),
    ],
)
def test_named_functions_of_two_variables(keyword: str, cost: Any) -> None:
    (table,) = costs(f"2 0 1 -1 {keyword}")
    assert table.tolist() == [[cost(x, y) for y in range(3)] for x in range(3)]


def gap(violation: int, delta: int) -> float:
    return max(violation, 0) if violation <= delta else INF


@pytest.mark.parametrize("kind", ["var", "dec", "decbi"])
@pytest.mark.parametrize("cost", [3, 1000])
def test_all_different(kind: str, cost: int) -> None:
    graph = wcsp.loads(f"p 3 3 1 100\n3 2 3\n3 0 1 2 -1 salldiff {kind} {cost}\n")
    for x in product(range(3), range(2), range(3)):
        pairs = sum(x[i] == x[j] for i in range(3) for j in range(i))
        violation = 3 - len(set(x)) if kind == "var" else pairs
        expected = -INF if violation and cost >= 100 else -cost * violation
        assert graph.log_score(np.array(x)) == expected


@pytest.mark.parametrize("kind", ["var", "dec"])
def test_cardinalities(kind: str) -> None:
    """State 0 once or twice, state 1 at most once; state 2 is free. Against the nearest legal assignment."""
    graph = wcsp.loads(f"p 3 3 1 100\n3 3 3\n3 0 1 2 -1 sgcc {kind} 4 2 0 1 2 1 0 1\n")
    states = list(product(range(3), repeat=3))
    legal = [x for x in states if 1 <= x.count(0) <= 2 and x.count(1) <= 1]
    for x in states:
        violation = min(sum(a != b for a, b in zip(x, y)) for y in legal)
        if kind == "dec":
            violation = (x.count(0) == 0) + (x.count(0) == 3) + max(x.count(1) - 1, 0)
        assert graph.log_score(np.array(x)) == -4 * violation


def test_knapsack_is_a_lower_limit() -> None:
    (table,) = costs("3 0 1 2 -1 knapsack 4 2 3 -1", card="2 2 2")
    expected = [[[0 if 2 * x + 3 * y - z >= 4 else INF for z in range(2)] for y in range(2)] for x in range(2)]
    assert table.tolist() == expected


def test_what_is_written_reads_back_within_the_resolution() -> None:
    rng = np.random.default_rng(0)
    tables: list[Any] = [
        ((0, 1), rng.normal(size=(2, 3))),
        ((), np.array(2.5)),
        ((2,), [-INF, 0.0, -1.0]),
        ((1, 2), rng.normal(size=(3, 3))),
    ]
    graph = FactorGraph.from_tables([2, 3, 3], tables, log=True)
    again = wcsp.loads(wcsp.dumps(graph))
    states = list(product(range(2), range(3), range(3)))
    assert np.allclose(again.log_scores(states), graph.log_scores(states), rtol=0, atol=4 * 0.5 / wcsp.MULTIPLIER)
    coarse = wcsp.loads(wcsp.dumps(graph, multiplier=10))
    assert np.allclose(coarse.log_scores(states), graph.log_scores(states), rtol=0, atol=4 * 0.05)


def test_rules_too_large_to_write_out_are_refused() -> None:
    scope = " ".join(map(str, range(600)))
    header = f"p 600 1 1 9\n{'1 ' * 600}\n600 {scope} -1"
    for rule in ("salldiff dec 1", "clique 1 " + "0 " * 600):
        with pytest.raises(FormatError, match="it would become more than 131072 tables"):
            wcsp.loads(f"{header} {rule}")
    weights = " ".join(["9" * 18] * 6)
    with pytest.raises(FormatError, match="the weights of knapsack are too large"):
        wcsp.loads(f"p 6 2 1 9\n2 2 2 2 2 2\n6 0 1 2 3 4 5 -1 knapsack 1 {weights}")


def test_feasible_sums_stay_below_the_bound_and_zeros_reach_it() -> None:
    graph = FactorGraph.from_tables([2, 2], [((0,), [-INF, -3.0]), ((0, 1), [[0.0, -1.0], [-2.0, -INF]])], log=True)
    header, _, *lines = wcsp.dumps(graph, multiplier=1).splitlines()
    assert header == "beliefs_multiplier_1_offset_0.0 2 2 2 6"  # 1 + 3 + 2
    assert lines == ["1 0 3 1", "0 6", "2 0 1 0 3", "0 1 1", "1 0 2", "1 1 6"]


def test_costs_beyond_exact_integers_are_refused() -> None:
    graph = FactorGraph.from_tables([2], [((0,), [0.0, -1e12])], log=True)
    with pytest.raises(FormatError, match="too large for integers; use a multiplier below 1000000"):
        wcsp.dumps(graph)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "expected the name of the problem, found the end of the file"),
        ("p 2 2 0 9\n2 x", 2, "expected the domain size of variable 1, found 'x'"),
        ("p 2 2 0 9\n2 0", 2, "expected a domain size of 1 to 2147483647 for variable 1, found '0'"),
        ("p 1000000 2 0 9\n2 2", 1, "promises 1000000 domain sizes"),
        ("p 1 2 1000000 9\n2", 1, "promises 1000000 cost functions"),
        ("p 1 2 0 -9\n2", 1, "expected a finite, non-negative upper bound, found '-9'"),
        ("p 1 2 0 nan\n2", 1, "expected a finite, non-negative upper bound, found 'nan'"),
        ("p 1 2 1 9\n2\n", 2, "expected the arity of cost function 0, found the end"),
        ("p 1 2 1 9\n2\n2 0 0 0 0", 3, "expected an arity of at most 1 for cost function 0, found '2'"),
        ("p 2 2 1 9\n2 2\n2 0 2 0 0", 3, "expected a new variable 0..1 in the scope of cost function 0, found '2'"),
        ("p 2 2 1 9\n2 2\n2 0\n0 0 0", 4, "expected a new variable 0..1 in the scope of cost function 0, found '0'"),
        ("p 2 2 1 9\n2 2\n1 0 -3 0", 3, "expected a finite, non-negative cost, found '-3'"),
        ("p 2 2 1 9\n2 2\n1 0 0 1\n2 5", 4, "expected a state of variable 0, below 2, found '2'"),
        ("p 2 2 1 9\n2 2\n1 0 0 1\n0.5 5", 4, "expected a state of variable 0, below 2, found '0.5'"),
        ("p 2 2 1 9\n2 2\n1 0 0 2\n0 5\n1 -1", 5, "expected a finite, non-negative cost, found '-1'"),
        ("p 2 2 1 9\n2 2\n1 0 0 2\n0 5\n1 x", 5, "expected 2 tuples of cost function 0: number 3, found 'x'"),
        (
            "p 2 2 1 9\n2 2\n1 0 0 2\n0 5\n",
            4,
            "expected 2 tuples of cost function 0: number 2, found the end",
        ),
        ("p 2 2 1 9\n2 2\n1 0 0 1\n0 5\n7", 5, "expected the end of the file, found '7'"),
        ("p 2 2 1 9\n2 2\n1 0 0 -1\n", 3, "expected one of 0 shared cost functions, found '-1'"),
        ("p 2 3 2 9\n2 3\n-1 0 0 0\n1 1 0 -1\n", 4, "cost function 1 and the shared one differ in their domain sizes"),
        ("p 2 2 1 9\n2 2\n2 0 1 -1\nsregular var", 4, "cost functions of kind 'sregular' are not supported"),
        ("p 2 2 1 9\n2 2\n1 0 -1 >= 0 0", 3, "cost function 0: its keyword needs 2 variables, found 1"),
        ("p 2 2 1 9\n2 2\n2 0 1 -1 >= 0\nx", 4, "expected 2 integers after >=, found 'x'"),
        ("p 2 2 1 9\n2 2\n2 0 1 -1 salldiff\nall 1", 4, "expected var, dec or decbi, found 'all'"),
        ("p 2 2 1 9\n2 2\n2 0 1 -1 salldiff var -1", 3, "costs must be non-negative, found -1"),
        ("p 2 2 1 9\n2 2\n2 0 1 -1 sgcc wdec 1 0", 3, "expected var or dec, found 'wdec'"),
        (
            "p 2 2 1 9\n2 2\n2 0 1 -1 sgcc var 1 2 0 1 1 1 2 2",
            3,
            "the limits of sgcc cannot be met",
        ),
        ("p 2 2 1 9\n2 2\n2 0 1 -1 sgcc var 1 1 7 0 1", 3, "sgcc needs different states"),
        ("p 2 3 1 9\n2 3\n2 0 1 -1 knapsack 1 1 1", 3, "knapsack needs variables with states 0 and 1"),
        ("p 2 2 1 9\n2 2\n2 0 1 -1 clique 2", 3, "expected 1, the most variables of a clique, found '2'"),
        ("p 2 2 1 9\n2 2\n2 0 1 -1 clique 1 1 0\n1 7", 4, "expected a state of variable 1, below 2, found '7'"),
        ("p 3 9999 1 9\n9999 9999 9999\n3 0 1 2 0 0", 3, "cost function 0 is too large to fill"),
        ("p 2 9999 1 9\n9999 9999\n2 0 1 -1 > 0 0", 3, "cost function 0: its table would have 99980001 cells"),
    ],
)
def test_malformed(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        wcsp.loads(text)
    assert caught.value.line == line
