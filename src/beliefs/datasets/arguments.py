"""Checks of what generators are given: counts, scales, shares and seeds, each with one clear line when wrong."""

from __future__ import annotations

import math
from typing import SupportsIndex

import numpy as np

from beliefs.errors import ModelError

__all__ = ["check_count", "check_finite", "check_range", "check_scale", "check_share", "generator"]


def generator(seed: int | np.random.Generator | None) -> np.random.Generator:
    """Return a random generator: a fresh one for an int (None means 0), or the one given."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(0 if seed is None else check_count("seed", seed, 0))


def check_count(name: str, value: object, least: int = 1) -> int:
    """Return ``value`` as an int of at least ``least``, or raise a ModelError naming the argument."""
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        number = value.__index__()
        if number >= least:
            return number
    raise ModelError(f"{name} must be an integer of at least {least}, found {value!r}")


def check_range(name: str, value: object, least: int = 1) -> tuple[int, int]:
    """Return ``(low, high)`` for one int or a pair of them, both ends included."""
    if isinstance(value, tuple | list) and len(value) == 2:
        low, high = check_count(name, value[0], least), check_count(name, value[1], least)
        if low > high:
            raise ModelError(f"{name} must be given as (low, high), found {value!r}")
        return low, high
    number = check_count(name, value, least)
    return number, number


def check_finite(name: str, value: object) -> float:
    """Return a finite float or raise."""
    if isinstance(value, float | int | np.floating | np.integer) and math.isfinite(value):
        return float(value)
    raise ModelError(f"{name} must be a finite number, found {value!r}")


def check_scale(name: str, value: object) -> float:
    """Return a finite, non-negative float or raise."""
    if isinstance(value, float | int | np.floating | np.integer) and math.isfinite(value) and value >= 0:
        return float(value)
    raise ModelError(f"{name} must be a finite number of at least 0, found {value!r}")


def check_share(name: str, value: object) -> float:
    """Return a float between 0 and 1 or raise."""
    if isinstance(value, float | int | np.floating | np.integer) and 0 <= value <= 1:
        return float(value)
    raise ModelError(f"{name} must be between 0 and 1, found {value!r}")
