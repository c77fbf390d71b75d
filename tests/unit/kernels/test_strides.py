"""Cells of a table by the states of its variables."""

from __future__ import annotations

import numpy as np
import pytest

from beliefs.kernels.primitives.strides import axis_room, count_on, table_index


@pytest.mark.parametrize("ptr", [[0], [0, 0], [0, 2, 2, 5, 6]])
def test_room_for_axes_is_that_of_the_widest_scope(ptr: list[int]) -> None:
    stride, extent = axis_room(np.array(ptr, np.int64))
    widest = max([1, *np.diff(ptr).tolist()])
    assert stride.shape == extent.shape == (widest,) and stride.dtype == extent.dtype == np.int64
    assert not np.shares_memory(stride, extent)


def test_counting_goes_through_all_cells_and_begins_again() -> None:
    sizes, digit = np.array([2, 1, 3, 7]), np.array([0, 0, 0, 5])
    for k in range(1, 9):  # the last axis stands still
        count_on(3, sizes, digit)
        assert digit.tolist() == [*np.unravel_index(k % 6, (2, 1, 3)), 5]
    count_on(0, sizes, digit)
    assert digit.tolist() == [0, 0, 2, 5]


@pytest.mark.parametrize("kind", [np.int64, np.uint32])
def test_an_index_has_the_place_of_each_cell(kind: type[np.integer]) -> None:
    """Axes 1 to 3 of four; strides begin one number later; the table begins at place 100."""
    card, stride = np.array([9, 2, 3, 2, 9]), np.array([0, 0, 7, 0, 20, 0])
    index = np.full(20, 5, kind)
    assert table_index(card, stride, 1, 4, 1, 100, index, 3) == 12
    x, _, z = np.indices((2, 3, 2))  # the second of them is no axis of the table
    assert index.tolist() == [5] * 3 + (100 + 7 * x + 20 * z).ravel().tolist() + [5] * 5


def test_an_index_over_no_axes_is_the_first_cell() -> None:
    index = np.zeros(2, np.int64)
    assert table_index(np.zeros(0, np.int64), np.zeros(0, np.int64), 0, 0, 0, 4, index, 1) == 1
    assert index.tolist() == [0, 4]
