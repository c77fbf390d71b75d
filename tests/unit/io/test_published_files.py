"""Published files, where the data sets are at hand (``BELIEFS_DATA``): all are read, and agree with one another."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from beliefs.errors import FormatError
from beliefs.io import bif, erg, fg, files, uai, wcsp

DATA = Path(os.environ.get("BELIEFS_DATA", ""))
pytestmark = pytest.mark.skipif(
    not os.environ.get("BELIEFS_DATA") or not DATA.is_dir(), reason="BELIEFS_DATA names no directory of data sets"
)

# 28 numbers follow the last table of the first; the others announce no evidence and then list some.
MALFORMED = {"small/merlin/bn.uai", *(f"small/merlin/{name}.evid" for name in ("paskin", "simple5", "simple6"))}
OPTIMA = {"example": 27, "warehouse": 328, "oconnell": 1, "oconnell_bayesnet": 1589, "knapsack": 7, "latin": 48}


def members(pattern: str) -> Iterator[tuple[str, bytes]]:
    """Files of the archives, decompressed."""
    for path in sorted((DATA / "uai").glob(pattern)):
        with tarfile.open(path) as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is not None:
                    yield member.name, stream.read()


def archives() -> list[str]:
    found = (DATA / "uai").glob("*.tar.xz") if os.environ.get("BELIEFS_DATA") else ()
    return sorted(path.name for path in found) or ["none"]


@pytest.mark.parametrize("archive", archives())
def test_models_evidence_and_queries_are_read(archive: str) -> None:
    """Every model, its evidence against it, its query; only the files known to be malformed are refused."""
    models, refused = {}, set()
    for name, data in members(archive):
        try:
            if name.endswith(".uai"):
                models[name] = uai.loads(data)
            elif name.endswith((".uai.evid", ".uai.query")):
                model = models.get(name.rsplit(".", 1)[0])
                (uai.loads_evidence if name.endswith("evid") else uai.loads_query)(data, model)
            elif name.endswith(".evid"):
                uai.loads_evidence(data)
            elif name.endswith((".PR", ".MAR", ".MAP")):
                uai.loads_solution(data)
        except FormatError as error:
            refused.add(name)
            assert error.line is not None
    assert refused <= MALFORMED


@pytest.mark.parametrize("archive", ["uai2006-pe__BN.tar.xz", "uai2008-mpe__cpcs.tar.xz"])
def test_ergo_files_agree_with_their_converted_copies(archive: str) -> None:
    import gzip

    texts = dict(members(archive))
    compared = 0
    for name, data in texts.items():
        folder, file = os.path.split(name)
        copy = f"{folder}/converted_to_uai/{file.removesuffix('.erg.gz')}.uai"
        if file.endswith(".erg.gz") and copy in texts:
            graph, converted = erg.loads(gzip.decompress(data)), uai.loads(texts[copy])
            assert graph.layout.equals(converted.layout)
            assert np.array_equal(graph.theta, converted.theta)
            compared += 1
    assert compared > 0


def test_factor_graphs_of_libdai_are_read() -> None:
    graphs = {name: fg.loads(data) for name, data in members("small__libDAI_fg.tar.xz") if name.endswith(".fg")}
    assert len(graphs) == 14
    for graph in graphs.values():
        assert np.array_equal(fg.loads(fg.dumps(graph)).theta, graph.theta)


def test_cost_functions_have_their_known_optima() -> None:
    from beliefs.inference.doors import maximize

    problems = dict(members("small__toulbar2_wcsp.tar.xz"))
    found = {}
    for name in OPTIMA:
        text = next(data for path, data in problems.items() if path.endswith(f"/{name}.wcsp"))
        found[name] = -maximize(wcsp.loads(text), "junction_tree").log_score
    assert found == pytest.approx(OPTIMA)


@pytest.mark.parametrize("name", ["child", "link", "munin1", "water", "hailfinder"])
def test_networks_round_trip(name: str) -> None:
    network = bif.loads(files.read_bytes(DATA / "bn" / f"{name}.bif.gz"))
    again = bif.loads(bif.dumps(network))
    assert list(again.variables) == list(network.variables)
    assert again.probabilities.tobytes() == network.probabilities.tobytes()


def test_every_network_is_read() -> None:
    paths = sorted((DATA / "bn").glob("*.bif.gz"))
    assert len(paths) >= 18
    assert all(bif.loads(files.read_bytes(path)).n_vars > 0 for path in paths)
