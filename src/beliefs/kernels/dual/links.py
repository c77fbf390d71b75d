"""Shifts of all links of a junction graph at once, and the gradient of the bound in them."""

from __future__ import annotations

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.dual.tables import table_index
from beliefs.typing import Floats, Ints

__all__ = ["add_shifts", "shift_gradients"]


@twofold_kernel
def add_shifts(
    axis_ptr: Ints, card: Ints, cell_ptr: Ints, sep_cell: Ints, link_ptr: Ints, link_cluster: Ints, link_step: Ints,
    stride: Ints, index: Ints, shift: Floats, tables: Floats, nodes: Floats,
) -> None:  # fmt: skip
    r"""Subtract :math:`\delta_s^c` from the clusters and add it to the separators.

    Equivalent to ``tables[c] -= delta`` broadcast over the cluster's axes and ``nodes[s] += delta``, link by link;
    ``shift`` holds the links' tables one after the other. Cost: the cells of each link's cluster.
    """
    at = 0
    for s in range(link_ptr.size - 1):
        width = sep_cell[s + 1] - sep_cell[s]
        for link in range(link_ptr[s], link_ptr[s + 1]):
            c = link_cluster[link]
            size = table_index(card, stride, axis_ptr[c], axis_ptr[c + 1], link_step[link], index, 0)
            for k in range(size):
                tables[cell_ptr[c] + k] -= shift[at + index[k]]
            for x in range(width):
                nodes[sep_cell[s] + x] += shift[at + x]
            at += width


@twofold_kernel
def shift_gradients(
    axis_ptr: Ints, card: Ints, cell_ptr: Ints, sep_cell: Ints, link_ptr: Ints, link_cluster: Ints, link_step: Ints,
    stride: Ints, index: Ints, beliefs: Floats, sep_beliefs: Floats, out: Floats,
) -> None:  # fmt: skip
    r"""Write :math:`\partial L / \partial \delta_s^c = \mu_s(x_s) - \sum_{x_{c \setminus s}} \mu_c(x_c)`.

    Moment matching, Eq. (3.7) [ping2016]. Shapes as in :func:`add_shifts`; beliefs are those of
    :func:`beliefs.kernels.dual.terms.cluster_gradients`.
    """
    at = 0
    for s in range(link_ptr.size - 1):
        width = sep_cell[s + 1] - sep_cell[s]
        for link in range(link_ptr[s], link_ptr[s + 1]):
            c = link_cluster[link]
            size = table_index(card, stride, axis_ptr[c], axis_ptr[c + 1], link_step[link], index, 0)
            for x in range(width):
                out[at + x] = sep_beliefs[sep_cell[s] + x]
            for k in range(size):
                out[at + index[k]] -= beliefs[cell_ptr[c] + k]
            at += width
