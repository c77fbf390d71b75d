"""Four exponentials at once: as near to the true value as one can write it, also inside reassociating kernels."""

from __future__ import annotations

import numpy as np
import pytest

from beliefs.kernels._jit import linear_kernel
from beliefs.kernels.exponential import exp4
from beliefs.kernels.machine import address
from beliefs.kernels.simd import load4, store4


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


def test_zero_far_below_and_one_at_zero() -> None:
    out = np.empty(4)
    exponentials(np.array([0.0, -708.0, -1e300, -np.inf]), out)
    assert out.tolist() == [1.0, 0.0, 0.0, 0.0]
    exponentials(np.array([-707.99, 1.0, np.log(2.0), -1.0]), out)
    assert out == pytest.approx([np.exp(-707.99), np.e, 2.0, 1 / np.e], rel=1e-15)
