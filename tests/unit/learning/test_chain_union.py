"""Sums, best labellings and samples of unions of chains, against the joint table written out."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
from beliefs.learning.chains.union import ChainUnion, rows_for
from beliefs.learning.parallel import Threads
from beliefs.typing import Floats, Ints
from reference import joint_table, log_z, marginal, maximum

LENGTHS = {2: (1, 2, 3, 4, 5, 6), 3: (6, 1, 5, 2, 4, 3), 5: (1, 4, 2, 3), 22: (1, 2, 3)}


def chains(
    states: int, lengths: tuple[int, ...], scale: float = 1.0, seed: int = 0
) -> tuple[ChainUnion, Floats, Floats]:
    """A union, its rows of log potentials, and a table."""
    rng = np.random.default_rng([states, seed])
    union = ChainUnion(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), states)
    rows = rows_for(union.n_tokens, states)
    rows[:, :states] = scale * rng.normal(size=(union.n_tokens, states))
    return union, rows, scale * rng.normal(size=(states, states))


def graph(unary: Floats, table: Floats) -> bl.FactorGraph:
    n = len(unary)
    return bl.FactorGraph.pairwise(unary, np.stack([np.arange(n - 1), np.arange(1, n)], axis=1), table)


def pieces(union: ChainUnion, rows: Floats, table: Floats) -> list[tuple[slice, bl.FactorGraph]]:
    spans = [slice(int(a), int(b)) for a, b in zip(union.starts[:-1], union.starts[1:], strict=True)]
    return [(span, graph(rows[span, : union.n_states], table)) for span in spans]


@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("states", LENGTHS)
def test_posteriors_are_those_of_the_joint_table(states: int, scale: float) -> None:
    """Also where potentials span thousands of nats, where the linear domain hands over to the logs."""
    union, rows, table = chains(states, LENGTHS[states], scale)
    found, mu, pairs = union.marginals(rows.copy(), table, Threads(1))
    expected = np.zeros((states, states))
    for s, (span, model) in enumerate(pieces(union, rows, table)):
        joint = joint_table(model)
        assert found[s] == pytest.approx(log_z(joint), rel=1e-13, abs=1e-11)
        for t in range(joint.ndim):
            np.testing.assert_allclose(mu[span][t], marginal(joint, [t]), rtol=1e-9, atol=1e-12)
            if t:
                expected += marginal(joint, [t - 1, t])
    np.testing.assert_allclose(pairs, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("spread", [0.0, 290.0, 310.0])
def test_small_posteriors_keep_their_digits_on_both_sides_of_the_limit(spread: float) -> None:
    """The second label of the middle token, by potentials that differ by hundreds of nats."""
    union = ChainUnion(np.array([0, 3]), 2)
    rows = rows_for(3, 2)
    rows[1, 1] = -spread
    table = np.array([[0.0, -spread], [-spread / 2, 0.25]])
    joint = joint_table(graph(rows[:, :2].copy(), table))
    _, mu, pairs = union.marginals(rows, table, Threads(1))
    np.testing.assert_allclose(mu[1], marginal(joint, [1]), rtol=1e-12)
    np.testing.assert_allclose(pairs, marginal(joint, [0, 1]) + marginal(joint, [1, 2]), rtol=1e-12)


def test_two_domains_agree_on_one_long_chain() -> None:
    """A token that spans much sends its whole chain to the logs; elsewhere it changes nothing."""
    union, rows, table = chains(5, (2000,))
    plain = union.marginals(rows.copy(), table, Threads(1))
    rows[1000, 0] -= 1e4  # impossible in effect
    far = union.marginals(rows.copy(), table, Threads(1))
    rows[1000, 0] = -200.0
    near = union.marginals(rows.copy(), table, Threads(1))
    assert far[0] == pytest.approx(near[0], rel=1e-13)
    np.testing.assert_allclose(far[1], near[1], rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(far[2], near[2], rtol=1e-10)
    assert plain[1].sum(axis=1) == pytest.approx(np.ones(2000), abs=1e-13)
    assert plain[2].sum() == pytest.approx(1999, rel=1e-12)
    exact = bl.infer(graph(chains(5, (2000,))[1][:, :5], table), "junction_tree")
    assert plain[0][0] == pytest.approx(exact.log_z, rel=1e-13)
    np.testing.assert_allclose(plain[1].ravel(), exact.mu_var, atol=1e-12)


def test_posteriors_move_with_log_z() -> None:
    """Posteriors are the derivatives of log Z, by central differences in a random direction."""
    union, rows, table = chains(22, (7, 1, 12))
    rng = np.random.default_rng(5)
    along, turn, step = rng.normal(size=rows.shape), rng.normal(size=table.shape), 1e-5
    _, mu, pairs = union.marginals(rows.copy(), table, Threads(1))
    high, low = (union.marginals(rows + h * along, table + h * turn, Threads(1))[0].sum() for h in (step, -step))
    assert (high - low) / (2 * step) == pytest.approx((mu * along[:, :22]).sum() + (pairs * turn).sum(), rel=1e-8)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize("states", LENGTHS)
def test_best_labels_have_the_largest_score(states: int, scale: float) -> None:
    union, rows, table = chains(states, LENGTHS[states], scale)
    labels, score = union.best(rows, table, Threads(1))
    for s, (span, model) in enumerate(pieces(union, rows, table)):
        joint = joint_table(model)
        assert score[s] == pytest.approx(maximum(joint), rel=1e-12)
        assert joint[tuple(labels[span])] == pytest.approx(maximum(joint), rel=1e-12)


def test_ties_go_to_the_smallest_label() -> None:
    union, rows = ChainUnion(np.array([0, 4]), 3), rows_for(4, 3)
    assert union.best(rows, np.zeros((3, 3)), Threads(1))[0].tolist() == [0, 0, 0, 0]


def test_samples_follow_the_posterior() -> None:
    """Frequencies of labels and of neighbours, within five standard errors."""
    union, rows, table = chains(3, (4, 1, 3))
    n = 20_000
    drawn = union.samples(rows, table, n, 7, Threads(1))
    assert drawn.shape == (n, 8)
    mu, pairs = union.marginals(rows.copy(), table, Threads(1))[1:]
    for t in range(8):
        p = np.bincount(drawn[:, t], minlength=3) / n
        assert np.all(np.abs(p - mu[t]) <= 5 * np.sqrt(mu[t] * (1 - mu[t]) / n) + 1e-9)
    inner = [0, 1, 2, 5, 6]
    counts = sum(_pairs(drawn[:, t], drawn[:, t + 1]) for t in inner) / n
    assert np.abs(counts - pairs).max() < 5 * np.sqrt(5 * 0.25 / n)
    again = union.samples(rows, table, n, 7, Threads(2))
    np.testing.assert_array_equal(drawn, again)
    assert (union.samples(rows, table, 50, 8, Threads(1)) != drawn[:50]).any()


def _pairs(a: Ints, b: Ints) -> Floats:
    return np.bincount(a * 3 + b, minlength=9).reshape(3, 3).astype(float)


def test_sampling_survives_extremes() -> None:
    union, rows, table = chains(3, (6,), 1e3)
    best = union.best(rows, table, Threads(1))[0]
    np.testing.assert_array_equal(union.samples(rows, table, 5, 0, Threads(1)), np.tile(best, (5, 1)))


def test_threads_change_no_byte() -> None:
    lengths = tuple(1 + 37 * s % 50 for s in range(400))
    union, rows, table = chains(5, lengths)
    rows[7, 0] = 1e3
    assert len(union.chunks) > 3
    one, two = (union.marginals(rows.copy(), table, Threads(threads)) for threads in (1, 3))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(union.best(rows, table, Threads(1))[0], union.best(rows, table, Threads(2))[0])
