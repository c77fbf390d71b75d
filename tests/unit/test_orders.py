"""Elimination orders against the elimination game, played slowly on sets."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest

from beliefs.errors import ModelError
from beliefs.inference.orders import search as order_search
from beliefs.inference.orders.orders import ORDERS, order_cost, plan_order
from beliefs.kernels.orders.graph import EliminationGraph, primal_graph
from beliefs.kernels.orders.greedy import GreedyScores, bit_rows, fill_scores, greedy_elimination, greedy_scratch
from beliefs.kernels.orders.sparse import sparse_elimination, sparse_fill_scores
from beliefs.kernels.orders.windows import refine_order

NAMED = [name for name in ORDERS if name != "auto"]


Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def model(card, scopes) -> Arrays:
    ptr = np.concatenate([[0], np.cumsum([len(s) for s in scopes])]).astype(np.int64)
    flat = np.array([v for s in scopes for v in s], np.int64)
    return np.array(card, np.int64), ptr, flat


def random_model(rng, n, n_factors, max_card=4, arity=3) -> Arrays:
    card = rng.integers(1, max_card + 1, n)
    scopes = [rng.choice(n, int(rng.integers(1, min(n, arity) + 1)), replace=False) for _ in range(n_factors)]
    return model(card, scopes)


def grid(rows, cols, k=2):
    cell = np.arange(rows * cols).reshape(rows, cols)
    edges = [*zip(cell[:, :-1].ravel(), cell[:, 1:].ravel()), *zip(cell[:-1].ravel(), cell[1:].ravel())]
    return model(np.full(rows * cols, k), edges)


def pairs(n, edges, k=2):
    return model(np.full(n, k), edges)


def neighbour_sets(card, ptr, flat):
    near: list[set[int]] = [set() for _ in card]
    for a, b in itertools.pairwise(ptr):
        for v in flat[a:b]:
            near[v].update(int(u) for u in flat[a:b] if u != v)
    return near


def eliminate(near, v):
    for a in near[v]:
        near[a] |= near[v] - {a}
        near[a].discard(v)
    near[v] = set()


def game(mod, order):
    """Play the elimination game; return the cliques."""
    near, cliques = neighbour_sets(*mod), []
    for v in order:
        cliques.append(frozenset(near[v] | {int(v)}))
        eliminate(near, v)
    return cliques


def cells(card, clique):
    return math.prod(int(card[u]) for u in clique)


def assert_cost_is_true(mod, plan):
    cliques = game(mod, plan.order)
    tables = [cells(mod[0], c) for c in cliques]
    maximal = {c for c in cliques if not any(c < d for d in cliques)}
    assert plan.width == max(map(len, cliques)) - 1
    assert plan.total_cells == pytest.approx(sum(tables), rel=1e-12)
    assert plan.largest_cells == pytest.approx(max(tables), rel=1e-12)
    assert plan.maximal_cells == pytest.approx(sum(cells(mod[0], c) for c in maximal), rel=1e-12)
    assert plan.log2_cells == pytest.approx(math.log2(sum(tables)), abs=1e-9)
    assert plan.log2_largest == pytest.approx(math.log2(max(tables)), abs=1e-9)


def csr(mod):
    return primal_graph(mod[1], mod[2], np.ones(mod[0].size, np.bool_))


# ---------------------------------------------------------------------------------------------------------------- cost


def test_cost_of_a_random_order_is_that_of_the_game():
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(1, 14))
        mod = random_model(rng, n, int(rng.integers(0, 16)))
        assert_cost_is_true(mod, order_cost(*mod, rng.permutation(n)))


def test_small_cell_counts_are_whole_numbers():
    mod = model([3, 5, 7, 3], [(0, 1), (1, 2), (2, 3), (3, 0)])
    plan = order_cost(*mod, [0, 1, 2, 3])
    assert (plan.total_cells, plan.largest_cells, plan.maximal_cells) == (
        3 * 3 * 5 + 5 * 3 * 7 + 7 * 3 + 3,
        105.0,
        150.0,
    )


def test_order_cost_needs_every_variable_once():
    mod = model([2, 2, 2, 2], [(0, 1), (1, 2)])
    assert order_cost(*mod, [2, 1, 0]).order.tolist() == [2, 1, 0]  # variable 3 is in no scope
    assert order_cost(*mod, [3, 2, 1, 0]).total_cells == 2 + 4 + 4 + 2
    with pytest.raises(ModelError, match="variable 1 more than once"):
        order_cost(*mod, [0, 1, 1, 2])
    with pytest.raises(ModelError, match="does not name variable 2"):
        order_cost(*mod, [0, 1])
    with pytest.raises(ModelError, match="variable 4, but there are 4"):
        order_cost(*mod, [0, 1, 2, 4])
    with pytest.raises(ModelError, match="variable 3, which is not active"):
        order_cost(*mod, [0, 1, 2, 3], active=[True, True, True, False])
    with pytest.raises(ModelError, match="does not name variable 3"):
        order_cost(*mod, [0, 1, 2], active=np.ones(4, np.bool_))


# ------------------------------------------------------------------------------------------------------------ planning


@pytest.mark.parametrize("method", ORDERS)
def test_plans_are_permutations_with_their_true_cost(method):
    rng = np.random.default_rng(1)
    for trial in range(25):
        n = int(rng.integers(1, 30))
        mod = random_model(rng, n, int(rng.integers(0, 2 * n)))
        plan = plan_order(*mod, method=method, seed=trial, restarts=None if trial % 2 else 3)
        assert sorted(plan.order.tolist()) == list(range(n))
        assert_cost_is_true(mod, plan)


def reference_score(method, card, near, v):
    log = [max(1, math.floor(1024 * math.log2(c) + 0.5)) / 1024 for c in card]
    if method == "min_degree":
        return len(near[v])
    if method == "min_weight":
        return sum(log[u] for u in near[v] | {v})
    weight = {"min_fill": np.ones(len(card)), "weighted_min_fill": card, "log_min_fill": log}[method]
    return sum(weight[a] * weight[b] for a, b in itertools.combinations(near[v], 2) if b not in near[a])


def component_of(near, v):
    found, todo = {v}, [v]
    while todo:
        new = near[todo.pop()] - found
        found |= new
        todo += new
    return found


@pytest.mark.parametrize("method", NAMED)
def test_each_greedy_choice_is_a_minimiser(method):
    rng = np.random.default_rng(2)
    for trial in range(25):
        n = int(rng.integers(4, 22))
        mod = random_model(rng, n, int(1.5 * n), arity=3)
        order = plan_order(*mod, method=method, seed=trial).order.tolist()
        card, near, left = mod[0], neighbour_sets(*mod), set(range(n))

        def simplicial(v, near=near):
            return all(b in near[a] for a, b in itertools.combinations(near[v], 2))

        while order and any(simplicial(v) for v in left):  # these go first, in any order
            assert simplicial(order[0])
            left.remove(order[0])
            eliminate(near, order.pop(0))
        for v in order:
            least = min(reference_score(method, card, near, u) for u in component_of(near, v))
            assert reference_score(method, card, near, v) == pytest.approx(least, abs=1e-9)
            eliminate(near, v)


def test_lists_and_bit_rows_make_the_same_choices():
    rng = np.random.default_rng(3)
    for trial in range(30):
        n = int(rng.integers(2, 80))
        mod = random_model(rng, n, 2 * n)
        ptr, adj = csr(mod)
        card, stage, noise = mod[0].astype(float), rng.integers(0, 2, n), np.exp(0.3 * rng.standard_normal(n))
        weight, by_fill = (np.ones(n) if trial % 2 else card), trial % 3 > 0
        rows = np.empty((n, (n + 63) // 64), np.uint64)
        fill, mass, order, cells_of = np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n)
        other_fill, other_mass, other = np.empty(n), np.empty(n), np.empty(n, np.int64)
        bit_rows(ptr, adj, rows)
        fill_scores(rows, weight, True, fill, mass)
        sparse_fill_scores(ptr, adj, weight, other_fill, other_mass)
        near = neighbour_sets(*mod)
        expected = [
            sum(weight[a] * weight[b] for a, b in itertools.combinations(near[v], 2) if b not in near[a])
            for v in range(n)
        ]
        np.testing.assert_allclose(fill, expected)
        np.testing.assert_allclose(other_fill, expected)
        np.testing.assert_array_equal(mass, other_mass)
        scores = GreedyScores(by_fill, weight, fill, mass, noise)
        leaf, scratch = np.arange(n), greedy_scratch(n)
        total, _ = greedy_elimination(rows, card, stage, scores, leaf, np.inf, np.inf, scratch, order, cells_of)
        graph, pool = EliminationGraph(ptr, adj, card, stage), np.empty(20 * n * n, np.uint32)
        scores = GreedyScores(by_fill, weight, other_fill, other_mass, noise)
        again, _ = sparse_elimination(graph, scores, np.inf, np.inf, scratch, pool, other)
        np.testing.assert_array_equal(order, other)
        assert total == again == cells_of.sum() == sum(cells(mod[0], c) for c in game(mod, order))
        assert (np.diff(stage[order]) >= 0).all()


def test_runs_give_up_when_told():
    mod = grid(8, 8)
    ptr, adj = csr(mod)
    n = mod[0].size
    graph = EliminationGraph(ptr, adj, mod[0].astype(float), np.zeros(n, np.int64))

    def run(max_cells, max_ops, places=100_000):
        scores = GreedyScores(True, np.ones(n), np.empty(n), np.empty(n), np.ones(n))
        sparse_fill_scores(ptr, adj, scores.weight, scores.fill, scores.mass)
        pool, order = np.empty(places, np.uint32), np.empty(n, np.int64)
        return *sparse_elimination(graph, scores, max_cells, max_ops, greedy_scratch(n), pool, order), order

    total, ops, _ = run(np.inf, np.inf)
    assert run(total, np.inf)[0] == total
    assert run(0.99 * total, np.inf)[0] == -1.0
    assert run(np.inf, np.inf, adj.size)[0] == -2.0
    cells_, _, order = run(np.inf, ops / 2)
    assert cells_ == np.inf and sorted(order.tolist()) == list(range(n))  # the rest breadth first


def test_windows_reach_the_optimum_of_small_graphs():
    rng = np.random.default_rng(4)
    for trial in range(30):
        mod = random_model(rng, 5, 5, max_card=5)
        ptr, adj = csr(mod)
        stage = np.zeros(5, np.int64) if trial % 2 else np.array([0, 1, 0, 1, 0])
        orders = [p for p in itertools.permutations(range(5)) if (np.diff(stage[list(p)]) >= 0).all()]
        costs = {p: sum(cells(mod[0], c) for c in game(mod, p)) for p in orders}
        order = np.array(max(costs, key=lambda p: costs[p]))
        cells_of = np.empty(5)
        cells_of[order] = [cells(mod[0], c) for c in game(mod, order)]
        state = np.array([12345], np.uint64)
        graph = EliminationGraph(ptr, adj, mod[0].astype(float), stage)
        total = refine_order(graph, 1e9, state, order, cells_of)
        assert total == costs[tuple(order.tolist())] == min(costs.values())


def test_auto_is_better_than_plain_heuristics_on_a_grid():
    mod = grid(11, 11)
    plain = [plan_order(*mod, method=name, seed=s).total_cells for name in NAMED for s in range(4)]
    assert plan_order(*mod).total_cells < 0.8 * min(plain)


def test_restarts_do_not_make_it_worse_and_are_counted():
    mod = grid(9, 9, 3)
    one = plan_order(*mod, method="min_fill")
    many = plan_order(*mod, method="min_fill", restarts=30)
    assert (one.n_restarts, many.n_restarts) == (1, 31)
    assert many.total_cells < one.total_cells


def test_same_seed_same_order():
    mod = grid(9, 9)
    first, again, other = (plan_order(*mod, seed=s).order for s in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


# --------------------------------------------------------------------------------------------------- special structure


def test_trees_have_width_one_and_k_trees_width_k():
    rng = np.random.default_rng(5)
    tree = pairs(300, [(v, int(rng.integers(v))) for v in range(1, 300)], 3)
    k_tree, bags = [tuple(range(5))], [tuple(range(4))]
    for v in range(4, 120):
        bag = bags[int(rng.integers(len(bags)))]
        k_tree.append((*bag, v))
        bags += [(*bag[:i], *bag[i + 1 :], v) for i in range(4)]
    for method in ORDERS:
        assert plan_order(*tree, method=method).width == 1
        assert plan_order(*pairs(120, k_tree), method=method).width == 4


def test_no_and_single_and_isolated_variables():
    empty = plan_order([], [0], [])
    assert (empty.order.size, empty.width, empty.total_cells, empty.log2_cells) == (0, 0, 0.0, -math.inf)
    assert str(empty.report()).count("\n") == 4
    single = plan_order([7], [0], [])
    assert (single.order.tolist(), single.width, single.total_cells) == ([0], 0, 7.0)
    constant = plan_order([3, 4], [0, 0, 1], [1])  # one empty scope
    assert (sorted(constant.order.tolist()), constant.total_cells) == ([0, 1], 7.0)


def test_disconnected_parts_cost_the_sum():
    part = grid(4, 5, 3)
    n = part[0].size
    both = model(np.tile(part[0], 2), [part[2][a:b] + s for s in (0, n) for a, b in itertools.pairwise(part[1])])
    plan = plan_order(*both, restarts=60)
    assert_cost_is_true(both, plan)
    assert plan.total_cells <= 2.05 * plan_order(*part, restarts=60).total_cells


def test_inactive_variables_are_left_out():
    mod = grid(5, 5)
    active = np.arange(25) % 5 != 2  # without the middle column: two ladders
    plan = plan_order(*mod, active=active)
    assert sorted(plan.order.tolist()) == np.flatnonzero(active).tolist()
    assert plan.width == 2


@pytest.mark.parametrize("method", ORDERS)
def test_stages_are_respected(method):
    rng = np.random.default_rng(6)
    for trial in range(15):
        n = int(rng.integers(1, 25))
        mod = random_model(rng, n, 2 * n)
        stage = rng.integers(3, 6, n)
        plan = plan_order(*mod, method=method, stage=stage, restarts=2, seed=trial)
        assert sorted(plan.order.tolist()) == list(range(n))
        assert (np.diff(stage[plan.order]) >= 0).all()
        assert_cost_is_true(mod, plan)


def test_a_stage_can_make_a_star_expensive():
    star = pairs(12, [(0, v) for v in range(1, 12)])
    assert plan_order(*star).width == 1
    assert plan_order(*star, stage=[0] + [1] * 11).width == 11


# ------------------------------------------------------------------------------------------------------------- at size


def within(seconds, *args, **options):
    plan_order(*grid(3, 3), **options)  # compiled
    begin = time.process_time()
    plan = plan_order(*args, **options)
    assert time.process_time() - begin < seconds  # of the processor, whatever else the machine does
    assert np.array_equal(np.sort(plan.order), np.arange(len(args[0])))
    return plan


@pytest.mark.parametrize("method", ["auto", "min_fill", "min_weight"])
def test_a_long_chain_takes_linear_time(method):
    n = 200_000
    assert within(3.0, *pairs(n, np.stack([np.arange(n - 1), np.arange(1, n)], 1)), method=method).width == 1


@pytest.mark.parametrize("method", ["auto", "min_fill", "min_weight"])
def test_hubs_cost_no_quadratic_work(method):
    n = 5001
    star = pairs(n, [(0, v) for v in range(1, n)])
    assert within(3.0, *star, method=method).width == 1
    wheel = pairs(n, [(0, v) for v in range(1, n)] + [(v, v + 1) for v in range(1, n - 1)] + [(n - 1, 1)])
    assert within(3.0, *wheel, method=method).width == 3
    n = 100_001  # a chain, and one variable next to all of it
    chain = np.stack([np.arange(1, n - 1), np.arange(2, n)], 1)
    spokes = np.stack([np.zeros(n - 1, np.int64), np.arange(1, n)], 1)
    assert within(6.0, *pairs(n, np.concatenate([chain, spokes])), method=method).width == 2


@pytest.mark.parametrize("method", ["auto", "min_fill", "min_degree", "weighted_min_fill"])
def test_components_beyond_bit_rows(method):
    mod = grid(3, 3000)
    plan = within(20.0, *mod, method=method)
    assert plan.width <= 4
    assert_sizes_are_true(mod, plan)
    stage = (np.arange(9000) % 3000 % 5 == 0).astype(np.int64)  # every fifth column last: blocks, then a chain
    plan = plan_order(*mod, method=method, stage=stage)
    assert (np.diff(stage[plan.order]) >= 0).all()
    assert_sizes_are_true(mod, plan)


def assert_sizes_are_true(mod, plan):
    cliques = game(mod, plan.order)
    assert plan.width == max(map(len, cliques)) - 1
    assert plan.total_cells == pytest.approx(sum(cells(mod[0], c) for c in cliques), rel=1e-12)


def test_a_run_that_takes_too_long_ends_breadth_first(monkeypatch):
    monkeypatch.setattr(order_search, "BITS_LIMIT", 100)
    monkeypatch.setattr(order_search, "_MAX_LARGE_OPS", 20_000.0)
    mod, stage = grid(30, 30), np.arange(900) % 2
    plan = plan_order(*mod, stage=stage)
    assert sorted(plan.order.tolist()) == list(range(900))
    assert (np.diff(stage[plan.order]) >= 0).all()


def test_a_pool_that_is_too_small_is_enlarged(monkeypatch):
    monkeypatch.setattr(order_search, "BITS_LIMIT", 100)
    rng = np.random.default_rng(7)
    n = 400  # a random graph that fills up: far more edges in the end than at first
    mod = pairs(n, [(v, int(u)) for v in range(n) for u in rng.choice(n, 2, replace=False) if u != v])
    plan = plan_order(*mod, method="min_degree")
    assert plan.width > 60
    assert_sizes_are_true(mod, plan)
    monkeypatch.setattr(order_search, "_MAX_PLACES", 10_000)
    assert sorted(plan_order(*mod, method="min_degree").order.tolist()) == list(range(n))


def test_no_limit_on_dimensions_or_cells():
    n = 1300  # one clique of 2**1300 cells
    plan = plan_order(np.full(n, 2), [0, n], np.arange(n))
    assert (plan.width, plan.log2_largest) == (n - 1, float(n))
    assert plan.total_cells == plan.maximal_cells == math.inf
    assert plan.log2_cells == pytest.approx(n + 1)
    text = str(plan.report())
    assert "1e391 cells" in text and "nan" not in text
    assert plan.seconds == math.inf and plan.duration == "more than a century"


# -------------------------------------------------------------------------------------------------- options and report


def test_bad_options_are_named():
    with pytest.raises(ModelError, match=r"'max_fill'; choose one of auto, min_fill"):
        plan_order([2], [0], [], method="max_fill")
    with pytest.raises(ModelError, match="restarts must be an integer of at least 0, found -1"):
        plan_order([2], [0], [], restarts=-1)


def test_a_time_limit_is_kept_and_used():
    mod = grid(12, 12, 3)
    begin = time.perf_counter()
    plan = plan_order(*mod, time_limit=0.3)
    assert time.perf_counter() - begin < 3.0
    assert plan.total_cells <= plan_order(*mod).total_cells
    assert_cost_is_true(mod, plan)
    assert plan_order(*grid(3, 3), time_limit=60.0).width == 3  # nothing more to gain: ends long before


def test_the_report_lines_up():
    plan = plan_order(*grid(6, 6, 3))
    lines = str(plan.report(n_bytes=1500.0)).splitlines()
    assert [line[:15].strip() for line in lines] == ["order", "width", "cells", "largest table", "memory", "time"]
    assert {line[13:15] for line in lines} == {"  "} and all(line[15] != " " for line in lines)
    assert "1.5 kB" in lines[4] and "memory" not in str(plan.report())
    assert plan.seconds == pytest.approx(5e-9 * plan.total_cells)
    assert f"{plan.width}" in lines[1] and plan.method in lines[0]
