r"""Trees from rows: Chow-Liu, its penalised forest, tree-augmented naive Bayes.

The tree that gives the rows the largest likelihood is the spanning tree of largest total mutual information [chow1968]:

.. math:: \hat I(u; v) = \sum_{x, y} \hat p(x, y) \log \frac{\hat p(x, y)}{\hat p(x) \hat p(y)}

========================  ============================================================================================
``chow_liu``              the maximum spanning tree of :math:`\hat I`, away from the first variable (``root``)
``forest``                of :math:`N \hat I(u; v) - \tfrac12 \log N (K_u - 1)(K_v - 1)`, arcs that lower it left out:
                          the forest of largest bic
``tan``                   ``target`` is a parent of all, and a tree over the others of :math:`\hat I(u; v \mid target)`
                          [friedman1997]
``naive_bayes``           ``target`` is the parent of all
========================  ============================================================================================

Joint counts of all pairs are one product of indicator matrices, a block of rows at a time. Where cells are missing the
counts are expected ones, by EM (:mod:`beliefs.learning.networks.tree_em`; ``tan``:
:mod:`beliefs.learning.networks.tan_em`). Ties go to the smallest index. Cost: rows x states x states, by BLAS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.base import written
from beliefs.inference.text import parse
from beliefs.learning.networks.structure import Structure
from beliefs.learning.networks.tan_em import Classes, pairs_given_target
from beliefs.learning.networks.tree_em import pairs_by_em
from beliefs.model.naming import Naming
from beliefs.model.rows.table import RowTable
from beliefs.options import shown
from beliefs.typing import Floats, Ints

__all__ = ["SEARCHES", "Search", "TreeFound", "check_target", "mutual_information", "search_of", "spanning_tree"]

_BLOCK = 4096  # rows that are indicators at a time
_PIECE = 8 * _BLOCK  # rows that are sorted by the state of a target at a time


@dataclass(frozen=True, eq=False)
class TreeFound:
    """A structure, and the sum of the mutual informations along its arcs, in nats."""

    structure: Structure
    weight: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Search:
    """A search for a structure, by its text."""

    name: ClassVar[str]
    needs_target: ClassVar[bool] = False

    def of(self, naming: Naming, table: RowTable, target: int | None, root: int) -> TreeFound:
        """Return the best structure of its kind."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return written(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class ChowLiu(Search):
    """The tree of largest likelihood."""

    name: ClassVar[str] = "chow_liu"

    def of(self, naming: Naming, table: RowTable, target: int | None, root: int) -> TreeFound:
        """Return the maximum spanning tree of mutual information."""
        information = _information(naming, table, lambda found: spanning_tree(found, root))
        return _tree(naming, information, spanning_tree(information, root))


@dataclass(frozen=True, kw_only=True, repr=False)
class Forest(Search):
    """The forest of largest bic."""

    name: ClassVar[str] = "forest"

    def of(self, naming: Naming, table: RowTable, target: int | None, root: int) -> TreeFound:
        """Return the spanning tree of penalised mutual information without arcs that do not pay."""
        free = (table.card - 1).astype(np.float64)

        def best(information: Floats) -> Ints:
            gain = table.total * information - 0.5 * np.log(table.total) * np.outer(free, free)
            parent = spanning_tree(gain, root)
            for v, u in enumerate(parent):
                if u >= 0 and not gain[u, v] > 0:
                    parent[v] = -1
            return parent

        information = _information(naming, table, best)
        return _tree(naming, information, best(information))


@dataclass(frozen=True, kw_only=True, repr=False)
class TAN(Search):
    """Naive Bayes with a tree among the features."""

    name: ClassVar[str] = "tan"
    needs_target: ClassVar[bool] = True

    def of(self, naming: Naming, table: RowTable, target: int | None, root: int) -> TreeFound:
        """Return the maximum spanning tree of mutual information given the target, below the target."""
        assert target is not None
        others = np.array([v for v in range(table.card.size) if v != target], np.int64)
        card = table.card[others]
        at = int(np.flatnonzero(others == root)[0]) if root in others else 0

        def best(pairs: list[Floats]) -> Ints:
            return spanning_tree(_given_target(pairs, card), at)

        pairs = _pairs_below(table, target, others, best)
        information = _given_target(pairs, card)
        above = spanning_tree(information, at) if others.size else np.zeros(0, np.int64)
        parents: list[list[int]] = [[] for _ in range(table.card.size)]
        for k, v in enumerate(others):
            parents[v] = [target, *([int(others[above[k]])] if above[k] >= 0 else [])]
        weight = float(sum(information[above[k], k] for k in range(others.size) if above[k] >= 0))
        return TreeFound(Structure.of_parents(naming, parents), weight)


