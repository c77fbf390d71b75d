"""Our own archive: nothing is lost, the bytes are fixed, and nothing that is not ours gets in."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
import pytest

from beliefs.errors import FormatError
from beliefs.io import npz
from beliefs.model import BayesianNetwork, FactorGraph, Variable

NAMED = FactorGraph.from_tables(
    [2, 3, 2],
    [((0, 1), np.linspace(-700, 700, 6)), ((), -0.0), ((2,), [-np.inf, 5e-324])],
    log=True,
    names=["nul\x00", "ü ", "\ud800"],
    states=[None, ["a", "", "c\x00"], ["0", "1"]],
)
TIED = FactorGraph.pairwise(np.eye(3), [[0, 1], [1, 2]], np.ones((3, 3)) / 3)
NETWORK = BayesianNetwork.from_cpts(
    [Variable("b", ["x", "y"]), Variable("a", 2)],
    {"b": (["a"], [[0.1, 0.90001], [1.0, 0.0]]), "a": ([], [1 / 3, 2 / 3])},
    properties={"name": "n", "b.position": "(1, 2)"},
)
GRAPHS = {
    "named": NAMED,
    "tied": TIED,
    "conditioned": NAMED.condition({0: 1}),
    "conditioned twice": TIED.condition({0: 1}).condition({2: 0}),
    "conditioned network": NETWORK.condition({"b": "y"}),
    "with likelihood": NETWORK.graph.with_likelihood({"a": [0.5, 1]}),
    "empty": FactorGraph.from_tables([], []),
}


def same_array(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.tobytes() == b.tobytes() and not b.flags.writeable


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_nothing_of_a_graph_is_lost(graph: FactorGraph) -> None:
    again = npz.loads(npz.dumps(graph))
    assert isinstance(again, FactorGraph)
    assert again.layout.equals(graph.layout)
    assert (again.kind, again.naming.names, again.naming.labels) == (
        graph.kind,
        graph.naming.names,
        graph.naming.labels,
    )
    for field in ("theta", "evidence_states", "parent_cells", "children"):
        assert same_array(getattr(graph, field), getattr(again, field)), field


def test_nothing_of_a_network_is_lost() -> None:
    again = npz.loads(npz.dumps(NETWORK))
    assert isinstance(again, BayesianNetwork)
    assert again.properties == NETWORK.properties
    assert list(again.variables) == list(NETWORK.variables)
    assert same_array(NETWORK.probabilities, again.probabilities)
    assert same_array(NETWORK.graph.theta, again.graph.theta)
    assert same_array(NETWORK.order, again.order)
    assert same_array(NETWORK.graph.children, again.graph.children)


@pytest.mark.parametrize("model", [NAMED, NETWORK])
def test_the_same_model_gives_the_same_bytes(model: Any) -> None:
    assert npz.dumps(npz.loads(npz.dumps(model))) == npz.dumps(model)


def test_numpy_reads_it_without_pickles() -> None:
    with np.load(io.BytesIO(npz.dumps(NAMED)), allow_pickle=False) as archive:
        assert archive["theta"].tobytes() == NAMED.theta.tobytes()
        assert json.loads(archive["header"].tobytes())["version"] == npz.VERSION


def changed(model: Any = NAMED, **arrays: Any) -> bytes:
    """The archive with some arrays replaced (None: left out), header fields by ``header={..}``."""
    with np.load(io.BytesIO(npz.dumps(model))) as archive:
        members = dict(archive)
    if isinstance(arrays.get("header"), dict):
        header = json.loads(members["header"].tobytes()) | arrays["header"]
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    members = {k: v for k, v in (members | arrays).items() if v is not None}
    file = io.BytesIO()
    np.savez(file, **members)
    return file.getvalue()


def test_an_archive_saved_again_by_numpy_is_read() -> None:
    again = npz.loads(changed())
    assert isinstance(again, FactorGraph) and same_array(NAMED.theta, again.theta)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an .npz archive"),
        (b"PK\x03\x04 garbage", "not an .npz archive"),
        (npz.dumps(NAMED)[:-30], "not an .npz archive"),
        (changed(header={"version": 2}), "unknown version 2; this release reads version 1"),
        (changed(header={"version": None}), "unknown version None"),
        (changed(header={"format": "other"}), "no header of this format"),
        (changed(header=None), "no header of this format"),
        (changed(header=np.frombuffer(b"{" * 100_000, np.uint8)), "no header of this format"),
        (changed(header=np.frombuffer(b"[" * 100_000, np.uint8)), "no header of this format"),
        (changed(header={"kind": "X"}), "a field of a wrong type"),
        (changed(header={"names": [1, 2, 3]}), "a field of a wrong type"),
        (changed(header={"labels": {"a": 1}}), "a field of a wrong type"),
        (changed(header={"names": ["a", "a", "b"]}), "two variables have the name 'a'"),
        (changed(header={"labels": [["x"], None, None]}), "has 2 states but 1 labels"),
        (changed(theta=None), "the array 'theta' is missing"),
        (changed(theta=NAMED.theta[:-1]), "theta must have shape"),
        (changed(theta=np.full(9, np.nan)), "theta must have -inf or finite"),
        (changed(theta=np.full(9, np.inf)), "theta must have -inf or finite"),
        (changed(theta=NAMED.theta.astype(np.float32)), "the array 'theta' must be one-dimensional, of type <f8"),
        (changed(theta=NAMED.theta.reshape(3, 3)), "the array 'theta' must be one-dimensional"),
        (changed(card=np.array([2, 0, 2])), "the array 'card' contradicts the others"),
        (changed(card=np.array([2, 2**62, 2])), "the array 'card' contradicts the others"),
        (changed(scope_ptr=np.array([0, 3, 2, 3])), "the array 'scope_ptr' contradicts the others"),
        (changed(scope_ptr=np.array([0, 2])), "the array 'scope_ptr' contradicts the others"),
        (changed(scope_vars=np.array([0, 7, 2])), "the array 'scope_vars' contradicts the others"),
        (changed(scope_vars=np.array([0, 0, 2])), "has a variable twice in its scope"),
        (changed(cell_ptr=np.array([0, 6, 5])), "runs must follow one another"),
        (changed(cell_ptr=np.array([0, 6, -7])), "the array 'cell_ptr' contradicts the others"),
        (changed(evidence_states=np.array([0, -1, -1])), "the array 'evidence_states' contradicts the others"),
        (changed(evidence_states=np.array([-1, -1])), "the array 'evidence_states' contradicts the others"),
        (changed(parent_cells=np.array([-1] * 9)), "the array 'parent_cells' contradicts the others"),
        (changed(children=np.array([9, 0, 0])), "the array 'children' contradicts the others"),
        (changed(NETWORK, probabilities=None), "'probabilities' must be as long as 'theta'"),
        (changed(NETWORK, probabilities=np.full(6, 0.5)), "disagree"),
        (changed(NETWORK, probabilities=np.full(6, 0.9)), "must sum to 1"),
        (changed(NAMED, header={"model": "BayesianNetwork"}), "needs one table a variable"),
    ],
)
def test_malformed(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        npz.loads(data)


def test_objects_are_not_unpickled() -> None:
    with pytest.raises(FormatError, match="the array 'theta' must be one-dimensional, of type <f8"):
        npz.loads(changed(theta=np.array([print] * 9, dtype=object)))


def test_compressed_members_are_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("theta.npy", b"0" * 1_000_000)
    with pytest.raises(FormatError, match="the member 'theta' is compressed or longer than the file"):
        npz.loads(file.getvalue())
