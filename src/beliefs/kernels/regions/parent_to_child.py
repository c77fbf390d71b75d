r"""Messages from parents to children: generalised belief propagation on beliefs kept as log tables.

Along an edge from :math:`\gamma` to :math:`\beta`

.. math:: m(y_\beta) = \sum_{y_\gamma \setminus y_\beta} b_\gamma(y_\gamma) \Big/ b_\beta(y_\beta), \qquad
   b_\tau \leftarrow b_\tau\, m^a \quad \text{for } \tau \in \Delta(\beta) \setminus \Delta(\gamma),

where :math:`\Delta` is a region with all its ancestors and :math:`a` one minus the damping (1.48)-(1.49) [gelfand2014].
Tables are never normalised, so that :math:`\sum_\gamma c_\gamma T_\gamma = \sum_f \theta_f` holds to rounding after
every message if counting numbers add up to 1 over every :math:`\Delta`.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import kernel
from beliefs.kernels.regions.beliefs import refresh
from beliefs.kernels.regions.structure import Messages, RegionTables
from beliefs.typing import Floats, Ints

__all__ = ["project", "propagate", "remove_impossible"]


@kernel
def project(tables: RegionTables, q: int, m: int, maximise: bool, logs: Floats, top: Floats, out: Floats) -> None:
    """Write the log marginal (or the max-marginal) of table ``q`` on the narrow cells of map ``m``.

    Equivalent to ``np.logaddexp.at(out, map, logs[q])`` on an ``out`` of ``-inf``.
    Shapes: ``top`` and ``out (n,)`` for n narrow cells.
    """
    begin, at = tables.cell_ptr[q], tables.map_ptr[m]
    size = tables.cell_ptr[q + 1] - begin
    for y in range(out.size):
        top[y] = -math.inf
        out[y] = 0.0
    for k in range(size):
        y = tables.maps[at + k]
        top[y] = max(top[y], logs[begin + k])
    if not maximise:
        for k in range(size):
            y = tables.maps[at + k]
            if logs[begin + k] > -math.inf:
                out[y] += math.exp(logs[begin + k] - top[y])
    for y in range(out.size):
        out[y] = top[y] + math.log(out[y]) if out[y] > 0.0 else top[y]


@kernel
def propagate(
    tables: RegionTables, edges: Messages, order: Ints, changed: Ints, share: float, maximise: bool, room: Floats,
    logs: Floats, beliefs: Floats, log_norm: Floats,
) -> float:  # fmt: skip
    """Send messages in the given order; return the largest difference between a child and its parent's marginal.

    Equivalent to the formulas of the module, edge by edge.
    Shapes: ``order`` has edges, any number; ``changed``, ``log_norm (n_regions,)``; ``logs``, ``beliefs (n_cells,)``.
    Cost: cells of parents, and of all regions that a message goes to.
    Numerics: in logs; a state that is impossible in both is left alone. Returns -1 where tables have no finite sum.
    """
    worst = 0.0
    for step in range(order.size):
        e = order[step]
        parent, child = edges.parent[e], edges.child[e]
        for r in (parent, child):
            if changed[r] == 1:
                log_norm[r] = refresh(tables, r, maximise, room, logs, beliefs)
                if not -math.inf < log_norm[r] < math.inf:
                    return -1.0
                changed[r] = 0
        q = tables.table_ptr[child]
        begin, size = tables.cell_ptr[q], tables.cell_ptr[q + 1] - tables.cell_ptr[q]
        message = room[size : 2 * size]
        project(tables, edges.source[e], edges.source_map[e], maximise, beliefs, room[:size], message)
        for y in range(size):
            own = beliefs[begin + y]
            worst = max(worst, abs(math.exp(message[y]) - math.exp(own)))
            message[y] = share * (message[y] - own) if own > -math.inf else 0.0
        for t in range(edges.target_ptr[e], edges.target_ptr[e + 1]):
            entry = edges.target[t]
            to = edges.around_table[entry]
            at, start = tables.map_ptr[edges.around_map[entry]], tables.cell_ptr[to]
            for k in range(tables.cell_ptr[to + 1] - start):
                logs[start + k] += message[tables.maps[at + k]]
            changed[edges.around_region[entry]] = 1
    return worst


@kernel
def remove_impossible(
    tables: RegionTables, edges: Messages, changed: Ints, room: Floats, logs: Floats, beliefs: Floats, log_norm: Floats,
    stop: Ints,
) -> bool:  # fmt: skip
    """Make every state impossible that is so in a region around, until none is left; False: a region has no state.

    Equivalent to arc consistency between regions. All states that are zero then are proved to be so, and parents and
    children have the same ones, so that messages never divide by zero. ``stop`` ends it, unfinished.
    """
    again = True
    while again:
        again = False
        for e in range(edges.parent.size):
            if stop[0] != 0:
                return True
            for r in (edges.parent[e], edges.child[e]):
                if changed[r] == 1:
                    log_norm[r] = refresh(tables, r, False, room, logs, beliefs)
                    if log_norm[r] == -math.inf:
                        return False
                    changed[r] = 0
            child = edges.child[e]
            q = tables.table_ptr[child]
            begin, size = tables.cell_ptr[q], tables.cell_ptr[q + 1] - tables.cell_ptr[q]
            message = room[size : 2 * size]
            project(tables, edges.source[e], edges.source_map[e], False, beliefs, room[:size], message)
            differs = False
            for y in range(size):
                differs = differs or (message[y] == -math.inf) != (beliefs[begin + y] == -math.inf)
                if message[y] > -math.inf:
                    message[y] = beliefs[begin + y] if beliefs[begin + y] == -math.inf else 0.0
            if not differs:
                continue
            again = True
            for entry in range(edges.around_ptr[child], edges.around_ptr[child + 1]):
                to = edges.around_table[entry]
                at, start = tables.map_ptr[edges.around_map[entry]], tables.cell_ptr[to]
                for k in range(tables.cell_ptr[to + 1] - start):
                    if message[tables.maps[at + k]] == -math.inf:
                        logs[start + k] = -math.inf
                changed[edges.around_region[entry]] = 1
    return True
