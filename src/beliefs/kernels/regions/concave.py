r"""Dual block descent for concave entropies of regions: outer regions that must agree on what is inside them.

Maximise :math:`\sum_\gamma \langle \theta_\gamma, b_\gamma\rangle + w_\gamma H(b_\gamma) + \sum_\beta \langle
\theta_\beta, b_\beta\rangle + c_\beta H(b_\beta)` over outer regions :math:`\gamma`, :math:`w_\gamma > 0`, and inner
ones :math:`\beta`, :math:`c_\beta \ge 0`, whose beliefs are the marginals of every outer region around them
[heskes2006]. With multipliers :math:`\lambda_{\gamma\beta}` and :math:`X_\gamma = (\theta_\gamma + \sum_\beta
\lambda_{\gamma\beta}) / w_\gamma` the dual is

.. math:: \sum_\gamma w_\gamma \log \sum e^{X_\gamma} + \sum_\beta c_\beta \log \sum_{y_\beta}
   \exp\Big( \big(\theta_\beta - \sum_\gamma \lambda_{\gamma\beta}\big) / c_\beta \Big),

the maximum where :math:`c_\beta = 0`. For one inner region after the other its multipliers are set to the minimum:

.. math:: \nu_\gamma = w_\gamma \log \sum_{y_\gamma \setminus y_\beta} e^{X_\gamma} - \lambda_{\gamma\beta}, \quad
   \log b_\beta = \frac{\theta_\beta + \sum_\gamma \nu_\gamma}{c_\beta + \sum_\gamma w_\gamma} + \text{const}, \quad
   \lambda_{\gamma\beta} = w_\gamma \log b_\beta - \nu_\gamma .

The dual never rises, and bounds the maximum from above at every moment.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from beliefs.kernels._jit import kernel
from beliefs.kernels.regions.beliefs import log_sum, refresh
from beliefs.kernels.regions.loop_tree import LoopTrees, other_edges
from beliefs.kernels.regions.parent_to_child import project
from beliefs.kernels.regions.structure import RegionTables
from beliefs.typing import Floats, Ints

__all__ = ["Agreements", "Descent", "descend", "with_multipliers"]


class Agreements(NamedTuple):
    """Inner regions and the outer ones around each.

    Inner region ``inner[i]`` has the entries ``ptr[i]`` to ``ptr[i+1]``: an outer region, its table and the map, and
    ``start``, where its multipliers begin.
    """

    inner: Ints
    ptr: Ints
    region: Ints
    table: Ints
    map: Ints
    start: Ints


class Descent(NamedTuple):
    r"""What dual block descent works on, in logs.

    ``target (n_cells,)`` has :math:`\theta_\beta` in the cells of inner regions; ``logs`` and ``beliefs (n_cells,)``
    are tables and their beliefs, ``log_norm`` and ``changed (n_regions,)`` what these are worth.
    """

    target: Floats
    multipliers: Floats
    logs: Floats
    beliefs: Floats
    log_norm: Floats
    changed: Ints


@kernel
def with_multipliers(
    tables: RegionTables, pairs: Agreements, weight: Floats, multipliers: Floats, logs: Floats
) -> None:
    """Add all multipliers, divided by their outer region's weight, to the log tables.

    Equivalent to ``logs[cells of the table] += multipliers[map] / weight`` for every entry.
    """
    for entry in range(pairs.region.size):
        q, at = pairs.table[entry], tables.map_ptr[pairs.map[entry]]
        begin, scale = tables.cell_ptr[q], 1.0 / weight[pairs.region[entry]]
        for k in range(tables.cell_ptr[q + 1] - begin):
            logs[begin + k] += scale * multipliers[pairs.start[entry] + tables.maps[at + k]]


@kernel
def one_edge(tables: RegionTables, r: int, q: int, room: Floats, state: Descent, trees: LoopTrees) -> float:
    """Write the log beliefs of one edge of a long loop, and return what may stand for its log Z, ``-inf`` if Z = 0.

    Beliefs and the dual do not know the scale of multipliers, so that 0 does.
    """
    if other_edges(tables, r, q, False, trees, state.logs, room) < 0:
        return -math.inf
    begin, end, rows = tables.cell_ptr[q], tables.cell_ptr[q + 1], tables.rows[q]
    columns = (end - begin) // rows
    for a in range(rows):
        for b in range(columns):
            state.beliefs[begin + a * columns + b] = state.logs[begin + a * columns + b] + room[b * rows + a]
    norm = log_sum(state.beliefs[begin:end])
    if norm == -math.inf:
        return norm
    for k in range(begin, end):
        state.beliefs[k] -= norm
    return 0.0


@kernel
def descend(
    tables: RegionTables, pairs: Agreements, weight: Floats, room: Floats, state: Descent, trees: LoopTrees
) -> tuple[float, float]:
    r"""Set the multipliers of every inner region once; return the largest change of an inner belief, and how far outer
    regions were from it before they were made to agree.

    Equivalent to the formulas of the module.
    Shapes: ``weight (n_regions,)``, those of inner regions their :math:`c_\beta`; ``room`` has three more of the
    largest inner table than a loop's products take, and one more for each outer region around it.
    Cost: the tables of all outer regions around each inner one; of long loops as :mod:`.loop_tree` says.
    Numerics: in logs; states that are impossible stay so, and have multipliers 0. Returns -1 and -1 where none is left.
    """
    target, multipliers, logs, beliefs = state.target, state.multipliers, state.logs, state.beliefs
    log_norm, changed, worst, apart = state.log_norm, state.changed, 0.0, 0.0
    for i in range(pairs.inner.size):
        q = tables.table_ptr[pairs.inner[i]]
        begin, size = tables.cell_ptr[q], tables.cell_ptr[q + 1] - tables.cell_ptr[q]
        first = room.size - 3 * size
        top, total, part = room[first : first + size], room[first + size : first + 2 * size], room[first + 2 * size :]
        kept = first - size * (pairs.ptr[i + 1] - pairs.ptr[i])  # the marginals of outer regions, one after the other
        share = weight[pairs.inner[i]]
        for y in range(size):
            total[y] = target[begin + y]
        for entry in range(pairs.ptr[i], pairs.ptr[i + 1]):
            r, lam = pairs.region[entry], pairs.start[entry]
            if trees.begin[r] >= 0:
                log_norm[r] = one_edge(tables, r, pairs.table[entry], room, state, trees)
            elif changed[r] == 1:
                log_norm[r] = refresh(tables, r, False, room, logs, beliefs)
                changed[r] = 0
            if log_norm[r] == -math.inf:
                return -1.0, -1.0
            project(tables, pairs.table[entry], pairs.map[entry], False, beliefs, top, part)
            share += weight[r]
            own = kept + size * (entry - pairs.ptr[i])
            for y in range(size):  # the multipliers stand for nu until the belief is known
                room[own + y] = part[y]
                multipliers[lam + y] = weight[r] * (part[y] + log_norm[r]) - multipliers[lam + y]
                total[y] += multipliers[lam + y]
        for y in range(size):
            total[y] /= share
        norm = log_sum(total)
        if norm == -math.inf:
            return -1.0, -1.0
        for y in range(size):
            total[y] -= norm
            worst = max(worst, abs(math.exp(total[y]) - math.exp(beliefs[begin + y])))
            beliefs[begin + y] = total[y]
        for entry in range(pairs.ptr[i], pairs.ptr[i + 1]):
            r, lam = pairs.region[entry], pairs.start[entry]
            own = kept + size * (entry - pairs.ptr[i])
            for y in range(size):
                apart = max(apart, abs(math.exp(total[y]) - math.exp(room[own + y])))
                if total[y] == -math.inf:
                    multipliers[lam + y] = 0.0
                    part[y] = 0.0
                else:
                    nu = multipliers[lam + y]
                    multipliers[lam + y] = weight[r] * total[y] - nu
                    # X changes by (new - old) / w, and old = w (marginal + norm) - nu
                    part[y] = total[y] - room[own + y] - log_norm[r]
            to = pairs.table[entry]
            at, start = tables.map_ptr[pairs.map[entry]], tables.cell_ptr[to]
            for k in range(tables.cell_ptr[to + 1] - start):
                logs[start + k] += part[tables.maps[at + k]]
            changed[r] = 1
    return worst, apart
