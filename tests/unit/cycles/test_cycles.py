"""Cycle bases: counts worked by hand and by brute force, the theorems, and input that is refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

import beliefs as bl
from beliefs.cycles.pairs import canonical, edge_set
from beliefs.cycles.predicates import not_peeled
from families import grid_pairs


def model(n: int, edges: Sequence[Sequence[int]]) -> bl.FactorGraph:
    return bl.FactorGraph.from_tables([2] * n, [(e, np.ones((2, 2))) for e in edges])


def complete(n: int) -> bl.FactorGraph:
    return model(n, list(combinations(range(n), 2)))


def random_graph(n: int, m: int, seed: int) -> bl.FactorGraph:
    return model(n, [tuple(e) for e in nx.gnm_random_graph(n, m, seed=seed).edges()])


def simple_cycles(graph: bl.FactorGraph) -> list[tuple[int, ...]]:
    edges = [tuple(int(v) for v in graph.layout.scope(f)) for f in range(graph.n_factors)]
    return sorted({canonical(c) for c in nx.simple_cycles(nx.Graph(edges))})


def spanning_trees(graph: bl.FactorGraph) -> list[list[tuple[int, int]]]:
    edges = [(int(u), int(v)) for u, v in map(graph.layout.scope, range(graph.n_factors))]
    return [list(t) for t in combinations(edges, graph.n_vars - 1) if nx.is_tree(nx.Graph([*t]))
            and nx.Graph([*t]).number_of_nodes() == graph.n_vars]  # fmt: skip


GRID = model(9, grid_pairs(3, 3))


def test_all_bases_of_a_3x3_grid() -> None:
    cycles = simple_cycles(GRID)
    trees = spanning_trees(GRID)
    bases = [b for b in combinations(cycles, 4) if bl.cycles.is_basis(GRID, b)]
    assert (len(cycles), len(trees), len(bases)) == (13, 192, 440)
    odd = [b for b in bases if not bl.cycles.is_fundamental(GRID, b)]
    assert len(odd) == 1 and [len(c) for c in odd[0]] == [8] * 4
    robust = [b for b in bases if bl.cycles.is_tree_robust(GRID, b)]
    assert len(robust) == 5 and tuple(bl.cycles.faces(GRID)) in robust
    for basis in bases:
        sets = [edge_set(c) for c in basis]
        assert all(not not_peeled(sets, frozenset(tree)) for tree in trees) == (basis in robust)
    assert bl.cycles.is_tree_exact(GRID, robust[0], trees[7]) and not bl.cycles.is_tree_exact(GRID, odd[0], trees[7])


def test_two_bases_of_k5() -> None:
    """Figure 3.7 [gelfand2014], its vertices 1..5 here 0..4."""
    k5 = complete(5)
    top = [(0, u, v) for u, v in combinations(range(1, 5), 2)]
    bottom = [c for c in top if c != (0, 3, 4)] + [(1, 3, 4)]
    trees = spanning_trees(k5)
    exact = [[bl.cycles.is_tree_exact(k5, basis, tree) for tree in trees] for basis in (top, bottom)]
    assert [sum(column) for column in exact] == [125, 123] and len(trees) == 125
    assert bl.cycles.star(k5) == top and bl.cycles.is_tree_robust(k5, top)
    assert bl.cycles.is_fundamental(k5, bottom) and not bl.cycles.is_tree_robust(k5, bottom)
    failed = [set(tree) for tree, good in zip(trees, exact[1], strict=True) if not good]
    assert {(0, 3), (1, 2), (2, 4), (3, 4)} in failed


def test_a_basis_of_k33() -> None:
    """Figure 3.10 [gelfand2014], its vertices 1..6 here 0..5."""
    k33 = model(6, [(u, v) for u in (0, 2, 4) for v in (1, 3, 5)])
    basis = [tuple(int(v) - 1 for v in word) for word in ("1254", "2365", "1632", "3456")]
    trees = spanning_trees(k33)
    assert bl.cycles.is_fundamental(k33, basis) and not bl.cycles.is_tree_robust(k33, basis)
    assert (sum(bl.cycles.is_tree_exact(k33, basis, tree) for tree in trees), len(trees)) == (72, 81)
    with pytest.raises(bl.ModelError, match="not planar"):
        bl.cycles.faces(k33)


@pytest.mark.parametrize("seed", range(8))
def test_ears_give_fundamental_bases_that_contain_the_core(seed: int) -> None:
    graph = random_graph(14, 12 + 3 * seed, seed)
    for core in ("auto", "star", bl.cycles.star(graph)):
        basis = bl.cycles.partially_tree_robust(graph, core)
        assert bl.cycles.is_basis(graph, basis) and bl.cycles.is_fundamental(graph, basis)
        assert set(bl.cycles.star(graph)) <= set(basis) or core == "auto"
    drawn = bl.cycles.random_fundamental(graph, seed)
    assert bl.cycles.is_fundamental(graph, drawn) and drawn == bl.cycles.random_fundamental(graph, seed)


def test_bridges_and_cores_in_pieces() -> None:
    """Two squares joined by a path, and by a second one: the core's pieces are joined before cycles close."""
    squares = [(0, 1), (1, 2), (2, 3), (0, 3), (5, 6), (6, 7), (7, 8), (5, 8)]
    cores = [(0, 1, 2, 3), (5, 6, 7, 8)]
    bridged = model(10, [*squares, (3, 4), (4, 5), (8, 9)])
    assert bl.cycles.partially_tree_robust(bridged, cores) == cores == bl.cycles.faces(bridged)
    twice = model(10, [*squares, (3, 4), (4, 5), (8, 9), (9, 0)])
    basis = bl.cycles.partially_tree_robust(twice, cores)
    assert basis[:2] == cores and len(basis) == 3 and bl.cycles.is_fundamental(twice, basis)
    assert bl.cycles.partially_tree_robust(model(4, [(0, 1), (1, 2), (1, 3)])) == []


