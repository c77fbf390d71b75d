r"""The structured mean field: whole trees of variables together, :math:`q(x) = \prod_t q_t(x_t)` [saul1996].

The variables are cut into *induced trees*. A tree is joined by tree factors (of any arity, without a cycle); every
factor outside has at most one variable in a tree, up to factors over a part of a tree factor's scope, which go with it.
So a factor outside sees of every tree one variable only, and the best :math:`q_t`, the others fixed, is

.. math::
    q_t(x_t) \propto \exp\Big(\sum_{f \in t} \theta_f(x_f) + \sum_{v \in t} u_v(x_v)\Big), \qquad
    u_v(x_v) = \sum_{g \ni v,\, g \notin t} E\,[\theta_g(x_g) \mid x_v],

again a tree: its marginals come from one pass up and one down. Updating one tree at a time never lowers the bound

.. math::
    \sum_f E\,\theta_f + \sum_{f \in \text{trees}} H(\mu_f) - \sum_v (d_v - 1) H(\mu_v),

:math:`d_v` the number of tree factors at v. Factors outside have product marginals, tree factors their own.

**Which trees.** Greedily, strongest factor first: a factor becomes a tree factor if all trees stay induced. The
strength of a factor is the mean square of what sums of functions of single variables do not explain of its table, so
that it does not depend on where single-variable terms are written; equal strengths go in the order of the factors. On a
grid of equal couplings, given row by row, the trees are its rows; a model without cycles is one tree, and the answer
exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.inference.orders.colouring import colouring
from beliefs.inference.variational.field import Field, Orders, Run, entropy, read_only
from beliefs.kernels.mean_field.general import product_tables
from beliefs.kernels.mean_field.induced_trees import (
    add_tables,
    coupling_strength,
    grow_trees,
    lay_trees,
    scatter_tables,
)
from beliefs.kernels.mean_field.trees import sweep_trees
from beliefs.kernels.rounding import forest_deviation
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Bools, Floats, Ints

__all__ = ["Forest", "ForestField"]

_FLOOR = 50.0  # nats below a table's maximum that a hard zero counts for when strengths are compared
_DIGITS = 9  # of a strength that count; the rest is rounding, and equal strengths must stay equal


@dataclass(frozen=True, eq=False)
class Incidence:
    """Scopes without variables of one state, by factor and by variable."""

    scope_ptr: Ints
    scope_vars: Ints
    edge_factor: Ints
    var_ptr: Ints
    var_edges: Ints

    @classmethod
    def of(cls, layout: Layout) -> Incidence:
        """Leave out what joins nothing."""
        joins = layout.card[layout.scope_vars] > 1
        before = np.concatenate([[0], np.cumsum(joins)])
        scope_vars, edge_factor = layout.scope_vars[joins], layout.edge_factor[joins]
        ptr, edges = by_variable(scope_vars, np.arange(scope_vars.size), layout.n_vars)
        return cls(
            read_only(before[layout.scope_ptr]), read_only(scope_vars), read_only(edge_factor), ptr, edges
        )  # fmt: skip


def by_variable(scope_vars: Ints, edges: Ints, n_vars: int) -> tuple[Ints, Ints]:
    """Return some edges sorted by variable, and the offsets of each variable's."""
    variable = scope_vars[edges]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(variable, minlength=n_vars))])
    return read_only(ptr), read_only(edges[np.argsort(variable, kind="stable")])


