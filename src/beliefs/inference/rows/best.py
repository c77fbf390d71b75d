"""The best joint state of many rows of evidence about one model, by the junction tree.

Rows that observe the same variables share the plan of what is left and go through it in one kernel, one after the
other. That is what :func:`beliefs.maximize` does with each of them, so the answers are the same to the last bit, ties
included, whatever the chunks and the threads.

Cost: one pass over the clusters' cells a row, a plan for every set of observed variables. Failure: BudgetError.
"""

from __future__ import annotations

import numpy as np

from beliefs.deadline import check_time
from beliefs.inference.base import Problem, Task
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.exact.tree_run import stoppable
from beliefs.inference.parallel import in_chunks, parallel_chunks
from beliefs.inference.rows.evidence import RowEvidence
from beliefs.inference.rows.exact import with_likelihoods
from beliefs.kernels.trees.decode_rows import decode_rows
from beliefs.model.distinct import distinct_rows
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import read_only
from beliefs.typing import Floats, Ints

__all__ = ["best_rows"]

_LOTS = 64  # of rows, for threads to share


def best_rows(
    graph: FactorGraph, evidence: RowEvidence, *, threads: int = 1, max_bytes: int = 2**62
) -> tuple[Ints, Floats]:
    """Return the best assignment of each row and its score; -1 and -inf in rows of probability zero."""
    base = with_likelihoods(graph, evidence)
    own = _own_cells(base, evidence)
    codes = evidence.table.codes
    states = np.where(codes == evidence.table.missing, -1, codes.astype(np.int64)).T
    pattern = distinct_rows(np.packbits(states >= 0, axis=1)).number
    order = np.argsort(pattern, kind="stable")  # rows with the same observed set follow one another
    ends = np.flatnonzero(np.diff(pattern[order], append=-1)) + 1
    found, scores = np.ascontiguousarray(states[order]), np.empty(evidence.n_rows)
    sorted_own = np.ascontiguousarray(own[order])

    def task(begin: int, end: int) -> int:
        cuts = [begin, *ends[(begin < ends) & (ends < end)].tolist(), end]
        for first, last in zip(cuts[:-1], cuts[1:], strict=True):
            if first < last:
                rows = slice(first, last)
                _decode(base, sorted_own[rows], max_bytes, found[rows], scores[rows])
        return 0

    parallel_chunks(task, in_chunks(evidence.n_rows, _LOTS), threads)
    back = np.argsort(order)
    return found[back], scores[back]


def _decode(base: FactorGraph, own: Floats, max_bytes: int, best: Ints, scores: Floats) -> None:
    """Decode rows with the same observed set, in place; ``best`` has their evidence."""
    one = base.observing(best[0].copy())
    run = JunctionTree().init(Problem(one, Task.MAXIMIZE, max_bytes=max_bytes))
    tree, source = run.plan.tree, run.plan.source
    cells, tables = np.empty(one.layout.n_cells, np.int64), np.empty(int(tree.slot_ptr[-1]))
    decode_rows(
        base.layout.scopes, one.layout.cell_ptr, stoppable(tree), source, base.theta, read_only(own), cells, tables,
        best, scores,
    )  # fmt: skip
    check_time()


def _own_cells(base: FactorGraph, evidence: RowEvidence) -> Floats:
    """Return the logs of each row's soft evidence, the last cells of the model ``(n_rows, n_own)``."""
    columns = [np.zeros((evidence.n_rows, 0))]
    for v, values in evidence.likelihoods.items():
        state = base.evidence_states[v]
        columns.append(values if state < 0 else values[:, state : state + 1])
    with np.errstate(divide="ignore"):
        return np.log(np.concatenate(columns, axis=1))
