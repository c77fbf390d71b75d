"""Fitted learners of networks in files (``.npz``), without pickles.

``header`` is JSON as bytes: format, version, class, ``params`` (options with a text), names, states, whether the
structure was a network, leaves; the other members are the parents (CSR), tables and numbers of leaves (``weights``),
whole and expected statistics, what a stream of incomplete rows has led to, and the cuts of binned columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from beliefs.io.files import StrPath
from beliefs.learning.learner_files import LearnerFormat, plain_option
from beliefs.learning.networks.gaussian import GaussianLeaf
from beliefs.learning.networks.stepwise import Stream
from beliefs.learning.networks.structure import Structure, given_network
from beliefs.typing import Floats

__all__ = ["LearnedNetwork", "load_learner", "save_learner"]

_OF_A_RUN = ("callback", "progress", "checkpoint", "n_jobs", "max_bytes")
_FORMAT = LearnerFormat("beliefs network learner", 2, _OF_A_RUN, given_network)
_CUTS = "cuts."
_LEAF = ("columns", "parents", "covariance", "floor")
L = TypeVar("L")


class LearnedNetwork(NamedTuple):
    """What a file keeps of a fitted learner; statistics of leaves follow those of tables."""

    structure: Structure
    weights: Floats
    counts: Floats
    expected: Floats
    total: float
    stream: Stream
    sums: Floats | None
    origins: Sequence[Floats]
    overall: Sequence[Floats]
    column_names: list[str] | None
    cuts: dict[str, Floats]


def save_learner(learner: Any, path: StrPath) -> None:
    """Write a fitted learner, whole or not at all."""
    learned: LearnedNetwork = learner._learned()
    structure = learned.structure
    header = _FORMAT.header(learner, structure.naming, _as_json) | {
        "total": learned.total,
        "stream": learned.stream.weight,
        "column_names": learned.column_names,
    }
    arrays = {
        "scope_ptr": structure.layout.scope_ptr,
        "scope_vars": structure.layout.scope_vars,
        "weights": learned.weights,
        "counts": learned.counts,
        "expected": learned.expected if learned.stream.weight else np.zeros(0),
        "mean": learned.stream.mean,
        "sums": np.zeros(0) if learned.sums is None else learned.sums,
        **{f"origin.{j}": x for j, x in enumerate(learned.origins)},
        **{f"overall.{j}": x for j, x in enumerate(learned.overall)},
        **{_CUTS + name: cuts for name, cuts in learned.cuts.items()},
    }
    _FORMAT.write(learner, path, header, arrays)


def load_learner(cls: type[L], path: StrPath) -> L:
    """Return the learner in a file."""
    return _FORMAT.read(cls, path, _learner)


def _learner(cls: type[L], header: dict[str, Any], arrays: dict[str, np.ndarray]) -> L:
    naming, params = _FORMAT.from_header(header)
    ptr, scope = arrays["scope_ptr"], arrays["scope_vars"]
    structure = Structure.of_parents(naming, [scope[ptr[v] : ptr[v + 1] - 1].tolist() for v in range(naming.card.size)])
    n = structure.layout.n_cells
    floats = {name: np.array(array, np.float64) for name, array in arrays.items() if array.dtype.kind == "f"}
    weights, counts, mean = floats["weights"], floats["counts"], floats["mean"]
    if counts.size != n or mean.size != weights.size or weights.size < n:
        raise ValueError(f"expected {n} counts and as many tables, found {counts.size} and {weights.size}")
    leaves = params.get("leaves")
    if leaves:
        params["leaves"] = {name: GaussianLeaf(**{word: leaf[word] for word in _LEAF}) for name, leaf in leaves.items()}
    found: Any = cls(**({"structure": structure.network(weights[:n].copy())} | params))
    stream = Stream(mean, float(header["stream"]))
    expected = floats["expected"] if stream.weight else counts
    found._restore(LearnedNetwork(
        structure, weights, counts, expected, float(header["total"]), stream, floats["sums"] if leaves else None,
        [floats[f"origin.{j}"] for j in range(len(leaves or ()))],
        [floats[f"overall.{j}"] for j in range(len(leaves or ()))],
        header["column_names"],
        {name.removeprefix(_CUTS): array for name, array in floats.items() if name.startswith(_CUTS)},
    ))  # fmt: skip
    return found  # type: ignore[no-any-return]


def _as_json(name: str, value: Any) -> Any:
    """Return an option as JSON; leaves by their fields."""
    if name != "leaves":
        return plain_option(name, value)
    return None if not value else {
        name: {"columns": leaf.column_names, "parents": leaf.parent_names, "covariance": leaf.covariance,
               "floor": float(leaf.floor)}
        for name, leaf in value.items()
    }  # fmt: skip
