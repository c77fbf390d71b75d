"""What the text formats can hold: plain tables and numbers that read back as they were.

Most formats know neither tied tables nor observed variables. Tied tables are written out once a factor; an observed
variable gets one more factor at the end, 1 at the observed state and 0 elsewhere, so that the partition function, the
marginals and the best assignments of the file are those of the model.
"""

from __future__ import annotations

import numpy as np

from beliefs.errors import FormatError
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.model.layout import Layout
from beliefs.typing import Floats

__all__ = ["as_bayesian_network", "number_texts", "plain_graph", "potentials"]

_FAITHFUL = 1e-9  # how far a log potential may move by being written as a potential


def plain_graph(model: Model) -> FactorGraph:
    """Return a graph with one run of cells a factor and evidence as factors; the same distribution and Z."""
    graph = as_factor_graph(model)
    layout = graph.layout
    seen = np.flatnonzero(layout.observed)
    if not layout.tied and not seen.size:
        return graph
    size = layout.factor_size
    offset = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    points = np.full(int(layout.card[seen].sum()), -np.inf)
    starts = np.cumsum(layout.card[seen]) - layout.card[seen]
    points[starts + graph.evidence_states[seen]] = 0.0
    ends = layout.scope_ptr[-1] + np.arange(1, seen.size + 1)
    whole = Layout.build(
        layout.card, np.concatenate([layout.scope_ptr, ends]), np.concatenate([layout.scope_vars, seen])
    )
    theta = np.concatenate([graph.theta[np.repeat(layout.cell_ptr, size) + offset], points])
    return FactorGraph.build(whole, theta, graph.naming, kind="MARKOV" if seen.size else graph.kind)


def potentials(graph: FactorGraph, model: Model) -> Floats:
    """Return the numbers to write for ``exp(theta)``: those given, for a Bayesian network, else the shortest.

    Of the floats near ``exp(theta)`` whose logarithm is ``theta`` exactly, one with at most 15 digits is taken if there
    is one, so that a file's 0.1 is written as 0.1 again. A log potential that no float64 can stand for is an error.
    """
    if isinstance(model, BayesianNetwork):
        return model.probabilities
    logs, cell = np.unique(graph.theta, return_inverse=True)
    with np.errstate(all="ignore"):
        values = np.exp(logs)
        near = np.array([float(f"{value:.15g}") for value in values.tolist()])
        candidates = [near, values, *(np.nextafter(values, bound) for bound in (0.0, np.inf))]
        best = values.copy()
        for candidate in reversed(candidates):
            exact = np.log(candidate) == logs
            best[exact] = candidate[exact]
        off = ~(np.abs(np.log(best) - logs) <= _FAITHFUL) & (logs > -np.inf)
    if off.any():
        raise _unfaithful(graph, float(logs[off][0]))
    chosen: Floats = best[cell]
    return chosen


def _unfaithful(graph: FactorGraph, log: float) -> FormatError:
    k = int(np.argmax(graph.theta == log))
    f = int(np.searchsorted(graph.layout.cell_ptr, k, side="right")) - 1
    word = "overflows" if log > 0 else "underflows"
    return FormatError(
        f"the log potential {log:.6g} of factor {f} {word} as a potential; write logarithms (.LG) or .npz instead"
    )


def number_texts(values: Floats) -> list[str]:
    """Return each number as the shortest text that reads back as the same float64, ``1`` rather than ``1.0``."""
    bits, index = np.unique(values.view(np.int64), return_inverse=True)  # by bits: -0.0 is not 0.0
    texts = [repr(value).removesuffix(".0") for value in bits.view(np.float64).tolist()]
    written: list[str] = np.array(texts, dtype=object)[index].tolist()
    return written


def as_bayesian_network(model: Model) -> BayesianNetwork:
    """Return the model as a Bayesian network for formats that hold nothing else; other models raise ModelError."""
    if isinstance(model, BayesianNetwork):
        return model
    graph = as_factor_graph(model)
    checked = BayesianNetwork.from_factor_graph(graph)
    numbers = potentials(graph, model)
    layout = graph.layout
    child = [int(layout.scope(f)[-1]) for f in range(layout.n_factors)]
    tables = {child[f]: numbers[layout.cells(f)] for f in range(layout.n_factors)}
    cpts = {v.name: (checked.parents(v.name), tables[k]) for k, v in enumerate(checked.variables)}
    return BayesianNetwork.from_cpts(list(checked.variables), cpts)
