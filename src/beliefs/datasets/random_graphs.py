"""Loopy graphs that are not grids: complete, planar (Delaunay) and random factor graphs of any arity."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from beliefs.datasets.arguments import check_count, check_range, check_room, check_scale, check_share, generator
from beliefs.datasets.edges import complete_edges, delaunay_edges
from beliefs.datasets.pairwise import PairwiseOptions, make_pairwise
from beliefs.errors import ModelError
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats, Ints

__all__ = ["make_complete", "make_delaunay", "make_random_factor_graph"]


def make_complete(
    n_vars: int = 6, *, seed: int | np.random.Generator = 0, **options: Unpack[PairwiseOptions]
) -> FactorGraph:
    r"""Draw a pairwise model in which all variables are neighbours; options as in :func:`make_pairwise`.

    [gelfand2014] section 3.5 uses :math:`K_6`, and :math:`K_{20}` with ``field=1`` and ``coupling=19**-0.5``.

    Examples
    --------
    >>> make_complete(6)
    FactorGraph(6 variables, 21 factors, 72 cells)
    """
    return make_pairwise(n_vars, complete_edges(n_vars), seed=seed, **options)


def make_delaunay(
    n_vars: int = 50, *, seed: int | np.random.Generator = 0, **options: Unpack[PairwiseOptions]
) -> FactorGraph:
    """Draw a pairwise model on the Delaunay triangulation of uniform points in the unit square, a planar graph.

    The points are drawn first, then the potentials; options as in :func:`make_pairwise`. Of [gelfand2014]
    section 4.4, with 50 to 250 points.

    Examples
    --------
    >>> make_delaunay(50).n_vars
    50
    """
    rng = generator(seed)
    check_room(4 * check_count("n_vars", n_vars))
    points = rng.random((n_vars, 2))
    return make_pairwise(n_vars, delaunay_edges(points), seed=rng, **options)


def make_random_factor_graph(
    n_vars: int = 10,
    n_factors: int = 15,
    *,
    arity: int | tuple[int, int] = (1, 3),
    n_states: int | tuple[int, int] = 2,
    scale: float = 1.0,
    zeros: float = 0.0,
    seed: int | np.random.Generator = 0,
) -> FactorGraph:
    r"""Draw factors over uniformly random scopes, with Gaussian log tables and, if wanted, hard zeros.

    :math:`\theta_f(x_f) \sim N(0, \text{scale}^2)` for every cell; scopes may repeat, and some variables may occur in
    none. A share ``zeros`` of the cells becomes :math:`-\infty`, except those of one hidden assignment, so Z is
    never zero.

    Parameters
    ----------
    n_vars, n_factors : int
    arity : int or (low, high)
        Variables of a factor, drawn uniformly from the range; 0 makes a constant.
    n_states : int or (low, high)
        Cardinalities, likewise.
    scale : float
        Standard deviation of the log potentials.
    zeros : float
        Probability that a cell is a hard zero.
    seed : int or numpy.random.Generator

    Examples
    --------
    >>> g = make_random_factor_graph(20, 30, arity=4, n_states=(2, 3), zeros=0.2)
    >>> {len(f.scope) for f in g.factors}
    {4}
    """
    n, m = check_count("n_vars", n_vars), check_count("n_factors", n_factors, 0)
    least, most = check_range("arity", arity, 0)
    if most > n:
        raise ModelError(f"arity must be at most the number of variables, {n}, found {most}")
    low, high = check_range("n_states", n_states)
    check_scale("scale", scale)
    check_share("zeros", zeros)
    with np.errstate(over="ignore"):
        check_room(n + m * np.float64(high) ** most)
    rng = generator(seed)
    cards = rng.integers(low, high, size=n, endpoint=True)
    scopes = [rng.choice(n, size=a, replace=False) for a in rng.integers(least, most, size=m, endpoint=True)]
    hidden = rng.integers(cards)
    tables = [(scope.tolist(), _table(cards[scope], hidden[scope], scale, zeros, rng)) for scope in scopes]
    return FactorGraph.from_tables(cards, tables, log=True)


def _table(shape: Ints, kept: Ints, scale: float, zeros: float, rng: np.random.Generator) -> Floats:
    """Draw one log table; the cell ``kept`` stays finite."""
    table = scale * rng.standard_normal(tuple(shape))
    mask = rng.random(tuple(shape)) < zeros
    mask = np.asarray(mask)
    mask[tuple(kept)] = False
    return np.where(mask, -np.inf, table)
