"""Evidence in both dialects, queries, and what makes a file ambiguous."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefs.errors import FormatError
from beliefs.io import read_evidence, read_query, uai
from beliefs.model import FactorGraph
from strategies import examples

GRAPH = FactorGraph.from_tables([2, 3, 2, 4], [])


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("0", {}),
        ("0\n", {}),
        ("1\n0", {}),
        ("2 0 1 3 2", {0: 1, 3: 2}),
        ("/* Evidence */\n2\n 0 1\n 3 2\n", {0: 1, 3: 2}),
        ("1\n2 0 1 3 2", {0: 1, 3: 2}),
        ("1 5 1", {5: 1}),
        ("2\n1 0 1\n1 0 0", [{0: 1}, {0: 0}]),
        ("3\n0\n1 2 0\n0", [{}, {2: 0}, {}]),
        ("1 1\n3 1", {3: 1}),
        ("2 0 1 0 1", {0: 1}),
        ("2\n0\n1 3 2", [{}, {3: 2}]),
        ("2\n0 1 3 2", {0: 1, 3: 2}),
        ("2 0 1\n3 2", {0: 1, 3: 2}),
        ("2\n\n1 0 1\n\n0\n", [{0: 1}, {}]),
    ],
)
def test_dialects(text: str, evidence: object) -> None:
    assert uai.loads_evidence(text) == evidence


def test_ambiguity_is_settled_by_the_model_or_told() -> None:
    text = "2\n1\n0\n1\n0"  # x1 = 0 twice, or x0 = 1 and then nothing: the lines say neither
    with pytest.raises(FormatError, match=r"line 1: ambiguous evidence: one sample or several, .*\{1: 0\}"):
        uai.loads_evidence(text)
    assert uai.loads_evidence(text, FactorGraph.from_tables([2], [])) == [{0: 1}, {}]


def test_a_contradiction_rules_a_reading_out() -> None:
    """As one sample, variable 1 would be in states 0 and 1."""
    assert uai.loads_evidence("4 1 0 1 1 0 0 0 0") == [{0: 1}, {0: 0}, {}, {}]


def test_states_are_checked_against_the_model() -> None:
    assert uai.loads_evidence("2  1 2  3 3", GRAPH) == {1: 2, 3: 3}
    with pytest.raises(FormatError, match=r"line 3: variable 1 \(x1\) has states 0\.\.2, found state 3"):
        uai.loads_evidence("2\n0 0\n1 3", GRAPH)
    with pytest.raises(FormatError, match=r"line 2: no variable 4: the model has variables 0\.\.3"):
        uai.loads_evidence("1\n4 0", GRAPH)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "expected the number of observed variables, found the end of the file"),
        ("2\n0 1\n", 1, "2 observed variables need 4 numbers after the count, found 2"),
        ("0\n2 0\n", 1, "0 observed variables need 0 numbers after the count, found 2"),
        ("1\n0 one", 2, "expected an integer, found 'one'"),
        ("1\n0 -1", 2, "expected a non-negative integer, found '-1'"),
        ("1\n0 1.0", 2, "expected an integer, found '1.0'"),
        ("3\n0 1\n\n2 1\n0 0", 5, "variable 0 is observed in state 1 and in state 0"),
        ("1000000000000000000 1", 1, "expected an integer, found '1000000000000000000'"),
        ("999999999999999999 1", 1, "observed variables need"),
        ("\x00\xff", 1, "expected an integer"),
    ],
)
def test_malformed_evidence(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        uai.loads_evidence(text.encode("latin-1"))
    assert caught.value.line == line


samples = st.dictionaries(st.integers(0, 50), st.integers(0, 9), max_size=6)


@examples(200)
@given(samples)
def test_one_sample_round_trips(sample: dict[int, int]) -> None:
    assert uai.loads_evidence(uai.dumps_evidence(sample)) == sample


@examples(200)
@given(st.lists(samples, min_size=2, max_size=5))
def test_several_samples_round_trip(many: list[dict[int, int]]) -> None:
    assert uai.loads_evidence(uai.dumps_evidence(many)) == many


def test_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.uai.evid.gz"
    uai.write_evidence(path, {3: 1})
    assert read_evidence(path) == {3: 1}
    uai.write_evidence(path, [{3: 1}, {}])
    assert read_evidence(str(path)) == [{3: 1}, {}]
    with pytest.raises(FormatError, match=r"a\.uai\.evid\.gz, line 2: no variable 3"):
        read_evidence(path, FactorGraph.from_tables([2], []))


def test_query(tmp_path: Path) -> None:
    path = tmp_path / "a.query"
    path.write_text("# MAP variables\n3\n 7\n 0 2\n")
    assert read_query(path) == (7, 0, 2)
    assert uai.loads_query("0") == ()
    with pytest.raises(FormatError, match=r"a\.query, line 3: no variable 7: the model has variables 0\.\.3"):
        read_query(path, GRAPH)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "expected the number of query variables, found the end of the file"),
        ("2\n0", 1, "promises 2 variables and has only 2 bytes left"),
        ("2\n00", 2, "expected query variable 1, found the end of the file"),
        ("1\n0\n1", 3, "expected the end of the file, found '1'"),
        ("2\n0\n0", 3, "query variable 0 is named twice"),
        ("1\n-1", 2, "no variable -1"),
        ("1 x", 1, "expected query variable 0, found 'x'"),
        ("100000000 1", 1, "promises 100000000 variables"),
    ],
)
def test_malformed_queries(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        uai.loads_query(text)
    assert caught.value.line == line
