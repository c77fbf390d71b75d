"""The bipartite networkx form loses nothing."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import beliefs as bl
from families import FAMILIES, family, sprinkler

networkx = pytest.importorskip("networkx")


@pytest.mark.parametrize("name", [n for n in FAMILIES if n != "tied_tables"])
def test_there_and_back(name: str) -> None:
    graph = family(name)
    again = bl.FactorGraph.from_networkx(graph.to_networkx())
    assert again.layout.equals(graph.layout) and again.theta.tobytes() == graph.theta.tobytes()
    assert list(again.variables) == list(graph.variables)


def test_tied_tables_come_back_as_copies() -> None:
    graph = family("tied_tables")
    again = bl.FactorGraph.from_networkx(graph.to_networkx())
    assert not again.layout.tied and bl.infer(again).log_z == pytest.approx(bl.infer(graph).log_z)


def test_nodes_and_edges() -> None:
    nx = sprinkler().graph.to_networkx()
    assert nx.nodes["Grass"] == {"bipartite": 0, "states": ("dry", "damp", "wet")}
    assert set(nx.neighbors(("factor", 1))) == {"Grass", "Sprinkler", "Rain"}
    assert networkx.is_bipartite(nx)


def test_other_graphs_are_refused() -> None:
    odd = networkx.Graph()
    odd.add_node("a")
    with pytest.raises(bl.ModelError, match="node 'a' is neither a variable"):
        bl.FactorGraph.from_networkx(odd)
    stray = networkx.Graph()
    stray.add_node("f", bipartite=1, scope=("gone",), log_table=np.zeros(2))
    with pytest.raises(bl.ModelError, match="names 'gone', which is not a variable node"):
        bl.FactorGraph.from_networkx(stray)


def test_without_networkx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(bl.UnsupportedError, match=r"beliefs\[plot\]"):
        family("chain").to_networkx()
