"""Search over queries: moves are exact, values real, optima of small models found, answers repeatable."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.inference.base import Problem, Task
from beliefs.inference.search import query_search
from beliefs.inference.search.clamped import ClampedTree
from beliefs.inference.search.flips import Flips
from beliefs.inference.search.local_search import LocalSearch
from beliefs.inference.search.neighbourhoods import Neighbourhoods
from beliefs.inference.search.query_search import QuerySearch
from beliefs.inference.search.query_value import QueryPlan
from beliefs.inference.search.sequential import rounded, sequential_conditioning
from beliefs.inference.search.starts import Starts
from families import FAMILIES, evidence, family, grid_pairs, oracle, random_model, random_models, unary


def queries(graph: bl.FactorGraph) -> list[np.ndarray]:
    hidden = np.flatnonzero(~graph.layout.observed)
    return [hidden[: hidden.size // 2], hidden[::2], hidden]


def searching(graph: bl.FactorGraph, query: np.ndarray, seed: int = 0) -> QuerySearch:
    return QuerySearch(Problem(graph, Task.MARGINAL_MAP, query=query, seed=seed))


def neighbourhoods(graph: bl.FactorGraph, query: np.ndarray, seed: int = 0) -> Neighbourhoods:
    sums = QueryPlan.of(graph.layout, query).summed.order
    return Neighbourhoods(graph.layout, query, sums, np.random.default_rng(seed))


@pytest.mark.parametrize("observed", [0, 2])
@pytest.mark.parametrize("name", list(FAMILIES))
class TestFamilies:
    def test_small_queries_are_solved(self, name: str, observed: int) -> None:
        graph = family(name).condition(evidence(name, observed))
        for query in queries(graph):
            values = reference.query_values(oracle(name, observed), query.tolist())
            search = searching(graph, query)
            search.improve(n_moves=5)
            found = search.decoding()
            truth = values[tuple(search.states)]
            assert found.bound is bl.Bound.EXACT and found.log_value == pytest.approx(truth, rel=1e-10, abs=1e-10)
            assert found.lower == found.log_value <= found.upper
            assert found.log_value == pytest.approx(values.max(), rel=1e-10, abs=1e-10)

    def test_joint_states_are_solved(self, name: str, observed: int) -> None:
        graph = family(name).condition(evidence(name, observed))
        search = QuerySearch(Problem(graph, Task.MAXIMIZE))
        search.improve(n_moves=5)
        found = search.decoding()
        assert found.log_value == pytest.approx(graph.log_score(found.assignment), rel=1e-12, abs=1e-12)
        assert found.log_value == pytest.approx(reference.maximum(oracle(name, observed)), rel=1e-12, abs=1e-12)


class TestMoves:
    @pytest.mark.parametrize("zeros", [0.0, 0.3])
    def test_a_free_part_takes_its_best_state(self, zeros: float) -> None:
        """Against all states of the freed variables, the others summed or fixed."""
        for seed, graph in enumerate(random_models(30, 12, 3, zeros)):
            rng = np.random.default_rng(seed)
            query = np.sort(rng.permutation(9)[:6])
            near = neighbourhoods(graph, query, seed)
            if near.movable.size == 0:
                continue
            values = reference.query_values(reference.joint_table(graph), query.tolist())
            row = np.zeros(9, np.int64)  # state 0 is possible
            hood = near.draw(int(near.movable[0]), int(rng.integers(1, 7)), 2.0 ** rng.uniform(2, 8))
            freed = hood.tree.free[hood.tree.maximised]
            assert np.isin(freed, query).all() and hood.tree.maximise(graph.theta, row)
            assert (row[np.setdiff1d(query, freed)] == 0).all()
            there = values[tuple(slice(None) if v in freed else 0 for v in query)]
            assert values[tuple(row[query])] == pytest.approx(there.max(), abs=1e-9)

    def test_a_budget_bounds_the_cliques(self) -> None:
        graph = random_model([2] * 64, unary(64) + grid_pairs(8, 8), seed=0)
        query = np.arange(64)[np.arange(64) % 3 > 0]
        near = neighbourhoods(graph, query)
        sizes = []
        for budget in (2.0**8, 2.0**12, 2.0**30):
            hood = near.draw(1, 64, budget)
            assert hood.tree.order.total_cells <= 4 * budget + 2**12
            sizes.append(int(hood.tree.maximised.sum()))
            plan = hood.tree.order.order
            assert np.array_equal(np.sort(plan), np.arange(hood.tree.free.size))
            summed = ~hood.tree.maximised[plan]
            assert summed[: summed.sum()].all()  # sums first
        assert 0 < sizes[0] < sizes[1] < sizes[2] == query.size and hood.is_whole

    def test_a_clamped_tree_serves_other_states_and_values(self) -> None:
        graph = family("higher_order")
        free = np.array([1, 3, 4])
        tree = ClampedTree.build(graph.layout, free, np.array([False, True, False]))
        rng = np.random.default_rng(0)
        for _ in range(5):
            states, theta = rng.integers(graph.layout.card), rng.normal(size=graph.theta.size)
            theta.setflags(write=False)
            given = {v: int(states[v]) for v in (0, 2, 5)}
            joint = reference.joint_table(graph.with_theta(theta), given)
            rest = reference.log_score(graph.with_theta(theta), states) - sum(
                float(theta[graph.layout.cells(f)].reshape(graph.layout.shape(f))[tuple(states[graph.layout.scope(f)])])
                for f in tree.factors
            )
            best = reference.query_values(joint, [3]).max()
            assert tree.log_value(theta, states) == pytest.approx(best - rest, abs=1e-9)


class TestFlips:
    @pytest.mark.parametrize("zeros", [0.0, 0.3])
    def test_estimates_are_exact_for_one_summed_neighbour_or_independent_ones(self, zeros: float) -> None:
        """A tree whose query breaks it into independent sums: every single change is predicted exactly."""
        card = [2, 3, 2, 3, 2, 3]
        scopes = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 3), (0,), (3,), (5,)]
        for seed in range(10):
            graph = random_model(card, scopes, seed=seed, zeros=zeros)
            query = np.array([1, 3])
            values = reference.query_values(reference.joint_table(graph), [1, 3])
            flips = Flips(graph, query, QueryPlan.of(graph.layout, query))
            gains = flips.gains(np.zeros(6, np.int64))
            assert gains is not None
            for k, v in enumerate(query):
                for x in range(card[v]):
                    changed = values[(x, 0) if k == 0 else (0, x)] - values[0, 0]
                    estimate = gains[graph.layout.state_ptr[v] + x]
                    if zeros == 0:
                        assert estimate == pytest.approx(changed, abs=1e-9)
                    else:
                        assert estimate <= changed + 1e-9  # mass that becomes possible is not seen

    def test_climbing_ends_where_no_promising_change_is_better(self) -> None:
        for seed, graph in enumerate(random_models(20, 12, 3, 0.0)):
            query = np.sort(np.random.default_rng(seed).permutation(9)[:5])
            values = reference.query_values(reference.joint_table(graph), query.tolist())
            flips = Flips(graph, query, QueryPlan.of(graph.layout, query))
            row = np.zeros(9, np.int64)
            value = values[tuple(row[query])]
            while True:
                row, reached = flips.climb(row, value, 1e-9)
                assert reached == pytest.approx(values[tuple(row[query])], abs=1e-9) and reached >= value - 1e-9
                if reached <= value + 1e-9:
                    break
                value = reached
            assert flips.climb(row, reached, 1e-9)[0].tolist() == row.tolist()

    def test_a_search_with_expensive_sums_finds_optima(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(query_search, "_MANY_SUMS", 0.0)
        for seed, graph in enumerate(random_models(15, 12, 3, 0.2)):
            query = np.sort(np.random.default_rng(seed).permutation(9)[:5])
            search = searching(graph, query)
            search.improve(n_moves=30)
            best = reference.query_values(reference.joint_table(graph), query.tolist()).max()
            assert search.decoding().log_value == pytest.approx(best, abs=1e-9)


class TestSearch:
    def test_optima_of_larger_models(self) -> None:
        """Grids that are beyond one move at the smallest budgets: nearly all optima are found."""
        found = 0
        for seed in range(12):
            graph = random_model([2] * 49, unary(49) + grid_pairs(7, 7), seed=seed, scale=1.5)
            query = np.sort(np.random.default_rng(seed).permutation(49)[:24])
            best = bl.marginal_map(graph, query.tolist(), "junction_tree").log_value
            search = searching(graph, query)
            search.improve(n_moves=60)
            assert search.value.value <= best + 1e-9
            assert search.value.value == pytest.approx(
                bl.infer(graph.condition(dict(zip(query.tolist(), search.states.tolist())))).log_z, abs=1e-9
            )
            found += search.value.value >= best - 1e-9
        assert found >= 11

    def test_a_proof_is_a_proof(self) -> None:
        for seed, graph in enumerate(random_models(20, 12, 3, 0.3)):
            query = np.sort(np.random.default_rng(seed).permutation(9)[:5])
            search = searching(graph, query)
            search.improve(n_moves=40)
            best = reference.query_values(reference.joint_table(graph), query.tolist()).max()
            assert search.is_optimal and search.value.value == pytest.approx(best, abs=1e-9)
            assert not search.improve(n_moves=10) and search.decoding(upper=best + 5).upper == search.value.value

    def test_the_same_seed_gives_the_same_search(self) -> None:
        graph = random_model([3] * 100, unary(100) + grid_pairs(10, 10), seed=1, scale=2.0)
        runs = []
        for seed, slices in ((3, (30,)), (3, (10, 20)), (4, (30,))):
            search = QuerySearch(Problem(graph, Task.MARGINAL_MAP, query=np.arange(0, 100, 2)), seed)
            for n_moves in slices:
                search.improve(n_moves=n_moves)
            runs.append((search.value.value, search.states.tolist(), search.latest))
        assert runs[0] == runs[1]  # however the moves are sliced

    def test_the_best_is_kept_while_the_search_goes_on(self) -> None:
        graph = random_model([2] * 144, unary(144) + grid_pairs(12, 12), seed=2, scale=3.0)
        search = QuerySearch(Problem(graph, Task.MAXIMIZE))
        best = -np.inf
        for _ in range(80):
            gained = search.improve(n_moves=1)
            assert (search.value.value > best) == gained and search.latest <= search.value.value + 1e-9
            best = search.value.value
        row = search.decoding().assignment
        assert best == pytest.approx(graph.log_score(row), abs=1e-9)

    def test_given_states_are_where_it_starts(self) -> None:
        graph = random_model([2] * 100, unary(100) + grid_pairs(10, 10), seed=3)
        search = searching(graph, np.arange(50))
        states = np.arange(50) % 2
        assert search.start(states) and search.states.tolist() == states.tolist()
        assert search.improve(n_moves=3)

    def test_beyond_the_budget_the_value_is_bounded_and_nothing_moves(self) -> None:
        graph = random_model([2] * 100, unary(100) + grid_pairs(10, 10), seed=4)
        search = QuerySearch(Problem(graph, Task.MARGINAL_MAP, query=np.arange(10)), seconds=0.0)
        search.improve(n_moves=3)
        found = search.decoding()
        truth = bl.infer(graph.condition(dict(enumerate(search.states.tolist())))).log_z
        assert not search.can_improve and found.bound is bl.Bound.ESTIMATE
        assert found.lower <= truth <= found.upper and found.lower > -np.inf

    def test_no_time_still_gives_a_state(self) -> None:
        search = searching(family("hard_zeros"), np.array([0, 3]))
        search.improve(seconds=0.0)
        assert search.value.value > -np.inf


class TestStarts:
    @pytest.mark.parametrize("name", list(FAMILIES))
    def test_all_starts_are_possible(self, name: str) -> None:
        graph = family(name)
        for task in (Task.MAXIMIZE, Task.MARGINAL_MAP):
            query = np.arange(0, graph.n_vars, 2)
            starts = Starts(Problem(graph, task, query=query), query, 0)
            for _ in range(12):
                row = starts.next()
                assert row.dtype == np.int64 and graph.log_score(row) > -np.inf

    @pytest.mark.parametrize("name", list(FAMILIES))
    def test_rounding_follows_the_scores(self, name: str) -> None:
        graph, joint = family(name), oracle(name)
        best = np.array(np.unravel_index(int(joint.argmax()), joint.shape))
        scores = np.zeros(graph.layout.n_states)
        scores[graph.layout.state_ptr[:-1] + best] = 20.0
        row = rounded(graph, scores)
        assert row is not None and row.tolist() == best.tolist()

    @pytest.mark.parametrize("name", list(FAMILIES))
    def test_sequential_conditioning_ends_in_a_possible_state(self, name: str) -> None:
        graph = family(name)
        row = sequential_conditioning(graph, np.arange(graph.n_vars), rounds=graph.n_vars)
        assert row is not None and graph.log_score(row) > -np.inf

    def test_fixing_one_at_a_time_follows_conditional_marginals(self) -> None:
        """On a chain beliefs are exact, so each decision is the best given the most certain before it."""
        graph = family("chain")
        row = sequential_conditioning(graph, np.arange(7), rounds=7)
        given: dict[int, int] = {}
        assert row is not None
        for _ in range(7):
            joint = reference.joint_table(graph, given)
            left = [v for v in range(7) if v not in given]
            v = max(left, key=lambda u: reference.marginal(joint, [u]).max())
            given[v] = int(reference.marginal(joint, [v]).argmax())
        assert row.tolist() == [given[v] for v in range(7)]


class TestMethod:
    def test_at_the_doors(self) -> None:
        graph = family("grid")
        found = bl.maximize(graph, LocalSearch())
        assert found.gap == 0.0 and found.log_score == pytest.approx(reference.maximum(oracle("grid")))
        query = [0, 5, 6]
        mixed = bl.marginal_map(graph, query, LocalSearch())
        best = reference.query_values(oracle("grid"), query).max()
        assert mixed.gap == 0.0 and mixed.log_value == pytest.approx(best)

    def test_a_warm_start_goes_on_from_the_best(self) -> None:
        graph = random_model([2] * 400, unary(400) + grid_pairs(20, 20), seed=5, scale=2.0)
        first = bl.maximize(graph, LocalSearch(), max_iters=5)
        again = bl.maximize(graph, LocalSearch(), max_iters=0, init=first)
        assert again.log_score >= first.log_score

    def test_bad_options_are_named(self) -> None:
        with pytest.raises(bl.ModelError, match="moves must be an integer of at least 1, found 0"):
            LocalSearch(moves=0)


@pytest.mark.parametrize("task", [Task.MAXIMIZE, Task.MARGINAL_MAP])
def test_what_is_proved_is_the_best_by_however_little(task: Task) -> None:
    """Scores of thousands that differ in the ninth decimal: a gap of 0.0 is for the largest alone."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        tables = 2000.0 + 1e-8 * rng.normal(size=(3, 17, 12))
        graph = bl.FactorGraph.from_tables([17, 12], [((0, 1), table) for table in tables], log=True)
        score = tables.sum(axis=0)
        value = score if task is Task.MAXIMIZE else np.logaddexp.reduce(score, axis=1)
        door = (
            bl.maximize(graph, "local_search") if task is Task.MAXIMIZE else bl.marginal_map(graph, [0], "local_search")
        )
        assert door.gap == 0.0
        assert door.log_upper >= value.max() - 1e-11


@pytest.mark.parametrize("task", ["maximize", "marginal_map"])
def test_just_enough_memory_is_enough_to_search(task: str) -> None:
    graph = bl.datasets.make_ising_grid(60, field=0.3, coupling=0.4, seed=0)
    query = [list(range(0, graph.n_vars, 2))] if task == "marginal_map" else []
    door = getattr(bl, task)
    with pytest.raises(bl.BudgetError) as refused:
        door(graph, *query, "local_search", max_bytes=1)
    needed = int(1e6 * float(str(refused.value).split(" needs ")[1].split(" MB")[0]))
    found = door(graph, *query, "local_search", max_bytes=int(1.01 * needed), max_iters=4)
    assert found.n_iters == 4  # where values are only bounded, nothing is searched after the first
    assert found.log_lower == found.log_value if query else found.log_score == graph.log_score(found.assignment)
