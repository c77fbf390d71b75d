r"""Exact answers for many rows of evidence about one model: log Z and marginals of single variables, row by row.

Three ways, all exact to rounding; which one is taken depends on the rows and the structure, never on threads.

- *Holes*: what a row does not observe falls into connected groups, and rows with the same group are swept together
  (:mod:`beliefs.inference.rows.sweep`). One plan a group: for rows that observe the same variables, or nearly all.
- *Whole*: one plan of the model without evidence. A row's evidence enters as tables of zeros and a one, so rows that
  observe different variables are one batch. For rows of which few have their groups in common.
- *One by one*: trees too large for a batch of tables, and potentials whose exponentials underflow, go through the
  kernels of the junction tree, rows in threads.

The work of a call is kept small by chunks of rows; what they write is the answer alone.
Cost: two passes over the clusters' cells a row, a plan a group. Failure: BudgetError.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from beliefs.deadline import check_time
from beliefs.errors import ZeroProbabilityError
from beliefs.inference.base import Problem
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.parallel import in_chunks, parallel_chunks
from beliefs.inference.prune import prune_barren
from beliefs.inference.rows.evidence import RowEvidence
from beliefs.inference.rows.sweep import RowSweep, kinds_of_holes, scored_rows, single_variables
from beliefs.inference.run import solve
from beliefs.model.distinct import distinct_rows
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.model.rows.table import RowTable
from beliefs.typing import Bools, Floats, Ints

__all__ = ["RowAnswers", "exact_rows", "row_graph", "with_likelihoods"]

_CELLS = 2**20  # posteriors that are held at a time
_BATCHED = 2**15  # cells of a tree up to which rows go through it together: their tables stay in cache
_SAMPLE = 1024  # rows by which it is judged how many of them have groups in common
_PLAN, _CELL = 1.5e-4, 5e-9  # seconds to plan a variable of a group, and to sweep a cell
_PLANNED = 1e-5  # seconds to plan a variable of a junction tree
_SHARED = 0.02  # seconds of sweeping from which on threads share it; less is over before they have begun
_RANGE = 600.0  # nats between the largest and the smallest entry of a table that a batch may have
_LOTS = 64  # of rows that are asked one by one


@dataclass(frozen=True, eq=False)
class RowAnswers:
    """``log_z (n_rows,)``, -inf where a row is impossible, and marginals of the wanted variables, side by side.

    ``marginals (n_rows, states of the wanted)`` has point masses of what is observed and zeros in impossible rows.
    """

    log_z: Floats
    marginals: Floats


def exact_rows(
    graph: FactorGraph, evidence: RowEvidence, wanted: Ints, *, threads: int = 1, max_bytes: int = 2**62
) -> RowAnswers:
    """Return log Z of each row and the marginals of the wanted variables, ascending; of none where there are none."""
    seen = _seen(graph, evidence)
    asked = graph
    if wanted.size < graph.n_vars:
        asked = prune_barren(graph, np.union1d(wanted, np.flatnonzero(seen)))[0]
    columns = _columns(graph.layout, wanted)
    found = RowAnswers(np.empty(evidence.n_rows), np.zeros((evidence.n_rows, columns.size)))
    order = JunctionTree().planned(Problem(asked, max_bytes=max_bytes))
    seconds = order.total_cells * _CELL * evidence.n_rows
    batched = _Batched(asked, threads if seconds > _SHARED else 1, max_bytes)
    if order.total_cells <= _BATCHED and batched.range <= _RANGE:
        batched.whole = _whole(asked, evidence, order.total_cells)
        step = max(1, _CELLS // max(graph.layout.n_states, 1))
        for begin in range(0, evidence.n_rows, step):
            rows = slice(begin, begin + step)
            check_time()
            found.log_z[rows], swept = batched.answer(evidence.take(rows), wanted.size > 0)
            found.marginals[rows] = np.minimum(swept[:, columns], 1.0)  # which rounding may be above
    else:
        masked = order.total_cells * _CELL < _PLANNED * graph.n_vars and _patterns(evidence) > evidence.n_rows // 2
        _one_by_one(asked, evidence, columns, found, masked=masked, threads=threads, max_bytes=max_bytes)
    _write_observed(graph.layout, evidence, wanted, found)
    return found


def _seen(graph: FactorGraph, evidence: RowEvidence) -> Bools:
    """Return which variables some row says something about."""
    seen = evidence.table.n_missing < evidence.n_rows
    seen[list(evidence.likelihoods)] = True
    return seen


def _columns(layout: Layout, wanted: Ints) -> Ints:
    """Return where the states of some variables are among all, one variable after the other."""
    parts = [np.arange(layout.state_ptr[v], layout.state_ptr[v + 1]) for v in wanted]
    return np.concatenate([*parts, np.zeros(0, np.int64)])


def _write_observed(layout: Layout, evidence: RowEvidence, wanted: Ints, found: RowAnswers) -> None:
    """Write point masses of what is observed, and zeros in impossible rows."""
    table, start = evidence.table, 0
    for v in wanted:
        seen = np.flatnonzero(table.codes[v] != table.missing)
        found.marginals[seen, start : start + layout.card[v]] = 0.0
        found.marginals[seen, start + table.codes[v, seen].astype(np.int64)] = 1.0
        start += int(layout.card[v])
    found.marginals[found.log_z == -np.inf] = 0.0


# -- batches --------------------------------------------------------------------------------------------------------
def _whole(graph: FactorGraph, evidence: RowEvidence, cells: float) -> bool:
    """Whether one plan of the whole model costs less than plans of what rows do not observe."""
    part = evidence.take(slice(0, _SAMPLE)).table
    sizes, n_entries = kinds_of_holes(graph.layout, _codes_within(graph, part))
    share = evidence.n_rows / part.n_rows if sizes.size > n_entries // 2 else 1.0  # nearly every row has its own
    holes = _PLAN * float(sizes.sum()) * share
    return holes > _PLAN * graph.n_vars + _CELL * cells * evidence.n_rows


def _codes_within(graph: FactorGraph, table: RowTable) -> RowTable:
    """Return the rows with all variables that are in no scope, since they are observed or pruned, at a state."""
    codes = table.codes.copy()
    for v in np.flatnonzero(graph.layout.observed):
        codes[v][codes[v] == table.missing] = 0
    return RowTable(table.names, table.labels, codes)


class _Batched:
    """Sweeps over the rows' holes, or over the whole model with evidence as tables of zeros and a one."""

    whole = False

    def __init__(self, graph: FactorGraph, threads: int, max_bytes: int) -> None:
        self.graph, self.threads, self.max_bytes = graph, threads, max_bytes
        layout = graph.layout
        tops = np.full(layout.n_factors, -np.inf)
        if layout.n_factors:
            tops = np.maximum.reduceat(graph.theta[layout.table_cells()], layout.table_ptr[:-1])
        tops[tops == -np.inf] = 0.0
        self.log_tops = float(tops.sum())
        shift = np.full(layout.n_cells, -np.inf)  # tied factors may differ in nothing but their scopes
        shift[layout.table_cells()] = np.repeat(tops, layout.factor_size)
        self.logs = graph.theta - np.where(shift == -np.inf, 0.0, shift)
        self.values = np.exp(self.logs)
        self.range = -float(self.logs[self.logs > -np.inf].min(initial=0.0))
        self.soft = layout.plan(single_variables, None)

    def answer(self, evidence: RowEvidence, backward: bool) -> tuple[Floats, Floats]:
        """Return log Z of each row, and the posteriors of all variables where they are wanted."""
        layout, table = self.graph.layout, _codes_within(self.graph, evidence.table)
        soft, log_soft = self._likelihoods(evidence)
        if self.whole:
            soft = np.ones((table.n_rows, layout.n_states)) if soft is None else soft
            _enter(layout, table, soft)
            codes = np.full_like(table.codes, table.missing)
            codes[layout.observed] = 0
            table = RowTable(table.names, table.labels, codes)
        scores = scored_rows(layout, self.logs, table, self.threads) + (self.log_tops + log_soft)
        if not table.n_missing.any():
            return scores, np.zeros((table.n_rows, layout.n_states))
        if soft is None and backward:
            soft = np.ones((table.n_rows, layout.n_states))
        factors = None if soft is None else self.soft
        sweep = RowSweep(layout, table, soft=factors, max_bytes=self.max_bytes, threads=self.threads)
        swept = sweep.run(self.values, soft, backward=backward, counts=False)
        posteriors = np.zeros((table.n_rows, layout.n_states)) if swept.soft is None else swept.soft
        return sweep.added_to(scores, swept), posteriors

    def _likelihoods(self, evidence: RowEvidence) -> tuple[Floats | None, Floats]:
        """Return soft evidence as tables, and the logs of what it gives to observed states."""
        layout, table, logs = self.graph.layout, evidence.table, np.zeros(evidence.n_rows)
        if not evidence.likelihoods:
            return None, logs
        soft = np.ones((table.n_rows, layout.n_states))
        for v, values in evidence.likelihoods.items():
            soft[:, layout.state_ptr[v] : layout.state_ptr[v + 1]] = values
            seen = np.flatnonzero(table.codes[v] != table.missing)
            if not self.whole or layout.observed[v]:
                with np.errstate(divide="ignore"):
                    logs[seen] += np.log(values[seen, table.codes[v, seen].astype(np.int64)])
        return soft, logs


