"""Log-probabilities of rows under a discrete model, missing cells summed out; unnormalised: log Z is another's."""

from __future__ import annotations

from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.rows.sweep import RowSweep, scored_rows
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.graph import FactorGraph
from beliefs.model.rows.reading import named_columns, read_rows
from beliefs.model.rows.table import RowTable
from beliefs.typing import Floats

__all__ = ["is_normalised", "model_rows", "row_log_weights"]

_ROUNDING = 1e-12  # how far the sums of a network's columns may be from one for Z to be one


def model_rows(graph: FactorGraph, data: Any) -> RowTable:
    """Return data as rows over a model's variables; variables without a column are unobserved in every row."""
    if graph.layout.observed.any():
        raise ModelError("a model with evidence has no rows of its own; give the model before conditioning")
    names = [graph.naming.name(v) for v in range(graph.n_vars)]
    given = set(data.names) if isinstance(data, RowTable) else None
    if given is None and (hasattr(data, "columns") or hasattr(data, "keys")):
        given = set(named_columns(data, None, ()))
    hidden = [] if given is None else [name for name in names if name not in given]
    return read_rows(data, graph.naming, hidden=hidden)


def row_log_weights(graph: FactorGraph, table: RowTable, *, threads: int = 1, max_bytes: float | None = None) -> Floats:
    """Return of each row the log of the sum of exp theta over the states of its missing cells, ``(n_rows,)``.

    Tables are divided by their largest entries first, so that none overflows.
    """
    layout = graph.layout
    tops = np.array([graph.theta[layout.cells(f)].max() for f in range(layout.n_factors)])
    tops[tops == -np.inf] = 0.0
    shift = np.zeros(layout.n_cells)
    for f in range(layout.n_factors):
        shift[layout.cells(f)] = tops[f]
    logs = graph.theta - shift
    scores: Floats = scored_rows(layout, logs, table, threads) + tops.sum()
    if not table.n_missing.any():
        return scores
    sweep = RowSweep(layout, table, max_bytes=max_bytes, threads=threads)
    return sweep.added_to(scores, sweep.run(np.exp(logs), backward=False))


def is_normalised(model: Any) -> bool:
    """Whether a model is a network whose columns sum to one up to rounding: its Z is one."""
    if not isinstance(model, BayesianNetwork):
        return False
    layout = model.graph.layout
    return all(
        bool((np.abs(model.probabilities[layout.cells(v)].reshape(-1, int(layout.card[v])).sum(axis=1) - 1.0)
              <= _ROUNDING).all())
        for v in range(layout.n_vars)
    )  # fmt: skip
