"""Networks from and to networkx, pgmpy and pyAgrum; each is skipped where its library is absent."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import beliefs as bl


def network() -> bl.BayesianNetwork:
    rng = np.random.default_rng(1)
    a, b, c = bl.Variable("A", ["n", "y"]), bl.Variable("B", 3), bl.Variable("C", ["lo", "mid", "hi", "top"])
    cpts: dict[str, Any] = {"A": ([], [0.2, 0.8]), "B": (["A"], rng.dirichlet(np.ones(3), size=2))}
    return bl.BayesianNetwork.from_cpts([a, b, c], {**cpts, "C": (["B", "A"], rng.dirichlet(np.ones(4), size=(3, 2)))})


def test_networkx_loses_nothing() -> None:
    nx = pytest.importorskip("networkx")
    bn = network()
    graph = bn.to_networkx()
    assert isinstance(graph, nx.DiGraph) and set(graph.edges) == set(bn.edges)
    assert nx.is_directed_acyclic_graph(graph) and bl.BayesianNetwork.from_networkx(graph) == bn
    del graph.nodes["C"]["parents"]
    with pytest.raises(bl.ModelError, match="'C' must list its 2 parents"):
        bl.BayesianNetwork.from_networkx(graph)
    del graph.nodes["B"]["cpt"]
    with pytest.raises(bl.ModelError, match="node 'B' has no attribute 'cpt'"):
        bl.BayesianNetwork.from_networkx(graph)
    with pytest.raises(bl.ModelError, match="expected a directed graph"):
        bl.BayesianNetwork.from_networkx(nx.Graph())


def test_other_objects_are_refused() -> None:
    with pytest.raises(bl.ModelError, match="expected a Bayesian network of pgmpy, found dict"):
        bl.BayesianNetwork.from_pgmpy({})
    with pytest.raises(bl.ModelError, match="expected a Bayesian network of pyAgrum, found dict"):
        bl.BayesianNetwork.from_pyagrum({})


def check_same(found: bl.BayesianNetwork, tol: float = 1e-12) -> None:
    bn = network()
    assert {v.name: v.states for v in found.variables} == {v.name: v.states for v in bn.variables}
    for x in itertools.product(*(v.states for v in bn.variables)):
        state = dict(zip("ABC", x, strict=True))
        assert found.log_score(state) == pytest.approx(bn.log_score(state), abs=tol)


def test_pgmpy() -> None:
    models = pytest.importorskip("pgmpy.models", reason="pgmpy is not installed")
    table = pytest.importorskip("pgmpy.factors.discrete").TabularCPD
    bn = network()
    theirs = models.DiscreteBayesianNetwork(list(bn.edges))
    for v in bn.variables:
        parents = bn.parents(v.name)
        states = {u: list(bn.variables[bn.index(u)].states) for u in (v.name, *parents)}
        values = bn.cpt(v.name).reshape(-1, v.card).T
        cards = [len(states[u]) for u in parents]
        theirs.add_cpds(table(v.name, v.card, values, parents or None, cards or None, state_names=states))
    check_same(bl.BayesianNetwork.from_pgmpy(theirs))


def test_pyagrum(tmp_path: Any) -> None:
    gum = pytest.importorskip("pyagrum", reason="pyAgrum is not installed")
    path = tmp_path / "network.bif"
    bl.write(network(), path)
    check_same(bl.BayesianNetwork.from_pyagrum(gum.loadBN(str(path))), 1e-6)  # it reads numbers in single precision
