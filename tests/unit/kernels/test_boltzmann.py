"""Kernels of layers against their NumPy lines, with extreme values and both types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, xlogy

from beliefs.kernels.boltzmann.flips import Units, flip_log_odds, flip_pullback, unit_scores
from beliefs.kernels.boltzmann.layers import (
    anneal_units,
    draw_units,
    entropy_sums,
    probabilities,
    residuals,
    scores,
    softplus_sums,
)
from beliefs.kernels.boltzmann.row_chains import RowChains, RowMachines, RowSums, draw_rows, row_products, sweep_rows
from beliefs.kernels.boltzmann.second_order import add_pairs
from beliefs.kernels.boltzmann.single import draw_single, single_means, single_residuals, single_shares
from beliefs.kernels.primitives.random import stream, stream_key, uniform

KEY, ONE = np.uint64(12345), np.float32(1.0)


def uniforms(shape: tuple[int, int], first: int) -> np.ndarray:
    keys = [np.uint64(stream(KEY, first + r)) for r in range(shape[0])]
    return np.array([[uniform(key, j) for j in range(shape[1])] for key in keys]).reshape(shape)


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def x(request: pytest.FixtureRequest) -> np.ndarray:
    values = 4.0 * np.random.default_rng(0).normal(size=(6, 523))
    values[0, :4] = (-1000.0, 1000.0, 0.0, -40.0)
    return values.astype(request.param)


@pytest.mark.parametrize("once", [False, True])
def test_softplus_sums(x: np.ndarray, once: bool) -> None:
    rng = np.random.default_rng(1)
    bias, counts, out = rng.normal(size=523), np.ones(523) if once else rng.random(523), np.ones(6)
    softplus_sums(x, bias, counts, 0.7, out)
    expected = 1.0 + np.logaddexp(0.0, 0.7 * (x.astype(float) + bias)) @ counts
    np.testing.assert_allclose(out, expected, rtol=1e-13)


@pytest.mark.parametrize("n_hidden", [0, 523])
def test_scores_of_rows(x: np.ndarray, n_hidden: int) -> None:
    rng = np.random.default_rng(1)
    visible, bias, out = (rng.random((6, 11)) < 0.5).astype(x.dtype), rng.normal(size=(6, 11)), np.ones(6)
    scores(visible, bias.astype(x.dtype), x[:, :n_hidden], out)
    wide = x[:, :n_hidden].astype(float)
    expected = 1.0 + (visible * bias.astype(x.dtype)).sum(axis=1) + np.logaddexp(0.0, wide).sum(axis=1)
    np.testing.assert_allclose(out, expected, rtol=1e-13 if x.dtype == np.float64 else 1e-6)


def test_residuals_of_independent_units(x: np.ndarray) -> None:
    bits, wide = np.random.default_rng(1).integers(-1, 2, x.shape).astype(x.dtype), x.astype(float)
    known = bits >= 0
    value = 1.0 + (known * (np.logaddexp(0.0, wide) - bits * wide)).sum(axis=1)
    for ask, rtol in ((residuals, 1e-12), (single_residuals, 1e-6)) if x.dtype == np.float32 else ((residuals, 1e-12),):
        found, out = x.copy(), np.ones(6)
        ask(found, bits, out)
        np.testing.assert_allclose(out, value, rtol=rtol)
        np.testing.assert_allclose(found, known * (expit(wide) - bits), atol=1e-15 if x.dtype == np.float64 else 2e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pairs_of_the_second_order(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    weights, p, q = (10.0 * rng.normal(size=(4, 3))).astype(dtype), rng.random((5, 4)), rng.random((5, 3))
    p[0], q[1] = (0.0, 1.0, 0.0, 1.0), 0.0
    out = np.ones((4, 3))
    add_pairs(weights, p, q, out)
    a, b = p[:, :, None], q[:, None]
    pairs = np.clip(a * b + weights * a * (1 - a) * b * (1 - b), np.maximum(a + b - 1, 0), np.minimum(a, b))
    np.testing.assert_allclose(out, 1.0 + pairs.sum(axis=0), rtol=1e-12)


def test_entropies(x: np.ndarray) -> None:
    p, out = np.clip(expit(x), 0.0, 1.0), np.ones(6)
    p[1, :2] = (0.0, 1.0)
    entropy_sums(p, out)
    wide = p.astype(float)
    np.testing.assert_allclose(out, 1.0 - (xlogy(wide, wide) + xlogy(1 - wide, 1 - wide)).sum(axis=1), rtol=1e-12)


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


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_single_precision_has_the_same_law(scale: float) -> None:
    rng = np.random.default_rng(3)
    x = (scale * rng.normal(size=(5, 37))).astype(np.float32)
    bias = rng.normal(size=37).astype(np.float32)
    p = expit(np.clip(x.astype(np.float64) + bias, -87.0, 87.0))
    found = x.copy()
    single_shares(found, bias, 0, 37, ONE)
    np.testing.assert_allclose(found, p, rtol=1e-5 * scale, atol=2e-7)
    drawn, out = x.copy(), np.empty_like(x)
    draw_single(drawn, bias, np.uint64(9), 4, 0, 37, ONE, out)
    assert np.array_equal(drawn, found)
    u = np.array([[int(stream(np.uint64(stream(np.uint64(9), 4 + r)), j)) >> 40 for j in range(37)] for r in range(5)])
    assert np.array_equal(out, u * 2.0**-24 < drawn)
    again = np.empty_like(out[2:])
    draw_single(x[2:].copy(), bias, np.uint64(9), 6, 0, 37, ONE, again)
    assert np.array_equal(again, out[2:])


def test_single_precision_by_units_leaves_the_others_alone_and_takes_shares() -> None:
    rng = np.random.default_rng(5)
    x, bias = rng.normal(size=(4, 41)).astype(np.float32), rng.normal(size=41).astype(np.float32)
    share, whole, out = np.float32(-0.01), x.copy(), np.empty_like(x)
    draw_single(whole, bias, KEY, 3, 0, 41, ONE, out)
    for ask in (single_shares, draw_single):
        cut, drawn = x.copy(), np.full_like(x, 7.0)
        for begin, end in ((0, 17), (17, 39)):
            ask(
                *(cut, bias, begin, end, share)
                if ask is single_shares
                else (cut, bias, KEY, 3, begin, end, share, drawn)
            )
        assert (cut[:, :39] == share * whole[:, :39]).all() and (cut[:, 39:] == x[:, 39:]).all()
        assert ask is single_shares or ((drawn[:, :39] == out[:, :39]).all() and (drawn[:, 39:] == 7.0).all())


@pytest.mark.parametrize("key", [0, 12345, 2**64 - 1])
def test_keys_of_streams_are_the_same_to_python(key: int) -> None:
    for number in (0, 1, 2**20 + 3, 2**50, 2**63 - 2):
        assert (
            stream_key(key, number) == stream_key(np.uint64(key), number) == np.uint64(stream(np.uint64(key), number))
        )


def test_single_precision_of_extreme_numbers() -> None:
    x = np.array([[-1e30, -300.0, 0.0, 300.0, 1e30]], np.float32)
    single_shares(x, np.zeros(5, np.float32), 0, 5, ONE)
    np.testing.assert_allclose(x, [[0.0, 0.0, 0.5, 1.0, 1.0]], atol=1e-30)


def test_means_in_single_precision_say_how_far_they_moved() -> None:
    rng = np.random.default_rng(8)
    x, bias, old = (rng.normal(size=(5, 37)).astype(np.float32) for _ in range(3))
    x[1, 3], old[:] = 1e30, rng.random((5, 37))
    expected = expit(x.astype(float) + bias)
    change = np.array([0.0, 0.0, 0.99999, 0.0, 0.0], np.float32)
    before = change.copy()
    single_means(x, bias, old, change)
    np.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-30)
    np.testing.assert_array_equal(change, np.maximum(before, np.abs(x - old).max(axis=1)))


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_flips_of_units(scale: float) -> None:
    rng = np.random.default_rng(4)
    n, m, rows = 5, 7, 4
    weights, bias, hidden_bias = (scale * rng.normal(size=size) for size in ((n, m), n, m))
    visible, counts = (rng.random((rows, n)) < 0.5).astype(float), rng.random(m) * 2
    product = visible @ weights
    x = product + hidden_bias
    low = x[:, None, :] - visible[:, :, None] * weights
    softplus = np.logaddexp(0.0, low + weights) - np.logaddexp(0.0, low)
    out = np.empty((rows, n))
    for c, used in ((np.zeros(0), np.ones(m)), (counts, counts)):
        flip_log_odds(x, visible, weights, bias, c, out)
        np.testing.assert_allclose(out, bias + softplus @ used, rtol=1e-10, atol=1e-10)
    for first, stride, every in ((3, 2, 1), (4, 3, 2)):
        seen = np.arange(0, rows, every)
        units = (first + stride * np.arange(seen.size)) % n
        found = unit_scores(product[seen], visible, weights, Units(first, stride, every), hidden_bias, bias)
        odds = bias[units] + softplus.sum(axis=2)[seen, units]
        expected = (np.logaddexp(0.0, odds) - visible[seen, units] * odds).mean()
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-10)
    bars, hidden, grad = rng.normal(size=(rows, n)), np.zeros((rows, m)), np.zeros((n, m))
    flip_pullback(x, visible, weights, bars, hidden, grad)
    p0, p1 = expit(low), expit(low + weights)
    np.testing.assert_allclose(hidden, (bars[:, :, None] * (p1 - p0)).sum(axis=1), atol=1e-10)
    expected = (bars[:, :, None] * (p1 - visible[:, :, None] * (p1 - p0))).sum(axis=0)
    np.testing.assert_allclose(grad, expected, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_products_know_no_others(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    rows, weights = (rng.normal(size=size).astype(dtype) for size in ((19, 31), (31, 13)))
    rows[3, ::2] = 0.0
    out = np.empty((19, 13), dtype)
    row_products(rows, weights, out)
    np.testing.assert_allclose(out, rows @ weights, rtol=1e-4 if dtype is np.float32 else 1e-12, atol=1e-5)
    for some in ([3], [18, 3, 7], range(1, 12)):
        part = np.empty((len(some), 13), dtype)
        row_products(rows[list(some)], weights, part)
        assert part.tobytes() == out[list(some)].tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sweeps_of_rows(dtype: Any) -> None:
    rng = np.random.default_rng(6)
    n, m, rows = 7, 5, 3
    weights, keys = rng.normal(size=(n, m)).astype(dtype), rng.integers(2**60, size=rows).astype(np.uint64)
    machines = RowMachines(weights, np.ascontiguousarray(weights.T), rng.normal(size=(rows, n)), np.zeros((rows, m)))
    start = (rng.random((rows, n)) < 0.5).astype(dtype)
    hidden, y, x = (np.zeros((rows, k), dtype) for k in (m, n, m))
    chains = RowChains(start.copy(), hidden, y, x, keys)
    sums = RowSums(np.ones(n), np.ones(m), np.ones((n, m)))

    def drawn(p: np.ndarray, number: int) -> np.ndarray:
        each = [np.uint64(stream(key, number)) for key in keys]
        return np.array([[uniform(key, j) for j in range(p.shape[1])] for key in each]) < p

    sweep_rows(machines, chains, 4, 2, True, sums)
    visible, totals = start.astype(float), [np.ones(n), np.ones(m), np.ones((n, m))]
    for s in (4, 5):
        p = expit(visible @ weights.astype(float))
        totals[1] += p.sum(axis=0)
        totals[2] += visible.T @ p
        y = expit(drawn(p, 2 * s + 1) @ weights.T.astype(float) + machines.visible_bias)
        totals[0] += y.sum(axis=0)
        visible = drawn(y, 2 * s + 2).astype(float)
    np.testing.assert_array_equal(chains.visible, visible)
    for found, expected in zip(sums, totals, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype is np.float32 else 1e-12)
    extreme = np.array([[-1e6, 1e6, 0.0]])
    out = np.empty_like(extreme)
    draw_rows(extreme, np.zeros((1, 3)), keys[:1], 0, out)
    assert out[0, :2].tolist() == [0.0, 1.0] and np.isfinite(extreme).all()
