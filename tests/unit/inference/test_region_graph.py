"""Region graphs: counting numbers printed and worked by hand, criteria with witnesses, entropies, and bad input."""

from __future__ import annotations

import tracemalloc
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.io import rg
from beliefs.plot import plot_regions
from families import family, grid_pairs, random_model, unary

LOG2 = float(np.log(2.0))


def complete(n: int, card: int = 2, **law: Any) -> bl.FactorGraph:
    return random_model([card] * n, unary(n) + list(combinations(range(n), 2)), **{"seed": 0, **law})


def numbers(regions: bl.RegionGraph) -> dict[tuple[int, ...], float]:
    return dict(zip(regions.scopes, regions.counting.tolist(), strict=True))


def tree_model(n: int, tree: list[tuple[int, int]], like: bl.FactorGraph, seed: int = 3) -> bl.FactorGraph:
    """A model with the layout of another whose factors outside a tree are constant."""
    rng = np.random.default_rng(seed)
    theta = np.zeros_like(like.theta)
    for f in range(like.n_factors):
        if tuple(like.layout.scope(f).tolist()) in tree:
            theta[like.layout.cells(f)] = rng.normal(size=int(like.layout.factor_size[f]))
    return like.with_theta(theta)


def test_counting_numbers_of_figure_3_7() -> None:
    k5 = complete(5)
    star = bl.cycles.star(k5, 0)
    top = numbers(bl.RegionGraph.loops(k5, star))
    assert {s: c for s, c in top.items() if len(s) < 3} == {(0, 1): -2, (0, 2): -2, (0, 3): -2, (0, 4): -2, (0,): 3}
    bottom = numbers(bl.RegionGraph.loops(k5, [*star[:-1], (1, 3, 4)]))
    assert {s: c for s, c in bottom.items() if len(s) < 3 and c} == {
        (0, 1): -2, (0, 2): -2, (0, 3): -1, (0, 4): -1, (1, 3): -1, (1, 4): -1, (0,): 2, (1,): 1,
    }  # fmt: skip


def test_all_triplets_of_k6() -> None:
    for card in (2, 3):
        k6 = complete(6, card, scale=0.0)
        triplets = list(combinations(range(6), 3))
        for regions in (bl.RegionGraph.loops(k6, triplets), bl.RegionGraph.cvm(k6, triplets)):
            sizes = [len(scope) for scope in regions.scopes]
            assert [sizes.count(k) for k in (3, 2, 1)] == [20, 15, 6]
            assert {(len(s), c) for s, c in numbers(regions).items()} == {(3, 1.0), (2, -3.0), (1, 6.0)}
            uniform = bl.infer(k6)
            assert regions.entropy(uniform) == pytest.approx(6 * np.log(card), abs=1e-9)
    k6 = complete(6)
    regions = bl.RegionGraph.loops(k6, triplets)
    judged = regions.criteria()
    assert judged["unity"] is False and judged.witness["unity"] == 11.0 and judged["balanced"] is True
    assert judged["maxent_normal"] is False and judged["non_singular"] is False and judged["tree_robust"] is False
    strong = np.array([[20.0, -20.0], [-20.0, 20.0]])
    pairs = bl.FactorGraph.pairwise(np.zeros((6, 2)), list(combinations(range(6), 2)), strong)
    two_states = bl.infer(pairs)
    assert bl.RegionGraph.loops(pairs, triplets).entropy(two_states) == pytest.approx(11 * LOG2, abs=1e-9)


def test_loops_add_up_as_the_theorem_says() -> None:
    """The sum is loops - edges + vertices, with or without what the reduction removes: here it is removed."""
    graph = random_model([2] * 9, unary(9) + grid_pairs(3, 3), seed=1)
    faces = bl.cycles.faces(graph)
    for cycles in (faces, faces[:2], [], bl.cycles.random_fundamental(graph, 1)):
        regions = bl.RegionGraph.loops(graph, cycles)
        assert regions.counting.sum() == len(cycles) - 12 + 9
        assert regions.criteria()["balanced"] is True and regions.criteria()["connected"] is True
    regions = bl.RegionGraph.loops(graph, faces)
    assert regions.scopes[4:] == ((1, 4), (3, 4), (4, 5), (4, 7), (4,))  # interior edges and the interior vertex
    assert regions.counting.tolist() == [1] * 4 + [-1] * 4 + [1]
    assert regions.n_outer == 4 and regions.is_loop.tolist() == [True] * 4 + [False] * 5


