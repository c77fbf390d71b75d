"""Weighted constraint satisfaction problems of toulbar2 (``.wcsp``), the classic text format.

::

    NAME  n  largest-domain  m  UB
    domain sizes (negative: an interval, the same to us)
    then m cost functions, each one of
      arity  scope  default-cost  t   and t tuples  states.. cost
      arity  scope  default-cost -s         the same costs as the s-th shared function (a tied table)
      arity  scope  -1  KEYWORD ..          a function by name, see :mod:`beliefs.io.wcsp_functions`

A negative arity makes a function shared. A cost ``c`` becomes the log potential ``-c``, and a cost of ``UB`` or more a
hard zero. (For toulbar2 ``UB`` also limits the *sum* of all costs; a factor graph cannot say that.)

Costs are integers, so a model is written as ``round(-multiplier * theta)``; a table with positive log potentials is
first lowered by its largest. The name tells: ``beliefs_multiplier_1000000_offset_0.5`` says that costs are millionths
and that 0.5 was taken away in all. The reader undoes both, hence log potentials come back within ``0.5 / multiplier``.
"""

from __future__ import annotations

import math
import re

import numpy as np

from beliefs.errors import FormatError, ModelError
from beliefs.io.limits import MAX_CARD, max_cells
from beliefs.io.plain import plain_graph
from beliefs.io.scanner import Scanner, as_bytes
from beliefs.io.wcsp_functions import KEYWORDS, Table, unsupported
from beliefs.model.graph import FactorGraph, Model
from beliefs.model.layout import Layout
from beliefs.typing import Floats

__all__ = ["MULTIPLIER", "dumps", "loads"]

MULTIPLIER = 1_000_000
_OURS = re.compile(r"beliefs_multiplier_([1-9][0-9]{0,15})_offset_([0-9.e+-]{1,30})")


def loads(data: str | bytes) -> FactorGraph:
    """Return the factor graph of a wcsp text."""
    return _Reader(Scanner(as_bytes(data))).graph()


class _Reader:
    """Reads one cost function after the other; ``tables`` are distinct, ``which`` says each factor's."""

    def __init__(self, scan: Scanner) -> None:
        self.scan = scan
        self.name = scan.word("the name of the problem")
        self.n_vars = scan.count("the number of variables", "domain sizes")
        scan.integer("the largest domain size")
        self.n_functions = scan.count("the number of cost functions", "cost functions")
        start = scan.next_token()
        self.top = float(scan.numbers(1, "the upper bound")[0])
        if not 0 <= self.top < math.inf:
            raise scan.unexpected("a finite, non-negative upper bound", start)
        start = scan.next_token()
        self.card = np.abs(scan.integers(self.n_vars, "the domain size of variable {}"))
        wrong = (self.card < 1) | (self.card > MAX_CARD)
        if wrong.any():
            scan.at = start
            v = int(np.argmax(wrong))
            raise scan.unexpected(f"a domain size of 1 to {MAX_CARD} for variable {v}", scan.next_token(v))
        self.scopes: list[list[int]] = []
        self.which: list[int] = []
        self.tables: list[Floats] = []
        self.shared: list[tuple[int, list[int]]] = []
        self.n_cells = 0

    def graph(self) -> FactorGraph:
        for f in range(self.n_functions):
            self._function(f)
        self.scan.end()
        ours = _OURS.fullmatch(self.name)
        multiplier, offset = (float(ours[1]), _number(ours[2])) if ours else (1.0, 0.0)
        if offset:
            self._add([], np.zeros(1))
        costs = np.concatenate([*self.tables, np.zeros(0)])
        theta = np.where(costs >= self.top, -np.inf, 0.0 - costs / multiplier)
        if offset:
            theta[-1] = offset
        sizes = np.array([table.size for table in self.tables], np.int64)
        starts = (np.cumsum(sizes) - sizes)[self.which] if self.which else None
        flat = np.array([v for scope in self.scopes for v in scope], np.int64)
        layout = Layout.build(self.card, np.cumsum([0, *map(len, self.scopes)]), flat, starts)
        return FactorGraph.build(layout, theta)

    def _add(self, scope: list[int], costs: Floats) -> None:
        self.scopes.append(scope)
        self.which.append(len(self.tables))
        self.tables.append(costs)

    def _reserve(self, size: int, f: int, start: int) -> None:
        self.n_cells += size
        if self.n_cells > max_cells():
            raise self.scan.error(f"cost function {f} is too large to fill ({max_cells()} cells at most)", start)

    def _function(self, f: int) -> None:
        scan = self.scan
        start = scan.next_token()
        arity = int(scan.integers(1, f"the arity of cost function {f}")[0])
        if abs(arity) > self.n_vars:
            raise scan.unexpected(f"an arity of at most {self.n_vars} for cost function {f}", start)
        scope = self._scope(f, abs(arity))
        place = scan.next_token()
        default = float(scan.numbers(1, f"the default cost of cost function {f}")[0])
        if default == -1:
            self._named(f, scope, start)
            return
        self._check_costs(np.array([default]), place, 1)
        place = scan.next_token()
        count = int(scan.integers(1, f"the number of tuples of cost function {f}")[0])
        if count < 0:
            self._reuse(f, scope, -count, place)
            return
        size = math.prod(self.card[scope].tolist())
        self._reserve(size, f, start)
        if arity < 0:
            self.shared.append((len(self.tables), self.card[scope].tolist()))
        self._add(scope, self._tuples(f, scope, np.full(size, default), count))

    def _scope(self, f: int, arity: int) -> list[int]:
        scan = self.scan
        begin = scan.at
        scope: list[int] = scan.integers(arity, f"a variable in the scope of cost function {f}").tolist()
        seen: set[int] = set()
        for k, v in enumerate(scope):
            seen.add(v)
            if not 0 <= v < self.n_vars or len(seen) <= k:
                scan.at = begin
                expected = f"a new variable 0..{self.n_vars - 1} in the scope of cost function {f}"
                raise scan.unexpected(expected, scan.next_token(k))
        return scope

    def _tuples(self, f: int, scope: list[int], costs: Floats, count: int) -> Floats:
        """Fill in ``count`` tuples ``states.. cost``."""
        scan = self.scan
        begin, width = scan.at, len(scope) + 1
        numbers = scan.numbers(count * width, f"{count} tuples of cost function {f}: number {{}}")
        rows = numbers.reshape(count, width)
        card = self.card[scope]
        states = rows[:, :-1]
        wrong = ~((states >= 0) & (states < card) & (states == np.floor(states)))
        if wrong.any():
            row, a = divmod(int(np.argmax(wrong)), len(scope))
            scan.at = begin
            raise scan.unexpected(f"a state of variable {scope[a]}, below {card[a]}", scan.next_token(row * width + a))
        end, scan.at = scan.at, begin
        self._check_costs(rows[:, -1], begin, width)
        scan.at = end
        strides = np.cumprod([1, *card[:0:-1].tolist()])[::-1][: len(scope)]
        costs[states.astype(np.int64) @ strides if scope else np.zeros(count, np.int64)] = rows[:, -1]
        return costs

    def _check_costs(self, costs: Floats, begin: int, width: int) -> None:
        """Costs are non-negative and finite; ``begin`` is where the first row of ``width`` numbers starts."""
        wrong = ~((costs >= 0) & (costs < np.inf))
        if wrong.any():
            self.scan.at = begin
            place = self.scan.next_token(int(np.argmax(wrong)) * width + width - 1)
            raise self.scan.unexpected("a finite, non-negative cost", place)

    def _reuse(self, f: int, scope: list[int], number: int, place: int) -> None:
        if number > len(self.shared):
            raise self.scan.unexpected(f"one of {len(self.shared)} shared cost functions", place)
        which, shape = self.shared[number - 1]
        if self.card[scope].tolist() != shape:
            raise self.scan.error(f"cost function {f} and the shared one differ in their domain sizes", place)
        self.scopes.append(scope)
        self.which.append(which)

    def _named(self, f: int, scope: list[int], start: int) -> None:
        place = self.scan.next_token()
        keyword = self.scan.word(f"the keyword of cost function {f}")
        if keyword not in KEYWORDS:
            raise self.scan.error(unsupported(keyword), place)
        try:
            parts = KEYWORDS[keyword](self.scan, Table(scope, self.card[scope].tolist(), self.top))
        except ModelError as error:
            raise self.scan.error(f"cost function {f}: {error}", place) from None
        for part_scope, costs in parts:
            self._reserve(costs.size, f, start)
            self._add(part_scope, costs)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


