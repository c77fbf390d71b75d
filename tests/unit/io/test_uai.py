"""UAI model files: the worked example, both twins, and every way to be wrong with its line."""

from __future__ import annotations

import numpy as np
import pytest

from beliefs.errors import FormatError
from beliefs.io import uai
from beliefs.model import BayesianNetwork, FactorGraph, Variable

MODEL = """MARKOV
3
2 2 3
4
1 0
2 0 1
2 2 1
0

2
 0.4 0.6
4
 .1 .9
 9e-1 1.0E-1
6
 1 2 3 4 0 6

1 2.5
"""


def test_worked_example() -> None:
    graph = uai.loads(MODEL)
    assert graph.layout.card.tolist() == [2, 2, 3]
    assert [graph.layout.scope(f).tolist() for f in range(4)] == [[0], [0, 1], [2, 1], []]
    table = graph.factors[2].table
    assert table[1].tolist() == pytest.approx([3, 4])  # the last variable of the scope varies fastest
    assert graph.theta[graph.layout.cells(2)].tolist()[4] == -np.inf
    assert np.exp(graph.log_score([0, 1, 2])) == pytest.approx(0.4 * 0.9 * 6 * 2.5)
    assert graph.kind == "MARKOV"


@pytest.mark.parametrize(
    "text",
    [
        MODEL.replace("\n", "\r\n"),
        MODEL.replace("\n", "\t \f"),
        "\ufeff" + MODEL,
        "/* a\ncomment */ " + MODEL.replace("2 0 1", "2 /* u */ 0/**/ 1 /* v\n */"),
        MODEL.lower(),
    ],
)
def test_white_space_comments_and_case(text: str) -> None:
    assert np.array_equal(uai.loads(text).theta, uai.loads(MODEL).theta)


def test_bytes_and_text_are_alike() -> None:
    assert np.array_equal(uai.loads(MODEL.encode()).theta, uai.loads(MODEL).theta)


def test_header_word_is_kept() -> None:
    text = MODEL.replace("MARKOV", "BAYES")
    assert uai.loads(text).kind == "BAYES"
    assert uai.dumps(uai.loads(text)).startswith("BAYES\n")


