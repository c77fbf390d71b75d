"""Samples have the law they claim: exact moments, exact binomial tails, fixed seeds.

Each test looks at m counts and fails if one of them has a two-sided binomial tail below 1e-6 / m: with correct code a
fresh seed would raise a false alarm once in a million tests at most. Seeds are fixed, so a pass stays a pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import beliefs as bl
import reference
from beliefs.inference import Task
from families import evidence, family, oracle, random_model, sprinkler

FALSE_ALARM = 1e-6
N = 20_000
SAMPLERS = [cls.name for cls in bl.METHODS if Task.SAMPLE in cls.tasks and "exact" in cls.guarantee]
NAMES = ["grid", "higher_order", "hard_zeros", "parity", "disconnected", "mixed_cardinalities", "tied_tables",
         "isolated_variables", "no_factors", "strong_couplings", "bayesian_network", "star"]  # fmt: skip


def smallest_tail(counts: np.ndarray, n: int, p: np.ndarray) -> float:
    """The smallest two-sided binomial tail among some counts, times their number (Bonferroni)."""
    counts, p = counts.ravel(), np.clip(p.ravel(), 0.0, 1.0)
    tail = 2 * np.minimum(stats.binom.cdf(counts, n, p), stats.binom.sf(counts - 1, n, p))
    return float(np.min(np.minimum(tail, 1.0)) * counts.size)


def table_counts(samples: np.ndarray, scope: list[int], shape: tuple[int, ...]) -> np.ndarray:
    """How often each joint state of some variables was drawn."""
    flat = np.zeros(len(samples), np.int64)
    for v, k in zip(scope, shape, strict=True):
        flat = flat * k + samples[:, v]
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


def check_law(samples: np.ndarray, joint: np.ndarray) -> None:
    """Compare the counts of every variable and every pair of neighbours in index with the oracle's probabilities."""
    n_vars = joint.ndim
    scopes = [[v] for v in range(n_vars)] + [[v, v + 1] for v in range(n_vars - 1)]
    scopes += [[0, n_vars - 1]] if n_vars > 2 else []
    counts, p = [], []
    for scope in scopes:
        shape = tuple(joint.shape[v] for v in scope)
        counts.append(table_counts(samples, scope, shape).ravel())
        p.append(reference.marginal(joint, scope).ravel())
    assert smallest_tail(np.concatenate(counts), len(samples), np.concatenate(p)) > FALSE_ALARM


@pytest.mark.parametrize("observed", [0, 2])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", SAMPLERS)
def test_variables_and_pairs_have_exact_frequencies(method: str, name: str, observed: int) -> None:
    given = family(name).condition(evidence(name, observed))
    result = bl.sample(given, N, method, seed=11)
    assert result.bound is bl.Bound.EXACT
    check_law(result.samples, oracle(name, observed))


@pytest.mark.parametrize("method", SAMPLERS)
def test_whole_joint_states_have_exact_frequencies(method: str) -> None:
    """72 joint states, so that nothing beyond pairs is missed."""
    graph = random_model([2, 3, 2, 3, 2], [(0, 1, 2), (2, 3), (3, 4), (4, 0), (1,)], seed=3, zeros=0.1)
    joint = reference.joint_table(graph)
    samples = bl.sample(graph, 5 * N, method, seed=7).samples
    counts = table_counts(samples, list(range(5)), joint.shape)
    assert smallest_tail(counts, len(samples), reference.probabilities(joint)) > FALSE_ALARM


@pytest.mark.parametrize("method", SAMPLERS)
def test_draws_are_independent_of_one_another(method: str) -> None:
    """Pairs of successive draws of two variables, and the correlation of successive scores."""
    graph = random_model([2, 3, 2], [(0, 1), (1, 2)], seed=5)
    joint = reference.joint_table(graph)
    samples = bl.sample(graph, 2 * N, method, seed=13).samples
    p = reference.marginal(joint, [0, 1]).ravel()
    state = samples[:, 0] * 3 + samples[:, 1]
    pairs = np.bincount(state[0::2] * 6 + state[1::2], minlength=36)
    assert smallest_tail(pairs, N, np.outer(p, p)) > FALSE_ALARM
    score = graph.log_scores(samples)
    score = (score - score.mean()) / score.std()
    z = float(score[1:] @ score[:-1]) / np.sqrt(len(score))
    assert abs(z) < stats.norm.isf(FALSE_ALARM / 2)


@pytest.mark.parametrize("method", SAMPLERS)
def test_beyond_the_range_of_floats(method: str) -> None:
    """Weights of exp(-900) and exp(-901): the law is decided in the log domain."""
    equal = np.where(np.eye(2, dtype=bool), 0.0, -np.inf)
    tables: list[Any] = [((0,), [-900.0, -901.0]), ((0, 1), equal), ((1,), [-600.0, -600.0])]
    graph = bl.FactorGraph.from_tables([2, 2], tables, log=True)
    samples = bl.sample(graph, N, method, seed=17).samples
    assert (samples[:, 0] == samples[:, 1]).all()
    p = 1 / (1 + np.exp(-1.0))
    assert smallest_tail(np.bincount(samples[:, 0]), N, np.array([p, 1 - p])) > FALSE_ALARM


def test_the_expected_score_is_that_of_the_model() -> None:
    """E log p(x) over draws against its exact value, as a z-score."""
    graph = family("grid")
    joint = reference.joint_table(graph)
    p = reference.probabilities(joint)
    mean, second = float((p * joint).sum()), float((p * joint**2).sum())
    score = graph.log_scores(bl.sample(graph, N, seed=19).samples)
    z = (score.mean() - mean) / np.sqrt((second - mean**2) / N)
    assert abs(z) < stats.norm.isf(FALSE_ALARM / 2)


def test_ancestral_samples_of_a_bayesian_network() -> None:
    check_law(sprinkler().sample(N, seed=23), oracle("bayesian_network"))


@pytest.mark.parametrize("seed", range(3))
def test_every_seed_gives_the_same_law_and_other_draws(seed: int) -> None:
    samples = bl.sample(family("complete"), N, seed=seed).samples
    check_law(samples, oracle("complete"))
    assert samples.tobytes() != bl.sample(family("complete"), N, seed=seed + 1).samples.tobytes()


def test_the_check_finds_a_wrong_law() -> None:
    """Draws from potentials off by a tenth must be caught, or the tests above mean nothing."""
    graph = family("grid")
    wrong = graph.with_theta(graph.theta * 1.1)
    with pytest.raises(AssertionError):
        check_law(bl.sample(wrong, N, seed=11).samples, oracle("grid"))
