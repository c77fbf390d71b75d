"""Ergo files of the early UAI competitions (``.erg``): reading only.

::

    n  card_1 .. card_n
    then n lists of parents     k u_1 .. u_k
    then n tables               size value_1 .. value_size     the child varies fastest, then the last parent
    then, both or neither,      n names    and  n lists of state labels

``/* ... */`` is a comment. Like a UAI ``BAYES`` file it reads as a FactorGraph, because columns need not sum to one.
"""

from __future__ import annotations

import numpy as np

from beliefs.errors import ModelError
from beliefs.io.limits import MOST_ENTRIES
from beliefs.io.scanner import Scanner, without_comments
from beliefs.io.uai.model import cardinalities, tables
from beliefs.kernels.text.tokens import table_sizes
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.model.naming import Naming
from beliefs.typing import Ints

__all__ = ["loads"]


def loads(data: str | bytes) -> FactorGraph:
    """Return the factor graph of an Ergo text."""
    scan = Scanner(without_comments(data))
    card = cardinalities(scan)
    before = scan.next_token()
    parent_ptr, parents = scan.scopes(card.size, card.size)
    child = np.arange(card.size)
    ptr = parent_ptr + np.arange(card.size + 1)
    scope = np.insert(parents, parent_ptr[1:], child)
    own = np.repeat(child, np.diff(parent_ptr)) == parents
    if own.any():
        raise scan.error(f"variable {parents[np.argmax(own)]} is its own parent", before)
    sizes = np.empty(card.size, np.int64)
    large = table_sizes(card, ptr, scope, (scan.left + 1) // 2, sizes)
    if large >= 0:
        told = f"variable {large} needs a table with more entries than the file has room for"
        raise scan.error(told, ended=table_sizes(card, ptr, scope, MOST_ENTRIES, sizes) < 0)
    theta = tables(scan, sizes, log=False)
    layout = Layout.build(card, ptr, scope)
    return FactorGraph.build(layout, theta, _naming(scan, layout.card), kind="BAYES")


def _naming(scan: Scanner, card: Ints) -> Naming:
    start = scan.next_token()
    if start == len(scan.data):
        return Naming.default(card)
    if int(card.sum()) > scan.left:
        raise scan.error("the file is too short for a name a variable and a label a state", start, ended=True)
    names = [scan.word(f"the name of variable {v}") for v in range(card.size)]
    labels = [[scan.word(f"a state label of {names[v]}") for _ in range(int(card[v]))] for v in range(card.size)]
    scan.end()
    try:
        return Naming.of(names, labels, card)
    except ModelError as error:
        raise scan.error(str(error), start) from None
