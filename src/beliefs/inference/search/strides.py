"""Strides of the factors' tables, kept with the layout."""

from __future__ import annotations

import numpy as np

from beliefs.kernels.strides import table_strides
from beliefs.model.layout import Layout, frozen_ints
from beliefs.typing import Ints

__all__ = ["edge_strides"]


def edge_strides(layout: Layout) -> Ints:
    """Return, for each edge, the cells between two neighbouring states of its variable, ``(n_edges,)``, read-only.

    Examples
    --------
    >>> edge_strides(Layout.build([2, 3, 4], [0, 3, 4], [1, 0, 2, 0]))
    array([8, 4, 1, 1])
    """
    return layout.plan("edge_strides", lambda: _strides(layout))


def _strides(layout: Layout) -> Ints:
    stride = np.empty(layout.n_edges, np.int64)
    table_strides(layout.card, layout.scope_ptr, layout.scope_vars, stride)
    return frozen_ints(stride, "strides")
