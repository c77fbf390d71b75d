"""The questions, what a number is worth, and what methods promise: the words in which methods declare what they can."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Any

__all__ = ["Bound", "Derivative", "Guarantee", "Task", "Unions"]


class Task(Enum):
    """The four questions."""

    INFER = "infer"
    MAXIMIZE = "maximize"
    MARGINAL_MAP = "marginal_map"
    SAMPLE = "sample"


class Bound(StrEnum):
    """What a number is worth, a word; ``sign`` stands between the true value and it.

    >>> Bound.UPPER == "UPPER", Bound.UPPER.sign
    (True, '<=')
    """

    EXACT = "EXACT"
    UPPER = "UPPER"
    LOWER = "LOWER"
    ESTIMATE = "ESTIMATE"

    @property
    def sign(self) -> str:
        """The relation ``truth sign value``."""
        return _SIGN[self]

    @property
    def words(self) -> str:
        """What a number of this kind is, in words."""
        return _WORTH[self]


_SIGN = {Bound.EXACT: "=", Bound.UPPER: "<=", Bound.LOWER: ">=", Bound.ESTIMATE: "~"}
_WORDS = {Bound.EXACT: "exact", Bound.UPPER: "upper bound", Bound.LOWER: "lower bound", Bound.ESTIMATE: "estimate"}
_WORTH = {
    Bound.EXACT: "exact, to rounding",
    Bound.UPPER: "an upper bound: the truth is not above it",
    Bound.LOWER: "a lower bound: the truth is not below it",
    Bound.ESTIMATE: "an estimate: the truth may be on either side",
}


class Guarantee(str):
    """What a method promises of its value, as data that reads as a sentence.

    Attributes
    ----------
    bound : Bound
        What the value is, on every model.
    note : str
        Conditions and extras in words.
    also : tuple of Bound
        What else it can give; the note says when.
    on_forests : Bound or None
        What the value is on forests, where that is more.

    Examples
    --------
    >>> Guarantee(Bound.UPPER, "(or lower, for sums)", also=(Bound.LOWER,))
    'upper bound (or lower, for sums)'
    """

    bound: Bound
    note: str
    also: tuple[Bound, ...]
    on_forests: Bound | None

    def __new__(
        cls, bound: Bound, note: str = "", *, also: tuple[Bound, ...] = (), on_forests: Bound | None = None
    ) -> Guarantee:
        """Write the sentence."""
        words = _WORDS[bound] if on_forests is None else f"{_WORDS[on_forests]} on forests, else {_WORDS[bound]}"
        self = super().__new__(cls, f"{words}{' ' if note.startswith('(') else '; ' if note else ''}{note}")
        self.bound, self.note, self.also, self.on_forests = bound, note, also, on_forests
        return self

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.bound, self.note), {"also": self.also, "on_forests": self.on_forests}

    def gives(self, bound: Bound) -> bool:
        """Whether the value, or another that comes with it, can be of this kind."""
        return bound in (self.bound, *self.also, self.on_forests)


class Derivative(Enum):
    """How gradients pass through a method's marginals."""

    EXACT = "they are the model's own"
    MESSAGES = "back through its messages, whose fixed points obey linear constraints"
    MARGINALS = "back through its updates of marginals"
    DIFFERENCES = "by differences of answers"
    NONE = "not at all"

    @property
    def reversible(self) -> bool:
        """Whether updates can be walked back."""
        return self in (Derivative.MESSAGES, Derivative.MARGINALS)


class Unions(Enum):
    """What a method's answer for a disjoint union of models says of its parts; small models are then asked together."""

    NOTHING = "the parts are to be asked one by one"
    SUM = "its value is the sum of theirs, and its marginals are theirs"
    PARTS = "every part has the answer that it has by itself, and its own value can be told"
