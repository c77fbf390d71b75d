"""Kernels of layers against their NumPy lines, with extreme values and both types."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from beliefs.kernels.boltzmann.layers import anneal_units, draw_units, probabilities, softplus_sums
from beliefs.kernels.primitives.random import stream, uniform

KEY = np.uint64(12345)


def uniforms(shape: tuple[int, int], first: int) -> np.ndarray:
    keys = [np.uint64(stream(KEY, first + r)) for r in range(shape[0])]
    return np.array([[uniform(key, j) for j in range(shape[1])] for key in keys]).reshape(shape)


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def x(request: pytest.FixtureRequest) -> np.ndarray:
    values = 4.0 * np.random.default_rng(0).normal(size=(6, 523))
    values[0, :4] = (-1000.0, 1000.0, 0.0, -40.0)
    return values.astype(request.param)


def test_softplus_sums(x: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    bias, counts, out = rng.normal(size=523), rng.random(523), np.ones(6)
    softplus_sums(x, bias, counts, 0.7, out)
    expected = 1.0 + np.logaddexp(0.0, 0.7 * (x.astype(float) + bias)) @ counts
    np.testing.assert_allclose(out, expected, rtol=1e-13)


def test_probabilities(x: np.ndarray) -> None:
    bias = np.random.default_rng(1).normal(size=523)
    expected = expit(x.astype(float) + bias)
    probabilities(x, bias)
    np.testing.assert_allclose(x, expected, rtol=1e-13 if x.dtype == np.float64 else 1e-6, atol=1e-40)


def test_draws_are_the_comparison_with_the_random_numbers_of_their_place(x: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    scale, bias, offset, out = rng.random(6), rng.normal(size=523), rng.normal(size=523), np.empty_like(x)
    p = expit(scale[:, None] * (x.astype(float) + bias) + offset)
    draw_units(x, scale, bias, offset, KEY, 7, out)
    np.testing.assert_allclose(x, p, rtol=1e-13 if x.dtype == np.float64 else 1e-6, atol=1e-40)
    np.testing.assert_array_equal(out, uniforms(x.shape, 7) < p)


def test_annealing_draws_and_weighs(x: np.ndarray) -> None:
    bias, out, log_weights = np.random.default_rng(1).normal(size=523), np.empty_like(x), np.ones(6)
    before = x.copy()
    anneal_units(x, bias, 0.3, 0.8, KEY, 2, out, log_weights)
    a = x.astype(float) + bias
    expected = 1.0 + (np.logaddexp(0.0, 0.8 * a) - np.logaddexp(0.0, 0.3 * a)).sum(axis=1)
    np.testing.assert_allclose(log_weights, expected, rtol=1e-12)
    np.testing.assert_array_equal(out, uniforms(x.shape, 2) < expit(0.8 * a))
    np.testing.assert_array_equal(x, before)


def test_empty_layers() -> None:
    x, out, sums = np.zeros((2, 0)), np.zeros((2, 0)), np.zeros(2)
    softplus_sums(x, np.zeros(0), np.zeros(0), 1.0, sums)
    draw_units(x, np.ones(2), np.zeros(0), np.zeros(0), KEY, 0, out)
    anneal_units(x, np.zeros(0), 0.0, 1.0, KEY, 0, out, sums)
    assert (sums == 0).all()
