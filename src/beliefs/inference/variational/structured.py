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
from beliefs.inference.variational.field import Field, Orders, Run, entropy
from beliefs.kernels.layout import Adjacency, Scopes
from beliefs.kernels.mean_field.general import product_tables
from beliefs.kernels.mean_field.induced_trees import (
    add_tables,
    coupling_strength,
    grow_trees,
    lay_trees,
    scatter_tables,
)
from beliefs.kernels.mean_field.trees import Trees, TreeScratch, sweep_trees
from beliefs.kernels.rounding import forest_deviation
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout, offsets, read_only
from beliefs.typing import Bools, Floats, Ints

__all__ = ["Forest", "ForestField"]

_FLOOR = 50.0  # nats below a table's maximum that a hard zero counts for when strengths are compared
_DIGITS = 9  # of a strength that count; the rest is rounding, and equal strengths must stay equal


def joining(layout: Layout) -> tuple[Scopes, Adjacency]:
    """Return the scopes without variables of one state, which join nothing, and the edges at each variable."""
    joins = layout.card[layout.scope_vars] > 1
    if joins.all():
        return layout.scopes, layout.adjacency
    before = offsets(joins)
    scope_ptr, scope_vars = read_only(before[layout.scope_ptr]), read_only(layout.scope_vars[joins])
    var_ptr, edges = _among(layout.adjacency, joins)
    adjacency = Adjacency(var_ptr, read_only(before[edges]), read_only(layout.edge_factor[joins]))
    return Scopes(layout.card, layout.state_ptr, scope_ptr, scope_vars, layout.cell_ptr), adjacency


def _among(adjacency: Adjacency, chosen: Bools) -> tuple[Ints, Ints]:
    """Return the chosen edges at each variable: where each variable's begin, and the edges."""
    kept = chosen[adjacency.var_edges]
    return read_only(offsets(kept)[adjacency.var_ptr]), read_only(adjacency.var_edges[kept])


@dataclass(frozen=True, eq=False)
class Forest:
    """The trees and the factors of the model, whose scopes and edges leave out variables of one state.

    ``guests`` are the factors inside trees, ``branch`` the number of the tree factor that each goes with; ``outside``
    are the factors between trees and of single variables.
    """

    scopes: Scopes
    adjacency: Adjacency
    trees: Trees
    guests: Ints
    branch: Ints
    outside: Ints
    is_outside: Bools

    @property
    def n_trees(self) -> int:
        """Number of trees, single variables included."""
        return self.trees.member_ptr.size - 1

    @property
    def branches(self) -> Scopes:
        """The scopes of the tree factors."""
        return self.trees.branches

    @property
    def table_ptr(self) -> Ints:
        """Where the tables of the tree factors begin, and the last one ends."""
        return self.branches.cell_ptr

    @classmethod
    def of(cls, graph: FactorGraph) -> Forest:
        """Choose the trees of a graph by the strength of its factors."""
        layout = graph.layout
        scopes, adjacency = layout.plan(joining)
        host = np.empty(layout.n_factors, np.int64)
        grow_trees(_strongest_first(graph, scopes), scopes, adjacency, host)
        return cls._laid(layout, scopes, adjacency, host)

    @classmethod
    def _laid(cls, layout: Layout, scopes: Scopes, adjacency: Adjacency, host: Ints) -> Forest:
        variables = np.flatnonzero(layout.degree > 0)
        own = np.flatnonzero(host == np.arange(layout.n_factors))
        n_places = int(np.diff(scopes.scope_ptr)[own].sum())
        member_ptr, branch_ptr = np.empty((2, variables.size + 1), np.int64)
        members, factor = np.empty(variables.size, np.int64), np.empty(own.size, np.int64)
        scope_ptr, scope_vars = np.empty(own.size + 1, np.int64), np.empty(n_places, np.int64)
        n_trees = lay_trees(
            variables, scopes, adjacency, host, member_ptr, members, branch_ptr, factor, scope_ptr, scope_vars
        )
        number = np.full(layout.n_factors, -1, np.int64)
        number[factor] = np.arange(factor.size)
        guests = np.flatnonzero(host >= 0)
        table_ptr = offsets(layout.factor_size[factor])
        trees = Trees(
            read_only(member_ptr[: n_trees + 1].copy()),
            read_only(members),
            read_only(branch_ptr[: n_trees + 1].copy()),
            Scopes(
                layout.card, layout.state_ptr, read_only(scope_ptr), read_only(scope_vars), read_only(table_ptr)
            ),  # fmt: skip
        )
        return cls(
            scopes,
            adjacency,
            trees,
            read_only(guests),
            read_only(number[host[guests]]),
            read_only(np.flatnonzero(host < 0)),
            host < 0,
        )

    def colours(self, layout: Layout) -> Orders:
        """Return the trees by colour: trees of one colour share no factor."""
        tree = np.zeros(layout.n_vars, np.int64)
        tree[self.trees.members] = np.repeat(np.arange(self.n_trees), np.diff(self.trees.member_ptr))
        factor = self.adjacency.edge_factor
        between = self.is_outside[factor]
        ptr = offsets(np.bincount(factor[between], minlength=layout.n_factors))
        found = colouring(Layout.build(np.ones(self.n_trees, np.int64), ptr, tree[self.scopes.scope_vars[between]]))
        return Orders.coloured(found.order, found.colour_ptr)


