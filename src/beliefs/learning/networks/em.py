r"""EM for networks: cells missing anywhere, and variables never seen.

.. math::
    \text{E:}\quad & N_v(x_{pa}, x_v) \leftarrow \sum_s w_s \, p(x_{pa}, x_v \mid \text{row } s) \\
    \text{M:}\quad & p(x_v \mid x_{pa}) \propto N_v + \alpha - 1 \text{ (map)}, \quad N_v + \alpha \text{ (mean)},
        \quad N_v \text{ (mle)}

Families that a row observes whole are counted once and for all; the sweep of :mod:`beliefs.inference.rows.sweep` adds
the others. Gaussian leaves (:mod:`beliefs.learning.networks.leaves`) add their densities as soft evidence to the E-step
and weighted maximum likelihood to the M-step. Each iteration raises the log-likelihood plus the log of the density that
the M-step is the mode of (a Dirichlet with :math:`\alpha`, for the mean with :math:`\alpha + 1`; none for maximum
likelihood) [dempster1977].

Guarantee: the objective never falls, up to rounding; the limit is a stationary point, usually a local maximum.
Uniform tables of hidden variables are saddle points, so starts are random.
Cost: an E-step is linear in the rows with missing cells. Failure: a row that is impossible under the start.
"""

from __future__ import annotations

import math
import sys
import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.engine import engine_around
from beliefs.inference.rows.sweep import RowSweep, scored_rows
from beliefs.learning.data import Data
from beliefs.learning.fit_loss import Evaluation, FitLoss
from beliefs.learning.networks.distributed import ExpectedCounts, SweepJob, row_pieces
from beliefs.learning.networks.estimates import Estimate
from beliefs.learning.networks.leaf_rows import LeafRows
from beliefs.learning.networks.leaves import Leaves
from beliefs.learning.optimizers.base import Optimizer, Outcome, Point, Watched
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.optimizers.rounds import Rounds
from beliefs.model.rows.table import RowTable
from beliefs.typing import Floats, Ints

__all__ = ["EM", "MissingRows", "NetworkLikelihood", "random_tables"]


class MissingRows(Data):
    """Counts of the families that rows observe whole, and the rows with missing cells, equal ones merged.

    With Gaussian leaves: also their columns in these rows, and the statistics of rows that observe a leaf's parents and
    columns.
    """

    def __init__(
        self, counts: Floats, total: float, rows: RowTable, sweep: RowSweep, columns: LeafRows | None = None,
        sums: Floats | None = None,
    ) -> None:  # fmt: skip
        self.counts, self.total, self.rows, self.sweep = counts, total, rows, sweep
        self.columns, self.sums = columns, sums

    def __len__(self) -> int:
        return self.rows.n_rows

    @property
    def n_labelled(self) -> float:
        """The weight of all rows."""
        return self.total

    def take(self, numbers: Ints) -> MissingRows:
        """Refuse: EM looks at all rows together."""
        raise ModelError("em needs all rows together; it has no mini-batches")

    @cached_property
    def _job(self) -> tuple[SweepJob, list[RowTable]]:
        sweep = self.sweep
        return SweepJob(sweep.layout, sweep.approximate, sweep.max_bytes), row_pieces(self.rows)

    def swept_elsewhere(self, tables: Floats) -> ExpectedCounts | None:
        """Return what the processes find that the fit is engaged with, if there are any; they hold the rows."""
        engine = engine_around()
        if engine is None:
            return None
        job, pieces = self._job
        engine.hold(pieces, [piece.codes.size for piece in pieces])
        found: ExpectedCounts | None = engine.total(job, tables, pieces)
        return found

    def fingerprint(self) -> dict[str, str]:
        """Return sizes and checksums of the incomplete rows, and the number of all."""
        marks = self.rows.fingerprint() | {"all rows": f"{self.total:.17g}"}
        if self.columns is not None:
            crc = 0
            for x in self.columns.x:
                crc = zlib.crc32(np.ascontiguousarray(x).tobytes(), crc)
            marks["columns of leaves"] = f"{crc:08x}"
        return marks


