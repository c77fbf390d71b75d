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
from beliefs.typing import Floats

__all__ = ["LearnedField", "load_field", "save_field"]

_OF_A_RUN = ("callback", "progress", "n_jobs", "max_bytes")
_FORMAT = LearnerFormat("beliefs field learner", 1, _OF_A_RUN, given_field)
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
    layout, counts = learned.structure.layout, learned.counts
    header = _FORMAT.header(learner, learned.structure.naming, plain_option) | {
        "method": learned.method,
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
    naming, params = _FORMAT.from_header(header)
    layout = Layout.build(naming.card, arrays["scope_ptr"], arrays["scope_vars"], arrays["cell_ptr"])
    structure = Structure(naming, layout)
    theta, frequencies = (np.array(arrays[name], np.float64) for name in ("theta", "frequencies"))
    for what, size in (("log potentials", theta.size), ("frequencies", frequencies.size)):
        if size != layout.n_cells:
            raise ValueError(f"expected {layout.n_cells} {what}, found {size}")
    if header["method"] not in METHODS:
        raise ValueError(f"no method is called {header['method']!r}")
    found: Any = cls(**({"structure": FactorGraph.build(layout, theta.copy(), naming)} | params))
    flat, ends, counts = np.array(arrays["counts"], np.float64), layout.table_ptr, None
    if flat.size:
        tables = tuple(flat[ends[f] : ends[f + 1]] for f in range(layout.n_factors))
        counts = FamilyCounts(structure, tables, float(header["total"]))
    found._restore(LearnedField(structure, header["method"], theta, frequencies, counts))
    return found  # type: ignore[no-any-return]
