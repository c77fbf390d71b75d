"""Answers about many rows of evidence, as arrays: one entry a row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from beliefs.errors import UnsupportedError
from beliefs.inference.base import Bound, Method
from beliefs.model.graph import FactorGraph
from beliefs.typing import Bools, Floats, Ints, VariableRef

__all__ = ["ManyDecodings", "ManyMarginals"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Many:
    """What both answers carry; ``index`` are the labels of the rows where they came in a frame.

    ``method`` is what all rows were asked of, or "auto" where each had a method of its own.
    """

    model: FactorGraph
    method: Method | str
    reason: str
    converged: Bools
    seconds: float
    index: Any = None

    def __len__(self) -> int:
        return len(self.converged)

    def _frame(self, columns: dict[str, Any]) -> Any:
        try:
            import pandas as pd
        except ImportError:
            raise UnsupportedError("frames are pandas', which is not installed; read the arrays") from None
        return pd.DataFrame(columns, index=self.index)

    def _line(self, value: str, impossible: int) -> str:
        zero = f", {impossible} of probability zero" if impossible else ""
        short = int((~self.converged).sum())
        rest = f", {short} not converged" if short else ""
        rows = f"{len(self)} row{'' if len(self) == 1 else 's'}"
        return f"{type(self).__name__}({self.method}: {rows}{zero}{rest}; {value})"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ManyMarginals(_Many):
    """Answer to :func:`beliefs.infer_many`: log Z and marginals of each row.

    Attributes
    ----------
    log_z : ndarray (n_rows,)
        Log Z of the model with the row's evidence; -inf where that has probability zero.
    bound : Bound
        What they are: EXACT, UPPER, LOWER or ESTIMATE, true of all.
    log_lower, log_upper : ndarray (n_rows,)
        Certified intervals; -inf and +inf where unknown.
    targets : ndarray
        The variables with marginals, ascending.
    marginals : ndarray (n_rows, states of the targets)
        Their marginals side by side; zeros in rows of probability zero.
    converged : ndarray of bool (n_rows,)
    """

    log_z: Floats
    bound: Bound
    log_lower: Floats
    log_upper: Floats
    targets: Ints
    marginals: Floats

    @cached_property
    def possible(self) -> Bools:
        """Which rows have a probability above zero, ``(n_rows,)``."""
        return self.log_z > -np.inf

    @cached_property
    def _start(self) -> dict[int, int]:
        ends = np.cumsum(self.model.layout.card[self.targets])
        return dict(zip(self.targets.tolist(), [0, *ends.tolist()], strict=False))

    def marginal(self, variable: VariableRef) -> Floats:
        """Return the marginal of a variable in each row, ``(n_rows, K)``; zeros in rows of probability zero."""
        v = self.model.index(variable)
        if v not in self._start:
            name = self.model.naming.name(v)
            raise UnsupportedError(f"the marginal of {name!r} was not computed; add it to targets")
        start = self._start[v]
        return self.marginals[:, start : start + int(self.model.layout.card[v])]

    def to_frame(self) -> Any:
        """Return a pandas frame: ``log_z``, then a column ``name=label`` for each state of each target."""
        naming = self.model.naming
        names = [f"{naming.name(v)}={label}" for v in self.targets.tolist() for label in naming.states(v)]
        return self._frame({"log_z": self.log_z, **dict(zip(names, self.marginals.T, strict=True))})

    def __repr__(self) -> str:
        return self._line(f"log Z {self.bound}", int((~self.possible).sum()))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ManyDecodings(_Many):
    """Answer to :func:`beliefs.maximize_many`: a complete assignment for each row.

    Attributes
    ----------
    assignment : ndarray (n_rows, n_vars)
        The states found; -1 in rows of probability zero.
    log_score : ndarray (n_rows,)
        Their scores, -inf where no state of positive weight exists or was found.
    log_upper : ndarray (n_rows,)
        Upper bounds of the best scores.
    """

    assignment: Ints
    log_score: Floats
    log_upper: Floats

    @property
    def gap(self) -> Floats:
        """Distances from a proof, ``(n_rows,)``: 0 is one, inf without an upper bound."""
        gap = np.full(len(self), np.inf)
        known = self.log_score > -np.inf
        gap[known] = np.maximum(0.0, self.log_upper[known] - self.log_score[known])
        return gap

    def to_frame(self) -> Any:
        """Return a pandas frame: ``log_score``, then a column of labels for each variable, None where there is none."""
        naming, columns = self.model.naming, {"log_score": self.log_score}
        for v in range(self.model.n_vars):
            labels = np.array([*naming.states(v), None], object)
            columns[naming.name(v)] = labels[self.assignment[:, v]]
        return self._frame(columns)

    def __repr__(self) -> str:
        proofs = int((self.gap == 0.0).sum())
        return self._line(f"{proofs} optimal", int((self.log_upper == -np.inf).sum()))
