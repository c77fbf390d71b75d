"""Shards: sums in an order that nobody's share changes, and packing that keeps what kernels look at."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from dataclasses import dataclass

import numpy as np
import pytest

import beliefs as bl
from beliefs.errors import ModelError
from beliefs.learning.instances import Instance, Slot
from beliefs.learning.shards import (
    Missing,
    Request,
    drop,
    evaluate,
    layout_bytes,
    merged,
    n_held,
    packed,
    put,
    unpacked,
)

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


def test_a_layout_that_many_share_counts_once() -> None:
    first, other = (bl.datasets.make_ising_grid(side, seed=0).layout for side in (3, 4))

    @dataclass
    class Item:
        layout: object

    found = layout_bytes([Item(first), Item(first), Item(other), Number(1.0)])
    assert set(found) == {id(first), id(other)}
    assert found[id(first)] == 9 * first.n_vars + 8 * (3 * first.n_factors + 1 + first.n_edges)


def test_an_instance_travels_without_what_was_derived_from_it() -> None:
    layout = bl.datasets.make_ising_grid(3, seed=0).layout
    instance = Instance(layout, (), np.zeros(layout.n_vars, np.int64), 2.0, name="the third")
    before = len(packed(instance))
    assert instance.n_labelled == 9 and instance.statistics.sum() == layout.n_factors
    instance.memory.put(Slot("messages"), np.zeros(1000))
    assert len(packed(instance)) == before
    there = unpacked(packed(instance))
    assert (there.weight, there.name) == (2.0, "the third") and there.memory.get(Slot("messages")) is None
    np.testing.assert_array_equal(there.statistics, instance.statistics)


def test_what_cannot_be_sent_is_said_in_one_line() -> None:
    with pytest.raises(ModelError, match=r"lock.* cannot be sent to other processes: cannot pickle '_thread.lock'"):
        packed([threading.Lock()])


_FAULTS = """
import resource
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from beliefs.learning.shards import drop, packed, put

def faults():  # of pages, in memory that twenty evaluations work in
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        work = [np.ones(2**16) for _ in range(3)]
        del work
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def told():
    found = []
    for step in (lambda: 0, lambda: put("a", data, True), lambda: drop("a")):
        step()
        faults()
        found.append(faults())
    return found

data = packed([1])
with ThreadPoolExecutor(1) as threads:
    print(*threads.submit(told).result())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator than glibc's is not told anything")
def test_memory_is_kept_as_long_as_shards_are_held() -> None:
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run([sys.executable, "-c", _FAULTS], env=environment, capture_output=True, text=True, check=True)
    before, held, after = map(int, done.stdout.split())
    assert held < before / 20 and after > before / 2
