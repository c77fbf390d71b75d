r"""Rows with missing cells asked of one model, together: log-probabilities, expected counts and posteriors.

The unobserved variables of a row fall into connected groups, and a row's weight is a product:

.. math:: \tilde p(x_{obs}) = \prod_{f \text{ observed}} \psi_f(x_f) \prod_{g} \sum_{x_g} \prod_{f \ni g} \psi_f(x_f)

Factors that are observed whole are looked up. Rows with the same group share its plan
(:mod:`beliefs.inference.rows.group_plan`) and are swept together, sixteen a time, one set of kernels for all; so the
cost of a row is that of its holes and not of the model. The sweep gives each group's log-sum and, on the way back, the
posterior of every cell it touches: added up over rows these are the expected counts of EM. *Soft evidence* are factors
whose tables differ from row to row; their posteriors are kept row by row, so that a table of ones for every variable
collects the posteriors of single variables.

Guarantee: exact to rounding. Sums so small that products may have underflowed are done again in the log domain.
Cost: two passes over the clusters of a row's groups. Failure: BudgetError where a group's tables do not fit and no
approximate method is given; with one such rows are asked of it, one by one, and sums are estimates.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beliefs.errors import BudgetError, ZeroProbabilityError
from beliefs.inference.base import Bound, Method
from beliefs.inference.budget import default_budget
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.parallel import in_chunks, parallel_chunks
from beliefs.inference.rows.group_plan import GroupPlan, group_graph, joined, loose_group, plan_group
from beliefs.inference.run import answer, settled
from beliefs.kernels.rows.counts import BLOCK, score_rows
from beliefs.kernels.rows.groups import Found, missing_groups
from beliefs.kernels.rows.sweep import LANES, SweepScratch, Tables, Work, sweep_rows
from beliefs.model.distinct import distinct_rows
from beliefs.model.layout import Layout
from beliefs.model.rows.table import RowTable
from beliefs.typing import Bools, Floats, Ints

__all__ = ["RowSweep", "Swept", "kinds_of_holes", "partial_factors", "scored_rows", "single_variables"]

_PIECES, _LEAST = 16, 256  # pieces of work, whatever the threads, and entries of one
_KEPT_PLANS = 20000


@dataclass(frozen=True, eq=False)
class Swept:
    """What a sweep found: ``log_z (n_entries,)`` of each group of each row, and ``cells``: expected counts.

    ``soft`` has the posteriors of the soft evidence, ``(n_rows, soft.n_cells)`` times the rows' weights, where there is
    some; zeros in factors that a row observes whole.
    """

    log_z: Floats
    cells: Floats
    soft: Floats | None = None


class RowSweep:
    """The groups of missing cells of a table, planned for one layout.

    Parameters
    ----------
    layout : Layout
    table : RowTable
        Columns are the layout's variables; complete rows are skipped.
    soft : Layout, optional
        Factors over the same variables of which every row has tables of its own; :func:`single_variables` are one.
    approximate : Method, optional
        Asked, row by row, for groups whose tables do not fit; None: they are a BudgetError.
    """

    def __init__(
        self, layout: Layout, table: RowTable, *, soft: Layout | None = None, approximate: Method | None = None,
        max_bytes: float | None = None, threads: int = 1,
    ) -> None:  # fmt: skip
        self.layout, self.table, self.soft, self.threads, self.approximate = layout, table, soft, threads, approximate
        self.max_bytes = default_budget() if max_bytes is None else max_bytes
        rows, ptr, variables = _groups(layout, table, soft)
        self.n_entries = rows.size
        number, kinds = _numbered(ptr, variables)
        kept = layout.plan(_kept_groups, soft)
        if len(kept) > _KEPT_PLANS:
            kept.clear()
        plans = [self._planned(kept, kind) for kind in kinds]
        order = sorted(range(len(plans)), key=lambda k: plans[k].is_loose)  # those without a plan are last
        self.plans = [plans[k] for k in order]
        rank = np.empty(len(plans), np.int64)
        rank[order] = np.arange(len(plans))
        number = rank[number]
        by_group = np.argsort(number, kind="stable")
        self.group, self.row = number[by_group], rows[by_group]
        self.n_swept = int(np.searchsorted(self.group, sum(not plan.is_loose for plan in plans)))
        self.programs = joined(layout, self.plans, soft)

    def _planned(self, kept: dict[bytes, GroupPlan], kind: Ints) -> GroupPlan:
        key = kind.tobytes()
        if key not in kept:
            try:
                kept[key] = plan_group(self.layout, kind, self.soft, self.max_bytes)
            except BudgetError:
                if self.approximate is None:
                    raise
                return loose_group(self.layout, kind, self.soft)
        return kept[key]

    @property
    def bound(self) -> Bound:
        """What sums of these rows are worth: ESTIMATE where a group does not fit and is approximated."""
        return Bound.EXACT if self.n_swept == self.n_entries else Bound.ESTIMATE

    @cached_property
    def _weights(self) -> Floats:
        weights = self.table.weights
        return np.ones(self.n_entries) if weights is None else weights[self.row]

    def run(
        self, values: Floats, soft: Floats | None = None, *, backward: bool = True, counts: bool | None = None
    ) -> Swept:
        """Sweep with these tables ``(n_cells,)``, not logs, and soft evidence ``(n_rows, soft.n_cells)``.

        ``backward``: also the posteriors of the soft evidence, and expected counts unless ``counts`` says otherwise.
        """
        own = np.zeros(0) if soft is None else np.ascontiguousarray(soft).ravel()
        tables, posterior = Tables(np.array(values), own), np.zeros(own.size if backward else 0)
        log_z, counted = np.full(self.n_entries, -np.inf), backward if counts is None else counts
        cuts = in_chunks(self.n_swept, max(1, min(_PIECES, self.n_swept // _LEAST)))
        outs = [Tables(np.zeros(values.size if counted else 0), posterior) for _ in range(cuts.size - 1)]
        work = Work(self.group, self.row, self._weights, self._lows(values))

        def task(begin: int, end: int) -> int:
            scratch = self._scratch()
            for k in range(begin, end):
                sweep_rows(
                    self.programs, work, self.table.codes, self.table.missing, tables, int(cuts[k]), int(cuts[k + 1]),
                    scratch, log_z, outs[k],
                )  # fmt: skip
            return 0

        if self.n_swept:
            parallel_chunks(task, np.arange(cuts.size), self.threads)
        total = Tables(np.zeros(values.size), posterior)
        for out in outs if counted else ():
            total.shared[:] += out.shared
        for entry in np.flatnonzero(log_z == -np.inf):
            log_z[entry] = self._alone(int(entry), tables, total if backward else None)
        found = posterior.reshape(soft.shape) if soft is not None and backward else None
        return Swept(log_z, total.shared, found)

    def _lows(self, values: Floats) -> Floats:
        """Return the least positive entry of each factor of the programs, 1 for soft evidence."""
        layout, positive = self.layout, np.where(values > 0.0, values, 1.0)
        if not layout.n_factors:
            return np.ones(self.programs.n_states.size)
        lows = np.minimum.reduceat(positive[layout.table_cells()], layout.table_ptr[:-1])
        parts = [np.concatenate([lows[plan.factors], np.ones(plan.soft.size)]) for plan in self.plans]
        return np.concatenate([*parts, np.zeros(0)])

    def added_to(self, scores: Floats, swept: Swept) -> Floats:
        """Return the scores of the rows' observed factors with the log-sums of their groups added."""
        return scores + np.bincount(self.row, swept.log_z, self.table.n_rows)

    def total_log_z(self, swept: Swept) -> float:
        """Return the weighted sum of all log-sums; rows without weight do not count, whatever they are."""
        if self.table.weights is None:
            return float(swept.log_z.sum())
        counting = self._weights > 0.0
        return float(self._weights[counting] @ swept.log_z[counting])

    def _scratch(self) -> SweepScratch:
        cells = max((plan.total_cells for plan in self.plans), default=0)
        columns = max((int(plan.n_columns.sum()) for plan in self.plans), default=0)
        factors = max((plan.factors.size + plan.soft.size for plan in self.plans), default=0)
        clusters = max((plan.n_cells.size for plan in self.plans), default=0)
        states = int(self.programs.n_states.max(initial=0))
        sizes = [LANES * n for n in (cells, columns, columns, clusters, clusters, clusters, states)]
        return SweepScratch(np.empty(LANES * factors, np.int64), *(np.empty(n) for n in sizes))

    def _alone(self, entry: int, values: Tables, out: Tables | None) -> float:
        """Ask one entry by itself, where products underflow or there is no plan; -inf if it is impossible."""
        plan, row = self.plans[self.group[entry]], int(self.row[entry])
        places = self._places(int(self.group[entry]), row)
        graph, cells = group_graph(self.layout, self.soft, plan, places, values)
        try:
            if plan.is_loose:
                assert self.approximate is not None
                found = settled(graph, self.approximate)
            else:
                found = answer(graph, JunctionTree())
        except ZeroProbabilityError:
            return -np.inf
        for f, at in enumerate(cells if out is not None else ()):
            assert out is not None
            mine = self._weights[entry] * found.mu_factor[graph.layout.cells(f)]
            if at[0] < out.shared.size:
                np.add.at(out.shared, at, mine)
            else:
                np.add.at(out.own, at - out.shared.size, mine)
        return found.log_z

    def _places(self, g: int, row: int) -> Ints:
        """Return where the slices of a group's factors begin for a row."""
        p, codes = self.programs, self.table.codes[:, row]
        found = []
        for k in range(int(p.factor_ptr[g]), int(p.factor_ptr[g + 1])):
            scope = slice(int(p.scope_ptr[k]), int(p.scope_ptr[k + 1]))
            states = codes[p.scope_vars[scope]].astype(np.int64)
            seen = states != self.table.missing
            found.append(p.factor_start[k] + p.factor_step[k] * row + (states * p.scope_stride[scope])[seen].sum())
        return np.array(found, np.int64)