@dataclass(frozen=True, eq=False)
class Forest:
    """The trees and their factors; arrays as in :func:`beliefs.kernels.mean_field.trees.sweep_trees`.

    ``guests`` are the factors inside trees, ``branch`` the number of the tree factor that each goes with; ``outside``
    are the factors between trees and of single variables.
    """

    incidence: Incidence
    member_ptr: Ints
    members: Ints
    branch_ptr: Ints
    branch_scope_ptr: Ints
    branch_vars: Ints
    table_ptr: Ints
    guests: Ints
    branch: Ints
    outside: Ints
    is_outside: Bools

    @property
    def n_trees(self) -> int:
        """Number of trees, single variables included."""
        return self.member_ptr.size - 1

    @classmethod
    def of(cls, graph: FactorGraph) -> Forest:
        """Choose the trees of a graph by the strength of its factors."""
        layout = graph.layout
        inc = layout.plan("mean_field incidence", lambda: Incidence.of(layout))
        host = np.empty(layout.n_factors, np.int64)
        grow_trees(
            _strongest_first(graph, inc), inc.scope_ptr, inc.scope_vars, inc.var_ptr, inc.var_edges, inc.edge_factor,
            host,
        )  # fmt: skip
        return cls._laid(layout, inc, host)

    @classmethod
    def _laid(cls, layout: Layout, inc: Incidence, host: Ints) -> Forest:
        variables = np.flatnonzero(np.diff(layout.var_ptr) > 0)
        own = np.flatnonzero(host == np.arange(layout.n_factors))
        n_places = int(np.diff(inc.scope_ptr)[own].sum())
        member_ptr, branch_ptr = np.empty((2, variables.size + 1), np.int64)
        members, factor = np.empty(variables.size, np.int64), np.empty(own.size, np.int64)
        scope_ptr, scope_vars = np.empty(own.size + 1, np.int64), np.empty(n_places, np.int64)
        n_trees = lay_trees(
            variables, inc.scope_ptr, inc.scope_vars, inc.var_ptr, inc.var_edges, inc.edge_factor, host, member_ptr,
            members, branch_ptr, factor, scope_ptr, scope_vars,
        )  # fmt: skip
        number = np.full(layout.n_factors, -1, np.int64)
        number[factor] = np.arange(factor.size)
        guests = np.flatnonzero(host >= 0)
        return cls(
            inc,
            read_only(member_ptr[: n_trees + 1].copy()),
            read_only(members),
            read_only(branch_ptr[: n_trees + 1].copy()),
            read_only(scope_ptr),
            read_only(scope_vars),
            read_only(np.concatenate([[0], np.cumsum(layout.factor_size[factor])])),
            read_only(guests),
            read_only(number[host[guests]]),
            read_only(np.flatnonzero(host < 0)),
            host < 0,
        )

    def colours(self, layout: Layout) -> Orders:
        """Return the trees by colour: trees of one colour share no factor."""
        tree = np.zeros(layout.n_vars, np.int64)
        tree[self.members] = np.repeat(np.arange(self.n_trees), np.diff(self.member_ptr))
        inc = self.incidence
        between = self.is_outside[inc.edge_factor]
        ptr = np.concatenate([[0], np.cumsum(np.bincount(inc.edge_factor[between], minlength=layout.n_factors))])
        found = colouring(Layout.build(np.ones(self.n_trees, np.int64), ptr, tree[inc.scope_vars[between]]))
        return Orders.coloured(found.order, found.colour_ptr)


