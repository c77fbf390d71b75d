"""Answers about many rows of evidence, as arrays: one entry a row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from beliefs.display.description import MOST_ROWS, Cell, Chances, Described, Description
from beliefs.display.documents import json_text, plain
from beliefs.display.one_object import OneObject
from beliefs.elsewhere import RESULTS, Hinting
from beliefs.errors import ModelError, UnsupportedError
from beliefs.inference.base import Bound, Method
from beliefs.model.graph import FactorGraph
from beliefs.typing import Bools, Floats, Ints, VariableRef

__all__ = ["ManyDecodings", "ManyMarginals"]

_MOST_TARGETS, _MOST_COLUMNS = 3, 8  # variables that are shown


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Many(OneObject, Hinting, Described):
    """What both answers carry; ``index`` are the labels of the rows where they came in a frame.

    ``method`` is what all rows were asked of, or "auto" where each had a method of its own.
    """

    _elsewhere: ClassVar[Mapping[str, str]] = RESULTS

    model: FactorGraph
    method: Method | str
    reason: str
    converged: Bools
    seconds: float
    index: Any = None

    def __len__(self) -> int:
        return len(self.converged)

    __iter__ = None  # rows have numbers and variables names: which is meant must be said

    def __getitem__(self, variable: str) -> Any:
        """Return what was found about a variable in all rows."""
        if not isinstance(variable, str):
            raise ModelError("answers about rows are indexed by the name of a variable; a row is [i] of their arrays")
        return self._column(self.model.index(variable))

    def __contains__(self, variable: object) -> bool:
        return isinstance(variable, str) and variable in self.model and self._knows(self.model.index(variable))

    @abstractmethod
    def _knows(self, v: int) -> bool:
        """Whether something was found about a variable."""

    @abstractmethod
    def _column(self, v: int) -> Any:
        """Return what was found about a variable in each row."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain Python: words, numbers, and lists of one entry a row; infinities are None."""
        rows = {} if self.index is None else {"rows": [str(label) for label in self.index]}
        facts = {"method": f"{self.method}", "reason": self.reason, "seconds": self.seconds}
        return {**facts, **rows, "converged": plain(self.converged), **self._found()}

    def to_json(self) -> str:
        """Return :meth:`to_dict` as JSON, one key a line."""
        return json_text(self.to_dict())

    @abstractmethod
    def _found(self) -> dict[str, Any]:
        """Return numbers and states as plain Python."""

    def _frame(self, columns: dict[str, Any]) -> Any:
        try:
            import pandas as pd
        except ImportError:
            raise UnsupportedError("frames are pandas', which is not installed; read the arrays") from None
        return pd.DataFrame(columns, index=self.index)

    @property
    def _labels(self) -> list[str]:
        """What the rows that are shown are called."""
        return list(map(str, range(len(self)) if self.index is None else self.index))[:MOST_ROWS]

    @abstractmethod
    def _table(self) -> tuple[str, list[str], list[list[Cell]]]:
        """Return what the numbers are worth, the columns, and the cells of the first rows."""

    def _description(self) -> Description:
        worth, head, cells = self._table()
        short = int((~self.converged).sum())
        facts = [
            ("method", f"{self.method}"),
            *[("because", self.reason)] * (self.reason != "as asked"),
            ("rows", f"{len(self)}" + f", {short} of them not converged" * (short > 0)),
            ("worth", worth),
            ("took", f"{self.seconds:.3g} s"),
        ]
        rows = [[label, *row] for label, row in zip(self._labels, cells, strict=True)]
        return Description(type(self).__name__, facts, "", ["row", *head], rows, len(self))

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
        Log Z of the model with the row's evidence; -inf where that has probability zero (``log_upper`` is -inf, too).
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
        """Which rows are not known to have probability zero, ``(n_rows,)``."""
        return self.log_upper > -np.inf

    @cached_property
    def _start(self) -> dict[int, int]:
        ends = np.cumsum(self.model.layout.card[self.targets])
        return dict(zip(self.targets.tolist(), [0, *ends.tolist()], strict=False))

    def marginal(self, variable: VariableRef) -> Floats:
        """Return the marginal of a variable in each row, ``(n_rows, K)``; zeros in rows of probability zero."""
        return self._column(self.model.index(variable))

    def _knows(self, v: int) -> bool:
        return v in self._start

    def _column(self, v: int) -> Floats:
        if not self._knows(v):
            name = self.model.naming.name(v)
            raise UnsupportedError(f"the marginal of {name!r} was not computed; add it to targets")
        start = self._start[v]
        return self.marginals[:, start : start + int(self.model.layout.card[v])]

    def to_frame(self) -> Any:
        """Return a pandas frame: ``log_z``, then a column ``name=label`` for each state of each target."""
        naming = self.model.naming
        names = [f"{naming.name(v)}={label}" for v in self.targets.tolist() for label in naming.states(v)]
        return self._frame({"log_z": self.log_z, **dict(zip(names, self.marginals.T, strict=True))})

    def _found(self) -> dict[str, Any]:
        naming, chances = self.model.naming, dict[str, dict[str, Any]]()
        for v in self.targets.tolist():
            chances[naming.name(v)] = dict(zip(naming.states(v), plain(self._column(v).T), strict=True))
        numbers = {name: plain(getattr(self, name)) for name in ("log_z", "log_lower", "log_upper")}
        return {**numbers, "bound": self.bound.name, "marginals": chances}

    def _table(self) -> tuple[str, list[str], list[list[Cell]]]:
        naming, shown = self.model.naming, self.targets.tolist()[:_MOST_TARGETS]
        left = len(self.targets) - len(shown)
        cells: list[list[Cell]] = [
            [f"{self.log_z[row]:.6g}", *(Chances(naming.states(v), self.marginal(v)[row]) for v in shown)]
            for row in range(len(self._labels))
        ]
        more = f"; marginals of {left} more variables: to_frame()" if left else ""
        return f"log Z: {self.bound.words}{more}", ["log Z", *map(naming.name, shown)], cells

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

    def _knows(self, v: int) -> bool:
        return True

    def _column(self, v: int) -> Any:
        """Return the labels of a variable, ``(n_rows,)``, None in rows of probability zero."""
        return np.array([*self.model.naming.states(v), None], object)[self.assignment[:, v]]

    def to_frame(self) -> Any:
        """Return a pandas frame: ``log_score``, then a column of labels for each variable, None where there is none."""
        return self._frame({"log_score": self.log_score, **self._columns()})

    def _columns(self) -> dict[str, Any]:
        return {self.model.naming.name(v): self._column(v) for v in range(self.model.n_vars)}

    def _found(self) -> dict[str, Any]:
        numbers = {name: plain(getattr(self, name)) for name in ("log_score", "log_upper", "gap")}
        return {**numbers, "assignment": {name: labels.tolist() for name, labels in self._columns().items()}}

    def _table(self) -> tuple[str, list[str], list[list[Cell]]]:
        naming, shown = self.model.naming, range(min(self.model.n_vars, _MOST_COLUMNS))
        left = self.model.n_vars - len(shown)
        cells: list[list[Cell]] = [
            [f"{score:.6g}", *(naming.states(v)[x] if (x := int(found[v])) >= 0 else "" for v in shown)]
            for score, found in zip(self.log_score[: len(self._labels)], self.assignment, strict=False)
        ]
        more = f"; states of {left} more variables: to_frame()" if left else ""
        return f"{int((self.gap == 0.0).sum())} proved to be best{more}", ["score", *map(naming.name, shown)], cells

    def __repr__(self) -> str:
        proofs = int((self.gap == 0.0).sum())
        return self._line(f"{proofs} optimal", int((self.log_upper == -np.inf).sum()))
