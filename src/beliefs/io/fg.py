"""libDAI factor graphs (``.fg``).

::

    number of factors
    then for each:  arity   labels   cardinalities   number of entries   then a line each:  index value

All are numbers between white space; a line that starts with ``#`` is a comment. The **first** variable varies fastest
(the opposite of UAI); entries that are not listed are zero. Labels are numbers and may have gaps: variables come in the
order of their labels and are called ``x`` and the label, so label 7 is ``x7`` and, without gaps, has index 7.
A variable of no factor cannot be written as such and gets a factor of ones.
"""

from __future__ import annotations

import re

import numpy as np

from beliefs.errors import FormatError
from beliefs.io.limits import MAX_CARD, MOST_ENTRIES, max_cells
from beliefs.io.plain import number_texts, plain_graph, potentials
from beliefs.io.scanner import Scanner, as_bytes
from beliefs.kernels.text.fg import fg_factors, first_fastest
from beliefs.kernels.text.tokens import BROKEN, table_sizes
from beliefs.model.graph import FactorGraph, Model
from beliefs.model.layout import Layout
from beliefs.model.naming import Naming
from beliefs.typing import Bools, Floats, Ints

__all__ = ["dumps", "loads"]

_COMMENT = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_MAX_LABEL = 2**53  # beyond it float64 skips integers


def loads(data: str | bytes) -> FactorGraph:
    """Return the factor graph of a libDAI text."""
    return _Reader(Scanner(_COMMENT.sub(b"", as_bytes(data)))).graph()


class _Reader:
    """The numbers of a file, and where its factors start among them."""

    def __init__(self, scan: Scanner) -> None:
        self.scan = scan
        n_factors = scan.count("the number of factors", "factors")
        scan.at = 0
        self.numbers, state = scan.some_numbers(scan.left)
        if state == BROKEN:
            raise scan.unexpected("a number")
        self.at, self.arity, self.n_entries = (np.zeros(n_factors, np.int64) for _ in range(3))
        place, whole = fg_factors(self.numbers, self.at, self.arity, self.n_entries)
        if whole < n_factors:
            if place == self.numbers.size:
                raise self._unexpected(f"the rest of factor {whole}", place)
            count = self.numbers[place]
            later = 0 <= count <= MOST_ENTRIES and count == np.floor(count)  # in a longer text it could be one
            raise self._unexpected(f"a count in factor {whole}", place, ended=bool(later))
        if place < self.numbers.size:
            raise self._unexpected("the end of the file", place)

    def _unexpected(self, expected: str, place: int, ended: bool = False) -> FormatError:
        self.scan.at = 0
        return self.scan.unexpected(expected, self.scan.next_token(place), ended)

    def _require(self, legal: Bools, places: Ints, expected: str) -> None:
        if not legal.all():
            raise self._unexpected(expected, int(places[np.argmin(legal)]))

    def _runs(self, starts: Ints, lengths: Ints) -> Ints:
        """Return ``start, start+1, ..`` for each run, one after the other."""
        return np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())

    def graph(self) -> FactorGraph:
        numbers = self.numbers
        places = self._runs(self.at + 1, self.arity)
        labels, cards = numbers[places], numbers[places + np.repeat(self.arity, self.arity)]
        self._require(
            (labels >= 0) & (labels < _MAX_LABEL) & (labels == np.floor(labels)), places, "a variable's label"
        )
        at_cards = places + np.repeat(self.arity, self.arity)
        self._require((cards >= 1) & (cards <= MAX_CARD) & (cards == np.floor(cards)), at_cards, "a cardinality")
        ids, first, scope = np.unique(labels.astype(np.int64), return_index=True, return_inverse=True)
        card = cards[first].astype(np.int64)
        self._require(cards == card[scope], at_cards, "the same cardinality as before")
        ptr = np.concatenate([[0], np.cumsum(self.arity)])
        self._check_repeats(np.repeat(np.arange(self.arity.size), self.arity), scope, places)
        self._check_sizes(card, ptr, scope)
        layout = Layout.build(card, ptr, scope)
        names = None if np.array_equal(ids, np.arange(ids.size)) else [f"x{label}" for label in ids.tolist()]
        return FactorGraph.build(layout, self._theta(layout), Naming.of(names, None, layout.card))

    def _check_repeats(self, factor: Ints, scope: Ints, places: Ints) -> None:
        order = np.lexsort((scope, factor))
        same = (np.diff(factor[order]) == 0) & (np.diff(scope[order]) == 0)
        if same.any():
            k = int(order[int(np.argmax(same)) + 1])
            raise self._unexpected(f"another label: factor {factor[k]} has this one twice", int(places[k]))

    def _check_sizes(self, card: Ints, ptr: Ints, scope: Ints) -> None:
        sizes = np.empty(ptr.size - 1, np.int64)
        large = table_sizes(card, ptr, scope, max_cells(), sizes)
        if large < 0 and sizes.sum() > max_cells():
            large = int(np.argmax(np.cumsum(sizes) > max_cells()))
        if large >= 0:
            self.scan.at = 0
            place = self.scan.next_token(int(self.at[large]))
            raise self.scan.error(f"factor {large} is too large to fill ({max_cells()} cells at most)", place)

    def _theta(self, layout: Layout) -> Floats:
        places = self._runs(self.at + 2 + 2 * self.arity, 2 * self.n_entries)[::2]
        index, values = self.numbers[places], self.numbers[places + 1]
        factor = np.repeat(np.arange(self.at.size), self.n_entries)
        size = layout.factor_size[factor]
        self._require((index >= 0) & (index < size) & (index == np.floor(index)), places, "an index within the table")
        self._require((values >= 0) & (values < np.inf), places + 1, "a finite, non-negative number")
        order = np.empty(layout.n_cells, np.int64)
        first_fastest(layout.card, layout.scope_ptr, layout.scope_vars, layout.cell_ptr, order)
        cells = order[layout.cell_ptr[factor] + index.astype(np.int64)]
        potential = np.zeros(layout.n_cells)
        potential[cells] = values
        if np.bincount(cells, minlength=1).max() > 1:
            _, first = np.unique(cells, return_index=True)
            again = np.setdiff1d(np.arange(cells.size), first)[0]
            raise self._unexpected("another index: this entry is given twice", int(places[again]))
        with np.errstate(divide="ignore"):
            return np.log(potential)