class ForestField(Field):
    """Products of trees."""

    slope: ClassVar[float] = 40.0
    """An entropy changes by a distance d of its distribution times log(K / d), and no d is less than 1e-16."""

    def __init__(self, graph: FactorGraph, hard: Bools, schedule: str) -> None:
        super().__init__(graph, hard)
        self.forest = forest = Forest.of(graph)
        layout, scopes, edge_factor = graph.layout, forest.scopes, forest.adjacency.edge_factor
        self.exact = not (np.diff(scopes.scope_ptr)[forest.outside] > 1).any()
        self.outer = Adjacency(*_among(forest.adjacency, forest.is_outside[edge_factor]), edge_factor)
        table = np.zeros(int(forest.table_ptr[-1]))
        add_tables(forest.guests, forest.branch, scopes, forest.branches, graph.theta, table)
        self.table: Floats = read_only(table)
        self.orders = (
            Orders.raster(np.arange(forest.n_trees)) if schedule == "sequential" else forest.colours(layout)
        )  # fmt: skip
        # form B of the entropy: tree factors, less what variables in several of them count for too often
        degree = np.bincount(forest.branches.scope_vars, minlength=layout.n_vars)
        self.weight = np.repeat(1.0 - degree, layout.card)
        self.largest_row = int(np.diff(forest.table_ptr).max(initial=1))
        self.entropies = float(np.log(np.diff(forest.table_ptr)).sum() + np.abs(degree - 1.0) @ np.log(layout.card))

    def begin(self, mu: Floats) -> Run:
        """Start a run at the trees that are products of these marginals."""
        run = super().begin(mu)
        table_ptr = self.forest.table_ptr
        run.tree = np.empty(self.table.size)
        product_tables(
            read_only(np.arange(table_ptr.size - 1)), self.forest.branches, table_ptr, run.mu, run.tree
        )  # fmt: skip
        return run

    def update(self, items: Ints, run: Run) -> int:
        """Update these trees one after the other; -1 if one of them has no possible state."""
        forest, room = self.forest, TreeScratch(np.empty(self.largest_row), np.empty(self.graph.layout.n_states))
        return sweep_trees(
            items, forest.trees, self.table, forest.scopes, self.outer, self.potentials, self._scratch(), room,
            run.product, run.tree,
        )  # fmt: skip

    def refresh(self, run: Run) -> bool:
        """Make the trees anew from the marginals of an earlier run."""
        possible = self.update(read_only(np.arange(self.forest.n_trees)), run) >= 0
        return possible and self.value(run) > -np.inf

    def value(self, run: Run) -> float:
        """Return the expected score plus the entropies of the trees."""
        outside = self._score(self.forest.outside, self.forest.scopes, run)
        inside = np.multiply(run.tree, self.table, out=np.zeros_like(run.tree), where=run.tree > 0).sum()
        return outside + float(inside + entropy(run.tree).sum() + self.weight @ entropy(run.mu))

    def deviation(self, run: Run) -> float:
        """Return how far trees' tables may be from those of a distribution: what all factors of a tree disagree by."""
        card, state_ptr, scope_ptr, scope_vars, table_ptr = self.forest.branches
        apart = float(forest_deviation(
            self.forest.trees.branch_ptr, scope_ptr, scope_vars, table_ptr, card, state_ptr, run.tree, run.mu,
            np.empty(self.widest),
        ))  # fmt: skip
        return apart + super().deviation(run)

    def tables(self, run: Run) -> Floats:
        """Return the trees' own marginals, and products outside."""
        place, forest = self.graph.layout.table_ptr, self.forest
        tables = np.zeros(int(place[-1]))
        scatter_tables(forest.guests, forest.branch, forest.scopes, forest.branches, place, run.tree, tables)
        self._products(forest.outside, forest.scopes, run, tables)
        return tables

    @classmethod
    def n_bytes(cls, layout: Layout, hard: Bools, runs: int) -> float:
        """Predict the memory of marginals, of the trees' tables, by run and with temporaries, and of the structure."""
        joining = layout.arity > 1
        cells, axes = float(layout.factor_size[joining].sum()), float((layout.arity[joining] - 1).sum())
        # a forest has as many links as variables, at most; a factor goes in if each of its links finds room
        share = min(1.0, layout.n_vars / max(axes, 1.0)) ** (axes / max(int(joining.sum()), 1))
        zeros = 2.2 * layout.n_cells if hard.any() else 0
        tables = layout.n_states * (2 * runs + 3) + share * cells * (runs + 2.5)
        structure = 3 * layout.n_edges + 3 * layout.n_factors + 12 * layout.n_vars
        sorting = 2 * layout.n_edges + 2 * layout.n_factors + 6 * float(joining.sum())
        return 8.0 * float(zeros + max(tables + structure, sorting))


def _strongest_first(graph: FactorGraph, scopes: Scopes) -> Ints:
    """Return the factors of two variables or more, strongest first."""
    several = read_only(np.flatnonzero(np.diff(scopes.scope_ptr) > 1))
    strength, rest = np.empty(several.size), np.empty(int(graph.layout.factor_size.max(initial=1)))
    coupling_strength(several, scopes, _FLOOR, graph.theta, rest, strength)
    exponent = np.maximum(strength, 1e-300)
    np.floor(np.log10(exponent, out=exponent), out=exponent)
    rounded = np.round(np.divide(strength, 10.0**exponent, out=strength), _DIGITS, out=strength)
    keys = np.negative(rounded, out=rounded), np.negative(exponent, out=exponent)
    order: Ints = read_only(several[np.lexsort(keys)])
    return order
