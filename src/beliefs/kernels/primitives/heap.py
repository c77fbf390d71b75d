"""A binary heap of variables whose keys may change: smallest key first, ties to the smaller index."""

from __future__ import annotations

from typing import NamedTuple

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Floats, Ints

__all__ = ["Heap", "pop", "put", "sift"]


class Heap(NamedTuple):
    """The arrays of a heap; empty at first, with ``place`` full of -1."""

    items: Ints  # (n,) the variables in it, as a binary tree
    place: Ints  # (n,) position of each variable among them, -1 outside the heap
    key: Floats  # (n,) key of each variable; after a change, :func:`put` it again
    size: Ints  # (1,) how many there are


@twofold_kernel
def _before(key: Floats, u: int, v: int) -> bool:
    """Whether ``u`` stands before ``v``."""
    return key[u] < key[v] or (key[u] == key[v] and u < v)


@twofold_kernel
def sift(heap: Heap, i: int) -> None:
    """Move the entry at ``i`` up or down to where it belongs."""
    items, place, key, size = heap.items, heap.place, heap.key, heap.size[0]
    v = items[i]
    while i > 0 and _before(key, v, items[(i - 1) // 2]):
        items[i] = items[(i - 1) // 2]
        place[items[i]] = i
        i = (i - 1) // 2
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and _before(key, items[child + 1], items[child]):
            child += 1
        if not _before(key, items[child], v):
            break
        items[i] = items[child]
        place[items[i]] = i
        i = child
    items[i] = v
    place[v] = i


@twofold_kernel
def put(heap: Heap, v: int) -> None:
    """Put ``v`` into the heap, or to its new place."""
    if heap.place[v] < 0:
        heap.items[heap.size[0]] = v
        heap.place[v] = heap.size[0]
        heap.size[0] += 1
    sift(heap, heap.place[v])


@twofold_kernel
def pop(heap: Heap) -> int:
    """Take the first variable out of the heap."""
    items, place, size = heap.items, heap.place, heap.size
    v = items[0]
    place[v] = -1
    size[0] -= 1
    if size[0] > 0:
        items[0] = items[size[0]]
        place[items[0]] = 0
        sift(heap, 0)
    return int(v)
