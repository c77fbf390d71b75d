"""Search for a cheap elimination order: plain greedy criteria, then random keys.

A *random key* is one noise factor per vertex, multiplied into its greedy score; so every key gives an order, and keys
near each other give orders that share most decisions. The search tries the plain criteria, then some fresh keys, and
then changes part of the best key again and again, keeping what is not worse. A run stops as soon as it costs more than
the best. Effort is counted in operations (about 3 ns each), never by a clock, so the same seed gives the same order
everywhere.

What it is worth, with the windows after it, in total cells against the best of 18 plain greedy orders with random ties:
link 3.2e7 against 4.4e7, munin1 7.4e7 against 2.1e8, munin 9.6e6 against 1.8e7, mildew 3.4e6 against 4.6e6.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.orders.graph import EliminationGraph
from beliefs.kernels.orders.greedy import GreedyScores, GreedyScratch, bit_rows, fill_scores, greedy_elimination
from beliefs.kernels.primitives.xorshift import draw, shuffle
from beliefs.typing import Bits, Floats, Ints

__all__ = [
    "EXPLORE",
    "LOG_MIN_FILL",
    "MIN_DEGREE",
    "MIN_FILL",
    "MIN_WEIGHT",
    "WEIGHTED_MIN_FILL",
    "SearchScratch",
    "allowance",
    "search_keys",
    "search_scratch",
    "vertex_weights",
]

MIN_FILL, LOG_MIN_FILL, WEIGHTED_MIN_FILL, MIN_WEIGHT, MIN_DEGREE = 0, 1, 2, 3, 4
_WEIGHT_ROW = (0, 1, 2, 1, 0)  # of each criterion: 1, log2(card), card

# Chosen on the bnlearn networks and 10x10 to 16x16 grids, eight seeds each; the optimum is flat.
FRESH = 12  # keys drawn anew before the best one is changed
EXPLORE = 0.3  # share of the effort that goes to keys, the rest to windows (:mod:`beliefs.kernels.orders.windows`)
OPS_PER_CELL = 0.5  # effort allowed for each cell of the best plan: about 1.5 ns where inference takes about 5


class SearchScratch(NamedTuple):
    """Scratch for searching: the graph, scores of three weights, and the present run."""

    whole: Bits  # (n, n_words) the graph as bit rows
    rows: Bits  # (n, n_words) what a run has left of it
    weights: Floats  # (3, n)
    fills: Floats  # (3, n) scores in the whole graph
    masses: Floats  # (3, n)
    fill: Floats  # (n,) of the run, as are the following
    mass: Floats  # (n,)
    key: Floats  # (n,)
    best_key: Floats  # (n,)
    leaf: Ints  # (n,)
    trial: Ints  # (n,)
    trial_cells: Floats  # (n,)
    ready: Ints  # (3,) which scores are known


def search_scratch(n: int) -> SearchScratch:
    """Return scratch for a graph of n vertices."""
    whole, rows = (np.empty((n, (n + 63) // 64), np.uint64) for _ in range(2))
    weights, fills, masses = np.empty((3, 3, n))
    fill, mass, key, best_key, trial_cells = np.empty((5, n))
    leaf, trial = np.empty((2, n), np.int64)
    return SearchScratch(
        whole, rows, weights, fills, masses, fill, mass, key, best_key, leaf, trial, trial_cells, np.empty(3, np.int64)
    )


@twofold_kernel
def allowance(cells: float, max_ops: float) -> float:
    """Return the operations worth spending on a plan of so many cells.

    In proportion to the cells, up to a millisecond for small plans, and little where no plan can fit any memory.
    """
    if cells > 1e12:
        return min(max_ops, 1e7)
    return min(max_ops, max(OPS_PER_CELL * cells, min(4.0 * cells, 2e5)))


@twofold_kernel
def _vary_key(best: Floats, fresh: bool, state: Bits, key: Floats) -> None:
    """Copy a key with a random part of it drawn anew, log-normal; all of it if ``fresh``."""
    spread = 0.43 if draw(state) < 0.5 else 0.87
    part = 1.0 if fresh else 0.02 * 16.0 ** draw(state)
    for v in range(key.shape[0]):
        key[v] = best[v]
        if draw(state) < part:
            key[v] = math.exp(spread * (draw(state) + draw(state) + draw(state) + draw(state) - 2.0))


@twofold_kernel
def vertex_weights(card: Floats, weights: Floats) -> bool:
    """Write the three weights of each vertex; say whether all cardinalities are equal.

    Logarithms are multiples of 1/1024, so that scores are exact sums, and not zero, so that a vertex with one state
    still counts as a neighbour.
    """
    even = True
    for v in range(card.shape[0]):
        weights[0, v] = 1.0
        weights[1, v] = max(1.0, math.floor(1024.0 * math.log2(card[v]) + 0.5)) / 1024.0
        weights[2, v] = card[v]
        even = even and card[v] == card[0]
    return even


@twofold_kernel(cost=200.0)
def search_keys(
    graph: EliminationGraph,
    criteria: Ints,
    restarts: int,
    max_ops: float,
    state: Bits,
    scratch: SearchScratch,
    greedy: GreedyScratch,
    order: Ints,
    cells_of: Floats,
) -> tuple[float, float, int, int]:
    """Write the best greedy order found; return its cells, the operations, the number of runs and the criterion.

    ``criteria`` are tried plainly, one after the other; then ``restarts`` random keys, or if negative as many as their
    share of the `allowance` pays for. Except for the first, a run is given up after ``max_ops``, and not begun where
    its scores alone would take that long. ``cells_of`` are the cells of each vertex's clique. Cells of ``inf`` (beyond
    2**1024) are a valid answer. Shapes: ``order, cells_of (n,)``, ``state (1,)``.
    """
    ptr, adj, card, stage = graph
    n, n_plain = card.shape[0], criteria.shape[0]
    n_words = (n + 63) // 64
    whole, rows, weights, fills, masses, fill, mass, key, best_key, leaf, trial, trial_cells, ready = scratch
    bit_rows(ptr, adj, whole)
    even = vertex_weights(card, weights)
    squares = 0.0  # of the degrees: what the fill scores of a dense graph cost
    for v in range(n):
        leaf[v], key[v] = v, 1.0
        squares += float(ptr[v + 1] - ptr[v]) ** 2
    for row in range(3):
        ready[row] = 0  # 1: masses, 2: masses and fills
    best, chosen, spent, runs, turn = np.inf, -1, 0.0, 0, 0
    while True:
        fresh = turn - n_plain < FRESH
        criterion = criteria[turn % n_plain] if fresh else chosen
        repeats = even and n_plain > 1 and (criterion == LOG_MIN_FILL or criterion == WEIGHTED_MIN_FILL)
        too_dense = criterion <= WEIGHTED_MIN_FILL and squares > max_ops
        if turn < n_plain:
            turn += 1
            if turn > 1 and (repeats or too_dense):
                continue
            shuffle(leaf, state)
        else:
            if spent > EXPLORE * allowance(best, max_ops) if restarts < 0 else turn - n_plain >= restarts:
                break
            turn += 1
            if criterion > WEIGHTED_MIN_FILL or too_dense:  # noise helps fill scores; sizes are too coarse for it
                criterion = chosen
            elif repeats:
                criterion = MIN_FILL
            _vary_key(best_key, fresh, state, key)
        by_fill, row = criterion <= WEIGHTED_MIN_FILL, _WEIGHT_ROW[criterion]
        if ready[row] < (2 if by_fill else 1):
            spent += fill_scores(whole, weights[row], by_fill, fills[row], masses[row])
            ready[row] = 2 if by_fill else 1
        for v in range(n):
            fill[v], mass[v] = fills[row, v], masses[row, v]
            for k in range(n_words):
                rows[v, k] = whole[v, k]
        run_ops = np.inf if runs == 0 else max_ops
        scores = GreedyScores(by_fill, weights[row], fill, mass, key)
        cells, ops = greedy_elimination(rows, card, stage, scores, leaf, best, run_ops, greedy, trial, trial_cells)
        spent += ops
        runs += 1
        if 0.0 <= cells <= best:
            best, chosen = cells, criterion
            for v in range(n):
                order[v], best_key[v], cells_of[v] = trial[v], key[v], trial_cells[v]
    return best, spent, runs, chosen