@dataclass(frozen=True, eq=False)
class NetworkLikelihood(FitLoss):
    """The negative objective of EM per row, as a function of all tables ``(n_cells,)`` and the leaves' numbers.

    The gradient is minus the expected statistics per row: it is in the logs of the tables, and for leaves it stands for
    the gradient in their natural parameters.
    """

    estimate: Estimate
    leaves: Leaves | None = None
    name: ClassVar[str] = "network_likelihood"

    @property
    def n_cells(self) -> int:
        """Cells of all tables."""
        return self.estimate.structure.layout.n_cells

    @property
    def n_weights(self) -> int:
        """Cells of all tables, and numbers of all leaves."""
        return self.n_cells + (0 if self.leaves is None else self.leaves.size)

    def log_likelihood(self, weights: Floats, data: MissingRows) -> tuple[float, Floats]:
        """Return the log-likelihood of all rows, and the expected statistics."""
        tables, numbers = weights[: self.n_cells], weights[self.n_cells :]
        seen = data.counts > 0
        with np.errstate(divide="ignore"):
            found = float(data.counts[seen] @ np.log(tables[seen]))
        if data.columns is None:
            elsewhere = data.swept_elsewhere(tables)
            if elsewhere is not None:
                return found + elsewhere.log_z, data.counts + elsewhere.cells
            swept = data.sweep.run(tables)
            return found + data.sweep.total_log_z(swept), data.counts + swept.cells
        soft, shift = data.columns.evidence(numbers, count_seen=False)
        swept = data.sweep.run(tables, soft)
        assert data.sums is not None
        found += data.sweep.total_log_z(swept) + data.columns.log_density_of(numbers, data.sums)
        found += float(shift.sum() if data.rows.weights is None else data.rows.weights @ shift)
        assert swept.soft is not None
        sums = data.sums + data.columns.expected(swept.soft, numbers)
        return found, np.concatenate([data.counts + swept.cells, sums])

    def maximised(self, expected: Floats) -> Floats:
        """Return tables and leaves from expected statistics: the M-step."""
        tables, _ = self.estimate.tables(expected[: self.n_cells])
        if self.leaves is None:
            return tables
        return np.concatenate([tables, self.leaves.maximised(expected[self.n_cells :])])

    def evaluate(self, weights: Floats, data: MissingRows) -> Evaluation:
        """Return the negative objective per row, and minus the expected statistics per row."""
        found, expected = self.log_likelihood(weights, data)
        value = -(found + self.estimate.log_prior(weights[: self.n_cells])) / data.total
        return Evaluation(value, -expected / data.total, len(data), bound=data.sweep.bound)


@dataclass(frozen=True, kw_only=True, repr=False)
class EM(Optimizer):
    """Expected counts, then tables from them, again and again."""

    name: ClassVar[str] = "em"
    default_tol: ClassVar[float] = 1e-6
    default_max_iters: ClassVar[int] = 1000
    tol_is_of: ClassVar[str] = "relative change"

    def minimize(self, objective: Objective, watch: Watched, resumed: Point | None = None, seed: int = 0) -> Outcome:
        """Go round until the objective hardly rises."""
        return _Rounds(objective, watch, resumed).outcome("the objective rose by less than tol in an iteration")


class _Rounds(Rounds):
    """One run of EM; the gradient of a point is the largest change of a table's number in its iteration."""

    def __init__(self, objective: Objective, watch: Watched, resumed: Point | None) -> None:
        self.objective, self.watch, self.fresh = objective, watch, resumed is None
        start = objective.start if resumed is None else resumed.weights
        self.found = objective.evaluate(start)
        if not math.isfinite(self.found.value):  # or only the prior excludes zeros, and the first M-step has none
            data: MissingRows = objective.data  # type: ignore[assignment]
            if not math.isfinite(objective.loss.log_likelihood(start, data)[0]):
                raise impossible(data, start[: objective.loss.n_cells])
        self.point = resumed or self._point(0, start, math.inf)

    def _point(self, iteration: int, tables: Floats, change: float) -> Point:
        assert self.found.bound is not None
        return Point(iteration, iteration, tables, self.found.value, change, bound=self.found.bound.name)

    def _step(self) -> float:
        total: float = self.objective.data.total  # type: ignore[union-attr]
        tables = self.objective.loss.maximised(-total * self.found.grad)
        before, change = self.point.loss, float(np.abs(tables - self.point.weights).max(initial=0.0))
        self.found = self.objective.evaluate(tables)
        self.point = self._point(self.point.iteration + 1, tables, change)
        self.watch.iterate(self.point)
        if not math.isfinite(before):
            return sys.float_info.max
        return max(before - self.found.value, 0.0) / max(abs(before), 1e-300)


def impossible(data: MissingRows, tables: Floats) -> ModelError:
    """Return the error that names a row of probability zero."""
    with np.errstate(divide="ignore"):
        scores = scored_rows(data.sweep.layout, np.log(tables), data.rows)
    soft = None if data.columns is None else np.ones((len(data), data.columns.leaves.layout.n_cells))
    scores = data.sweep.added_to(scores, data.sweep.run(tables, soft, backward=False))
    wrong = np.flatnonzero(scores == -np.inf)
    advice = "start from random tables (start='random'), or give the tables no zeros"
    if not wrong.size:
        return ModelError(f"some complete row is impossible under the tables to start from; {advice}")
    names, labels, codes = data.rows.names, data.rows.labels, data.rows.codes[:, wrong[0]]
    seen = [f"{names[c]}={labels[c][k]}" for c, k in enumerate(codes.tolist()) if k != data.rows.missing]
    return ModelError(
        f"the row {', '.join(seen[:8])}{', ...' if len(seen) > 8 else ''} is impossible under the tables to start "
        f"from; {advice}"
    )


def random_tables(estimate: Estimate, counts: Floats, seed: int) -> Floats:
    """Return tables drawn around what complete families say: Dirichlet with their counts and one."""
    drawn = np.random.default_rng(seed).standard_gamma(estimate.pooled(counts) + 1.0)
    layout = estimate.structure.layout
    for group in estimate.groups:
        for v in group[1:]:
            drawn[layout.cells(v)] = drawn[layout.cells(group[0])]
    drawn += 1e-12  # no cell is impossible at first
    plain = replace(estimate, prior=np.zeros(drawn.size), shift=0.0, groups=())
    return plain.tables(drawn)[0]
