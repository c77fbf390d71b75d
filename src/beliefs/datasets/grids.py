r"""Grids: the commonest test bed, with four or eight neighbours, closed to a torus, or with long-range edges.

Vertices are numbered row by row and carry no names of their own, so that a thousand by a thousand grid is a matter of
arrays: about a second, and 200 MB. An ``n x n`` grid has treewidth ``n``.
"""

from __future__ import annotations

from typing import Unpack

import numpy as np

from beliefs.datasets.arguments import check_count, check_finite, check_scale, generator
from beliefs.datasets.edges import grid_edges, long_range_edges
from beliefs.datasets.pairwise import PairwiseOptions, make_pairwise
from beliefs.errors import ModelError
from beliefs.model.graph import FactorGraph
from beliefs.options import check_option

__all__ = ["make_distance_grid", "make_grid", "make_ising_grid", "make_potts_grid"]


def make_grid(
    rows: int = 10,
    cols: int | None = None,
    *,
    neighbours: int = 4,
    periodic: bool = False,
    extra_edges: int = 0,
    diagonal: float | None = None,
    seed: int | np.random.Generator = 0,
    **options: Unpack[PairwiseOptions],
) -> FactorGraph:
    """Draw a pairwise model on a grid.

    Parameters
    ----------
    rows, cols : int
        Size; ``cols`` defaults to ``rows``.
    neighbours : {4, 8}
        Eight adds the diagonals, after the other edges; [gelfand2014] section 4.4 fits the grid of four to samples
        of the grid of eight.
    periodic : bool
        Close the grid to a torus (four neighbours only).
    extra_edges : int
        That many further edges between uniformly drawn distinct pairs that are not neighbours, after all others
        ([gelfand2014] section 3.5: 10x10 with 5 to 50 of them).
    diagonal : float, optional
        Scale of the couplings on the diagonals; defaults to ``coupling``.
    seed : int or numpy.random.Generator
    **options
        ``n_states, form, law, field, coupling, attractive`` of :func:`make_pairwise`.

    Examples
    --------
    >>> make_grid(10, extra_edges=5, field=1.0)
    FactorGraph(100 variables, 285 factors, 940 cells)
    """
    rows = check_count("rows", rows)
    cols = rows if cols is None else check_count("cols", cols)
    check_count("neighbours", neighbours)
    check_option(neighbours in (4, 8), "neighbours", "4 or 8", neighbours)
    if diagonal is not None and neighbours == 4:
        raise ModelError("diagonal is the scale of diagonal edges, which need neighbours=8")
    rng = generator(seed)
    edges = grid_edges(rows, cols, periodic=periodic, diagonals=neighbours == 8)
    n_grid = len(edges)
    edges = np.concatenate([edges, long_range_edges(rows * cols, edges, extra_edges, rng)])
    if diagonal is not None:
        check = check_finite if options.get("law") == "constant" else check_scale
        scales = np.full(len(edges), check("coupling", options.get("coupling", 0.5)))
        scales[2 * rows * cols - rows - cols : n_grid] = check("diagonal", diagonal)
        options["coupling"] = scales
    return make_pairwise(rows * cols, edges, seed=rng, **options)


def make_ising_grid(
    rows: int = 10,
    cols: int | None = None,
    *,
    seed: int | np.random.Generator = 0,
    periodic: bool = False,
    **options: Unpack[PairwiseOptions],
) -> FactorGraph:
    r"""Draw an Ising grid, :math:`p(x) \propto \exp(\sum_i h_i x_i + \sum_{ij} J_{ij} x_i x_j)`, :math:`x_i = \pm 1`.

    State 0 is -1 and state 1 is +1. By default :math:`h_i \sim N(0, 0.1^2)` and :math:`J_{ij} \sim N(0, 0.5^2)`, a
    spin glass ([gelfand2014] chapter 3); ``attractive=True`` takes absolute couplings. See :func:`make_grid`.

    Examples
    --------
    >>> make_ising_grid(5, field=2**0.5, coupling=2**0.5, seed=1)
    FactorGraph(25 variables, 65 factors, 210 cells)
    """
    merged: PairwiseOptions = {**options, "form": "ising"}
    return make_grid(rows, cols, seed=seed, periodic=periodic, **merged)


def make_potts_grid(
    rows: int = 10,
    cols: int | None = None,
    *,
    seed: int | np.random.Generator = 0,
    periodic: bool = False,
    **options: Unpack[PairwiseOptions],
) -> FactorGraph:
    r"""Draw a Potts grid, :math:`p(x) \propto \exp(\sum_i h_i(x_i) + \sum_{ij} J_{ij} [x_i = x_j])`.

    Three states unless ``n_states`` says otherwise; see :func:`make_grid`.

    Examples
    --------
    >>> make_potts_grid(4, n_states=5, law="constant", coupling=1.0)
    FactorGraph(16 variables, 40 factors, 105 cells)
    """
    merged: PairwiseOptions = {"n_states": 3, **options, "form": "potts"}
    return make_grid(rows, cols, seed=seed, periodic=periodic, **merged)


def make_distance_grid(
    rows: int = 10, cols: int | None = None, *, weights: tuple[float, ...] = (-0.5, -0.7)
) -> FactorGraph:
    r"""Build the grid with one table tied over all edges that depends on the distance of two states.

    :math:`p(x) \propto \exp \sum_{ij} w_{|x_i - x_j|}` with :math:`w_0 = 0` and one weight for each further
    distance, so there are ``len(weights) + 1`` states; (4.16) of [gelfand2014] with its defaults. The unary factors
    are zero.

    Examples
    --------
    >>> make_distance_grid(2).log_score([0, 1, 2, 2])  # distances 1 and 0 along the rows, 2 and 1 down the columns
    -1.7
    """
    rows = check_count("rows", rows)
    cols = rows if cols is None else check_count("cols", cols)
    by_distance = np.array([0.0, *(check_finite("weights", w) for w in weights)])
    states = np.arange(len(by_distance))
    table = by_distance[np.abs(states[:, None] - states)]
    edges = grid_edges(rows, cols)
    return FactorGraph.pairwise(np.zeros((rows * cols, len(states))), edges, table)
