"""Suffixes, compression and writing whole files."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from beliefs.errors import FormatError
from beliefs.io import SUFFIXES, files, read, write
from beliefs.model import FactorGraph

GRAPH = FactorGraph.from_tables([2, 3], [((0, 1), [[1, 2, 3], [4, 5, 0]]), ((1,), [0.1, 0.25, 0.65])])


@pytest.mark.parametrize("compression", ["", ".gz", ".xz", ".bz2", ".GZ"])
@pytest.mark.parametrize("suffix", [".uai", ".uai.LG", ".LG", ".fg", ".wcsp", ".npz", ".UAI"])
def test_suffix_chooses_format_and_compression(tmp_path: Path, suffix: str, compression: str) -> None:
    path = tmp_path / f"model.v1{suffix}{compression}"
    write(GRAPH, path)
    again = read(str(path))
    assert isinstance(again, FactorGraph)
    states = [[x, y] for x in range(2) for y in range(3)]
    tolerance = 1e-6 if suffix == ".wcsp" else 0  # integer costs
    assert np.allclose(again.log_scores(states), GRAPH.log_scores(states), rtol=0, atol=tolerance)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_compressed_files_have_no_time_stamp(tmp_path: Path) -> None:
    write(GRAPH, tmp_path / "a.uai.gz")
    write(GRAPH, tmp_path / "b.uai.gz")
    assert (tmp_path / "a.uai.gz").read_bytes() == (tmp_path / "b.uai.gz").read_bytes()


@pytest.mark.parametrize("name", ["model.txt", "model", "model.gz", ".gz", "model.uai.zip"])
def test_unknown_suffix_lists_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError, match=r"unknown suffix; known are .*\.uai, .*\.npz"):
        read(tmp_path / name)
    with pytest.raises(FormatError, match="unknown suffix"):
        write(GRAPH, tmp_path / name)


def test_ergo_is_read_only(tmp_path: Path) -> None:
    assert ".erg" in SUFFIXES
    with pytest.raises(FormatError, match="unknown suffix"):
        write(GRAPH, tmp_path / "a.erg")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.uai: no such file$"):
        read(tmp_path / "none.uai")


def test_directory_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "d.uai").mkdir()
    with pytest.raises(FormatError, match=r"d\.uai: the file cannot be read \(Is a directory\)"):
        read(tmp_path / "d.uai")


@pytest.mark.parametrize("compression", [".gz", ".xz", ".bz2"])
@pytest.mark.parametrize("damage", ["garbage", "truncated", "empty", "flipped"])
def test_corrupted_compression(tmp_path: Path, compression: str, damage: str) -> None:
    path = tmp_path / f"m.uai{compression}"
    write(GRAPH, path)
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 0x55
    damaged: dict[str, bytes | bytearray] = {
        "garbage": b"not compressed",
        "truncated": data[:-5],
        "empty": b"",
        "flipped": data,
    }
    path.write_bytes(damaged[damage])
    expected = "compression is corrupted|expected MARKOV or BAYES, found the end of the file"
    with pytest.raises(FormatError, match=expected):
        read(path)


def test_the_error_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.uai.gz"
    path.write_bytes(gzip.compress(b"MARKOV\n1\n0\n"))
    with pytest.raises(FormatError, match=r"bad\.uai\.gz, line 3: ") as caught:
        read(path)
    assert (caught.value.path, caught.value.line) == (str(path), 3)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.uai"
    path.write_text("old")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(GRAPH, path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["m.uai"]


def test_nothing_is_written_when_the_model_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"m\.uai: the log potential -1000 of factor 0 underflows"):
        write(FactorGraph.from_tables([2], [((0,), [-1000.0, 0.0])], log=True), tmp_path / "m.uai")
    assert list(tmp_path.iterdir()) == []


def test_no_folder_to_write_to(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"cannot be written \(No such file or directory\)"):
        write(GRAPH, tmp_path / "none" / "m.uai")


def test_a_link_keeps_pointing_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "link.uai").symlink_to(tmp_path / "m.uai")
    write(GRAPH, tmp_path / "link.uai")
    assert (tmp_path / "link.uai").is_symlink()
    again = read(tmp_path / "m.uai")
    assert isinstance(again, FactorGraph) and again.n_vars == 2


def test_devices_are_written_to_and_not_replaced() -> None:
    files.write_bytes(os.devnull, b"nothing")
    assert not os.path.isfile(os.devnull)


def test_new_files_follow_the_umask(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    write(GRAPH, tmp_path / "m.uai")
    assert (tmp_path / "m.uai").stat().st_mode == (tmp_path / "plain").stat().st_mode
