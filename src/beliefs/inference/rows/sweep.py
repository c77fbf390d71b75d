r"""Rows with missing cells asked of one model, together: log-probabilities, expected counts and posteriors.

The unobserved variables of a row fall into connected groups, and a row's weight is a product:

.. math:: \tilde p(x_{obs}) = \prod_{f \text{ observed}} \psi_f(x_f) \prod_{g} \sum_{x_g} \prod_{f \ni g} \psi_f(x_f)

Factors that are observed whole are looked up. Rows with the same group share its plan
(:mod:`beliefs.inference.rows.programs`) and are swept together, sixteen a time, one set of kernels for all; so the cost
of a row is that of its holes and not of the model. The sweep gives each group's log-sum and, on the way back, the
posterior of every cell it touches: added up over rows these are the expected counts of EM. A table of ones for every
unobserved variable of every row, read as soft evidence, collects posteriors row by row.

Guarantee: exact to rounding. Sums so small that products may have underflowed are done again in the log domain.
Cost: two passes over the clusters of a row's groups. Failure: BudgetError where a group's tables do not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beliefs.errors import ZeroProbabilityError
from beliefs.inference.budget import default_budget
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.parallel import in_chunks, parallel_chunks
from beliefs.inference.rows.programs import GroupPlan, group_graph, joined, plan_group
from beliefs.inference.run import answer
from beliefs.kernels.rows.counts import BLOCK, score_rows
from beliefs.kernels.rows.groups import Found, missing_groups
from beliefs.kernels.rows.sweep import LANES, SweepScratch, Work, sweep_rows
from beliefs.model.layout import Layout
from beliefs.model.rows.table import RowTable
from beliefs.typing import Bools, Floats, Ints

__all__ = ["RowSweep", "Swept", "partial_factors", "scored_rows"]

_PIECES, _LEAST = 16, 256  # pieces of work, whatever the threads, and entries of one
_KEPT_PLANS = 20000


@dataclass(frozen=True, eq=False)
class Swept:
    """What a sweep found: ``log_z (n_entries,)`` of each group of each row, and ``cells``: expected counts.

    ``soft`` has the posteriors of the soft evidence, ``(n_rows, n_states)``, where there is some.
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
    soft : bool
        Whether every missing cell of every row has a factor of its own.
    """

    def __init__(
        self, layout: Layout, table: RowTable, *, soft: bool = False, max_bytes: float | None = None, threads: int = 1
    ) -> None:
        self.layout, self.table, self.soft, self.threads = layout, table, soft, threads
        self.max_bytes = default_budget() if max_bytes is None else max_bytes
        rows, ptr, variables = _groups(layout, table)
        self.n_entries = rows.size
        number, kinds = _numbered(ptr, variables)
        kept = layout.plan(_kept_groups, soft)
        if len(kept) > _KEPT_PLANS:
            kept.clear()
        for kind in kinds:
            if kind.tobytes() not in kept:
                kept[kind.tobytes()] = plan_group(layout, kind, soft, self.max_bytes)
        self.plans = [kept[kind.tobytes()] for kind in kinds]
        by_group = np.argsort(number, kind="stable")
        self.group, self.row = number[by_group], rows[by_group]
        self.programs = joined(layout, self.plans, layout.n_cells, layout.n_states if soft else 0)

    @cached_property
    def _weights(self) -> Floats:
        weights = self.table.weights
        return np.ones(self.n_entries) if weights is None else weights[self.row]

    def run(self, values: Floats, soft: Floats | None = None, *, backward: bool = True) -> Swept:
        """Sweep all entries with these tables ``(n_cells,)``, not logs, and soft evidence ``(n_rows, n_states)``."""
        n_cells = self.layout.n_cells
        joint = np.concatenate([values, np.zeros(0) if soft is None else soft.ravel()])  # of one kind for the kernel
        log_z = np.empty(self.n_entries)
        cuts = in_chunks(self.n_entries, max(1, min(_PIECES, self.n_entries // _LEAST)))
        outs = [np.zeros(joint.size if backward else 0) for _ in range(cuts.size - 1)]
        work = Work(self.group, self.row, self._weights)

        def task(begin: int, end: int) -> int:
            scratch = self._scratch()
            for k in range(begin, end):
                bounds = np.array([cuts[k], cuts[k + 1], 0], np.int64)
                sweep_rows(
                    self.programs, work, self.table.codes, self.table.missing, joint, bounds, backward, scratch,
                    log_z, outs[k],
                )  # fmt: skip
            return 0

        if self.n_entries:
            parallel_chunks(task, np.arange(cuts.size), self.threads)
        total = np.zeros(joint.size)
        for out in outs if backward else ():
            total += out
        for entry in np.flatnonzero(log_z == -np.inf):
            log_z[entry] = self._in_logs(int(entry), joint, total if backward else None)
        return Swept(log_z, total[:n_cells], None if soft is None else total[n_cells:].reshape(soft.shape))

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
        sizes = [LANES * n for n in (cells, columns, columns, clusters)]
        return SweepScratch(np.empty(LANES * factors, np.int64), *(np.empty(n) for n in sizes))

    def _in_logs(self, entry: int, values: Floats, out: Floats | None) -> float:
        """Ask one entry again where products underflow; -inf if it is impossible."""
        plan, row = self.plans[self.group[entry]], int(self.row[entry])
        places = self._places(int(self.group[entry]), row)
        with np.errstate(divide="ignore"):
            graph, cells = group_graph(self.layout, plan, places, np.log(values))
        try:
            found = answer(graph, JunctionTree())
        except ZeroProbabilityError:
            return -np.inf
        if out is not None:
            np.add.at(out, cells, self._weights[entry] * found.mu_factor)
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


def _groups(layout: Layout, table: RowTable) -> tuple[Ints, Ints, Ints]:
    """Return rows, offsets and variables of all connected groups of missing cells."""
    rows = np.flatnonzero(table.incomplete())
    room = int(table.n_missing.sum())
    found = Found(np.empty(room, np.int64), np.zeros(room + 1, np.int64), np.empty(room, np.int64))
    ptr, neighbours = layout.plan(_moral_graph)
    mark = np.full(layout.n_vars, -1, np.int64)
    n = int(missing_groups(table.codes, table.missing, rows, ptr, neighbours, mark, found))
    return found.row[:n], found.ptr[: n + 1], found.variables


def _kept_groups(layout: Layout, soft: bool) -> dict[bytes, GroupPlan]:
    """Return where plans of groups are kept."""
    return {}


def _moral_graph(layout: Layout) -> tuple[Ints, Ints]:
    """Return the variables that share a factor with each, as a CSR."""
    pairs = [np.zeros((0, 2), np.int64)]
    for arity in np.unique(layout.arity[layout.arity > 1]):
        scopes = layout.scope_vars[layout.scope_ptr[:-1][layout.arity == arity][:, None] + np.arange(arity)]
        i, j = np.nonzero(~np.eye(arity, dtype=np.bool_))
        pairs.append(np.stack([scopes[:, i].ravel(), scopes[:, j].ravel()], axis=1))
    edges = np.unique(np.concatenate(pairs), axis=0)
    ptr = np.searchsorted(edges[:, 0], np.arange(layout.n_vars + 1)).astype(np.int64)
    return ptr, np.ascontiguousarray(edges[:, 1])


def _numbered(ptr: Ints, variables: Ints) -> tuple[Ints, list[Ints]]:
    """Return which of the distinct groups each is, and the distinct groups."""
    length = np.diff(ptr)
    number, kinds = np.empty(length.size, np.int64), list[Ints]()
    for n in np.unique(length):
        which = np.flatnonzero(length == n)
        found, inverse = np.unique(variables[ptr[which][:, None] + np.arange(n)], axis=0, return_inverse=True)
        number[which] = len(kinds) + inverse.ravel()
        kinds += list(found)
    return number, kinds
