"""UAI model files (``.uai``), and their logarithmic twin (``.LG``).

::

    MARKOV | BAYES
    n  card_1 .. card_n
    m  then m scopes  k v_1 .. v_k
       then m tables  size value_1 .. value_size     the last variable of the scope varies fastest

Tokens are separated by any white space; ``/* ... */`` is a comment. A table holds potentials: non-negative and
finite. In a ``.LG`` file it holds natural logarithms: finite or ``-inf``. A file always reads as a FactorGraph, because
many ``BAYES`` files have columns that do not sum to one; the header word is kept for writing. Cost: one pass over the
bytes, in compiled code.
"""

from __future__ import annotations

import numpy as np

from beliefs.errors import FormatError
from beliefs.io.limits import MAX_CARD, MOST_ENTRIES
from beliefs.io.plain import number_texts, plain_graph, potentials
from beliefs.io.scanner import Scanner, without_comments
from beliefs.kernels.text.tokens import ENDED, READ, table_sizes
from beliefs.model.factor import LARGEST_LOG
from beliefs.model.graph import FactorGraph, Model
from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

__all__ = ["dumps", "loads"]


def loads(data: str | bytes, *, log: bool = False) -> FactorGraph:
    """Return the factor graph of a UAI text; ``log=True`` reads ``.LG``.

    Examples
    --------
    >>> loads("MARKOV 2  2 3  1  2 0 1  6  1 2 3 4 5 6")
    FactorGraph(2 variables, 1 factors, 6 cells)
    """
    scan = Scanner(without_comments(data))
    kind = _kind(scan)
    card = cardinalities(scan)
    n_factors = scan.count("the number of factors", "scopes")
    ptr, scope = scan.scopes(n_factors, card.size)
    sizes = np.empty(n_factors, np.int64)
    large = table_sizes(card, ptr, scope, (scan.left + 1) // 2, sizes)
    if large >= 0:
        arity = ptr[large + 1] - ptr[large]
        told = f"factor {large} over {arity} variables needs more entries than the file has room for"
        raise scan.error(told, ended=table_sizes(card, ptr, scope, MOST_ENTRIES, sizes) < 0)
    theta = tables(scan, sizes, log)
    scan.end()
    return FactorGraph.build(Layout.build(card, ptr, scope), theta, kind=kind)


def _kind(scan: Scanner) -> str:
    start = scan.next_token()
    kind = scan.word("MARKOV or BAYES").upper()
    if kind not in ("MARKOV", "BAYES"):
        raise scan.unexpected("MARKOV or BAYES", start)
    return kind


def cardinalities(scan: Scanner) -> Ints:
    """Read ``n card_1 .. card_n``."""
    n_vars = scan.count("the number of variables", "cardinalities")
    start = scan.next_token()
    card = scan.integers(n_vars, "the cardinality of variable {}")
    wrong = (card < 1) | (card > MAX_CARD)
    if wrong.any():
        v = int(np.argmax(wrong))
        scan.at = start
        raise scan.error(f"variable {v} needs 1 to {MAX_CARD} states, found {card[v]}", scan.next_token(v))
    return card


def tables(scan: Scanner, sizes: Ints, log: bool) -> Floats:
    """Read one table ``size value_1 .. value_size`` a factor and return all log potentials."""
    begin = scan.at
    places = np.cumsum(sizes) - sizes + np.arange(sizes.size)  # where sizes stand among the numbers
    numbers, state = scan.some_numbers(int(sizes.sum()) + sizes.size)
    found = numbers[places[places < numbers.size]]
    wrong = found != sizes[: found.size]
    failed, scan.at = scan.at, begin  # the first thing wrong is the one to tell, so sizes come before what follows
    if wrong.any():
        f = int(np.argmax(wrong))
        raise scan.unexpected(f"{sizes[f]} as the table size of factor {f}", scan.next_token(int(places[f])))
    is_entry = np.ones(numbers.size, np.bool_)
    is_entry[places[: found.size]] = False
    _check_entries(scan, numbers, is_entry, places, log)
    scan.at = failed
    if state != READ:
        raise _interrupted(scan, numbers.size, places, sizes, state)
    entries: Floats = numbers[is_entry]
    if log:
        return entries
    with np.errstate(divide="ignore"):
        return np.log(entries)


def _check_entries(scan: Scanner, numbers: Floats, is_entry: np.ndarray, places: Ints, log: bool) -> None:
    legal = (numbers >= 0) & (numbers < np.inf)  # False for nan, as below
    if log:
        legal = (np.abs(numbers) <= LARGEST_LOG) | (numbers == -np.inf)
    if legal.all():
        return
    wrong = ~legal & is_entry
    if wrong.any():
        index = int(np.argmax(wrong))
        f = int(np.searchsorted(places, index, side="right")) - 1
        kind = f"a finite logarithm (up to {LARGEST_LOG:g}) or -inf" if log else "a finite, non-negative number"
        raise scan.unexpected(f"{kind} in the table of factor {f}", scan.next_token(index))


def _interrupted(scan: Scanner, n_read: int, places: Ints, sizes: Ints, state: int) -> FormatError:
    f = int(np.searchsorted(places, n_read, side="right")) - 1
    if n_read == places[f]:
        return scan.unexpected(f"the table size of factor {f}")
    have = n_read - int(places[f]) - 1
    if state == ENDED:
        told = f"the table of factor {f} needs {sizes[f]} entries, found {have} before the file ends"
        return scan.error(told, ended=True)
    return scan.unexpected(f"a number as entry {have} of the table of factor {f}")


def dumps(model: Model, *, log: bool = False) -> str:
    """Return the UAI text of a model; ``log=True`` writes ``.LG``, which keeps every log potential bit for bit.

    Without ``log``, a log potential that under- or overflows as a potential is a FormatError that says so.
    """
    graph = plain_graph(model)
    layout = graph.layout
    entries = number_texts(graph.theta if log else potentials(graph, model))
    scopes = layout.scope_vars.tolist()
    starts, ptr, sizes = layout.cell_ptr.tolist(), layout.scope_ptr.tolist(), layout.factor_size.tolist()
    lines = [graph.kind, str(layout.n_vars), " ".join(map(str, layout.card.tolist())), str(layout.n_factors)]
    lines += [" ".join(map(str, [b - a, *scopes[a:b]])) for a, b in zip(ptr, ptr[1:])]
    for start, size in zip(starts, sizes):
        lines += ["", str(size), " ".join(entries[start : start + size])]
    return "\n".join(lines) + "\n"
