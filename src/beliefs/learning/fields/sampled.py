r"""Likelihood gradients of fields from Markov chains.

.. math:: \nabla L \approx \frac1C \sum_c f(x^{(c)}) - \hat\mu

*Stochastic maximum likelihood* [younes1989], [tieleman2008] goes on with the chains of the last update; rows enter by
their frequencies :math:`\hat\mu`, expected ones where cells are missing. *Contrastive divergence* [hinton2002] draws
rows, fills their missing cells by Gibbs sampling, starts a chain at each and does ``sweeps`` sweeps; the data's term is
that of the same rows, so that what is common to both cancels. It is biased by what the sweeps leave of the start; the
bias goes to 0 as they grow.

The *value* is a monitor: half the squared distance of the two averages. No line search can be done with it.
Cost: ``sweeps`` sweeps of ``chains`` chains an update, whatever the number of rows. Random numbers are functions of the
seed, the update, the chain and the variable.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from beliefs.inference.sampling.chains import starting_states
from beliefs.kernels.gibbs.general import States, count_cells
from beliefs.learning.fields.base import FieldLoss, clamped
from beliefs.learning.fields.blankets import Blanket
from beliefs.learning.fields.statistics import FieldRows
from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.losses.sampled import moved_chains, possible
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.model.rows.table import RowTable
from beliefs.typing import Floats

__all__ = ["FieldContrastiveDivergence", "FieldStochasticLikelihood"]

_FILLING = 3  # sweeps over the missing cells of rows before chains start there


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledField(FieldLoss):
    """What sampled gradients share.

    Attributes
    ----------
    sweeps, chains : int
        Gibbs sweeps an update, and chains.
    seed : int
        Of all random numbers.
    """

    sweeps: int = 1
    chains: int = 100
    seed: int = 0
    hidden: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True
    by_row: ClassVar[bool] = True
    remembers: ClassVar[bool] = True
    _memory: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def remembered(self) -> dict[str, np.ndarray]:
        """Return the number of updates, and where chains are."""
        return self._memory

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self._memory.clear()
        self._memory.update(memory)

    def part(self, theta: Floats, data: FieldRows) -> Evaluation:
        """Return the monitor and the difference of the chains' and the data's averages."""
        update = int(self._memory.get("updates", np.array(0)))
        graph = self.graph(theta)
        states, target = self.start(graph, data, update)
        key = np.random.SeedSequence([self.seed, 1]).generate_state(1, np.uint64)[0]
        found = moved_chains(graph, graph.layout, states, key, update * self.sweeps, self.sweeps)
        self._memory.update(updates=np.array(update + 1), chains=states)
        grad = found - target
        return Evaluation(0.5 * float(grad @ grad), grad, 1)

    @abstractmethod
    def start(self, graph: FactorGraph, data: FieldRows, update: int) -> tuple[States, Floats]:
        """Return the states to go on from ``(n_vars, chains)``, and the data's average."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FieldStochasticLikelihood(SampledField):
    """Stochastic maximum likelihood: chains that go on."""

    sweeps: int = 5
    name: ClassVar[str] = "stochastic_likelihood"

    def start(self, graph: FactorGraph, data: FieldRows, update: int) -> tuple[States, Floats]:
        """Return where the chains were; at first anywhere."""
        states = self._memory.get("chains")
        if states is None or not possible(graph, states):
            states = starting_states(graph, self.chains, self.seed)
        return states.copy(), clamped(graph.theta, data)[1]


@dataclass(frozen=True, eq=False, kw_only=True)
class FieldContrastiveDivergence(SampledField):
    """CD-k: chains that start at rows."""

    name: ClassVar[str] = "contrastive_divergence"

    def start(self, graph: FactorGraph, data: FieldRows, update: int) -> tuple[States, Floats]:
        """Return rows drawn anew, their missing cells filled, and their average."""
        table, rng = data.rows, np.random.default_rng([self.seed, update])
        if table.weights is None:
            numbers = rng.integers(0, table.n_rows, self.chains)
        else:
            numbers = rng.choice(table.n_rows, self.chains, p=table.weights / table.weights.sum())
        states = filled(graph, table.take(numbers), rng)
        return states, _average(graph.layout, states)


def filled(graph: FactorGraph, table: RowTable, rng: np.random.Generator) -> States:
    """Return rows ``(n_vars, n)`` with missing cells drawn by a few sweeps of Gibbs sampling."""
    codes, holes = table.codes.copy(), table.codes == table.missing
    unknown = np.flatnonzero(holes.any(axis=1))
    for v in unknown:
        codes[v, holes[v]] = rng.integers(0, graph.layout.card[v], int(holes[v].sum()))
    blankets = {v: Blanket.of(graph.layout, int(v)) for v in unknown}
    for _ in range(_FILLING if unknown.size else 0):
        for v in unknown:
            which = np.flatnonzero(holes[v])
            logits = blankets[v].logits(graph.theta, np.ascontiguousarray(codes[blankets[v].columns][:, which]))
            drawn = logits + rng.gumbel(size=logits.shape)  # the largest is a draw
            codes[v, which] = drawn.argmax(axis=1)
    return codes.astype(np.int32)


def _average(layout: Layout, states: States) -> Floats:
    """Return the mean statistics ``(n_cells,)`` of some states."""
    counts = np.zeros(int(layout.table_ptr[-1]))
    count_cells(
        layout.scope_ptr, layout.scope_vars, layout.table_ptr, layout.edge_stride, 0, layout.n_factors, states, counts
    )
    unary = layout.unary_cells
    counts[unary.table_cells] = np.bincount((layout.state_ptr[:-1, None] + states).ravel(), minlength=layout.n_states)[
        unary.states
    ]
    return layout.in_cells(counts / states.shape[1])
