"""Many sets of log potentials for one structure: expectations of each row, and the way back through them.

Rows of ``theta (n_rows, n_cells)`` are models that share a layout. Side by side they are one model, the disjoint union
of copies, whose cells are the rows end to end: no number moves. Where inference treats a union as its parts
(:mod:`beliefs.learning.joined`), rows are answered some at a time, up to a size at which starting a run no longer
counts; elsewhere one by one. Either way lots of rows run side by side on threads, and what a lot is depends on the
structure alone: any number of threads gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.base import Method
from beliefs.inference.messages.schedule import is_forest
from beliefs.inference.run import settled, tol_for_marginals
from beliefs.learning.gradients.base import Beliefs, Gradient
from beliefs.learning.gradients.exact import Exact, ExactBeliefs, ForestBeliefs
from beliefs.learning.joined import part_by_part
from beliefs.learning.parallel import executor_of
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Floats

__all__ = ["RowBeliefs", "beliefs_of_rows", "log_partitions", "side_by_side"]

_CELLS = 2**14  # of copies side by side: below the size that sweeps cut in strips, so that a row's messages are its own
_FOREST_CELLS = 2**16  # one sweep from leaves to roots and back has no strips


class RowBeliefs(Protocol):
    """Answers for all rows, and the way back."""

    @property
    def mu_var(self) -> Floats:
        """Marginals ``(n_rows, n_states)``."""
        ...

    @property
    def mu(self) -> Floats:
        """Expected statistics ``(n_rows, n_cells)``."""
        ...

    @property
    def n_not_converged(self) -> int:
        """Rows in lots that have missed their tolerance."""
        ...

    def pullback(self, bar_var: Floats | None, bar_mu: Floats | None) -> Floats:
        """Return the gradient in ``theta`` ``(n_rows, n_cells)`` for gradients in ``mu_var`` and ``mu``."""
        ...


def side_by_side(graph: FactorGraph, n_copies: int) -> FactorGraph:
    """Return so many copies of a structure, its evidence too, as one graph with ``theta`` 0; it is kept."""
    if n_copies == 1:
        return graph
    layout = graph.layout.plan(_copies, n_copies)
    empty = FactorGraph.build(layout, np.zeros(layout.n_cells))
    states = np.tile(graph.evidence_states, n_copies)
    states.setflags(write=False)
    return FactorGraph(layout, empty.theta, empty.naming, states)


def _copies(layout: Layout, n: int) -> Layout:
    def shifted(array: np.ndarray, by: int) -> np.ndarray:
        return (array + by * np.arange(n)[:, None]).reshape(-1)

    return Layout.build(
        np.tile(layout.card, n),
        np.concatenate([shifted(layout.scope_ptr[:-1], layout.n_edges), [n * layout.n_edges]]),
        shifted(layout.scope_vars, layout.n_vars),
        shifted(layout.cell_ptr, layout.n_cells),
        np.tile(layout.observed, n),
    )


@dataclass(frozen=True, eq=False)
class _Lots:
    """Beliefs of lots of rows ``cuts[k]:cuts[k+1]``."""

    layout: Layout
    beliefs: Sequence[Beliefs]
    cuts: Sequence[int]
    mu_var: Floats
    mu: Floats
    threads: int | None

    @property
    def n_not_converged(self) -> int:
        return sum(b - a for found, a, b in self._each() if not found.converged)

    def _each(self) -> list[tuple[Beliefs, int, int]]:
        return list(zip(self.beliefs, self.cuts[:-1], self.cuts[1:], strict=True))

    def pullback(self, bar_var: Floats | None, bar_mu: Floats | None) -> Floats:
        """Return the gradient in ``theta``."""
        lay, grad = self.layout, np.empty(self.mu.shape)
        cells = None if np.array_equal(lay.cell_ptr, lay.table_ptr[:-1]) else lay.table_cells()

        def back(lot: tuple[Beliefs, int, int]) -> None:
            found, a, b = lot
            of_var = None if bar_var is None else bar_var[a:b].reshape(-1)
            of_table = None
            if bar_mu is not None:
                of_table = (bar_mu[a:b] if cells is None else bar_mu[a:b, cells]).reshape(-1)
            asked = any(bar is not None and bar.any() for bar in (of_var, of_table))
            grad[a:b] = found.pullback(of_var, of_table).reshape(b - a, -1) if asked else 0.0

        executor_of(self.threads).map(back, self._each())
        return grad


def beliefs_of_rows(
    graph: FactorGraph, theta: Floats, through: Gradient, threads: int | None
) -> tuple[RowBeliefs, Floats]:
    """Run inference on all rows; return the beliefs and, if they are exact, the log Z of each row, else nan."""
    n, lay = len(theta), graph.layout
    cuts = _cuts(lay, n, through)
    mu_var, mu, log_z = np.empty((n, lay.n_states)), np.empty((n, lay.n_cells)), np.full(n, np.nan)

    def run(lot: tuple[int, int]) -> Beliefs:
        a, b = lot
        found = _run(graph, theta[a:b], through, a)
        mu_var[a:b] = found.mu_var.reshape(b - a, -1)
        mu[a:b] = found.layout.in_cells(found.mu_factor).reshape(b - a, -1)
        if isinstance(found, ForestBeliefs):
            log_z[a:b] = found.log_zs(b - a)
        elif isinstance(found, ExactBeliefs):
            log_z[a] = found.log_z
        return found

    lots = list(zip(cuts[:-1], cuts[1:], strict=True))
    return _Lots(lay, executor_of(threads).map(run, lots), cuts, mu_var, mu, threads), log_z


def _cuts(layout: Layout, n: int, through: Gradient) -> list[int]:
    """Return where lots of rows begin, and end."""
    together = 1
    if isinstance(through, Exact):
        together = _FOREST_CELLS // max(int(layout.table_ptr[-1]), 1) if is_forest(layout) else 1
    elif through.runs and not through.until_tol and part_by_part(through.runs):
        together = _CELLS // max(int(layout.table_ptr[-1]), 1)
    return [*range(0, n, max(together, 1)), n]


def _run(graph: FactorGraph, theta: Floats, through: Gradient, first: int) -> Beliefs:
    n = len(theta)
    union = side_by_side(graph, n)
    for method in through.runs or () if n > 1 else ():
        method.share_plans(union.layout, [graph.layout] * n)
    try:
        return through.run(union.lent(theta.reshape(-1)))
    except ModelError as error:  # probability zero, or no number
        if n == 1:
            raise _of_row(first, error) from None
        for k in range(n):  # which one?
            _run(graph, theta[k : k + 1], through, first + k)
        raise


def _of_row(k: int, error: ModelError) -> ModelError:
    return type(error)(f"row {k} of theta: {error}")


@dataclass(frozen=True, eq=False)
class _Surrogate:
    """Beliefs at fixed points, where they are the gradient of the value; there is no way back through them."""

    mu_var: Floats
    mu: Floats
    n_not_converged: int
    refuse: Callable[[], Exception]

    def pullback(self, bar_var: Floats | None, bar_mu: Floats | None) -> Floats:
        raise self.refuse()


def log_partitions(
    graph: FactorGraph, theta: Floats, method: Method, tol: float, threads: int | None, refuse: Callable[[], Exception]
) -> tuple[RowBeliefs, Floats]:
    """Return beliefs and values of all rows by a method that is run until it settles, row by row."""

    def ask(k: int) -> tuple[Floats, Floats, float, bool]:
        try:
            found = settled(graph.lent(theta[k]), method, tol=tol_for_marginals(method, tol))
        except ModelError as error:
            raise _of_row(k, error) from None
        return found.mu_var, found.mu, found.log_z, found.converged

    answers = executor_of(threads).map(ask, range(len(theta)))
    mu_var = np.array([one[0] for one in answers]).reshape(len(theta), graph.layout.n_states)
    mu = np.array([one[1] for one in answers]).reshape(theta.shape)
    missed = sum(not one[3] for one in answers)
    return _Surrogate(mu_var, mu, missed, refuse), np.array([one[2] for one in answers])
