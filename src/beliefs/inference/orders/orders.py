"""Elimination orders: which variable to sum out next, and what that will cost.

Eliminating v multiplies all tables that contain it and sums v out; the table made has a cell for each joint state of
the *clique* of v: itself and its neighbours in the interaction graph, which then become neighbours of each other. An
order is judged by the cells of all its cliques together,

.. math:: cells(\\pi) = \\sum_i \\prod_{u \\in clique_i(\\pi)} card(u),

the work of elimination and, to a factor, of a junction tree. Finding the best order is NP-hard. The planner eliminates
variables that cost nothing extra (simplicial ones: leaves first), splits the rest to connected components, and searches
each: plain greedy criteria, randomised restarts, exact improvement of short windows. The effort is a fixed share of the
inference it prepares and is counted in operations, so plans are reproducible.

==================  ================================================================================
method              the next variable has the smallest
==================  ================================================================================
min_fill            number of pairs of neighbours to be joined [kjaerulff1990]
weighted_min_fill   sum over these pairs of the product of cardinalities
log_min_fill        sum over these pairs of the product of the cardinalities' logarithms
min_weight          table (product of the cardinalities of its clique)
min_degree          number of neighbours
auto                all but the last, then restarts and windows as far as they pay; the best is kept
==================  ================================================================================

Trees get width 1, chordal graphs their clique number; nothing is promised beyond. Cost: linear on trees, forests and
chains; otherwise a run on n variables takes about the operations of a symbolic Cholesky factorisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from beliefs.deadline import now
from beliefs.errors import ModelError
from beliefs.inference.budget import readable_bytes
from beliefs.inference.orders.search import CRITERIA, InteractionGraph
from beliefs.kernels.orders.degeneracy import degeneracy_order
from beliefs.kernels.orders.graph import primal_graph
from beliefs.options import check_integer, check_number
from beliefs.typing import Ints

__all__ = [
    "MOST_RESTARTS",
    "ORDERS",
    "SECONDS_PER_CELL",
    "CostReport",
    "Order",
    "degeneracy_plan",
    "duration",
    "order_cost",
    "plan_order",
]

ORDERS = ("auto", *CRITERIA)
"""The names of the elimination heuristics."""

MOST_RESTARTS = 10**6
"""Randomised runs of a heuristic: a search that nothing interrupts."""

SECONDS_PER_CELL = 5e-9
"""Of all cliques: what is known before there is a tree, and mostly too much, since small cliques go into large ones."""

_CENTURY = 3.2e9  # seconds


@dataclass(frozen=True, eq=False)
class Order:
    """An elimination order and its cost.

    Attributes
    ----------
    order : (n_active,) int64
        The variables, first eliminated first.
    method : str
        What found it; for ``auto`` with the criterion that won.
    width : int
        The largest clique, less one (0 if there are no variables).
    total_cells, largest_cells : float
        Cells of all cliques together, and of the largest; ``inf`` beyond 2**1024.
    maximal_cells : float
        Cells of the cliques that are not part of another: the tables of a junction tree.
    log2_cells, log2_largest : float
        The same as logarithms, which are always finite (``-inf`` if there are no variables).
    n_restarts : int
        Greedy runs tried in the largest component; 0 for a given order and where no choice was left.
    """

    order: Ints
    method: str
    width: int
    total_cells: float
    largest_cells: float
    maximal_cells: float
    log2_cells: float
    log2_largest: float
    n_restarts: int = 0

    @cached_property
    def _identity(self) -> tuple[str, bytes]:
        return self.method, self.order.tobytes()

    def __eq__(self, other: object) -> bool:
        """Whether it is the same order, found in the same way: plans are kept by the order they are made of."""
        return isinstance(other, Order) and self._identity == other._identity

    @cached_property
    def _hash(self) -> int:
        return hash(self._identity)

    def __hash__(self) -> int:
        return self._hash

    @property
    def seconds(self) -> float:
        """Estimated time to collect and distribute once; :meth:`.JunctionTree.seconds` knows it better, by the tree."""
        return SECONDS_PER_CELL * self.total_cells

    @cached_property
    def size(self) -> str:
        """Cells and width in a few words, for messages."""
        return f"{_count(self.log2_cells)} cells, width {self.width}"

    @property
    def duration(self) -> str:
        """The estimated time in words."""
        return duration(self.seconds)

    def report(self, n_bytes: float | None = None, seconds: float | None = None) -> CostReport:
        """Return the cost as lines to print; ``n_bytes`` and ``seconds`` are those of a run where they are known."""
        return CostReport(self, n_bytes, self.seconds if seconds is None else seconds)


def duration(seconds: float) -> str:
    """Return an estimated time in words.

    >>> duration(2.345), duration(float("inf"))
    ('about 2.3 s', 'more than a century')
    """
    return f"about {seconds:.2g} s" if seconds < _CENTURY else "more than a century"


@dataclass(frozen=True)
class CostReport:
    """What exact inference along an order would take; ``str(report)`` prints it.

    ``JunctionTree().report(problem)`` knows the memory as well.

    Examples
    --------
    >>> print(plan_order([2, 2, 2], [0, 2, 4], [0, 1, 1, 2]).report())
    order          auto (simplicial), 0 runs
    width          1
    cells          10 in 3 cliques, 8 in the maximal ones
    largest table  4 cells
    time           about 5e-08 s
    """

    plan: Order
    n_bytes: float | None
    seconds: float

    def __str__(self) -> str:
        plan = self.plan
        lines = [
            ("order", f"{plan.method}, {plan.n_restarts} runs"),
            ("width", f"{plan.width}"),
            ("cells", f"{_count(plan.log2_cells)} in {plan.order.size} cliques{self._maximal()}"),
            ("largest table", f"{_count(plan.log2_largest)} cells"),
        ]
        if self.n_bytes is not None:
            lines.append(("memory", f"{readable_bytes(self.n_bytes)} for factors, messages and the plan"))
        lines.append(("time", duration(self.seconds)))
        return "\n".join(f"{name:<13}  {text}" for name, text in lines)

    def _maximal(self) -> str:
        if self.plan.log2_cells >= 1000:
            return ""
        return f", {_count(_log2(self.plan.maximal_cells))} in the maximal ones"


def _log2(count: float) -> float:
    return float(np.log2(count)) if count > 0 else -np.inf


def _count(log2_count: float) -> str:
    """Return a number of cells in a few digits; powers of ten beyond what floats hold."""
    if log2_count < 1000:
        return f"{2.0**log2_count:.4g}"
    return f"1e{log2_count * np.log10(2.0):.0f}"


def plan_order(
    card: ArrayLike,
    scope_ptr: ArrayLike,
    scope_vars: ArrayLike,
    *,
    method: str = "auto",
    restarts: int | None = None,
    seed: int = 0,
    stage: ArrayLike | None = None,
    active: ArrayLike | None = None,
    time_limit: float | None = None,
) -> Order:
    """Find an elimination order with few cells.

    Parameters
    ----------
    card : (n_vars,) int
        Cardinalities.
    scope_ptr, scope_vars : (n_factors + 1,), (n_edges,) int
        The factors' scopes in CSR.
    method : str
        One of `ORDERS`.
    restarts : int, optional
        Randomised runs after the plain ones, in each component. By default none for a named criterion, and for
        ``auto`` as many as pay: planning takes about a third of the inference it prepares, and 0.3 s at most.
    seed : int
        Decides ties and restarts; the same seed gives the same order.
    stage : (n_vars,) int, optional
        Variables of a smaller stage are eliminated first (marginal MAP: sums 0, query 1).
    active : (n_vars,) bool, optional
        The variables to eliminate; by default all.
    time_limit : float, optional
        Seconds. Searches again with other seeds until then, or until that has stopped to help; so the order depends
        on the machine's speed.

    Raises
    ------
    ModelError
        For an unknown method, or a number out of range.
    OutOfTime
        When the time limit of the question is over before every component has an order.

    Examples
    --------
    >>> plan_order([2, 2, 2], [0, 2, 4], [0, 1, 1, 2]).width
    1
    """
    if method not in ORDERS:
        raise ModelError(f"unknown elimination heuristic {method!r}; choose one of {', '.join(ORDERS)}")
    check_integer("restarts", restarts, 0, MOST_RESTARTS, none=True)
    check_integer("seed", seed, 0)
    check_number("time_limit", time_limit, none=True)
    deadline = None if time_limit is None else now() + time_limit
    cards = _ints(card)
    graph = InteractionGraph(
        cards,
        _ints(scope_ptr),
        _ints(scope_vars),
        np.ones(cards.size, np.bool_) if active is None else np.array(active, np.bool_),
        np.zeros(cards.size, np.int64) if stage is None else _ints(stage),
    )
    order, criterion, runs = graph.search(method, restarts, seed, deadline)
    return _with_cost(graph, order, f"auto ({criterion})" if method == "auto" else method, runs)


def degeneracy_plan(card: ArrayLike, scope_ptr: ArrayLike, scope_vars: ArrayLike, stage: ArrayLike) -> Order:
    """Return an order in which every variable has few later neighbours [matula1983], in linear time.

    ``stage (n_vars,)`` says who is eliminated first, as in :func:`plan_order`; variables with -1 are left out.
    """
    turn = _ints(stage)
    ptr, near = primal_graph(_ints(scope_ptr), _ints(scope_vars), turn >= 0)
    order = np.empty(turn.size, np.int64)
    count = degeneracy_order(ptr, near, turn, order)
    return order_cost(card, scope_ptr, scope_vars, order[:count], method="degeneracy")


def order_cost(
    card: ArrayLike,
    scope_ptr: ArrayLike,
    scope_vars: ArrayLike,
    order: ArrayLike,
    *,
    active: ArrayLike | None = None,
    method: str = "given",
) -> Order:
    """Return a given order with its cost, in near-linear time.

    The order must name every active variable once. By default these are the variables that occur in a scope; others
    may be named too.

    Raises
    ------
    ModelError
        If a variable is named twice, unknown, inactive or missing.
    """
    cards, given, scopes = _ints(card), _ints(order), _ints(scope_vars)
    outside = given[(given < 0) | (given >= cards.size)]
    if outside.size:
        raise ModelError(f"the elimination order names variable {outside[0]}, but there are {cards.size}")
    times = np.bincount(given, minlength=cards.size)
    if times.max(initial=0) > 1:
        raise ModelError(f"the elimination order names variable {times.argmax()} more than once")
    needed = np.zeros(cards.size, np.bool_)
    needed[scopes] = True
    if active is not None:
        needed = np.asarray(active, np.bool_)
        if (times > needed).any():
            raise ModelError(f"the elimination order names variable {(times > needed).argmax()}, which is not active")
    if (times < needed).any():
        raise ModelError(f"the elimination order does not name variable {(times < needed).argmax()}")
    graph = InteractionGraph(cards, _ints(scope_ptr), scopes, times > 0, np.zeros(cards.size, np.int64))
    return _with_cost(graph, given, method, 0)


def _ints(values: ArrayLike) -> Ints:
    """Return an own, writeable copy: kernels are compiled once, for this kind of array."""
    return np.array(values, np.int64, order="C", ndmin=1)


def _with_cost(graph: InteractionGraph, order: Ints, method: str, n_restarts: int) -> Order:
    """Return the order with the sizes of its cliques."""
    if order.size == 0:
        return Order(order, method, 0, 0.0, 0.0, 0.0, -np.inf, -np.inf, n_restarts)
    parent, size, bits = graph.cliques(order)
    maximal = np.ones(order.size, np.bool_)
    child = np.flatnonzero(parent >= 0)
    maximal[parent[child[size[child] == size[parent[child]] + 1]]] = False
    with np.errstate(over="ignore"):  # beyond 2**1024 the counts are inf, as promised
        cells = np.exp2(bits)
        cells[bits < 32] = np.rint(cells[bits < 32])  # whole numbers: the rounding of the logarithms need not show
        total, in_maximal = float(cells.sum()), float(cells[maximal].sum())
    largest = float(bits.max())
    return Order(
        order=order,
        method=method,
        width=int(size.max()) - 1,
        total_cells=total,
        largest_cells=float(cells.max()),
        maximal_cells=in_maximal,
        log2_cells=largest + float(np.log2(np.exp2(bits - largest).sum())),
        log2_largest=largest,
        n_restarts=n_restarts,
    )
