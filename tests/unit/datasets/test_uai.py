"""Inference problems in archives: the index, the readers, and what is said when something is missing."""

from __future__ import annotations

import csv
import io
import math
import tarfile
from pathlib import Path

import numpy as np
import pytest

from beliefs import datasets as ds
from beliefs.errors import FormatError, ModelError

MODEL = "MARKOV\n2\n2 2\n2\n1 0\n2 0 1\n2\n 1 3\n4\n 1 2 3 4\n"  # Z = 1*(1+2) + 3*(3+4) = 24
COLUMNS = [
    "core", "set", "category", "name", "archive", "member", "type", "n_vars", "max_domain", "n_factors", "max_arity",
    "n_evidence", "tw_ub_minfill", "log2_max_clique", "PR_published_log10", "PR_exact_log10", "MAR_published",
    "MAR_exact", "MAP_ln", "MAP_status", "MMAP_n_query", "MMAP_exact_ln", "UAI2022_MMAP_log10_best", "notes",
]  # fmt: skip
BASE = {
    "set": "toy", "category": "Grids", "archive": "uai/toy.tar.xz", "type": "MARKOV", "n_vars": "2", "max_domain": "2",
    "n_factors": "2", "max_arity": "2", "n_evidence": "0", "tw_ub_minfill": "1", "log2_max_clique": "2.0",
}  # fmt: skip
FILES = {
    "toy/Grids/a.uai": MODEL,
    "toy/Grids/a.uai.evid": "1 1 0",
    "toy/Grids/a.uai.MAR": "MAR\n2 2 0.1 0.9 2 1 0",
    "toy/Grids/derived_exact/a.uai.MAP": "MAP\n2 1 0",
    "toy/Grids/b.uai": MODEL,
    "toy/Grids/b.map": "# maximise over these\n1\n1\n",
    "toy/Grids/b.uai.MAR": "MAR\n2 2 0.1 0.9 2 0.6 0.4",
    "toy/Grids/derived_exact/b.uai.MAR": "MAR\n2 2 0.125 0.875 2 0.41666667 0.58333333",
    "toy/Other/converted_to_uai/c.uai": MODEL,
    "toy/Other/converted_to_uai/c.uai.evid": "0\n7 1",
    "toy/Other/derived_exact/c.uai.MAR": "MAR\n2 2 0.125 0.875 2 0.41666667 0.58333333",
    "toy/Other/d.uai": MODEL + "5 6 7\n",
    "toy/Grids/Merlin_WMB_MMAP_not_certified/b.uai.MMAP": "MMAP\n1 0",
    "other/Grids/a.uai": MODEL,
    "other/Grids/a.uai.query": "2 1 0",
    "other/Grids/Merlin_WMB_MMAP_not_certified/a.uai.MMAP": "MMAP\n2 1 0",
}
ROWS = [
    {
        "core": "1", "name": "a", "member": "toy/Grids/a.uai", "n_evidence": "1", "PR_published_log10": "1.000",
        "MAR_published": "yes", "MAP_ln": "2.19722458", "MAP_status": "optimal (proved)", "notes": "Do not score PR.",
    },
    {
        "core": "1", "name": "b", "member": "toy/Grids/b.uai", "PR_published_log10": "1.38",
        "PR_exact_log10": "1.380211242", "MAR_published": "yes", "MAR_exact": "yes",
        "MMAP_n_query": "1", "MMAP_exact_ln": "2.63905733", "UAI2022_MMAP_log10_best": "1.1",
    },
    {
        "name": "c", "category": "Other", "member": "toy/Other/converted_to_uai/c.uai", "PR_published_log10": "1.4e0",
        "MAR_exact": "yes", "MAP_ln": "2.1", "MAP_status": "best known",
    },
    {"name": "d", "category": "Other", "member": "toy/Other/d.uai", "PR_exact_log10": "-inf"},
    {"set": "other", "name": "a", "member": "other/Grids/a.uai", "MMAP_n_query": "2"},
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with (tmp_path / "uai_index.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(BASE | row for row in ROWS)
    (tmp_path / "uai").mkdir()
    with tarfile.open(tmp_path / "uai" / "toy.tar.xz", "w:xz") as tar:
        for name, text in FILES.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return tmp_path


def test_the_index_is_filtered(home: Path) -> None:
    def keys(**filters: object) -> list[str]:
        return [p.key for p in ds.uai_instances(home=home, **filters)]  # type: ignore[arg-type]

    assert keys() == ["toy/Grids/a", "toy/Grids/b", "toy/Other/c", "toy/Other/d", "other/Grids/a"]
    assert keys(core=True) == ["toy/Grids/a", "toy/Grids/b"]
    assert keys(core=False, category="Grids") == ["other/Grids/a"]
    assert keys(task="PR") == ["toy/Grids/b", "toy/Other/c", "toy/Other/d"]  # a's value is not to be scored
    assert keys(task="MAR") == ["toy/Grids/b", "toy/Other/c"]
    assert keys(task="MAP") == ["toy/Grids/a", "toy/Other/c"]
    assert keys(task="MMAP") == ["toy/Grids/b"]
    with pytest.raises(ModelError, match="task must be one of PR, MAR, MAP, MMAP, found 'pr'"):
        keys(task="pr")


def test_reference_values_are_natural_logs_with_their_printed_precision(home: Path) -> None:
    a, b, c, d, _ = ds.uai_instances(home=home)
    assert (a.log_z, b.log_z_exact, c.log_z_exact) == (None, True, False)
    assert b.log_z == pytest.approx(math.log(24), abs=b.log_z_error)
    assert b.log_z_error == pytest.approx(0.5e-9 * math.log(10))
    assert c.log_z_error == pytest.approx(0.05 * math.log(10))
    assert (d.log_z, d.log_z_error) == (-math.inf, 0.0)
    assert (a.map_log_score, a.map_proved, c.map_proved) == (2.19722458, True, False)
    assert b.mmap_log_value == pytest.approx(math.log(14))


def test_problems_are_read_from_their_archive(home: Path) -> None:
    a, b, c, _, _ = ds.uai_instances(home=home)
    assert a.graph().log_score([1, 0]) == pytest.approx(math.log(9))
    assert (a.evidence(), b.evidence(), c.evidence()) == ({1: 0}, {}, {})
    assert a.conditioned().evidence == {1: 0}
    assert (a.query(), b.query()) == (None, (1,))
    assert (a.name, c.category) == ("a", "Other")


def test_independent_references_come_before_published_ones(home: Path) -> None:
    a, b, c, _, _ = ds.uai_instances(home=home)
    assert a.marginals() is None  # not to be scored
    for problem in (b, c):
        found = problem.marginals()
        assert found is not None
        assert np.allclose(found, [[3 / 24, 21 / 24], [10 / 24, 14 / 24]], atol=1e-8)
    states = a.assignment()
    assert states is not None
    assert a.conditioned().log_score(states) == pytest.approx(a.map_log_score)
    assert c.assignment() is None


def test_known_answers_to_marginal_map(home: Path) -> None:
    """Merlin lists states alone, of the variables in the order of their indices, not of the query's file."""
    a, b, _, _, other = ds.uai_instances(home=home)
    assert (a.n_query, b.n_query, other.n_query) == (0, 1, 2)
    assert b.mmap_published == pytest.approx(1.1 * math.log(10))
    assert (a.mmap_published, a.merlin_assignment()) == (None, None)
    assert (b.merlin_assignment(), other.merlin_assignment()) == ({1: 0}, {0: 1, 1: 0})


def test_one_problem_by_name_or_key(home: Path) -> None:
    assert ds.load_uai("b", home=home).key == "toy/Grids/b"
    assert ds.load_uai("other/Grids/a", home=home).key == "other/Grids/a"
    with pytest.raises(ModelError, match="several problems are called 'a': toy/Grids/a, other/Grids/a"):
        ds.load_uai("a", home=home)
    with pytest.raises(ModelError, match="no problem 'toy/Grids/bb'; did you mean 'toy/Grids/b'"):
        ds.load_uai("toy/Grids/bb", home=home)


def test_a_broken_file_is_named_with_its_archive(home: Path) -> None:
    with pytest.raises(FormatError, match=r"toy.tar.xz:toy/Other/d.uai, line 11: "):
        ds.load_uai("d", home=home).graph()


def test_missing_data_ends_in_one_clear_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BELIEFS_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="set the environment variable BELIEFS_DATA"):
        ds.uai_instances()
    b = ds.load_uai("b", home=home)
    (home / "uai" / "toy.tar.xz").unlink()
    with pytest.raises(FileNotFoundError, match=r"the archive .*toy.tar.xz does not exist"):
        b.graph()
    (home / "uai_index.csv").unlink()
    with pytest.raises(FileNotFoundError, match="has no uai_index.csv"):
        ds.uai_instances(home=home)


# -- the real thing, where it is present --------------------------------------------------------------------------
def test_shared_problems_agree_with_their_index() -> None:
    """Sizes, evidence and the shape of references of the quick suite; every certified assignment has its score."""
    home = ds.data_home(missing_ok=True)
    if home is None or not (home / "uai_index.csv").is_file():
        pytest.skip("BELIEFS_DATA is not set to a folder with uai_index.csv")
    problems = ds.uai_instances(core=True)
    assert len({p.key for p in problems}) == len(problems) > 100
    counted = ds.load_uai("uai2014-pr-mar/CNF/2bitcomp_5.cnf").log_z
    assert counted == pytest.approx(math.log(9840070722846720))  # by a model counter, all 125 variables included
    for p in problems:
        graph = p.graph()
        assert (graph.n_vars, graph.n_factors, graph.kind) == (p.n_vars, p.n_factors, p.kind), p.key
        evidence = p.evidence(graph)
        assert len(evidence) == p.n_evidence, p.key
        assert len(p.query() or ()) == p.n_query, p.key
        if "MMAP" in p.tasks:
            assert p.n_query, p.key
        marginals = p.marginals()
        if "MAR" in p.tasks:
            assert marginals is not None
            assert [len(m) for m in marginals] == graph.layout.card.tolist(), p.key
        states = p.assignment()
        if p.map_proved and states is not None:
            score = graph.condition(evidence).log_score(states)
            assert score == pytest.approx(p.map_log_score, rel=1e-6, abs=1e-6), p.key
