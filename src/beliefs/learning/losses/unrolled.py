"""One graph for all components of a composite likelihood: their variables side by side, factors cut at the labels.

Every component gets copies of its variables. A factor that touches it becomes a factor over the copies, with all other
variables at their labels; where one variable is left, the slice joins the copy's own table. The result is a disjoint
union of small models, so that one exact inference answers for all components, and reading potentials from the original
and writing gradients back are two passes over index arrays that depend on the structure alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beliefs.kernels.losses.composite_likelihood import Slices, gather_slices, scatter_slices
from beliefs.learning.instances import Instance
from beliefs.learning.losses.label_scores import known_labels
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout, frozen_ints
from beliefs.typing import Bools, Floats, Ints

__all__ = ["Unrolled"]


@dataclass(frozen=True, eq=False)
class Unrolled:
    """The union: tables of single copies first, then factors of two and more; and where its cells come from."""

    layout: Layout
    slices: Slices

    @classmethod
    def build(cls, parent: Layout, components: list[Ints], labelled: Bools) -> Unrolled:
        """Unroll the model of the labelled variables; variables and factors without all labels are left out."""
        parts = [part[labelled[part]] for part in components]
        component = np.repeat(np.arange(len(parts)), [part.size for part in parts])
        variable = np.concatenate([*parts, np.zeros(0, np.int64)])
        missing = np.bincount(parent.edge_factor, ~labelled[parent.scope_vars], parent.n_factors) > 0
        # one row for every edge at every copy; rows of one component and factor are a slice
        degree = np.diff(parent.var_ptr)[variable]
        copy = np.repeat(np.arange(variable.size), degree)
        within = np.arange(copy.size) - np.repeat(np.cumsum(degree) - degree, degree)
        edge = parent.var_edges[parent.var_ptr[variable[copy]] + within]
        kept = ~missing[parent.edge_factor[edge]]
        copy, edge = copy[kept], edge[kept]
        order = np.lexsort((edge, component[copy]))  # edges ascend with their factors
        copy, edge = copy[order], edge[order]
        factor, group = parent.edge_factor[edge], component[copy]
        new = np.ones(edge.size, np.bool_)
        new[1:] = (factor[1:] != factor[:-1]) | (group[1:] != group[:-1])
        inside_ptr = np.append(np.flatnonzero(new), edge.size)
        return cls._laid_out(parent.card[variable], copy, factor[new], inside_ptr, edge)

    @classmethod
    def _laid_out(cls, card: Ints, copy: Ints, slice_factor: Ints, inside_ptr: Ints, edges: Ints) -> Unrolled:
        """Lay out the union, given the copy at each inside edge."""
        wide = np.diff(inside_ptr) > 1
        of_wide = np.repeat(wide, np.diff(inside_ptr))
        ends = card.size + np.cumsum(np.diff(inside_ptr)[wide])
        scope_ptr = np.concatenate([np.arange(card.size + 1), ends])
        layout = Layout.build(card, scope_ptr, np.concatenate([np.arange(card.size), copy[of_wide]]))
        target = np.empty(slice_factor.size, np.int64)
        target[~wide] = layout.cell_ptr[copy[inside_ptr[:-1][~wide]]]
        target[wide] = layout.cell_ptr[card.size :]
        return cls(layout, Slices(*(frozen_ints(a, "slices") for a in (slice_factor, inside_ptr, edges, target))))

    @cached_property
    def _empty(self) -> FactorGraph:
        return FactorGraph.build(self.layout, np.zeros(self.layout.n_cells))

    def graph(self, parent: FactorGraph, instance: Instance) -> FactorGraph:
        """Return the union with the potentials of a graph and the labels of an instance."""
        lay, theta = parent.layout, np.zeros(self.layout.n_cells)
        labels, cells = known_labels(instance), instance.label_cells
        gather_slices(self.slices, lay.scopes, lay.edge_stride, labels, cells, parent.theta, theta)
        return self._empty.with_theta(theta)

    def gradient(self, mu: Floats, instance: Instance) -> Floats:
        """Return expectations ``mu`` of the union minus the labels' statistics, in the cells of the original."""
        lay, cells = instance.layout, instance.label_cells
        grad = np.zeros(lay.n_cells)
        scatter_slices(self.slices, lay.scopes, lay.edge_stride, known_labels(instance), cells, mu, grad)
        grad -= np.bincount(cells[self.slices.factor], minlength=grad.size)
        return grad
