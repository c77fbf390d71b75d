"""Evidence of many rows about one model, from what people have: dicts, frames, codes, and likelihoods by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.rounding import UNIT
from beliefs.model.graph import FactorGraph
from beliefs.model.rows.columns import are_chunks, are_records, gathered, without_column
from beliefs.model.rows.reading import read_rows
from beliefs.model.rows.table import RowTable, code_type
from beliefs.typing import Floats, Ints

__all__ = ["RowEvidence", "model_rows", "read_evidence_rows"]


@dataclass(frozen=True, eq=False)
class RowEvidence:
    """What is known of each row.

    Attributes
    ----------
    table : RowTable
        Observed states; the model's own evidence is in every row.
    likelihoods : dict of int to ndarray (n_rows, K)
        Soft evidence by variable, each row with a largest entry of 1.
    log_scale : ndarray (n_rows,)
        The logs of what the likelihoods were divided by.
    rounding : ndarray (n_rows,)
        How far dividing may have moved a value, and these logs.
    index : object
        The labels of the rows of a frame, None for others.
    """

    table: RowTable
    likelihoods: dict[int, Floats]
    log_scale: Floats
    rounding: Floats
    index: Any = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.n_rows

    def take(self, rows: slice) -> RowEvidence:
        """Return some rows."""
        soft = {v: values[rows] for v, values in self.likelihoods.items()}
        return RowEvidence(self.table.take(rows), soft, self.log_scale[rows], self.rounding[rows])

    def states(self, row: int) -> Ints:
        """Return the observed states of a row, -1 for what is not ``(n_vars,)``."""
        codes = self.table.codes[:, row]
        return np.where(codes == self.table.missing, -1, codes.astype(np.int64))

    def rescaled(self, log_z: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats, Floats]:
        """Return values and their certified ends with the logs of the scales; a value that is an end stays that end."""
        if not self.likelihoods:
            return log_z, lower, upper
        point, exact = log_z + self.log_scale, lower == upper
        low, high = (np.where(exact, point, self._moved(end, sign)) for end, sign in ((lower, -1.0), (upper, 1.0)))
        return np.where(log_z == upper, high, np.where(log_z == lower, low, point)), low, high

    def rescaled_scores(self, score: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Return scores and certified upper bounds with the logs of the scales; what is proved optimal stays so."""
        if not self.likelihoods:
            return score, upper
        point = score + self.log_scale
        return point, np.where(score == upper, point, np.maximum(self._moved(upper, 1.0), point))

    def _moved(self, ends: Floats, sign: float) -> Floats:
        """Return ends with the logs of the scales, moved outwards by what that rounds; infinite ones stay."""
        moving = np.isfinite(ends) & (self.rounding > 0.0)
        inside = np.where(moving, ends, 0.0)
        error = self.rounding + 4.0 * UNIT * (np.abs(inside) + np.abs(self.log_scale))
        return np.where(moving, np.nextafter(inside + self.log_scale + sign * error, sign * np.inf), ends)


def read_evidence_rows(graph: FactorGraph, evidence: Any, likelihoods: Any = None) -> RowEvidence:
    """Return evidence as rows; ModelError names the row and the column of what cannot be read."""
    evidence = gathered(evidence)
    table = _dict_rows(graph, evidence) if are_records(evidence) else model_rows(graph, evidence)
    table = _with_own(graph, table)
    soft, log_scale, rounding = dict[int, Floats](), np.zeros(table.n_rows), np.zeros(table.n_rows)
    for ref, values in _items(likelihoods):
        v = graph.index(ref)
        logs, found = _likelihood(graph, v, values, table.n_rows)
        soft[v] = soft[v] * found if v in soft else found
        log_scale += logs
        spread = -np.log(np.where(found > 0.0, found, 1.0).min(axis=1))  # of the largest entry over the least
        rounding += np.where(logs == 0.0, 0.0, 4.0 * UNIT * (np.abs(logs) + spread + 1.0))
    framed = hasattr(evidence, "columns") and not isinstance(evidence, RowTable)
    return RowEvidence(table, soft, log_scale, rounding, getattr(evidence, "index", None) if framed else None)


