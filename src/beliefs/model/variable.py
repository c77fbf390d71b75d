"""A discrete variable: a name and its states."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from beliefs.errors import ModelError
from beliefs.options import shown, suggestion
from beliefs.typing import StateRef

__all__ = ["Variable", "suggestion", "truths"]

_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}  # words for booleans, in small letters
_MOST_LABELS = 10**7  # each is a string; states of a graph without labels are only counted


@dataclass(frozen=True, slots=True, init=False)
class Variable:
    """A named variable with finitely many states.

    Parameters
    ----------
    name : str
    states : int or sequence of str
        The number of states, then labelled ``"0", "1", ...``, or the labels themselves.

    Examples
    --------
    >>> Variable("Rain", ["no", "yes"]).index("yes")
    1
    >>> Variable("x", 3).states
    ('0', '1', '2')
    """

    name: str
    states: tuple[str, ...]

    def __init__(self, name: str, states: int | Sequence[str]) -> None:
        if not isinstance(name, str) or not name:
            raise ModelError(f"a variable's name must be a non-empty string, found {name!r}")
        count = as_index(states)
        if count is not None:
            if not 1 <= count <= _MOST_LABELS:
                range_of = "at least one state" if count < 1 else f"at most {_MOST_LABELS} states"
                raise ModelError(f"variable {name!r} needs {range_of}, found cardinality {shown(count)}")
            labels = tuple(map(str, range(count)))
        else:
            if isinstance(states, str) or not isinstance(states, Iterable):
                raise ModelError(f"the states of {name!r} must be a number or a list of labels, found {states!r}")
            labels = tuple(states)
            check_labels(name, labels)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "states", labels)

    @property
    def card(self) -> int:
        """Number of states."""
        return len(self.states)

    def index(self, state: StateRef) -> int:
        """Return the index of a state given by label (str) or index (int)."""
        return state_index(self.name, self.states, self.card, state)

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {list(self.states)!r})"


def check_labels(name: str, labels: Sequence[str]) -> None:
    """Raise unless the labels are non-empty, distinct strings."""
    if not labels:
        raise ModelError(f"variable {name!r} needs at least one state")
    wrong = [label for label in labels if not isinstance(label, str)]
    if wrong:
        raise ModelError(f"state labels of {name!r} must be strings, found {wrong[0]!r}")
    if len(set(labels)) < len(labels):
        twice = next(label for k, label in enumerate(labels) if label in labels[:k])
        raise ModelError(f"variable {name!r} has the state {twice!r} twice")


def state_index(name: str, labels: Sequence[str] | None, card: int, state: object) -> int:
    """Resolve a state reference; ``labels=None`` means ``"0", "1", ...``."""
    if isinstance(state, str):
        known = labels if labels is not None else [str(k) for k in range(card)]
        if state not in known:
            listed = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
            hint = suggestion(state, known)
            raise ModelError(f"variable {name!r} has no state {state!r}{hint} (its states are {listed})")
        return known.index(state)
    if labels is not None and isinstance(state, bool | np.bool_):
        labelled = truths(labels)
        if labelled:
            return labelled[bool(state)]
    index = as_index(state)
    if index is None:
        hint = "; with_likelihood takes one number a state" if isinstance(state, list | tuple | np.ndarray) else ""
        raise ModelError(f"a state of {name!r} must be an index (int) or a label (str), found {shown(state)}{hint}")
    if not 0 <= index < card:
        raise ModelError(f"variable {name!r} has states 0..{card - 1}, found state {index}")
    return index


def truths(labels: Sequence[str]) -> dict[bool, int]:
    """Return the states that say True and False, ``TRUE`` or ``yes`` in any case; nothing unless there is one each."""
    found = {k: _TRUTHS[label.lower()] for k, label in enumerate(labels) if label.lower() in _TRUTHS}
    return {value: k for k, value in found.items()} if sorted(found.values()) == [False, True] else {}


def as_index(value: object) -> int | None:
    """Return an int for anything that is one (True, or 2.0 as in a pandas row, included), else None."""
    if isinstance(value, np.bool_) or (isinstance(value, (float, np.floating)) and float(value).is_integer()):
        return int(value)
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
