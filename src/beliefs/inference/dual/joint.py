r"""All shifts and weights at once: the bound as one function of :math:`(\delta, v)`, with :math:`w = \epsilon + S\,
\mathrm{softmax}(v)` for the copies of each variable, minimised by :class:`~beliefs.inference.dual.lbfgs.QuasiNewton`.

.. math:: \partial L / \partial \delta_s^c = \mu_s - \mu_c(x_s), \qquad
          \partial L / \partial v_k = S s_k (H_k - \textstyle\sum_j s_j H_j)

Convex in :math:`\delta`, and where temperatures are 0 not smooth: then progress may end early.
"""

from __future__ import annotations

import numpy as np

from beliefs.inference.dual.lbfgs import QuasiNewton
from beliefs.inference.dual.state import SplitTables
from beliefs.inference.dual.weights import least_weights
from beliefs.kernels.dual.links import add_shifts, shift_gradients
from beliefs.model.layout import offsets
from beliefs.typing import Floats

__all__ = ["JointDescent"]

_LEAST_SHARE = 1e-6  # of a weight at the start: none is so small that it cannot grow


class JointDescent:
    """A minimisation of the bound in all shifts and, if it ``moves_weights``, those; the tables hold its iterate."""

    def __init__(self, split: SplitTables, floor: float, moves_weights: bool) -> None:
        g, tau, state = split.graph, split.tau, split.state
        self.split, self.moves_weights = split, moves_weights
        self._loaded = split.tables.copy(), state.sep_tables.copy()
        self._begin = offsets(g.link_width)
        self._n_shifts = int(self._begin[-1])
        self._variable = np.concatenate([g.clusters.var, g.separators.var])
        least = least_weights(g, tau, floor)
        n_terms = np.bincount(self._variable, minlength=tau.size)
        self._least, self._room = least[self._variable], (tau - n_terms * least)[self._variable]
        weight = np.concatenate([state.weight, state.sep_weight])
        part = (weight - self._least) / np.where(self._room > 0, self._room, 1.0)
        logits = np.log(np.maximum(part, _LEAST_SHARE)) if moves_weights else np.zeros(0)
        self.search = QuasiNewton(self.value_and_gradient, np.concatenate([np.zeros(self._n_shifts), logits]))

    def step(self) -> float:
        """Take one quasi-Newton step; return the bound."""
        self.search.step()
        self.split.state.scores[:] = self.split.state.sep_tables
        return self.search.value

    def value_and_gradient(self, x: Floats) -> tuple[float, Floats]:
        """Set tables and weights to those of ``x``; return the bound and its gradient."""
        split, g = self.split, self.split.graph
        index, sep_tables = split.work.cell_map, split.state.sep_tables
        split.tables[:], sep_tables[:] = self._loaded
        moved = x[: self._n_shifts].copy()
        add_shifts(g.clusters, g.separators, g.links, g.link_owner, self._begin, index, moved, split.tables, sep_tables)
        parts = self._shares(x[self._n_shifts :]) if self.moves_weights else np.zeros(0)
        value = split.value()
        found = split.gradients()
        gradient = np.zeros(x.size)
        shifts = np.empty(self._n_shifts)
        shift_gradients(
            g.clusters, g.separators, g.links, g.link_owner, self._begin, index, found.beliefs, found.sep_beliefs,
            shifts,
        )  # fmt: skip
        gradient[: self._n_shifts] = shifts
        if self.moves_weights:
            slope = self._room * np.concatenate([found.entropies, found.sep_entropies])
            mean = np.bincount(self._variable, parts * slope, split.tau.size)
            gradient[self._n_shifts :] = parts * (slope - mean[self._variable])
        return value, gradient

    def _shares(self, logits: Floats) -> Floats:
        """Set the weights to the softmax of the logits, variable by variable; return the shares."""
        n, state = self.split.tau.size, self.split.state
        top = np.full(n, -np.inf)
        np.maximum.at(top, self._variable, logits)
        parts: Floats = np.exp(logits - top[self._variable])
        parts /= np.bincount(self._variable, parts, n)[self._variable]
        weight = self._least + self._room * parts
        state.weight[:], state.sep_weight[:] = weight[: state.weight.size], weight[state.weight.size :]
        return parts
