"""Answers for machines: one JSON object with stable keys, or comma-separated values.

Keys that every answer has: ``command, model, evidence, method, reason, status, advice, converged, bound, n_iters,
seconds, trace``. Infinities are null, names are the model's names, states their labels.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from beliefs.inference.base import Bound
from beliefs.inference.result import InferenceResult
from beliefs.inference.states_result import MapResult, MarginalMapResult, SampleResult

__all__ = ["Answer", "best_states", "csv_text", "document", "json_text", "labels_of"]

Answer = InferenceResult | MapResult | MarginalMapResult | SampleResult

_COMMANDS = {
    InferenceResult: "infer",
    MapResult: "maximize",
    MarginalMapResult: "marginal-map",
    SampleResult: "sample",
}


def document(result: Answer, model: str, shown: Sequence[int]) -> dict[str, Any]:
    """Return the answer as plain Python; ``shown`` are the variables to tell about, by index."""
    naming = result.graph.naming
    return {
        "command": _COMMANDS[type(result)],
        "model": model,
        "evidence": {naming.name(v): naming.label(v, x) for v, x in result.graph.evidence.items()},
        **_numbers(result),
        "method": repr(result.method),
        "reason": result.reason,
        "status": result.status.name,
        "advice": result.status.advice,
        "converged": result.converged,
        "n_iters": result.n_iters,
        "seconds": result.seconds,
        "trace": {name: _plain(getattr(result.trace, name)) for name in result.trace.columns},
        **_states(result, shown),
    }


def _numbers(result: Answer) -> dict[str, Any]:
    """What the answer is worth: its value, its bound, its certified interval."""
    names: tuple[str, ...] = ()
    if isinstance(result, InferenceResult):
        names = ("log_z", "log_lower", "log_upper")
        bound = result.bound
    elif isinstance(result, MapResult):
        names = ("log_score", "log_upper", "gap")
        bound = Bound.EXACT if result.gap == 0 else Bound.LOWER
    elif isinstance(result, MarginalMapResult):
        names = ("log_value", "log_lower", "log_upper", "gap")
        bound = result.value_bound
    else:
        bound = result.bound
    numbers = {name: _plain(getattr(result, name)) for name in names} | {"bound": bound.name}
    return numbers | {"exact_marginals": result.exact_marginals} if isinstance(result, InferenceResult) else numbers


def _states(result: Answer, shown: Sequence[int]) -> dict[str, Any]:
    naming = result.graph.naming
    if isinstance(result, InferenceResult):
        return {
            "marginals": {
                naming.name(v): dict(zip(naming.states(v), _plain(result.marginal(v)), strict=True)) for v in shown
            }
        }
    if isinstance(result, SampleResult):
        columns = [labels_of(result, v) for v in shown]
        return {
            "variables": [naming.name(v) for v in shown],
            "samples": [list(row) for row in zip(*columns)] if columns else [[] for _ in result.samples],
        }
    found: dict[str, Any] = {"assignment": dict(best_states(result, shown))}
    if isinstance(result, MarginalMapResult):
        found["query"] = [naming.name(v) for v in result.query]
    return found


def best_states(result: MapResult | MarginalMapResult, shown: Sequence[int]) -> list[tuple[str, str]]:
    """Return names and best states of some variables, which of a marginal MAP are those of the query."""
    naming = result.graph.naming
    places = range(result.graph.n_vars) if isinstance(result, MapResult) else result.query
    state = dict(zip(places, result.assignment.tolist(), strict=True))
    return [(naming.name(v), naming.label(v, state[v])) for v in shown]


def labels_of(result: SampleResult, v: int) -> list[str]:
    """Return the sampled states of a variable, as labels."""
    labels: list[str] = np.array(result.graph.naming.states(v), dtype=object)[result.samples[:, v]].tolist()
    return labels


def _plain(value: Any) -> Any:
    """Return numbers and arrays as Python's own, infinities as None."""
    if isinstance(value, np.ndarray):
        return [_plain(entry) for entry in value.tolist()]
    return None if isinstance(value, float) and math.isinf(value) else value


def json_text(found: dict[str, Any]) -> str:
    """Return a document as JSON, one key a line."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in found.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def csv_text(result: Answer, shown: Sequence[int]) -> str:
    """Return marginals, an assignment or samples as comma-separated values with a header."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_csv_rows(result, shown))
    return text.getvalue()


def _csv_rows(result: Answer, shown: Sequence[int]) -> Iterator[Iterable[Any]]:
    naming = result.graph.naming
    if isinstance(result, SampleResult):
        yield [naming.name(v) for v in shown]
        columns = [labels_of(result, v) for v in shown]
        yield from zip(*columns)
    elif isinstance(result, InferenceResult):
        yield ["variable", "state", "probability"]
        for v in shown:
            for label, p in zip(naming.states(v), result.marginal(v).tolist(), strict=True):
                yield [naming.name(v), label, p]
    else:
        yield ["variable", "state"]
        yield from best_states(result, shown)
