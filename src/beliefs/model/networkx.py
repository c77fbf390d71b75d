"""Factor graphs to and from networkx (imported only when used).

The bipartite form loses nothing: variable nodes are the names, with ``bipartite=0`` and ``states``; factor nodes are
``("factor", f)`` with ``bipartite=1``, ``scope`` (names in table order) and ``log_table``. A Bayesian network is a
directed graph of its variables, each with ``states``, ``parents`` (names in table order) and ``cpt`` (parents, child).
"""

from __future__ import annotations

from typing import Any

from beliefs.errors import ModelError, UnsupportedError
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.factor import Factor
from beliefs.model.graph import FactorGraph
from beliefs.model.variable import Variable

__all__ = ["from_networkx", "network_from_networkx", "network_to_networkx", "to_networkx"]


def _networkx() -> Any:
    try:
        import networkx
    except ImportError:
        raise UnsupportedError("networkx is not installed; try the extra beliefs[plot]") from None
    return networkx


def to_networkx(graph: FactorGraph) -> Any:
    """Return the bipartite ``networkx.Graph`` of variables and factors."""
    result = _networkx().Graph()
    for variable in graph.variables:
        result.add_node(variable.name, bipartite=0, states=variable.states)
    for f, factor in enumerate(graph.factors):
        scope = tuple(v.name for v in factor.scope)
        result.add_node(("factor", f), bipartite=1, scope=scope, log_table=factor.log_table)
        result.add_edges_from((("factor", f), name) for name in scope)
    return result


def from_networkx(graph: Any) -> FactorGraph:
    """Build a factor graph from the bipartite form of :func:`to_networkx`."""
    variables: dict[str, Variable] = {}
    tables: list[tuple[tuple[str, ...], Any]] = []
    for node, data in graph.nodes(data=True):
        if data.get("bipartite") == 0 and "states" in data:
            variables[str(node)] = Variable(str(node), data["states"])
        elif data.get("bipartite") == 1 and "scope" in data and "log_table" in data:
            tables.append((tuple(data["scope"]), data["log_table"]))
        else:
            raise ModelError(
                f"node {node!r} is neither a variable (bipartite=0, states) nor a factor (scope, log_table)"
            )
    for scope, _ in tables:
        for name in scope:
            if name not in variables:
                raise ModelError(f"a factor's scope names {name!r}, which is not a variable node")
    factors = [Factor([variables[name] for name in scope], table) for scope, table in tables]
    return FactorGraph.from_factors(factors, list(variables.values()))


def network_to_networkx(network: BayesianNetwork) -> Any:
    """Return the ``networkx.DiGraph`` of a Bayesian network."""
    result = _networkx().DiGraph()
    for variable in network.variables:
        parents, table = network.parents(variable.name), network.cpt(variable.name)
        result.add_node(variable.name, states=variable.states, parents=parents, cpt=table)
    result.add_edges_from(network.edges)
    return result


def network_from_networkx(graph: Any) -> BayesianNetwork:
    """Build a Bayesian network from the directed form of :func:`network_to_networkx`.

    ``parents`` may be left out where a node has one parent at most.
    """
    if not getattr(graph, "is_directed", lambda: False)():
        raise ModelError(f"expected a directed graph of variables, found {type(graph).__name__}")
    variables: list[Variable] = []
    cpts: dict[str, tuple[list[str], Any]] = {}
    for node, data in graph.nodes(data=True):
        missing = [name for name in ("states", "cpt") if name not in data]
        if missing:
            raise ModelError(f"node {node!r} has no attribute {missing[0]!r}; a variable has states and cpt")
        above = [str(u) for u in graph.predecessors(node)]
        parents = [str(u) for u in data.get("parents", above)]
        if sorted(parents) != sorted(above) or ("parents" not in data and len(above) > 1):
            raise ModelError(f"node {node!r} must list its {len(above)} parents in the order of its table's axes")
        variables.append(Variable(str(node), data["states"]))
        cpts[str(node)] = (parents, data["cpt"])
    return BayesianNetwork.from_cpts(variables, cpts)
