"""The beliefs of regions during a run: log tables, what follows from them, and how they are read as an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from beliefs.deadline import check_time, stop_flag
from beliefs.inference.base import Problem, observed_point_masses, zero_probability
from beliefs.inference.clusters.region_sets import Region
from beliefs.inference.regions.joints import region_joint
from beliefs.inference.regions.plan import RegionPlan
from beliefs.inference.rounding import magnitude
from beliefs.kernels.regions.beliefs import refresh_all
from beliefs.kernels.regions.factors import add_factors, sum_factors
from beliefs.kernels.regions.parent_to_child import propagate, remove_impossible
from beliefs.kernels.regions.plain import LEAST, propagate_plain
from beliefs.kernels.regions.structure import PlainTables
from beliefs.model.graph import FactorGraph
from beliefs.typing import Bools, Floats, Ints

__all__ = ["RegionState", "RegionWarmStart", "impossible_beliefs", "pieces", "region_work"]


_LOOK = 8  # sweeps between two looks at how large tables have become
_PIECE = 2e6  # numbers of such work between two looks at the clock: some milliseconds
_SATURATED = np.log(1e-6)  # a belief that may hide a change of its logs
_QUIET = 1e-3  # nats by which such logs may still rise
_ROUNDED = 1e-12  # share of a log that rounding may move
_OVERGROWN = 1e4  # times the magnitude of all potentials


@dataclass(frozen=True, eq=False)
class RegionWarmStart:
    """What a warm start needs: by how much messages have changed each table, and of which regions."""

    scopes: tuple[tuple[int, ...], ...]
    moved: Floats


class RegionState:
    r"""Log tables :math:`T_\gamma`, their beliefs and normalisers; see :mod:`beliefs.kernels.regions.parent_to_child`.

    ``moved`` is what the messages of an earlier run have added to the tables of the same regions.
    """

    def __init__(self, problem: Problem, plan: RegionPlan, moved: Floats | None = None, maximise: bool = False) -> None:
        self.problem, self.plan, self.maximise = problem, plan, maximise
        graph, layout = problem.graph, problem.graph.layout
        self.constant = float(graph.theta[layout.cell_ptr[layout.factor_size == 1]].sum())
        self.logs = np.zeros(plan.n_cells)
        add_factors(plan.tables, plan.homes, in_tables(graph), self.logs)
        self.potentials = self.logs.copy()
        self.most = _OVERGROWN * (1.0 + magnitude(graph))
        if moved is not None:
            self.logs += moved
        self.beliefs = np.zeros(plan.n_cells)
        self.changed = np.ones(plan.regions.n_regions, np.int64)
        self.log_norm = np.zeros(plan.regions.n_regions)
        self.room = np.zeros(plan.n_room)
        self.n_steps = 0
        self.plain: PlainTables | None = None
        """The tables as plain numbers, in the memory of logs and beliefs, while messages are sent on these."""
        self.needs_logs = False
        self.seen: Floats | None = None
        """Log beliefs of inner regions when it was last asked whether they may yet turn over."""
        self.pieces: tuple[Ints, list[tuple[int, int]]] | None = None
        """The last order of messages, and the parts of it between two looks at the clock."""
        if self.constant == -np.inf:
            raise zero_probability(graph)
        if (self.logs == -np.inf).any():
            check_time()
            arrays = (self.changed, self.room, self.logs, self.beliefs, self.log_norm, stop_flag())
            if not remove_impossible(plan.tables, plan.edges, *arrays):
                raise zero_probability(graph)
            check_time()
            self.potentials[self.logs == -np.inf] = -np.inf
            self.changed[:] = 1
        if moved is not None:
            self.turning()  # where beliefs begin: those of the same potentials keep still from there

    def refresh(self) -> None:
        """Bring all beliefs up to date, in logs."""
        self.to_logs()
        arrays = (self.changed, self.maximise, self.room, self.logs, self.beliefs, self.log_norm)
        if not refresh_all(self.plan.tables, *arrays):
            raise zero_probability(self.problem.graph)

    def send(self, order: Ints, share: float) -> float:
        """Send messages in the given order; return how far parents and children were apart.

        That is done on plain numbers while they have the range for it. Tables that have grown beyond all measure are
        inf apart, and begin anew. Out of time, messages up to there were sent: the sweep does not count.
        """
        self.to_plain()
        if self.pieces is None or self.pieces[0] is not order:
            self.pieces = order, pieces(region_work(self.plan)[self.plan.edges.parent[order]])
        apart = 0.0
        for begin, end in self.pieces[1]:
            check_time()
            apart = max(apart, self._send(order[begin:end], share))
            if apart == np.inf:
                break
        self.n_steps += 1
        if apart == np.inf or (self.plain is None and self.n_steps % _LOOK == 0 and self.overgrown):
            self.begin_anew()
            return np.inf
        return apart

    def _send(self, order: Ints, share: float) -> float:
        """Send some messages; inf where tables have no finite sum."""
        apart, sent = 0.0, 0
        setting = (self.changed, share, self.maximise, self.room)
        if self.plain is not None:
            apart, sent = propagate_plain(self.plan.tables, self.plan.edges, order, *setting, self.plain)
            if sent == order.size:
                return float(apart)
            self.to_logs()
            self.needs_logs = True
        arrays = (self.logs, self.beliefs, self.log_norm)
        found = propagate(self.plan.tables, self.plan.edges, order[sent:], *setting, *arrays)
        return np.inf if found < 0 else float(max(apart, found))

    def turning(self) -> bool:
        """Whether an inner belief that rounds to 0 has become likelier since this was last asked: it may yet turn over.

        Such beliefs keep still, and agree, while the logs behind them move, above all after those of other potentials.
        """
        self.refresh()
        tables = self.plan.tables
        logs = self.beliefs[tables.cell_ptr[tables.table_ptr[self.plan.regions.n_outer]] :].copy()
        before, self.seen = self.seen, logs
        saturated = (logs < _SATURATED) & (logs > -np.inf)
        if before is None:
            return bool(saturated.any())
        old = before[saturated]
        return bool((logs[saturated] > old + (_QUIET - _ROUNDED * np.maximum(old, -np.finfo(float).max))).any())

    # -- plain numbers and logs -------------------------------------------------------------------------------------
    def to_plain(self) -> None:
        """Turn logs into plain numbers, in the same memory, where their range allows it."""
        if self.plain is not None or self.needs_logs:
            return
        tables, n = self.plan.tables, self.plan.regions.n_regions
        if not self.logs.size:
            return
        top = np.maximum.reduceat(self.logs, tables.cell_ptr[:-1])
        if not (top > -np.inf).all():  # an impossible region, which the sweep in logs will name
            self.needs_logs = True
            return
        shift = np.repeat(top, np.diff(tables.cell_ptr))
        least = (self.logs - shift).min(where=self.logs > -np.inf, initial=0.0)
        if not least > np.log(LEAST):
            self.needs_logs = True
            return
        np.exp(self.logs - shift, out=self.logs)
        offset = np.add.reduceat(top, tables.table_ptr[:-1])
        self.plain = PlainTables(self.logs, self.beliefs, np.ones(n), offset, np.ones(n), np.zeros(n))
        self.changed[:] = 1

    def to_logs(self) -> None:
        """Turn plain numbers back into logs."""
        if self.plain is None:
            return
        tables, plain = self.plan.tables, self.plain
        with np.errstate(divide="ignore"):
            np.log(self.logs, out=self.logs)
        taken = np.zeros(tables.cell_ptr.size - 1)
        taken[tables.table_ptr[:-1]] = plain.offset + np.log(plain.growth)
        self.logs += np.repeat(taken, np.diff(tables.cell_ptr))
        self.changed[:] = 1
        self.plain = None

    @property
    def overgrown(self) -> bool:
        """Whether tables are far beyond what messages of these potentials can be."""
        self.to_logs()
        finite = np.where(self.logs > -np.inf, np.abs(self.logs), 0.0)
        return not float(finite.max(initial=0.0)) < self.most

    def begin_anew(self) -> None:
        """Forget all messages."""
        self.plain = None
        self.logs[:] = self.potentials
        self.changed[:] = 1

    # -- answers ------------------------------------------------------------------------------------------------------
    def kikuchi(self) -> float:
        r"""Return :math:`\sum_\gamma c_\gamma \log Z_\gamma`, at a fixed point the Kikuchi approximation of log Z."""
        if self.overgrown:
            self.begin_anew()
        self.refresh()
        return float(self.plan.regions.counting @ self.log_norm) + self.constant

    def mu_var(self) -> Floats:
        """Return the marginals of variables."""
        self.refresh()
        plan, layout = self.plan, self.problem.graph.layout
        mu = np.bincount(plan.state_to, np.exp(self.beliefs[plan.state_cell]), layout.n_states).astype(np.float64)
        mu[layout.state_ptr[:-1][layout.card == 1]] = 1.0
        found = observed_point_masses(self.problem.graph)
        hidden = np.repeat(~layout.observed, layout.card)
        total = np.repeat(np.add.reduceat(mu, layout.state_ptr[:-1]), layout.card) if mu.size else mu
        found[hidden] = mu[hidden] / total[hidden]
        return found

    def tables_and_joints(self) -> tuple[Callable[[], Floats], Callable[[Region], Floats | None]]:
        """Return what makes marginals of factors, and of sets inside a region, from one copy of the present beliefs."""
        self.refresh()
        beliefs = self.beliefs.copy()
        logs = self.logs.copy() if self.plan.regions.is_loop.any() else self.logs[:0]
        tables = partial(_factor_tables, self.problem.graph, self.plan, beliefs)
        return tables, partial(region_joint, self.plan, beliefs, logs)

    def warm_start(self) -> RegionWarmStart:
        """Return what messages have changed."""
        self.to_logs()
        with np.errstate(invalid="ignore"):
            moved = np.where(self.logs > -np.inf, self.logs - self.potentials, 0.0)
        return RegionWarmStart(self.plan.regions.scopes, moved)


def region_work(plan: RegionPlan) -> Floats:
    """Return about how many numbers the beliefs of each region take: its cells, for loops times a cardinality."""
    tables = plan.tables
    cells = np.diff(tables.cell_ptr[tables.table_ptr]).astype(np.float64)
    return cells * np.maximum(tables.rows[tables.table_ptr[:-1]], 1)


def pieces(work: Floats) -> list[tuple[int, int]]:
    """Return the beginnings and ends of parts of a sweep between which the clock is looked at.

    Examples
    --------
    >>> pieces(np.array([1e6, 2e6, 1e6, 4e6]))
    [(0, 2), (2, 3), (3, 4)]
    """
    part = np.floor((np.cumsum(work) - work) / _PIECE)
    ends = np.append(np.flatnonzero(np.diff(part)) + 1, work.size)
    return list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))


def in_tables(graph: FactorGraph) -> Floats:
    """Return the log potentials of all factors side by side, tied ones repeated."""
    layout = graph.layout
    within = np.arange(int(layout.table_ptr[-1])) - np.repeat(layout.table_ptr[:-1], layout.factor_size)
    tables: Floats = graph.theta[np.repeat(layout.cell_ptr, layout.factor_size) + within]
    return tables


def _factor_tables(graph: FactorGraph, plan: RegionPlan, beliefs: Floats) -> Floats:
    layout = graph.layout
    found = np.zeros(int(layout.table_ptr[-1]))
    sum_factors(plan.tables, plan.homes, np.exp(beliefs), found)
    found[layout.table_ptr[:-1][layout.factor_size == 1]] = 1.0
    if found.size:
        found /= np.repeat(np.add.reduceat(found, layout.table_ptr[:-1]), layout.factor_size)
    return found


def impossible_beliefs(graph: FactorGraph, mu_var: Floats) -> Bools:
    r"""Return which marginals no model with these factors can have: below :math:`e^{-\sum_f (\max - \min)} / K`."""
    layout = graph.layout
    tables = in_tables(graph)
    if not tables.size:
        return np.zeros(mu_var.size, np.bool_)
    starts = layout.table_ptr[:-1]
    span = np.maximum.reduceat(tables, starts) - np.minimum.reduceat(tables, starts)  # inf with hard zeros: no floor
    of_variable = np.bincount(layout.scope_vars, span[layout.edge_factor], layout.n_vars)
    floor = np.exp(-np.minimum(of_variable, 1e4)) / layout.card
    return (mu_var < 0.999 * np.repeat(np.where(of_variable < 600, floor, 0.0), layout.card)) & np.repeat(
        ~layout.observed, layout.card
    )