def model_rows(graph: FactorGraph, data: Any) -> RowTable:
    """Return data as rows over a model's variables; variables without a column are unobserved in every row."""
    names = [graph.naming.name(v) for v in range(graph.n_vars)]
    return read_rows(data, graph.naming, hidden=names if are_chunks(data) else without_column(data, graph.naming))


def _dict_rows(graph: FactorGraph, rows: Any) -> RowTable:
    naming = graph.naming
    labels = tuple(naming.states(v) for v in range(graph.n_vars))
    kind = code_type(int(graph.layout.card.max(initial=1)))
    codes = np.full((graph.n_vars, len(rows)), np.iinfo(kind).max, kind)
    known: dict[Any, tuple[tuple[int, int], ...]] = {}  # what each entry means: most occur in many rows
    at, which, states = list[int](), list[int](), list[int]()
    for number, row in enumerate(rows):
        seen: dict[int, int] = {}
        for ref, value in row.items():
            try:
                found = known.get((ref, type(value), value))
            except TypeError:  # no key: let the naming refuse it
                found = None
            if found is None:
                try:
                    found = tuple(naming.evidence({ref: value}).items())
                except ModelError as error:
                    raise ModelError(f"row {number}: {error}") from None
                known[ref, type(value), value] = found
            for v, x in found:
                if seen.setdefault(v, x) != x:
                    raise ModelError(f"row {number}: evidence gives two states for variable {naming.name(v)!r}")
        at += [number] * len(seen)
        which += seen.keys()
        states += seen.values()
    codes[which, at] = states
    return RowTable(tuple(naming.name(v) for v in range(graph.n_vars)), labels, codes)


def _with_own(graph: FactorGraph, table: RowTable) -> RowTable:
    """Return the rows with the model's own evidence in each; ModelError where one contradicts it."""
    own = np.flatnonzero(graph.evidence_states >= 0)
    if not own.size:
        return table
    codes, states = table.codes.copy(), graph.evidence_states
    for v in own:
        wrong = (codes[v] != table.missing) & (codes[v] != states[v])
        if wrong.any():
            row, name = int(np.argmax(wrong)), graph.naming.name(int(v))
            old, new = graph.naming.label(int(v), int(states[v])), graph.naming.label(int(v), int(codes[v, row]))
            raise ModelError(
                f"row {row}: variable {name!r} is already observed as {old!r} in the model, and cannot become {new!r}"
            )
        codes[v] = states[v]
    return RowTable(table.names, table.labels, codes)


def _items(likelihoods: Any) -> list[tuple[Any, Any]]:
    if likelihoods is None:
        return []
    if not hasattr(likelihoods, "items"):
        raise ModelError(f"likelihoods must map variables to arrays (rows, states), found {type(likelihoods).__name__}")
    return list(likelihoods.items())


def _likelihood(graph: FactorGraph, v: int, values: Any, n_rows: int) -> tuple[Floats, Floats]:
    """Return the logs of the largest entries of a variable's likelihoods, and these divided by them."""
    name, shape = graph.naming.name(v), (n_rows, int(graph.layout.card[v]))
    try:
        found = np.array(values)
    except ValueError:  # NumPy's word for rows of different length
        raise ModelError(
            f"likelihoods of {name!r} must be numbers of shape {shape}, found rows of different length"
        ) from None
    if found.shape != shape or found.dtype.kind not in "biuf":
        raise ModelError(f"likelihoods of {name!r} must be numbers of shape {shape}, found {found.dtype} {found.shape}")
    numbers = found.astype(np.float64)
    wrong = ~((numbers >= 0.0) & (numbers < np.inf)).all(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ModelError(f"likelihood of {name!r}, row {row}: expected finite numbers of at least 0")
    tops = numbers.max(axis=1)
    if not tops.all():
        raise ModelError(f"likelihood of {name!r}, row {int(np.argmin(tops))}: it is zero for every state")
    return np.log(tops), numbers / tops[:, None]
