"""Answers for machines: one JSON object with stable keys, or comma-separated values.

Keys that every answer has: ``command, model, evidence, method, reason, status, advice, converged, bound, n_iters,
seconds, trace``: the first two, and those of the result's ``to_dict``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from beliefs.inference.result import InferenceResult
from beliefs.inference.states_result import MapResult, MarginalMapResult, SampleResult

__all__ = ["Answer", "csv_text", "document"]

Answer = InferenceResult | MapResult | MarginalMapResult | SampleResult

_COMMANDS = {
    InferenceResult: "infer",
    MapResult: "maximize",
    MarginalMapResult: "marginal-map",
    SampleResult: "sample",
}


def document(result: Answer, model: str, shown: Sequence[int]) -> dict[str, Any]:
    """Return the answer as plain Python; ``shown`` are the variables to tell about, by index."""
    return {"command": _COMMANDS[type(result)], "model": model, **result.to_dict(shown)}


def csv_text(result: Answer, shown: Sequence[int]) -> str:
    """Return marginals, an assignment or samples as comma-separated values with a header."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_csv_rows(result, shown))
    return text.getvalue()


def _csv_rows(result: Answer, shown: Sequence[int]) -> Iterator[Iterable[Any]]:
    naming = result.graph.naming
    if isinstance(result, SampleResult):
        yield [naming.name(v) for v in shown]
        yield from zip(*(result[naming.name(v)].tolist() for v in shown))
    elif isinstance(result, InferenceResult):
        yield ["variable", "state", "probability"]
        for v in shown:
            for label, p in zip(naming.states(v), result.marginal(v).tolist(), strict=True):
                yield [naming.name(v), label, p]
    else:
        yield ["variable", "state"]
        yield from ((naming.name(v), result[v]) for v in shown)
