"""The learned weights of a chain as text: transitions, and the attributes that speak for or against each label."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.chains.template import ChainTemplate
from beliefs.typing import Floats, Ints

__all__ = ["chain_table", "check_names"]

_WHOLE = 12  # labels up to which transitions are shown as a table


def chain_table(
    template: ChainTemplate, weights: Floats, classes: Sequence[str], names: Sequence[str] | None, limit: int = 30
) -> str:
    """Return the weights as text.

    Parameters
    ----------
    classes : sequence of str
        Names of the labels.
    names : sequence of str, optional
        Names of the attributes; a last one that is the constant need not be named.
    limit : int
        Transitions listed at most, those of the largest weights; of each label a third as many attributes.
    """
    cut = template.cut(weights)
    parts = [_transitions(cut.table, classes, limit)]
    if template.boundaries:
        parts.append(_matrix("boundaries", ["first token", "last token"], classes, np.stack([cut.first, cut.last])))
    attribute, label = _pairs(template)
    width = template.n_features if template.pairs is None else template.pairs.ptr.size - 1
    check_names(names, width)
    shown = _named(names)
    for y, word in enumerate(classes):
        mine = np.flatnonzero(label == y)
        strongest = mine[np.argsort(-np.abs(cut.state[mine]), kind="stable")[: max(1, limit // 3)]]
        rows = [(f"{cut.state[f]:.4g}", shown(int(attribute[f]))) for f in strongest]
        parts.append(_listed(f"label {word}: {mine.size} weights", rows))
    return "\n\n".join(parts)


def check_names(names: Sequence[str] | None, width: int) -> None:
    """Raise unless there is a name for each feature, but perhaps for a last one that is the constant."""
    if names is not None and len(names) not in (width, width - 1):
        raise ModelError(f"there are {len(names)} feature_names for {width} features, the constant included")


def _pairs(template: ChainTemplate) -> tuple[Ints, Ints]:
    """Return the attribute and the label of each weight of a state."""
    if template.pairs is None:
        k, d = template.n_states, template.n_features
        return np.tile(np.arange(d), k), np.repeat(np.arange(k), d)
    counts = np.diff(template.pairs.ptr)
    return np.repeat(np.arange(counts.size), counts), template.pairs.label


def _named(names: Sequence[str] | None) -> Callable[[int], str]:
    def name(a: int) -> str:
        if names is None:
            return f"feature {a}"
        return str(names[a]) if a < len(names) else "constant"

    return name


def _transitions(table: Floats, classes: Sequence[str], limit: int) -> str:
    if len(classes) <= _WHOLE:
        return _matrix("transitions", list(classes), classes, table)
    k = len(classes)
    order = np.argsort(-np.abs(table.ravel()), kind="stable")[:limit]
    wide = max(len(word) for word in classes)
    rows = [(f"{table.ravel()[i]:.4g}", f"{classes[i // k]:{wide}} -> {classes[i % k]}") for i in order]
    return _listed(f"transitions: the {len(rows)} largest of {np.count_nonzero(table)}", rows)


def _listed(title: str, rows: list[tuple[str, str]]) -> str:
    wide = max((len(value) for value, _ in rows), default=0)
    return "\n".join([title, *(f"  {value:>{wide}}  {name}" for value, name in rows)])


def _matrix(title: str, rows: Sequence[str], columns: Sequence[str], values: Floats) -> str:
    cells = [[title, *columns], *([row, *(f"{v:.4g}" for v in line)] for row, line in zip(rows, values, strict=True))]
    wide = [max(len(line[c]) for line in cells) for c in range(len(columns) + 1)]
    return "\n".join(
        "  ".join([line[0].ljust(wide[0]), *(t.rjust(w) for t, w in zip(line[1:], wide[1:], strict=True))]).rstrip()
        for line in cells
    )
