"""The factor graph: what every model becomes, and the one gate through which numbers reach kernels.

    p(x) = (1/Z) prod_f exp theta_f(x_f),      Z = sum_x prod_f exp theta_f(x_f)

A graph is a :class:`Layout` (integers, shared) and ``theta`` (one flat float64 vector of log potentials, read-only);
``graph.variables[i]`` and ``graph.factors[f]`` are views made on demand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from beliefs.display.description import Described, Description
from beliefs.errors import ModelError
from beliefs.kernels.layout import condition_cells, log_scores
from beliefs.model.describing import describe_graph
from beliefs.model.factor import Factor, check_axes, check_logs, log_table, numbers_key, numeric, scopes_and_tables
from beliefs.model.layout import Layout, frozen, frozen_ints, offsets, read_only, sums_to_one
from beliefs.model.named import Built, Named, way_in
from beliefs.model.naming import Naming, checked_pairs
from beliefs.model.variable import Variable
from beliefs.model.views import Factors, Variables
from beliefs.typing import Bools, Evidence, Floats, Ints, StateRef, VariableRef

__all__ = ["FactorGraph", "Model", "as_factor_graph"]


@runtime_checkable
class Model(Protocol):
    """Anything that can be turned into a factor graph."""

    def to_factor_graph(self) -> FactorGraph:
        """Return the equivalent factor graph."""
        ...


def as_factor_graph(model: Model) -> FactorGraph:
    """Return the factor graph of any model of this library, or raise a ModelError."""
    if isinstance(model, FactorGraph):
        return model
    made = getattr(model, "to_factor_graph", None)  # what isinstance would ask of a protocol, in a tenth of the time
    if callable(made) and not isinstance(model, type):
        graph: object = made()
        if isinstance(graph, FactorGraph):
            return graph
    found = f"{type(model).__name__}{way_in(model)}"
    raise ModelError(f"expected a model (FactorGraph, BayesianNetwork, ...), found {found}")


@dataclass(frozen=True, eq=False)
class FactorGraph(Named, Described, metaclass=Built):
    """A product of non-negative tables over discrete variables.

    Build with :meth:`from_factors`, :meth:`from_tables` or :meth:`pairwise`. Immutable: every change is a new graph,
    and graphs of the same structure share their layout and the plans kept on it.

    Attributes
    ----------
    layout : Layout
    theta : ndarray (n_cells,)
        Log potentials, factor by factor, last variable of a scope fastest; ``-inf`` is a true zero.
    naming : Naming
        Names and state labels (``x0, x1, ...`` and ``"0", "1", ...`` unless given).
    evidence_states : ndarray (n_vars,)
        The observed state of each variable, -1 where unobserved.
    parent_cells : ndarray (n_cells,) or None
        After :meth:`condition`, ``theta == parent.theta[parent_cells]``.
    kind : str
        Header word kept for UAI files, ``"MARKOV"`` or ``"BAYES"``.
    children : ndarray (n_factors,) or None
        For a Bayesian network, the variable whose conditional table each factor is (-1: none).
    without_evidence : FactorGraph or None
        Of a Bayesian network with evidence, the graph before.

    Examples
    --------
    >>> g = FactorGraph.from_tables([2, 2], [((0,), [0.5, 0.5]), ((0, 1), [[0.9, 0.1], [0.2, 0.8]])])
    >>> round(float(np.exp(g.log_score([1, 1]))), 12)
    0.4
    >>> g.condition({"x1": 1}).theta.shape
    (4,)
    """

    layout: Layout
    theta: Floats
    naming: Naming
    evidence_states: Ints
    parent_cells: Ints | None = None
    kind: str = "MARKOV"
    children: Ints | None = None
    without_evidence: FactorGraph | None = field(default=None, repr=False)

    # -- builders -----------------------------------------------------------------------------------------------
    @classmethod
    def build(
        cls, layout: Layout, theta: ArrayLike, naming: Naming | None = None, *, kind: str = "MARKOV"
    ) -> FactorGraph:
        """Pass the gate: float64, C order, read-only, of the layout's length, no nan, no ``+inf``."""
        values = numeric(theta, "theta")
        if values.shape != (layout.n_cells,):
            raise ModelError(f"theta must have shape ({layout.n_cells},), found {values.shape}")
        return cls.keeping(layout, values, naming or Naming.default(layout.card), kind=kind)

    @classmethod
    def keeping(cls, layout: Layout, theta: Floats, naming: Naming, *, kind: str = "MARKOV") -> FactorGraph:
        """Return what :meth:`build` returns without a copy: of an array in the right form that nobody else will use."""
        check_logs(theta, "theta")
        return cls(layout, read_only(theta), naming, read_only(np.full(layout.n_vars, -1, np.int64)), kind=kind)

    @classmethod
    def from_factors(cls, factors: Iterable[Factor], variables: Sequence[Variable] | None = None) -> FactorGraph:
        """Build from :class:`Factor` objects; variables are numbered by first appearance unless listed."""
        factor_list = list(factors)
        for f, factor in enumerate(factor_list):
            if not isinstance(factor, Factor):
                raise ModelError(
                    f"factor {f} must be a Factor, found {type(factor).__name__}; from_tables takes tables"
                )
        known: dict[str, Variable] = {v.name: v for v in variables or ()}
        if variables is not None and len(known) < len(variables):
            raise ModelError("two variables have the same name")
        for factor in factor_list:
            for v in factor.scope:
                if known.setdefault(v.name, v) != v:
                    raise ModelError(f"variable {v.name!r} occurs with different states")
        position = {name: index for index, name in enumerate(known)}
        scopes = [[position[v.name] for v in factor.scope] for factor in factor_list]
        layout = Layout.of_scopes([v.card for v in known.values()], scopes)
        theta = np.concatenate([f.log_table.ravel() for f in factor_list]) if factor_list else np.zeros(0)
        naming = Naming.of(tuple(known), tuple(v.states for v in known.values()), layout.card)
        return cls.build(layout, theta, naming)

    @classmethod
    def from_tables(
        cls,
        cards: ArrayLike,
        tables: Iterable[tuple[Sequence[VariableRef], ArrayLike]] | Mapping[Any, ArrayLike],
        *,
        log: bool = False,
        names: Sequence[str] | None = None,
        states: Sequence[Sequence[str] | None] | None = None,
    ) -> FactorGraph:
        """Build from cardinalities and ``(scope, table)`` pairs; tables are potentials, or logs with ``log=True``."""
        listed = tables.items() if isinstance(tables, Mapping) else tables
        pairs = checked_pairs(scopes_and_tables(listed, "factor"), names)
        layout = Layout.of_scopes(cards, [scope for scope, _ in pairs])
        theta = np.empty(layout.n_cells)
        for f, (_, values) in enumerate(pairs):
            what = f"table of factor {f} over {tuple(int(v) for v in layout.scope(f))}"
            table = numeric(values, what) if log else log_table(values, what=what)
            if table.size != layout.factor_size[f] or table.ndim > 1 and table.shape != layout.shape(f):
                raise ModelError(f"{what} must have shape {layout.shape(f)}, found {table.shape}")
            check_logs(table, what)
            theta[layout.cells(f)] = table.ravel()
        return cls.build(layout, theta, Naming.of(names, states, layout.card))

    @classmethod
    def pairwise(
        cls, unary: ArrayLike, edges: ArrayLike, tables: ArrayLike, *, names: Sequence[str] | None = None
    ) -> FactorGraph:
        """Build a pairwise model from log potentials: ``n`` unary factors, then ``m`` edges.

        Parameters
        ----------
        unary : array_like (n, K)
        edges : array_like of int (m, 2)
        tables : array_like (m, K, K), or (K, K) for one table tied over all edges
        """
        nodes, pairs = numeric(unary, "unary"), np.asarray(edges)
        if nodes.ndim != 2 or nodes.shape[1] < 1:
            raise ModelError(f"unary must have shape (n, K), found {nodes.shape}")
        pairs = pairs.reshape(0, 2) if pairs.size == 0 else pairs
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ModelError(f"edges must have shape (m, 2), found {pairs.shape}")
        (n, k), m = nodes.shape, len(pairs)
        table = numeric(tables, "tables")
        if table.shape not in {(m, k, k), (k, k)}:
            raise ModelError(f"tables must have shape ({m}, {k}, {k}) or ({k}, {k}), found {table.shape}")
        tied = table.ndim == 2 and m > 0
        scopes = read_only(np.concatenate([np.arange(n), frozen_ints(pairs, "edges").ravel()]))
        ptr = read_only(np.concatenate([np.arange(n), n + 2 * np.arange(m + 1)]))
        starts = read_only(np.concatenate([k * np.arange(n), np.full(m, n * k)])) if tied else None
        layout = Layout.build(np.full(n, k), ptr, scopes, starts)
        theta = np.concatenate([nodes.ravel(), table.ravel() if m else np.zeros(0)])
        return cls.keeping(layout, theta, Naming.of(names, None, layout.card))

    # -- views and names ----------------------------------------------------------------------------------------
    @property
    def n_vars(self) -> int:
        """Number of variables."""
        return self.layout.n_vars

    @property
    def _names(self) -> Naming:
        return self.naming

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return self.layout.n_factors

    @property
    def variables(self) -> Variables:
        """Sequence of :class:`Variable`, made on demand."""
        return Variables(self.naming)

    @property
    def factors(self) -> Factors:
        """Sequence of :class:`Factor`, made on demand."""
        return Factors(self)

    @cached_property
    def evidence(self) -> dict[int, int]:
        """Observed variables and their states, by index."""
        return {int(v): int(self.evidence_states[v]) for v in np.flatnonzero(self.evidence_states >= 0)}

    @cached_property
    def normalised(self) -> Bools:
        """Of each factor of a Bayesian network, whether its columns sum to one to rounding, ``(n_factors,)``.

        Evidence on parents leaves columns whole, so the tables are looked at once for all evidence.
        """
        if self.without_evidence is not None:
            return self.without_evidence.normalised
        found = np.zeros(self.n_factors, np.bool_)
        for f, v in enumerate(() if self.children is None else self.children.tolist()):
            found[f] = v in self.layout.scope(f) and sums_to_one(self.theta, self.layout, f, v)
        found.setflags(write=False)
        return found

    def index(self, variable: VariableRef) -> int:
        """Return the index of a variable given by name (str) or index (int)."""
        return self.naming.index(variable)

    def state(self, variable: VariableRef, state: StateRef) -> int:
        """Return the index of a state given by label (str) or index (int)."""
        return self.naming.state(self.naming.index(variable), state)

    # -- evidence -----------------------------------------------------------------------------------------------
    def condition(self, evidence: Evidence) -> FactorGraph:
        """Return the graph with some variables fixed; the only entrance for evidence.

        Every variable keeps its index, name and states, every factor its number; observed variables leave the
        scopes. Missing values (None, NaN), as in a pandas row, are skipped. Observing the same state again
        changes nothing; another state is a ModelError. Cost: one pass over the cells.
        """
        return self.observing(self.naming.observed(self.evidence_states, evidence))

    def observing(self, states: Ints) -> FactorGraph:
        """Return the graph with these states ``(n_vars,)`` observed, -1 where not; its own evidence is among them."""
        old = self.layout
        layout = old.conditioned(states >= 0)
        cells = np.empty(layout.n_cells, np.int64)
        condition_cells(old.card, old.scope_ptr, old.scope_vars, old.cell_ptr, states, layout.cell_ptr, cells)
        theta = self.theta[cells]
        for array in (states, cells, theta):
            array.setflags(write=False)
        before = None if self.children is None else self.without_evidence or self
        return FactorGraph(layout, theta, self.naming, states, cells, self.kind, self.children, before)

    def with_likelihood(self, likelihoods: Mapping[Any, ArrayLike | Mapping[Any, float]]) -> FactorGraph:
        """Return the graph with soft evidence, a unary factor per entry: ``{"A": [.7, .3]}``, or by label."""
        if not hasattr(likelihoods, "items"):
            raise ModelError(f"soft evidence maps variables to numbers, found {type(likelihoods).__name__}")
        extra: list[tuple[tuple[int], Floats]] = []
        for ref, values in likelihoods.items():
            v = self.index(ref)
            name, card = self.naming.name(v), int(self.layout.card[v])
            logs = log_table(self.naming.in_order(v, values), what=f"likelihood of {name!r}")
            if logs.shape != (card,):
                raise ModelError(f"likelihood of {name!r} must have shape ({card},), found {logs.shape}")
            if not (logs > -np.inf).any():
                raise ModelError(f"likelihood of {name!r} is zero for every state")
            extra.append(((v,), logs))
        return self.with_factors(extra)

    def with_factors(self, factors: Sequence[tuple[Sequence[VariableRef], ArrayLike]]) -> FactorGraph:
        """Return the graph with more factors, each ``(variables, log table)``, after the present ones.

        A table over observed variables is sliced at their states, as :meth:`condition` would have done.
        """
        old = self.layout
        scopes: list[Ints] = []
        tables: list[Floats] = []
        for variables, values in scopes_and_tables(factors, "new factor"):
            scope, table = self._sliced([self.index(v) for v in variables], values)
            scopes.append(np.array(scope, np.int64))
            tables.append(table)
        ends = old.scope_ptr[-1] + np.cumsum([len(s) for s in scopes], dtype=np.int64)
        sizes = np.array([table.size for table in tables], np.int64)
        layout = Layout.build(
            old.card,
            np.concatenate([old.scope_ptr, ends]),
            np.concatenate([old.scope_vars, *scopes]),
            np.concatenate([old.cell_ptr, old.n_cells + np.cumsum(sizes) - sizes]),
            old.observed,
        )
        theta = np.concatenate([self.theta, *tables])
        children = None
        if self.children is not None:
            children = np.concatenate([self.children, np.full(len(scopes), -1, np.int64)])
        graph = FactorGraph.build(layout, theta, self.naming, kind="MARKOV")
        return FactorGraph(layout, graph.theta, self.naming, self.evidence_states, kind="MARKOV", children=children)

    def _sliced(self, scope: list[int], values: ArrayLike) -> tuple[list[int], Floats]:
        """Return the unobserved part of a scope and the flat table over it."""
        shape = tuple(int(self.layout.card[v]) for v in scope)
        what = f"table of the new factor over ({', '.join(self.naming.name(v) for v in scope)})"
        table = numeric(values, what)
        if table.size != math.prod(shape) or table.ndim > 1 and table.shape != shape:
            raise ModelError(f"{what} must have shape {shape}, found {table.shape}")
        seen = self.evidence_states
        if any(seen[v] >= 0 for v in scope):
            check_axes(len(shape), "observe fewer variables of the new factor")
            table = table.reshape(shape)[tuple(slice(None) if seen[v] < 0 else int(seen[v]) for v in scope)]
        return [v for v in scope if seen[v] < 0], table.ravel()

    # -- values -------------------------------------------------------------------------------------------------
    def with_theta(self, theta: ArrayLike) -> FactorGraph:
        """Return the graph with other log potentials and the same layout (plans are shared)."""
        graph = FactorGraph.build(self.layout, theta, self.naming, kind="MARKOV")
        return FactorGraph(self.layout, graph.theta, self.naming, self.evidence_states, self.parent_cells)

    def lent(self, theta: Floats) -> FactorGraph:
        """Return what :meth:`with_theta` returns without a copy: C-ordered float64, not to change while it is used."""
        if theta.shape != (self.layout.n_cells,) or theta.dtype != np.float64 or not theta.flags.c_contiguous:
            return self.with_theta(theta)  # with a copy, or the reason why not
        check_logs(theta, "theta")
        values = theta.view()
        values.setflags(write=False)
        return FactorGraph(self.layout, values, self.naming, self.evidence_states, self.parent_cells)

    def log_score(self, assignment: ArrayLike | Mapping[Any, Any]) -> float:
        r"""Return :math:`\sum_f \theta_f(x_f)` of one complete assignment, ``-inf`` where it contradicts evidence.

        The assignment is an array of state indices ``(n_vars,)`` or a mapping that covers every unobserved variable.
        """
        if isinstance(assignment, Mapping):
            row = self.evidence_states.copy()
            for v, x in self.naming.evidence(assignment).items():
                row[v] = x
            if (row < 0).any():
                raise ModelError(f"the assignment gives no state for {self.naming.name(int(np.argmax(row < 0)))!r}")
        else:
            row = np.asarray(assignment)
            if row.shape != (self.n_vars,):
                raise ModelError(f"an assignment must have shape ({self.n_vars},), found {row.shape}")
        return float(self.log_scores(row[None, :])[0])

    def log_scores(self, samples: ArrayLike) -> Floats:
        """Return the log scores of many assignments, ``(n, n_vars)`` in and ``(n,)`` out."""
        rows = np.asarray(samples)
        if rows.ndim != 2 or rows.shape[1] != self.n_vars or (rows.size and rows.dtype.kind not in "iub"):
            raise ModelError(
                f"assignments must be integers of shape (n, {self.n_vars}), found {rows.shape} {rows.dtype}"
            )
        states = np.array(rows, dtype=np.int64, order="C")
        wrong = ((states < 0) | (states >= self.layout.card)).any(axis=0)
        if wrong.any():
            v = int(np.argmax(wrong))
            raise ModelError(f"variable {self.naming.name(v)!r} has states 0..{self.layout.card[v] - 1}")
        out = np.empty(len(states))
        lay = self.layout
        log_scores(lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, self.theta, states, out)
        out[((states != self.evidence_states) & lay.observed).any(axis=1)] = -np.inf
        return out

    def union(self, *others: FactorGraph, prefixes: Sequence[str] | None = None) -> FactorGraph:
        """Return the disjoint union; indices concatenate, names must stay unique or get ``prefixes``."""
        graphs = [self, *map(as_factor_graph, others)]
        shift = offsets([g.n_vars for g in graphs])
        cell_shift = offsets([g.layout.n_cells for g in graphs])
        edge_shift = offsets([g.layout.n_edges for g in graphs])
        layout = Layout.build(
            np.concatenate([g.layout.card for g in graphs]),
            np.concatenate([[0], *(g.layout.scope_ptr[1:] + s for g, s in zip(graphs, edge_shift, strict=False))]),
            np.concatenate([g.layout.scope_vars + s for g, s in zip(graphs, shift, strict=False)]),
            np.concatenate([g.layout.cell_ptr + s for g, s in zip(graphs, cell_shift, strict=False)]),
            np.concatenate([g.layout.observed for g in graphs]),
        )
        naming = Naming.union([g.naming for g in graphs], prefixes)
        theta = np.concatenate([g.theta for g in graphs])
        states = np.concatenate([g.evidence_states for g in graphs])
        for array in (theta, states):
            array.setflags(write=False)
        return FactorGraph(layout, theta, naming, states)

    def to_factor_graph(self) -> FactorGraph:
        """Return itself: a factor graph is a model like any other."""
        return self

    def to_networkx(self) -> Any:
        """Return the bipartite networkx graph; see :mod:`beliefs.model.networkx`."""
        from beliefs.model.networkx import to_networkx

        return to_networkx(self)

    @classmethod
    def from_networkx(cls, graph: Any) -> FactorGraph:
        """Build from a bipartite networkx graph as :meth:`to_networkx` makes it."""
        from beliefs.model.networkx import from_networkx

        return from_networkx(graph)

    def __eq__(self, other: object) -> bool:
        """Whether variables, states, factors, numbers and evidence are the same, in the same order.

        Order counts because an index means a variable everywhere. Where a graph came from does not.
        """
        if not isinstance(other, FactorGraph):
            return NotImplemented
        return self is other or (
            self.layout == other.layout
            and self.naming == other.naming
            and np.array_equal(self.evidence_states, other.evidence_states)
            and np.array_equal(self.theta, other.theta)
        )

    @cached_property
    def _hash(self) -> int:
        return hash((self.layout, self.evidence_states.tobytes(), numbers_key(self.theta)))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"without_evidence": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(frozen(state))

    def _description(self) -> Description:
        return describe_graph(self)

    def __repr__(self) -> str:
        seen = f", {len(self.evidence)} observed" if self.layout.observed.any() else ""
        return f"FactorGraph({self.n_vars} variables, {self.n_factors} factors, {self.layout.n_cells} cells{seen})"
