"""Rooted forests of a layout as counting numbers: one forest, or the average of many.

A forest gives ``rho`` 1 to its factors and ``parent`` 1 to the edge by which each of them hangs; averages of forests
are valid because the forests themselves are the distribution. Factors of at most one variable are in every forest.
"""

from __future__ import annotations

import numpy as np

from beliefs.deadline import check_time
from beliefs.kernels.messages.spanning import rooted_forest, tally_forest
from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

__all__ = ["joining_factors", "maximum_forest", "sampled_forests", "whole_forest"]

EDGES_TO_VISIT = 6e7  # over all samples: a few seconds for a million variables
MIN_SAMPLES, MAX_SAMPLES = 8, 256
BLOCK = 4096  # factors that are neighbours in memory stay so in random orders: four times faster, and no less even


def joining_factors(layout: Layout) -> Ints:
    """Return the factors of at least two variables."""
    return np.flatnonzero(layout.arity > 1)


def whole_forest(layout: Layout) -> Floats | None:
    """Return ``parent (n_edges,)`` for ``rho = 1`` if the factor graph has no cycle, else None. Cost: edges."""
    joining = joining_factors(layout)
    parent_edge, taken = _forest(layout, joining)
    return _indicators(layout, parent_edge)[1] if taken == joining.size else None


def maximum_forest(layout: Layout, weight: Floats) -> tuple[Floats, Floats]:
    """Return ``rho`` and ``parent`` of the forest of greatest weight, rooted.

    For pairwise models this is the maximum. For larger factors the choice is greedy, by weight for each variable that
    a factor joins, and may miss it. Cost: sorting the factors.
    """
    joining = joining_factors(layout)
    gain = weight[joining] / (layout.arity[joining] - 1)
    parent_edge, _ = _forest(layout, joining[np.argsort(-gain, kind="stable")])
    return _indicators(layout, parent_edge)


def sampled_forests(layout: Layout, seed: int) -> tuple[Floats, Floats, int]:
    """Return ``rho``, ``parent`` and the number of random forests of which they are the average.

    Each forest takes the factors that came least often so far first, in random order among equals. So every factor
    comes at least once, and the numbers tend to the most even ones that are possible (for pairwise models: greedy tree
    packing [thorup2007]) much faster than with independent forests. Cost: edges for each forest.
    """
    joining = joining_factors(layout)
    wanted = int(np.clip(EDGES_TO_VISIT / max(layout.n_edges, 1), MIN_SAMPLES, MAX_SAMPLES))
    rng = np.random.default_rng(seed)
    count, hung = np.zeros(layout.n_factors, np.int64), np.zeros(layout.n_edges, np.int64)
    drawn = 0
    while drawn < wanted or (count[joining] == 0).any():
        check_time()
        order = _random_order(joining, rng)
        rare_first = np.argsort(np.minimum(count[order], 2**16 - 1).astype(np.uint16), kind="stable")
        parent_edge, _ = _forest(layout, order[rare_first])
        tally_forest(parent_edge, count, hung)
        drawn += 1
    rho, parent = count / drawn, hung / drawn
    _set_single(layout, rho, parent)
    return rho, parent, drawn


def _random_order(factors: Ints, rng: np.random.Generator) -> Ints:
    """Return the factors with blocks of them in random order, and random orders within the blocks."""
    if factors.size <= BLOCK:
        return rng.permutation(factors)
    starts = rng.permutation(-(-factors.size // BLOCK)) * BLOCK
    order = np.add.outer(starts, rng.permutation(BLOCK)).ravel()
    return factors[order[order < factors.size]]


def _forest(layout: Layout, order: Ints) -> tuple[Ints, int]:
    parent_edge = np.empty(layout.n_factors, np.int64)
    taken = rooted_forest(layout.n_vars, layout.scope_ptr, layout.scope_vars, order, parent_edge)
    return parent_edge, taken


def _indicators(layout: Layout, parent_edge: Ints) -> tuple[Floats, Floats]:
    rho, parent = np.zeros(layout.n_factors), np.zeros(layout.n_edges)
    taken = parent_edge >= 0
    rho[taken] = 1.0
    parent[parent_edge[taken]] = 1.0
    _set_single(layout, rho, parent)
    return rho, parent


def _set_single(layout: Layout, rho: Floats, parent: Floats) -> None:
    """Set factors of no or one variable, which are in every forest and hang from their variable."""
    arity = layout.arity
    rho[arity < 2] = 1.0
    parent[layout.scope_ptr[:-1][arity == 1]] = 1.0