def partial_factors(layout: Layout, table: RowTable) -> Bools:
    """Return which factors have a missing cell in some row, ``(n_factors,)``."""
    holes = (table.n_missing > 0)[layout.scope_vars]
    return np.bincount(layout.edge_factor[holes], minlength=layout.n_factors) > 0


def scored_rows(layout: Layout, logs: Floats, table: RowTable, threads: int = 1) -> Floats:
    """Return of each row the sum of the logs of the cells it falls into; factors with missing cells are left out."""
    out, partial = np.zeros(table.n_rows), partial_factors(layout, table)
    kind: type[np.signedinteger] = np.int32 if layout.factor_size.max(initial=1) < 2**31 else np.int64

    def task(begin: int, end: int) -> int:
        rows = begin * BLOCK, min(end * BLOCK, table.n_rows)
        score_rows(layout.scopes, partial, table.codes, table.missing, logs, *rows, np.empty(BLOCK, kind), out)
        return 0

    parallel_chunks(task, np.arange(-(-table.n_rows // BLOCK) + 1), threads)
    return out


def kinds_of_holes(layout: Layout, table: RowTable) -> tuple[Ints, int]:
    """Return how many variables each distinct group of missing cells has, and how many groups all rows have."""
    rows, ptr, variables = _groups(layout, table, None)
    return np.array([kind.size for kind in _numbered(ptr, variables)[1]], np.int64), rows.size


def single_variables(layout: Layout, further: Layout | None = None) -> Layout:
    """Return one factor of each single variable, then further ones: soft evidence that collects posteriors."""
    n = layout.n_vars
    ptr, scope = np.arange(n + 1), np.arange(n)
    if further is not None:
        ptr, scope = np.concatenate([ptr, n + further.scope_ptr[1:]]), np.concatenate([scope, further.scope_vars])
    return Layout.build(layout.card, ptr, scope)


def _groups(layout: Layout, table: RowTable, soft: Layout | None) -> tuple[Ints, Ints, Ints]:
    """Return rows, offsets and variables of all connected groups of missing cells."""
    rows = np.flatnonzero(table.incomplete())
    room = int(table.n_missing.sum())
    found = Found(np.empty(room, np.int64), np.zeros(room + 1, np.int64), np.empty(room, np.int64))
    ptr, neighbours = layout.plan(_moral_graph, soft)
    mark = np.full(layout.n_vars, -1, np.int64)
    n = int(missing_groups(table.codes, table.missing, rows, ptr, neighbours, mark, found))
    return found.row[:n], found.ptr[: n + 1], found.variables


def _kept_groups(layout: Layout, soft: Layout | None) -> dict[bytes, GroupPlan]:
    """Return where plans of groups are kept."""
    return {}


def _moral_graph(layout: Layout, soft: Layout | None) -> tuple[Ints, Ints]:
    """Return the variables that share a factor with each, as a CSR."""
    pairs = [np.zeros((0, 2), np.int64)]
    for part in (layout,) if soft is None else (layout, soft):
        for arity in np.unique(part.arity[part.arity > 1]):
            scopes = part.scope_vars[part.scope_ptr[:-1][part.arity == arity][:, None] + np.arange(arity)]
            i, j = np.nonzero(~np.eye(arity, dtype=np.bool_))
            pairs.append(np.stack([scopes[:, i].ravel(), scopes[:, j].ravel()], axis=1))
    edges = distinct_rows(np.concatenate(pairs)).rows
    ptr = np.searchsorted(edges[:, 0], np.arange(layout.n_vars + 1)).astype(np.int64)
    return ptr, np.ascontiguousarray(edges[:, 1])


def _numbered(ptr: Ints, variables: Ints) -> tuple[Ints, list[Ints]]:
    """Return which of the distinct groups each is, and the distinct groups.

    Groups are told apart by random numbers, summed over their variables, and then compared.
    """
    length, variables = np.diff(ptr), variables[: ptr[-1]]
    if not length.size:
        return np.zeros(0, np.int64), []
    for seed in itertools.count():
        marks = np.random.default_rng(seed).integers(0, 2**63, int(variables.max()) + 1)
        _, first, number = np.unique(
            np.add.reduceat(marks[variables], ptr[:-1]), return_index=True, return_inverse=True
        )
        alike = first[number]
        if not np.array_equal(length, length[alike]):
            continue
        if np.array_equal(variables, variables[np.arange(ptr[-1]) + np.repeat(ptr[alike] - ptr[:-1], length)]):
            break
    return number, [variables[ptr[k] : ptr[k + 1]] for k in first]
