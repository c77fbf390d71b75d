r"""What a wrong label costs, as tables, and the graph in which the costs are potentials.

.. math:: \Delta(\hat y, y) = \sum_i c_i(y_i), \qquad c_i(\hat y_i) = 0, \qquad c_i \ge 0

==============  ======================================================================================================
``hamming``     ``c_i = 1`` for every wrong state, times the weight of the label
a table         ``c_i(y) = table[label, y]``, times the weight of the label
of an instance  ``Instance.costs`` as they are
``none``        nothing
==============  ======================================================================================================

Hidden variables cost nothing. A sum over variables is a sum of unary potentials, so ``theta + Delta`` is the model of a
graph with one more unary factor a labelled variable, after the user's own: a variable may have no unary factor, or one
whose table is tied. ``zero_one`` is no such sum; see :mod:`beliefs.learning.losses.zero_one`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.run import Answer
from beliefs.learning.instances import Instance, Slot
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.options import shown
from beliefs.typing import Bools, Floats

__all__ = ["DELTAS", "AugmentedGraph", "MarginAnswer", "augmented", "checked_delta", "costs_of"]

DELTAS = ("hamming", "zero_one", "none")

Delta = str | tuple[tuple[float, ...], ...]


def checked_delta(delta: Any) -> Delta:
    """Return a word, or a table as nested tuples, which can be compared; raise for anything else."""
    if isinstance(delta, str) and delta in DELTAS:
        return delta
    try:
        table = np.array(delta).astype(np.float64, casting="same_kind")
    except (TypeError, ValueError):
        table = np.zeros(0)
    if isinstance(delta, str) or table.ndim != 2 or table.shape[0] != table.shape[1] or not table.size:
        raise ModelError(
            f"delta must be {', '.join(DELTAS)}, or a table (K, K) of costs [true, predicted], found {shown(delta)}"
        )
    _check_costs(table, "delta")
    if np.diag(table).any():
        k = int(np.argmax(np.diag(table) != 0))
        raise ModelError(f"delta must cost 0 where the prediction is true, found {table[k, k]:g} for state {k}")
    return tuple(tuple(row) for row in table.tolist())


def costs_of(delta: Delta, instance: Instance) -> Floats:
    """Return the cost of each state of each variable, ``(n_states,)``, kept with the instance; raises for bad ones."""
    return instance.memory.of(Slot[Floats]("costs", delta), lambda: _costs(delta, instance))


def _costs(delta: Delta, instance: Instance) -> Floats:
    if instance.costs is not None:
        costs = _given_costs(instance)
    elif isinstance(delta, str):
        costs = np.full(instance.layout.n_states, float(delta == "hamming"))
    else:
        costs = _tabled(np.array(delta), instance)
    lay, seen = instance.layout, np.flatnonzero(instance.labelled)
    costs[lay.state_ptr[seen] + instance.labels[seen]] = 0.0
    if instance.costs is None and instance.label_weights is not None:
        costs *= np.repeat(instance.label_weights, lay.card)
    costs[np.repeat(~instance.labelled, lay.card)] = 0.0
    costs.setflags(write=False)
    return costs


def _tabled(table: Floats, instance: Instance) -> Floats:
    card = instance.layout.card[instance.labelled]
    if (card != len(table)).any():
        v = int(np.flatnonzero(instance.labelled)[np.argmax(card != len(table))])
        raise ModelError(
            f"{instance.name}: delta is a table for {len(table)} states, and variable {v} has "
            f"{instance.layout.card[v]}; give costs of each variable (costs) instead"
        )
    costs = np.zeros(instance.layout.n_states)
    costs[np.repeat(instance.labelled, instance.layout.card)] = table[instance.labels[instance.labelled]].ravel()
    return costs


def _given_costs(instance: Instance) -> Floats:
    lay = instance.layout
    given = np.array(instance.costs, np.float64)
    if given.shape != (lay.n_states,):
        raise ModelError(f"{instance.name}: costs must have shape ({lay.n_states},), found {given.shape}")
    _check_costs(given, f"{instance.name}: costs")
    seen = np.flatnonzero(instance.labelled)
    on_truth = given[lay.state_ptr[seen] + instance.labels[seen]]
    if on_truth.any():
        v = int(seen[np.argmax(on_truth != 0)])
        raise ModelError(
            f"{instance.name}: the label of variable {v} must cost 0, found {on_truth[on_truth != 0][0]:g}"
        )
    return given


def _check_costs(costs: Floats, what: str) -> None:
    bad = ~(np.isfinite(costs) & (costs >= 0))
    if bad.any():
        raise ModelError(f"{what} must be finite and at least 0, found {costs[bad].flat[0]:g}")


@dataclass(frozen=True, eq=False)
class MarginAnswer(Answer):
    """A free term with costs, and the expected cost under it."""

    delta: float = 0.0

    @classmethod
    def of(cls, found: Answer, delta: float) -> MarginAnswer:
        """Return an answer with its cost."""
        return cls(**{f.name: getattr(found, f.name) for f in fields(Answer)}, delta=delta)


# -- the graph in which they are potentials -------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class AugmentedGraph:
    """The graph of an instance with a unary factor of costs for every labelled variable, its structure and plans kept.

    ``states`` says which states ``(n_states,)`` have a cell of costs.
    """

    empty: FactorGraph
    layout: Layout
    states: Bools

    def graph(self, theta: Floats, costs: Floats) -> FactorGraph:
        """Return the graph with these log potentials and costs ``(n_states,)``."""
        return self.empty.with_theta(np.concatenate([theta, costs[self.states]]))

    def restricted(self, found: Answer) -> Answer:
        """Return an answer for the graph as one over the cells of the instance."""
        return replace(found, layout=self.layout, mu_factor=found.mu_factor[: int(self.layout.table_ptr[-1])])


def augmented(instance: Instance) -> AugmentedGraph:
    """Return the augmented graph of an instance, kept with it; one for all that share layout and hidden variables."""
    lay, seen = instance.layout, instance.labelled
    return instance.memory.of(
        Slot[AugmentedGraph]("augmented graph"),
        lambda: lay.plan(_augmented, seen & ~lay.observed),
    )


def _augmented(layout: Layout, seen: Bools) -> AugmentedGraph:
    variables = np.flatnonzero(seen)
    sizes = layout.card[variables]
    extended = Layout.build(
        layout.card,
        np.concatenate([layout.scope_ptr, layout.scope_ptr[-1] + 1 + np.arange(variables.size)]),
        np.concatenate([layout.scope_vars, variables]),
        np.concatenate([layout.cell_ptr, layout.n_cells + np.cumsum(sizes) - sizes]),
        layout.observed,
    )
    empty = FactorGraph.build(extended, np.zeros(extended.n_cells))
    return AugmentedGraph(empty, layout, np.repeat(seen, layout.card))
