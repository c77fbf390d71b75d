"""Shifts of all links of a junction graph at once, and the gradient of the bound in them."""

from __future__ import annotations

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.dual.structure import Axes, Links
from beliefs.kernels.dual.tables import table_index
from beliefs.typing import Floats, Ints

__all__ = ["add_shifts", "shift_gradients"]


@twofold_kernel
def add_shifts(
    clusters: Axes, separators: Axes, links: Links, index: Ints, shift: Floats, tables: Floats, sep_tables: Floats
) -> None:
    r"""Subtract :math:`\delta_s^c` from the clusters and add it to the separators.

    Equivalent to ``tables[c] -= delta`` broadcast over the cluster's axes and ``sep_tables[s] += delta``, link by
    link; ``shift`` holds the links' tables one after the other. Cost: the cells of each link's cluster.
    """
    axis_ptr, cell, sep_cell, link_ptr = clusters.ptr, clusters.cell, separators.cell, links.ptr
    at = 0
    for s in range(link_ptr.size - 1):
        width = sep_cell[s + 1] - sep_cell[s]
        for link in range(link_ptr[s], link_ptr[s + 1]):
            c = links.cluster[link]
            size = table_index(clusters.card, links.stride, axis_ptr[c], axis_ptr[c + 1], links.step[link], index, 0)
            for k in range(size):
                tables[cell[c] + k] -= shift[at + index[k]]
            for x in range(width):
                sep_tables[sep_cell[s] + x] += shift[at + x]
            at += width


@twofold_kernel
def shift_gradients(
    clusters: Axes, separators: Axes, links: Links, index: Ints, beliefs: Floats, sep_beliefs: Floats, out: Floats
) -> None:
    r"""Write :math:`\partial L / \partial \delta_s^c = \mu_s(x_s) - \sum_{x_{c \setminus s}} \mu_c(x_c)`.

    Moment matching, Eq. (3.7) [ping2016]. Shapes as in :func:`add_shifts`; beliefs are those of
    :func:`beliefs.kernels.dual.terms.term_gradients`.
    """
    axis_ptr, cell, sep_cell, link_ptr = clusters.ptr, clusters.cell, separators.cell, links.ptr
    at = 0
    for s in range(link_ptr.size - 1):
        width = sep_cell[s + 1] - sep_cell[s]
        for link in range(link_ptr[s], link_ptr[s + 1]):
            c = links.cluster[link]
            size = table_index(clusters.card, links.stride, axis_ptr[c], axis_ptr[c + 1], links.step[link], index, 0)
            for x in range(width):
                out[at + x] = sep_beliefs[sep_cell[s] + x]
            for k in range(size):
                out[at + index[k]] -= beliefs[cell[c] + k]
            at += width
