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
    classes: Sequence[str],
    feature_names: Sequence[str] | None = None,
    limit: int = 30,
) -> str:
    """Return the weights of a log-linear template as text.

    Parameters
    ----------
    classes : sequence of str
        Names of the states.
    feature_names : sequence of str, optional
        Names of the features of single variables; a last one that is the constant need not be named.
    limit : int
        Rows shown of each type, those of the largest weights; the rest is counted.
    """
    parts: list[str] = []
    for index, kind in enumerate(template.types):
        matrix = template.matrix(weights, index)
        if kind.n_cells == len(classes):
            names = _names(kind.width, feature_names)
            parts.append(_table(kind.name, names, list(classes), matrix.T, limit))
        elif kind.n_cells == len(classes) ** 2:
            parts.extend(_transitions(kind.name, matrix, list(classes), limit))
        else:
            parts.append(_cells(kind.name, matrix, list(classes), limit))
    return "\n\n".join(parts)


def _names(width: int, given: Sequence[str] | None) -> list[str]:
    names = [f"feature {k}" for k in range(width)] if given is None else [str(name) for name in given]
    if len(names) == width - 1:
        names.append("constant")
    if len(names) != width:
        raise ModelError(f"there are {len(names)} feature_names for {width} features, the constant included")
    return names


def _transitions(name: str, matrix: Floats, classes: list[str], limit: int) -> Iterator[str]:
    """Yield one table per feature: rows are states of the first variable, columns of the second."""
    n, width = len(classes), matrix.shape[1]
    for k in range(min(width, limit)):
        title = name if width == 1 else f"{name}, feature {k}"
        yield _table(title, classes, classes, matrix[:, k].reshape(n, n), limit)
    if width > limit:
        yield f"{name}: {width - limit} more features"


def _cells(name: str, matrix: Floats, classes: list[str], limit: int) -> str:
    """Return a type of larger factors: one row per joint state."""
    arity = round(np.log(len(matrix)) / np.log(len(classes)))
    rows = [" ".join(states) for states in product(classes, repeat=arity)]
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
