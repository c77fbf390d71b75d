r"""Margins of linear chains: all sequences at once, each in time linear in its length.

.. math:: L(w) = \sum_s a_s \bigl( F_\varepsilon(\theta_s + \Delta_s) - F_\varepsilon(\theta_s \mid y_s) \bigr), \qquad
   F_\varepsilon(\theta) = \varepsilon \log \sum_y e^{\theta(y) / \varepsilon}

with the best labelling in the place of the sum at temperature 0, and over the hidden labels in the second term. Hidden
labels with a temperature of their own are summed innermost (:mod:`beliefs.kernels.chains.two_temperatures`, and
:mod:`~beliefs.kernels.chains.marginal_map` where outputs are maximised and no chain spans too much for that). Equal
to :class:`~beliefs.learning.losses.max_margin.MaxMargin` on the same instances, up to rounding and ties; it differs in
speed. Unions serve exact inference and costs that are sums over tokens; for all else (``zero_one``, slack rescaling,
methods) the general loss is asked, instance by instance.

Frank-Wolfe gets whole passes in one compiled loop (:mod:`beliefs.learning.chains.blocks`).
Cost of an evaluation: ``2 K^2`` flops a token at temperature 0, else as the likelihood, and the features each way;
at two temperatures K times as much a hidden token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from beliefs.inference.base import Bound
from beliefs.kernels.chains.linear import WIDEST
from beliefs.kernels.chains.marginal_map import NARROW, Summed
from beliefs.kernels.chains.margins import add_costs, expected_costs
from beliefs.kernels.chains.two_temperatures import Powers
from beliefs.learning.batches import Batch, Share, Total
from beliefs.learning.chains.batch import ChainBatch, ChainRun
from beliefs.learning.chains.blocks import ChainBlocks, ChainProblem, chain_blocks
from beliefs.learning.chains.joining import JoinedChains
from beliefs.learning.chains.template import ChainTemplate, Parameters
from beliefs.learning.chains.tokens import Tokens, joined
from beliefs.learning.chains.union import ChainUnion, Chunk, Pairs, padded_table, power_of, summed_table
from beliefs.learning.instances import Instance
from beliefs.learning.losses.costs import costs_of
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.learning.parallel import Executor
from beliefs.typing import Bools, Floats, Ints

__all__ = ["ChainMargin", "MarginBatch"]


@dataclass(frozen=True, kw_only=True)
class ChainMargin(JoinedChains, MaxMargin):
    """The margin of chains whose template is a :class:`ChainTemplate`; see the module for what unions serve."""

    def check(self, instance: Instance) -> None:
        """Raise as the general loss does; costs that are the same for all tokens are not made for each."""
        plain = instance.costs is None and instance.label_weights is None and self.delta in ("hamming", "none")
        if not (plain and instance.n_labelled and self._is_plain):
            super().check(instance)

    @property
    def _is_plain(self) -> bool:
        """Whether inference is exact, and margins are not multiplied."""
        return self._approximate is None and self.rescaling == "margin"

    def _serves(self, instances: Iterable[Instance]) -> bool:
        """Whether unions of chains give the answers for these instances."""
        if not (self._is_plain and isinstance(self.template, ChainTemplate)):
            return False
        return self.delta != "zero_one" or all(i.costs is not None for i in instances)

    def batches(self, data: Any) -> Iterable[Batch]:
        """Return sequences as unions, or as the general loss has them."""
        if not isinstance(data, list | tuple):
            return MaxMargin.batches(self, data)
        return self._recent.of(data, lambda: self._laid_out(data))

    def _laid_out(self, instances: Sequence[Instance]) -> Iterable[Batch]:
        served = not instances or self._serves(instances)
        return (self._joined(instances),) if served else MaxMargin.batches(self, instances)

    def _joined(self, instances: Sequence[Instance]) -> MarginBatch:
        template = self._chain_template(instances)
        tokens = joined([instance.inputs for instance in instances])
        costs, cost_row = _costs(self.delta, template.n_states, instances)
        chains = ChainBatch.build(template, instances, tokens)
        temperatures = float(self.eps_y), float(self.eps_h)
        return MarginBatch(chains, tokens, costs, cost_row, temperatures, _labels(instances))

    def shares(self, weights: Floats, instances: Sequence[Instance], executor: Executor) -> Iterable[Share]:
        """Yield what each chain adds, from the union of all."""
        batch = next(iter(self.batches(instances)), None)
        if isinstance(batch, MarginBatch):
            return batch.shares(weights, instances, executor)
        return super().shares(weights, instances, executor)

    def blocks(self, data: Any) -> ChainBlocks | None:
        """Return the chains as blocks of the dual that one compiled loop serves; None where it does not."""
        batch = next(iter(self.batches(data)))
        return batch.blocks(self.l2) if isinstance(batch, MarginBatch) and self.eps_y == 0 else None


@dataclass(frozen=True, eq=False)
class MarginBatch(Batch):
    """Sequences as a union, and what labels cost: ``costs[cost_row[t]]`` are those of token t.

    ``temperatures`` are those of outputs and of hidden labels.
    """

    chains: ChainBatch
    tokens: Tokens
    costs: Floats
    cost_row: Ints
    temperatures: tuple[float, float]
    labels: Ints

    @cached_property
    def hidden(self) -> Bools:
        """Which tokens have no label."""
        return self.labels < 0

    @cached_property
    def one_temperature(self) -> bool:
        """Whether all tokens have the same."""
        return self.temperatures[0] == self.temperatures[1] or not bool(self.hidden.any())

    def add_to(self, total: Total, weights: Floats, executor: Executor) -> None:
        """Add loss and gradient; the total has overflowed where either is not finite."""
        chains, run = self.chains, self._run(weights)
        value, cost = chains.add_gradient(run, total.grad, executor)
        value *= run.scale
        total.value += value
        total.upper += value
        total.minorant &= chains.clamped is None
        total.delta += cost
        total.n_labelled += chains.n_labelled
        total.n_instances += chains.union.n_chains
        total.bounds.add(Bound.EXACT)
        total.overflowed |= not (np.isfinite(total.value) and np.isfinite(total.grad).all())

    def _run(self, weights: Floats) -> _Costly:
        template, eps = self.chains.template, self.temperatures[0]
        if not self.one_temperature:
            return _Two(self, template.cut(weights))
        return _Hard(self, template.cut(weights)) if eps == 0 else _Soft(self, template.cut(weights / eps))

    def shares(self, weights: Floats, instances: Sequence[Instance], executor: Executor) -> Iterator[Share]:
        """Yield what each chain adds; ``instances`` are what was joined."""
        chains = self.chains.one_by_one
        run = replace(self, chains=chains)._run(weights)
        for s, grad in enumerate(chains.each_gradient(run, instances, executor)):
            value, instance = run.scale * float(run.value[s]), instances[s]
            whole = instance.n_labelled == instance.labels.size
            yield Share(
                value, grad, instance.n_counted, bound=Bound.EXACT, upper=value, minorant=whole, delta=run.cost[s]
            )

    @cached_property
    def without_labels(self) -> MarginBatch:
        """The batch of the free term alone, costs and all."""
        return replace(self, chains=self.chains.without_labels)

    def blocks(self, l2: float) -> ChainBlocks:
        """Return the blocks of the dual."""
        chains, scale = self.chains, 1.0 / (2.0 * l2 * self.chains.n_labelled)
        return chain_blocks(
            ChainProblem(
                chains.template, chains.union, self.tokens, self.labels, chains.weight, self.costs, self.cost_row, scale
            )
        )


class _Costly(ChainRun):
    """Scores with costs."""

    def __init__(self, margin: MarginBatch, cut: Parameters, scale: float = 1.0) -> None:
        super().__init__(margin.chains, cut)
        self.margin, self.costs, self.scale = margin, margin.costs / scale, scale

    def add_costs(self, chunk: Chunk) -> None:
        """Add what labels cost to their scores."""
        union, rows = self.batch.union, self.batch.rows.reshape(-1)
        add_costs(union.chains(chunk), self.costs.reshape(-1), self.margin.cost_row, rows)

    def paid(self, chunk: Chunk) -> float:
        """Return the expected cost, which is that of the best labelling at temperature 0."""
        union, rows = self.batch.union, self.batch.rows.reshape(-1)
        return expected_costs(union.chains(chunk), self.margin.costs.reshape(-1), self.margin.cost_row, rows)


class _Soft(_Costly):
    """Posteriors of potentials divided by the temperature, ``scale``."""

    def __init__(self, margin: MarginBatch, cut: Parameters) -> None:
        super().__init__(margin, cut, margin.temperatures[0])


class _Hard(_Costly):
    """Best labellings."""

    def __init__(self, margin: MarginBatch, cut: Parameters) -> None:
        super().__init__(margin, cut)
        self.padded = padded_table(cut.table)

    def look(self, chunk: Chunk) -> None:
        """Potentials of any span will do."""

    def answer(
        self, union: ChainUnion, chunk: Chunk, rows: Floats, weight: Floats, wide: Bools, scratch: Floats, log_z: Floats
    ) -> Floats:
        """Replace potentials by weighted indicators of the best labels."""
        return union.maximisers(chunk, rows, self.padded, weight, scratch, log_z)


class _Two(_Costly):
    """Power sums of hidden labels inside those of outputs; where outputs are maximised, in the linear domain."""

    def __init__(self, margin: MarginBatch, cut: Parameters) -> None:
        super().__init__(margin, cut)
        eps_y, self.eps_h = margin.temperatures
        self.powers = Powers(power_of(cut.table, eps_y), power_of(cut.table, self.eps_h))
        self.maximised = eps_y == 0

    @cached_property
    def given(self) -> Any:
        """The transitions as the hidden labels alone need them."""
        return Pairs.build(self.cut.table / self.eps_h) if self.eps_h else padded_table(self.cut.table)

    @cached_property
    def summed(self) -> Summed:
        """The transitions as best outputs need them."""
        return summed_table(self.cut.table, self.given, self.eps_h)

    @cached_property
    def beyond(self) -> Bools:
        """The chains that are not for the linear domain."""
        return self.wide if self.maximised else np.ones(self.wide.size, np.bool_)

    def look(self, chunk: Chunk) -> None:
        """Look at them as the hidden labels alone see them."""
        if self.eps_h:
            widest = NARROW if self.maximised else WIDEST
            self.batch.union.spans(chunk, self.batch.rows, self.given, self.wide, widest, self.eps_h)

    def answer(
        self, union: ChainUnion, chunk: Chunk, rows: Floats, weight: Floats, wide: Bools, scratch: Floats, log_z: Floats
    ) -> Floats:
        """Replace potentials by the gradient of both sums."""
        hidden, here = self.margin.hidden, self.beyond[chunk.begin : chunk.end]
        found = np.zeros((union.n_states, union.n_states))
        if not here.all():
            found += union.marginal_maps(chunk, rows, self.summed, hidden, weight, self.beyond, log_z)
        if here.any():
            found += union.power_sums(chunk, rows, self.powers, hidden, weight, self.beyond, log_z)
        return found

    def answer_given(
        self, union: ChainUnion, chunk: Chunk, rows: Floats, weight: Floats, wide: Bools, scratch: Floats, log_z: Floats
    ) -> Floats:
        """Replace potentials by expectations at the temperature of the hidden labels, which alone are left."""
        if self.eps_h == 0:
            return union.maximisers(chunk, rows, self.given, weight, scratch, log_z)
        rows[chunk.first : chunk.last] /= self.eps_h
        found = union.posteriors(chunk, rows, self.given, weight, wide, scratch, log_z)
        log_z[chunk.begin : chunk.end] *= self.eps_h
        return found


def _labels(instances: Sequence[Instance]) -> Ints:
    return np.concatenate([instance.labels for instance in instances]).astype(np.int64)


def _costs(delta: Any, k: int, instances: Sequence[Instance]) -> tuple[Floats, Ints]:
    """Return rows of costs and the row of each token: a row a label where tokens have no costs of their own."""
    labels = _labels(instances)
    if any(i.costs is not None or i.label_weights is not None for i in instances):
        rows = np.concatenate([costs_of(delta, instance).reshape(-1, k) for instance in instances])
        return rows, np.arange(labels.size)
    table = np.zeros((k + 1, k))  # the last row is that of hidden labels
    table[:k] = (1.0 - np.eye(k)) * (delta == "hamming") if isinstance(delta, str) else np.array(delta)
    return table, np.where(labels >= 0, labels, k)
