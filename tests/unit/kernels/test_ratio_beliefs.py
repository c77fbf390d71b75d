"""Beliefs of binary variables from ratios and from their logarithms."""

from __future__ import annotations

import numpy as np
import pytest

from beliefs.kernels.messages.pairwise.binary import log_ratio_beliefs, ratio_beliefs


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 100])
@pytest.mark.parametrize("in_logs", [False, True])
def test_beliefs_and_the_largest_change(n: int, in_logs: bool) -> None:
    rng = np.random.default_rng(n)
    logs = 4.0 * rng.normal(size=n)
    observed = rng.random(n) < 0.2
    before = rng.dirichlet([1.0, 1.0], size=n)
    mu_var = before.reshape(-1).copy()
    change = log_ratio_beliefs(logs, observed, mu_var) if in_logs else ratio_beliefs(np.exp(logs), observed, mu_var)
    expected = np.stack([1.0 / (1.0 + np.exp(logs)), 1.0 / (1.0 + np.exp(-logs))], axis=1)
    expected[observed] = before[observed]
    assert mu_var.reshape(-1, 2) == pytest.approx(expected, rel=1e-14, abs=0.0)
    assert change == pytest.approx(np.abs(expected - before).max(initial=0.0), abs=1e-15)


def test_logs_of_any_size_are_saturated_not_lost() -> None:
    mu_var = np.full(10, 0.5)
    change = log_ratio_beliefs(np.array([1e300, -1e300, 800.0, -710.0, 0.0]), np.zeros(5, np.bool_), mu_var)
    assert mu_var.tolist()[1::2] == pytest.approx([1.0, 0.0, 1.0, 0.0, 0.5], abs=1e-300)
    assert (mu_var >= 0).all() and mu_var.reshape(-1, 2).sum(axis=1) == pytest.approx(np.ones(5)) and change == 0.5
