r"""A convex quadratic on the simplex, by active sets.

.. math:: \min_{\alpha \ge 0,\ \sum_t \alpha_t = 1} \tfrac12 \alpha^\top Q \alpha - b \cdot \alpha

The dual of cutting planes has one variable a plane, so few hundred at most, and is met again and again with one plane
more: each time from the last answer, of which few entries change.

The support S is kept with the Cholesky factor of :math:`Q_S + c\,11^\top`, which has the same minimisers on the simplex
and is positive definite where the planes of S are affinely independent, as in the method for the nearest point of a
polytope [wolfe1976]. One turn minimises on the affine hull of S; entries that would become negative leave, the most
violated one enters. One that depends on the others takes the place of one of them, along a direction without curvature.

Guarantee: the value never rises; the answer is on the simplex, and the returned gap bounds how far its value is above
the minimum. Cost of a turn: ``O(m |S| + |S|^2)``, of the factor to begin with ``|S|^3 / 3``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beliefs.kernels._jit import kernel, linear_kernel
from beliefs.typing import Floats, Ints

__all__ = ["Support", "simplex_qp", "support_of"]

_DEPENDENT = 1e-12  # of a diagonal entry: a pivot below it is rounding


class Support(NamedTuple):
    """The entries that are not zero and the factor of their matrix; room for all entries.

    ``order (m,)``: their numbers, ``place (m,)``: where each stands in it, or -1; ``factor (m, m)``: lower triangle;
    ``solutions (3, m)``: room for right sides; ``size (1,)``: how many.
    """

    order: Ints
    place: Ints
    factor: Floats
    solutions: Floats
    gradient: Floats
    size: Ints


def support_of(m: int) -> Support:
    """Return room for m entries."""
    ints = np.zeros(m, np.int64), np.full(m, -1, np.int64)
    return Support(*ints, np.zeros((m, m)), np.zeros((3, m)), np.zeros(m), np.zeros(1, np.int64))


@linear_kernel
def dot(a: Floats, b: Floats, n: int) -> float:
    """Return ``a[:n] @ b[:n]``. Cost: n. Numerics: sums are reassociated, the same way for the same n."""
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@kernel
def factor_row(quadratic: Floats, shift: float, support: Support, k: int) -> float:
    """Write row k of the factor of the matrix of the entries ``order[: k + 1]``; return its pivot, relative.

    Equivalent to the last row of ``np.linalg.cholesky(quadratic[np.ix_(s, s)] + shift)``, ``s = order[: k + 1]``.
    A pivot below the threshold is returned and not written. Cost: k^2 / 2.
    """
    order, factor = support.order, support.factor
    j = order[k]
    for i in range(k):
        at = factor[i, i]
        factor[k, i] = (quadratic[j, order[i]] + shift - dot(factor[i], factor[k], i)) / at
    diagonal = quadratic[j, j] + shift
    pivot: float = diagonal - dot(factor[k], factor[k], k)
    if pivot > _DEPENDENT * diagonal:
        factor[k, k] = math.sqrt(pivot)
    return float(pivot / diagonal)


@kernel
def solve(support: Support, k: int, right: Floats) -> None:
    """Solve in place with the factor of the first k entries. Equivalent to ``cho_solve``. Cost: k^2."""
    factor = support.factor
    for i in range(k):
        right[i] = (right[i] - dot(factor[i], right, i)) / factor[i, i]
    for i in range(k - 1, -1, -1):
        right[i] /= factor[i, i]
        for h in range(i):
            right[h] -= factor[i, h] * right[i]


@kernel
def leave(support: Support, at: int) -> None:
    """Take the entry at a place out of the support; rotations make the rest of the factor triangular again.

    Equivalent to the factor of the matrix of the entries that stay. Cost: the square of how many come after.
    """
    order, place, factor = support.order, support.place, support.factor
    cosine, sine = support.solutions[0], support.solutions[1]
    k = support.size[0] - 1
    place[order[at]] = -1
    for i in range(at, k):
        order[i] = order[i + 1]
        place[order[i]] = i
        over = factor[i + 1, at]  # the entry of the column that goes
        for h in range(at):
            factor[i, h] = factor[i + 1, h]
        for h in range(at, i):
            entry = factor[i + 1, h + 1]
            factor[i, h] = cosine[h] * entry + sine[h] * over
            over = cosine[h] * over - sine[h] * entry
        entry = factor[i + 1, i + 1]
        length = math.hypot(entry, over)
        factor[i, i], cosine[i], sine[i] = length, entry / length, over / length
    support.size[0] = k


@kernel
def gradient(quadratic: Floats, linear: Floats, support: Support, alpha: Floats) -> float:
    """Write the gradient ``quadratic @ alpha - linear`` and return ``alpha`` times it. Cost: m times the support."""
    g, k = support.gradient, support.size[0]
    mean = 0.0
    for t in range(alpha.size):
        g[t] = -linear[t]
    for i in range(k):
        s = support.order[i]
        for t in range(alpha.size):
            g[t] += quadratic[s, t] * alpha[s]
    for i in range(k):
        mean += alpha[support.order[i]] * g[support.order[i]]
    return mean


@kernel
def enter(quadratic: Floats, linear: Floats, shift: float, support: Support, alpha: Floats, j: int) -> bool:
    """Take entry j into the support; False where it is no use: it depends on the others and would have to shrink.

    Along ``(-y, 1)``, with ``y`` the weights that make entry j of the others, the function is linear: it goes down as
    far as no entry becomes negative, and the one that becomes zero leaves.
    """
    order, place, y = support.order, support.place, support.solutions[2]
    while True:
        k = support.size[0]
        order[k] = j
        if factor_row(quadratic, shift, support, k) > _DEPENDENT:
            place[j] = k
            support.size[0] = k + 1
            return True
        gradient(quadratic, linear, support, alpha)
        for t in range(alpha.size):
            support.gradient[t] += quadratic[j, t] * alpha[j]
        for i in range(k):
            y[i] = quadratic[order[i], j] + shift
        solve(support, k, y)
        slope = support.gradient[j]
        for i in range(k):
            slope -= y[i] * support.gradient[order[i]]
        sign = 1.0 if slope < 0 else -1.0
        step, out = (math.inf, -1) if sign > 0 else (alpha[j], -1)
        for i in range(k):
            if sign * y[i] > 0 and alpha[order[i]] < step * sign * y[i]:
                step, out = alpha[order[i]] / (sign * y[i]), i
        if step == math.inf:
            return False
        for i in range(k):
            alpha[order[i]] = max(alpha[order[i]] - sign * step * y[i], 0.0)
        alpha[j] = max(alpha[j] + sign * step, 0.0)
        if out < 0:
            alpha[j] = 0.0
            return False
        alpha[order[out]] = 0.0
        leave(support, out)


@kernel
def descend(quadratic: Floats, linear: Floats, shift: float, support: Support, alpha: Floats, entered: int) -> bool:
    """Minimise on the affine hull of the support; entries that would become negative leave on the way.

    Returns False where the entry that has just come leaves again at once: rounding allows no more.
    """
    order, u, v = support.order, support.solutions[0], support.solutions[1]
    useful = True
    while True:
        k = support.size[0]
        for i in range(k):
            u[i], v[i] = linear[order[i]], 1.0
        solve(support, k, u)
        solve(support, k, v)
        total, ones = 0.0, 0.0
        for i in range(k):
            total += u[i]
            ones += v[i]
        step, out = 1.0, -1
        for i in range(k):
            u[i] += (1.0 - total) / ones * v[i]
            old = alpha[order[i]]
            if u[i] <= 0.0 and old < step * (old - u[i]) or u[i] <= 0.0 and old == u[i]:
                step, out = (old / (old - u[i]) if old > u[i] else 0.0), i
        for i in range(k):
            alpha[order[i]] = max(alpha[order[i]] + step * (u[i] - alpha[order[i]]), 0.0)
        if out < 0:
            return useful
        if order[out] == entered and step == 0.0:
            useful = False
        alpha[order[out]] = 0.0
        leave(support, out)


@kernel
def simplex_qp(quadratic: Floats, linear: Floats, support: Support, tol: float, max_turns: int, alpha: Floats) -> float:
    """Minimise ``0.5 * alpha @ quadratic @ alpha - linear @ alpha`` on the simplex, from a point on it, in place.

    Returns the gap ``alpha @ g - g.min()`` with ``g = quadratic @ alpha - linear``, at least the excess of the value.
    Equivalent to a general solver of quadratic programs.

    Shapes: ``quadratic (m, m)`` symmetric and positive semidefinite, ``linear, alpha (m,)``; ``support`` for m entries.
    Cost: the turns, as many as entries change. Numerics: stops when the gap is at most ``tol`` of the size of the
    terms, or rounding allows no more; entries of the answer that are zero are zero.
    """
    m = alpha.size
    shift = 0.0
    for t in range(m):
        shift += quadratic[t, t] / m
        support.place[t] = -1
    shift = shift if shift > 0 else 1.0
    support.size[0] = 0
    for j in range(m):
        if alpha[j] > 0:
            enter(quadratic, linear, shift, support, alpha, j)
    useful, j, gap = True, -1, math.inf
    for _ in range(max_turns):
        useful = descend(quadratic, linear, shift, support, alpha, j)
        mean, size, total, j = gradient(quadratic, linear, support, alpha), 0.0, 0.0, 0
        for t in range(m):
            size += alpha[t] * abs(linear[t])
            total += alpha[t]
            if support.gradient[t] < support.gradient[j]:
                j = t
        gap = max(mean / total - support.gradient[j], 0.0)
        if gap <= tol * (abs(mean) + size) or not useful or support.place[j] >= 0:
            break
        if not enter(quadratic, linear, shift, support, alpha, j):
            break
    total = 0.0
    for t in range(m):
        total += alpha[t]
    for t in range(m):
        alpha[t] /= total
    return gap
