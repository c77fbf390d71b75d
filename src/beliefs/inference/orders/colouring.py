r"""Colouring: variables of one colour share no factor, so they can be updated side by side.

Greedy in index order: each variable takes the smallest colour that none of its neighbours of smaller index has
[welsh1967]. At most one colour more than the largest number of neighbours; two on a 4-connected grid in raster order,
where colours are the fields of a chessboard. Deterministic. Cost: the sum over factors of arity squared, once a layout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.kernels.orders.colouring import greedy_colours
from beliefs.model.layout import Layout, frozen_ints, offsets
from beliefs.typing import Ints

__all__ = ["Colouring", "colouring"]


@dataclass(frozen=True, eq=False)
class Colouring:
    """Variables sorted by colour; read-only.

    Attributes
    ----------
    order : ndarray (n_vars,)
        Variables, those of one colour together, ascending inside a colour. Observed variables have colour 0.
    colour_ptr : ndarray (n_colours + 1,)
        Colour ``c`` is ``order[colour_ptr[c]:colour_ptr[c + 1]]``.
    """

    order: Ints
    colour_ptr: Ints

    @property
    def n_colours(self) -> int:
        """Number of colours."""
        return int(self.colour_ptr.size - 1)


def colouring(layout: Layout) -> Colouring:
    """Return the greedy colouring of a layout, kept there for the next call.

    Examples
    --------
    >>> layout = Layout.build([2, 2, 2], [0, 2, 4], [0, 1, 1, 2])
    >>> colouring(layout).order, colouring(layout).colour_ptr
    (array([0, 2, 1]), array([0, 2, 3]))
    """
    return layout.plan(_coloured)


def _coloured(layout: Layout) -> Colouring:
    colours = np.empty(layout.n_vars, np.int64)
    n_colours = greedy_colours(layout.scopes, layout.adjacency, np.full(layout.n_vars, -1, np.int64), colours)
    sizes = np.bincount(colours, minlength=n_colours)
    return Colouring(
        frozen_ints(np.argsort(colours, kind="stable"), "colour order"),
        frozen_ints(offsets(sizes), "colour offsets"),
    )
