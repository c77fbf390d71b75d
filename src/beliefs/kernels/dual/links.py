"""Shifts of all links of a junction graph at once, and the gradient of the bound in them."""

from __future__ import annotations

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.dual.structure import Axes, Links
from beliefs.kernels.primitives.strides import table_index
from beliefs.typing import Floats, Ints

__all__ = ["add_shifts", "shift_gradients"]


@twofold_kernel
def _linked_cells(link: int, clusters: Axes, links: Links, index: Ints) -> tuple[int, int]:
    """Return where the table of a link's cluster begins and its size; ``index`` gets the separator's cell of each."""
    c = links.cluster[link]
    first, last = clusters.ptr[c], clusters.ptr[c + 1]
    return clusters.cell[c], table_index(clusters.card, links.stride, first, last, links.step[link], 0, index, 0)


@twofold_kernel
def add_shifts(
    clusters: Axes, separators: Axes, links: Links, owner: Ints, begin: Ints, index: Ints, shift: Floats,
    tables: Floats, sep_tables: Floats,
) -> None:  # fmt: skip
    r"""Subtract :math:`\delta_s^c` from the clusters and add it to the separators.

    Equivalent to ``tables[c] -= delta`` broadcast over the cluster's axes and ``sep_tables[s] += delta``, link by
    link; ``shift`` holds the links' tables one after the other, from ``begin (n_links+1,)`` on, and ``owner
    (n_links,)`` names their separators. Cost: the cells of each link's cluster.
    """
    for link in range(owner.size):
        at, own = begin[link], separators.cell[owner[link]]
        first, size = _linked_cells(link, clusters, links, index)
        for k in range(size):
            tables[first + k] -= shift[at + index[k]]
        for x in range(begin[link + 1] - at):
            sep_tables[own + x] += shift[at + x]


@twofold_kernel
def shift_gradients(
    clusters: Axes, separators: Axes, links: Links, owner: Ints, begin: Ints, index: Ints, beliefs: Floats,
    sep_beliefs: Floats, out: Floats,
) -> None:  # fmt: skip
    r"""Write :math:`\partial L / \partial \delta_s^c = \mu_s(x_s) - \sum_{x_{c \setminus s}} \mu_c(x_c)`.

    Moment matching, Eq. (3.7) [ping2016]. Shapes as in :func:`add_shifts`; beliefs are those of
    :func:`beliefs.kernels.dual.terms.term_gradients`.
    """
    for link in range(owner.size):
        at, own = begin[link], separators.cell[owner[link]]
        first, size = _linked_cells(link, clusters, links, index)
        for x in range(begin[link + 1] - at):
            out[at + x] = sep_beliefs[own + x]
        for k in range(size):
            out[at + index[k]] -= beliefs[first + k]
