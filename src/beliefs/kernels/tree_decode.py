"""Reading assignments off a collected cluster tree, roots to leaves: the maximiser, or random draws."""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.tree import Tree
from beliefs.typing import Floats, Ints

__all__ = ["decode_maximum", "draw_samples"]


@kernel
def column_of(tree: Tree, c: int, row: Ints) -> int:
    """Return the column of cluster ``c``'s table that the assignment ``row (n_vars,)`` of its separator selects."""
    s = 0
    for a in range(tree.axes_ptr[c] + tree.n_eliminated[c], tree.axes_ptr[c + 1]):
        s = s * tree.axes_card[a] + row[tree.axes_var[a]]
    return s


@kernel
def assign_row(tree: Tree, c: int, r: int, row: Ints) -> None:
    """Write the states of cluster ``c``'s eliminated variables that row ``r`` of its table stands for."""
    for a in range(tree.axes_ptr[c] + tree.n_eliminated[c] - 1, tree.axes_ptr[c] - 1, -1):
        row[tree.axes_var[a]] = r % tree.axes_card[a]
        r //= tree.axes_card[a]


@kernel
def decode_maximum(tree: Tree, phi: Floats, row: Ints) -> None:
    """Assign the variables of all clusters of temperature 0, each its first maximiser given its separator.

    Equivalent to ``unravel_index(argmax(phi_c.reshape(R, S)[:, s]), ...)`` cluster by cluster. ``phi`` are logs.
    """
    for c in range(tree.block.size - 1, -1, -1):
        if tree.temperature[c] > 0.0:
            continue
        slot = tree.op_slot[tree.op_ptr[c + 1] - 1]
        n_columns = tree.slot_ptr[slot + 1] - tree.slot_ptr[slot]
        start = tree.cell_ptr[c] + column_of(tree, c, row)
        best, best_row = -math.inf, 0
        r = 0
        for k in range(start, tree.cell_ptr[c + 1], n_columns):
            if phi[k] > best:
                best, best_row = phi[k], r
            r += 1
        assign_row(tree, c, best_row, row)


@kernel
def draw_samples(tree: Tree, phi: Floats, logs: bool, uniform: Floats, samples: Ints) -> None:
    """Draw every row of ``samples (n, n_vars)`` from the distribution of a collected tree.

    Given its separator a cluster's eliminated variables have probabilities proportional to one column of ``phi``
    (exponentiated when ``logs``). ``uniform (n, n_clusters)`` gives one number a draw. Cost: n times the rows of
    each cluster; a root's cumulative sums are made once, then searched.
    """
    for c in range(tree.block.size - 1, -1, -1):
        if tree.n_eliminated[c] == 0:
            continue
        slot = tree.op_slot[tree.op_ptr[c + 1] - 1]
        n_columns = tree.slot_ptr[slot + 1] - tree.slot_ptr[slot]
        n_rows = (tree.cell_ptr[c + 1] - tree.cell_ptr[c]) // n_columns
        cumulative = np.empty(n_rows)
        known = -1
        for i in range(samples.shape[0]):
            s = column_of(tree, c, samples[i])
            if s != known:
                known = s
                top = -math.inf
                if logs:
                    for r in range(n_rows):
                        top = max(top, phi[tree.cell_ptr[c] + r * n_columns + s])
                total = 0.0
                for r in range(n_rows):
                    weight = phi[tree.cell_ptr[c] + r * n_columns + s]
                    total += math.exp(weight - top) if logs else weight
                    cumulative[r] = total
            r = np.searchsorted(cumulative, uniform[i, c] * cumulative[n_rows - 1], side="right")
            r = min(r, n_rows - 1)
            while r > 0 and cumulative[r] == cumulative[r - 1]:  # rounding at the very end: never a zero row
                r -= 1
            assign_row(tree, c, r, samples[i])