def dumps(model: Model, *, multiplier: int = MULTIPLIER) -> str:
    """Return the wcsp text of a model, costs in units of ``1 / multiplier``; see the module."""
    graph = plain_graph(model)
    layout = graph.layout
    top_of = np.maximum.reduceat(graph.theta, layout.cell_ptr) if layout.n_factors else np.zeros(0)
    lowered = np.maximum(top_of, 0.0)
    factor = np.repeat(np.arange(layout.n_factors), layout.factor_size)
    costs = np.rint((lowered[factor] - graph.theta) * multiplier)
    hard = np.isinf(costs)
    largest = np.maximum.reduceat(np.where(hard, 0.0, costs), layout.cell_ptr) if layout.n_factors else np.zeros(1)
    top = 1.0 + largest.sum()
    if not top < 2**53:
        raise FormatError(f"costs of {top:.3g} are too large for integers; use a multiplier below {multiplier}")
    costs = np.where(hard, top, costs).astype(np.int64)
    name = f"beliefs_multiplier_{multiplier}_offset_{float(lowered.sum())!r}"
    lines = [f"{name} {layout.n_vars} {layout.card.max(initial=0)} {layout.n_factors} {int(top)}"]
    lines.append(" ".join(map(str, layout.card.tolist())))
    for f in range(layout.n_factors):
        lines += _lines(layout.scope(f).tolist(), layout.shape(f), costs[layout.cells(f)])
    return "\n".join(lines) + "\n"


def _lines(scope: list[int], shape: tuple[int, ...], costs: np.ndarray) -> list[str]:
    """Return a cost function with its most common cost as the default."""
    values, counts = np.unique(costs, return_counts=True)
    default = values[np.argmax(counts)]
    listed = np.flatnonzero(costs != default)
    strides = np.cumprod([1, *shape[:0:-1]])[::-1][: len(shape)]
    states = listed[:, None] // strides % np.array(shape, np.int64)
    rows = np.column_stack([states, costs[listed]]).tolist()
    head = " ".join(map(str, [len(scope), *scope, default, len(rows)]))
    return [head, *(" ".join(map(str, row)) for row in rows)]