def dumps(model: Model) -> str:
    """Return the libDAI text of a model; log potentials that under- or overflow as potentials are a FormatError."""
    graph = plain_graph(model)
    entries = potentials(graph, model)
    alone = np.flatnonzero(np.bincount(graph.layout.scope_vars, minlength=graph.n_vars) == 0)
    if alone.size:
        graph = graph.with_factors([((int(v),), np.zeros(int(graph.layout.card[v]))) for v in alone])
        entries = np.concatenate([entries, np.ones(graph.layout.n_cells - entries.size)])
    layout = graph.layout
    order = np.empty(layout.n_cells, np.int64)
    first_fastest(layout.card, layout.scope_ptr, layout.scope_vars, layout.cell_ptr, order)
    texts = number_texts(entries[order])
    labels, card = _labels(graph), layout.card.tolist()
    lines = [str(layout.n_factors)]
    for f in range(layout.n_factors):
        scope, run = layout.scope(f).tolist(), layout.cells(f)
        rows = [f"{k} {text}" for k, text in enumerate(texts[run]) if text != "0"]
        lines += ["", str(len(scope)), " ".join(str(labels[v]) for v in scope)]
        lines += [" ".join(str(card[v]) for v in scope), str(len(rows)), *rows]
    return "\n".join(lines) + "\n"


def _labels(graph: FactorGraph) -> list[int]:
    """Return the labels in the names ``x7`` where all names are such, in ascending order; else the indices."""
    names = graph.naming.names or ()
    found = [int(name[1:]) for name in names if re.fullmatch(r"x(0|[1-9][0-9]{0,14})", name)]
    ascending = len(found) == len(names) == graph.n_vars and all(a < b for a, b in zip(found, found[1:]))
    return found if names and ascending else list(range(graph.n_vars))
