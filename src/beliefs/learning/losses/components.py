r"""Sets of variables for composite likelihoods: which labels are predicted together.

=====================  =============================================================================================
``variables``          each variable alone: pseudo-likelihood
``rows``, ``columns``  of a grid: chains, if factors join neighbours
``rows_and_columns``   criss-cross: every pixel in one row and one column
``stripes``            bands of ``size`` rows, disjoint
``blocks``             windows of ``size`` x ``size`` pixels, ``step`` apart: 1 slides, ``step = size`` tiles
``factors``            the variables of each factor of two and more; a variable that is in none, alone
``acyclic``            few sets whose induced graphs are forests, and which cover every variable and every pair that
                       shares a factor: each is grown greedily by variables with at most one neighbour in each of
                       its trees ([gelfand2014] section 4.2.3)
=====================  =============================================================================================

A grid is recognised by its factors: variables in raster order, all four neighbours joined, and nobody but the eight
around a pixel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beliefs.errors import ModelError
from beliefs.kernels.losses.composite_likelihood import grow_acyclic
from beliefs.kernels.orders.graph import primal_graph
from beliefs.model.layout import Layout
from beliefs.typing import Ints

__all__ = ["COMPONENTS", "checked", "choose", "grid_shape"]

COMPONENTS = ("variables", "rows", "columns", "rows_and_columns", "stripes", "blocks", "factors", "acyclic")

_WIDEST = 9  # variables of a factor of a grid: a window of 3 x 3


def choose(layout: Layout, choice: str, size: int, step: int, name: str) -> list[Ints]:
    """Return the components of that name; ``name`` is what messages call the instance."""
    if choice == "variables":
        return list(np.arange(layout.n_vars)[:, None])
    if choice == "factors":
        return _scopes(layout)
    if choice == "acyclic":
        return acyclic(layout)
    shape = grid_shape(layout)
    if shape is None:
        raise ModelError(
            f"{name}: components={choice!r} needs a grid in raster order whose neighbouring pixels share a factor; "
            "use components='acyclic', or give the sets of variables yourself"
        )
    pixels = np.arange(layout.n_vars).reshape(shape)
    if choice == "blocks":
        down, across = _windows(shape[0], size, step), _windows(shape[1], size, step)
        return [pixels[a:b, c:d].ravel() for a, b in down for c, d in across]
    if choice == "stripes":
        return [pixels[a:b].ravel() for a, b in _windows(shape[0], size, size)]
    rows, columns = list(pixels), list(np.ascontiguousarray(pixels.T))
    return {"rows": rows, "columns": columns, "rows_and_columns": rows + columns}[choice]


def _scopes(layout: Layout) -> list[Ints]:
    """Return the different scopes of two and more variables, and the variables in none of them."""
    scopes = {tuple(sorted(layout.scope(f).tolist())) for f in np.flatnonzero(layout.arity > 1).tolist()}
    found = [np.array(scope, np.int64) for scope in sorted(scopes)]
    alone = np.setdiff1d(np.arange(layout.n_vars), np.concatenate([*found, np.zeros(0, np.int64)]))
    return [*found, *alone[:, None]]


def _windows(n: int, size: int, step: int) -> list[tuple[int, int]]:
    """Return windows that cover ``range(n)``; the last may be smaller.

    Examples
    --------
    >>> _windows(4, 2, 1), _windows(5, 2, 2), _windows(2, 3, 1)
    ([(0, 2), (1, 3), (2, 4)], [(0, 2), (2, 4), (4, 5)], [(0, 2)])
    """
    starts = list(range(0, max(n - size, 0) + 1, step))
    if starts[-1] + size < n:
        starts.append(starts[-1] + step)
    return [(a, min(a + size, n)) for a in starts]


def grid_shape(layout: Layout) -> tuple[int, int] | None:
    """Return height and width if the factors are those of a grid, else None; a chain is one row.

    Examples
    --------
    >>> grid_shape(Layout.build([2] * 6, range(0, 16, 2), [0, 1, 1, 2, 3, 4, 4, 5, 0, 3, 1, 4, 2, 5]))
    (2, 3)
    """
    return layout.plan(_grid_shape)


def _grid_shape(layout: Layout) -> tuple[int, int] | None:
    n = layout.n_vars
    if n == 0 or layout.arity.max(initial=0) > _WIDEST:
        return None
    ptr, near = _neighbours(layout)
    u = np.repeat(np.arange(n), np.diff(ptr))
    u, v = u[u < near], near[u < near]
    widths = {n, *np.unique(v - u).tolist()}
    for width in sorted((w for w in widths if n % w == 0), reverse=True):
        aside, down = np.abs(v % width - u % width), v // width - u // width
        joined = int(((aside == 1) & (down == 0)).sum()), int(((aside == 0) & (down == 1)).sum())
        height = n // width
        if aside.max(initial=0) <= 1 and down.max(initial=0) <= 1 and joined == (n - height, n - width):
            return height, width
    return None


def _neighbours(layout: Layout) -> tuple[Ints, Ints]:
    """Return the interaction graph, offsets and neighbours."""
    return primal_graph(layout.scope_ptr.copy(), layout.scope_vars.copy(), ~layout.observed)


def acyclic(layout: Layout) -> list[Ints]:
    """Return sets whose induced graphs are forests, until every variable and every joined pair is in one."""
    ptr, near = _neighbours(layout)
    n, u = layout.n_vars, np.repeat(np.arange(layout.n_vars), np.diff(ptr))
    covered, found = np.zeros(near.size, np.bool_), list[Ints]()
    while not found or not covered.all():
        wanted = np.bincount(u[~covered], minlength=n) > 0  # those with a pair to cover first, one such pair before all
        pair = [] if covered.all() else [u[np.argmin(covered)], near[np.argmin(covered)]]
        order = np.concatenate([np.array(pair, np.int64), np.argsort(~wanted, kind="stable")])
        inside = np.zeros(n, np.bool_)
        grow_acyclic(ptr, near, order, np.arange(n), np.full(n, -1, np.int64), inside, covered)
        found.append(np.flatnonzero(inside))
    return found


def checked(components: Sequence[Sequence[int] | Ints], layout: Layout, name: str) -> list[Ints]:
    """Return the components as arrays, or raise: each is a list of different variables, none empty."""
    found = [np.asarray(part) for part in components]
    for c, part in enumerate(found):
        if part.ndim != 1 or part.size == 0 or part.dtype.kind not in "iu":
            raise ModelError(f"{name}: component {c} must be a list of variable indices, at least one")
        if part.min() < 0 or part.max() >= layout.n_vars:
            bad = part[(part < 0) | (part >= layout.n_vars)][0]
            raise ModelError(f"{name}: component {c} names variable {bad}; there are variables 0..{layout.n_vars - 1}")
        if np.unique(part).size < part.size:
            raise ModelError(f"{name}: component {c} names a variable twice")
    if not found:
        raise ModelError(f"{name}: there is no component; give at least one list of variables")
    return [part.astype(np.int64) for part in found]