def test_no_variables_and_no_factors() -> None:
    assert uai.loads("MARKOV 0 0").n_vars == 0
    assert uai.loads("MARKOV 1 3 0").n_factors == 0
    assert np.exp(uai.loads("MARKOV 0 1 0 1 7").theta) == pytest.approx([7])


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "expected MARKOV or BAYES, found the end of the file"),
        ("\n\n  \n", 1, "expected MARKOV or BAYES, found the end of the file"),
        ("MRF\n1\n", 1, "expected MARKOV or BAYES, found 'MRF'"),
        ("\n\x00\x01\x02\x80garbage", 2, "expected MARKOV or BAYES, found "),
        ("MARKOV", 1, "expected the number of variables, found the end of the file"),
        ("MARKOV\ntwo\n", 2, "expected the number of variables, found 'two'"),
        ("MARKOV\n-1\n", 2, "expected the number of variables, found '-1'"),
        ("MARKOV\n2.0\n2 2", 2, "expected the number of variables, found '2.0'"),
        ("MARKOV\n1000000000000\n2 2\n", 2, "promises 1000000000000 cardinalities and has only 5 bytes left"),
        ("MARKOV\n99999999999999999999\n2 2\n", 2, "expected the number of variables, found '99999999999999999999'"),
        ("MARKOV\n2\n2 0\n0\n", 3, "variable 1 needs 1 to 2147483647 states, found 0"),
        ("MARKOV\n2\n2\n-2\n0\n", 4, "variable 1 needs 1 to 2147483647 states, found -2"),
        ("MARKOV\n2\n2 x\n0\n", 3, "expected the cardinality of variable 1, found 'x'"),
        ("MARKOV\n3\n2 2\n", 3, "expected the cardinality of variable 2, found the end of the file"),
        ("MARKOV\n2\n2 2\n", 3, "expected the number of factors, found the end of the file"),
        ("MARKOV\n1\n2\n1000000\n1 0\n2 .5 .5", 4, "promises 1000000 scopes and has only"),
        ("MARKOV\n2\n2 2\n1\n2 0 2\n", 5, "factor 0 names variable 2, but variables are 0..1"),
        ("MARKOV\n2\n2 2\n1\n2 0 -1\n", 5, "factor 0 names variable -1, but variables are 0..1"),
        ("MARKOV\n2\n2 2\n2\n1 0\n2 1\n1\n", 7, "factor 1 has variable 1 twice in its scope"),
        ("MARKOV\n2\n2 2\n1\n3 0 1 1\n", 5, "factor 0 has a scope of 3 variables, but the model has 2"),
        ("MARKOV\n2\n2 2\n1\n-1 0\n", 5, "factor 0 has a scope of -1 variables, but the model has 2"),
        ("MARKOV\n2\n2 2\n1\n2 0\n", 5, "expected an integer in the scope of factor 0, found the end of the file"),
        ("MARKOV\n2\n2 2\n1\n2 0 y\n", 5, "expected an integer in the scope of factor 0, found 'y'"),
        ("MARKOV\n2\n2 2\n1\n2 0 1\n", 5, "factor 0 over 2 variables needs more entries than the file has room for"),
        ("MARKOV\n1\n2\n1\n1 0\n3\n1 2 3", 6, "expected 2 as the table size of factor 0, found '3'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1\n", 7, "the table of factor 0 needs 2 entries, found 1 before the file ends"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 2\n3\n", 8, "expected the end of the file, found '3'"),
        (
            "MARKOV\n1\n2\n1\n1 0\n2\n1\n-2\n",
            8,
            "expected a finite, non-negative number in the table of factor 0, found '-2'",
        ),
        (
            "MARKOV\n1\n2\n1\n1 0\n2\nnan 2\n",
            7,
            "expected a finite, non-negative number in the table of factor 0, found 'nan'",
        ),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 inf\n", 7, "found 'inf'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 1e999\n", 7, "found '1e999'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n\n1 1,5\n", 8, "expected a number as entry 1 of the table of factor 0, found '1,5'"),
        (
            "MARKOV\n1\n2\n2\n1 0\n1 0\n2\n.5 .5\n",
            8,
            "expected the table size of factor 1, found the end",
        ),
        ("MARKOV\n1\n2\n2\n1 0\n1 0\n2\n.5 .5\n\n\nx\n", 11, "expected the table size of factor 1, found 'x'"),
        ("MARKOV\n1 /* no end\n2\n", 2, "the comment that starts here with /\\* has no end"),
    ],
)
def test_malformed(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        uai.loads(text)
    assert caught.value.line == line


def test_the_first_mistake_is_the_one_told() -> None:
    """A wrong size shifts everything after it; the shifted numbers are not what is wrong."""
    text = "MARKOV\n1\n2\n2\n1 0\n1 0\n3\n1 2 3\n2\n-1 nan\n"
    with pytest.raises(FormatError, match="line 7: expected 2 as the table size of factor 0, found '3'"):
        uai.loads(text)


def test_a_huge_scope_is_refused_before_its_table_is_made() -> None:
    scope = " ".join(map(str, range(200)))
    with pytest.raises(FormatError, match="factor 0 over 200 variables needs more entries"):
        uai.loads(f"MARKOV 200 {'9 ' * 200} 1 200 {scope} 5 1 1 1 1 1")


def test_logarithms() -> None:
    graph = uai.loads("MARKOV 1 3 1 1 0 3 -0.5 -inf 700.25", log=True)
    assert graph.theta.tolist() == [-0.5, -np.inf, 700.25]
    for bad in ("inf", "nan", "1e999", "2e200", "-2e200"):
        with pytest.raises(
            FormatError, match=r"line 4: expected a finite logarithm \(up to 1e\+200\) or -inf in the table of factor 0"
        ):
            uai.loads(f"MARKOV 1 3\n1 1 0\n3\n0 0 {bad}", log=True)


def test_numbers_are_written_as_they_were() -> None:
    numbers = ["0.1", "0.2", "0.3", "1e-05", "0.333333", "1", "0", "123456.789", "2.5e-300", "0.025641"]
    text = f"MARKOV\n1\n10\n1\n1 0\n\n10\n{' '.join(numbers)}\n"
    assert uai.dumps(uai.loads(text)) == text


def test_a_bayesian_network_is_written_with_its_own_numbers() -> None:
    third = 1 / 3
    network = BayesianNetwork.from_cpts(
        [Variable("a", 3), Variable("b", 2)], {"a": ([], [third] * 3), "b": (["a"], [[0.1, 0.9]] * 3)}
    )
    assert uai.dumps(network) == (
        f"BAYES\n2\n3 2\n2\n1 0\n2 0 1\n\n3\n{third!r} {third!r} {third!r}\n\n6\n0.1 0.9 0.1 0.9 0.1 0.9\n"
    )


@pytest.mark.parametrize(("log", "word"), [(800.0, "overflows"), (-800.0, "underflows"), (-744.6, "underflows")])
def test_what_a_potential_cannot_hold_is_refused(log: float, word: str) -> None:
    graph = FactorGraph.from_tables([2, 2], [((0,), [0.0, 0.0]), ((1,), [0.0, log])], log=True)
    with pytest.raises(FormatError, match=f"of factor 1 {word} as a potential; write logarithms"):
        uai.dumps(graph)
    assert uai.loads(uai.dumps(graph, log=True), log=True).theta.tolist() == [0.0, 0.0, 0.0, log]


def test_observed_variables_are_written_as_factors() -> None:
    graph = uai.loads(MODEL).condition({"x0": 1, "x2": 2})
    again = uai.loads(uai.dumps(graph))
    assert again.n_factors == graph.n_factors + 2
    assert again.log_score([1, 0, 2]) == pytest.approx(graph.log_score([1, 0, 2]))
    assert again.log_score([0, 0, 2]) == -np.inf
    assert again.log_score([1, 0, 1]) == -np.inf


def test_tied_tables_are_written_out() -> None:
    graph = FactorGraph.pairwise(np.zeros((3, 2)), [[0, 1], [1, 2]], [[1.0, 2.0], [3.0, 4.0]])
    again = uai.loads(uai.dumps(graph, log=True), log=True)
    assert not again.layout.tied
    assert again.theta.tolist() == [0.0] * 6 + [1.0, 2.0, 3.0, 4.0] * 2
