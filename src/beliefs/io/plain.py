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

_TEN = np.array([float(10**k) for k in range(23)])  # the powers that float64 holds exactly
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

    Of the floats near ``exp(theta)`` whose logarithm is ``theta`` exactly, one with few digits is taken if there is
    one, so that a file's 0.1 is written as 0.1 again. (A float64 ``theta`` fixes 15 digits of its potential, and one
    less for each power of ten in ``theta``.) A log potential that no float64 can stand for is an error.
    """
    if isinstance(model, BayesianNetwork):
        return model.probabilities
    logs, cell = np.unique(graph.theta, return_inverse=True)
    with np.errstate(all="ignore"):
        values = np.exp(logs)
        near = _few_digits(values, logs)
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


def _few_digits(values: Floats, logs: Floats) -> Floats:
    """Return each value rounded to the digits that its logarithm fixes, as the float64 nearest to that decimal."""
    digits = 15 - (np.abs(logs) >= 4.5) - (np.abs(logs) >= 45.0) - (np.abs(logs) >= 450.0)
    shift = digits - 1 - np.floor(logs / np.log(10.0))
    exact = (shift >= 0) & (shift <= 22)  # both parts of the quotient below are exact then, so it is rounded once
    power = _TEN[np.where(exact, shift, 0.0).astype(np.int64)]
    near: Floats = np.rint(values * power) / power
    for k in np.flatnonzero(~exact & (values > 0) & (values < np.inf)):
        near[k] = float(f"{values[k]:.{digits[k]}g}")
    return near


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
    numbers = bits.view(np.float64)
    texts = str(numbers.tolist())[1:-1].split(", ")
    for k in np.flatnonzero(numbers == np.rint(numbers)):
        texts[k] = texts[k].removesuffix(".0")
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
