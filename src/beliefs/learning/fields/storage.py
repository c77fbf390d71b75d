"""Files of fitted fields: a header of JSON and arrays in an ``.npz`` archive, never pickles."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np

from beliefs.io.files import StrPath
from beliefs.learning.fields.methods import METHODS
from beliefs.learning.fields.statistics import given_field
from beliefs.learning.learner_files import LearnerFormat, plain_option
from beliefs.learning.networks.counts import FamilyCounts
from beliefs.learning.networks.structure import Structure
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.model.naming import Naming
from beliefs.typing import Floats

__all__ = ["LearnedField", "load_field", "save_field"]

_FORMAT = LearnerFormat("beliefs field learner", 1)
_NOT_THE_MODELS = ("callback", "progress", "n_jobs", "max_bytes")
L = TypeVar("L")


class LearnedField(NamedTuple):
    """What a file keeps of a fitted learner; ``counts`` are those of the rows, None where it was given marginals."""

    structure: Structure
    method: str
    theta: Floats
    frequencies: Floats
    counts: FamilyCounts | None


def save_field(learner: Any, path: StrPath) -> None:
    """Write a fitted learner, whole or not at all."""
    learned: LearnedField = learner._learned()
    structure, params = learned.structure, {}
    for name, value in learner.get_params(deep=False).items():
        if name in _NOT_THE_MODELS or name == "structure" and given_field(value) is not None:
            continue
        params[name] = plain_option(name, value)
    naming, n, layout = structure.naming, structure.n_vars, structure.layout
    counts = learned.counts
    header = {
        "params": params,
        "method": learned.method,
        "names": [naming.name(v) for v in range(n)],
        "states": [list(naming.states(v)) for v in range(n)],
        "total": 0.0 if counts is None else counts.total,
    }
    arrays = {
        **{name: getattr(layout, name) for name in ("scope_ptr", "scope_vars", "cell_ptr")},
        "theta": learned.theta,
        "frequencies": learned.frequencies,
        "counts": np.zeros(0) if counts is None else counts.flat(),
    }
    _FORMAT.write(learner, path, header, arrays)


def load_field(cls: type[L], path: StrPath) -> L:
    """Return the learner in a file."""
    return _FORMAT.read(cls, path, _learner)


def _learner(cls: type[L], header: dict[str, Any], arrays: dict[str, np.ndarray]) -> L:
    states = [tuple(labels) for labels in header["states"]]
    card = np.array([len(labels) for labels in states], np.int64)
    naming = Naming.of(header["names"], states, card)
    layout = Layout.build(card, arrays["scope_ptr"], arrays["scope_vars"], arrays["cell_ptr"])
    structure = Structure(naming, layout)
    theta, frequencies = (np.array(arrays[name], np.float64) for name in ("theta", "frequencies"))
    for what, size in (("log potentials", theta.size), ("frequencies", frequencies.size)):
        if size != layout.n_cells:
            raise ValueError(f"expected {layout.n_cells} {what}, found {size}")
    if header["method"] not in METHODS:
        raise ValueError(f"no method is called {header['method']!r}")
    params = {name: value for name, value in header["params"].items() if name not in _NOT_THE_MODELS}
    found: Any = cls(**({"structure": FactorGraph.build(layout, theta.copy(), naming)} | params))
    flat, ends, counts = np.array(arrays["counts"], np.float64), layout.table_ptr, None
    if flat.size:
        tables = tuple(flat[ends[f] : ends[f + 1]] for f in range(layout.n_factors))
        counts = FamilyCounts(structure, tables, float(header["total"]))
    found._restore(LearnedField(structure, header["method"], theta, frequencies, counts))
    return found  # type: ignore[no-any-return]
