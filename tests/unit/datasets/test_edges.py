"""Structures: how many edges, which ones, and how random ones are spread."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from beliefs.datasets import (
    chain_edges,
    complete_edges,
    delaunay_edges,
    grid_edges,
    k_tree_edges,
    partial_k_tree_edges,
    tree_edges,
)
from beliefs.datasets.edges import long_range_edges
from beliefs.errors import ModelError

Pairs = set[tuple[int, int]]


def pairs(edges: np.ndarray) -> Pairs:
    assert edges.dtype == np.int64
    assert (edges[:, 0] < edges[:, 1]).all()
    found = {(int(u), int(v)) for u, v in edges}
    assert len(found) == len(edges)
    return found


def is_connected(n: int, edges: np.ndarray) -> bool:
    label = list(range(n))
    for u, v in edges.tolist():
        a, b = label[u], label[v]
        label = [a if x == b else x for x in label]
    return len(set(label)) == 1


def elimination_width(n: int, edges: np.ndarray) -> int:
    """Width of a greedy minimum-degree order; exact on chordal graphs, an upper bound elsewhere."""
    near: dict[int, set[int]] = {v: set() for v in range(n)}
    for u, v in edges.tolist():
        near[u].add(v)
        near[v].add(u)
    width = 0
    while near:
        v = min(near, key=lambda x: len(near[x]))
        around = near.pop(v)
        width = max(width, len(around))
        for u in around:
            near[u] |= around
            near[u] -= {u, v}
    return width


def test_chain_by_hand() -> None:
    assert pairs(chain_edges(4)) == {(0, 1), (1, 2), (2, 3)}
    assert chain_edges(1).shape == (0, 2)


def test_complete_has_every_pair_in_order() -> None:
    assert [tuple(e) for e in complete_edges(5).tolist()] == list(itertools.combinations(range(5), 2))


def test_grid_by_hand() -> None:
    assert [tuple(e) for e in grid_edges(2, 3).tolist()] == [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 5), (4, 1), (3, 4), (7, 7)])
def test_grid_joins_exactly_the_neighbours(rows: int, cols: int) -> None:
    cells = list(itertools.product(range(rows), range(cols)))
    expected: dict[int, Pairs] = {4: set(), 8: set()}
    for (i, (r, c)), (j, (s, d)) in itertools.combinations(enumerate(cells), 2):
        if abs(r - s) + abs(c - d) == 1:
            expected[4].add((i, j))
        if max(abs(r - s), abs(c - d)) == 1:
            expected[8].add((i, j))
    assert pairs(grid_edges(rows, cols)) == expected[4]
    assert pairs(grid_edges(rows, cols, diagonals=True)) == expected[8]
    n_straight = 2 * rows * cols - rows - cols
    assert pairs(grid_edges(rows, cols, diagonals=True)[:n_straight]) == expected[4]


@pytest.mark.parametrize(("rows", "cols"), [(3, 3), (3, 5), (6, 4)])
def test_a_torus_gives_every_vertex_four_neighbours(rows: int, cols: int) -> None:
    edges = grid_edges(rows, cols, periodic=True)
    pairs(edges)
    assert np.bincount(edges.ravel()).tolist() == [4] * (rows * cols)


def test_a_short_side_is_not_closed_twice() -> None:
    assert pairs(grid_edges(2, 2, periodic=True)) == pairs(grid_edges(2, 2))
    assert len(pairs(grid_edges(2, 3, periodic=True))) == 9
    assert len(pairs(grid_edges(1, 4, periodic=True))) == 4


def test_periodic_diagonals_are_refused() -> None:
    with pytest.raises(ModelError, match="periodic grid with diagonals"):
        grid_edges(3, 3, periodic=True, diagonals=True)


def test_delaunay_of_a_square_and_its_centre() -> None:
    points = [(0, 0), (1, 0), (0, 1), (1, 1), (0.5, 0.5)]
    assert pairs(delaunay_edges(points)) == {(0, 1), (0, 2), (1, 3), (2, 3), (0, 4), (1, 4), (2, 4), (3, 4)}


def test_delaunay_circles_are_empty() -> None:
    """Every pair of points is joined exactly if some circle through both has no point inside (brute force)."""
    points = np.random.default_rng(5).random((12, 2))
    expected = set()
    for a, b, c in itertools.combinations(range(12), 3):
        p, q, r = points[[a, b, c]]
        centre = np.linalg.solve(2 * np.array([q - p, r - p]), [q @ q - p @ p, r @ r - p @ p])
        others = np.delete(points, [a, b, c], axis=0)
        if (np.linalg.norm(others - centre, axis=1) > np.linalg.norm(p - centre)).all():
            expected |= {(a, b), (a, c), (b, c)}
    assert pairs(delaunay_edges(points)) == expected


def test_delaunay_of_few_or_bad_points() -> None:
    assert delaunay_edges([(0.1, 0.2)]).shape == (0, 2)
    assert pairs(delaunay_edges([(0.1, 0.2), (0.5, 0.9)])) == {(0, 1)}
    with pytest.raises(ModelError, match="lie on one line"):
        delaunay_edges([(0, 0), (1, 1), (2, 2)])
    with pytest.raises(ModelError, match=r"shape \(n, 2\), found \(3,\)"):
        delaunay_edges([1.0, 2.0, 3.0])


@pytest.mark.parametrize("n", [1, 2, 3, 10, 500])
def test_trees_are_trees(n: int) -> None:
    edges = tree_edges(n, seed=n)
    assert len(pairs(edges)) == n - 1
    assert is_connected(n, edges)


def test_trees_are_uniform_over_all_labelled_trees() -> None:
    """16 labelled trees on 4 vertices; chi-square with 15 degrees of freedom, false alarm 1e-4 at 44.3."""
    rng = np.random.default_rng(11)
    n_draws = 3200
    counts: dict[frozenset[tuple[int, int]], int] = {}
    for _ in range(n_draws):
        tree = frozenset(pairs(tree_edges(4, rng)))
        counts[tree] = counts.get(tree, 0) + 1
    assert len(counts) == 16
    expected = n_draws / 16
    assert sum((c - expected) ** 2 / expected for c in counts.values()) < 44.3


@pytest.mark.parametrize(("n", "k"), [(2, 1), (4, 3), (10, 1), (20, 3), (60, 5), (100, 9)])
def test_k_trees_are_chordal_of_treewidth_k(n: int, k: int) -> None:
    edges = k_tree_edges(n, k, seed=n + k)
    assert len(pairs(edges)) == k * n - k * (k + 1) // 2
    # in reverse order of construction every vertex has exactly k earlier neighbours, and they form a clique
    known = pairs(edges)
    for v in range(k + 1, n):
        earlier = [u for u, w in edges.tolist() if w == v]
        assert len(earlier) == k
        assert all((min(a, b), max(a, b)) in known for a, b in itertools.combinations(earlier, 2))
    assert elimination_width(n, edges) == k


def test_k_trees_choose_their_cliques_uniformly() -> None:
    """The fourth vertex of a 2-tree joins one of the 3 edges of a triangle; 3000 draws, z-scores below 4."""
    rng = np.random.default_rng(2)
    left_out = [({0, 1, 2} - set(k_tree_edges(4, 2, rng)[3:, 0].tolist())).pop() for _ in range(3000)]
    z = (np.bincount(left_out, minlength=3) - 1000) / np.sqrt(3000 * (1 / 3) * (2 / 3))
    assert np.abs(z).max() < 4


@pytest.mark.parametrize("connectivity", [0.2, 0.4, 0.7, 1.0])
def test_partial_k_trees_are_connected_subgraphs_below_the_threshold(connectivity: float) -> None:
    n, k = 100, 9
    full = pairs(k_tree_edges(n, k, seed=3))
    edges = partial_k_tree_edges(n, k, connectivity, seed=3)
    assert pairs(edges) <= full
    assert is_connected(n, edges)
    assert np.bincount(edges.ravel(), minlength=n).max() < connectivity * n
    assert elimination_width(n, edges) <= k
    if connectivity == 1.0:
        assert pairs(edges) == full


def test_partial_k_trees_stop_at_the_threshold() -> None:
    """One removal less would have left the largest degree at the threshold, so it is just below."""
    edges = partial_k_tree_edges(100, 9, 0.4, seed=3)
    assert np.bincount(edges.ravel()).max() == 39


def test_a_threshold_out_of_reach_is_an_error() -> None:
    with pytest.raises(ModelError, match=r"connectivity 0.01 cannot be reached on 100 variables: .* degree \d+$"):
        partial_k_tree_edges(100, 3, 0.01)


def test_a_k_tree_needs_its_first_clique() -> None:
    with pytest.raises(ModelError, match="a 3-tree needs at least 4 variables, found 3"):
        k_tree_edges(3, 3)


@pytest.mark.parametrize("count", [0, 1, 30, 105 - 22])
def test_long_range_edges_are_new_and_distinct(count: int) -> None:
    grid = grid_edges(3, 5)
    extra = long_range_edges(15, grid, count, np.random.default_rng(count))
    assert len(pairs(extra)) == count if count else len(extra) == 0
    assert not pairs(grid) & {(int(u), int(v)) for u, v in extra}


def test_long_range_edges_are_uniform_over_free_pairs() -> None:
    """A 2x3 grid leaves 8 pairs; one drawn 4000 times, chi-square with 7 degrees of freedom, 1e-4 at 29.9."""
    rng = np.random.default_rng(9)
    grid = grid_edges(2, 3)
    counts: dict[tuple[int, int], int] = {}
    for _ in range(4000):
        pair = tuple(long_range_edges(6, grid, 1, rng)[0].tolist())
        counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 8
    assert sum((c - 500) ** 2 / 500 for c in counts.values()) < 29.9


def test_more_long_range_edges_than_pairs_is_an_error() -> None:
    with pytest.raises(ModelError, match="extra_edges must be at most the 8 pairs not yet joined, found 9"):
        long_range_edges(6, grid_edges(2, 3), 9, np.random.default_rng(0))
