r"""Beliefs of regions by dual block descent: the inner loop of the double loop, and the convex method itself.

Outer regions (with weights :math:`w_\gamma = c_\gamma > 0`) agree with what is inside them through multipliers; see
:mod:`beliefs.kernels.regions.concave`. ``weight`` of inner regions is what remains of their counting numbers once
negative ones are put aside, and ``target`` what stands in their place. Sweeps work on plain numbers, in the memory of
the logs, while these have the range for it (:mod:`beliefs.kernels.regions.plain_concave`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beliefs.deadline import check_time
from beliefs.errors import ModelError
from beliefs.inference.base import Problem, zero_probability
from beliefs.inference.regions.builder import tree_begins
from beliefs.inference.regions.plan import RegionPlan
from beliefs.inference.regions.state import RegionState, pieces, region_work
from beliefs.inference.rounding import UNIT, magnitude, pairwise, rounding_error
from beliefs.kernels.regions.concave import Agreements, Descent, descend, with_multipliers
from beliefs.kernels.regions.concave_dual import OuterEntries, inner_terms, outer_terms
from beliefs.kernels.regions.loop_tree import LoopTrees
from beliefs.kernels.regions.plain_concave import PlainAgreements, descend_plain, to_plain_agreements
from beliefs.model.layout import frozen_ints, offsets
from beliefs.model.scopes import within
from beliefs.typing import Floats, Ints

__all__ = ["ConcaveState", "ConcaveWarmStart", "check_outer"]

_ANEW = 64  # sweeps after which tables are made anew


@dataclass(frozen=True, eq=False)
class ConcaveWarmStart:
    """What a warm start needs: multipliers and inner beliefs, and of which regions."""

    scopes: tuple[tuple[int, ...], ...]
    multipliers: Floats
    beliefs: Floats


class ConcaveState(RegionState):
    """Log tables divided by the weights of outer regions, multipliers, and beliefs of inner regions."""

    def __init__(
        self, problem: Problem, plan: RegionPlan, counting: Floats, warm: ConcaveWarmStart | None = None
    ) -> None:
        super().__init__(problem, plan)
        self.counting, self.weight, self.begun = counting, np.maximum(counting, 0.0), False
        self.apart = math.inf
        """How far outer regions were from agreeing in the last sweep, when each inner one had its turn."""
        self.pairs, self.by_region, self.cell_of = agreements(plan)
        work = np.append(0.0, np.cumsum(region_work(plan)[self.pairs.region]))
        self.parts = pieces(np.diff(work[self.pairs.ptr]))
        """Inner regions between two looks at the clock."""
        self.multipliers = np.zeros(self.cell_of.size)
        tables, n = plan.tables, plan.regions.n_outer
        inner = np.diff(tables.cell_ptr)[tables.table_ptr[self.pairs.inner]]
        self.room = np.zeros(plan.n_room + int((inner * (2 * np.diff(self.pairs.ptr) + 3)).max(initial=0)))
        self.n_outer_cells = int(tables.cell_ptr[tables.table_ptr[n]])
        begin, n_numbers = tree_begins(plan.width[:n], plan.regions.flat.size[:n])
        self.trees = LoopTrees(begin, plan.width, np.zeros(n, np.int64), np.zeros(n_numbers))
        """Products of tables of long loops, in the form that sweeps work on."""
        self.target = np.zeros(plan.n_cells)
        """What stands for the potentials of inner regions."""
        self.products: PlainAgreements | None = None
        """Tables, inner beliefs and multipliers as plain numbers, while sweeps work on these."""
        self.inner_zero = self.logs[self.n_outer_cells :] == -np.inf
        self.potentials[self.n_outer_cells :] = 0.0
        self.refresh()  # beliefs of inner regions, uniform over what is possible
        if warm is not None and warm.scopes == plan.regions.scopes:
            self.multipliers = warm.multipliers.copy()
            self.begin_at(warm.beliefs)
            self.seen = self.beliefs[self.n_outer_cells :].copy()
        self.rebuild()

    def begin_at(self, beliefs: Floats) -> None:
        """Take log beliefs of inner regions as they are, where they are possible."""
        self.to_logs()
        given = beliefs[self.n_outer_cells :]
        known = ~self.inner_zero & (given > -np.inf)
        self.beliefs[self.n_outer_cells :][known] = given[known]

    def concave_warm_start(self) -> ConcaveWarmStart:
        """Return multipliers and inner beliefs."""
        self.to_logs()
        return ConcaveWarmStart(self.plan.regions.scopes, self.multipliers.copy(), self.beliefs.copy())

    def rebuild(self) -> None:
        """Make the tables of outer regions anew from potentials and multipliers, so that nothing drifts."""
        if self.products is not None:
            self.to_logs()
            return
        n = self.n_outer_cells
        self.trees.leaf[:] = 0
        self.logs[:n] = self.potentials[:n] / self.weight[self.plan.region_of_cell[:n]]
        with_multipliers(self.plan.tables, self.pairs, self.weight, self.multipliers, self.logs)
        self.changed[: self.plan.regions.n_outer] = 1

    def aim(self, target: Floats) -> None:
        """Put a function in the place of the potentials of inner regions; impossible states stay so."""
        self.to_logs()
        self.target = target
        self.target[self.n_outer_cells :][self.inner_zero] = -np.inf

    def sweep(self) -> float:
        """Descend once in the multipliers of every inner region; return the largest change of a belief."""
        self.n_steps += 1
        if self.n_steps % _ANEW == 0:
            self.rebuild()
        self.to_plain()
        change = apart = 0.0
        for begin, end in self.parts:
            check_time()
            pairs = self.pairs._replace(inner=self.pairs.inner[begin:end], ptr=self.pairs.ptr[begin : end + 1])
            moved, were = self._descend(pairs)
            change, apart = max(change, moved), max(apart, were)
        self.apart = apart
        return change

    def _descend(self, pairs: Agreements) -> tuple[float, float]:
        """Descend in the multipliers of some inner regions; return how far these moved, and how far others were."""
        change, apart, done, setting = 0.0, 0.0, 0, (self.weight, self.room)
        if self.products is not None:
            change, apart, done = descend_plain(self.plan.tables, pairs, *setting, self.products, self.trees)
            if done == pairs.inner.size:
                return float(change), float(apart)
            self.to_logs()
            self.needs_logs = True
            pairs = pairs._replace(inner=pairs.inner[done:], ptr=pairs.ptr[done:])
        arrays = Descent(self.target, self.multipliers, self.logs, self.beliefs, self.log_norm, self.changed)
        found, were = descend(self.plan.tables, pairs, *setting, arrays, self.trees)
        if found < 0:
            raise zero_probability(self.problem.graph)
        return max(float(change), float(found)), max(float(apart), float(were))

    # -- plain numbers and logs -------------------------------------------------------------------------------------
    def to_plain(self) -> None:
        """Turn logs into plain numbers, in the same memory, where their range allows it."""
        if self.products is not None or self.needs_logs:
            return
        bounds, target = np.zeros((2, self.plan.regions.n_outer)), np.empty(self.plan.n_cells)
        plain = PlainAgreements(self.logs, self.beliefs, target, self.multipliers, *bounds)
        arrays = (self.logs, self.beliefs, self.target, self.multipliers)
        if to_plain_agreements(self.plan.tables, self.pairs, *arrays, plain):
            self.products = plain
            self.trees.leaf[:] = 0
        else:
            self.needs_logs = True

    def to_logs(self) -> None:
        """Turn plain numbers back into logs."""
        if self.products is None:
            return
        self.products = None
        inner = self.beliefs[self.n_outer_cells :]
        with np.errstate(divide="ignore"):
            np.log(inner, out=inner)
        np.log(self.multipliers, out=self.multipliers)
        self.rebuild()

    def log_multipliers(self) -> Floats:
        """Return the multipliers as logs."""
        return self.multipliers if self.products is None else np.log(self.multipliers)

    def refresh(self) -> None:
        """Bring beliefs of outer regions up to date; those of inner regions are set by :meth:`sweep`."""
        if self.begun:
            self.changed[self.plan.regions.n_outer :] = 0
        super().refresh()
        self.begun = True

    # -- values -------------------------------------------------------------------------------------------------------
    @property
    def inner_beliefs(self) -> Floats:
        """The beliefs of inner regions as probabilities."""
        inner = self.beliefs[self.n_outer_cells :]
        return np.exp(inner) if self.products is None else inner.copy()

    def inner_entropies(self) -> Floats:
        """Return the entropy of each inner region's beliefs."""
        p, logs, n = self.inner_beliefs, self.beliefs[self.n_outer_cells :], self.plan.regions.n_outer
        terms = np.where(p > 0, -p * np.where(p > 0, logs, 0.0), 0.0)
        owner = self.plan.region_of_cell[self.n_outer_cells :] - n
        return np.bincount(owner, terms, self.plan.regions.n_regions - n).astype(np.float64)

    def primal(self) -> float:
        """Return the Kikuchi value of the present beliefs, up to how far they are from agreeing."""
        self.refresh()
        n, p = self.plan.regions.n_outer, self.inner_beliefs
        sums = np.bincount(self.cell_of, self.multipliers, self.plan.n_cells)[self.n_outer_cells :]
        coupled = float((p * np.where(p > 0, sums, 0.0)).sum())
        entropies = float(self.counting[n:] @ self.inner_entropies())
        return float(self.weight[:n] @ self.log_norm[:n]) - coupled + entropies + self.constant

    def dual(self) -> tuple[float, float]:
        """Return the dual value, an upper bound on the maximum at any multipliers, and how wrong it may be."""
        multipliers = self.log_multipliers()
        plan, pairs, weight = self.plan, self.pairs, self.weight
        outer, of_tables = outer_terms(
            plan.tables, pairs, self.by_region, weight, self.potentials, multipliers, self.room
        )
        inner, of_sums = inner_terms(plan.tables, pairs, weight, self.target, multipliers, self.room)
        largest = float(np.abs(multipliers).max(initial=0.0))
        return outer + inner + self.constant, self._rounding(of_tables + of_sums, largest)

    def _rounding(self, largest: float, multiplier: float) -> float:
        """Return how wrong the dual may be: every term is a log-sum of sums of potentials and multipliers.

        ``largest`` is the sum of all terms and of the largest entries of all tables and sums, ``multiplier`` the
        largest multiplier.
        """
        n_tables, widest, longest, together, of_factors = self._sizes
        total = largest + multiplier * float(self.pairs.region.size) + of_factors
        terms = n_tables + widest + together + longest * widest
        own = float(self.weight.sum()) * UNIT * longest * (3.0 * widest + 10.0) * 4.0
        return rounding_error(total, terms + float(self.pairs.region.size)) + own

    @cached_property
    def _sizes(self) -> tuple[float, ...]:
        """Tables, cells of the largest, tables of the longest loop, factors of a table, magnitude of potentials."""
        tables, graph = self.plan.tables, self.problem.graph
        sizes = np.diff(tables.cell_ptr)
        longest = float(np.diff(tables.table_ptr).max(initial=1))
        together = float(np.bincount(self.plan.homes.table).max(initial=0)) + pairwise(graph.n_factors)
        # added into tables factors may cancel, their roundings do not
        return float(sizes.size), float(sizes.max(initial=1)) + 8.0, longest, together, magnitude(graph)


