r"""Restricted Boltzmann machines: every visible unit meets every hidden one, and nobody of its own layer.

.. math:: p(v, h) \propto \exp(v^T W h + v^T b + h^T a), \qquad v, h \in \{0, 1\}

([smolensky1986]; [ping2016] section 2.1.4). Given one layer the units of the other are independent,
:math:`p(h_j = 1 \mid v) = \sigma(w_j^T v + a_j)`, and either layer can be summed out in closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from beliefs.elsewhere import MACHINES, Hinting
from beliefs.errors import ModelError
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.model.layout import Layout, read_only
from beliefs.model.machine import BoltzmannMachine, checked_bits, given_layer
from beliefs.model.naming import Naming
from beliefs.typing import Evidence, Floats

if TYPE_CHECKING:
    from beliefs.model.clamped_rbm import ClampedRBM

__all__ = ["RBM"]


class RBM(Hinting, BoltzmannMachine):
    """A restricted Boltzmann machine. It does not change, and is accepted wherever a factor graph is.

    Parameters
    ----------
    weights : array_like (n_visible, n_hidden)
        There may be no hidden units.
    visible_bias, hidden_bias : array_like, optional
        Zeros unless given.

    Examples
    --------
    >>> rbm = RBM([[1.0, -1.0], [0.5, 2.0]], visible_bias=[0.1, -0.2])
    >>> rbm.free_energy([[1, 1]]).round(4)
    array([-2.9147])
    >>> rbm.hidden_probability([[1, 1]]).round(4)
    array([[0.8176, 0.7311]])
    """

    _elsewhere: ClassVar[Mapping[str, str]] = MACHINES

    def __init__(
        self, weights: ArrayLike, visible_bias: ArrayLike | None = None, hidden_bias: ArrayLike | None = None
    ) -> None:
        self._set(weights, visible_bias, hidden_bias)

    @cached_property
    def _counts(self) -> Floats:
        ones = np.ones(self.n_hidden)
        ones.setflags(write=False)
        return ones

    @property
    def counts(self) -> Floats:  # type: ignore[override]
        """Every unit once, ``(n_hidden,)``."""
        return self._counts

    def visible_probability(self, hidden: ArrayLike) -> np.ndarray:
        """Return P(v = 1) of every visible unit given each row of hidden bits, ``(N, n_visible)``."""
        rows = checked_bits(hidden, self.n_hidden, "hidden units")
        return given_layer(rows, self.weights.T, self.visible_bias)

    # -- the factor graph -------------------------------------------------------------------------------------------
    @cached_property
    def _graph(self) -> FactorGraph:
        (n, m), n_vars = self.weights.shape, self.n_vars
        scopes, theta = np.empty(n_vars + 2 * n * m, np.int64), np.zeros(2 * n_vars + 4 * n * m)
        scopes[:n_vars] = np.arange(n_vars)
        ends = scopes[n_vars:].reshape(n, m, 2)
        ends[..., 0], ends[..., 1] = np.arange(n)[:, None], n + np.arange(m)
        theta[1 : 2 * n : 2], theta[2 * n + 1 : 2 * n_vars : 2] = self.visible_bias, self.hidden_bias
        theta[2 * n_vars + 3 :: 4] = self.weights.ravel()
        ptr = np.arange(n_vars + n * m + 1)
        ptr[n_vars:] += np.arange(n * m + 1)
        layout = Layout.build(np.full(n_vars, 2), read_only(ptr), read_only(scopes))
        return FactorGraph.keeping(layout, theta, self.naming)

    @cached_property
    def naming(self) -> Naming:
        """The units' names, ``v0, v1, ..., h0, h1, ...``."""
        names = tuple(f"{layer}{k}" for layer, n in (("v", self.n_visible), ("h", self.n_hidden)) for k in range(n))
        return Naming(np.full(self.n_vars, 2, np.int64), names)

    def condition(self, evidence: Evidence) -> ClampedRBM:
        """Return the machine with some units observed, ``{"v0": 1}``: one with fewer units, at heart."""
        from beliefs.model.clamped_rbm import ClampedRBM

        return ClampedRBM(self, self.naming.observed(np.full(self.n_vars, -1, np.int64), evidence))

    def to_factor_graph(self) -> FactorGraph:
        """Return the equivalent factor graph, made once: variables ``v0, v1, ..., h0, h1, ...``.

        Its factors are the biases in that order, then the weights row by row.
        """
        return self._graph

    @classmethod
    def from_factor_graph(cls, model: Model) -> RBM:
        """Read a factor graph as a machine; a ModelError names the first factor that no machine has.

        Variables are binary, the visible ones first, and no factor joins two of a layer. Tables of one and two
        variables may be any whose entry for zeros is 0 (a machine has no constant); several of the same are added up.
        """
        if isinstance(model, cls):
            return model
        graph = as_factor_graph(model)
        if graph.layout.observed.any():
            raise ModelError("a graph with evidence is no RBM; convert before conditioning")
        n_visible = _first_hidden(graph)
        layout, theta = graph.layout, graph.theta
        sizes, start = layout.arity, layout.cell_ptr
        for f in np.flatnonzero(theta[start] != 0.0)[:1]:
            raise _no_machine(graph, int(f), f"its entry for zeros is {theta[start[f]]:g}, not 0")
        fields, weights = np.zeros(graph.n_vars), np.zeros((n_visible, graph.n_vars - n_visible))
        alone, pairs = np.flatnonzero(sizes == 1), np.flatnonzero(sizes == 2)
        ends = layout.scope_vars[layout.scope_ptr[pairs][:, None] + np.arange(2)].reshape(-1, 2)
        table = theta[start[pairs][:, None] + np.arange(1, 4)].reshape(-1, 3)
        np.add.at(fields, layout.scope_vars[layout.scope_ptr[alone]], theta[start[alone] + 1])
        np.add.at(fields, ends, table[:, 1::-1])  # the entry (1, 0) belongs to the first, (0, 1) to the second
        np.add.at(weights, (ends.min(axis=1), ends.max(axis=1) - n_visible), table[:, 2] - table[:, 1] - table[:, 0])
        return cls(weights, fields[:n_visible], fields[n_visible:])


