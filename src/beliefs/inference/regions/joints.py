r"""Joint marginals of sets of variables inside one region.

A table is summed over the variables that are not asked for. A loop has a table :math:`A_k` an edge; for variables at
the places :math:`p_1 < \dots < p_n` around it,

.. math:: b(y_{p_1}, \dots, y_{p_n}) \;\propto\;
   \prod_j \Big(\prod_{k=p_j}^{p_{j+1}-1} e^{A_k}\Big)(y_{p_j}, y_{p_{j+1}}),

products of matrices, here of logs, so that nothing underflows. Cost: :math:`|C| K^3`, and the cells of the answer.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.errors import BudgetError
from beliefs.inference.clusters.region_sets import Region
from beliefs.inference.regions.plan import RegionPlan
from beliefs.typing import Floats

__all__ = ["region_joint"]

_MOST_CELLS = 2**26  # of one joint: half a gigabyte


def region_joint(plan: RegionPlan, beliefs: Floats, logs: Floats, scope: Region) -> Floats | None:
    """Return the joint marginal of variables that one region covers; None if none does."""
    shape = [int(plan.regions.layout.card[v]) for v in scope]
    found = plan.find(scope)
    if found is not None:
        q, narrow = found
        cells = np.exp(beliefs[plan.tables.cell_ptr[q] : plan.tables.cell_ptr[q + 1]])
        table = np.bincount(narrow, cells, math.prod(shape)).reshape(shape)
        joint: Floats = table / table.sum()
        return joint
    around = [r for r in np.flatnonzero(plan.regions.is_loop).tolist() if set(scope) <= set(plan.regions.scopes[r])]
    if not around:
        return None
    if math.prod(shape) > _MOST_CELLS:
        raise BudgetError(f"a joint of {len(scope)} variables has {math.prod(shape):.3g} cells; ask for fewer of them")
    return _loop_joint(plan, logs, min(around, key=lambda r: len(plan.regions.scopes[r])), scope)


def _loop_joint(plan: RegionPlan, logs: Floats, r: int, scope: Region) -> Floats:
    cycle, tables = plan.regions.scopes[r], plan.tables
    places = sorted(cycle.index(v) for v in scope)
    n, first = len(cycle), int(tables.table_ptr[r])
    total: Floats = np.zeros([int(tables.rows[first + p]) for p in places])
    for j, place in enumerate(places):
        end = places[(j + 1) % len(places)]
        product = _edge(plan, logs, first + place)
        for k in range(place + 1, end if end > place else end + n):
            product = _product(product, _edge(plan, logs, first + k % n))
        axes = [j, (j + 1) % len(places)]
        wide = [total.shape[a] if a in axes else 1 for a in range(total.ndim)]
        total = total + (product if axes[0] < axes[1] else product.T).reshape(wide)
    joint: Floats = np.exp(total - total.max())
    joint /= joint.sum()
    order = [places.index(cycle.index(v)) for v in scope]
    return joint.transpose(order)


def _edge(plan: RegionPlan, logs: Floats, q: int) -> Floats:
    """Return the log table of one edge of a loop, a row a state of its first variable."""
    table: Floats = logs[plan.tables.cell_ptr[q] : plan.tables.cell_ptr[q + 1]].reshape(int(plan.tables.rows[q]), -1)
    return table


def _product(one: Floats, other: Floats) -> Floats:
    """Return the log of the product of two matrices given as logs."""
    product: Floats = np.logaddexp.reduce(one[:, :, None] + other[None], axis=1)
    return product
