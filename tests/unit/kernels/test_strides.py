"""Cells of a table by the states of its variables."""

from __future__ import annotations

import numpy as np

from beliefs.kernels.primitives.strides import count_on


def test_counting_goes_through_all_cells_and_begins_again() -> None:
    sizes, digit = np.array([2, 1, 3, 7]), np.array([0, 0, 0, 5])
    for k in range(1, 9):  # the last axis stands still
        count_on(3, sizes, digit)
        assert digit.tolist() == [*np.unravel_index(k % 6, (2, 1, 3)), 5]
    count_on(0, sizes, digit)
    assert digit.tolist() == [0, 0, 2, 5]
