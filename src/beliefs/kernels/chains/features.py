r"""Scores of sparse attributes, and the way back: one weight per pair of attribute and label that was asked for.

Token t has attributes a with values v; a pair (a, y) has the weight ``weights[f]``, pairs lying by attribute:

.. math:: u_t(y) = \sum_{a \in t} v_{ta}\, w_{ay}, \qquad \frac{dL}{dw_{ay}} = \sum_{t \ni a} v_{ta}\, r_t(y)

The weights of attributes that were seen with several labels lie, for the time of an evaluation, in ``rows (n_rows,
width)``, zero where a pair has no weight: such an attribute is a few vector additions, and sums stay in registers. The
others have a label or two, and these are added one by one. A token names the rows and the other attributes apart.

Gradients are added token after token, which finds residuals in the nearest cache. Threads share the *attributes*
out, not the tokens, so that each weight's sum runs over the tokens in order whoever adds it up: the answer is the
same to the last bit for any number of threads, without private copies of the gradient.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from beliefs.kernels._jit import inlined_kernel, kernel, linear_kernel
from beliefs.kernels.chains.linear import add_scaled24, store24
from beliefs.kernels.primitives.memory import address, get, onward, put
from beliefs.kernels.primitives.simd import fill4, load4, multiply_add4, store4
from beliefs.typing import Floats, Ints

__all__ = [
    "LabelPairs",
    "Occurrences",
    "add_pair_gradient",
    "add_row_gradient",
    "add_rows",
    "add_to_rows",
    "attribute_scores",
    "cut_positions",
    "gather_rows",
    "scatter_rows",
    "sort_within_tokens",
]


class Occurrences(NamedTuple):
    """The attributes of tokens, or the rows of those that have one: entries ``ptr[t]:ptr[t+1]`` of token t."""

    ptr: Ints  # (n_tokens+1,)
    attribute: Ints  # (n_entries,)
    value: Floats  # (n_entries,), or empty if all are one


class LabelPairs(NamedTuple):
    """The labels for which an attribute has a weight: pairs ``ptr[a]:ptr[a+1]`` of attribute a."""

    ptr: Ints  # (n_attributes+1,)
    label: Ints  # (n_pairs,) ascending within an attribute


@linear_kernel
def scatter_rows(owner: Ints, pairs: LabelPairs, width: int, weights: Floats, rows: Floats) -> None:
    """Write ``rows[r, label[f]] = weights[f]`` for the pairs f of the attribute ``owner[r]`` of each row."""
    for r in range(owner.size):
        for f in range(pairs.ptr[owner[r]], pairs.ptr[owner[r] + 1]):
            rows[r * width + pairs.label[f]] = weights[f]


@linear_kernel
def gather_rows(owner: Ints, pairs: LabelPairs, width: int, rows: Floats, out: Floats) -> None:
    """Add ``rows[r, label[f]]`` to ``out[f]`` for the pairs f of the attribute ``owner[r]`` of each row."""
    for r in range(owner.size):
        for f in range(pairs.ptr[owner[r]], pairs.ptr[owner[r] + 1]):
            out[f] += rows[r * width + pairs.label[f]]


@inlined_kernel
def add_rows(begin: int, end: int, attribute: Any, value: Any, ones: bool, width: int, rows: Any, out: Any) -> None:
    """Add rows of attributes ``begin`` to ``end`` to the row at ``out``: 24 columns at a time, then 8, then 4."""
    y = 0
    while y + 24 <= width:
        s0, s1, s2 = load4(out, y), load4(out, y + 4), load4(out, y + 8)
        s3, s4, s5 = load4(out, y + 12), load4(out, y + 16), load4(out, y + 20)
        for i in range(begin, end):
            a, v = get(attribute, i) * width + y, fill4(1.0 if ones else get(value, i))
            s0, s1, s2, s3, s4, s5 = add_scaled24(v, rows, a, s0, s1, s2, s3, s4, s5)
        store24(out, y, s0, s1, s2, s3, s4, s5)
        y += 24
    while y + 8 <= width:
        s0, s1 = load4(out, y), load4(out, y + 4)
        for i in range(begin, end):
            a, v = get(attribute, i) * width + y, fill4(1.0 if ones else get(value, i))
            s0, s1 = multiply_add4(v, load4(rows, a), s0), multiply_add4(v, load4(rows, a + 4), s1)
        store4(out, y, s0)
        store4(out, y + 4, s1)
        y += 8
    if y < width:
        s0 = load4(out, y)
        for i in range(begin, end):
            v = fill4(1.0 if ones else get(value, i))
            s0 = multiply_add4(v, load4(rows, get(attribute, i) * width + y), s0)
        store4(out, y, s0)


@inlined_kernel
def add_to_rows(begin: int, end: int, attribute: Any, value: Any, ones: bool, width: int, row: Any, rows: Any) -> None:
    """Add one row to those of attributes ``begin`` to ``end``: 24 columns at a time, then 8, then 4."""
    y = 0
    while y + 24 <= width:
        r0, r1, r2 = load4(row, y), load4(row, y + 4), load4(row, y + 8)
        r3, r4, r5 = load4(row, y + 12), load4(row, y + 16), load4(row, y + 20)
        for i in range(begin, end):
            a, v = get(attribute, i) * width + y, fill4(1.0 if ones else get(value, i))
            store4(rows, a, multiply_add4(v, r0, load4(rows, a)))
            store4(rows, a + 4, multiply_add4(v, r1, load4(rows, a + 4)))
            store4(rows, a + 8, multiply_add4(v, r2, load4(rows, a + 8)))
            store4(rows, a + 12, multiply_add4(v, r3, load4(rows, a + 12)))
            store4(rows, a + 16, multiply_add4(v, r4, load4(rows, a + 16)))
            store4(rows, a + 20, multiply_add4(v, r5, load4(rows, a + 20)))
        y += 24
    while y + 8 <= width:
        r0, r1 = load4(row, y), load4(row, y + 4)
        for i in range(begin, end):
            a, v = get(attribute, i) * width + y, fill4(1.0 if ones else get(value, i))
            store4(rows, a, multiply_add4(v, r0, load4(rows, a)))
            store4(rows, a + 4, multiply_add4(v, r1, load4(rows, a + 4)))
        y += 8
    if y < width:
        r0 = load4(row, y)
        for i in range(begin, end):
            a, v = get(attribute, i) * width + y, fill4(1.0 if ones else get(value, i))
            store4(rows, a, multiply_add4(v, r0, load4(rows, a)))


@linear_kernel
def attribute_scores(
    rowed: Occurrences, rows: Floats, others: Occurrences, pairs: LabelPairs, weights: Floats, width: int, begin: int,
    end: int, out: Floats,
) -> None:  # fmt: skip
    """Add the scores of tokens ``begin`` to ``end`` to their rows: ``out[t] += sum(v * W[a])`` with a dense W.

    ``rowed`` are the attributes that have a row of ``rows (n_rows * width,)``, by its number; ``others`` have the
    ``weights (n_pairs,)``. Shapes: ``out (n_tokens * width,)``. Cost: ``2 * width`` flops an attribute with a row, two
    a pair for others.
    """
    row_ptr, row, row_value = rowed
    ptr, attribute, value = others
    pair_ptr, label = pairs
    ones, row_ones = value.size == 0, row_value.size == 0
    scores = address(out)
    for t in range(begin, end):
        here = onward(scores, t * width)
        if row_ptr[t] < row_ptr[t + 1]:
            add_rows(row_ptr[t], row_ptr[t + 1], address(row), address(row_value), row_ones, width, address(rows), here)
        for i in range(ptr[t], ptr[t + 1]):
            a, v = attribute[i], 1.0 if ones else value[i]
            for f in range(pair_ptr[a], pair_ptr[a + 1]):
                put(here, label[f], get(here, label[f]) + v * weights[f])


@linear_kernel
def add_row_gradient(
    first: Ints, last: Ints, row: Ints, value: Floats, width: int, residual: Floats, rows: Floats
) -> None:
    """Add ``v * residual[t]`` to ``rows[r]`` for the rows r in ``row[first[t]:last[t]]`` of each token t.

    Shapes and cost as in :func:`attribute_scores`, with ``residual (n_tokens * width,)``.
    """
    ones = value.size == 0
    for t in range(first.size):
        if first[t] < last[t]:
            given = onward(address(residual), t * width)
            add_to_rows(first[t], last[t], address(row), address(value), ones, width, given, address(rows))


@linear_kernel
def add_pair_gradient(
    first: Ints, last: Ints, attribute: Ints, value: Floats, pairs: LabelPairs, width: int, residual: Floats,
    out: Floats,
) -> None:  # fmt: skip
    """Add ``v * residual[t, label[f]]`` to ``out[f]`` for the pairs f of ``attribute[first[t]:last[t]]``."""
    pair_ptr, label = pairs
    ones = value.size == 0
    for t in range(first.size):
        given = onward(address(residual), t * width)
        for i in range(first[t], last[t]):
            a, v = attribute[i], 1.0 if ones else value[i]
            for f in range(pair_ptr[a], pair_ptr[a + 1]):
                out[f] += v * get(given, label[f])


@kernel
def sort_within_tokens(ptr: Ints, attribute: Ints, value: Floats) -> None:
    """Sort each token's attributes, and their values with them if there are any; by insertion, in place."""
    for t in range(ptr.size - 1):
        for i in range(ptr[t] + 1, ptr[t + 1]):
            a = attribute[i]
            v = value[i] if value.size else 1.0
            k = i
            while k > ptr[t] and attribute[k - 1] > a:
                attribute[k] = attribute[k - 1]
                if value.size:
                    value[k] = value[k - 1]
                k -= 1
            attribute[k] = a
            if value.size:
                value[k] = v


@kernel
def cut_positions(ptr: Ints, attribute: Ints, bound: int, out: Ints) -> None:
    """Write where each token's sorted attributes reach ``bound``: ``out[t] = ptr[t] + searchsorted(..., bound)``."""
    for t in range(ptr.size - 1):
        i = ptr[t]
        while i < ptr[t + 1] and attribute[i] < bound:
            i += 1
        out[t] = i
