"""Working memory that is used again: no array is in two hands, and giving back never waits."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.base import Problem
from beliefs.inference.messages import buffer_pool
from beliefs.learning.gradients.exact import Exact
from beliefs.learning.gradients.truncated import Truncated
from beliefs.learning.instances import Instance
from beliefs.learning.losses.marginal import CliqueLogistic
from losses_reference import TEMPLATE, labelled, square


class Collected(np.ndarray):
    """An array during whose inspection the garbage collector finds another one to give back."""

    @property
    def size(self) -> int:  # type: ignore[override]
        buffer_pool.put_back(np.empty(5000))
        return 10**9


def test_memory_may_come_back_while_some_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the garbage collector does where beliefs hang in a cycle of references: in the same thread, under the lock."""
    monkeypatch.setattr(buffer_pool, "_kept", buffer_pool._Kept())
    buffer_pool._returned.append(np.empty(5000).view(Collected))
    worker = threading.Thread(target=buffer_pool.take, args=(6000,), daemon=True)
    worker.start()
    worker.join(10)
    assert not worker.is_alive()
    assert buffer_pool.take(5000).size == 5000


def test_what_is_kept_is_what_a_plain_list_would_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest that fits and is not four times too large, of equals the youngest; the oldest go first."""
    kept, plain, rng = buffer_pool._Kept(), list[np.ndarray](), np.random.default_rng(0)
    monkeypatch.setattr(buffer_pool, "_MANY", 12)
    for _ in range(3000):
        size = int(rng.choice([5000, 6000, 7000, 20_000, 40_000]))
        if rng.random() < 0.5:
            plain.append(np.empty(size))
            kept.add(plain[-1])
            limit = float(rng.choice([1e5, 5e5, 1e9]))
            kept.shrink(limit)
            while len(plain) > 12 or sum(array.nbytes for array in plain) > limit:
                plain.pop(0)
        else:
            fitting = [k for k in range(len(plain)) if size <= plain[k].size <= 4 * size]
            found = plain.pop(min(fitting, key=lambda k: (plain[k].size, -k))) if fitting else None
            assert kept.take(size) is found
        assert [id(array) for array in kept.arrays.values()] == [id(array) for array in plain]
        assert kept.n_bytes == sum(array.nbytes for array in plain) and len(kept.sizes) == len(plain)


def test_beliefs_that_live_at_once_do_not_share_memory() -> None:
    """Large enough for the pool; those of dropped beliefs are used again by the next ones."""
    grid, through = bl.datasets.make_ising_grid(40, seed=0), Truncated(method=bl.TRW(), n_sweeps=3)
    bar = np.random.default_rng(0).normal(size=grid.layout.n_states)
    first = through.run(grid)
    expected = first.pullback(bar)
    for seed in range(1, 4):  # dropped after each turn
        through.run(bl.datasets.make_ising_grid(40, seed=seed)).pullback(bar)
    second = through.run(bl.datasets.make_ising_grid(40, seed=9))
    second.pullback(bar)
    assert np.array_equal(first.pullback(bar), expected)


def test_scaled_tables_are_one_questions_own_and_then_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_pool, "_kept", buffer_pool._Kept())
    first, second = (bl.datasets.make_ising_grid(40, seed=seed) for seed in (0, 1))
    state: Any = bl.BP().init(Problem(first))
    psi, answer = state.tier.pairs.psi.copy(), bl.infer(first, "bp")
    bl.infer(second, "bp")
    assert np.array_equal(state.tier.pairs.psi, psi)
    assert np.array_equal(answer.mu, bl.infer(first, "bp").mu)  # tables that are made after the question
    used = state.tier.pairs.psi.ctypes.data
    buffer_pool._kept.shrink(0)
    del state
    again: Any = bl.BP().init(Problem(second))
    assert again.tier.pairs.psi.ctypes.data == used


def test_an_instance_with_other_labels_keeps_nothing_of_the_old_one() -> None:
    graph, loss = square(), CliqueLogistic(template=TEMPLATE, through=Exact())
    theta, old = np.array(graph.theta), labelled(graph)
    labels = (old.labels + 1) % graph.layout.card
    loss.part(theta, old)
    fresh = Instance(graph.layout, None, labels)
    assert loss.part(theta, replace(old, labels=labels)).value == loss.part(theta, fresh).value
