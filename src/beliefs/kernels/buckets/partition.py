"""Symbolic mini-bucket elimination: which functions of a bucket are multiplied together, by their scopes alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Ints

__all__ = ["partition_buckets"]


class PartitionScratch(NamedTuple):
    """Scratch for the functions of a bucket and its mini-buckets."""

    first: Ints  # (n_vars,) functions of a bucket, as a linked list, youngest first
    follow: Ints  # (n_functions,)
    by_size: Ints  # (n_functions,)
    length: Ints  # (n_functions,) variables of each mini-bucket
    place: Ints  # (n_vars + 1,)
    merged: Ints  # (2 * widest,)
    members: Ints  # variables of the mini-buckets, in rows


@twofold_kernel
def _union_size(a: Ints, b: Ints) -> int:
    """Return the size of the union of two ascending lists."""
    i, j, size = 0, 0, 0
    while i < a.size and j < b.size:
        size += 1
        if a[i] == b[j]:
            i += 1
            j += 1
        elif a[i] < b[j]:
            i += 1
        else:
            j += 1
    return size + (a.size - i) + (b.size - j)


@twofold_kernel
def _merge(a: Ints, size: int, b: Ints, out: Ints) -> int:
    """Write the union of ``a[:size]`` and ``b``, ascending, to ``out``; return its size."""
    i, j, k = 0, 0, 0
    while i < size or j < b.size:
        if j == b.size or (i < size and a[i] < b[j]):
            out[k] = a[i]
            i += 1
        else:
            if i < size and a[i] == b[j]:
                i += 1
            out[k] = b[j]
            j += 1
        k += 1
    return k


@twofold_kernel
def _size(g: int, n_factors: int, scope_ptr: Ints, ptr: Ints) -> int:
    """Return how many variables a factor has, or a message: its cluster's without the first."""
    c = g - n_factors
    own: int = scope_ptr[g + 1] - scope_ptr[g] if c < 0 else ptr[c + 1] - ptr[c] - 1
    return own


@twofold_kernel
def _largest_first(
    head: int, follow: Ints, n_factors: int, scope_ptr: Ints, ptr: Ints, place: Ints, by_size: Ints
) -> None:
    """Write the functions of a linked list to ``by_size``, largest first, ties by age: a counting sort.

    The list has the youngest first; ``place``, zero, has an entry for each size.
    """
    g = head
    while g >= 0:
        place[_size(g, n_factors, scope_ptr, ptr)] += 1
        g = follow[g]
    end = 0
    for size in range(place.size - 1, -1, -1):
        end += place[size]
        place[size] = end  # where those of the size end, filled backwards
    g = head
    while g >= 0:
        size = _size(g, n_factors, scope_ptr, ptr)
        place[size] -= 1
        by_size[place[size]] = g
        g = follow[g]


def partition_buckets(scope_ptr: Ints, scope: Ints, n_vars: int, most: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Eliminate by mini-buckets, by scopes alone; return cluster offsets and scopes, parents and factors' clusters.

    As :func:`eliminate_mini_buckets` writes them, with room until they fit.
    """
    n_factors = scope_ptr.size - 1
    room = [n_vars + n_factors + 16, 2 * scope.size + 16, 8 * most + 64]  # functions, axes, members of a bucket
    while True:
        n_most, n_axes, n_members = room
        ptr, axes, host = (np.empty(n, np.int64) for n in (n_most, n_axes, n_most))
        sizes = n_vars, n_most, n_most, n_most, n_vars + 1, 2 * max(n_vars, most), n_members
        scratch = PartitionScratch(*(np.empty(n, np.int64) for n in sizes))
        n = eliminate_mini_buckets(scope_ptr, scope, n_vars, most, scratch, ptr, axes, host)
        del scratch  # before anything is copied
        if n >= 0:
            clusters = ptr[: n + 1].copy(), axes[: ptr[n]].copy()
            return *clusters, host[n_factors : n_factors + n].copy(), host[:n_factors].copy()
        lacking = -n - 1
        room[lacking] = 2 * room[lacking] + most


@twofold_kernel(cost=3.0)
def eliminate_mini_buckets(
    scope_ptr: Ints, scope: Ints, n_vars: int, most: int, scratch: PartitionScratch, ptr: Ints, axes: Ints, host: Ints
) -> int:
    """Write cluster offsets and scopes, and the clusters of factors, then of messages; return how many there are.

    Where there is too little room: -1 in ``ptr`` or ``host``, -2 in ``axes``, -3 in ``scratch.members``.

    Variables are named by their position in the order; ``scope`` lists each factor's in ascending order. The functions
    of bucket ``i`` (factors and messages whose first variable is ``i``) are taken largest first, ties by age, and each
    joins the first mini-bucket whose union with it has at most ``most`` variables or contains it already; else it
    opens one. Each mini-bucket is a cluster; its message lacks ``i`` and goes to the bucket of its next variable. A
    factor with an empty scope has no cluster, -1. Clusters come out children first, those of a bucket together.
    Cost: for each bucket, functions times mini-buckets times their size.
    """
    n_factors = scope_ptr.size - 1
    first, follow, by_size, length, place, merged, members = scratch
    for i in range(n_vars):
        first[i] = -1
    for g in range(host.size):
        host[g] = follow[g] = -1  # of factors, then of messages (message c is function n_factors + c)
    for f in range(n_factors):
        if scope_ptr[f] < scope_ptr[f + 1]:
            i = scope[scope_ptr[f]]
            follow[f] = first[i]
            first[i] = f
    ptr[0] = 0
    n_clusters = 0
    for i in range(n_vars):
        count, longest = 0, 1
        g = first[i]
        while g >= 0:
            longest = max(longest, _size(g, n_factors, scope_ptr, ptr))
            count += 1
            g = follow[g]
        if count == 0:
            continue
        for size in range(longest + 1):
            place[size] = 0
        _largest_first(first[i], follow, n_factors, scope_ptr, ptr, place[: longest + 1], by_size)
        n_parts, row = 0, max(longest, most)
        for k in range(count):
            g = by_size[k]
            if g < n_factors:
                own = scope[scope_ptr[g] : scope_ptr[g + 1]]
            else:
                own = axes[ptr[g - n_factors] + 1 : ptr[g - n_factors + 1]]
            part = 0
            while part < n_parts:
                union = _union_size(members[part * row : part * row + length[part]], own)
                if union <= most or union == length[part]:
                    break
                part += 1
            if part == n_parts:
                n_parts += 1
                length[part] = 0
                if n_parts * row > members.size:
                    return -3
            size = _merge(members[part * row : part * row + row], length[part], own, merged)
            for x in range(size):
                members[part * row + x] = merged[x]
            length[part] = size
            host[g] = n_clusters + part
        for part in range(n_parts):
            c = n_clusters + part
            if c + 2 > ptr.size or n_factors + c + 1 > host.size:
                return -1
            if ptr[c] + length[part] > axes.size:
                return -2
            for x in range(length[part]):
                axes[ptr[c] + x] = members[part * row + x]
            ptr[c + 1] = ptr[c] + length[part]
            if length[part] > 1:
                to = members[part * row + 1]
                follow[n_factors + c] = first[to]
                first[to] = n_factors + c
        n_clusters += n_parts
    return n_clusters
