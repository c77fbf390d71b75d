"""Widening by rounding errors: never less than the error, nothing for exact claims, and a gap that closes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from beliefs import Bound
from beliefs.driver import Value
from beliefs.inference.rounding import certified, meet, rounding_error, widened


@pytest.mark.parametrize("n", [1, 2, 100, 5000])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e9])
def test_the_error_of_a_sum_is_within_its_bound(n: int, scale: float) -> None:
    """Terms that nearly cancel, added one after the other; the truth is rational arithmetic."""
    rng = np.random.default_rng(n)
    terms = scale * rng.normal(size=n)
    terms = np.concatenate([terms, -terms + 1e-9 * rng.normal(size=n)])
    total, truth = 0.0, sum(map(Fraction, terms), Fraction(0))
    for term in terms:
        total += term
    error = rounding_error(float(np.abs(terms).sum()), 2 * n)
    assert abs(Fraction(total) - truth) <= Fraction(error) <= Fraction(3e-15 * (n + 8) * float(np.abs(terms).sum()))


@pytest.mark.parametrize("value", [0.0, 1.0, -3.7e9, 1e-300, 1e200])
@pytest.mark.parametrize("error", [1e-320, 1e-17, 1e-9, 2.0])
def test_widening_is_at_least_the_error_even_where_it_is_less_than_a_digit(value: float, error: float) -> None:
    assert Fraction(widened(value, error, Bound.LOWER)) <= Fraction(value) - Fraction(error)
    assert Fraction(widened(value, error, Bound.UPPER)) >= Fraction(value) + Fraction(error)
    assert widened(value, error, Bound.EXACT) == widened(value, error, Bound.ESTIMATE) == value


@pytest.mark.parametrize("side", list(Bound))
def test_infinite_bounds_and_errors_of_zero_stay(side: Bound) -> None:
    assert widened(-math.inf, 1.0, side) == -math.inf and widened(math.inf, 1.0, side) == math.inf
    assert widened(2.0, 0.0, side) == 2.0


def test_both_ends_move_and_the_point_value_with_its_end() -> None:
    value = certified(Value(1.0, 1.0, 5.0), 0.5)
    assert value.lower <= 0.5 and value.upper >= 5.5 and value.log_z == value.lower and value.rounding == 0.5
    inside = certified(Value(2.0, 1.0, 5.0), 0.5)
    assert inside.log_z == 2.0
    assert certified(Value(2.0, 2.0, 2.0), 0.5) == Value(2.0, 2.0, 2.0)
    assert certified(Value(2.0), 0.5) == Value(2.0, rounding=0.5)


def test_ends_meet_within_what_they_were_moved() -> None:
    assert meet(1.0, 1.0, 0.0) and meet(1.0, widened(1.0, 1e-12, Bound.UPPER), 1e-12)
    assert not meet(1.0, 1.0 + 1e-11, 1e-12) and not meet(-math.inf, 1.0, 1e-12) and not meet(1.0, math.inf, 1.0)
