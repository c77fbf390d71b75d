"""Checks of what generators are given: counts, scales, shares and seeds, each with one clear line when wrong."""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.budget import default_budget, over_budget
from beliefs.options import MANY, MOST, check_integer, check_option, is_number, shown

__all__ = ["check_count", "check_finite", "check_range", "check_room", "check_scale", "check_share", "generator"]

_ENTRY = 64  # bytes that a drawn number takes on its way into a model, its copies included


def generator(seed: int | np.random.Generator | None) -> np.random.Generator:
    """Return a random generator: a fresh one for an int (None means 0), or the one given."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(0 if seed is None else check_count("seed", seed, 0, MOST))


def check_count(name: str, value: object, least: int = 1, most: int = MANY) -> int:
    """Return ``value`` as an int from ``least`` to ``most``, or raise a ModelError naming the argument."""
    number = value.__index__() if isinstance(value, SupportsIndex) and not isinstance(value, bool) else value
    check_integer(name, number, least, most)
    return int(number)  # type: ignore[call-overload, no-any-return]


def check_room(entries: float) -> None:
    """Raise a BudgetError where a model of so many variables, edges and cells does not fit in memory."""
    if _ENTRY * entries > default_budget():
        raise over_budget("the model would take about", _ENTRY * entries, default_budget(), "Make a smaller one")


def check_range(name: str, value: object, least: int = 1) -> tuple[int, int]:
    """Return ``(low, high)`` for one int or a pair of them, both ends included."""
    if isinstance(value, tuple | list) and len(value) == 2:
        low, high = check_count(name, value[0], least), check_count(name, value[1], least)
        if low > high:
            raise ModelError(f"{name} must be given as (low, high), found {shown(value)}")
        return low, high
    number = check_count(name, value, least)
    return number, number


def check_finite(name: str, value: object) -> float:
    """Return a finite float or raise."""
    check_option(is_number(value), name, "a finite number", value)
    return float(value)  # type: ignore[arg-type]


def check_scale(name: str, value: object) -> float:
    """Return a finite, non-negative float or raise."""
    check_option(is_number(value) and value >= 0, name, "a finite number of at least 0", value)  # type: ignore[operator]
    return float(value)  # type: ignore[arg-type]


def check_share(name: str, value: object) -> float:
    """Return a float between 0 and 1 or raise."""
    check_option(is_number(value) and 0 <= value <= 1, name, "between 0 and 1", value)  # type: ignore[operator]
    return float(value)  # type: ignore[arg-type]
