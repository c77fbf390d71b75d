"""Working memory that is used again: no array is in two hands, and giving back runs no code."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
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


class Owner:
    """Whoever works in an array."""


def python_calls(act: Callable[[], Any]) -> list[str]:
    """Return the names of the functions of Python that run while something is done; other people's hooks are off."""
    seen: list[str] = []
    before, hooks = sys.getprofile(), gc.callbacks[:]
    gc.callbacks.clear()
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name) if event == "call" else None)
    try:
        act()
    finally:
        sys.setprofile(before)
        gc.callbacks[:] = hooks
    return [name for name in seen if name != act.__name__]


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> buffer_pool._Kept:
    """A pool that begins empty."""
    kept = buffer_pool._Kept()
    monkeypatch.setattr(buffer_pool, "_kept", kept)
    return kept


@pytest.mark.parametrize("cyclic", [False, True])
def test_no_python_runs_when_an_owner_dies(pool: buffer_pool._Kept, cyclic: bool) -> None:
    """Ctrl-C within what runs then would be printed and lost; the array is used again all the same."""
    owners: list[Any] = [Owner()]
    array = buffer_pool.take(6000)
    place = array.ctypes.data
    buffer_pool.lend(owners[0], array)
    del array
    assert buffer_pool.take(6000).ctypes.data != place
    if cyclic:
        gc.collect()
        owners[0].itself = owners[0]
        assert python_calls(owners.clear) == [] == python_calls(gc.collect)
    else:
        assert python_calls(owners.clear) == []
    assert buffer_pool.take(6000).ctypes.data == place
    assert pool.n_bytes == 0 == len(pool.lent)


def test_no_python_runs_when_beliefs_of_a_run_die(pool: buffer_pool._Kept) -> None:
    states: list[Any] = [bl.BP().init(Problem(bl.datasets.make_ising_grid(40, seed=0)))]
    runs: list[Any] = [Truncated(method=bl.TRW(), n_sweeps=3).run(bl.datasets.make_ising_grid(40, seed=0))]
    assert len(pool.lent) > 4
    assert python_calls(states.clear) == [] == python_calls(runs.clear)
    pool.begin()
    assert not pool.lent and pool.arrays


def test_what_is_lent_and_kept_stays_below_the_limit(pool: buffer_pool._Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_pool, "_limit", lambda: 8 * 20_000.0)
    owners = [Owner() for _ in range(5)]
    buffer_pool.put_back(np.empty(9000))
    for owner in owners:
        buffer_pool.lend(owner, np.empty(6000))
    assert len(pool.lent) == 3 and not pool.arrays and pool.n_bytes == 8 * 18_000
    owners.clear()
    pool.begin()
    assert len(pool.arrays) == 3 and not pool.lent and pool.n_bytes == 8 * 18_000


def test_an_interrupted_change_leaves_an_empty_pool(pool: buffer_pool._Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a change would have other arrays found later than those that are there."""
    owner = Owner()
    buffer_pool.put_back(np.empty(5000))
    buffer_pool.lend(owner, np.empty(7000))
    for act in (lambda: buffer_pool.put_back(np.empty(6000)), lambda: buffer_pool.take(5000)):
        with monkeypatch.context() as patched:
            patched.setattr(buffer_pool, "insort", interrupted)
            patched.setattr(pool, "_out", interrupted)
            with pytest.raises(KeyboardInterrupt):
                act()
        assert buffer_pool.take(5000).size == 5000
        assert pool.whole and not pool.arrays and not pool.sizes and not pool.lent and pool.n_bytes == 0
        buffer_pool.put_back(np.empty(5000))
    del owner
    assert buffer_pool.take(7000).size == 7000


def interrupted(*_: Any) -> Any:
    raise KeyboardInterrupt


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


def test_scaled_tables_are_one_questions_own_and_then_the_next_ones(pool: buffer_pool._Kept) -> None:
    first, second = (bl.datasets.make_ising_grid(40, seed=seed) for seed in (0, 1))
    state: Any = bl.BP().init(Problem(first))
    psi, answer = state.tier.pairs.psi.copy(), bl.infer(first, "bp")
    bl.infer(second, "bp")
    assert np.array_equal(state.tier.pairs.psi, psi)
    assert np.array_equal(answer.mu, bl.infer(first, "bp").mu)  # tables that are made after the question
    used = state.tier.pairs.psi.ctypes.data
    pool.shrink(0)
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
