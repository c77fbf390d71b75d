"""Orders of regions and questions about many sets at once equal what a walk in Python finds."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.clusters.region_order import above, depth_first, generations, top_down
from beliefs.model.scopes import Scopes, row_codes
from beliefs.typing import Ints


def random_edges(seed: int) -> tuple[int, Ints]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 14))
    name = rng.permutation(n)
    pairs = sorted({tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(2 * n)} if n > 1 else set())
    return n, np.array([(name[u], name[v]) for u, v in pairs], np.int64).reshape(-1, 2)


def children(n: int, edges: Ints) -> list[list[int]]:
    return [edges[edges[:, 0] == r, 1].tolist() for r in range(n)]


@pytest.mark.parametrize("seed", range(20))
def test_generations_come_after_all_their_parents(seed: int) -> None:
    n, edges = random_edges(seed)
    order = top_down(n, edges)
    assert sorted(order.tolist()) == list(range(n))
    place = np.argsort(order)
    assert (place[edges[:, 0]] < place[edges[:, 1]]).all()
    generation = {r: g for g, regions in enumerate(generations(n, edges)) for r in regions.tolist()}
    for r in range(n):
        assert generation[r] == max((generation[p] + 1 for p in edges[edges[:, 1] == r, 0].tolist()), default=0)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_above_a_region(seed: int) -> None:
    n, edges = random_edges(seed)
    found = [{r} for r in range(n)]
    for _ in range(n):
        for parent, child in edges.tolist():
            found[child] |= found[parent]
    ptr, region = above(n, edges)
    assert [region[a:b].tolist() for a, b in zip(ptr[:-1], ptr[1:], strict=True)] == [sorted(s) for s in found]


@pytest.mark.parametrize("seed", range(20))
def test_depth_first_goes_to_the_bottom_at_once(seed: int) -> None:
    n, edges = random_edges(seed)
    below = [np.flatnonzero(edges[:, 0] == r).tolist() for r in range(n)]
    order: list[int] = []

    def walk(r: int) -> None:
        for e in below[r]:
            order.append(e)
            walk(int(edges[e, 1]))

    for r in sorted(set(range(n)) - set(edges[:, 1].tolist())):
        walk(r)
    found = depth_first(n, edges, len(order))
    assert found is not None and found.tolist() == order
    assert not order or depth_first(n, edges, len(order) - 1) is None


def test_codes_are_equal_for_equal_rows_only() -> None:
    rng = np.random.default_rng(0)
    rows = [tuple(rng.integers(0, 3, int(rng.integers(0, 5))).tolist()) for _ in range(200)]
    wide = [tuple(rng.integers(0, 2**40, 4).tolist()) for _ in range(50)]  # codes beyond 63 bits
    for given in (rows, [*wide, *wide]):
        codes = row_codes(Scopes.of(given)).tolist()
        assert len(set(codes)) == len(set(given))
        assert len(set(zip(codes, given, strict=True))) == len(set(given))


def test_places_and_followers_in_rows() -> None:
    rows = Scopes.of([(3, 1, 2), (5,), (), (1, 3)])
    assert rows.next.tolist() == [1, 2, 3, 5, 3, 1]
    assert rows.place(np.array([0, 3, 0]), np.array([2, 3, 3])).tolist() == [2, 1, 0]
    assert rows.take(np.array([3, 0])).var.tolist() == [1, 3, 3, 1, 2]


def test_a_large_grid_is_laid_out_as_a_small_one() -> None:
    for n in (3, 12):
        graph = bl.datasets.make_grid(n, seed=0)
        regions = bl.RegionGraph.loops(graph, bl.cycles.faces(graph))
        sizes = np.bincount([len(scope) for scope in regions.scopes], minlength=5).tolist()
        assert sizes == [0, (n - 2) ** 2, 2 * (n - 1) * (n - 2), 0, (n - 1) ** 2]
        assert regions.counting.sum() == 1.0
        assert sorted(set(regions.counting.tolist())) == [-1.0, 1.0]
