"""The learned weights as text: one row per feature and one column per state, and one table per type of edge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from beliefs.errors import ModelError
from beliefs.model.features import LogLinearTemplate
from beliefs.typing import Floats

__all__ = ["weight_table"]


def weight_table(
    template: LogLinearTemplate,
    weights: Floats,
    axes: Sequence[Sequence[list[str]]],
    feature_names: Sequence[str] | None = None,
    limit: int = 30,
) -> str:
    """Return the weights of a log-linear template as text.

    Parameters
    ----------
    axes : sequence of sequences of lists of str
        Names of the states along each axis of each type; types without are not shown.
    feature_names : sequence of str, optional
        Names of the features of single variables; a last one that is the constant need not be named.
    limit : int
        Rows shown of each type, those of the largest weights; the rest is counted.
    """
    parts: list[str] = []
    for index, (kind, states) in enumerate(zip(template.types, axes, strict=False)):
        matrix = template.matrix(weights, index)
        if len(states) == 1:
            names = _names(kind.width, feature_names)
            parts.append(_table(kind.name, names, states[0], matrix.T, limit))
        elif len(states) == 2:
            parts.extend(_transitions(kind.name, matrix, states[0], states[1], limit))
        else:
            parts.append(_cells(kind.name, matrix, states, limit))
    return "\n\n".join(parts)


def _names(width: int, given: Sequence[str] | None) -> list[str]:
    names = [f"feature {k}" for k in range(width)] if given is None else [str(name) for name in given]
    if len(names) == width - 1:
        names.append("constant")
    if len(names) != width:
        raise ModelError(f"there are {len(names)} feature_names for {width} features, the constant included")
    return names


def _transitions(name: str, matrix: Floats, rows: list[str], columns: list[str], limit: int) -> Iterator[str]:
    """Yield one table per feature: rows are states of the first variable, columns of the second."""
    width = matrix.shape[1]
    for k in range(min(width, limit)):
        title = name if width == 1 else f"{name}, feature {k}"
        yield _table(title, rows, columns, matrix[:, k].reshape(len(rows), len(columns)), limit)
    if width > limit:
        yield f"{name}: {width - limit} more features"


def _cells(name: str, matrix: Floats, axes: Sequence[list[str]], limit: int) -> str:
    """Return a type of larger factors: one row per joint state."""
    rows = [" ".join(states) for states in product(*axes)]
    return _table(name, rows, [f"feature {k}" for k in range(matrix.shape[1])], matrix, limit)


def _table(title: str, rows: list[str], columns: list[str], values: Floats, limit: int) -> str:
    """Lay out numbers; of more than ``limit`` rows those with the largest entries, in their order."""
    order = np.argsort(-np.abs(values).max(axis=1), kind="stable")[:limit]
    order.sort()
    cells = [[title, *columns], *([rows[k], *(f"{value:.4g}" for value in values[k])] for k in order)]
    widths = [max(len(line[c]) for line in cells) for c in range(len(columns) + 1)]
    lines = [
        "  ".join([line[0].ljust(widths[0]), *(t.rjust(w) for t, w in zip(line[1:], widths[1:], strict=True))]).rstrip()
        for line in cells
    ]
    if len(rows) > limit:
        lines.append(f"... {len(rows) - limit} more rows of smaller weights")
    return "\n".join(lines)
