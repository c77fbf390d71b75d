"""Bayesian networks: a directed acyclic graph and one conditional table for each variable.

    p(x) = prod_v p(x_v | x_parents(v))

The table of ``v`` has axes ``(parents..., v)``, the child last (fastest), as in UAI files; each column, that is each
run along the last axis, sums to one within 1e-4. Numbers are kept as given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from beliefs.display.description import Described, Description
from beliefs.elsewhere import NETWORKS
from beliefs.errors import ModelError
from beliefs.kernels.layout import ancestral_samples
from beliefs.model.describing import describe_network
from beliefs.model.factor import log_table, numeric
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.model.layout import Layout, frozen
from beliefs.model.named import Built, Named
from beliefs.model.naming import Naming
from beliefs.model.variable import Variable
from beliefs.model.views import Variables
from beliefs.options import MANY, check_integer
from beliefs.typing import Evidence, Floats, Ints, StateRef, VariableRef

__all__ = ["BayesianNetwork", "topological_order"]

COLUMN_TOLERANCE = 1e-4  # published networks are rounded to about four digits


@dataclass(frozen=True, eq=False)
class BayesianNetwork(Named, Described, metaclass=Built):
    """A Bayesian network; build with :meth:`from_cpts` or :meth:`from_factor_graph`.

    Factor ``v`` of ``graph`` is the conditional table of variable ``v``. ``probabilities (n_cells,)`` holds the
    numbers as they were given, ``graph.theta`` their logs.

    Examples
    --------
    >>> rain, grass = Variable("Rain", ["no", "yes"]), Variable("Grass", ["dry", "wet"])
    >>> bn = BayesianNetwork.from_cpts(
    ...     [rain, grass], {"Rain": ([], [0.8, 0.2]), "Grass": (["Rain"], [[0.9, 0.1], [0.2, 0.8]])}
    ... )
    >>> bn.parents("Grass")
    ('Rain',)
    """

    _elsewhere: ClassVar[Mapping[str, str]] = NETWORKS

    graph: FactorGraph
    probabilities: Floats
    order: Ints
    properties: Mapping[str, str]

    @classmethod
    def from_cpts(
        cls,
        variables: Sequence[Variable],
        cpts: Mapping[str, tuple[Sequence[str], ArrayLike]],
        *,
        properties: Mapping[str, str] | None = None,
    ) -> BayesianNetwork:
        """Build from ``{child: (parents, table)}``; the table's axes are the parents, then the child."""
        for v in variables:
            if not isinstance(v, Variable):
                raise ModelError(f"variables are listed as Variable(name, states), found {v!r}")
        position = {v.name: k for k, v in enumerate(variables)}
        if len(position) < len(variables):
            raise ModelError("two variables have the same name")
        naming = Naming.of(
            list(position), [v.states for v in variables], np.array([v.card for v in variables], np.int64)
        )
        for child in cpts:
            naming.index(child)
        scopes: list[list[int]] = []
        tables: list[Floats] = []
        for v in variables:
            if v.name not in cpts:
                raise ModelError(f"variable {v.name!r} has no conditional table")
            parents, values = _parents_and_table(cpts[v.name], v.name)
            scope = [naming.index(p) for p in parents] + [position[v.name]]
            shape = tuple(int(naming.card[u]) for u in scope)
            table = numeric(values, f"conditional table of {v.name!r}")
            if table.size != np.prod(shape, dtype=float) or table.ndim > 1 and table.shape != shape:
                axes = " (parents' states, then its own)" if parents else ""
                raise ModelError(f"conditional table of {v.name!r} must have shape {shape}{axes}, found {table.shape}")
            scopes.append(scope)
            tables.append(table.ravel())
        ends = np.cumsum([len(s) for s in scopes], dtype=np.int64)
        flat = np.array([u for s in scopes for u in s], np.int64)
        layout = Layout.build(naming.card, np.concatenate([[0], ends]), flat)
        return cls.build(layout, np.concatenate([*tables, np.zeros(0)]), naming, properties)

    @classmethod
    def from_factor_graph(cls, model: Model) -> BayesianNetwork:
        """Read a factor graph as a Bayesian network: factor ``f``'s last variable is its child. Validates."""
        graph = as_factor_graph(model)
        if graph.layout.observed.any():
            raise ModelError("a graph with evidence is not a Bayesian network; convert before conditioning")
        children = [
            int(graph.layout.scope(f)[-1]) if graph.layout.scope(f).size else -1 for f in range(graph.n_factors)
        ]
        if sorted(children) != list(range(graph.n_vars)):
            raise ModelError("each variable must be the last of exactly one factor's scope to be its child")
        order = np.argsort(children)
        names = [graph.naming.name(v) for v in range(graph.n_vars)]
        cpts = {
            names[children[f]]: (
                [names[u] for u in graph.layout.scope(f)[:-1]],
                np.exp(graph.theta[graph.layout.cells(f)]),
            )
            for f in order
        }
        return cls.from_cpts(list(graph.variables), cpts)

    @classmethod
    def build(
        cls, layout: Layout, probabilities: Floats, naming: Naming, properties: Mapping[str, str] | None = None
    ) -> BayesianNetwork:
        """Check a layout whose factor ``v`` is the conditional table of variable ``v``, child last, and its numbers.

        ``probabilities`` is taken over, not copied, and made read-only.
        """
        theta = log_table(probabilities, what="conditional tables")
        for v in range(layout.n_vars):
            _check_columns(probabilities[layout.cells(v)], layout, v, naming)
        probabilities.setflags(write=False)
        base = FactorGraph.build(layout, theta, naming, kind="BAYES")
        children = np.arange(layout.n_vars, dtype=np.int64)
        children.setflags(write=False)
        graph = FactorGraph(layout, base.theta, naming, base.evidence_states, kind="BAYES", children=children)
        return cls(graph, probabilities, topological_order(layout, naming), dict(properties or {}))

    # -- the graph ----------------------------------------------------------------------------------------------
    @property
    def n_vars(self) -> int:
        """Number of variables."""
        return self.graph.n_vars

    @property
    def _names(self) -> Naming:
        return self.graph.naming

    @property
    def variables(self) -> Variables:
        """Sequence of :class:`Variable`."""
        return self.graph.variables

    def index(self, variable: VariableRef) -> int:
        """Return the index of a variable given by name or index."""
        return self.graph.index(variable)

    def state(self, variable: VariableRef, state: StateRef) -> int:
        """Return the index of a state given by label or index."""
        return self.graph.state(variable, state)

    def parents(self, variable: VariableRef) -> tuple[str, ...]:
        """Names of the parents, in the order of the table's axes."""
        scope = self.graph.layout.scope(self.index(variable))
        return tuple(self.graph.naming.name(int(u)) for u in scope[:-1])

    def children(self, variable: VariableRef) -> tuple[str, ...]:
        """Names of the children, in the order of the variables."""
        name = self.graph.naming.name(self.index(variable))
        return tuple(child for parent, child in self.edges if parent == name)

    def cpt(self, variable: VariableRef) -> Floats:
        """Conditional table with axes ``(parents..., child)``, as given."""
        v = self.index(variable)
        layout = self.graph.layout
        return self.probabilities[layout.cells(v)].reshape(layout.shape(v))

    @cached_property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Arcs ``(parent, child)`` by name."""
        return tuple((p, v.name) for v in self.variables for p in self.parents(v.name))

    def to_networkx(self) -> Any:
        """Return the directed networkx graph; see :mod:`beliefs.model.networkx`."""
        from beliefs.model.networkx import network_to_networkx

        return network_to_networkx(self)

    @classmethod
    def from_networkx(cls, graph: Any) -> BayesianNetwork:
        """Build from a directed networkx graph as :meth:`to_networkx` makes it."""
        from beliefs.model.networkx import network_from_networkx

        return network_from_networkx(graph)

    @classmethod
    def from_pgmpy(cls, model: Any) -> BayesianNetwork:
        """Build from a network of pgmpy with all its tables (``DiscreteBayesianNetwork``)."""
        from beliefs.model.other_libraries import from_pgmpy

        return from_pgmpy(model)

    @classmethod
    def from_pyagrum(cls, model: Any) -> BayesianNetwork:
        """Build from a network of pyAgrum (``pyagrum.BayesNet``)."""
        from beliefs.model.other_libraries import from_pyagrum

        return from_pyagrum(model)

    def to_factor_graph(self) -> FactorGraph:
        """Return the equivalent factor graph, one factor per conditional table; its Z is one."""
        return self.graph

    def condition(self, evidence: Evidence) -> FactorGraph:
        """Return the factor graph with these variables observed; its Z is the probability of the evidence."""
        return self.graph.condition(evidence)

    def with_likelihood(self, likelihoods: Mapping[Any, ArrayLike | Mapping[Any, float]]) -> FactorGraph:
        """Return the factor graph with soft evidence, ``{"A": [.7, .3]}``."""
        return self.graph.with_likelihood(likelihoods)

    def log_score(self, assignment: ArrayLike | Mapping[Any, Any]) -> float:
        """Return the log probability of one complete assignment."""
        return self.graph.log_score(assignment)

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> Ints:
        """Draw ``n`` independent joint states by ancestral sampling, ``(n, n_vars)``; cost n x edges."""
        check_integer("the number of samples", n, 0, MANY)
        if not isinstance(seed, np.random.Generator):
            check_integer("seed", seed, 0)
        uniform = np.random.default_rng(seed).random((n, self.n_vars))
        samples = np.zeros((n, self.n_vars), np.int64)
        lay = self.graph.layout
        ancestral_samples(
            lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, self.probabilities, self.order, uniform, samples
        )
        return samples

    def __eq__(self, other: object) -> bool:
        """Whether variables, states, arcs and tables are the same, in the same order; properties are only remarks."""
        if not isinstance(other, BayesianNetwork):
            return NotImplemented
        return self.graph == other.graph and np.array_equal(self.probabilities, other.probabilities)

    def __hash__(self) -> int:
        return hash(self.graph)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(frozen(state))

    def _description(self) -> Description:
        return describe_network(self)

    def __repr__(self) -> str:
        return f"BayesianNetwork({self.n_vars} variables, {len(self.edges)} arcs, {self.graph.layout.n_cells} cells)"


def _parents_and_table(cpt: Any, name: str) -> tuple[Sequence[str], ArrayLike]:
    parents, table = cpt if isinstance(cpt, (tuple, list)) and len(cpt) == 2 else (None, None)
    if isinstance(parents, str) or not isinstance(parents, Iterable):
        raise ModelError(f"the conditional table of {name!r} is given as (list of parents, table), found {cpt!r}")
    return parents, table  # type: ignore[return-value]


def _check_columns(table: Floats, layout: Layout, v: int, naming: Naming) -> None:
    sums = table.reshape(-1, int(layout.card[v])).sum(axis=1)
    wrong = np.abs(sums - 1) > COLUMN_TOLERANCE
    if wrong.any():
        column = int(np.argmax(wrong))
        parents = layout.scope(v)[:-1]
        states = np.unravel_index(column, tuple(layout.card[parents])) if parents.size else ()
        given = ", ".join(
            f"{naming.name(int(u))}={naming.label(int(u), int(x))}" for u, x in zip(parents, states, strict=True)
        )
        where = f" given {given}" if given else ""
        raise ModelError(f"probabilities of {naming.name(v)!r}{where} must sum to 1, found {sums[column]:.6g}")


def topological_order(layout: Layout, naming: Naming) -> Ints:
    """Parents before children (Kahn's algorithm); a cycle raises with its names."""
    children: list[list[int]] = [[] for _ in range(layout.n_vars)]
    waiting = np.zeros(layout.n_vars, np.int64)
    for v in range(layout.n_vars):
        for u in layout.scope(v)[:-1]:
            children[u].append(v)
            waiting[v] += 1
    order = [v for v in range(layout.n_vars) if waiting[v] == 0]
    for u in order:
        for v in children[u]:
            waiting[v] -= 1
            if waiting[v] == 0:
                order.append(v)
    if len(order) < layout.n_vars:
        names = [naming.name(v) for v in _cycle(layout, waiting)]
        raise ModelError(f"the arcs form a cycle: {' <- '.join(names)}")
    result = np.array(order, np.int64)
    result.setflags(write=False)
    return result


def _cycle(layout: Layout, waiting: Ints) -> list[int]:
    """Follow waiting parents until a variable comes twice."""
    path = [int(np.argmax(waiting > 0))]
    while True:
        parent = next(int(u) for u in layout.scope(path[-1])[:-1] if waiting[u] > 0)
        if parent in path:
            return [*path[path.index(parent) :], parent]
        path.append(parent)