def _enter(layout: Layout, table: RowTable, soft: Floats) -> None:
    """Set to zero what the observed states of each row exclude."""
    for v in np.flatnonzero(table.n_missing < table.n_rows):
        seen, start = np.flatnonzero(table.codes[v] != table.missing), int(layout.state_ptr[v])
        states = start + table.codes[v, seen].astype(np.int64)
        kept = soft[seen, states]
        soft[seen, start : start + int(layout.card[v])] = 0.0
        soft[seen, states] = kept


# -- one by one -----------------------------------------------------------------------------------------------------
def with_likelihoods(graph: FactorGraph, evidence: RowEvidence) -> FactorGraph:
    """Return the graph with a factor of ones for every variable with soft evidence, last."""
    extra = [([v], np.zeros(int(graph.layout.card[v]))) for v in evidence.likelihoods]
    return graph.with_factors(extra) if extra else graph


def row_graph(graph: FactorGraph, evidence: RowEvidence, row: int) -> FactorGraph:
    """Return the model with one row's evidence; ``graph`` is that of :func:`with_likelihoods`."""
    if evidence.likelihoods:
        theta = graph.theta.copy()
        with np.errstate(divide="ignore"):
            for k, (v, values) in enumerate(evidence.likelihoods.items()):
                cells = graph.layout.cells(graph.n_factors - len(evidence.likelihoods) + k)
                state = graph.evidence_states[v]
                logs = np.log(values[row])
                theta[cells] = logs if state < 0 else logs[state : state + 1]
        graph = FactorGraph(graph.layout, theta, graph.naming, graph.evidence_states, children=graph.children)
    states = evidence.states(row)
    return graph if np.array_equal(states, graph.evidence_states) else graph.observing(states)