def _first_hidden(graph: FactorGraph) -> int:
    """Return how many variables come before the first hidden one, having checked that the graph has two layers."""
    layout = graph.layout
    wide = np.flatnonzero(layout.card != 2)
    if wide.size:
        name, states = graph.naming.name(int(wide[0])), int(layout.card[wide[0]])
        raise ModelError(f"the graph is no RBM: variable {name!r} has {states} states, not 2")
    hard = np.flatnonzero(graph.theta == -np.inf)
    if hard.size:
        f = int(np.argmax((layout.cell_ptr <= hard[0]) & (hard[0] < layout.cell_ptr + layout.factor_size)))
        raise _no_machine(graph, f, "it has a hard zero")
    sizes = layout.arity
    if (sizes > 2).any():
        f = int(np.argmax(sizes > 2))
        raise _no_machine(graph, f, f"it joins {sizes[f]} variables")
    pairs = np.flatnonzero(sizes == 2)
    ends = layout.scope_vars[layout.scope_ptr[pairs][:, None] + np.arange(2)].reshape(-1, 2)
    first = int(ends.max(axis=1, initial=0).min(initial=graph.n_vars))
    inside = ends.min(axis=1, initial=graph.n_vars) >= first
    if inside.any():
        raise _no_machine(graph, int(pairs[np.argmax(inside)]), "it joins two variables of one layer")
    return first


def _no_machine(graph: FactorGraph, f: int, reason: str) -> ModelError:
    names = ", ".join(graph.naming.name(int(v)) for v in graph.layout.scope(f))
    return ModelError(f"the graph is no RBM: factor {f} over ({names}) is none of its factors, for {reason}")
