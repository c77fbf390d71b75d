"""A compressed file is read in proportion to what its beginning promises: nonsense ends early and in little memory."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.io import erg, files, uai
from beliefs.io.formats import FORMATS, Format
from beliefs.io.scanner import check_beginning
from beliefs.io.uai import counted_evidence, loads_query, loads_solution

SIZE = 5 * 10**7  # bytes of nonsense
PEAK = 4 * 10**7
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, compresslevel=1),
    ".bz2": bz2.compress,
    ".xz": partial(lzma.compress, preset=0),
}
HEADS = {
    ".uai": b"MARKOV 2 2 2 1 2 0 1 4 1 2 3 4 ",
    ".uai.lg": b"MARKOV 2 2 2 1 2 0 1 4 1 2 3 4 ",
    ".bif": b"network x { } variable a { type discrete [2] { n, y }; } probability (a) { table ",
    ".xmlbif": b"<BIF><NETWORK><VARIABLE><NAME>a</NAME><OUTCOME>n</OUTCOME><OUTCOME>y</OUTCOME></VARIABLE><DEFINITION>"
    b"<FOR>a</FOR><TABLE>",
    ".fg": b"1\n1\n0\n2\n2\n0 1\n1 1\n",
    ".wcsp": b"name 1 2 1 10  2  1 0 0 0 ",
    ".npz": b"PK\x03\x04",
    ".erg": b"1 2 0 2 0.5 0.5 a n y ",
    ".evid": b"1 0 1 ",
    ".MAR": b"MAR 1 2 0.5 0.5 ",
}
READ: dict[str, Callable[[Path], object]] = {".evid": bl.read_evidence, ".MAR": bl.io.uai.read_solution}


def refused(path: Path) -> str:
    """Return the error, after checking how much memory it took."""
    read = next((READ[suffix] for suffix in READ if suffix in path.name), bl.read)
    tracemalloc.start()
    try:
        with pytest.raises(bl.FormatError) as caught:
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < PEAK, f"{peak / 1e6:.0f} MB"
    assert "\n" not in str(caught.value) and path.name in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("compression", COMPRESS)
def test_zeros(compression: str, tmp_path: Path) -> None:
    path = tmp_path / f"zeros.uai{compression}"
    path.write_bytes(COMPRESS[compression](bytes(SIZE)))
    assert path.stat().st_size < 2 * 10**6
    assert "token" in refused(path)


@pytest.mark.parametrize("suffix", HEADS)
@pytest.mark.parametrize("unit", [b"\0", b"0 ", b" ", b"/* "], ids=["nul", "zeros", "white", "comment"])
def test_nonsense_of_all_kinds(suffix: str, unit: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}.gz"
    nonsense = unit * (SIZE // len(unit)) if unit != b"/* " else unit + b"0" * SIZE
    path.write_bytes(COMPRESS[".gz"](HEADS[suffix] + nonsense))
    refused(path)


def test_promises_that_no_machine_keeps(tmp_path: Path) -> None:
    path = tmp_path / "model.uai.gz"
    scope = b" ".join(b"%d" % v for v in range(60))
    for head in (b"MARKOV 99999999999999 ", b"MARKOV 60 " + b"2 " * 60 + b"1 60 " + scope):
        path.write_bytes(COMPRESS[".gz"](head + b" 0" * (SIZE // 2)))
        refused(path)


def models() -> list[bl.FactorGraph | bl.BayesianNetwork]:
    return [bl.datasets.load_bn("asia"), bl.datasets.make_random_factor_graph(6, 8, n_states=(1, 4), seed=1)]


@pytest.mark.parametrize("form", [form for form in FORMATS if form.dumps is not None], ids=lambda form: form.title)
def test_every_beginning_of_a_file_may_begin_one(form: Format) -> None:
    for model in models():
        if "Bayesian" in form.reads_as and not isinstance(model, bl.BayesianNetwork):
            continue
        assert form.dumps is not None
        written = form.dumps(model)
        data = written.encode() if isinstance(written, str) else written
        for end in range(0, len(data) + 1, max(1, len(data) // 300)):
            form.check_beginning(data[: max(end, 1)])


@pytest.mark.parametrize(
    ("loads", "text"),
    [
        (counted_evidence, b"3 0 1 2 0 5 1"),
        (counted_evidence, b"2\n1 0 1\n2 1 0 3 1"),
        (loads_query, b"4 1 2 3 4"),
        (loads_solution, b"MAR 2 2 0.5 0.5 2 0.25 0.75"),
        (loads_solution, b"MMAP 2 0 1 2 1"),
        (erg.loads, b"2 2 2 0 1 0 2 0.5 0.5 4 0.5 0.5 0.1 0.9 a b n y no yes"),
        (uai.loads, b"MARKOV /* a comment */ 2 2 2 /* another */ 1 2 0 1 4 1 2 3 4 /* the last */"),
    ],
)
def test_every_beginning_of_other_texts(loads: Callable[[bytes], object], text: bytes) -> None:
    loads(text)
    for end in range(1, len(text) + 1):
        check_beginning(loads, text[:end])


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("suffix", [".uai", ".LG", ".fg", ".wcsp", ".npz", ".bif", ".xmlbif"])
def test_large_files_are_read_as_before(
    suffix: str, compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_PIECE", 1000)
    monkeypatch.setattr(files, "_FIRST", 1000)
    model = bl.datasets.load_bn("alarm")
    path = tmp_path / f"alarm{suffix}{compression}"
    bl.write(model, path)
    again: Any = bl.read(path)
    found = bl.infer(again.condition({0: 0}), "elimination").log_z
    assert found == pytest.approx(bl.infer(model.condition({0: 0}), "elimination").log_z, abs=1e-3)


def test_members_of_gzip_files_follow_each_other(tmp_path: Path) -> None:
    path = tmp_path / "two.uai.gz"
    path.write_bytes(gzip.compress(b"MARKOV 2  2 2  1 ") + gzip.compress(b"2 0 1  4 1 2 3 4"))
    graph = bl.read(path)
    assert isinstance(graph, bl.FactorGraph) and np.exp(bl.infer(graph).log_z) == pytest.approx(10.0)
