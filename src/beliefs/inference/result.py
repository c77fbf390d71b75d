"""What results have in common, and marginals: frozen, complete, and honest about what each number is worth."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from beliefs.display.description import MOST_ROWS, Cell, Chances, Described, Description
from beliefs.display.documents import json_text, plain
from beliefs.display.frames import frame
from beliefs.driver import Status, Trace
from beliefs.elsewhere import RESULTS, Hinting
from beliefs.errors import ModelError, NotConvergedError, UnsupportedError
from beliefs.inference.base import Bound, Method, Tables
from beliefs.inference.units import UnitMarginals
from beliefs.model.clamped_rbm import AskedModel, ClampedRBM
from beliefs.model.factor import check_axes
from beliefs.model.fractional_rbm import FractionalRBM
from beliefs.model.graph import FactorGraph, as_factor_graph
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.variable import as_index
from beliefs.typing import Floats, Ints, VariableRef

__all__ = ["InferenceResult", "Result"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result(Hinting, Described):
    """What every answer carries: the model asked about, what ran, why, and how it ended.

    ``repr(result)`` is a summary of four lines, ``print(result)`` also shows the first of what was found.
    ``result[variable]`` is what was found about one variable; the result runs through the names of those it knows.
    """

    _elsewhere: ClassVar[Mapping[str, str]] = RESULTS

    model: AskedModel
    method: Method
    reason: str
    status: Status
    trace: Trace
    n_iters: int
    seconds: float
    state: Any = field(default=None)

    @cached_property
    def graph(self) -> FactorGraph:
        """The factor graph asked about; that of a machine is made when it is first asked for."""
        if isinstance(self.model, FractionalRBM):
            raise UnsupportedError("a fractional machine has no factor graph; read visible, hidden and pairs")
        return as_factor_graph(self.model)

    @property
    def converged(self) -> bool:
        """Whether the method reached its tolerance (always true of exact methods)."""
        return self.status is Status.CONVERGED

    def require_converged(self) -> Any:
        """Return itself, or raise NotConvergedError with advice."""
        if not self.converged:
            raise NotConvergedError(f"{self.method} stopped after {self.n_iters} steps: {self.status.advice}")
        return self

    @abstractmethod
    def _value(self) -> tuple[str, str]:
        """Return the name of the number that was asked for, and the number with its worth."""

    @abstractmethod
    def __getitem__(self, variable: Any) -> Any:
        """Return what was found about a variable, by name or index."""

    def __iter__(self) -> Iterator[str]:
        return map(self.graph.naming.name, self._known())

    def __contains__(self, variable: object) -> bool:
        return isinstance(variable, str) and variable in self.graph and self.graph.index(variable) in self._known()

    @abstractmethod
    def to_frame(self) -> Any:
        """Return the answer as a pandas frame; pandas must be installed."""

    def to_dict(self, variables: Sequence[VariableRef] | None = None) -> dict[str, Any]:
        """Return the answer as plain Python: words, numbers, lists, and dicts by name; infinities are None.

        The keys are those of ``--json`` at the command line. ``variables``: those to tell about; None: all it knows.
        """
        naming = self.graph.naming
        shown = self._known() if variables is None else naming.indices(variables, "variables")
        for v in set(shown).difference(self._known()):
            raise UnsupportedError(f"nothing is known here about {naming.name(v)!r}: it was not asked for")
        return {
            "evidence": {naming.name(v): naming.label(v, x) for v, x in self.graph.evidence.items()},
            **{name: plain(value) for name, value in self._numbers().items()},
            "method": repr(self.method),
            "reason": self.reason,
            "status": self.status.name,
            "advice": self.status.advice,
            "converged": self.converged,
            "n_iters": self.n_iters,
            "seconds": self.seconds,
            "trace": {name: plain(getattr(self.trace, name)) for name in self.trace.columns},
            **self._found(shown),
        }

    def to_json(self) -> str:
        """Return :meth:`to_dict` as JSON, one key a line."""
        return json_text(self.to_dict())

    @abstractmethod
    def _known(self) -> Sequence[int]:
        """Return the variables that the answer tells about."""

    @abstractmethod
    def _numbers(self) -> dict[str, Any]:
        """Return what the answer is worth: its value, its bound, its certified interval."""

    @abstractmethod
    def _found(self, shown: Sequence[int]) -> dict[str, Any]:
        """Return what was found about some variables, by their names, as plain Python."""

    @abstractmethod
    def _table(self) -> tuple[str, list[str], list[list[Cell]], int]:
        """Return a caption, the columns, the first rows of the answer, and how many there are."""

    def _facts(self) -> list[tuple[str, str]]:
        steps = f"{self.n_iters} step{'' if self.n_iters == 1 else 's'}"
        ended = f"{self.status} after {steps}, {self.seconds:.3g} s"
        return [("method", f"{self.method}"), self._value(), ("status", ended)]

    def _worth(self) -> list[tuple[str, str]]:
        """Return what the numbers are worth in words, where the value does not say so."""
        return []

    def _description(self) -> Description:
        facts = [*self._facts(), *self._worth()]
        if self.reason != "as asked":
            facts.insert(1, ("because", self.reason))
        if not self.converged:
            facts.append(("advice", self.status.advice))
        return Description(type(self).__name__, facts, *self._table())

    def __repr__(self) -> str:
        return Description(type(self).__name__, self._facts()).text()

    def __str__(self) -> str:
        return self._description().text()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class InferenceResult(Result):
    """Answer to ``infer``: log Z and marginals.

    Attributes
    ----------
    log_z : float
        The point value, in nats; evidence and constants included.
    bound : Bound
        What ``log_z`` is: EXACT, UPPER, LOWER or ESTIMATE, true at the returned iterate.
    log_lower, log_upper : float
        Certified interval; -inf and +inf where unknown.
    mu_var : ndarray (n_states,)
        Variable marginals, one after the other; observed variables are point masses.
    mu_factor : ndarray
        Factor marginals, one after the other, each normalised; message passing makes them when they are asked for.
    pruned : ndarray of bool (n_vars,)
        Variables left out because they were not among the targets; their marginals are not available.
    exact_marginals : bool
        Whether the marginals are exact. Where bounds met, ``log_z`` is and they are estimates all the same.
    """

    of_log_z: ClassVar[tuple[str, ...]] = ()
    """Fields of this kind of result, besides those of all, that a constant factor moves."""

    log_z: float
    bound: Bound
    log_lower: float
    log_upper: float
    mu_var: Floats
    tables: Tables
    pruned: Any
    exact_marginals: bool
    _joint: Callable[[tuple[int, ...]], Floats | None] | None

    @cached_property
    def mu_factor(self) -> Floats:
        """The factors' marginals, made from ``tables`` on first use."""
        tables = self.tables() if callable(self.tables) else self.tables
        tables.setflags(write=False)
        return tables

    def __getstate__(self) -> dict[str, Any]:
        arrays = self.tables if isinstance(self.tables, UnitMarginals) else self.mu_factor
        return self.__dict__ | {"tables": arrays}  # arrays travel, functions may not

    # -- units of a machine -----------------------------------------------------------------------------------------
    @cached_property
    def units(self) -> UnitMarginals:
        """The marginals of a restricted Boltzmann machine as matrices."""
        if isinstance(self.tables, UnitMarginals):
            return self.tables
        machine, tables = self.model, self.mu_factor
        if isinstance(machine, ClampedRBM):
            machine, cells = machine.machine, self.graph.parent_cells
            tables = np.zeros(machine.to_factor_graph().layout.n_cells)
            tables[cells] = self.mu_factor
        if not isinstance(machine, BoltzmannMachine):
            raise UnsupportedError("visible, hidden and pairs are those of an RBM; make one by RBM.from_factor_graph")
        shape = n, m = machine.weights.shape
        ones = self.mu_var[1::2]
        pairs = tables[2 * (n + m) :].reshape(*shape, 4)[:, :, 3]
        return UnitMarginals(ones[:n], ones[n:], pairs)

    @property
    def visible(self) -> Floats:
        """P(v = 1) of a machine's visible units, ``(n_visible,)``."""
        return self.units.visible

    @property
    def hidden(self) -> Floats:
        """P(h = 1) of a machine's hidden units, ``(n_hidden,)``."""
        return self.units.hidden

    @property
    def pairs(self) -> Floats:
        """P(v = 1, h = 1) of each visible and each hidden unit, ``(n_visible, n_hidden)``."""
        return self.units.pairs

    @cached_property
    def mu(self) -> Floats:
        """Expected statistics, ``(n_cells,)``: the gradient of log Z in theta; tied cells hold sums."""
        self._check_whole("mu")
        sums = self.graph.layout.in_cells(self.mu_factor)
        if sums is not self.mu_factor:
            sums.setflags(write=False)
        return sums

    def __getitem__(self, variable: VariableRef | tuple[VariableRef, ...]) -> Floats:
        """Return ``marginal(variable)``, of several variables their joint."""
        return self.marginal(variable)

    def marginal(self, variables: VariableRef | Iterable[VariableRef]) -> Floats:
        """Return the marginal of one variable, or the joint of several with one axis each.

        Exact methods answer for any set within the budget; others where a factor covers it, else UnsupportedError.
        """
        if isinstance(variables, Mapping | Set):
            kind = type(variables).__name__
            raise ModelError(f"marginal takes a variable, or a list of them in the order of the axes, found {kind}")
        if isinstance(variables, str) or not isinstance(variables, Iterable):
            return self._single(self.graph.index(variables))
        scope = tuple(self.graph.index(v) for v in variables)
        if len(set(scope)) < len(scope):
            raise ModelError("a joint marginal must not name a variable twice")
        check_axes(len(scope), "ask for fewer variables")
        for v in scope:
            self._check_kept(v)
        hidden = tuple(v for v in scope if not self.graph.layout.observed[v])
        table = self._hidden_joint(hidden)
        shape = [int(self.graph.layout.card[v]) for v in scope]
        full = np.zeros(shape)
        seen = self.graph.evidence_states
        full[tuple(slice(None) if v in hidden else int(seen[v]) for v in scope)] = table
        return full

    def marginals(self) -> dict[str, Floats]:
        """Return the marginals of all variables, ``{name: probabilities}``; with ``targets`` those that were kept."""
        naming = self.graph.naming
        return {naming.name(int(v)): self._single(int(v)) for v in np.flatnonzero(~self.pruned)}

    def to_frame(self) -> Any:
        """Return a pandas frame of a row a state: ``variable``, ``state``, ``probability``."""
        naming, kept = self.graph.naming, np.flatnonzero(~self.pruned)
        names = [naming.name(int(v)) for v in kept for _ in range(int(naming.card[v]))]
        labels = [label for v in kept for label in naming.states(int(v))]
        chances = self.mu_var[np.repeat(~self.pruned, self.graph.layout.card)]
        return frame({"variable": names, "state": labels, "probability": chances})

    def _single(self, v: int) -> Floats:
        self._check_kept(v)
        ptr = self.graph.layout.state_ptr
        return self.mu_var[ptr[v] : ptr[v + 1]]

    def _check_kept(self, v: int) -> None:
        if self.pruned[v]:
            name = self.graph.naming.name(v)
            raise UnsupportedError(f"the marginal of {name!r} was not computed; add it to targets")

    def _check_whole(self, what: str) -> None:
        if self.pruned.any():
            raise UnsupportedError(f"{what} needs the marginals of all variables; infer without targets")

    def _hidden_joint(self, scope: tuple[int, ...]) -> Floats:
        if not scope:
            return np.ones(())
        if len(scope) == 1:
            return self._single(scope[0])
        layout = self.graph.layout
        for e in layout.var_edges[layout.var_ptr[scope[0]] : layout.var_ptr[scope[0] + 1]]:
            f = int(layout.edge_factor[e])
            axes = [int(v) for v in layout.scope(f)]
            if set(scope) <= set(axes) and not self.pruned[axes].any():
                return self._sum_out(f, scope)
        joint = None if self._joint is None else self._joint(scope)
        if joint is None:
            names = ", ".join(self.graph.naming.name(v) for v in scope)
            raise UnsupportedError(
                f"no factor covers ({names}); {self.method.name} gives joints of factors only: use junction_tree"
            )
        return joint

    def _sum_out(self, f: int, scope: tuple[int, ...]) -> Floats:
        """Return the marginal of some of a factor's variables; by flat index, for the factor may have many axes."""
        layout = self.graph.layout
        table = self.mu_factor[layout.table_ptr[f] : layout.table_ptr[f + 1]]
        place = np.arange(table.size)
        digit: dict[int, Ints] = {}
        for v in layout.scope(f)[::-1]:
            place, digit[int(v)] = np.divmod(place, layout.card[v])
        shape = tuple(int(layout.card[v]) for v in scope)
        cell = np.zeros(table.size, np.int64)
        for v in scope:
            cell = cell * layout.card[v] + digit[v]
        summed = np.bincount(cell, weights=table, minlength=math.prod(shape)).astype(np.float64, copy=False)
        return summed.reshape(shape)

    def factor_marginal(self, f: int) -> Floats:
        """Return the normalised marginal of factor ``f`` with one axis per variable of its scope."""
        layout = self.graph.layout
        number = as_index(f)
        if number is None or not -layout.n_factors <= number < layout.n_factors:
            raise ModelError(f"no factor {f!r}: the model has factors 0..{layout.n_factors - 1}")
        f = number % layout.n_factors
        for v in layout.scope(f):
            self._check_kept(int(v))
        check_axes(layout.scope(f).size, "read result.mu_factor")
        return self.mu_factor[layout.table_ptr[f] : layout.table_ptr[f + 1]].reshape(layout.shape(f))

    def mpm(self) -> Ints:
        """Return the state of largest marginal for each variable, ties to the smallest index."""
        self._check_whole("mpm")
        ptr = self.graph.layout.state_ptr
        return np.array([int(np.argmax(self.mu_var[a:b])) for a, b in zip(ptr[:-1], ptr[1:], strict=True)], np.int64)

    def mean(self) -> Floats:
        """Return the expected state index of each variable."""
        self._check_whole("mean")
        ptr = self.graph.layout.state_ptr
        index = np.arange(len(self.mu_var)) - np.repeat(ptr[:-1], self.graph.layout.card)
        return np.add.reduceat(self.mu_var * index, ptr[:-1])

    def entropy(self, variables: VariableRef | Sequence[VariableRef]) -> float:
        """Return the entropy of a marginal, in nats."""
        p = self.marginal(variables).ravel()
        p = p[p > 0]
        return float(max(0.0, -(p * np.log(p)).sum()))

    def mutual_information(self, u: VariableRef, v: VariableRef) -> float:
        """Return the mutual information of two variables, in nats."""
        if self.graph.index(u) == self.graph.index(v):
            return self.entropy(u)
        return max(0.0, self.entropy(u) + self.entropy(v) - self.entropy([u, v]))

    def _known(self) -> Sequence[int]:
        kept: list[int] = np.flatnonzero(~self.pruned).tolist()
        return kept

    def _numbers(self) -> dict[str, Any]:
        numbers = {"log_z": self.log_z, "log_lower": self.log_lower, "log_upper": self.log_upper}
        return {**numbers, "bound": self.bound.name, "exact_marginals": self.exact_marginals}

    def _found(self, shown: Sequence[int]) -> dict[str, Any]:
        naming = self.graph.naming
        tables = {naming.name(v): zip(naming.states(v), plain(self._single(v)), strict=True) for v in shown}
        return {"marginals": {name: dict(table) for name, table in tables.items()}}

    def _value(self) -> tuple[str, str]:
        return "log Z", f"{self.bound.sign} {self.log_z:.10g} ({self.bound})"

    def _table(self) -> tuple[str, list[str], list[list[Cell]], int]:
        rows: list[list[Cell]] = []
        if isinstance(self.model, FactorGraph):
            free = np.flatnonzero(~self.pruned & ~self.graph.layout.observed)
            for v in free[:MOST_ROWS].tolist():
                rows.append([self.graph.naming.name(v), Chances(self.graph.naming.states(v), self._single(v).tolist())])
        else:  # a machine, whose graph may be large, and is not needed for this
            n, ones = len(self.visible), self.mu_var[1::2]
            free = self.model.free_units if isinstance(self.model, ClampedRBM) else np.arange(ones.size)
            for v in free[:MOST_ROWS].tolist():
                name = f"v{v}" if v < n else f"h{v - n}"
                rows.append([name, Chances("01", (1 - ones[v], ones[v]))])
        n_rows = len(free)
        worth = "exact" if self.exact_marginals else f"estimates of {self.method.name}, without a guarantee"
        return f"marginals: {worth}", [], rows, n_rows

    def _worth(self) -> list[tuple[str, str]]:
        facts = [("worth", f"log Z is {self.bound.words}")]
        ends = [f"at least {self.log_lower:.10g}"] * (self.log_lower > -math.inf)
        ends += [f"at most {self.log_upper:.10g}"] * (self.log_upper < math.inf)
        if ends and self.bound is not Bound.EXACT:
            facts.append(("proved", f"log Z is {' and '.join(ends)}"))
        return facts
