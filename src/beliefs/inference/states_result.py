"""Results that are joint states: decodings, with what proves them, and samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.display.description import MOST_ROWS, Cell
from beliefs.display.frames import categories, frame
from beliefs.display.one_object import OneObject
from beliefs.errors import ModelError, UnsupportedError
from beliefs.inference.base import Bound
from beliefs.inference.result import Result
from beliefs.model.graph import FactorGraph
from beliefs.typing import Ints, VariableRef

__all__ = ["MapResult", "MarginalMapResult", "SampleResult"]

_MOST_COLUMNS = 8  # of samples that are shown


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MapResult(Result):
    """Answer to ``maximize``: one complete assignment and its real score.

    ``log_score <= optimum <= log_upper``; ``gap == 0.0`` is a proof of optimality.
    """

    assignment: Ints
    log_score: float
    log_upper: float

    @property
    def gap(self) -> float:
        """Distance from the proof, at least 0; inf without an upper bound."""
        return max(0.0, self.log_upper - self.log_score) if self.log_score > -math.inf else math.inf

    def __getitem__(self, variable: VariableRef) -> str:
        """Return the label of a variable's state."""
        v = self.graph.index(variable)
        return self.graph.naming.label(v, int(self.assignment[v]))

    def states(self) -> dict[str, str]:
        """Return ``{name: label}``."""
        naming = self.graph.naming
        return {naming.name(v): naming.label(v, int(x)) for v, x in enumerate(self.assignment)}

    def to_frame(self) -> Any:
        """Return a pandas frame of a row a variable: ``variable``, ``state``."""
        return _states_frame(self.states())

    def _known(self) -> Sequence[int]:
        return range(self.graph.n_vars)

    def _numbers(self) -> dict[str, Any]:
        bound = Bound.EXACT if self.gap == 0 else Bound.LOWER
        return {"log_score": self.log_score, "log_upper": self.log_upper, "gap": self.gap, "bound": bound.name}

    def _found(self, shown: Sequence[int]) -> dict[str, Any]:
        return {"assignment": {self.graph.naming.name(v): self[v] for v in shown}}

    def _value(self) -> tuple[str, str]:
        return "score", f"{self.log_score:.10g} ({_proof(self.gap)})"

    def _table(self) -> tuple[str, list[str], list[list[Cell]], int]:
        return _states_table(self.graph, range(len(self.assignment)), self.assignment, self.gap)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MarginalMapResult(Result):
    """Answer to ``marginal_map``: states of the query, the rest summed out.

    ``log_lower <= Q(assignment) <= optimum <= log_upper``; ``log_value`` is Q(assignment), EXACT or an ESTIMATE.
    """

    query: tuple[int, ...]
    assignment: Ints
    log_value: float
    value_bound: Bound
    log_lower: float
    log_upper: float

    @property
    def gap(self) -> float:
        """Distance between the certified bounds, at least 0."""
        return max(0.0, self.log_upper - self.log_lower) if self.log_lower > -math.inf else math.inf

    def __getitem__(self, variable: VariableRef) -> str:
        """Return the label of the state of a variable of the query."""
        v = self.graph.index(variable)
        if v not in self.query:
            raise UnsupportedError(f"{self.graph.naming.name(v)!r} is not in the query: it was summed over")
        return self.graph.naming.label(v, int(self.assignment[self.query.index(v)]))

    def states(self) -> dict[str, str]:
        """Return ``{name: label}`` of the query."""
        naming = self.graph.naming
        return {naming.name(v): naming.label(v, int(x)) for v, x in zip(self.query, self.assignment, strict=True)}

    def to_frame(self) -> Any:
        """Return a pandas frame of a row a variable of the query: ``variable``, ``state``."""
        return _states_frame(self.states())

    def _known(self) -> Sequence[int]:
        return self.query

    def _numbers(self) -> dict[str, Any]:
        numbers = {"log_value": self.log_value, "log_lower": self.log_lower, "log_upper": self.log_upper}
        return {**numbers, "gap": self.gap, "bound": self.value_bound.name}

    def _found(self, shown: Sequence[int]) -> dict[str, Any]:
        naming = self.graph.naming
        return {
            "assignment": {naming.name(v): self[v] for v in shown},
            "query": [naming.name(v) for v in self.query],
        }

    def _value(self) -> tuple[str, str]:
        return "value", f"{self.value_bound.sign} {self.log_value:.10g} ({_proof(self.gap)})"

    def _table(self) -> tuple[str, list[str], list[list[Cell]], int]:
        return _states_table(self.graph, self.query, self.assignment, self.gap)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SampleResult(OneObject, Result):
    """Answer to ``sample``: ``samples (n, n_vars)``; ``bound`` EXACT means independent draws from the model."""

    samples: Ints
    bound: Bound

    def __len__(self) -> int:
        return len(self.samples)

    __iter__ = None  # type: ignore[assignment]  # rows have numbers and variables names: which is meant must be said

    def __getitem__(self, variable: str) -> np.ndarray:
        """Return the labels of a variable in all samples, ``(n,)``; rows are those of ``samples``."""
        if not isinstance(variable, str):
            raise ModelError("samples are indexed by the name of a variable; rows are result.samples[i]")
        v = self.graph.index(variable)
        return np.array(self.graph.naming.states(v))[self.samples[:, v]]

    def states(self) -> list[dict[str, str]]:
        """Return one ``{name: label}`` per sample."""
        naming = self.graph.naming
        return [{naming.name(v): naming.label(v, int(x)) for v, x in enumerate(row)} for row in self.samples]

    def to_frame(self) -> Any:
        """Return a pandas frame of a row a sample and a column a variable, categories that hold its states."""
        naming = self.graph.naming
        return frame({naming.name(v): categories(x, naming.states(v)) for v, x in enumerate(self.samples.T)})

    def _known(self) -> Sequence[int]:
        return range(self.graph.n_vars)

    def _numbers(self) -> dict[str, Any]:
        return {"bound": self.bound.name}

    def _found(self, shown: Sequence[int]) -> dict[str, Any]:
        naming = self.graph.naming
        columns = [self[naming.name(v)].tolist() for v in shown]
        rows = [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in self.samples]
        return {"variables": [naming.name(v) for v in shown], "samples": rows}

    def _value(self) -> tuple[str, str]:
        return "samples", f"{len(self.samples)} ({self.bound})"

    def _table(self) -> tuple[str, list[str], list[list[Cell]], int]:
        naming, shown = self.graph.naming, min(self.graph.n_vars, _MOST_COLUMNS)
        dots = ["..."] * (shown < self.graph.n_vars)
        rows: list[list[Cell]] = [
            [*(naming.label(v, int(x)) for v, x in enumerate(row[:shown])), *dots] for row in self.samples[:MOST_ROWS]
        ]
        exact = self.bound is Bound.EXACT
        worth = "independent draws from the model" if exact else "draws that approach the model's distribution"
        return f"samples: {worth}", [*(naming.name(v) for v in range(shown)), *dots], rows, len(self.samples)


def _proof(gap: float) -> str:
    return "optimal" if gap == 0 else f"gap {gap:.4g}"


def _states_frame(states: dict[str, str]) -> Any:
    return frame({"variable": list(states), "state": list(states.values())})


def _states_table(
    graph: FactorGraph, variables: Sequence[int], assignment: Ints, gap: float
) -> tuple[str, list[str], list[list[Cell]], int]:
    naming, pairs = graph.naming, list(zip(variables, assignment.tolist(), strict=True))
    rows: list[list[Cell]] = [[naming.name(v), naming.label(v, x)] for v, x in pairs[:MOST_ROWS]]
    if gap == 0:
        worth = "proved to be best"
    else:
        worth = "the best that was found" + (f", at most {gap:.4g} below the best" if gap < math.inf else "")
    return f"states: {worth}", [], rows, len(pairs)