@dataclass(frozen=True, kw_only=True, repr=False)
class NaiveBayes(Search):
    """The target is the parent of all."""

    name: ClassVar[str] = "naive_bayes"
    needs_target: ClassVar[bool] = True

    def of(self, naming: Naming, table: RowTable, target: int | None, root: int) -> TreeFound:
        """Return the star."""
        assert target is not None
        parents = [[] if v == target else [target] for v in range(table.card.size)]
        return TreeFound(Structure.of_parents(naming, parents), 0.0)


SEARCHES: tuple[type[Search], ...] = (ChowLiu, Forest, TAN, NaiveBayes)
"""The searches for structures, by their texts."""


def search_of(structure: Any) -> Search | None:
    """Return the search that a structure names, or None if it is none."""
    if isinstance(structure, Search):
        return structure
    return parse(structure, SEARCHES, "structure") if isinstance(structure, str) else None


def _tree(naming: Naming, information: Floats, parent: Ints) -> TreeFound:
    arcs = [(int(u), v) for v, u in enumerate(parent) if u >= 0]
    structure = Structure.of_parents(naming, [[int(u)] if u >= 0 else [] for u in parent])
    return TreeFound(structure, float(sum(information[u, v] for u, v in arcs)))


def spanning_tree(weights: Floats, root: int) -> Ints:
    """Return the parents in the maximum spanning tree away from the root (Prim's algorithm), -1 for the root.

    Examples
    --------
    >>> spanning_tree(np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0], [1.0, 2.0, 0.0]]), 0).tolist()
    [-1, 0, 1]
    """
    n = len(weights)
    parent, best = np.full(n, -1, np.int64), np.full(n, -np.inf)
    waiting = np.ones(n, np.bool_)
    v = root
    for _ in range(n - 1):
        waiting[v] = False
        closer = waiting & (weights[v] > best)
        parent[closer], best[closer] = v, weights[v][closer]
        v = int(np.argmax(np.where(waiting, best, -np.inf)))
        if not waiting[v]:  # all that wait are at -inf
            v = int(np.argmax(waiting))
    return parent


def _information(naming: Naming, table: RowTable, best: Callable[[Floats], Ints]) -> Floats:
    """Return mutual information, of expected counts where cells are missing; ``best`` is the tree for it."""
    if not table.n_missing.any():
        return mutual_information(table)
    complete = table.take(~table.incomplete())
    pairs = pairs_by_em(
        naming, table, _pair_counts(complete), _pair_counts(table), lambda counts: best(_of_pairs(counts, table.card))
    )
    return _of_pairs(pairs, table.card)


def _pairs_below(table: RowTable, target: int, others: Ints, best: Callable[[list[Floats]], Ints]) -> list[Floats]:
    """Return counts of pairs of features for each state of the target, expected ones where cells are missing."""
    states = range(int(table.card[target]))
    seen, complete = ([np.zeros(2 * (int(table.card[others].sum()),)) for _ in states] for _ in range(2))
    holes = bool(table.n_missing.any())
    for begin in range(0, table.n_rows, _PIECE):
        piece = table.take(slice(begin, begin + _PIECE))
        features, own = piece.columns(others), piece.codes[target]
        for state in states:
            part = features.take(own == state)
            seen[state] += _pair_counts(part)
            if holes:
                complete[state] += _pair_counts(part.take(~part.incomplete()))
    if not holes or not others.size:
        return seen
    features, own = table.columns(others), table.codes[target]
    lacking = features.incomplete()
    partial = [features.take((own == state) & lacking) for state in states]
    return pairs_given_target(Classes(complete, seen, partial, features.take(own == table.missing)), best)[0]


