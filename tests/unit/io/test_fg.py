"""libDAI factor graphs: the order of cells, gaps in labels, and every way to be wrong with its line."""

from __future__ import annotations

import numpy as np
import pytest

from beliefs.errors import FormatError
from beliefs.io import fg
from beliefs.model import FactorGraph

MODEL = """# a comment
2

2
0 1
2 3
3
1 0.5
   # another
2 3
5 1e-2

1
1
3
3
0 1
1 1
2 4
"""


def test_the_first_variable_varies_fastest_and_zeros_are_left_out() -> None:
    graph = fg.loads(MODEL)
    assert graph.layout.card.tolist() == [2, 3]
    table = np.zeros((2, 3))
    table[1, 0], table[0, 1], table[1, 2] = 0.5, 3, 0.01  # index = x0 + 2 x1
    assert np.allclose(graph.factors[0].table, table, rtol=1e-15)
    assert np.array_equal(graph.factors[0].log_table == -np.inf, table == 0)
    assert graph.variables[1].name == "x1"


def test_labels_with_gaps_become_names() -> None:
    graph = fg.loads("1\n3\n30 7 9\n2 2 2\n1\n1 5")
    assert [v.name for v in graph.variables] == ["x7", "x9", "x30"]
    assert graph.layout.scope(0).tolist() == [2, 0, 1]
    assert graph.log_score({"x30": 1, "x7": 0, "x9": 0}) == pytest.approx(np.log(5))
    assert fg.dumps(graph) == "1\n\n3\n30 7 9\n2 2 2\n1\n1 5\n"


def test_empty_scopes_and_isolated_variables() -> None:
    assert np.exp(fg.loads("1\n0\n\n\n1\n0 2.5").theta) == pytest.approx([2.5])
    assert fg.loads("0").n_factors == 0
    graph = FactorGraph.from_tables([2, 3], [((), 0.5), ((1,), [1, 2, 3])])
    again = fg.loads(fg.dumps(graph))
    assert again.layout.card.tolist() == [2, 3]
    assert again.n_factors == 3
    states = [[x, y] for x in range(2) for y in range(3)]
    assert np.array_equal(again.log_scores(states), graph.log_scores(states))


def test_more_axes_than_numpy_has() -> None:
    card = [1] * 70 + [2, 3]
    graph = FactorGraph.from_tables(card, [(range(72), np.arange(1.0, 7.0))])
    assert np.array_equal(fg.loads(fg.dumps(graph)).theta, graph.theta)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "expected the number of factors, found the end of the file"),
        ("# only a comment\n", 1, "expected the number of factors, found the end of the file"),
        ("\x00\x01", 1, "expected the number of factors"),
        ("x\n", 1, "expected the number of factors, found 'x'"),
        ("1000000000\n1\n", 1, "promises 1000000000 factors and has only"),
        ("1\n1\n0\n2\n2\n0 1\n1 one\n", 7, "expected a number, found 'one'"),
        ("1\n1\n0\n2\n2\n0 1\n", 6, "expected the rest of factor 0, found the end of the file"),
        ("2\n1\n0\n2\n1\n0 1\n", 6, "expected the rest of factor 1, found the end of the file"),
        ("1\n1\n0\n2\n1\n0 1\n9\n", 7, "expected the end of the file, found '9'"),
        ("1\n1.5\n0\n2\n1\n0 1\n", 2, "expected a count in factor 0, found '1.5'"),
        ("1\n-1\n0\n2\n1\n0 1\n", 2, "expected a count in factor 0, found '-1'"),
        ("1\n1\n0\n2\nnan\n0 1\n", 5, "expected a count in factor 0, found 'nan'"),
        ("1\n1\n-3\n2\n1\n0 1\n", 3, "expected a variable's label, found '-3'"),
        ("1\n1\n1e300\n2\n1\n0 1\n", 3, "expected a variable's label, found '1e300'"),
        ("1\n1\n0\n0\n1\n0 1\n", 4, "expected a cardinality, found '0'"),
        ("1\n1\n0\n2.5\n1\n0 1\n", 4, "expected a cardinality, found '2.5'"),
        ("2\n1\n0\n2\n0\n1\n0\n3\n0\n", 8, "expected the same cardinality as before, found '3'"),
        ("1\n2\n0 0\n2 2\n0\n", 3, "expected another label: factor 0 has this one twice, found '0'"),
        ("1\n1\n0\n2\n1\n2 1\n", 6, "expected an index within the table, found '2'"),
        ("1\n1\n0\n2\n1\n-1 1\n", 6, "expected an index within the table, found '-1'"),
        ("1\n1\n0\n2\n1\n0.5 1\n", 6, "expected an index within the table, found '0.5'"),
        ("1\n1\n0\n2\n1\n0 -1\n", 6, "expected a finite, non-negative number, found '-1'"),
        ("1\n1\n0\n2\n1\n0 inf\n", 6, "expected a finite, non-negative number, found 'inf'"),
        ("1\n1\n0\n2\n2\n1 1\n1 2\n", 7, "expected another index: this entry is given twice, found '1'"),
        ("1\n3\n0 1 2\n99999 99999 99999\n0\n", 2, "factor 0 is too large to fill"),
        ("2\n1\n0\n99999999\n0\n1\n1\n99999999\n0\n", 6, "factor 1 is too large to fill"),
    ],
)
def test_malformed(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        fg.loads(text)
    assert caught.value.line == line
