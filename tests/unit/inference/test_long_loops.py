"""Long loops: what they cost is counted in products, and what comes out is what shorter ways find."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.base import Problem
from beliefs.inference.clusters import region_entropy
from beliefs.inference.regions.choice import chosen_plan
from beliefs.inference.regions.concave import ConcaveState
from beliefs.kernels.regions.loop_tree import LoopTrees, other_edges
from beliefs.kernels.regions.structure import RegionTables


def ring(n: int, card: list[int], scale: float = 1.0, seed: int = 0) -> bl.FactorGraph:
    rng = np.random.default_rng(seed)
    tables = [((v, (v + 1) % n), scale * rng.normal(size=(card[v], card[(v + 1) % n]))) for v in range(n)]
    return bl.FactorGraph.from_tables(card, tables, log=True)


def wheel(n: int, card: list[int], scale: float, zero: bool) -> tuple[bl.FactorGraph, bl.RegionGraph]:
    """A rim with shuffled names and a hub; its regions are the rim and all triangles at the hub but one."""
    rng = np.random.default_rng(n)
    name = rng.permutation(n + 1).tolist()
    pairs = [(name[v], name[(v + 1) % n]) for v in range(n)] + [(name[v], name[n]) for v in range(n)]
    tables = [(pair, scale * rng.normal(size=(card[pair[0]], card[pair[1]]))) for pair in pairs]
    if zero:
        tables[3][1][0, 0] = -np.inf
    graph = bl.FactorGraph.from_tables(card, tables, log=True)
    cycles = [tuple(name[:n]), *((name[v], name[v + 1], name[n]) for v in range(n - 1))]
    return graph, bl.RegionGraph.loops(graph, cycles)


def loop_alone(matrices: list[Any]) -> tuple[RegionTables, Any, LoopTrees]:
    """The arrays of one loop with the given tables, and its tree."""
    n, nothing = len(matrices), np.zeros(0, np.int64)
    ends = np.append(0, np.cumsum([m.size for m in matrices]))
    rows = np.array([m.shape[0] for m in matrices])
    width = int(rows.max())
    tables = RegionTables(np.array([0, n]), ends, rows, nothing, nothing, nothing)
    trees = LoopTrees(np.zeros(1, np.int64), np.array([width]), np.zeros(1, np.int64), np.zeros(2 * n * width**2))
    return tables, np.concatenate([m.ravel() for m in matrices]), trees


def products_of(order: Iterable[int], n: int) -> int:
    tables, values, trees = loop_alone(list(np.random.default_rng(1).random((n, 3, 3)) + 0.1))
    out = np.zeros(9)
    return sum(other_edges(tables, 0, int(q), True, trees, values, out) for q in order)


@pytest.mark.parametrize("n", [50, 100, 200, 400, 800])
def test_all_edges_of_a_loop_take_three_products_each(n: int) -> None:
    """And no order of edges takes more than two for every level of the tree."""
    assert products_of(range(n), n) <= 4 * n
    assert products_of(range(n - 1, -1, -1), n) <= 4 * n
    shuffled = np.random.default_rng(0).permutation(n)
    assert products_of(shuffled, n) <= n + 2 * n * np.ceil(np.log2(n))


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("n", [3, 4, 5, 7, 8, 13])
def test_a_tree_finds_the_product_of_all_other_tables(n: int, plain: bool) -> None:
    """In any order, while the table that was asked for last changes; cardinalities are mixed, and entries may be 0."""
    rng = np.random.default_rng(n)
    card = rng.integers(1, 4, size=n)
    matrices = [rng.random((card[k], card[(k + 1) % n])) + 0.1 for k in range(n)]
    matrices[1].ravel()[:-1][rng.random(matrices[1].size - 1) < 0.3] = 0.0
    tables, values, trees = loop_alone(matrices)
    if not plain:
        with np.errstate(divide="ignore"):
            values = np.log(values)
    out = np.zeros(16)
    for q in [*range(n), *rng.integers(n, size=40).tolist(), 0, 0, n - 1]:
        assert other_edges(tables, 0, q, plain, trees, values, out) >= 0
        rest = np.eye(card[(q + 1) % n])
        for k in range(q + 1, q + n):
            rest = rest @ matrices[k % n]
        found = out[: rest.size].reshape(rest.shape)
        np.testing.assert_allclose(found if plain else np.exp(found), rest / rest.max(), rtol=1e-12)
        factor = rng.random(matrices[q].shape) + 0.5
        matrices[q] = matrices[q] * factor
        own = values[tables.cell_ptr[q] : tables.cell_ptr[q + 1]]
        own[:] = own * factor.ravel() if plain else own + np.log(factor.ravel())


@pytest.mark.parametrize("scale", [0.5, 30.0, 200.0])
@pytest.mark.parametrize("states", [2, 4])
def test_dual_descent_on_a_long_loop_is_that_without_trees(states: int, scale: float) -> None:
    n = 260 if states == 2 else 30
    card = [states] * (n + 1)
    card[3] = 3 if states == 4 else 2
    graph, regions = wheel(n, card, scale, zero=True)
    plan = chosen_plan(Problem(graph), regions, "convex_gbp")
    counting = np.maximum(regions.counting, 0.0)
    one, other = (ConcaveState(Problem(graph), plan, counting) for _ in range(2))
    assert (one.trees.begin >= 0).sum() == 1
    other.trees.begin[:] = -1
    for state in (one, other):
        state.aim(np.zeros(plan.n_cells))
    for _ in range(6):
        assert one.sweep() == pytest.approx(other.sweep(), abs=1e-9)
        assert one.dual()[0] == pytest.approx(other.dual()[0], rel=1e-11)
    np.testing.assert_allclose(one.mu_var(), other.mu_var(), rtol=0, atol=1e-9)
    assert one.needs_logs == (scale > 1.0)


def test_the_entropy_of_a_loop_takes_four_products_an_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took as many as there are edges, for each of them; and from some 600 edges on the entropy was infinite."""
    made, scaled = [], region_entropy._scaled

    def counted(table: Any) -> Any:
        made.append(1)
        return scaled(table)

    monkeypatch.setattr(region_entropy, "_scaled", counted)
    for n in (50, 900):
        graph = ring(n, [3] * n)
        exact = bl.infer(graph)
        made.clear()
        found = region_entropy.loop_entropy([exact.factor_marginal(f) for f in range(n)])
        assert found == pytest.approx(exact.log_z - float(exact.mu @ graph.theta), rel=1e-9)
        assert len(made) <= 4 * n * 40  # sweeps


@pytest.mark.parametrize("scale", [1.0, 40.0])
@pytest.mark.parametrize("method", ["gbp", "double_loop", "convex_gbp"])
def test_one_long_loop_alone_is_exact(method: str, scale: float) -> None:
    """Plain numbers serve it although all ranges together are beyond them; logs where a product leaves its range."""
    graph = ring(300, [2, 3] * 150, scale, seed=3)
    truth = bl.infer(graph, "junction_tree")
    found = bl.infer(graph, f"{method}(regions=loops)")
    assert found.log_z == pytest.approx(truth.log_z, rel=1e-11)  # a bound is widened by its rounding
    np.testing.assert_allclose(found.mu_var, truth.mu_var, rtol=0, atol=1e-9)
