"""Factors: axes follow the scope, the last variable varies fastest, numbers pass one gate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import beliefs as bl

A, B = bl.Variable("a", 2), bl.Variable("b", 3)


def test_the_last_variable_varies_fastest() -> None:
    flat = bl.Factor([A, B], np.arange(6.0))
    assert flat.log_table.shape == (2, 3) and flat.log_table[1, 0] == 3.0
    assert np.array_equal(bl.Factor([A, B], np.arange(6.0).reshape(2, 3)).log_table, flat.log_table)


def test_tables_and_their_logs() -> None:
    factor = bl.Factor.from_table([A], [0.25, 0.0])
    assert factor.log_table.tolist() == [np.log(0.25), -np.inf] and factor.table.tolist() == [0.25, 0.0]


def test_a_constant_has_an_empty_scope() -> None:
    assert bl.Factor([], 2.5).log_table.shape == () and bl.Factor.from_table([], [2.0]).table == pytest.approx(2.0)


def test_the_table_is_copied_and_read_only() -> None:
    source = np.zeros(2)
    factor = bl.Factor([A], source)
    source[0] = 5
    assert factor.log_table[0] == 0 and not factor.log_table.flags.writeable
    assert repr(factor) == "Factor((a), shape=(2,))"


@pytest.mark.parametrize(
    "scope, table, message",
    [
        ([A, B], np.zeros(5), r"table of factor \(a, b\) must have shape \(2, 3\), found \(5,\)"),
        ([A, B], np.zeros((3, 2)), r"must have shape \(2, 3\), found \(3, 2\)"),
        ([A, A], np.zeros((2, 2)), r"factor \(a, a\) has a variable twice"),
        ([A], [0.0, np.nan], "-inf or finite log potentials .*found nan"),
        ([A], [0.0, np.inf], "-inf or finite log potentials .*found inf"),
        ([A], ["0", "one"], "must be an array of numbers"),
        ([A], [[0], [1, 2]], "must be an array of numbers"),
    ],
)
def test_a_malformed_factor_is_refused(scope: Any, table: Any, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        bl.Factor(scope, table)


@pytest.mark.parametrize("bad, shown", [(-0.5, "-0.5"), (np.nan, "nan")])
def test_potentials_are_not_negative(bad: float, shown: str) -> None:
    with pytest.raises(bl.ModelError, match=f"non-negative entries, found {shown}"):
        bl.Factor.from_table([A], [1.0, bad])


def test_potentials_are_finite() -> None:
    with pytest.raises(bl.ModelError, match="finite entries, found inf"):
        bl.Factor.from_table([A], [1.0, np.inf])


def test_the_smallest_float_is_not_zero() -> None:
    assert bl.Factor.from_table([A], [5e-324, 1]).log_table[0] == pytest.approx(-744.44, abs=0.01)
