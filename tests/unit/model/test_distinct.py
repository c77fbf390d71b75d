"""Distinct rows are those of NumPy, and none of its Python code runs while they are found."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from beliefs.model.distinct import distinct_rows


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, float])
@pytest.mark.parametrize("shape", [(0, 2), (1, 1), (40, 1), (60, 2), (200, 5)])
def test_rows_are_those_of_numpy(shape: tuple[int, int], dtype: type) -> None:
    rows: np.ndarray = np.random.default_rng(0).integers(-2 * (dtype is np.int64), 3, shape).astype(dtype)
    found = distinct_rows(rows)
    expected, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    assert found.rows.dtype == dtype and np.array_equal(found.rows, expected)
    assert np.array_equal(found.first, first) and np.array_equal(found.number, number.ravel())


def test_rows_without_columns_are_one() -> None:
    found = distinct_rows(np.zeros((3, 0)))
    assert found.rows.shape == (1, 0) and found.first.tolist() == [0] and found.number.tolist() == [0, 0, 0]


def test_python_code_that_runs_within_numpy_is_none() -> None:
    """An interrupt in there would come out as another exception: comparing structures calls Python."""
    rows = np.arange(20).reshape(10, 2) // 4

    def homes() -> set[str]:
        seen = set[str]()
        sys.setprofile(lambda frame, event, _: seen.add(frame.f_code.co_filename) if event == "call" else None)
        try:
            distinct_rows(rows)
        finally:
            sys.setprofile(None)
        return seen

    assert not any(home.endswith("_internal.py") for home in homes())
