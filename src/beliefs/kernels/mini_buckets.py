"""Symbolic mini-bucket elimination: which functions of a bucket are multiplied together, by their scopes alone."""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Ints

__all__ = ["partition_buckets"]


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


def partition_buckets(scope_ptr: Ints, scope: Ints, n_vars: int, most: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Play mini-bucket elimination; return cluster offsets, cluster scopes, parents and each factor's cluster.

    As :func:`play_mini_buckets` writes them, with room until they fit.
    """
    n_factors = scope_ptr.size - 1
    n_most, n_axes = n_vars + n_factors + 16, 2 * scope.size + 16
    while True:
        ptr, axes, host = np.empty(n_most, np.int64), np.empty(n_axes, np.int64), np.empty(n_most, np.int64)
        n = play_mini_buckets(scope_ptr, scope, n_vars, most, ptr, axes, host)
        if n >= 0:
            return ptr[: n + 1].copy(), axes[: ptr[n]].copy(), host[n_factors : n_factors + n].copy(), host[:n_factors]
        n_most, n_axes = 4 * n_most, 4 * n_axes + most


@twofold_kernel(cost=3.0)
def play_mini_buckets(scope_ptr: Ints, scope: Ints, n_vars: int, most: int, ptr: Ints, axes: Ints, host: Ints) -> int:
    """Write cluster offsets and scopes, and the clusters of factors, then of messages; return how many there are.

    -1 if there is too little room in ``ptr``, ``axes`` or ``host``.

    Variables are named by their position in the order; ``scope`` lists each factor's in ascending order. The functions
    of bucket ``i`` (factors and messages whose first variable is ``i``) are taken largest first, ties by age, and each
    joins the first mini-bucket whose union with it has at most ``most`` variables or contains it already; else it
    opens one. Each mini-bucket is a cluster; its message lacks ``i`` and goes to the bucket of its next variable. A
    factor with an empty scope has no cluster, -1. Clusters come out children first, those of a bucket together.
    Cost: for each bucket, functions times mini-buckets times their size.
    """
    n_factors = scope_ptr.size - 1
    first = np.full(n_vars, -1, np.int64)  # functions of a bucket, as a linked list
    follow = np.full(host.size, -1, np.int64)
    host[:] = -1  # of factors, then of messages (message c is function n_factors + c)
    for f in range(n_factors - 1, -1, -1):
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
            size = scope_ptr[g + 1] - scope_ptr[g] if g < n_factors else ptr[g - n_factors + 1] - ptr[g - n_factors] - 1
            longest = max(longest, size)
            count += 1
            g = follow[g]
        if count == 0:
            continue
        functions = np.empty(count, np.int64)
        sizes = np.empty(count, np.int64)
        g, k = first[i], 0
        while g >= 0:
            functions[k] = g
            sizes[k] = (
                scope_ptr[g + 1] - scope_ptr[g] if g < n_factors else ptr[g - n_factors + 1] - ptr[g - n_factors] - 1
            )
            k += 1
            g = follow[g]
        by_size = np.argsort(functions)  # oldest first
        functions, sizes = functions[by_size], sizes[by_size]
        by_size = np.argsort(-sizes, kind="mergesort")
        members = np.empty((count, max(longest, most)), np.int64)
        length = np.zeros(count, np.int64)
        merged = np.empty(2 * max(longest, most), np.int64)
        n_parts = 0
        for k in by_size:
            g = functions[k]
            if g < n_factors:
                own = scope[scope_ptr[g] : scope_ptr[g + 1]]
            else:
                own = axes[ptr[g - n_factors] + 1 : ptr[g - n_factors + 1]]
            part = 0
            while part < n_parts:
                union = _union_size(members[part, : length[part]], own)
                if union <= most or union == length[part]:
                    break
                part += 1
            if part == n_parts:
                n_parts += 1
            size = _merge(members[part], length[part], own, merged)
            members[part, :size] = merged[:size]
            length[part] = size
            host[g] = n_clusters + part
        for part in range(n_parts):
            c = n_clusters + part
            if c + 2 > ptr.size or ptr[c] + length[part] > axes.size or n_factors + c + 1 > host.size:
                return -1
            axes[ptr[c] : ptr[c] + length[part]] = members[part, : length[part]]
            ptr[c + 1] = ptr[c] + length[part]
            if length[part] > 1:
                to = members[part, 1]
                follow[n_factors + c] = first[to]
                first[to] = n_factors + c
        n_clusters += n_parts
    return n_clusters
