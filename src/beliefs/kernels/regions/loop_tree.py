r"""One edge of a long loop after the other: what all other tables multiply to, from a tree of products.

The tables of a loop of n edges are the leaves n to 2n - 1 of a heap, whose node i has the children 2i and 2i + 1. In
the order of its leaves these are the loop from some edge on, so that every node stands for an arc of the loop:

.. math:: \mathrm{inside}_i = \mathrm{inside}_{2i}\, \mathrm{inside}_{2i+1}, \qquad
   \mathrm{outside}_{2i} = \mathrm{inside}_{2i+1}\, \mathrm{outside}_i, \qquad
   \mathrm{outside}_{2i+1} = \mathrm{outside}_i\, \mathrm{inside}_{2i},

and the outside of a leaf is the product of all other tables, from the next edge around to the one before. Only the
table that was asked for last may have changed. From there the insides are made anew up to the first node above both
leaves, and the outsides down from it: all leaves in their order take some :math:`3 n` products, in any order at most
:math:`2 \log_2 n` each. Every product has a largest entry of 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.kernels.regions.beliefs import multiply
from beliefs.kernels.regions.plain import LEAST, product, rescale
from beliefs.kernels.regions.structure import RegionTables
from beliefs.typing import Floats, Ints

__all__ = ["LoopTrees", "other_edges"]


class LoopTrees(NamedTuple):
    """Trees of the long ones among outer regions.

    Inside and outside of node i of region r begin at ``begin[r] + 2 i K^2`` and ``K^2`` behind it in ``products``, for
    its largest cardinality ``width[r]``; ``begin[r]`` is -1 where region r has no tree. ``leaf[r]`` was asked for last,
    0: nothing is known.
    """

    begin: Ints
    width: Ints
    leaf: Ints
    products: Floats


@kernel
def rows_of(tables: RegionTables, first: int, n: int, i: int) -> int:
    """Return the states of the variable where the arc of a node begins."""
    while i < n:
        i = 2 * i
    return int(tables.rows[first + i - n])


@kernel
def columns_of(tables: RegionTables, first: int, n: int, i: int) -> int:
    """Return the states of the variable where the arc of a node ends."""
    while i > 1 and i % 2 == 1:
        i = i // 2
    return int(rows_of(tables, first, n, i + 1 if i > 1 else 1))


@kernel
def inside_of(tables: RegionTables, r: int, i: int, trees: LoopTrees, values: Floats) -> Floats:
    """Return the product of a node's arc: of a leaf the table itself."""
    first = tables.table_ptr[r]
    n, cells = tables.table_ptr[r + 1] - first, trees.width[r] * trees.width[r]
    if i >= n:
        return values[tables.cell_ptr[first + i - n] : tables.cell_ptr[first + i - n + 1]]
    begin = trees.begin[r] + 2 * i * cells
    return trees.products[begin : begin + cells]


@kernel
def enough(x: float, least: float) -> bool:
    """Return whether a number is 0 or at least another."""
    return x == 0.0 or x >= least


@kernel
def scaled_product(one: Floats, other: Floats, n: int, m: int, k: int, plain: bool, out: Floats) -> bool:
    """Write ``(n, m) @ (m, k)`` with a largest entry of 1; False where plain numbers cannot, or nothing is possible."""
    if not plain:
        return bool(multiply(one, other, n, m, k, False, out) > -math.inf)
    if n != 2 or m != 2 or k != 2:
        product(one, other, n, m, k, out)
        return bool(rescale(out[: n * k], False) > 0.0)
    a, b = one[0] * other[0] + one[1] * other[2], one[0] * other[1] + one[1] * other[3]
    c, d = one[2] * other[0] + one[3] * other[2], one[2] * other[1] + one[3] * other[3]
    top = max(max(a, b), max(c, d))
    least = LEAST * top
    if not (0.0 < top < math.inf and enough(a, least) and enough(b, least) and enough(c, least) and enough(d, least)):
        return False
    inverse = 1.0 / top
    out[0], out[1], out[2], out[3] = inverse * a, inverse * b, inverse * c, inverse * d
    return True


