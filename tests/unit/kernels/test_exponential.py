"""Exponentials and logarithms, one or four at once: as near to the true value as one can write it, also inside
reassociating kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from beliefs.kernels._jit import linear_kernel
from beliefs.kernels.primitives.elementary import fast_exp, fast_log, fast_power
from beliefs.kernels.primitives.exponential import NEAR_ONE, binomials, exp4, exponentials16, log4, power_near_one4
from beliefs.kernels.primitives.memory import address, stack_memory
from beliefs.kernels.primitives.simd import load4, store4


@linear_kernel
def exponentials(x: np.ndarray, out: np.ndarray) -> None:
    for i in range(0, x.size, 4):
        store4(address(out), i, exp4(load4(address(x), i)))


def test_within_two_units_in_the_last_place() -> None:
    x = np.concatenate([np.linspace(-707.9, 709.0, 20_000), np.random.default_rng(0).normal(size=4_000)])
    out = np.empty(x.size)
    exponentials(x, out)
    true = np.exp(x.astype(np.longdouble))
    assert (np.abs(out - true) <= 2 * np.spacing(out)).all()


@linear_kernel
def sixteen_at_once(x: np.ndarray, shift: float, over: float, out: np.ndarray) -> None:
    for i in range(0, x.size, 16):
        exponentials16(address(x), i, shift, over, address(out), i)


def test_sixteen_at_once_as_four_at_once() -> None:
    x = np.concatenate([np.linspace(-707.9, 709.0, 4_000), [-708.0, -1e300], np.random.default_rng(3).normal(size=78)])
    four, sixteen = np.empty(x.size), np.empty(x.size)
    exponentials(x, four)
    sixteen_at_once(x, 0.0, 1.0, sixteen)
    assert (four == sixteen).all()
    small = x[-64:]
    exponentials((small - 0.5) * 0.75, four[:64])
    sixteen_at_once(small, 0.5, 0.75, sixteen[:64])
    assert sixteen[:64] == pytest.approx(four[:64], rel=4e-16)  # a machine may round the argument once or twice


def test_zero_far_below_and_one_at_zero() -> None:
    out = np.empty(4)
    exponentials(np.array([0.0, -708.0, -1e300, -np.inf]), out)
    assert out.tolist() == [1.0, 0.0, 0.0, 0.0]
    exponentials(np.array([-707.99, 1.0, np.log(2.0), -1.0]), out)
    assert out == pytest.approx([np.exp(-707.99), math.e, 2.0, 1 / math.e], rel=1e-15)


@linear_kernel
def logarithms(x: np.ndarray, out: np.ndarray) -> None:
    for i in range(0, x.size, 4):
        store4(address(out), i, log4(load4(address(x), i)))


@linear_kernel
def one_by_one(x: np.ndarray, exponential: np.ndarray, logarithm: np.ndarray) -> None:
    for i in range(x.size):
        exponential[i] = fast_exp(x[i])
    for i in range(x.size):
        logarithm[i] = fast_log(exponential[i])


def test_logarithms_within_two_units_in_the_last_place() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([np.exp(np.linspace(-707.0, 709.0, 20_000)), np.exp(0.3 * rng.normal(size=4_000)), np.ones(4)])
    out = np.empty(x.size)
    logarithms(x, out)
    true = np.log(x.astype(np.longdouble))
    assert (np.abs(out - true) <= 2 * np.spacing(np.abs(out)) + 1e-17).all() and out[-1] == 0.0


def test_one_by_one_as_well() -> None:
    x = np.concatenate([np.linspace(-707.0, 709.0, 20_000), np.random.default_rng(2).normal(size=4_000)])
    exponential, logarithm = np.empty(x.size), np.empty(x.size)
    one_by_one(x, exponential, logarithm)
    true = np.exp(x.astype(np.longdouble))
    assert (np.abs(exponential - true) <= 2 * np.spacing(exponential)).all()
    back = np.log(exponential.astype(np.longdouble))
    assert (np.abs(logarithm - back) <= 2 * np.spacing(np.abs(logarithm)) + 1e-17).all()
    assert fast_exp(-1e9) == pytest.approx(np.exp(-708.0)) and np.isfinite(fast_exp(1e9))
    assert fast_power(3.0, 0.3) == pytest.approx(3.0**0.3, rel=1e-15)


@linear_kernel
def powers_near_one(x: np.ndarray, exponent: float, out: np.ndarray) -> None:
    coefficients = stack_memory(8)
    binomials(exponent, coefficients)
    for i in range(0, x.size, 4):
        store4(address(out), i, power_near_one4(load4(address(x), i), coefficients))


@pytest.mark.parametrize("exponent", [0.0, 0.2, 0.5, 0.7, 1.0])
def test_powers_near_one_within_two_units_in_the_last_place(exponent: float) -> None:
    x = 1.0 + np.concatenate([np.linspace(-NEAR_ONE, NEAR_ONE, 4_000), [0.0, 1e-16, -1e-9, 1e-4]])
    out = np.empty(x.size)
    powers_near_one(x, exponent, out)
    assert (np.abs(out - x.astype(np.longdouble) ** np.longdouble(exponent)) <= 2 * np.spacing(out)).all()
