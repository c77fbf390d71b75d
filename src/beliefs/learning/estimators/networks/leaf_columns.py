"""Columns of Gaussian leaves in what people have, and drawn for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from beliefs.learning.networks.gaussian import FittedLeaf
from beliefs.model.rows.columns import are_chunks, named_columns
from beliefs.typing import Floats

__all__ = ["drawn_leaves", "joined_columns"]


def joined_columns(data: Any, names: Sequence[str] | None, hidden: Collection[str]) -> dict[str, Any]:
    """Return columns by name; chunks are laid end to end, since leaves are looked at again and again."""
    if not are_chunks(data):
        return named_columns(data, names, hidden)
    parts = [named_columns(chunk, names, hidden) for chunk in data]
    return {name: _end_to_end([part[name] for part in parts]) for name in (parts[0] if parts else ())}


def _end_to_end(columns: list[Any]) -> Any:
    if all(hasattr(column, "iloc") for column in columns):
        import pandas as pd

        return pd.concat(columns, ignore_index=True)
    return np.concatenate(columns)


def drawn_leaves(leaves: Mapping[str, FittedLeaf], codes: Mapping[str, Any], seed: int) -> dict[str, Floats]:
    """Draw the columns of leaves given the codes of their parents."""
    rng, found = np.random.default_rng([seed, 2]), dict[str, Floats]()
    for leaf in leaves.values():
        at = tuple(codes[parent] for parent in leaf.parents)
        n = len(next(iter(codes.values())))
        d = len(leaf.columns)
        roots = np.linalg.cholesky(leaf.covariances)
        means = np.broadcast_to(leaf.means[at], (n, d))
        noise = np.einsum("...ij,...j->...i", np.broadcast_to(roots[at], (n, d, d)), rng.standard_normal((n, d)))
        found |= dict(zip(leaf.columns, (means + noise).T, strict=True))
    return found