def test_bethe_and_cvm() -> None:
    graph = family("higher_order")
    bethe = bl.RegionGraph.bethe(graph)
    assert bethe.counting.tolist() == [1, 1, 1, 1, -1, -1, -1, -1, -1, -1]
    assert bethe.criteria()["non_singular"] is True
    wheel = random_model([2] * 5, [(0, 1), (1, 2), (2, 3), (0, 3), (0, 4), (1, 4), (2, 4), (3, 4)], seed=0)
    cvm = bl.RegionGraph.cvm(wheel, [("x0", "x1", "x4"), (1, 2, 4), (2, 3, 4), (0, 3, 4), (1, 4)])
    assert numbers(cvm) == {
        (0, 1, 4): 1, (1, 2, 4): 1, (2, 3, 4): 1, (0, 3, 4): 1, (0, 4): -1, (1, 4): -1, (2, 4): -1, (3, 4): -1, (4,): 1,
    }  # fmt: skip
    judged = cvm.criteria()
    assert judged["totally_connected"] and judged["totally_balanced"] and judged["unity"]
    assert {tuple(e) for e in cvm.edges.tolist() if e[1] == 8} == {(4, 8), (5, 8), (6, 8), (7, 8)}


@pytest.mark.parametrize("seed", range(4))
def test_cvm_is_totally_balanced_and_covers_every_factor(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scopes = [tuple(rng.choice(7, size=int(rng.integers(1, 4)), replace=False).tolist()) for _ in range(6)]
    graph = random_model([2] * 8, scopes, seed=seed)
    cvm = bl.RegionGraph.cvm(graph, [tuple(rng.choice(7, size=4, replace=False).tolist()) for _ in range(2)])
    judged = cvm.criteria()
    assert judged["totally_balanced"] is True and judged["totally_connected"] is True
    assert (cvm.counting[: cvm.n_outer] == 1).all()
    assert all(any(set(s) <= set(r) for r in cvm.scopes[: cvm.n_outer]) for s in scopes)
    assert any(7 in scope for scope in cvm.scopes)  # no factor has it, and it counts


@pytest.mark.parametrize("name", ["grid", "complete", "higher_order", "disconnected", "isolated_variables"])
@pytest.mark.parametrize("ibound", [1, 2, 9])
def test_join_graphs_are_trees_variable_by_variable(name: str, ibound: int) -> None:
    graph = family(name)
    regions = bl.RegionGraph.join_graph(graph, ibound)
    assert set(regions.counting.tolist()) <= {1.0, -1.0}
    judged = regions.criteria()
    assert judged["balanced"] is True and judged["connected"] is True  # connected, and vertices - edges = 1: a tree
    scopes = [set(regions.scopes[r]) for r in range(regions.n_regions) if regions.counting[r] == 1]
    largest = max(int(graph.layout.arity.max()), ibound + 1)
    assert max(map(len, scopes)) <= largest
    several = [set(graph.layout.scope(f).tolist()) for f in range(graph.n_factors)]
    assert all(any(scope <= inside for inside in scopes) for scope in several)
    if ibound == 9:
        exact = bl.infer(graph)
        assert regions.entropy(exact) == pytest.approx(exact.log_z - float(exact.mu @ graph.theta), abs=1e-9)


def test_entropies_are_exact_on_trees_where_loops_are_robust() -> None:
    """P33: the star of K5 is exact on all trees, the other basis of Figure 3.7 not on {14, 23, 35, 45}."""
    k5 = complete(5)
    star = bl.cycles.star(k5, 0)
    for cycles, tree, good in (
        (star, [(0, 3), (1, 2), (2, 4), (3, 4)], True),
        (star, [(0, 1), (1, 2), (2, 3), (3, 4)], True),
        ([*star[:-1], (1, 3, 4)], [(0, 3), (1, 2), (2, 4), (3, 4)], False),
        (star, [(0, 1), (0, 2), (0, 3), (0, 4)], True),
        (star, [(1, 2), (2, 3), (2, 4), (0, 4)], True),
    ):
        model = tree_model(5, tree, k5)
        exact = bl.infer(model)
        truth = exact.log_z - float(exact.mu @ model.theta)
        assert (abs(bl.RegionGraph.loops(k5, cycles).entropy(exact) - truth) < 1e-9) == good


def test_a_witness_shows_what_fails() -> None:
    k5 = complete(5)
    bottom = bl.RegionGraph.loops(k5, [*bl.cycles.star(k5, 0)[:-1], (1, 3, 4)]).criteria()
    assert bottom["tree_robust"] is False and bottom["non_singular"] is True and bottom["maxent_normal"] is True
    model = tree_model(5, list(bottom.witness["tree_robust"]), k5)
    exact = bl.infer(model)
    regions = bl.RegionGraph.loops(k5, [*bl.cycles.star(k5, 0)[:-1], (1, 3, 4)])
    assert abs(regions.entropy(exact) - (exact.log_z - float(exact.mu @ model.theta))) > 1e-6
    path = random_model([2] * 5, [(0, 1), (1, 2), (2, 3), (3, 4)], seed=0)
    odd = bl.RegionGraph.build(path, [(0, 1), (1, 2, 3), (3, 4), (0,), (2,), (4,)], [1, 1, 1, 1, 0, 0]).criteria()
    assert odd["balanced"] is False and odd.witness["balanced"] == (0,)
    assert odd["connected"] is False and odd.witness["connected"] == (1,)
    assert odd["unity"] is False and odd.witness["unity"] == 4.0
    grid = random_model([2] * 9, grid_pairs(3, 3), seed=0)
    patterns = [(0, 1, 2, 5, 8, 7, 4, 3), (0, 1, 2, 5, 4, 7, 6, 3), (0, 1, 4, 5, 8, 7, 6, 3), (1, 2, 5, 8, 7, 6, 3, 4)]
    judged = bl.RegionGraph.loops(grid, patterns).criteria()
    assert judged["non_singular"] is False and len(judged.witness["non_singular"]) == 4 and judged["unity"] is True


def test_evidence_and_names() -> None:
    net = bl.datasets.load_bn("asia").condition({"xray": "yes"})
    regions = bl.RegionGraph.cvm(net, [("lung", "tub", "either", "xray")])
    assert not any(net.index("xray") in scope for scope in regions.scopes)
    assert regions.criteria()["balanced"] is True and repr(regions) == f"<RegionGraph of {regions.n_regions} regions>"


def test_files_and_drawing(tmp_path: Path) -> None:
    grid = random_model([2] * 9, unary(9) + grid_pairs(3, 3), seed=1)
    regions = bl.RegionGraph.loops(grid, bl.cycles.faces(grid))
    path = tmp_path / "faces.rg"
    bl.io.write_regions(path, regions.scopes[: regions.n_outer])
    assert path.read_text() == "4\n4 0 1 4 3\n4 1 2 5 4\n4 3 4 7 6\n4 4 5 8 7\n"
    assert bl.io.read_regions(path, grid) == list(regions.scopes[:4])
    for text, message in (
        ("2\n2 0 1\n", "expected"), ("1\n2 0 9\n", "line 2"), ("1\n2 0 0\n", "twice"), ("1\n0\n", "no variables"),
        ("x", "the number of regions"), ("1 1 0 7", "end of the file"), ("999999999999 1 0", "bytes left"),
    ):  # fmt: skip
        with pytest.raises(bl.FormatError, match=message):
            rg.loads(text, grid)
    ax = plot_regions(regions, grid)
    assert ax.texts[0].get_text() == "x0 x1 x4 x3\n+1" and len(ax.texts) == 9 and len(ax.lines) == len(regions.edges)


def test_regions_are_read_without_a_model_in_the_room_of_their_text() -> None:
    rg.loads("1 1 0")  # what is loaded once
    tracemalloc.start()
    assert rg.loads("2\n1 2147483646\n2 0 7\n") == [(2147483646,), (0, 7)]
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()
    with pytest.raises(bl.FormatError, match="twice"):
        rg.loads("1 2 5 5")


GRID = random_model([2] * 9, unary(9) + grid_pairs(3, 3), seed=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bl.RegionGraph.cvm(GRID, [("x0", "y1")]), "'y1'"),
        (lambda: bl.RegionGraph.cvm(GRID, [(0, 1, 0)]), "has a variable twice"),
        (lambda: bl.RegionGraph.cvm(GRID, "faces"), "list of tuples"),
        (lambda: bl.RegionGraph.cvm(GRID, [3]), "a region is a tuple"),  # type: ignore[list-item]
        (lambda: bl.RegionGraph.build(GRID, [tuple(range(9))], [1, 0]), "counting must be 1 finite numbers"),
        (lambda: bl.RegionGraph.build(GRID, [tuple(range(9))], [np.nan]), "counting must be 1 finite"),
        (lambda: bl.RegionGraph.build(GRID, [tuple(range(9))], "one"), "counting must be 1 finite numbers.*'one'"),
        (lambda: bl.RegionGraph.build(GRID, [(0, 1)], [1]), "no region has the variable x2"),
        (
            lambda: bl.RegionGraph.build(GRID, [(v,) for v in range(9)], [1] * 9),
            r"no region covers factor 9 \(x0, x1\)",
        ),
        (lambda: bl.RegionGraph.join_graph(GRID, 0), "ibound must be"),
        (lambda: bl.RegionGraph.join_graph(GRID, 2, "no"), "order must be"),
        (lambda: bl.RegionGraph.loops(GRID, [(0, 1, 4)]), "no factor joins x0 and x4|no factor joins x4 and x0"),
        (lambda: bl.RegionGraph.loops(GRID, [(0, 1, 4, 3), (4, 1, 0, 3)]), "given twice"),
        (lambda: bl.RegionGraph.loops(family("higher_order"), []), "factors of at most two variables"),
        (lambda: bl.RegionGraph.bethe(GRID).entropy(bl.infer(family("chain"))), "other factors or evidence"),
    ],
)
def test_what_is_refused(call: Any, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
