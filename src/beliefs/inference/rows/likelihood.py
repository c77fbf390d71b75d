"""Log scores of rows under a discrete model, missing cells summed out: log-probabilities once log Z is subtracted."""

from __future__ import annotations

from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.budget import default_budget
from beliefs.inference.rows.evidence import read_evidence_rows
from beliefs.inference.rows.exact import exact_rows
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["is_normalised", "row_log_weights"]

_ROUNDING = 1e-12  # how far the sums of a network's columns may be from one for Z to be one


def row_log_weights(graph: FactorGraph, rows: Any, *, threads: int = 1, max_bytes: int | None = None) -> Floats:
    """Return of each row the log of the sum of exp theta over the states of its missing cells, ``(n_rows,)``."""
    if graph.layout.observed.any():
        raise ModelError("a model with evidence has no rows of its own; give the model before conditioning")
    evidence = read_evidence_rows(graph, rows)
    budget = default_budget() if max_bytes is None else max_bytes
    return exact_rows(graph, evidence, np.zeros(0, np.int64), threads=threads, max_bytes=budget).log_z


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
