"""Labels: integers from 0, or words; -1 (for words None) where hidden; how often each occurs and what it weighs."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beliefs.errors import DataWarning, ModelError
from beliefs.learning.estimators.inputs import as_array
from beliefs.learning.instances import HIDDEN
from beliefs.model.variable import suggestion
from beliefs.options import is_number, shown
from beliefs.typing import Floats, Ints

__all__ = ["Classes", "Tally", "label_array"]

_LISTED = 6  # classes named in a message
_LARGEST = 100_000  # a larger label is a number that names something, not a state


def label_array(y: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return labels flat in C order: int64, or words as objects; the shape must be that of the input's variables."""
    array = as_array(y, name, "labels")
    if array.dtype.kind in "UT":  # in a list, what is no word would have become one
        array = np.asarray(y, object)
    if array.shape != shape:
        raise ModelError(f"{name}: labels must have shape {shape}, one per variable, found {array.shape}")
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind in "iub":
        if array.dtype.kind == "u" and array.max() > _LARGEST:
            raise ModelError(_too_large(name, array.max()))
        return np.ascontiguousarray(array, np.int64).ravel()
    if array.dtype.kind != "O":
        raise ModelError(f"{name}: labels must be integers (or words), found {array.dtype}; hidden ones are {HIDDEN}")
    for value in array.flat:
        if not (value is None or isinstance(value, str)):
            raise ModelError(f"{name}: labels must be words, None where hidden, or all integers; found {value!r:.40}")
    return array.ravel()


def _too_large(name: str, label: Any) -> str:
    return f"{name}: label {label} would be one of {int(label) + 1} states; number the labels 0, 1, ..., or use words"


@dataclass(eq=False)
class Tally:
    """How often each label occurs, collected in one pass over the data.

    ``n_states`` is the number of states if it was asked for, and labels beyond it are refused at once.
    """

    n_states: int | None = None
    counts: dict[Any, int] = field(default_factory=dict)
    n_hidden: int = 0

    def add(self, labels: np.ndarray, name: str) -> int:
        """Count the labels of one instance, and return how many are known."""
        if labels.dtype == object:
            seen: dict[Any, int] = dict(Counter(str(v) for v in labels if v is not None))
        else:
            self._check_range(labels, name)
            number = np.bincount(labels[labels >= 0]) if labels.size else np.zeros(0, np.int64)
            seen = {int(k): int(number[k]) for k in np.flatnonzero(number)}
        if self.counts and seen and isinstance(next(iter(seen)), str) != isinstance(next(iter(self.counts)), str):
            raise ModelError(f"{name}: labels are words in some instances and integers in others; use one of them")
        for label, n in seen.items():
            self.counts[label] = self.counts.get(label, 0) + n
        known = sum(seen.values())
        self.n_hidden += labels.size - known
        return known

    def _check_range(self, labels: Ints, name: str) -> None:
        most = _LARGEST if self.n_states is None else self.n_states - 1
        wrong = (labels < HIDDEN) | (labels > most)
        if wrong.any():
            v = int(np.argmax(wrong))
            if self.n_states is None and labels[v] > most:
                raise ModelError(_too_large(name, labels[v]))
            legal = "0, 1, ..." if self.n_states is None else f"0..{self.n_states - 1}"
            raise ModelError(f"{name}: label {labels[v]} of variable {v}; labels are {legal}, or {HIDDEN} where hidden")

    def classes(self) -> Classes:
        """Return the classes found; one that never occurs is named in a warning."""
        if not self.counts:
            raise ModelError("every label is hidden; at least one variable of one instance needs a label")
        if isinstance(next(iter(self.counts)), str):
            names: np.ndarray = np.array(sorted(self.counts))
            if self.n_states is not None and self.n_states != len(names):
                raise ModelError(f"n_states is {self.n_states}, but {len(names)} different words occur as labels")
        else:
            names = np.arange(max(self.counts) + 1 if self.n_states is None else self.n_states)
        if len(names) < 2:
            raise ModelError(f"all labels are {names[0]}; there is nothing to tell apart (or say n_states)")
        missing = [str(k) for k in names.tolist() if k not in self.counts]
        if missing:
            shown = ", ".join(missing[:_LISTED]) + (", ..." if len(missing) > _LISTED else "")
            are = "class {} never occurs" if len(missing) == 1 else "classes {} never occur"
            warnings.warn(
                f"{are.format(shown)} among the labels; nothing is learned about "
                f"{'it but to avoid it' if len(missing) == 1 else 'them but to avoid them'}",
                DataWarning,
                stacklevel=5,
            )
        return Classes(names)


@dataclass(frozen=True, eq=False)
class Classes:
    """The states by their names: ``0..K-1``, or words in sorted order."""

    names: np.ndarray

    def codes(self, labels: np.ndarray, name: str) -> Ints:
        """Return labels as state indices, -1 where hidden; what was never seen in training is refused."""
        if labels.dtype != object and self.names.dtype.kind == "i":
            Tally(len(self.names))._check_range(labels, name)
            return labels
        place = {word: k for k, word in enumerate(self.names.tolist())} | {None: HIDDEN, HIDDEN: HIDDEN}
        for label in labels.tolist():
            if label not in place:
                words = self.names.dtype.kind != "i"
                hint = f", whose labels are {'words' if words else 'integers'}"
                if isinstance(label, str) == words:
                    hint = suggestion(str(label), [str(k) for k in self.names])
                raise ModelError(f"{name}: {label!r} is not a class of the fitted model{hint}")
        return np.array([place[label] for label in labels.tolist()], np.int64)

    def weights(self, class_weight: Any, tally: Mapping[Any, int]) -> Floats | None:
        """Return the weight of each class: None, ``"balanced"`` (inverse to frequency, mean 1) or a mapping."""
        if class_weight is None:
            return None
        names = self.names.tolist()
        if isinstance(class_weight, str) and class_weight == "balanced":
            counts = np.array([tally.get(k, 0) for k in names], np.float64)
            return np.where(counts > 0, counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1)), 0.0)
        if not isinstance(class_weight, Mapping):
            raise ModelError(f"class_weight must be None, 'balanced' or a mapping, found {shown(class_weight)}")
        for key, value in class_weight.items():
            if key not in names:
                raise ModelError(f"class_weight names the class {key!r}; the classes are {', '.join(map(str, names))}")
            if not (is_number(value) and 0 <= value < np.inf):
                raise ModelError(f"class_weight of {key!r} must be a number of at least 0, found {shown(value)}")
        found = np.array([class_weight.get(k, 1.0) for k in names], np.float64)
        if not found[[tally.get(k, 0) > 0 for k in names]].any():
            raise ModelError("class_weight is 0 for every class that occurs, so that no label counts")
        return found
