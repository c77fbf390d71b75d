"""Cost functions that a wcsp file gives by name instead of by table.

============================================  ==========================================================================
keyword and parameters                        cost
============================================  ==========================================================================
``>= > <= < =``  cst delta                    of x against y + cst: the gap up to ``delta``, beyond it UB
``disj`` cstx csty penalty                    penalty unless x >= y + csty or y >= x + cstx
``sdisj`` cstx csty xinf yinf costx costy     disj, hard, for x < xinf and y < yinf; costx at x = xinf, costy at yinf
``salldiff`` var|dec|decbi cost               cost a variable to change (var) or a pair that is equal (dec, decbi)
``sgcc`` var|dec cost n (state low high)..     cost a variable to change (var), or a state too few or too many (dec)
``knapsack`` capacity weights..               UB unless the weighted sum of 0/1 variables reaches the capacity
``clique`` 1 (count states..)..               UB if two variables take a state of their lists
============================================  ==========================================================================

Each becomes one table or, where the costs are those of pairs, one small table a pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from beliefs.errors import ModelError
from beliefs.io.scanner import Scanner
from beliefs.typing import Floats, Ints

__all__ = ["KEYWORDS", "Part", "Table", "unsupported"]

Part = tuple[list[int], Floats]
_MOST = 2**20  # cells of a table made from a rule
_MOST_PAIRS = 2**17  # tables made from one rule on pairs


@dataclass(frozen=True)
class Table:
    """The scope of a cost function, its domain sizes, and the upper bound of the problem."""

    scope: list[int]
    shape: list[int]
    top: float

    def grids(self) -> list[Ints]:
        """Return each variable's state for every cell, flat; the last varies fastest."""
        size = math.prod(self.shape)
        if size > _MOST:
            raise ModelError(f"its table would have {size} cells, more than {_MOST}")
        cell, grids = np.arange(size), []
        for k in reversed(self.shape):
            grids.append(cell % k)
            cell = cell // k
        return grids[::-1]

    def pair(self) -> tuple[Ints, Ints]:
        """Return the two grids of a binary function."""
        if len(self.scope) != 2:
            raise ModelError(f"its keyword needs 2 variables, found {len(self.scope)}")
        x, y = self.grids()
        return x, y


def unsupported(keyword: str) -> str:
    """Return the message for a keyword that is not read."""
    return f"cost functions of kind {keyword[:40]!r} are not supported (only tables and {', '.join(KEYWORDS)})"


def _integers(scan: Scanner, keyword: str, count: int) -> list[int]:
    values: list[int] = scan.integers(count, f"{count} integers after {keyword}").tolist()
    return values


def _comparison(keyword: str, gap: Callable[[Ints, Ints], Ints]) -> Callable[[Scanner, Table], list[Part]]:
    """Return the reader of a comparison whose violation is ``gap(x, y + cst)``."""

    def read(scan: Scanner, table: Table) -> list[Part]:
        constant, delta = _integers(scan, keyword, 2)
        x, y = table.pair()
        violation = np.maximum(gap(x, y + constant), 0)
        return [(table.scope, np.where(violation <= delta, violation.astype(float), table.top * (violation > 0)))]

    return read


def _disjunction(scan: Scanner, table: Table) -> list[Part]:
    cst_x, cst_y, penalty = _integers(scan, "disj", 3)
    x, y = table.pair()
    free = (x >= y + cst_y) | (y >= x + cst_x)
    return [(table.scope, np.where(free, 0.0, float(_cost(penalty))))]


def _special_disjunction(scan: Scanner, table: Table) -> list[Part]:
    cst_x, cst_y, end_x, end_y, cost_x, cost_y = _integers(scan, "sdisj", 6)
    x, y = table.pair()
    apart = (x >= y + cst_y) | (y >= x + cst_x) | (x >= end_x) | (y >= end_y)
    legal = apart & (x <= end_x) & (y <= end_y)
    costs = (x == end_x) * float(_cost(cost_x)) + (y == end_y) * float(_cost(cost_y))
    return [(table.scope, np.where(legal, costs, table.top))]