def _patterns(evidence: RowEvidence) -> int:
    """Return how many sets of variables are observed in some row."""
    bits = np.packbits(evidence.table.codes != evidence.table.missing, axis=0)
    return distinct_rows(bits.T).first.size


def _masked(graph: FactorGraph, evidence: RowEvidence, row: int, factor: Ints) -> FactorGraph:
    """Return the model of one row in the layout without evidence: what it excludes is -inf in one factor each."""
    theta, layout = graph.theta.copy(), graph.layout
    states = evidence.states(row)
    for v in np.flatnonzero((states >= 0) & ~layout.observed):
        f, x = int(factor[v]), int(states[v])
        axis = layout.scope(f).tolist().index(v)
        shape = layout.shape(f)
        table = theta[layout.cells(f)].reshape(math.prod(shape[:axis]), shape[axis], -1)
        table[:, np.arange(shape[axis]) != x] = -np.inf
        theta[layout.cells(f)] = table.ravel()
    theta.setflags(write=False)
    return FactorGraph(layout, theta, graph.naming, graph.evidence_states)


def _one_by_one(
    graph: FactorGraph, evidence: RowEvidence, columns: Ints, found: RowAnswers, *, masked: bool, threads: int,
    max_bytes: int,
) -> None:  # fmt: skip
    base, method = with_likelihoods(graph, evidence), JunctionTree()
    layout = base.layout
    masked = masked and not layout.tied and not layout.isolated.size and not evidence.likelihoods
    factor = np.zeros(layout.n_vars, np.int64)
    factor[layout.scope_vars[::-1]] = layout.edge_factor[::-1]

    def task(begin: int, end: int) -> int:
        for row in range(begin, end):
            one = _masked(base, evidence, row, factor) if masked else row_graph(base, evidence, row)
            problem = Problem(one, max_bytes=max_bytes)
            try:
                answer = solve(method, problem).marginals
            except ZeroProbabilityError:
                found.log_z[row] = -np.inf
                continue
            found.log_z[row] = answer.log_z
            found.marginals[row] = answer.mu_var[columns]
        return 0

    parallel_chunks(task, in_chunks(evidence.n_rows, _LOTS), threads)
