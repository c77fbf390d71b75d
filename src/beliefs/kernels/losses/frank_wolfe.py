r"""One step of block-coordinate Frank-Wolfe in the dual of a structured SVM [lacostejulien2013].

The state is arrays alone, and changed by kernels alone: an interrupt of the interpreter finds it before a step or
after it. With the plane :math:`(s, \ell)` of block i found at some weights, its old state :math:`(s_i, \ell_i)`,
:math:`d = J_i^\top (s - s_i)` and :math:`c_i = a_i / (2 \lambda n)`,

.. math:: \gamma = \Bigl[ \frac{\ell - \ell_i + w \cdot d}{c_i \lVert d \rVert^2} \Bigr]_0^1, \qquad
   w \leftarrow w - \gamma c_i d, \qquad (s_i, \ell_i) \leftarrow (1 - \gamma)(s_i, \ell_i) + \gamma (s, \ell)

maximises the dual along the line. The average :math:`\bar w_k = \frac{2}{k(k+1)} \sum_{j \le k} j\,w_j` is not added up
step by step: with the changes :math:`\Delta_m = w_m - w_{m-1}`,

.. math:: \bar w_k = w_k - \frac{2}{k(k+1)} u_k, \qquad u_k = \sum_{m \le k} \frac{m(m-1)}{2} \Delta_m

so a step writes u where it writes w, and nowhere else.
"""

from __future__ import annotations

from typing import NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.typing import Floats

__all__ = ["N_NUMBERS", "DualArrays", "line_search", "note_step", "update_block"]

N_NUMBERS = 9
"""Entries of ``numbers``; see :class:`DualArrays`."""


class DualArrays(NamedTuple):
    """A point of the dual and its past, as kernels change it.

    ``numbers`` are: steps k made, passes finished, blocks of the present pass done, the sum of ``a_i * l_i``, its
    average, the sum of losses and of labels over the present pass, planes that are no minorant, and answers of
    inference in the present pass that did not converge.
    """

    weights: Floats  # (n_weights,) w
    lag: Floats  # (n_weights,) u
    cells: Floats  # (n_cells of all blocks,) s
    offsets: Floats  # (n_blocks,) l
    numbers: Floats  # (N_NUMBERS,)


@kernel
def line_search(gain: float, curvature: float) -> float:
    """Return the step in [0, 1] that maximises ``gain * g - curvature * g**2 / 2``; 0 where nothing is gained."""
    if not gain > 0.0:
        return 0.0
    return 1.0 if gain >= curvature else gain / curvature


@kernel
def note_step(numbers: Floats, rise: float, loss: float, labels: float) -> None:
    """Count a step that has raised the sum of offsets, and average the sum."""
    numbers[0] += 1.0
    numbers[2] += 1.0
    numbers[3] += rise
    numbers[4] += 2.0 / (numbers[0] + 1.0) * (numbers[3] - numbers[4])
    numbers[5] += loss
    numbers[6] += labels


@kernel
def update_block(dual: DualArrays, block: int, begin: int, plane: Floats, pulled: Floats, facts: Floats) -> None:
    """Move a block towards a plane by exact line search, and the weights with it.

    Equivalent to the module's formulas with ``s = plane``, ``d = pulled`` and ``facts`` = (l, c_i, a_i, the loss
    ``a_i * L_i`` found with the plane, the labels it counts for, 1 if the plane is no minorant, 1 if inference has not
    converged). Shapes: ``plane`` has the cells of the block, which begin at ``begin``; ``pulled (n_weights,)``.
    Cost: three passes over the weights. Numerics: sums run in four lanes, written out; all finite.
    """
    weights, lag, cells, offsets, numbers = dual
    offset, scale = facts[0], facts[1]
    slope0, slope1, slope2, slope3 = 0.0, 0.0, 0.0, 0.0
    norm0, norm1, norm2, norm3 = 0.0, 0.0, 0.0, 0.0
    full = weights.size - weights.size % 4
    for j in range(0, full, 4):
        slope0 += weights[j] * pulled[j]
        slope1 += weights[j + 1] * pulled[j + 1]
        slope2 += weights[j + 2] * pulled[j + 2]
        slope3 += weights[j + 3] * pulled[j + 3]
        norm0 += pulled[j] * pulled[j]
        norm1 += pulled[j + 1] * pulled[j + 1]
        norm2 += pulled[j + 2] * pulled[j + 2]
        norm3 += pulled[j + 3] * pulled[j + 3]
    for j in range(full, weights.size):
        slope0 += weights[j] * pulled[j]
        norm0 += pulled[j] * pulled[j]
    rise = offset - offsets[block]
    slope, norm = (slope0 + slope1) + (slope2 + slope3), (norm0 + norm1) + (norm2 + norm3)
    step = line_search(rise + slope, scale * norm)
    if step > 0.0:
        late = 0.5 * numbers[0] * (numbers[0] + 1.0)
        for j in range(weights.size):
            change = -step * scale * pulled[j]
            weights[j] += change
            lag[j] += late * change
        for j in range(plane.size):
            cells[begin + j] += step * (plane[j] - cells[begin + j])
        offsets[block] += step * rise
    note_step(numbers, facts[2] * step * rise, facts[3], facts[4])
    numbers[7] += facts[5]
    numbers[8] += facts[6]
