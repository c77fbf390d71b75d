"""A binary heap of variables whose keys may change: smallest key first, ties to the smaller index."""

from __future__ import annotations

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Floats, Ints

__all__ = ["pop", "put", "sift"]


@twofold_kernel
def _before(key: Floats, u: int, v: int) -> bool:
    """Whether ``u`` stands before ``v``."""
    return key[u] < key[v] or (key[u] == key[v] and u < v)


@twofold_kernel
def sift(heap: Ints, place: Ints, key: Floats, size: int, i: int) -> None:
    """Move the entry at ``i`` up or down to where it belongs; ``place[v]`` is its position, -1 outside the heap."""
    v = heap[i]
    while i > 0 and _before(key, v, heap[(i - 1) // 2]):
        heap[i] = heap[(i - 1) // 2]
        place[heap[i]] = i
        i = (i - 1) // 2
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and _before(key, heap[child + 1], heap[child]):
            child += 1
        if not _before(key, heap[child], v):
            break
        heap[i] = heap[child]
        place[heap[i]] = i
        i = child
    heap[i] = v
    place[v] = i


@twofold_kernel
def put(heap: Ints, place: Ints, key: Floats, size: Ints, v: int) -> None:
    """Put ``v`` into the heap, or to its new place; ``size (1,)``."""
    if place[v] < 0:
        heap[size[0]] = v
        place[v] = size[0]
        size[0] += 1
    sift(heap, place, key, size[0], place[v])


@twofold_kernel
def pop(heap: Ints, place: Ints, key: Floats, size: Ints) -> int:
    """Take the first variable out of the heap."""
    v = heap[0]
    place[v] = -1
    size[0] -= 1
    if size[0] > 0:
        heap[0] = heap[size[0]]
        place[heap[0]] = 0
        sift(heap, place, key, size[0], 0)
    return int(v)
