"""Attributes of tokens by name: from lists of words and dicts to numbers.

===================================  =========================================================================
a token                              its attributes
===================================  =========================================================================
``["w=dog", "pos=NN"]``              these, with value 1 (a list, tuple or set of words)
``{"w": "dog"}``                     ``w:dog``, with value 1
``{"length": 3.5, "upper": True}``   ``length`` with value 3.5, ``upper`` with value 1
``{"next": ["dog", "NN"]}``          ``next:dog`` and ``next:NN``, with value 1
``{"next": {"w": "dog"}}``           ``next:w:dog``, and so on
===================================  =========================================================================

A value of 0 is the same as no attribute. Names that are not known, where no new ones are taken up, are left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from numbers import Real
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.chains.tokens import SparseTokens
from beliefs.model.features import HUGE
from beliefs.model.layout import offsets
from beliefs.typing import Floats, Ints

__all__ = ["Vocabulary", "are_attributes"]

_LISTS = (list, tuple, set, frozenset)


def are_attributes(x: Any) -> bool:
    """Whether a sequence names its attributes: its tokens are dicts, or lists of words."""
    if not isinstance(x, list | tuple) or not x:
        return False
    for token in x:
        if isinstance(token, Mapping):
            return True
        if not isinstance(token, _LISTS):
            return False
        for item in token:
            return isinstance(item, str)
    return True  # tokens without any attribute


class Vocabulary:
    """The numbers of attributes, in the order in which they were first met.

    While it is open, a new name gets the next number; once closed, unknown names are left out.
    """

    def __init__(self) -> None:
        growing: defaultdict[str, int] = defaultdict()
        growing.default_factory = growing.__len__
        self._number: dict[str, int] = growing

    @classmethod
    def of(cls, names: Iterable[str]) -> Vocabulary:
        """Return the closed vocabulary of these names."""
        found = cls()
        found._number = {name: number for number, name in enumerate(names)}
        return found

    def close(self) -> None:
        """Take up no new names from now on."""
        self._number = dict(self._number)

    def __len__(self) -> int:
        return len(self._number)

    def names(self) -> list[str]:
        """Return the names in the order of their numbers."""
        return list(self._number)

    def encoded(self, x: Sequence[Any], name: str) -> SparseTokens:
        """Return the tokens of a sequence by numbers; errors begin with ``name``."""
        kinds = set(map(type, x))
        if kinds <= set(_LISTS):
            words, values, counts = list(chain.from_iterable(x)), None, list(map(len, x))
            if not all(issubclass(kind, str) for kind in set(map(type, words))):
                raise ModelError(_wrong_word(x, name))
        else:
            words, values, counts = _expanded(x, name)
        return self._numbered(words, values, counts)

    def _numbered(self, words: list[str], values: Floats | None, counts: Sequence[int]) -> SparseTokens:
        ptr = offsets(counts)
        growing = isinstance(self._number, defaultdict)
        found = map(self._number.__getitem__, words) if growing else map(self._number.get, words, repeat(-1))
        numbers = np.fromiter(found, np.int64, len(words))
        return _without(ptr, numbers, values, numbers < 0)


def _without(ptr: Ints, numbers: Ints, values: Floats | None, drop: np.ndarray) -> SparseTokens:
    if values is not None and (values == 0.0).any():
        drop = drop | (values == 0.0)
    if drop.any():
        token = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))[~drop]
        ptr = offsets(np.bincount(token, minlength=ptr.size - 1))
        numbers, values = numbers[~drop], None if values is None else values[~drop]
    ones = values is None or bool((values == 1.0).all())
    return SparseTokens(ptr, numbers, np.zeros(0) if ones or values is None else values)


def _expanded(x: Sequence[Any], name: str) -> tuple[list[str], Floats, list[int]]:
    """Return the attributes of all tokens, their values, and how many each token has."""
    words: list[str] = []
    values: list[float] = []
    counts = []
    for t, token in enumerate(x):
        before = len(words)
        if isinstance(token, Mapping):
            pairs: Iterator[tuple[str, float]] = _items(token, "", f"{name}, token {t}")
        elif isinstance(token, _LISTS):
            if not all(isinstance(word, str) for word in token):
                raise ModelError(_wrong_word(x, name))
            pairs = ((word, 1.0) for word in token)
        else:
            raise ModelError(
                f"{name}, token {t}: a token is a dict or a list of attributes, found {type(token).__name__}"
            )
        for word, value in pairs:
            words.append(word)
            values.append(value)
        counts.append(len(words) - before)
    found = np.array(values, np.float64)
    fine = np.abs(found) < HUGE  # False for nan
    if not fine.all():
        i = int(np.argmin(fine))
        t = int(np.searchsorted(np.cumsum(counts), i, side="right"))
        advice = "scale such values, to about 1" if np.isfinite(found[i]) else "fill in or drop such values"
        raise ModelError(f"{name}, token {t}: the attribute {words[i]!r} is {found[i]}; {advice}")
    return words, found, counts


def _items(token: Mapping[Any, Any], prefix: str, name: str) -> Iterator[tuple[str, float]]:
    """Yield the attributes of a dict and their values."""
    for key, value in token.items():
        if not isinstance(key, str):
            raise ModelError(f"{name}: keys are words, found {key!r}")
        if isinstance(value, str):
            yield f"{prefix}{key}:{value}", 1.0
        elif isinstance(value, bool | np.bool_ | Real):
            yield prefix + key, _float(value)
        elif isinstance(value, Mapping):
            yield from _items(value, f"{prefix}{key}:", name)
        elif isinstance(value, _LISTS) and all(isinstance(word, str) for word in value):
            for word in value:
                yield f"{prefix}{key}:{word}", 1.0
        else:
            raise ModelError(
                f"{name}: {prefix + key!r} is {value!r:.40}; values are words, numbers, bools, lists of words or dicts"
            )


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _wrong_word(x: Sequence[Any], name: str) -> str:
    t, word = next((t, word) for t, token in enumerate(x) for word in token if not isinstance(word, str))
    return f"{name}, token {t}: attributes are words, found {word!r:.40}; numbers go as values of a dict"
