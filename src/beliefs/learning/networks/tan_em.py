r"""Trees below a target from rows with missing cells: EM over tables and tree, the target among what may be missing.

Given state c of the target the features are a tree, the same for all c, with tables of its own. So expected counts are
those of :mod:`beliefs.learning.networks.tree_em`, once a state of the target with the rows' weights times

.. math:: p(c \mid \text{row}) \propto p(c) \, p(\text{row's features} \mid c)

(one or zero where the target is seen), and the M-step takes the tree of largest mutual information given the target,
:math:`\sum_c N_c \hat I_c(u; v)`, and its tables [friedman1997] [friedman1997b]. Each state of the target has one
imaginary row more, spread over all states, so that no row is impossible given another state.

Guarantee: the log-likelihood of the rows and the imaginary ones never falls. Cost: an iteration of ``tree_em`` for each
state of the target; complete rows are counted once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from beliefs.inference.rows.sweep import RowSweep, scored_rows
from beliefs.learning.networks.structure import Structure
from beliefs.learning.networks.tree_em import expected_pairs, tree_score, tree_tables
from beliefs.model.naming import Naming
from beliefs.model.rows.table import RowTable
from beliefs.typing import Floats, Ints

__all__ = ["Classes", "pairs_given_target"]

_TOL, _MOST = 1e-6, 100


@dataclass(frozen=True, eq=False)
class Classes:
    """Rows of features by the state of a target.

    Attributes
    ----------
    complete : list of ndarray (n_states, n_states)
        Counts of pairs of states in complete rows, a matrix for each state of the target.
    seen : list of ndarray (n_states, n_states)
        Counts of the pairs that rows with this state of the target have.
    partial : list of RowTable
        Rows with this state of the target and missing cells.
    unknown : RowTable
        Rows without a target.
    """

    complete: list[Floats]
    seen: list[Floats]
    partial: list[RowTable]
    unknown: RowTable


def pairs_given_target(rows: Classes, parents_of: Callable[[list[Floats]], Ints]) -> tuple[list[Floats], list[float]]:
    """Return expected counts of pairs for each state of the target at the end of EM, and the objective's trace."""
    table, k = rows.unknown, len(rows.complete)
    naming = Naming.of(table.names, table.labels, table.card)
    imaginary = 1.0 / np.multiply.outer(*2 * [np.repeat(table.card, table.card).astype(np.float64)])
    pairs, first = rows.seen, int(table.card[0])
    sizes = np.array([c[:first, :first].sum() + p.total for c, p in zip(rows.complete, rows.partial, strict=True)])
    trace: list[float] = []
    for _ in range(_MOST):
        smooth = [counts + imaginary for counts in pairs]
        parents = parents_of(smooth)
        structure = Structure.of_parents(naming, [[int(u)] if u >= 0 else [] for u in parents])
        tables = [tree_tables(structure, counts) for counts in smooth]
        log_prior = np.log((sizes + 1.0 / k) / (sizes.sum() + 1.0))
        scores = np.stack([_scores(structure, own, table) for own in tables], axis=1) + log_prior
        top = np.logaddexp.reduce(scores, axis=1)
        share = np.exp(scores - top[:, None]) * (1.0 if table.weights is None else table.weights[:, None])
        value = float(top.sum() if table.weights is None else table.weights @ top)
        pairs, known = [], np.zeros(k)
        for c, own in enumerate(tables):
            partly, found = expected_pairs(structure, own, rows.partial[c])
            absent, _ = expected_pairs(structure, own, replace(table, weights=share[:, c]))
            pairs.append(rows.complete[c] + partly + absent)
            known[c] = rows.complete[c][:first, :first].sum() + rows.partial[c].total
            value += found + tree_score(structure, own, rows.complete[c] + imaginary)
        value += float((known + 1.0 / k) @ log_prior)
        sizes = known + share.sum(axis=0)
        trace.append(value)
        if len(trace) > 1 and trace[-1] - trace[-2] <= _TOL * abs(value):
            break
    return pairs, trace


def _scores(structure: Structure, tables: Floats, rows: RowTable) -> Floats:
    """Return the log-probability of each row under a tree."""
    sweep = RowSweep(structure.layout, rows)
    return sweep.added_to(scored_rows(structure.layout, np.log(tables), rows), sweep.run(tables, backward=False))
