"""Text from the shell becomes variables and states: the name first, then the index."""

from __future__ import annotations

from pathlib import Path

import pytest

import beliefs as bl
from beliefs.cli.names import parse_evidence, parse_query, parse_state, parse_variable
from beliefs.cli.options import byte_count
from beliefs.cli.table import Table


@pytest.fixture
def graph() -> bl.FactorGraph:
    """Names and labels that are also indices, of something else."""
    return bl.FactorGraph.from_tables([2, 2, 2], [], names=["1", "0", "c"], states=[["1", "0"], None, ["no", "yes"]])


@pytest.mark.parametrize(("text", "v"), [("1", 0), ("0", 1), ("c", 2), ("2", 2)])
def test_a_variable_is_found_by_name_then_by_index(graph: bl.FactorGraph, text: str, v: int) -> None:
    assert parse_variable(graph, text) == v


@pytest.mark.parametrize(("v", "text", "x"), [(0, "1", 0), (0, "0", 1), (1, "1", 1), (2, "yes", 1), (2, "1", 1)])
def test_a_state_is_found_by_label_then_by_index(graph: bl.FactorGraph, v: int, text: str, x: int) -> None:
    assert parse_state(graph, v, text) == x


@pytest.mark.parametrize("text", ["-1", "3", "²", " ", "c "])
def test_what_is_neither_is_refused(graph: bl.FactorGraph, text: str) -> None:
    with pytest.raises(bl.ModelError):
        parse_variable(graph, text)


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([], {}),
        ([""], {}),
        (["c=yes"], {2: 1}),
        ([" c = yes , 1 = 1 "], {2: 1, 0: 0}),
        (["c=yes", "0=1"], {2: 1, 1: 1}),
        (["c=yes", "2=1"], {2: 1}),
    ],
)
def test_evidence(graph: bl.FactorGraph, texts: list[str], found: dict[int, int]) -> None:
    assert parse_evidence(graph, texts) == found


def test_names_win_over_a_query_file(graph: bl.FactorGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c").write_text("1 0")
    Path("some").write_text("2 1 0")
    assert parse_query(graph, "c") == [2]
    assert parse_query(graph, "some") == [1, 0]
    assert parse_query(graph, "") == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("17", 17),
        ("2GB", 2_000_000_000),
        ("2g", 2_000_000_000),
        ("1.5 MB", 1_500_000),
        (".5kB", 500),
        ("1e9", 1_000_000_000),
        ("1GiB", 2**30),
        ("3ti", 3 * 2**40),
        ("8B", 8),
        (str(2**62), 2**62),
    ],
)
def test_bytes(text: str, count: int) -> None:
    assert byte_count(None, None, text) == count  # type: ignore[arg-type]


def test_a_table_without_rows_is_its_header() -> None:
    assert Table(("a", "b"), []).text() == "a  b"
