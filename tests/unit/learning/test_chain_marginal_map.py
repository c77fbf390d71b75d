"""Best outputs of chains with hidden labels summed out: against the joint table, and against the kernel in logs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from beliefs.kernels.chains.marginal_map import NARROW, marginal_map, n_room_of_maps
from beliefs.kernels.chains.two_temperatures import Powers
from beliefs.learning.chains.union import (
    ChainUnion,
    Chunk,
    Pairs,
    power_of,
    rows_for,
    summed_table,
)
from beliefs.typing import Bools, Floats


@dataclass(frozen=True)
class Case:
    """A union, its rows and table, what is hidden, and the temperature of that."""

    union: ChainUnion
    rows: Floats
    table: Floats
    hidden: Bools
    weight: Floats
    eps: float

    @property
    def chunk(self) -> Chunk:
        return Chunk(0, self.union.n_chains, 0, self.union.n_tokens)


def case(states: int, lengths: tuple[int, ...], eps: float = 1.0, scale: float = 1.0, seed: int = 0) -> Case:
    rng = np.random.default_rng([states, seed])
    union = ChainUnion(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), states)
    rows = rows_for(union.n_tokens, states)
    rows[:, :states] = scale * rng.normal(size=(union.n_tokens, states))
    table = scale * rng.normal(size=(states, states))
    weight = 0.5 + rng.random(union.n_chains)
    return Case(union, rows, table, rng.random(union.n_tokens) < rng.choice([0.2, 0.5, 0.8]), weight, eps)


def fast(given: Case) -> tuple[Floats, Floats, Floats]:
    """Values, gradients in the potentials, and in the table."""
    rows, value = given.rows.copy(), np.zeros(given.union.n_chains)
    summed = summed_table(given.table, Pairs.build(given.table / given.eps), given.eps)
    wide = np.zeros(value.size, np.bool_)
    pairs = given.union.marginal_maps(given.chunk, rows, summed, given.hidden, given.weight, wide, value)
    return value, rows[:, : given.union.n_states], pairs


def in_logs(given: Case) -> tuple[Floats, Floats, Floats]:
    rows, value = given.rows.copy(), np.zeros(given.union.n_chains)
    powers, wide = Powers(power_of(given.table, 0.0), power_of(given.table, given.eps)), np.ones(value.size, np.bool_)
    pairs = given.union.power_sums(given.chunk, rows, powers, given.hidden, given.weight, wide, value)
    return value, rows[:, : given.union.n_states], pairs


def enumerated(given: Case) -> tuple[Floats, Floats, Floats]:
    """All labellings of each chain written out."""
    union, k, eps = given.union, given.union.n_states, given.eps
    value, mu, pairs = np.zeros(union.n_chains), np.zeros((union.n_tokens, k)), np.zeros((k, k))
    for s, (a, b) in enumerate(itertools.pairwise(union.starts.tolist())):
        states = np.array(list(itertools.product(range(k), repeat=b - a)))
        scores = given.rows[np.arange(a, b), states].sum(axis=1) + given.table[states[:, :-1], states[:, 1:]].sum(
            axis=1
        )
        outputs = ~given.hidden[a:b]
        _, group = np.unique(states[:, outputs], axis=0, return_inverse=True)
        top = scores.max()
        sums = np.bincount(group.reshape(-1), np.exp((scores - top) / eps))
        value[s] = top + eps * np.log(sums.max())
        share = np.where(group.reshape(-1) == sums.argmax(), np.exp((scores - top) / eps) / sums.max(), 0.0)
        for t in range(b - a):
            mu[a + t] = given.weight[s] * np.bincount(states[:, t], share, k)
        for t in range(1, b - a):
            np.add.at(pairs, (states[:, t - 1], states[:, t]), given.weight[s] * share)
    return value, mu, pairs


def check(found: tuple[Floats, Floats, Floats], expected: tuple[Floats, Floats, Floats], tol: float) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tol, atol=tol)


@pytest.mark.parametrize("eps", [1.0, 0.3, 4.0])
@pytest.mark.parametrize(
    "states, lengths", [(1, (1, 3)), (2, (1, 6, 7, 2, 8)), (3, (5, 6, 1)), (5, (4, 2, 5)), (9, (3, 3))]
)
def test_all_labellings_written_out(states: int, lengths: tuple[int, ...], eps: float) -> None:
    for seed in range(8):
        given = case(states, lengths, eps, seed=seed)
        check(fast(given), enumerated(given), 1e-10)
        check(in_logs(given), enumerated(given), 1e-10)


@pytest.mark.parametrize("states", [4, 13, 26, 40])
@pytest.mark.parametrize("eps, scale", [(1.0, 0.1), (1.0, 1.0), (0.5, 4.0), (1.0, 12.0)])
def test_long_chains_as_in_logs(states: int, eps: float, scale: float) -> None:
    """Runs of many hidden tokens, and rows of labels that are left out because another is ahead."""
    for seed in range(3):
        given = case(states, (1, 40, 9, 17), eps, scale, seed)
        assert np.ptp(given.rows[:, :states], axis=1).max() <= NARROW * eps
        check(fast(given), in_logs(given), 1e-9)


def test_digits_are_kept_at_the_limit() -> None:
    """All that is spanned is spanned: each label leads by 120 temperatures or follows by as much."""
    rng = np.random.default_rng(0)
    given = case(5, (12, 7), 0.5)
    given.rows[:, :5] = 0.5 * NARROW * rng.integers(0, 2, (19, 5)) + 0.1 * rng.random((19, 5))
    given.rows[:, :5] = np.minimum(given.rows[:, :5], 0.5 * NARROW)
    given.table[:] = np.minimum(0.5 * NARROW * rng.integers(0, 2, (5, 5)) + 0.1 * rng.random((5, 5)), 0.5 * NARROW)
    check(fast(given), in_logs(given), 1e-9)


def test_ties_go_to_the_smallest_label() -> None:
    given = case(6, (5, 4))
    given.rows[:, :6], given.table[:] = 0.0, 0.0
    _, mu, _ = fast(given)
    assert (mu[~given.hidden, 0] == given.weight[np.repeat([0, 1], [5, 4])][~given.hidden]).all()


def test_wide_chains_are_left_alone() -> None:
    given = case(3, (3, 4))
    rows, value, room = given.rows.copy(), np.full(2, 7.0), np.empty(n_room_of_maps(4, 4))
    summed, onto = summed_table(given.table, Pairs.build(given.table), 1.0), np.zeros((2, 12))
    wide = np.array([False, True])
    chains = given.union.chains(given.chunk)
    marginal_map(chains, summed, given.hidden, given.weight, wide, rows.reshape(-1), room, value, *onto)
    assert value[1] == 7.0 and (rows[3:] == given.rows[3:]).all() and value[0] != 7.0