@kernel
def join(tables: RegionTables, r: int, i: int, plain: bool, trees: LoopTrees, values: Floats) -> bool:
    """Make the inside of a node anew; False as in :func:`scaled_product`."""
    first = tables.table_ptr[r]
    n = tables.table_ptr[r + 1] - first
    one, other = inside_of(tables, r, 2 * i, trees, values), inside_of(tables, r, 2 * i + 1, trees, values)
    rows, middle = rows_of(tables, first, n, 2 * i), rows_of(tables, first, n, 2 * i + 1)
    out = inside_of(tables, r, i, trees, values)
    return bool(scaled_product(one, other, rows, middle, columns_of(tables, first, n, i), plain, out))


@kernel
def first_above(one: int, other: int) -> int:
    """Return the first node above two others, or one of them where that is above the other."""
    while one != other:
        if one > other:
            one = one // 2
        else:
            other = other // 2
    return one


@kernel
def outsides(tables: RegionTables, r: int, top: int, plain: bool, trees: LoopTrees, values: Floats, out: Floats) -> int:
    """Make outsides anew from a node down to the leaf ``trees.leaf[r]``; as :func:`other_edges`."""
    first, leaf, done = tables.table_ptr[r], trees.leaf[r], 0
    n, cells, level = tables.table_ptr[r + 1] - first, trees.width[r] * trees.width[r], 0
    while leaf >> level != top:
        level += 1
    while level > 0:
        level -= 1
        i = leaf >> level
        up, to = trees.begin[r] + (2 * (i // 2) + 1) * cells, trees.begin[r] + (2 * i + 1) * cells
        beside, here = inside_of(tables, r, i ^ 1, trees, values), out
        if level > 0:
            here = trees.products[to : to + cells]
        rows, columns = columns_of(tables, first, n, i), rows_of(tables, first, n, i)
        if i < 4:  # below the root: all that is outside is the other half
            for k in range(rows * columns):
                here[k] = beside[k]
            continue
        above, done = trees.products[up : up + cells], done + 1
        if i % 2 == 0:
            middle = columns_of(tables, first, n, i + 1)
            known = scaled_product(beside, above, rows, middle, columns, plain, here)
        else:
            middle = rows_of(tables, first, n, i - 1)
            known = scaled_product(above, beside, rows, middle, columns, plain, here)
        if not known:
            return -1
    return done


@kernel
def other_edges(
    tables: RegionTables, r: int, q: int, plain: bool, trees: LoopTrees, values: Floats, out: Floats
) -> int:
    """Write the product of all tables of a loop but ``q``, the next one first; return how many products that took.

    Equivalent to ``A[q + 1] @ ... @ A[n - 1] @ A[0] @ ... @ A[q - 1]``, scaled; in logs unless ``plain``.
    Shapes: ``values (n_cells,)`` the tables of all regions; ``out`` takes the largest table.
    Cost: as the module says, :math:`K^3` each.
    Numerics: plain tables are scaled. -1, and the tree forgotten, where a plain number is too small, or nothing is
    possible.
    """
    first, here = tables.table_ptr[r], trees.leaf[r]
    n = tables.table_ptr[r + 1] - first
    leaf, done = n + q - first, 0
    begin, end = (first, first + n) if here == 0 else (first + here - n, first + here - n + 1)
    trees.leaf[r] = 0
    for p in range(begin, end):
        if plain and rescale(values[tables.cell_ptr[p] : tables.cell_ptr[p + 1]], False) == 0.0:
            return -1
    if here == 0:
        top = 1
        for i in range(n - 1, 1, -1):
            if not join(tables, r, i, plain, trees, values):
                return -1
            done += 1
    else:
        top = leaf // 2 if here == leaf else first_above(here, leaf)
        i = here // 2
        while i > top:
            if not join(tables, r, i, plain, trees, values):
                return -1
            i, done = i // 2, done + 1
    trees.leaf[r] = leaf
    found = outsides(tables, r, top, plain, trees, values, out)
    if found < 0:
        trees.leaf[r] = 0
        return -1
    return int(done + found)
