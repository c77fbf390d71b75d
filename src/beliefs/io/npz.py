"""Our own format (``.npz``): arrays as they are in memory, nothing lost, nothing executed.

A NumPy archive without pickles. ``header`` is UTF-8 JSON as bytes: ``format`` ("beliefs"), ``version``, ``model``
("FactorGraph" or "BayesianNetwork"), ``kind``, ``names``, ``labels``, ``properties``. The other members are the arrays
``card``, ``scope_ptr``, ``scope_vars``, ``cell_ptr``, ``theta``, ``evidence_states`` and, where there are any,
``children``, ``parent_cells``, ``probabilities``. Boltzmann machines ("RBM", "FractionalRBM", "CRBM") have a header of
``format``, ``version``, ``model``, ``dtype``, ``n_visible`` and ``n_hidden``, and the arrays of
:mod:`beliefs.io.machines`. Members are stored uncompressed in a fixed order without time stamps:
the same model gives the same bytes. Compress by name: ``model.npz.xz``.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib import format as npy

from beliefs.errors import BeliefsError, FormatError
from beliefs.io import machines
from beliefs.io.limits import MAX_CARD
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.model.layout import Layout
from beliefs.model.naming import Naming

__all__ = ["VERSION", "dumps", "loads"]

VERSION = 1

_DTYPES: dict[str, np.dtype[Any]] = {
    "header": np.dtype(np.uint8),
    "card": np.dtype(np.int64),
    "scope_ptr": np.dtype(np.int64),
    "scope_vars": np.dtype(np.int64),
    "cell_ptr": np.dtype(np.int64),
    "theta": np.dtype(np.float64),
    "evidence_states": np.dtype(np.int64),
    "children": np.dtype(np.int64),
    "parent_cells": np.dtype(np.int64),
    "probabilities": np.dtype(np.float64),
}
_KNOWN = _DTYPES.keys() | machines.NAMES
# A member's own header, read by pattern rather than evaluated.
_MEMBER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<descr>[<|][a-z][0-9])', 'fortran_order': (?:False|True),"
    rb" 'shape': \((?P<length>[0-9]{1,15}),\), \} *\n",
    re.DOTALL,
)
_OPTIONAL = {"children", "parent_cells", "probabilities"}
Arrays = dict[str, np.ndarray]


def dumps(model: Model | machines.Machine) -> bytes:
    """Return the bytes of a model."""
    if isinstance(model, machines.Machine):
        return _archive({"format": "beliefs", "version": VERSION, **machines.header(model)}, machines.arrays(model))
    graph = as_factor_graph(model)
    network = model if isinstance(model, BayesianNetwork) else None
    header = {
        "format": "beliefs",
        "version": VERSION,
        "model": "FactorGraph" if network is None else "BayesianNetwork",
        "kind": graph.kind,
        "names": graph.naming.names,
        "labels": graph.naming.labels,
        "properties": {} if network is None else dict(network.properties),
    }
    layout = graph.layout
    arrays: dict[str, np.ndarray | None] = {
        "card": layout.card,
        "scope_ptr": layout.scope_ptr,
        "scope_vars": layout.scope_vars,
        "cell_ptr": layout.cell_ptr,
        "theta": graph.theta,
        "evidence_states": graph.evidence_states,
        "children": graph.children,
        "parent_cells": graph.parent_cells,
        "probabilities": None if network is None else network.probabilities,
    }
    return _archive(header, {name: a.astype(_DTYPES[name]) for name, a in arrays.items() if a is not None})


def _archive(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in {"header": np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays}.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), _member(array.astype(array.dtype.newbyteorder("<"))))
    return file.getvalue()


def _member(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    npy.write_array(file, array, version=(1, 0), allow_pickle=False)
    return file.getvalue()


def loads(data: bytes | str) -> FactorGraph | BayesianNetwork | machines.Machine:
    """Return the model of such bytes."""
    if isinstance(data, str):
        raise FormatError("expected the bytes of an .npz file, found text")
    arrays = _arrays(bytes(data))
    header = _header(arrays.pop("header", None))
    is_machine = header["model"] in machines.MODELS
    needed = machines.needed(header["model"]) if is_machine else _DTYPES.keys() - _OPTIONAL - {"header"}
    missing = needed - arrays.keys()
    if missing:
        raise FormatError(f"the array {sorted(missing)[0]!r} is missing")
    try:
        return machines.model(header, arrays) if is_machine else _model(header, arrays)
    except FormatError:
        raise
    except BeliefsError as error:
        raise FormatError(f"the arrays do not make a model: {error}") from None


def _arrays(data: bytes) -> Arrays:
    """Unpack the archive; whatever a broken one makes the unpacker raise becomes a FormatError."""
    found: Arrays = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if info.compress_type != zipfile.ZIP_STORED or info.file_size > len(data):
                    raise FormatError(f"the member {name[:40]!r} is compressed or longer than the file")
                if name in _KNOWN:
                    found[name] = _array(name, archive.read(info))
    except FormatError:
        raise
    except Exception as error:  # zipfile has no common class for what garbage makes it raise
        raise FormatError(f"not an .npz archive ({type(error).__name__}: {str(error)[:80]})") from None
    return found


def _array(name: str, member: bytes) -> np.ndarray:
    """Return a one-dimensional array of the type that its name requires; no other is legal."""
    match = _MEMBER.match(member)
    legal = machines.TYPES if name in machines.NAMES else (_DTYPES[name].newbyteorder("<").str,)
    if match is None or match["descr"].decode() not in legal:
        raise FormatError(f"the array {name!r} must be one-dimensional, of type {' or '.join(legal)}")
    dtype = np.dtype(match["descr"].decode())
    length = int(match["length"])
    if len(member) - match.end() != length * dtype.itemsize:
        raise FormatError(f"the array {name!r} should have {length} entries, found {len(member) - match.end()} bytes")
    array: np.ndarray = np.frombuffer(member, dtype, offset=match.end()).astype(dtype.newbyteorder("="))
    array.setflags(write=False)
    return array


def _header(raw: np.ndarray | None) -> dict[str, Any]:
    try:
        header = json.loads(raw.tobytes()) if raw is not None else None
    except (ValueError, RecursionError):
        header = None
    if isinstance(header, dict) and header.get("format") == "beliefs estimator":
        name = str(header.get("class"))[:40]
        raise FormatError(f"the file holds a fitted {name}, which {name}.load(path) reads and `beliefs predict` uses")
    if not isinstance(header, dict) or header.get("format") != "beliefs":
        raise FormatError("the archive has no header of this format")
    if header.get("version") != VERSION:
        raise FormatError(f"unknown version {header.get('version')!r}; this release reads version {VERSION}")
    if header.get("model") in machines.MODELS:
        machines.check_header(header)
        return header
    legal = (
        header.get("model") in ("FactorGraph", "BayesianNetwork")
        and header.get("kind") in ("MARKOV", "BAYES")
        and (header.get("names") is None or _strings(header["names"]))
        and (header.get("labels") is None or _lists(header["labels"]))
        and isinstance(header.get("properties"), dict)
        and _strings(list(header["properties"].values()))
    )
    if not legal:
        raise FormatError("the header has a field of a wrong type")
    return header


def _strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _lists(value: object) -> bool:
    return isinstance(value, list) and all(labels is None or _strings(labels) for labels in value)


def _model(header: Mapping[str, Any], arrays: Arrays) -> FactorGraph | BayesianNetwork:
    states = arrays["evidence_states"]
    _check_structure(arrays)
    layout = Layout.build(arrays["card"], arrays["scope_ptr"], arrays["scope_vars"], arrays["cell_ptr"], states >= 0)
    naming = Naming.of(header["names"], header["labels"], layout.card)
    base = FactorGraph.build(layout, arrays["theta"], naming, kind=header["kind"])
    children, cells = arrays.get("children"), arrays.get("parent_cells")
    graph = replace(base, evidence_states=states, parent_cells=cells, children=children)
    if header["model"] == "FactorGraph":
        return graph
    return _network(graph, arrays.get("probabilities"), header["properties"])


def _check_structure(arrays: Arrays) -> None:
    """Check what the compiled code relies on; the model's own builders check the rest."""
    card, ptr, scope, states = (arrays[name] for name in ("card", "scope_ptr", "scope_vars", "evidence_states"))
    children, cells = arrays.get("children"), arrays.get("parent_cells")
    n_factors = arrays["cell_ptr"].size
    legal = {
        "card": ((card >= 1) & (card <= MAX_CARD)).all(),
        "scope_ptr": ptr.size == n_factors + 1 and ptr[0] == 0 and (np.diff(ptr) >= 0).all() and ptr[-1] == scope.size,
        "scope_vars": ((scope >= 0) & (scope < card.size)).all(),
        "cell_ptr": ((arrays["cell_ptr"] >= 0) & (arrays["cell_ptr"] <= arrays["theta"].size)).all(),
        "evidence_states": states.shape == card.shape and ((states >= -1) & (states < card)).all(),
        "children": children is None or (children.size == n_factors and (np.abs(children) <= card.size).all()),
        "parent_cells": cells is None or (cells.shape == arrays["theta"].shape and (cells >= 0).all()),
    }
    wrong = [name for name, good in legal.items() if not good]
    if not wrong and (states[scope] >= 0).any():
        wrong = ["evidence_states"]
    if wrong:
        raise FormatError(f"the array {wrong[0]!r} contradicts the others")


def _network(graph: FactorGraph, probabilities: np.ndarray | None, properties: dict[str, str]) -> BayesianNetwork:
    """Return the network with its numbers as given and its logs bit for bit as stored."""
    layout = graph.layout
    last = layout.scope_vars[layout.scope_ptr[1:] - 1] if (layout.arity > 0).all() else None
    plain = np.array_equal(layout.cell_ptr, np.cumsum(layout.factor_size) - layout.factor_size)
    if last is None or not np.array_equal(last, np.arange(layout.n_vars)) or not plain or layout.observed.any():
        raise FormatError("a BayesianNetwork needs one table a variable, in order, with the variable last in its scope")
    if probabilities is None or probabilities.shape != graph.theta.shape:
        raise FormatError("the array 'probabilities' must be as long as 'theta'")
    network = BayesianNetwork.build(layout, probabilities.copy(), graph.naming, properties)
    if not np.allclose(np.exp(graph.theta), probabilities, rtol=1e-9, atol=0):
        raise FormatError("the arrays 'theta' and 'probabilities' disagree")
    return replace(network, graph=replace(network.graph, theta=graph.theta))