def _all_different(scan: Scanner, table: Table) -> list[Part]:
    start = scan.next_token()
    semantics = scan.word("var, dec or decbi")
    if semantics not in ("var", "dec", "decbi"):
        raise scan.unexpected("var, dec or decbi", start)
    cost = float(_cost(_integers(scan, "salldiff", 1)[0]))
    if semantics != "var" or cost >= table.top:  # hard: all different is pairwise different
        return _equal_pairs(table, cost)
    values = np.sort(np.array(table.grids()), axis=0)
    repeats = (np.diff(values, axis=0) == 0).sum(axis=0)
    return [(table.scope, repeats * cost)]


def _cardinality(scan: Scanner, table: Table) -> list[Part]:
    start = scan.next_token()
    semantics = scan.word("var or dec")
    if semantics not in ("var", "dec"):
        raise scan.unexpected("var or dec", start)
    cost = float(_cost(_integers(scan, "sgcc", 1)[0]))
    limits = scan.integers(3 * scan.count("the number of limited states", "limits"), "state, low, high").reshape(-1, 3)
    state, low, high = limits.T
    if (low < 0).any() or (low > high).any() or sum(low.tolist()) > len(table.scope):
        raise ModelError("the limits of sgcc cannot be met by so many variables")
    if len(set(state.tolist())) < state.size or state.max(initial=0) >= max(table.shape, default=1):
        raise ModelError("sgcc needs different states, each of a variable's")
    grids = table.grids()
    few, many = np.zeros(math.prod(table.shape)), np.zeros(math.prod(table.shape))
    for x, least, most in limits.tolist():
        count = np.zeros(few.size, np.int64)
        for grid in grids:
            count += grid == x
        few += np.maximum(least - count, 0)
        many += np.maximum(count - most, 0)
    # a change moves a variable from a state that has too many to one that has too few
    return [(table.scope, cost * (np.maximum(few, many) if semantics == "var" else few + many))]


def _equal_pairs(table: Table, cost: float) -> list[Part]:
    _check_pairs(table)
    parts: list[Part] = []
    for (u, k), (v, m) in combinations(zip(table.scope, table.shape), 2):
        x, y = Table([u, v], [k, m], table.top).grids()
        parts.append(([u, v], np.where(x == y, cost, 0.0)))
    return parts


def _check_pairs(table: Table) -> None:
    if math.comb(len(table.scope), 2) > _MOST_PAIRS:
        raise ModelError(f"it would become more than {_MOST_PAIRS} tables, one a pair of variables")


def _knapsack(scan: Scanner, table: Table) -> list[Part]:
    capacity, *weights = _integers(scan, "knapsack", 1 + len(table.scope))
    if any(k > 2 for k in table.shape):
        raise ModelError("knapsack needs variables with states 0 and 1")
    if sum(map(abs, weights)) >= 2**62:
        raise ModelError("the weights of knapsack are too large")
    total = sum((w * grid for w, grid in zip(weights, table.grids())), start=np.zeros(1, np.int64))
    return [(table.scope, np.where(total >= capacity, 0.0, table.top))]


def _clique(scan: Scanner, table: Table) -> list[Part]:
    start = scan.next_token()
    if scan.integer("1, the most variables of a clique") != 1:
        raise scan.unexpected("1, the most variables of a clique", start)
    _check_pairs(table)
    listed: list[Floats] = []
    for v, k in zip(table.scope, table.shape):
        inside = np.zeros(k)
        for _ in range(scan.count(f"the number of listed states of variable {v}", "states")):
            start = scan.next_token()
            state = scan.integer(f"a state of variable {v}")
            if state >= k:
                raise scan.unexpected(f"a state of variable {v}, below {k}", start)
            inside[state] = 1.0
        listed.append(inside)
    pairs = combinations(zip(table.scope, listed), 2)
    return [([u, v], table.top * np.outer(first, second).ravel()) for (u, first), (v, second) in pairs]


def _cost(value: int) -> int:
    if value < 0:
        raise ModelError(f"costs must be non-negative, found {value}")
    return value


KEYWORDS: dict[str, Callable[[Scanner, Table], list[Part]]] = {
    ">=": _comparison(">=", lambda x, y: y - x),
    ">": _comparison(">", lambda x, y: y + 1 - x),
    "<=": _comparison("<=", lambda x, y: x - y),
    "<": _comparison("<", lambda x, y: x + 1 - y),
    "=": _comparison("=", lambda x, y: np.abs(x - y)),
    "disj": _disjunction,
    "sdisj": _special_disjunction,
    "salldiff": _all_different,
    "sgcc": _cardinality,
    "knapsack": _knapsack,
    "clique": _clique,
}
