r"""A part of a model with everything around it held fixed, solved exactly again and again.

Given *free* variables, each of them summed or maximised, and states of all others, only the factors that touch a free
variable matter, sliced at the states of the rest:

.. math:: \max_{x_S} \log \sum_{x_A} \exp \sum_{f \cap (A \cup S) \ne \emptyset} \theta_f(x_A, x_S, x_{rest})

The plan (which cells the slices copy, the cluster tree) depends on the structure alone; for other states of the rest,
or another ``theta``, it costs one pass of gathering and one over the tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from beliefs.errors import ZeroProbabilityError
from beliefs.inference.base import Problem, Task
from beliefs.inference.clusters.cluster_tree import ClusterTree
from beliefs.inference.clusters.operands import gather_rows
from beliefs.inference.exact.tree_run import TreeRun
from beliefs.inference.orders.orders import Order, plan_order
from beliefs.kernels.layout import condition_cells
from beliefs.kernels.search.clamped import clamped_cells
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout, offsets, read_only
from beliefs.model.naming import Naming
from beliefs.typing import Bools, Floats, Ints

__all__ = ["ClampedTree"]


@dataclass(frozen=True, eq=False)
class ClampedTree:
    """The plan of one free part of a layout.

    Attributes
    ----------
    free : ndarray
        The free variables by their index in the whole model; local variable ``i`` is ``free[i]``.
    maximised : ndarray of bool
        Which of them are maximised; the others are summed.
    factors : ndarray
        The factors of the whole model that touch a free variable.
    local : Layout
        Of the sliced model over the free variables.
    order : Order
        The elimination order, local variables, sums first.
    """

    free: Ints
    maximised: Bools
    factors: Ints
    local: Layout
    order: Order
    cells: Ints
    shifts: tuple[Ints, Ints, Ints]

    @classmethod
    def build(cls, layout: Layout, free: Ints, maximised: Bools, order: Order | None = None) -> ClampedTree:
        """Lay out the slices and, where no ``order`` of the local variables is given, plan one."""
        index = np.full(layout.n_vars, -1, np.int64)
        index[free] = np.arange(free.size)
        _, edges = gather_rows(layout.var_ptr, layout.var_edges, free)
        factors = np.unique(layout.edge_factor[edges])
        ptr, scope = gather_rows(layout.scope_ptr, layout.scope_vars, factors)
        _, stride = gather_rows(layout.scope_ptr, layout.edge_stride, factors)
        inside = index[scope] >= 0
        owner = np.repeat(np.arange(factors.size), np.diff(ptr))
        local = Layout.build(layout.card[free], _offsets(owner[inside], factors.size), index[scope[inside]])
        cells = np.empty(local.n_cells, np.int64)
        condition_cells(
            layout.card, read_only(ptr), read_only(scope), read_only(layout.cell_ptr[factors]),
            np.where(index >= 0, -1, 0), local.cell_ptr, cells,
        )  # fmt: skip
        shifts = _offsets(owner[~inside], factors.size), scope[~inside], stride[~inside]
        planned = _planned(local, maximised) if order is None else order
        return cls(free, maximised, factors, local, planned, cells, shifts)

    @cached_property
    def tree(self) -> ClusterTree:
        """The cluster tree, laid out at first use: its cost is known from the order before."""
        return ClusterTree.build(self.local, self.order, np.where(self.maximised, 0.0, 1.0), absorb=True)

    def summing(self) -> ClampedTree:
        """Return the plan in which the maximised variables are summed as well, in the same order."""
        return replace(self, maximised=np.zeros(self.free.size, np.bool_))

    @cached_property
    def _naming(self) -> Naming:
        return Naming.default(self.local.card)

    def sliced(self, theta: Floats, states: Ints) -> FactorGraph:
        """Return the model over the free variables, all others at ``states (n_vars,)``."""
        cells = np.empty(self.local.n_cells, np.int64)
        clamped_cells(self.cells, self.local.table_ptr, *self.shifts, states, cells)
        unseen = np.full(self.free.size, -1, np.int64)
        return FactorGraph(self.local, read_only(theta[cells]), self._naming, read_only(unseen))

    def solved(self, theta: Floats, states: Ints) -> TreeRun | None:
        """Return the collected tree, its value in ``log_z``; None where the free part is impossible."""
        maximised = np.flatnonzero(self.maximised)
        task = Task.MARGINAL_MAP if maximised.size else Task.INFER
        tau = np.where(self.maximised, 0.0, 1.0)
        run = TreeRun(Problem(self.sliced(theta, states), task, query=maximised), self.tree, tau)
        try:
            run.collect(log_domain=maximised.size > 0)
        except ZeroProbabilityError:
            return None
        return run

    def log_value(self, theta: Floats, states: Ints) -> float:
        """Return the value of the free part, ``-inf`` where it is impossible."""
        run = self.solved(theta, states)
        return -np.inf if run is None else run.log_z

    def maximise(self, theta: Floats, states: Ints) -> bool:
        """Set the maximised variables to their best joint state, in place; False where all have weight zero."""
        run = self.solved(theta, states)
        if run is None:
            return False
        states[self.free[self.maximised]] = run.decoding().assignment
        return True


def _planned(local: Layout, maximised: Bools) -> Order:
    stage = maximised.astype(np.int64)
    active = np.diff(local.var_ptr) > 0
    mixed = bool(maximised.any() and not maximised.all())
    return plan_order(local.card, local.scope_ptr, local.scope_vars, stage=stage if mixed else None, active=active)


def _offsets(owner: Ints, n: int) -> Ints:
    return offsets(np.bincount(owner, minlength=n))
