"""Shards: sums in an order that nobody's share changes, and packing that keeps what kernels look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import beliefs as bl
from beliefs.learning.shards import Missing, Request, drop, evaluate, merged, n_held, packed, put, unpacked

pytest.importorskip("cloudpickle", reason="dask is not installed: pip install 'beliefs[cluster]'")


@dataclass(frozen=True)
class Number:
    value: float

    def plus(self, other: Number) -> Number:
        return Number(self.value + other.value)


def test_the_order_of_a_sum_is_nobodys_share() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 7, 16, 33):
        leaves = {(0, k): Number(float(x)) for k, x in enumerate(rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n))}
        (whole,) = merged(leaves, n).values()
        for n_workers in (1, 2, 3, 5):
            homes = rng.integers(0, n_workers, n)
            shares = [merged({k: v for k, v in leaves.items() if homes[k[1]] == w}, n) for w in range(n_workers)]
            (found,) = merged({k: v for share in shares for k, v in share.items()}, n).values()
            assert found == whole
    neighbours = merged({(0, k): Number(1.0) for k in range(8)}, 64)
    assert neighbours == {(3, 0): Number(8.0)}


def test_packing_keeps_layouts_one_and_arrays_read_only() -> None:
    graph = bl.datasets.make_ising_grid(3, seed=0)
    twin = bl.datasets.make_ising_grid(3, seed=1)
    first, second = unpacked(packed(graph)), unpacked(packed(twin))
    assert first.layout is second.layout and first.layout.equals(graph.layout)
    assert not first.theta.flags.writeable and first.theta.tobytes() == graph.theta.tobytes()
    assert unpacked(packed(np.arange(3.0))).flags.writeable
    assert bl.infer(first).log_z == bl.infer(graph).log_z


def test_what_is_not_held_is_named() -> None:
    try:
        put("here/data/0", packed([1.0, 2.0, 4.0]), True)
        request = Request("here/job", 3.0, 1, (0,), ("here/data/0",))
        assert evaluate(request, 1) == Missing(("here/job",))
        put("here/job", packed(lambda items, state, factor: Number(factor * sum(items))), False)
        assert evaluate(request, 1) == {(0, 0): Number(21.0)}
        some = Request("here/job", 3.0, 1, (0,), ("here/data/0",), ((0, 2),))
        assert evaluate(some, 2) == {(0, 0): Number(15.0)}
        assert n_held() == 1
    finally:
        assert drop("here/") == 2
    assert n_held() == 0
