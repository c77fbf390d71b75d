r"""The mini-bucket tree: bucket elimination on a model whose variables have been split into replicas.

Eliminating :math:`x_i` multiplies all functions that mention it. Where that would be too large, the functions are
divided into *mini-buckets*, each with its own replica :math:`x_i^r` of the variable, which is eliminated there alone
[dechter2003]. What results is a forest: one cluster a mini-bucket, an edge to the cluster its message goes to.

``ibound`` is the number of variables in a message, so a cluster has at most ``ibound + 1``; a factor larger than that
keeps a mini-bucket of its own. At the width of the order nothing is split and elimination is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beliefs.inference.orders.orders import Order
from beliefs.kernels.buckets.partition import partition_buckets
from beliefs.model.layout import Layout
from beliefs.options import MANY, check_integer
from beliefs.typing import Floats, Ints

__all__ = ["MiniBuckets", "check_ibound", "growing_ibounds", "partition", "sorted_scopes"]


@dataclass(frozen=True, eq=False)
class MiniBuckets:
    """Clusters of a mini-bucket tree, children first, the replicas of a variable together.

    Attributes
    ----------
    order : ndarray
        Variables, first eliminated first; elsewhere here a variable is named by its position in it.
    axes_ptr, axes : ndarray
        Each cluster's variables, ascending; the first is the one it eliminates, the others are its message's.
    parent : ndarray
        The cluster each message goes to, -1 for a root.
    host : ndarray (n_factors,)
        The cluster of each factor, -1 for one with an empty scope.
    scope_ptr, scope : ndarray
        The factors' scopes, ascending.
    card : ndarray
        Cardinalities, by position.
    """

    order: Ints
    axes_ptr: Ints
    axes: Ints
    parent: Ints
    host: Ints
    scope_ptr: Ints
    scope: Ints
    card: Ints

    @property
    def n_clusters(self) -> int:
        """Number of mini-buckets."""
        return int(self.parent.size)

    @cached_property
    def variable(self) -> Ints:
        """The position of the variable that each cluster eliminates, ``(n_clusters,)``."""
        return self.axes[self.axes_ptr[:-1]]

    @cached_property
    def replicas(self) -> Ints:
        """How many clusters each variable has, by position."""
        return np.bincount(self.variable, minlength=self.order.size)

    @cached_property
    def log2_cells(self) -> Floats:
        """Base-2 logarithm of each cluster's number of cells."""
        bits = np.log2(self.card[self.axes])
        return np.add.reduceat(bits, self.axes_ptr[:-1]) if self.n_clusters else np.zeros(0)

    @property
    def n_cells(self) -> float:
        """Cells of all clusters together; inf beyond what floats hold."""
        with np.errstate(over="ignore"):
            return float(np.exp2(self.log2_cells).sum())

    @property
    def split(self) -> bool:
        """Whether any variable has more than one replica: if none has, the bound is exact."""
        return bool((self.replicas > 1).any())


def check_ibound(ibound: object) -> None:
    """Refuse an i-bound that is not None or an integer from 1 to a billion."""
    check_integer("ibound", ibound, 1, MANY, none=True)


def partition(layout: Layout, order: Order, ibound: int) -> MiniBuckets:
    """Divide the buckets of ``order`` by the scopes of their functions, largest first."""
    _, scope_ptr, scope = sorted_scopes(layout, order)
    ptr, axes, parent, host = partition_buckets(scope_ptr, scope, order.order.size, min(ibound, order.order.size) + 1)
    return MiniBuckets(order.order, ptr, axes, parent, host, scope_ptr, scope, layout.card[order.order])


def growing_ibounds(
    layout: Layout, order: Order, size: Callable[[Layout, Order, int], tuple[float, float, bool]]
) -> Iterator[tuple[int, float, float]]:
    """Yield i-bounds from 1 up to the width with two sizes of their partitions; the last one is the first to be exact.

    ``size`` returns these sizes, which are kept, and whether a variable has replicas.
    """
    for ibound in range(1, max(1, order.width) + 1):
        first, second, split = layout.plan(size, order, ibound)
        yield ibound, first, second
        if not split:
            return


def sorted_scopes(layout: Layout, order: Order) -> tuple[Ints, Ints, Ints]:
    """Return each variable's position in the order (-1: none), and the factors' scopes as ascending positions."""
    position = np.full(layout.n_vars, -1, np.int64)
    position[order.order] = np.arange(order.order.size)
    owner = np.repeat(np.arange(layout.n_factors), layout.arity)
    placed = position[layout.scope_vars]
    return position, np.array(layout.scope_ptr), placed[np.lexsort((placed, owner))]
