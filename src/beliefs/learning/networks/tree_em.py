r"""Trees from rows with missing cells: EM in which the M-step chooses the tree, too.

The E-step gives expected counts of all pairs of states under the tree of now,

.. math:: C(u = a, v = b) = \sum_s w_s \, p(x_u = a, x_v = b \mid \text{row } s)

and the M-step is the best tree for them with its tables: the expected log-likelihood of complete rows is largest at the
maximum spanning tree of the mutual information of :math:`C`, whatever tree the posteriors came from [friedman1997b].

Given a row, variables of different groups of missing cells are independent, so :math:`C` is a product of posteriors but
for pairs of one group; there joint posteriors are multiplied along the paths of the tree. The first tree is that of the
pairs that rows have.

Guarantee: the log-likelihood never falls, and the end is a local optimum over trees and tables.
Cost: an iteration is one sweep over rows with missing cells, and rows x states x states by BLAS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from beliefs.inference.rows.sweep import RowSweep, scored_rows, single_variables
from beliefs.learning.networks.structure import Structure
from beliefs.model.layout import Layout
from beliefs.model.naming import Naming
from beliefs.model.rows.table import RowTable
from beliefs.typing import Floats, Ints

__all__ = ["expected_pairs", "pairs_by_em", "tree_score", "tree_tables"]

_CELLS = 2**20  # posteriors that are held at a time
_TOL, _MOST = 1e-6, 100


def pairs_by_em(
    naming: Naming, table: RowTable, complete: Floats, seen: Floats, parents_of: Callable[[Floats], Ints]
) -> Floats:
    """Return the expected counts of all pairs of states at the end of EM.

    ``complete`` are those of complete rows, ``seen`` of the pairs that rows have, ``parents_of`` the best tree for
    counts.
    """
    rows, last = table.take(table.incomplete()), -np.inf
    uniform = 1.0 / np.multiply.outer(*2 * [np.repeat(table.card, table.card).astype(np.float64)])
    pairs = seen + uniform  # no pair is impossible at first
    for _ in range(_MOST):
        parents = parents_of(pairs)
        structure = Structure.of_parents(naming, [[int(u)] if u >= 0 else [] for u in parents])
        tables = tree_tables(structure, pairs)
        expected, found = expected_pairs(structure, tables, rows)
        pairs = complete + expected
        if found - last <= _TOL * abs(found):
            break
        last = found
    return pairs


def tree_tables(structure: Structure, pairs: Floats) -> Floats:
    """Return the tables of largest likelihood of a tree, ``(n_cells,)``; columns without rows are uniform."""
    found = []
    for v, counts in enumerate(_families(structure, pairs)):
        sums = counts.sum(axis=1, keepdims=True)
        even = 1.0 / structure.layout.card[v]
        found.append(np.where(sums > 0.0, counts / np.where(sums > 0.0, sums, 1.0), even).ravel())
    return np.concatenate([*found, np.zeros(0)])


def tree_score(structure: Structure, tables: Floats, pairs: Floats) -> float:
    """Return the log-likelihood of complete rows with these counts of pairs."""
    counts = np.concatenate([*(own.ravel() for own in _families(structure, pairs)), np.zeros(0)])
    return float(counts[counts > 0.0] @ np.log(tables[counts > 0.0]))


def _families(structure: Structure, pairs: Floats) -> Iterator[Floats]:
    """Yield the counts of each variable below its parent, ``(states of the parent or 1, states)``."""
    starts = structure.layout.state_ptr
    for v in range(structure.n_vars):
        mine = slice(int(starts[v]), int(starts[v + 1]))
        above = [int(u) for u in structure.parents(v)]
        yield pairs[starts[above[0]] : starts[above[0] + 1], mine] if above else np.diag(pairs[mine, mine])[None]


def expected_pairs(structure: Structure, tables: Floats, rows: RowTable) -> tuple[Floats, float]:
    """Return expected counts of pairs of states ``(n_states, n_states)`` of a tree, and the rows' log-likelihood."""
    layout = structure.layout
    arcs = [(int(structure.parents(v)[0]), v) for v in range(layout.n_vars) if structure.parents(v).size]
    flat = np.array(arcs, np.int64).ravel()
    soft = single_variables(layout, Layout.build(layout.card, 2 * np.arange(len(arcs) + 1), flat))
    where = {v: layout.n_vars + k for k, (_, v) in enumerate(arcs)}  # the factor of a variable and its parent
    total, found = np.zeros((layout.n_states, layout.n_states)), 0.0
    step = max(1, _CELLS // max(soft.n_cells, 1))
    for begin in range(0, rows.n_rows, step):
        part = rows.take(slice(begin, begin + step))
        weights = np.ones(part.n_rows) if part.weights is None else part.weights
        sweep = RowSweep(layout, RowTable(part.names, part.labels, part.codes), soft=soft)
        swept = sweep.run(tables, np.ones((part.n_rows, soft.n_cells)))
        assert swept.soft is not None
        with np.errstate(divide="ignore"):
            scores = sweep.added_to(scored_rows(layout, np.log(tables), part), swept)
        found += float(weights[weights > 0.0] @ scores[weights > 0.0])
        single = swept.soft[:, : layout.n_states].copy()
        for v in range(layout.n_vars):
            known = np.flatnonzero(part.codes[v] != part.missing)
            single[known, layout.state_ptr[v] + part.codes[v, known].astype(np.int64)] = 1.0
        total += (single * weights[:, None]).T @ single
        for v in range(layout.n_vars):  # a variable and itself
            mine = slice(int(layout.state_ptr[v]), int(layout.state_ptr[v + 1]))
            total[mine, mine] += (
                np.diag(weights @ single[:, mine]) - (single[:, mine] * weights[:, None]).T @ single[:, mine]
            )
        _add_dependent(structure, sweep, (soft, swept.soft), where, (single, weights), total)
    return total, found


def _add_dependent(
    structure: Structure, sweep: RowSweep, evidence: tuple[Layout, Floats], where: dict[int, int],
    rows: tuple[Floats, Floats], total: Floats,
) -> None:  # fmt: skip
    """Add to the products of posteriors what joint posteriors of pairs in one group differ from them."""
    layout, (soft, posterior), (single, weights) = structure.layout, evidence, rows
    cuts = np.searchsorted(sweep.group, np.arange(len(sweep.plans) + 1))
    for g, plan in enumerate(sweep.plans):
        if plan.variables.size < 2:
            continue
        chosen = sweep.row[cuts[g] : cuts[g + 1]]
        alone = {int(v): single[chosen, layout.state_ptr[v] : layout.state_ptr[v + 1]] for v in plan.variables}
        joint: dict[tuple[int, int], Floats] = {}
        for v in _parents_first(structure, plan.variables):
            above = [int(u) for u in structure.parents(v) if int(u) in alone]
            if not above:
                continue
            w = above[0]
            pair = posterior[chosen][:, soft.cells(where[v])].reshape(chosen.size, *soft.shape(where[v]))
            given = pair / np.where(alone[w] > 0.0, alone[w], 1.0)[:, :, None]
            earlier = {w: pair} | {
                u: np.einsum("nac,ncb->nab", joint[u, w], given) for u in alone if (u, w) in joint and u != w
            }
            for u, both in earlier.items():
                joint[u, v], joint[v, u] = both, both.transpose(0, 2, 1)
                more = (
                    np.einsum("n,nab->ab", weights[chosen], both) - (alone[u] * weights[chosen][:, None]).T @ alone[v]
                )
                one, other = (slice(int(layout.state_ptr[t]), int(layout.state_ptr[t + 1])) for t in (u, v))
                total[one, other] += more
                total[other, one] += more.T


def _parents_first(structure: Structure, variables: Ints) -> list[int]:
    """Return variables with parents before children."""
    inside, found = {int(v) for v in variables}, list[int]()
    waiting = [v for v in inside if not any(int(u) in inside for u in structure.parents(v))]
    children: dict[int, list[int]] = {}
    for v in inside:
        for u in structure.parents(v):
            children.setdefault(int(u), []).append(v)
    waiting.sort()
    while waiting:
        v = waiting.pop()
        found.append(v)
        waiting += sorted(children.get(v, ()), reverse=True)
    return found
