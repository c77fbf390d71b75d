"""Gibbs samples have the model's law after a burn-in, and the random numbers behind them are uniform and independent.

Each test looks at m counts and fails if one has a two-sided binomial tail below 1e-6 / m (see ``test_samples``). Draws
are the last states of as many independent chains, so the binomial law is exact up to what a burn-in leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import beliefs as bl
import reference
from beliefs.kernels.primitives.random import stream, uniform
from families import evidence, family, oracle

FALSE_ALARM = 1e-6
N = 6_000
NAMES = ["grid", "higher_order", "complete", "disconnected", "mixed_cardinalities", "tied_tables", "isolated_variables",
         "no_factors", "star", "bayesian_network"]  # fmt: skip


def smallest_tail(counts: np.ndarray, n: int, p: np.ndarray) -> float:
    tail = 2 * np.minimum(stats.binom.cdf(counts, n, p), stats.binom.sf(counts - 1, n, p))
    return float(np.min(np.minimum(tail, 1.0)) * counts.size)


@pytest.mark.parametrize("observed, schedule", [(0, "color"), (2, "sequential")])
@pytest.mark.parametrize("name", NAMES)
def test_variables_and_pairs_have_the_models_frequencies(name: str, observed: int, schedule: Any) -> None:
    graph, joint = family(name).condition(evidence(name, observed)), oracle(name, observed)
    samples = bl.sample(graph, N, bl.Gibbs(chains=N, burn_in=60, schedule=schedule), seed=17).samples
    counts, p = [], []
    for scope in [[v] for v in range(joint.ndim)] + [[v, v + 1] for v in range(joint.ndim - 1)]:
        table = np.zeros([joint.shape[v] for v in scope])
        np.add.at(table, tuple(samples[:, v] for v in scope), 1)
        counts.append(table.ravel())
        p.append(np.clip(reference.marginal(joint, scope).ravel(), 0.0, 1.0))
    assert smallest_tail(np.concatenate(counts), N, np.concatenate(p)) > FALSE_ALARM


def number(seed: int, chain: int, sweep: int, v: int) -> float:
    key = np.uint64(stream(np.uint64(seed), chain))  # from Python a compiled function returns plain integers
    return float(uniform(np.uint64(stream(key, sweep)), v))


def numbers(kind: str) -> np.ndarray:
    """Many successive numbers along one of the counters."""
    fixed = {"seed": 1, "chain": 3, "sweep": 5, "v": 7}
    return np.array([number(**(fixed | {kind: i})) for i in range(50_000)])


@pytest.mark.parametrize("kind", ["v", "sweep", "chain", "seed"])
def test_numbers_are_uniform_and_successive_ones_independent(kind: str) -> None:
    u = numbers(kind)
    assert (u >= 0).all() and (u < 1).all()
    bins = np.bincount((64 * u).astype(int), minlength=64)
    assert smallest_tail(bins, u.size, np.full(64, 1 / 64)) > FALSE_ALARM
    for lag in (1, 2, 3, 100):
        x, y = (8 * u[:-lag]).astype(int), (8 * u[lag:]).astype(int)
        pairs = np.bincount(8 * x + y, minlength=64)
        assert smallest_tail(pairs, x.size, np.full(64, 1 / 64)) > FALSE_ALARM
    low_bits = (u * 2**53).astype(np.int64) & 255  # the last bits are as random as the first
    assert smallest_tail(np.bincount(low_bits, minlength=256), u.size, np.full(256, 1 / 256)) > FALSE_ALARM


def test_averages_have_the_error_of_independent_chains() -> None:
    """The mean over many short chains is within five standard errors, estimated between the chains."""
    graph = family("grid")
    runs = np.array([bl.infer(graph, bl.Gibbs(chains=1), max_iters=40, seed=s).mu_var for s in range(40)])
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    assert (np.abs(runs.mean(axis=0) - reference.mu_var(oracle("grid"))) < 5.5 * error + 1e-12).all()
