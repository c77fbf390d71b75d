"""The yardstick of chunking: attributes of a sentence, chunks that tags mean, and their score."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the benchmarks, which are found from the root folder."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.learning.chunking.data")


def test_attributes_reach_two_tokens_and_no_further_than_the_sentence(data: ModuleType) -> None:
    sentence = [("He", "PRP", "B-NP"), ("reckons", "VBZ", "B-VP"), ("so", "RB", "O")]
    first, second, third = data.attributes(sentence)
    assert first == [
        "w[0]=He", "w[1]=reckons", "w[2]=so", "w[0]|w[1]=He|reckons", "pos[0]=PRP", "pos[1]=VBZ", "pos[2]=RB",
        "pos[0]|pos[1]=PRP|VBZ", "pos[1]|pos[2]=VBZ|RB", "pos[0]|pos[1]|pos[2]=PRP|VBZ|RB", "__BOS__",
    ]  # fmt: skip
    assert "pos[-1]|pos[0]|pos[1]=PRP|VBZ|RB" in second
    assert "w[-1]|w[0]=He|reckons" in second
    assert third[-1] == "__EOS__"
    assert len(data.TEMPLATES) == 19
    assert data.attributes(sentence[:1]) == [["w[0]=He", "pos[0]=PRP", "__BOS__", "__EOS__"]]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O", set()),
        ("B-NP I-NP O", {(0, 2, "NP")}),
        ("B-NP B-NP", {(0, 1, "NP"), (1, 2, "NP")}),
        ("B-NP I-VP", {(0, 1, "NP"), (1, 2, "VP")}),
        ("I-NP I-NP O I-NP", {(0, 2, "NP"), (3, 4, "NP")}),
        ("B-NP I-NP", {(0, 2, "NP")}),
    ],
)
def test_chunks(data: ModuleType, tags: str, expected: set[tuple[int, int, str]]) -> None:
    assert data.chunks(tags.split()) == expected


def test_score_counts_whole_chunks(data: ModuleType) -> None:
    truth = [["B-NP", "I-NP", "O"], ["B-VP"]]
    assert data.f1(truth, truth) == 100.0
    assert data.f1(truth, [["B-NP", "O", "O"], ["B-VP"]]) == 50.0  # one of two, of two
    assert data.f1(truth, [["B-NP", "I-NP", "B-NP"], ["O"]]) == 50.0
    assert data.f1(truth, [["O", "O", "O"], ["O"]]) == 0.0


def test_without_the_data_one_line_says_so(
    data: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BELIEFS_DATA", str(tmp_path))
    chunking = importlib.import_module("benchmarks.learning.chunking.run")
    assert chunking.SUITE.run(["--json", str(tmp_path / "out.json")]) == 0
    assert capsys.readouterr().out.count("\n") == 1
    assert not (tmp_path / "out.json").exists()


def test_tables_compare_with_the_peer(data: ModuleType) -> None:
    chunking = importlib.import_module("benchmarks.learning.chunking.run")
    run = {"evaluations": 12, "loss": 99.5, "f1": 93.7, "read": 1.0, "seconds": 9.0, "tagging": 0.1, "iterations": 11}
    run |= {"n_tokens": 5, "n_weights": 7, "extracting": 0.5, "processor": 0.1}
    sides = {"ours_1": [run | {"wall": 0.2}, run | {"wall": 0.1}], "peer": [run | {"wall": 0.4}]}
    text = chunking.page({"sides": sides, "c2": 1.0, "notes": [], "machine": {"load_before": 0.0, "cores": 2}})
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    ours = dict(zip(rows[0], rows[2], strict=True))
    assert (ours["ms an iteration"], ours["of CRFsuite's"], ours["F1"]) == ("100", "0.25", "93.70")
