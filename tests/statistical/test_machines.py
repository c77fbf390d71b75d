"""Chains on Boltzmann machines have the machines' law, and intervals of annealed importance sampling hold the truth.

Samples are the last states of as many independent chains; a chi-square test of all visible states, and of pairs of
units, fails once in a million runs. Intervals are promised for any variance, so machines and schedules are rough.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import beliefs as bl
from beliefs.inference.boltzmann.batch_gibbs import drawn_rows
from families import MACHINES

FALSE_ALARM = 1e-6
N = 6_000


def states(n: int) -> np.ndarray:
    return np.indices((2,) * n).reshape(n, -1).T


def alike(counts: np.ndarray, p: np.ndarray) -> bool:
    """Whether counts have these probabilities, by chi-square; cells with few expected counts are taken together."""
    order = np.argsort(p)
    counts, p = counts[order], p[order]
    rare = int(np.searchsorted(np.cumsum(p) * counts.sum(), 10.0)) + 1
    counts = np.append(counts[:rare].sum(), counts[rare:])
    p = np.append(p[:rare].sum(), p[rare:])
    return bool(stats.chisquare(counts, counts.sum() * p / p.sum()).pvalue > FALSE_ALARM)


@pytest.mark.parametrize("name", ["rbm", "wide_rbm", "fractional"])
@pytest.mark.parametrize("temperatures", [1, 3])
def test_draws_have_the_machines_law(name: str, temperatures: int) -> None:
    machine: Any = MACHINES[name]()
    method = bl.Gibbs(chains=N, burn_in=40, thin=1, temperatures=temperatures)
    samples = bl.sample(machine, N, method, seed=5).samples
    n = machine.n_visible
    scores = -machine.free_energy(states(n))
    p = np.exp(scores - np.logaddexp.reduce(scores))
    codes = samples[:, :n] @ 2 ** np.arange(n)[::-1]
    assert alike(np.bincount(codes, minlength=2**n), p)
    pairs = bl.infer(machine).pairs
    both = samples[:, :n].T @ samples[:, n:]
    deviation = (both - N * pairs) / np.sqrt(N * pairs * (1 - pairs))
    assert np.abs(deviation).max() < 5.5


def test_draws_of_a_batch_have_the_law_of_each_machine() -> None:
    machine: Any = MACHINES["wide_rbm"]()
    n = machine.n_visible
    biases = np.stack([machine.visible_bias, 0.5 - machine.visible_bias])[np.arange(2 * N) % 2]
    batch = bl.RBMBatch(machine.weights, biases, np.tile(machine.hidden_bias, (2 * N, 1)))
    codes = drawn_rows(batch, 40, 5, 1).astype(np.int64) @ 2 ** np.arange(n)[::-1]
    for k in range(2):
        scores = -batch[k].free_energy(states(n))
        assert alike(np.bincount(codes[k::2], minlength=2**n), np.exp(scores - np.logaddexp.reduce(scores)))


def test_exact_samples_have_the_machines_law() -> None:
    machine = MACHINES["wide_rbm"]()
    samples = bl.sample(machine, N, "enumeration", seed=5).samples
    scores = machine.to_factor_graph().log_scores(states(10))
    counts = np.bincount(samples @ 2 ** np.arange(10)[::-1], minlength=1024)
    assert alike(counts, np.exp(scores - np.logaddexp.reduce(scores)))


def random_machine(rng: np.random.Generator, largest: int, fractions: bool) -> bl.RBM | bl.FractionalRBM:
    n, m = rng.integers(1, largest + 1, 2)
    scale = rng.uniform(0.0, 2.0)
    numbers = (scale * rng.normal(size=(n, m)), scale * rng.normal(size=n), scale * rng.normal(size=m))
    return bl.FractionalRBM(*numbers, 2.0 * rng.random(m)) if fractions else bl.RBM(*numbers)


def study(n_machines: int, largest: int) -> None:
    """Ask many machines; the truth is enumerated."""
    rng = np.random.default_rng(0)
    held, within, low, high = [], [], [], []
    for k in range(n_machines):
        machine = random_machine(rng, largest, k % 5 == 0)
        truth = bl.infer(machine, "enumeration").log_z
        base = ("visible_bias", "uniform", rng.random(machine.n_visible))[k % 3]
        method = bl.AIS(chains=100, temperatures=int(rng.integers(10, 101)), base=base, reverse=True)
        result: Any = bl.infer(machine, method, seed=k)
        lower, upper = result.interval(0.95)
        held.append(lower <= truth <= upper)
        low.append(result.log_z_base + result.log_weights.mean() - truth)
        high.append(result.log_z_base - result.log_weights_reverse.mean() - truth)
        if result.effective_sample_size > 30:
            within.append(abs(result.log_z - truth) <= 3 * result.standard_error)
        assert result.reverse_start == "exact" and result.bound is bl.Bound.ESTIMATE
        assert (result.log_lower, result.log_upper) == (-np.inf, np.inf)
    assert np.mean(held) >= 0.95
    assert len(within) > n_machines // 2 and np.mean(within) >= 0.97
    assert np.mean(low) < 0.0 < np.mean(high)  # of single chains; means over chains are nearer


def test_intervals_hold_the_truth() -> None:
    study(60, 6)


@pytest.mark.long
def test_intervals_hold_the_truth_on_many_machines() -> None:
    study(300, 10)


@pytest.mark.parametrize("name", ["rbm", "fractional"])
def test_weights_are_unbiased_both_ways(name: str) -> None:
    """With few temperatures and many chains the mean weight is Z over the base's, and its inverse on the way back."""
    machine = MACHINES[name]()
    truth = bl.infer(machine, "enumeration").log_z
    method = bl.AIS(chains=20_000, temperatures=4, base="uniform", reverse=True)
    result: Any = bl.infer(machine, method, seed=3)
    ratio = truth - result.log_z_base
    for log_weights, sign in ((result.log_weights, 1), (result.log_weights_reverse, -1)):
        w = np.exp(log_weights - sign * ratio)
        assert abs(w.mean() - 1.0) < 5.5 * w.std() / np.sqrt(w.size)


def test_weighted_averages_are_those_of_the_machine() -> None:
    machine = MACHINES["rbm"]()
    exact, found = bl.infer(machine), bl.infer(machine, bl.AIS(chains=4000, temperatures=30), seed=1)
    for name in ("visible", "hidden", "pairs"):
        np.testing.assert_allclose(getattr(found, name), getattr(exact, name), atol=0.05)