def _given_target(pairs: list[Floats], card: Ints) -> Floats:
    """Return the mutual information of every pair of columns given the target, from counts for each of its states."""
    if not card.size:
        return np.zeros((0, 0))
    weights = np.array([counts[: card[0], : card[0]].sum() for counts in pairs])
    parts = [weight * _of_pairs(counts, card) for weight, counts in zip(weights, pairs, strict=True)]
    found: Floats = np.sum(parts, axis=0) / max(float(weights.sum()), 1e-300)
    return found


def mutual_information(table: RowTable) -> Floats:
    """Return the mutual information of every pair of columns, ``(n, n)`` in nats, from pairs that are both seen."""
    return _of_pairs(_pair_counts(table), table.card)


def _of_pairs(counts: Floats, card: Ints) -> Floats:
    """Return the mutual information of every pair of columns from counts of pairs of states."""
    from scipy.sparse import csr_array

    n = card.size
    starts = np.concatenate([[0], np.cumsum(card)])
    owner = np.repeat(np.arange(n), card)
    block = csr_array((np.ones(owner.size), (owner, np.arange(owner.size))), shape=(n, int(starts[-1])))
    half = (block @ counts).T  # (states, n): counts of a state where the other column is seen
    pairs = block @ half  # rows in which both are seen
    joint = block @ (block @ _x_log_x(counts)).T
    single = block @ _x_log_x(half)
    total = np.maximum(pairs, 1e-300)
    information = (joint - single - single.T + _x_log_x(pairs)) / total
    np.fill_diagonal(information, 0.0)
    found: Floats = np.maximum(0.5 * (information + information.T), 0.0)
    return found


def _pair_counts(table: RowTable) -> Floats:
    """Return how often each pair of states occurs, ``(n_states, n_states)``: a product of indicators."""
    card, n_rows = table.card, table.n_rows
    whole = table.weights is None
    kind: Any = np.float32 if whole else np.float64  # whole numbers up to 2**24 are exact in single precision
    binary = bool((card <= 2).all()) and not table.n_missing.any()
    n_states = int(card.size if binary else card.sum())
    total = np.zeros((n_states, n_states))
    states = np.zeros(n_states)
    make = _ones if binary else _indicators
    for begin in range(0, n_rows, _BLOCK):
        rows = slice(begin, min(begin + _BLOCK, n_rows))
        part = make(table, rows, kind)
        weighted = part if table.weights is None else part * table.weights[rows]
        total += weighted @ part.T
        states += weighted.sum(axis=1)
    if not binary:
        return total
    there = (np.arange(2) < card[:, None]).ravel()  # a column may have one state
    full = _with_zeros(total, states, table.total)
    return full if there.all() else full[np.ix_(there, there)]


def _ones(table: RowTable, rows: slice, kind: Any) -> np.ndarray:
    """Return binary columns as they are."""
    return table.codes[:, rows].astype(kind)


def _indicators(table: RowTable, rows: slice, kind: Any) -> np.ndarray:
    """Return the states of all columns as indicators ``(n_states, rows)``."""
    parts = [column[rows] == np.arange(k)[:, None] for column, k in zip(table.codes, table.card, strict=True)]
    return np.concatenate(parts).astype(kind)


def _with_zeros(ones: Floats, states: Floats, total: float) -> Floats:
    """Return the counts of all pairs of states of binary columns from those of their ones."""
    n = len(ones)
    full = np.empty((n, 2, n, 2))
    full[:, 1, :, 1] = ones
    full[:, 1, :, 0] = states[:, None] - ones
    full[:, 0, :, 1] = states[None, :] - ones
    full[:, 0, :, 0] = total - states[:, None] - states[None, :] + ones
    return full.reshape(2 * n, 2 * n)


def _x_log_x(values: Floats) -> Floats:
    """Return x log x, 0 at 0."""
    return values * np.log(np.where(values > 0.0, values, 1.0))


def check_target(search: Search, naming: Naming, target: Any) -> int | None:
    """Return the index of the target variable; refuse a search that needs one without."""
    if target is None:
        if search.needs_target:
            raise ModelError(f"structure={search.name!r} needs target, the variable to be predicted")
        return None
    if not isinstance(target, str | int | np.integer):
        raise ModelError(f"target must be a variable, found {shown(target)}")
    return naming.index(target)