class ForestField(Field):
    """Products of trees."""

    slope: ClassVar[float] = 40.0
    """An entropy changes by a distance d of its distribution times log(K / d), and no d is less than 1e-16."""

    def __init__(self, graph: FactorGraph, hard: Bools, schedule: str) -> None:
        super().__init__(graph, hard)
        self.forest = forest = Forest.of(graph)
        layout, inc = graph.layout, forest.incidence
        self.exact = not (np.diff(inc.scope_ptr)[forest.outside] > 1).any()
        outer = np.flatnonzero(forest.is_outside[inc.edge_factor])
        self.var_ptr, self.var_edges = by_variable(inc.scope_vars, outer, layout.n_vars)
        table = np.zeros(int(forest.table_ptr[-1]))
        add_tables(
            forest.guests, forest.branch, layout.card, inc.scope_ptr, inc.scope_vars, layout.cell_ptr,
            forest.branch_scope_ptr, forest.branch_vars, forest.table_ptr, graph.theta, table,
        )  # fmt: skip
        self.table: Floats = read_only(table)
        self.orders = (
            Orders.raster(np.arange(forest.n_trees)) if schedule == "sequential" else forest.colours(layout)
        )  # fmt: skip
        # form B of the entropy: tree factors, less what variables in several of them count for too often
        degree = np.bincount(forest.branch_vars, minlength=layout.n_vars)
        self.weight = np.repeat(1.0 - degree, layout.card)
        self.largest_row = int(np.diff(forest.table_ptr).max(initial=1))
        self.entropies = float(np.log(np.diff(forest.table_ptr)).sum() + np.abs(degree - 1.0) @ np.log(layout.card))

    def begin(self, mu: Floats) -> Run:
        """Start a run at the trees that are products of these marginals."""
        run = super().begin(mu)
        lay, forest = self.graph.layout, self.forest
        run.tree = np.empty(self.table.size)
        product_tables(
            read_only(np.arange(forest.table_ptr.size - 1)), lay.card, lay.state_ptr, forest.branch_scope_ptr,
            forest.branch_vars, forest.table_ptr, run.mu, run.tree,
        )  # fmt: skip
        return run

    def update(self, items: Ints, run: Run) -> int:
        """Update these trees one after the other; -1 if one of them has no possible state."""
        lay, forest, inc = self.graph.layout, self.forest, self.forest.incidence
        return sweep_trees(
            items, forest.member_ptr, forest.members, forest.branch_ptr, forest.branch_scope_ptr, forest.branch_vars,
            forest.table_ptr, self.table, lay.card, lay.state_ptr, inc.scope_ptr, inc.scope_vars, lay.cell_ptr,
            self.var_ptr, self.var_edges, inc.edge_factor, self.hard, self.theta, self.forbidden,
            np.empty(self.largest), np.empty(self.widest), np.empty(self.largest_row),
            np.empty(lay.n_states), run.mu, run.support, run.tree,
        )  # fmt: skip

    def refresh(self, run: Run) -> bool:
        """Make the trees anew from the marginals of an earlier run."""
        possible = self.update(read_only(np.arange(self.forest.n_trees)), run) >= 0
        return possible and self.value(run) > -np.inf

    def value(self, run: Run) -> float:
        """Return the expected score plus the entropies of the trees."""
        inc = self.forest.incidence
        outside = self._score(self.forest.outside, inc.scope_ptr, inc.scope_vars, run)
        inside = np.multiply(run.tree, self.table, out=np.zeros_like(run.tree), where=run.tree > 0).sum()
        return outside + float(inside + entropy(run.tree).sum() + self.weight @ entropy(run.mu))

    def deviation(self, run: Run) -> float:
        """Return how far trees' tables may be from those of a distribution: what all factors of a tree disagree by."""
        lay, forest = self.graph.layout, self.forest
        apart = float(forest_deviation(
            forest.branch_ptr, forest.branch_scope_ptr, forest.branch_vars, forest.table_ptr, lay.card, lay.state_ptr,
            run.tree, run.mu, np.empty(self.widest),
        ))  # fmt: skip
        return apart + super().deviation(run)

    def tables(self, run: Run) -> Floats:
        """Return the trees' own marginals, and products outside."""
        lay, forest, inc = self.graph.layout, self.forest, self.forest.incidence
        tables = np.zeros(int(lay.table_ptr[-1]))
        scatter_tables(
            forest.guests, forest.branch, lay.card, inc.scope_ptr, inc.scope_vars, lay.table_ptr,
            forest.branch_scope_ptr, forest.branch_vars, forest.table_ptr, run.tree, tables,
        )  # fmt: skip
        self._products(forest.outside, inc.scope_ptr, inc.scope_vars, run, tables)
        return tables

    @classmethod
    def n_bytes(cls, layout: Layout, hard: Bools, runs: int) -> float:
        """Add the trees' tables, by run and with temporaries, and the structure."""
        joining = layout.arity > 1
        cells, axes = float(layout.factor_size[joining].sum()), float((layout.arity[joining] - 1).sum())
        inside = cells * min(1.0, layout.n_vars / max(axes, 1.0))  # a forest has as many links as variables, at most
        structure = 4 * layout.n_edges + 6 * layout.n_vars + 14 * layout.n_factors
        return super().n_bytes(layout, hard, runs) + 8.0 * (inside * (runs + 2.5) + structure)


def _strongest_first(graph: FactorGraph, inc: Incidence) -> Ints:
    """Return the factors of two variables or more, strongest first."""
    layout = graph.layout
    joining = read_only(np.flatnonzero(np.diff(inc.scope_ptr) > 1))
    strength = np.empty(joining.size)
    coupling_strength(
        joining, layout.card, inc.scope_ptr, inc.scope_vars, layout.cell_ptr, _FLOOR, graph.theta,
        np.empty(int(layout.factor_size.max(initial=1))), strength,
    )  # fmt: skip
    exponent = np.floor(np.log10(np.maximum(strength, 1e-300)))
    rounded = np.round(strength / 10.0**exponent, _DIGITS)
    order: Ints = read_only(joining[np.lexsort((-rounded, -exponent))])
    return order