def agreements(plan: RegionPlan) -> tuple[Agreements, OuterEntries, Ints]:
    """Return inner regions with the outer ones around each, the same by outer region, and each multiplier's cell."""
    edges, n = plan.edges, plan.regions.n_outer
    inner = np.arange(n, plan.regions.n_regions)
    first = plan.tables.table_ptr[inner]
    begins, sizes = plan.tables.cell_ptr[first], np.diff(plan.tables.cell_ptr)[first]
    owner = np.repeat(np.arange(plan.regions.n_regions), np.diff(edges.around_ptr)) - n
    at = np.flatnonzero(edges.around_region < n)  # inner regions alone have others around them
    owner = owner[at]
    ptr, start = offsets(np.bincount(owner, minlength=inner.size)), offsets(sizes[owner])[:-1]
    arrays = (inner, ptr, edges.around_region[at], edges.around_table[at], edges.around_map[at], start)
    pairs = Agreements(*(frozen_ints(a, "agreements") for a in arrays))
    entry, by_region = np.argsort(pairs.region, kind="stable"), offsets(np.bincount(pairs.region, minlength=n))
    outer = OuterEntries(frozen_ints(by_region, "agreements"), frozen_ints(entry, "agreements"))
    return pairs, outer, within(begins[owner], sizes[owner])


def check_outer(problem: Problem, plan: RegionPlan, counting: Floats, method: str) -> None:
    """Refuse counting numbers by which outer regions do not count."""
    regions = plan.regions
    bad = np.flatnonzero(counting[: regions.n_outer] <= 0)
    if bad.size:
        names = ", ".join(problem.graph.naming.name(v) for v in regions.scopes[int(bad[0])][:8])
        found = f"{counting[bad[0]]:g} for ({names})"
        raise ModelError(f"{method} needs positive counting numbers of regions without parents, found {found}")
