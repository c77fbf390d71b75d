"""What the kernels of pairwise models take together; arrays are in the order of the sweep."""

from __future__ import annotations

from typing import NamedTuple

from beliefs.typing import Floats, Ints

__all__ = ["PairTables"]


class PairTables(NamedTuple):
    """The edges of a sweep and their tables, in the form of :mod:`beliefs.kernels.messages.pairwise.setup`."""

    states: int  # of every variable
    u: Ints  # (n_edges,) first variable of each edge
    v: Ints  # (n_edges,) second variable
    at: Ints  # (n_edges,) where each edge's table begins; empty: one after the other
    psi: Floats  # scaled tables, and a little room behind them