def test_grids_with_more_edges_keep_their_faces() -> None:
    more = model(16, [*grid_pairs(4, 4), (0, 15), (3, 12), (0, 7)])
    basis = bl.cycles.partially_tree_robust(more)
    assert basis[:9] == bl.cycles.faces(model(16, grid_pairs(4, 4))) and len(basis) == 12
    assert bl.cycles.is_fundamental(more, basis)


def test_what_evidence_leaves_of_a_grid_keeps_its_faces() -> None:
    seen = model(12, grid_pairs(3, 4)).condition({10: 0, 11: 0})
    assert bl.cycles.faces(seen) == [(0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (4, 5, 9, 8)]
    hole = model(9, grid_pairs(3, 3)).condition({4: 1})
    assert bl.cycles.faces(hole) == [(0, 1, 2, 5, 8, 7, 6, 3)]
    pierced = model(25, grid_pairs(5, 5)).condition({7: 0, 11: 0, 13: 0, 17: 0})  # 12 is alone in a hole
    found = bl.cycles.faces(pierced)
    assert bl.cycles.is_basis(pierced, found) and bl.cycles.is_tree_robust(pierced, found)


def test_faces_of_planar_graphs_are_robust() -> None:
    wheel = model(6, [(0, v) for v in range(1, 6)] + [(v, v % 5 + 1) for v in range(1, 6)])
    for graph in (wheel, model(7, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5), (5, 6)])):
        found = bl.cycles.faces(graph)
        assert bl.cycles.is_basis(graph, found) and bl.cycles.is_tree_robust(graph, found)


def test_parallel_factors_are_one_edge_and_observed_variables_are_none() -> None:
    graph = model(4, [(0, 1), (1, 0), (1, 2), (2, 0), (2, 3), (3, 0)])
    assert bl.cycles.star(graph) == [(0, 1, 2), (0, 2, 3)] and bl.cycles.star(graph, root=1) == [(0, 1, 2)]
    assert bl.cycles.star(graph.condition({3: 0})) == [(0, 1, 2)]


TRIANGLE = bl.FactorGraph.from_tables([2, 2, 2], [((0, 1, 2), np.ones((2, 2, 2)))])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bl.cycles.is_basis(GRID, [(0, 1, 4, 1)]), r"cycle \(x0, x1, x4, x1\) is not simple"),
        (lambda: bl.cycles.is_basis(GRID, [(0, 1)]), "is not simple"),
        (lambda: bl.cycles.is_basis(GRID, [(0, 1, 5)]), r"no factor joins x1 and x5"),
        (lambda: bl.cycles.is_basis(GRID, [(0, 1, 4, 3), (3, 4, 1, 0)]), "is given twice"),
        (lambda: bl.cycles.is_basis(GRID, [("x0", "x1", "y")]), "'y'"),
        (lambda: bl.cycles.is_basis(GRID, "faces"), "list of tuples"),
        (lambda: bl.cycles.is_basis(GRID, [4]), "a cycle is a tuple"),  # type: ignore[list-item]
        (lambda: bl.cycles.star(TRIANGLE), r"factor 0 has \(x0, x1, x2\)"),
        (lambda: bl.cycles.star(model(3, [(0, 1)]), root=2), "no factor joins x2"),
        (lambda: bl.cycles.partially_tree_robust(GRID, "faecs"), "core must be one of"),
        (lambda: bl.cycles.partially_tree_robust(complete(5), "faces"), "not planar"),
        (lambda: bl.cycles.random_fundamental(GRID, -1), "seed"),
        (lambda: bl.cycles.is_tree_exact(GRID, [], [(0, 1)]), "has 8 edges and no cycle, found 1"),
        (lambda: bl.cycles.is_tree_exact(GRID, [], [(0, 1, 2)]), "list of pairs"),
        (lambda: bl.cycles.is_tree_exact(GRID, [], [(0, 8)]), "no factor joins x0 and x8"),
    ],
)
def test_what_is_refused(call: object, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message) as caught:
        call()  # type: ignore[operator]
    assert "\n" not in str(caught.value)
