"""What an elimination order costs, without eliminating: the elimination tree and the size of every clique.

Eliminating along an order adds edges; the first neighbour of i that is eliminated after it is its *parent* in the
elimination tree. The clique of j holds each i whose *row subtree* (all k with an edge i - k after filling, rooted at i)
passes through j. A row subtree is known by its leaves, and the leaves are found by one scan of the original edges in
postorder: weight w_i is added at each leaf, taken away where two paths of i meet and above i, and summed up the tree
(Gilbert, Ng and Peyton, 1994, count the entries of sparse Cholesky factors so). So widths and table sizes of a million
variables cost a near-linear scan, for any width.
"""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Floats, Ints

__all__ = ["clique_sizes", "elimination_tree", "postorder"]


@twofold_kernel
def elimination_tree(ptr: Ints, adj: Ints, order: Ints, position: Ints, parent: Ints) -> None:
    """Write the parent of each position of the order, -1 at roots.

    ``position[order[i]] == i``; vertices outside the order have position -1. Path compression makes it near-linear in
    the edges. Shapes: ``order``, ``parent (m,)``; ``position (n,)``.
    """
    ancestor = np.empty(order.shape[0], np.int64)
    for i in range(order.shape[0]):
        parent[i], ancestor[i] = -1, -1
        for e in range(ptr[order[i]], ptr[order[i] + 1]):
            k = position[adj[e]]
            while k != -1 and k < i:
                above = ancestor[k]
                ancestor[k] = i
                if above == -1:
                    parent[k] = i
                k = above


@twofold_kernel
def postorder(parent: Ints, priority: Ints, post: Ints) -> None:
    """Write the positions so that each subtree is contiguous and children precede parents.

    Children are visited in the reverse of their order in ``priority``, a permutation. Shapes: ``(m,)``. Linear.
    """
    m = parent.shape[0]
    child, sibling, stack = np.full(m + 1, -1, np.int64), np.empty(m, np.int64), np.empty(m + 1, np.int64)
    for k in range(m):
        i = priority[k]
        above = parent[i] if parent[i] >= 0 else m
        sibling[i], child[above] = child[above], i
    depth, count = 1, 0
    stack[0] = m
    while depth > 0:
        i = stack[depth - 1]
        if child[i] >= 0:
            stack[depth] = child[i]
            child[i] = sibling[child[i]]
            depth += 1
        else:
            depth -= 1
            if i < m:
                post[count] = i
                count += 1


@twofold_kernel
def clique_sizes(
    ptr: Ints, adj: Ints, order: Ints, position: Ints, weight: Floats, parent: Ints, size: Ints, total: Floats
) -> None:
    """Write parent, number of vertices and total weight of the clique at each position of the order.

    Equivalent to, playing the elimination game::

        clique = [order[i]] + neighbours(order[i]); size[i] = len(clique); total[i] = weight[clique].sum()

    Shapes: ``parent, size, total (m,)`` by position; ``position, weight (n,)`` by vertex. Cost: near-linear in the
    edges of the graph, whatever the cliques. Numerics: totals are sums and differences of weights, so exact for
    integers and good to rounding otherwise.
    """
    m = order.shape[0]
    post, first, priority = np.empty(m, np.int64), np.full(m, -1, np.int64), np.empty(m, np.int64)
    reach, leaf, ancestor = np.full(m, -1, np.int64), np.full(m, -1, np.int64), np.empty(m, np.int64)
    elimination_tree(ptr, adj, order, position, parent)
    for i in range(m):
        priority[i], ancestor[i] = m - 1 - i, i
    postorder(parent, priority, post)
    for k in range(m):
        j = post[k]
        is_leaf = first[j] == -1
        size[j], total[j] = (1, weight[order[j]]) if is_leaf else (0, 0.0)
        while j != -1 and first[j] == -1:
            first[j] = k
            j = parent[j]
    for k in range(m):
        j = post[k]
        if parent[j] >= 0:  # the row subtree of j ends at j
            size[parent[j]] -= 1
            total[parent[j]] -= weight[order[j]]
        for e in range(ptr[order[j]], ptr[order[j] + 1]):
            i = position[adj[e]]
            if i <= j or first[j] <= reach[i]:
                continue
            last = leaf[i]  # j is a new leaf of the row subtree of i; its last leaf was this
            reach[i], leaf[i] = first[j], j
            size[j] += 1
            total[j] += weight[order[i]]
            if last >= 0:
                meet = last
                while meet != ancestor[meet]:
                    meet = ancestor[meet]
                while last != meet:
                    last, ancestor[last] = ancestor[last], meet
                size[meet] -= 1
                total[meet] -= weight[order[i]]
        if parent[j] >= 0:
            ancestor[j] = parent[j]
    for j in range(m):
        if parent[j] >= 0:
            size[parent[j]] += size[j]
            total[parent[j]] += total[j]
