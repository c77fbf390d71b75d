"""A network's tables from rows: counting where rows are complete, EM where cells are missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from beliefs.errors import DataWarning, ModelError
from beliefs.inference.messages.bp import BP
from beliefs.inference.quiet import warn
from beliefs.inference.rows.sweep import RowSweep
from beliefs.learning.fit import fit
from beliefs.learning.networks.counts import FamilyCounts, count
from beliefs.learning.networks.em import EM, MissingRows, NetworkLikelihood, random_tables
from beliefs.learning.networks.leaf_rows import LeafRows
from beliefs.learning.networks.leaves import Leaves
from beliefs.learning.networks.result import JointFit
from beliefs.learning.networks.structure import Structure
from beliefs.learning.parallel import Executor
from beliefs.learning.restarts import best_of
from beliefs.learning.result import FitProgress, FitResult
from beliefs.learning.rows import joined_rows
from beliefs.model.rows.table import RowTable
from beliefs.options import check_integer, check_option, is_word
from beliefs.typing import Floats

__all__ = ["EMOptions", "Gathered", "fitted_tables", "gathered", "missing_rows", "start_of", "summed", "with_leaves"]

_MERGED = 2**18  # incomplete rows up to which equal ones are looked for by sorting


@dataclass(frozen=True, kw_only=True, eq=False)
class EMOptions:
    """How EM is run: the options of ``BNLearner`` of these names; ``tables`` are those of the given network."""

    start: Any
    n_restarts: int
    max_iters: int | None
    tol: float | None
    checkpoint: Any
    max_bytes: float | None
    seed: int | None
    callback: Callable[[FitProgress], object] | None
    progress: bool
    tables: Floats | None

    def check(self) -> None:
        """Raise for options out of range, before any work."""
        check_option(is_word(self.start, ("random", "model")), "start", "random or model", self.start)
        check_integer("n_restarts", self.n_restarts, 1, 10**6)
        check_integer("seed", self.seed, 0, none=True)
        if self.start == "model" and self.tables is None:
            raise ModelError("start='model' takes the tables of a given network; the structure is none")
        if self.checkpoint is not None and self.n_restarts > 1:
            raise ModelError(f"a checkpoint is of one run of EM, found n_restarts={self.n_restarts}")


@dataclass(frozen=True, eq=False)
class Gathered:
    """What rows say: counts of families that are seen whole, and the rows with missing cells.

    With Gaussian leaves: their columns in all rows, statistics of rows that observe a leaf's parents and columns, and
    the columns in the rows with missing cells, those of leaves included.
    """

    counts: FamilyCounts
    incomplete: RowTable | None
    values: list[Floats] = field(default_factory=list)
    sums: Floats | None = None
    columns: LeafRows | None = None


def gathered(structure: Structure, tables: Iterable[RowTable], executor: Executor, merge: bool = True) -> Gathered:
    """Count table after table; only counts and incomplete rows are kept, equal ones merged."""
    return summed((Gathered(count(structure, table, executor), _holes(table)) for table in tables), merge)


def summed(parts: Iterable[Gathered], merge: bool = True) -> Gathered:
    """Return what several tables say together."""
    counts: FamilyCounts | None = None
    holes: list[RowTable] = []
    for part in parts:
        counts = part.counts if counts is None else counts.plus(part.counts)
        if part.incomplete is not None:
            holes.append(part.incomplete)
    if counts is None:
        raise ModelError("there are no rows; at least one is needed")
    return Gathered(counts, _joined(holes, merge) if holes else None)


def _holes(table: RowTable) -> RowTable | None:
    return table.take(table.incomplete()) if table.n_missing.any() else None


def with_leaves(found: Gathered, leaves: Leaves, table: RowTable, values: list[Floats]) -> Gathered:
    """Return what rows say with their leaves; rows with missing cells or columns are kept, one by one."""
    everywhere = LeafRows(leaves, table, values)
    holes = table.incomplete() | everywhere.partial()
    if not holes.any():
        return replace(found, values=values, sums=everywhere.statistics(), columns=everywhere)
    kept = table.take(holes)
    columns = LeafRows(leaves, kept, [x[holes] for x in values])
    return replace(found, incomplete=kept, values=values, sums=everywhere.statistics(), columns=columns)


def _joined(tables: list[RowTable], merge: bool) -> RowTable:
    table = joined_rows(tables)
    return table.merged()[0] if merge and table.n_rows <= _MERGED else table


def fitted_tables(
    loss: NetworkLikelihood, data: Gathered, options: EMOptions, executor: Executor
) -> tuple[Floats, Floats, JointFit]:
    """Return tables, (expected) counts and how they were found; one warning where tables say nothing.

    The numbers of leaves follow the tables, their statistics the counts.
    """
    began = time.perf_counter()
    estimate = loss.estimate
    counts = data.counts.flat()
    if data.incomplete is None:
        weights, counts, fit_of = _by_counting(loss, data, counts)
    else:
        weights, counts, fit_of = _by_em(loss, data, counts, options, executor)
    unknown = estimate.tables(counts[: loss.n_cells])[1]
    _warn_unknown(estimate.structure, unknown)
    result = JointFit(
        n_parameters=estimate.structure.n_parameters + (0 if loss.leaves is None else loss.leaves.n_parameters),
        n_uniform=len(unknown),
        seconds=time.perf_counter() - began,
        **fit_of,
    )
    return weights, counts, result


def _by_counting(loss: NetworkLikelihood, data: Gathered, counts: Floats) -> tuple[Floats, Floats, dict[str, Any]]:
    total, expected = data.counts.total, counts
    if data.sums is not None:
        expected = np.concatenate([counts, data.sums])
    weights = loss.maximised(expected)
    tables, seen = weights[: counts.size], counts > 0
    with np.errstate(divide="ignore"):
        likelihood = float(counts[seen] @ np.log(tables[seen]))
    if data.columns is not None and data.sums is not None:
        likelihood += data.columns.log_density_of(weights[counts.size :], data.sums)
    objective = (likelihood + loss.estimate.log_prior(tables)) / total
    return weights, expected, {"log_likelihood": likelihood / total, "objective": objective}


def missing_rows(loss: NetworkLikelihood, data: Gathered, max_bytes: float | None, executor: Executor) -> MissingRows:
    """Return rows with missing cells, planned."""
    assert data.incomplete is not None
    layout = loss.estimate.structure.layout
    soft = None if loss.leaves is None else loss.leaves.layout
    sweep = RowSweep(
        layout, data.incomplete, soft=soft, approximate=BP(), max_bytes=max_bytes, threads=executor.n_workers
    )
    return MissingRows(data.counts.flat(), data.counts.total, data.incomplete, sweep, data.columns, data.sums)


def _by_em(
    loss: NetworkLikelihood, data: Gathered, counts: Floats, options: EMOptions, executor: Executor
) -> tuple[Floats, Floats, dict[str, Any]]:
    rows = missing_rows(loss, data, options.max_bytes, executor)
    best, objectives = best_of(options.n_restarts, lambda restart: _one_run(loss, rows, options, restart, data.values))
    likelihood, expected = loss.log_likelihood(best.weights, rows)
    return best.weights, expected, {
        "status": best.status,
        "reason": best.reason,
        "trace": best.trace,
        "n_iters": best.n_iters,
        "bound": rows.sweep.bound,
        "log_likelihood": likelihood / rows.total,
        "objective": -best.loss,
        "restarts": np.array(objectives),
    }  # fmt: skip


def start_of(
    loss: NetworkLikelihood, rows: MissingRows, options: EMOptions, restart: int, values: list[Floats]
) -> Floats:
    """Return tables and numbers of leaves to start from."""
    seed = (options.seed or 0) + restart
    if options.start == "model" and restart == 0:
        assert options.tables is not None
        tables = options.tables
    else:
        tables = random_tables(loss.estimate, rows.counts, seed)
    if loss.leaves is None:
        return tables
    assert rows.sums is not None
    return np.concatenate([tables, loss.leaves.start(seed, rows.sums, values, given=restart == 0)])


def _one_run(
    loss: NetworkLikelihood, rows: MissingRows, options: EMOptions, restart: int, values: list[Floats]
) -> FitResult:
    start = start_of(loss, rows, options, restart, values)
    return fit(
        loss, rows, start, optimizer=EM(), tol=options.tol, max_iters=options.max_iters, seed=options.seed,
        callback=options.callback, progress=options.progress, checkpoint=options.checkpoint,
    )  # fmt: skip


def _warn_unknown(structure: Structure, unknown: list[tuple[int, int]]) -> None:
    if not unknown:
        return
    v, column = unknown[0]
    given = structure.column(v, column)
    first = f"{structure.naming.name(v)!r}" + (f" given {given}" if given else "")
    many = f"{len(unknown)} columns of tables" if len(unknown) > 1 else "one column of a table"
    warn(
        f"{many} never occur in the rows and are uniform (first: {first}); estimate='mean' with a prior says more",
        DataWarning,
        stacklevel=5,
    )
