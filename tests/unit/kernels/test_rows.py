"""Kernels over rows, against the lines of NumPy that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from beliefs.kernels.rows.conditionals import cross_entropies


@pytest.mark.parametrize("n_rows", [0, 1, 7, 512])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropies(n_rows: int, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    odds, bias = 4.0 * rng.normal(size=(3, n_rows)), rng.normal(size=3)
    bits = rng.integers(0, 2, (3, n_rows)).astype(np.float64)
    odds[1, :4] = np.array([900.0, -900.0, -1e-300, -40.0])[:n_rows]
    weights = 3.0 * rng.random(n_rows) if weighted else np.zeros(0)
    share = weights if weighted else np.ones(n_rows)
    a = odds + bias[:, None]
    expected = 1.0 + (share * (np.logaddexp(0.0, a) - a * bits)).sum(axis=1)
    values, room = np.ones(3), np.full((2, n_rows), np.nan)
    cross_entropies(odds, bias, bits, weights, room, values)
    np.testing.assert_allclose(values, expected, rtol=1e-13)
    np.testing.assert_allclose(odds, share * (expit(a) - bits), atol=1e-15)


def test_products_of_factors_that_are_all_two_stay_finite() -> None:
    values = np.zeros(1)
    cross_entropies(np.zeros((1, 1000)), np.zeros(1), np.zeros((1, 1000)), np.zeros(0), np.empty((2, 1000)), values)
    np.testing.assert_allclose(values, 1000.0 * np.log(2.0), rtol=1e-13)
