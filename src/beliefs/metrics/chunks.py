r"""Chunks of sequences: whole phrases found, as the shared tasks of CoNLL count them [tjongkimsang2000].

A label is ``O`` or a place and a type: ``B-NP`` begins a chunk, ``I-NP`` goes on with it; ``E-`` ends one and ``S-`` is
one of a single token (IOBES). Where ``I-`` follows another type or nothing, it begins a chunk, so that labellings
that break the rules count too. A chunk is found if its type, its begin and its end are those of a true one:

.. math:: P = \frac{\text{found and true}}{\text{found}}, \quad R = \frac{\text{found and true}}{\text{true}}, \quad
    F_1 = \frac{2PR}{P + R}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from beliefs.errors import ModelError

__all__ = ["chunk_f1", "chunk_report", "chunks"]

Chunk = tuple[str, int, int]
_OUTSIDE, _PLACES = "O", "BIES"


def chunks(labels: Sequence[Any]) -> list[Chunk]:
    """Return the chunks of one sequence: type, first token, and the token after the last.

    Examples
    --------
    >>> chunks(["B-NP", "I-NP", "O", "B-VP", "B-NP"])
    [('NP', 0, 2), ('VP', 3, 4), ('NP', 4, 5)]
    """
    found: list[Chunk] = []
    kind, begin = "", -1  # of the chunk that is open
    for t, label in enumerate([*map(str, labels), _OUTSIDE]):
        place, new = _parsed(label, t)
        if begin >= 0 and (place in "OBS" or new != kind):
            found.append((kind, begin, t))
            begin = -1
        if place != _OUTSIDE and begin < 0:
            kind, begin = new, t
        if place in "ES":
            found.append((kind, begin, t + 1))
            begin = -1
    return found


def _parsed(label: str, t: int) -> tuple[str, str]:
    place, _, kind = label.partition("-")
    if place == _OUTSIDE and not kind:
        return _OUTSIDE, ""
    if len(place) != 1 or place not in _PLACES:
        raise ModelError(f"token {t}: expected a label such as O, B-NP or I-NP, found {label!r}")
    return place, kind


def _counts(labels: Any, predictions: Any) -> dict[str, Counter[str]]:
    """Return how many chunks of each type are true, found, and both."""
    if len(labels) != len(predictions):
        raise ModelError(f"there are labels of {len(labels)} sequences and predictions of {len(predictions)}")
    counts: dict[str, Counter[str]] = {"true": Counter(), "found": Counter(), "both": Counter()}
    for k, (one, two) in enumerate(zip(labels, predictions, strict=True)):
        if len(one) != len(two):
            raise ModelError(f"sequence {k}: there are {len(one)} labels and {len(two)} predictions")
        truth, found = chunks(one), chunks(two)
        counts["true"].update(kind for kind, *_ in truth)
        counts["found"].update(kind for kind, *_ in found)
        counts["both"].update(kind for kind, *_ in set(truth) & set(found))
    return counts


def _scores(both: int, found: int, true: int) -> tuple[float, float, float]:
    """Return precision, recall and F1; 0 where there is nothing to divide by."""
    return both / found if found else 0.0, both / true if true else 0.0, 2 * both / (found + true) if both else 0.0


def chunk_f1(labels: Any, predictions: Any, average: str = "micro") -> float:
    """Return the F1 of chunks over all sequences; ``"macro"`` is the mean over types.

    Examples
    --------
    >>> chunk_f1([["B-NP", "I-NP", "O"]], [["B-NP", "I-NP", "B-NP"]])
    0.6666666666666666
    """
    if average not in ("micro", "macro"):
        raise ModelError(f"average must be 'micro' or 'macro', found {average!r}")
    counts = _counts(labels, predictions)
    if average == "micro":
        return _scores(*(sum(counts[name].values()) for name in ("both", "found", "true")))[2]
    kinds = sorted(set(counts["true"]) | set(counts["found"]))
    each = [_scores(*(counts[name][kind] for name in ("both", "found", "true")))[2] for kind in kinds]
    return float(np.mean(each)) if each else 0.0


def chunk_report(labels: Any, predictions: Any) -> str:
    """Return precision, recall and F1 of every type of chunks, and of all together, as a table."""
    counts = _counts(labels, predictions)
    kinds = sorted(set(counts["true"]) | set(counts["found"]))
    wide = max(5, *map(len, kinds)) if kinds else 5
    lines = [f"{'chunk'.ljust(wide)}  precision  recall      f1  true"]
    for kind in [*kinds, None]:
        both, found, true = (
            sum(counts[name].values()) if kind is None else counts[name][kind] for name in ("both", "found", "true")
        )
        p, r, f1 = _scores(both, found, true)
        lines.append(f"{('all' if kind is None else kind).ljust(wide)}  {p:9.4f}  {r:6.4f}  {f1:6.4f}  {true:4}")
    return "\n".join(lines)
