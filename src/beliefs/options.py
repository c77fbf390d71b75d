"""What an option may be: integers, numbers and words, and the one line that refuses what it may not.

Integers have limits at both ends. Compiled code computes in 64 bits, so no option is larger; one that work or memory
grow with inside a single step says a smaller limit of its own, beyond which nobody could wait for the answer.
"""

from __future__ import annotations

import inspect
import sys
from abc import ABCMeta
from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np

from beliefs.elsewhere import NEEDED, meant_option, suggestion
from beliefs.errors import ModelError

__all__ = [
    "MANY",
    "MOST",
    "Suggesting",
    "check_integer",
    "check_number",
    "check_option",
    "is_iterable",
    "is_number",
    "is_word",
    "shown",
    "suggestion",
]

MOST = 2**63 - 1
"""The largest integer of compiled code: of seeds, and of what only counts how long to go on."""

MANY = 10**9
"""The most of what is counted one by one, such as sweeps, chains and threads."""

_INTEGERS = (int, np.integer)  # tuples: a union would be made anew at each call
_NUMBERS = (int, float, np.integer, np.floating)
_SHOWN = 80  # characters of a wrong value that are shown


def shown(value: object) -> str:
    """Return a value as an error message shows it: in one line, and not much of one."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python does not write integers of thousands of digits
        text = f"{type(value).__name__} of thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


class Suggesting(ABCMeta):
    """The class of classes made by options: an option they do not have is refused with the one that was meant."""

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's, for help and documentation."""
        made = inspect.signature(cls.__init__)  # type: ignore[misc]
        return made.replace(parameters=list(made.parameters.values())[1:], return_annotation=inspect.Signature.empty)

    @property
    def _positional(cls) -> bool:
        """Whether an option may come without its name."""
        return any(p.kind is not p.KEYWORD_ONLY for p in cls.__signature__.parameters.values())

    def __call__(cls, *args: Any, **options: Any) -> Any:
        """Make an object, or raise a TypeError that names the option."""
        try:
            return super().__call__(*args, **options)
        except TypeError:
            parameters = cls.__signature__.parameters
            known = list(parameters)
            unknown = [name for name in options if name not in known]
            if args and not cls._positional:
                listed = ", ".join(known) or "none"
                raise TypeError(f"{cls.__name__} takes its options by name, option=value; it has {listed}") from None
            if unknown:
                raise TypeError(f"{cls.__name__} has no option {_hinted(unknown, known)}") from None
            missing = [p.name for p in list(parameters.values())[len(args) :] if p.default is p.empty]
            if not set(missing).difference(options):
                raise
            first = next(name for name in missing if name not in options)
            raise TypeError(f"{cls.__name__} needs {first!r}{NEEDED.get(first, '')}") from None


def _hinted(unknown: list[str], known: list[str]) -> str:
    """Return the options that there are not, each with a hint at the one that was meant."""
    hints = [meant_option(name, known) for name in unknown]
    listed = "" if any(hints) else f"; it has {', '.join(known) or 'none'}"
    if len(unknown) == 1:
        return f"{unknown[0]!r}{hints[0]}{listed}"
    told = [f"{name!r}" + f" ({hint[2:]})" * bool(hint) for name, hint in zip(unknown, hints, strict=True)]
    return f"{', nor '.join(told)}{listed}"


def check_option(ok: bool, name: str, expected: str, found: object) -> None:
    """Raise a ModelError for an option out of range."""
    if not ok:
        raise ModelError(f"{name} must be {expected}, found {shown(found)}")


def check_integer(name: str, value: object, least: int, most: int = MOST, *, none: bool = False) -> None:
    """Raise a ModelError unless the option is an integer from ``least`` to ``most`` (or None, where that is allowed).

    Examples
    --------
    >>> check_integer("ibound", 10**20, 1, 10**6)
    Traceback (most recent call last):
    beliefs.errors.ModelError: ibound must be an integer from 1 to 1000000, found 100000000000000000000
    """
    if none and value is None:
        return
    whole = isinstance(value, _INTEGERS) and not isinstance(value, bool)
    if whole and least <= value <= most:  # type: ignore[operator]
        return
    large = whole and value > most  # type: ignore[operator]
    expected = f"an integer from {least} to {most}" if large else f"an integer of at least {least}"
    check_option(False, name, f"None or {expected}" if none and not whole else expected, value)


def check_number(name: str, value: object, *, positive: bool = False, none: bool = False) -> None:
    """Raise a ModelError unless the option is a number of at least 0, or above (or None, where that is allowed).

    Examples
    --------
    >>> check_number("step", 0, positive=True)
    Traceback (most recent call last):
    beliefs.errors.ModelError: step must be a number above 0, found 0
    """
    if none and value is None:
        return
    ok = is_number(value) and (value > 0 if positive else value >= 0)  # type: ignore[operator]
    expected = "a number above 0" if positive else "a number of at least 0"
    check_option(ok, name, f"None or {expected}" if none else expected, value)


def is_number(value: object) -> bool:
    """Whether an option's value is a real number that a float can hold; infinities, booleans and words are not."""
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        return False
    plain = value.item() if isinstance(value, np.generic) else value  # float32 has not the range to compare with
    return bool(-sys.float_info.max <= plain <= sys.float_info.max)


def is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether an option's value has entries; arrays of one number have none."""
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def is_word(value: object, words: tuple[str, ...]) -> bool:
    """Whether an option's value is one of these words."""
    return isinstance(value, str) and value in words
