"""Time limits end every method and stage; what is returned then is certified all the same.

A question inside a deadline that is over finds itself out of time at its first look at the clock, so nothing here
depends on how fast the machine is.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.deadline import OutOfTime, check_time, limited
from beliefs.inference import doors
from beliefs.inference.base import Problem, Task
from beliefs.inference.buckets.bucket_run import BucketRun, uniform_weights
from beliefs.inference.buckets.bucket_tree import bucket_tree
from beliefs.inference.dual import state as gdd_state
from beliefs.inference.exact import tree_run
from beliefs.inference.orders import planned
from beliefs.inference.orders.chosen import chosen_order
from beliefs.inference.orders.planned import planned_order
from beliefs.inference.portfolio import portfolio
from beliefs.inference.portfolio.auto import choose
from beliefs.inference.quiet import quietly
from beliefs.inference.regions import concave as region_concave
from beliefs.inference.regions import ijgp as ijgp_module
from beliefs.inference.regions import plan as region_plan_module
from beliefs.inference.regions import state as region_state
from beliefs.inference.sampling import chains
from beliefs.inference.search import cutset as cutset_module
from beliefs.inference.search.feasible import feasible_state
from beliefs.inference.search.query_value import bounded_value
from beliefs.kernels.buckets import passes as bucket_passes
from beliefs.kernels.trees import decode as tree_decode
from beliefs.kernels.trees import linear as tree_linear
from beliefs.kernels.trees import log as tree_log
from families import family, random_model, unary

GRID = bl.datasets.make_ising_grid(3, field=1.0, coupling=1.0, seed=0)
QUERY = (0, 2, 4, 7)
DOORS: dict[Task, Callable[..., Any]] = {
    Task.INFER: bl.infer,
    Task.MAXIMIZE: bl.maximize,
    Task.MARGINAL_MAP: lambda g, *a, **o: bl.marginal_map(g, QUERY, *a, **o),
}
TRUTH = {
    Task.INFER: bl.infer(GRID, "enumeration").log_z,
    Task.MAXIMIZE: bl.maximize(GRID, "enumeration").log_score,
    Task.MARGINAL_MAP: bl.marginal_map(GRID, QUERY, "enumeration").log_value,
}


def check_bounds(task: Task, result: Any) -> None:
    """The certified interval holds, and what is called exact is."""
    lower = result.log_score if task is Task.MAXIMIZE else result.log_lower
    slack = 1e-9 * abs(TRUTH[task])
    assert lower - slack <= TRUTH[task] <= result.log_upper + slack
    if task is Task.INFER:
        assert np.isfinite(result.mu_var).all()
        sums = np.add.reduceat(result.mu_var, GRID.layout.state_ptr[:-1])
        np.testing.assert_allclose(sums, 1.0, atol=1e-9)
        assert result.bound is not bl.Bound.EXACT or abs(result.log_z - TRUTH[task]) <= slack


@contextmanager
def no_time() -> Iterator[None]:
    with limited(0.0, grace=False):
        yield


class OutAfter:
    """Replaces a function: the first ``n`` calls go through, then there is no time left."""

    def __init__(self, function: Callable[..., Any], n: int) -> None:
        self.function, self.left = function, n

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise OutOfTime
        return self.function(*arguments, **options)

    def __get__(self, owner: Any, kind: Any = None) -> Callable[..., Any]:
        return lambda *arguments, **options: self(owner, *arguments, **options)


class TestExactMethods:
    @pytest.mark.parametrize("method", ["enumeration", "elimination", "junction_tree"])
    @pytest.mark.parametrize("task", list(DOORS))
    def test_one_that_is_not_done_is_a_budget_error(self, task: Task, method: str) -> None:
        with no_time(), pytest.raises(bl.BudgetError, match=f"^{method} had no answer when the time limit of 7 s was "):
            DOORS[task](GRID, method, time_limit=7)

    @pytest.mark.parametrize("method", ["enumeration", "elimination", "junction_tree"])
    @pytest.mark.parametrize("task", list(DOORS))
    def test_small_work_is_done_whatever_the_limit(self, task: Task, method: str) -> None:
        result = DOORS[task](GRID, method, time_limit=0)
        assert result.status is bl.Status.CONVERGED
        check_bounds(task, result)

    @pytest.mark.parametrize("door", [bl.infer, bl.maximize])
    def test_long_passes_are_cut_off_in_the_middle(self, door: Callable[..., Any]) -> None:
        n = 30  # one clique of 2^30 cells: seconds on any machine
        pairs = np.array([(i, j) for i in range(n) for j in range(i)])
        graph = bl.FactorGraph.pairwise(np.zeros((n, 2)), pairs, 0.1 * np.eye(2))
        with pytest.raises(bl.BudgetError, match="time limit of 0.1 s"):
            door(graph, "junction_tree", time_limit=0.1, max_bytes=2**40)

    def test_draws_end_too(self) -> None:
        with no_time(), pytest.raises(bl.BudgetError):
            bl.sample(GRID, 5, "junction_tree", time_limit=1)

    @pytest.mark.parametrize("task", list(DOORS))
    def test_auto_falls_back_to_bounds(self, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "exact inference fits" in DOORS[task](GRID, time_limit=5).reason
        monkeypatch.setattr(doors, "EXACT_SHARE", 0.0)
        monkeypatch.setattr(doors, "_LEAST_EXACT", 0.0)
        result = DOORS[task](GRID, time_limit=2)
        assert result.reason.startswith("exact inference was not done after 0 s of 2: bounds instead\n")
        assert result.method.iterative and result.n_iters > 0
        check_bounds(task, result)
        assert DOORS[task](GRID).gap == 0 if task is not Task.INFER else DOORS[task](GRID).bound is bl.Bound.EXACT

    def test_auto_draws_from_a_chain_instead(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(doors, "EXACT_SHARE", 0.0)
        monkeypatch.setattr(doors, "_LEAST_EXACT", 0.0)
        result = bl.sample(GRID, 3, time_limit=2)
        assert result.samples.shape == (3, 9) and result.bound is bl.Bound.ESTIMATE
        assert "a Markov chain instead" in result.reason


class TestInterruptedSteps:
    """A step that ends in the middle leaves a state whose value, marginals and decoding are still certified."""

    @pytest.mark.parametrize("n", range(4, 30, 3))
    @pytest.mark.parametrize("task", list(DOORS))
    def test_wmb(self, task: Task, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("forward", "match", "backward"):
            monkeypatch.setattr(BucketRun, name, OutAfter(getattr(BucketRun, name), n))
        check_bounds(task, self.cut(task, "wmb(ibound=2)"))

    def test_wmb_lower(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(BucketRun, "match", OutAfter(BucketRun.match, 3))
        check_bounds(Task.INFER, self.cut(Task.INFER, "wmb(ibound=2, side=lower)"))

    @pytest.mark.parametrize("n", range(0, 40, 5))
    @pytest.mark.parametrize("task", list(DOORS))
    def test_gdd(self, task: Task, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gdd_state, "_CELLS_UNWATCHED", 10)
        monkeypatch.setattr(gdd_state, "check_time", OutAfter(lambda: None, n))
        check_bounds(task, self.cut(task, "gdd"))

    @pytest.mark.parametrize("n", range(1, 40, 6))
    @pytest.mark.parametrize("task", [Task.MAXIMIZE, Task.MARGINAL_MAP])
    def test_local_search(self, task: Task, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tree_run, "check_time", OutAfter(lambda: None, n))
        result = self.cut(task, "local_search")
        value = result.log_score if task is Task.MAXIMIZE else result.log_lower
        assert value <= TRUTH[task] + 1e-9
        if task is Task.MARGINAL_MAP and result.value_bound is bl.Bound.EXACT:
            given = GRID.condition(dict(zip(QUERY, result.assignment.tolist(), strict=True)))
            assert result.log_value == pytest.approx(bl.infer(given, "enumeration").log_z)

    @pytest.mark.parametrize("n", [0, 1, 7, 40])
    def test_gibbs(self, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = bl.sample(GRID, 40, "gibbs(chains=4, burn_in=5)").samples
        monkeypatch.setattr(chains, "_UNWATCHED", 1)
        assert np.array_equal(bl.sample(GRID, 40, "gibbs(chains=4, burn_in=5)").samples, whole)  # in smaller pieces
        with monkeypatch.context() as patch:
            patch.setattr(chains, "check_time", OutAfter(lambda: None, n))
            drawn = bl.sample(GRID, 40, "gibbs(chains=4, burn_in=5)", time_limit=1e6)
        assert drawn.status is bl.Status.TIME_LIMIT or n == 40
        assert np.array_equal(drawn.samples, whole[: len(drawn)])
        monkeypatch.setattr(chains, "check_time", OutAfter(lambda: None, n))
        check_bounds(Task.INFER, self.cut(Task.INFER, "gibbs(chains=4, burn_in=5)"))

    @staticmethod
    def cut(task: Task, method: str) -> Any:
        result = DOORS[task](GRID, method, time_limit=1e6, max_iters=50, tol=0.0)
        assert result.status in (bl.Status.TIME_LIMIT, bl.Status.CONVERGED, bl.Status.MAX_ITERS)
        return result

    @pytest.mark.parametrize("n", [0, 1, 3, 10, 30])
    @pytest.mark.parametrize("task", list(DOORS))
    def test_stages_of_a_portfolio(self, task: Task, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(doors, "EXACT_SHARE", 0.0)
        monkeypatch.setattr(doors, "_LEAST_EXACT", 0.0)
        with monkeypatch.context() as patch:
            patch.setattr(cutset_module, "check_time", OutAfter(lambda: None, n))
            for name in ("forward", "match", "backward"):
                patch.setattr(BucketRun, name, OutAfter(getattr(BucketRun, name), n))
            patch.setattr(gdd_state, "check_time", OutAfter(lambda: None, n))
            check_bounds(task, DOORS[task](GRID, time_limit=1))


@pytest.mark.parametrize("method", [m.name for m in bl.METHODS if m.general])
@pytest.mark.parametrize("task", list(DOORS))
def test_no_time_at_all_is_an_answer_or_a_budget_error(task: Task, method: str) -> None:
    """Within a question that is out of time, and as a question of its own with a limit of 0."""
    cls = next(m for m in bl.METHODS if m.name == method)
    if task not in cls.tasks:
        pytest.skip("not its task")
    with no_time(), pytest.raises(bl.BudgetError, match="time limit"):
        DOORS[task](GRID, method)
    with pytest.warns(bl.ConvergenceWarning) if cls.fixed_point else nullcontext():
        check_bounds(task, DOORS[task](GRID, method, time_limit=0))


class TestAutoAlwaysAnswers:
    """However little time there was: an interval, never an error."""

    @pytest.mark.parametrize("limit", [0.0, None])
    @pytest.mark.parametrize("task", list(DOORS))
    def test_within_a_question_whose_time_is_over(self, task: Task, limit: float | None) -> None:
        with no_time():
            result = DOORS[task](GRID, time_limit=limit)
        assert result.status is bl.Status.TIME_LIMIT and "no time for more: bounds instead" in result.reason
        assert np.isfinite(result.log_upper)
        assert np.isfinite(result.log_score if task is Task.MAXIMIZE else result.log_lower)
        check_bounds(task, result)

    @pytest.mark.parametrize("task", list(DOORS))
    def test_after_a_prediction_that_took_all_the_time(self, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
        def slow(problem: Problem) -> Any:
            time.sleep(0.7)  # longer than the grace
            return choose(problem)

        monkeypatch.setattr(doors, "choose", slow)
        monkeypatch.setattr(doors, "_LEAST_EXACT", 0.0)
        result = DOORS[task](GRID, time_limit=0)
        assert result.status is bl.Status.TIME_LIMIT and np.isfinite(result.log_upper)
        check_bounds(task, result)

    @pytest.mark.parametrize("task", list(DOORS))
    def test_hard_zeros(self, task: Task) -> None:
        graph = bl.datasets.load_bn("asia").to_factor_graph()
        with no_time():
            result = DOORS[task](graph)
        assert np.isfinite([result.log_upper, result.log_score if task is Task.MAXIMIZE else result.log_lower]).all()

    @pytest.mark.parametrize("n_hidden", [3, 40])
    def test_draws_and_machines(self, n_hidden: int) -> None:
        rbm = bl.RBM(np.full((40, n_hidden), 0.01), np.zeros(40), np.zeros(n_hidden))
        with no_time():
            assert bl.sample(GRID, 5).samples.shape[1] == 9
            assert np.isfinite(bl.infer(rbm).log_lower) and bl.sample(rbm, 5).samples.shape[1] == 40 + n_hidden
            assert bl.maximize(rbm).assignment.shape == (40 + n_hidden,)

    def test_methods_left_out_for_want_of_time_are_no_convergence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(doors, "_LEAST_EXACT", 0.0)
        monkeypatch.setattr(doors, "EXACT_SHARE", 0.0)
        monkeypatch.setattr(portfolio, "start_seconds", lambda method, *_: 0.0 if method == bl.BP() else 1e9)
        result = bl.infer(GRID, time_limit=5)
        assert result.status is bl.Status.TIME_LIMIT and "no time" in result.reason and np.isfinite(result.log_lower)


class TestKernels:
    """A raised flag ends every pass."""

    def test_cluster_trees(self) -> None:
        problem = Problem(GRID)
        plan = bl.JunctionTree()._tree(problem, bl.JunctionTree().planned(problem))
        tree = plan.tree._replace(stop=np.ones(1, np.int64))
        tables, ranges = np.zeros(int(tree.slot_ptr[-1])), np.zeros(tree.slot_ptr.size - 1)
        tops = np.full(tree.block.size, -1.0)
        assert tree_linear.collect_linear(tree, tables, ranges, 600.0, tops) == tree_linear.STOPPED
        assert tree_log.collect_log(tree, tables) == tree_linear.STOPPED and (tops == -1.0).all()
        beliefs, row = np.zeros(tables.size), np.full(GRID.n_vars, -1)
        tree_linear.distribute_linear(tree, tables, tops, beliefs)
        tree_log.distribute_log(tree, tables, beliefs)
        tree_decode.decode_maximum(tree._replace(temperature=np.zeros(tree.block.size)), tables, row)
        assert beliefs.sum() <= 1.0 and (row == -1).all()

    def test_mini_bucket_trees(self) -> None:
        problem = Problem(GRID)
        plan = bucket_tree(problem, chosen_order(problem, "auto"), 2, "wmb")
        weight = uniform_weights(plan, problem.tau)
        run = BucketRun(problem, plan, problem.tau, weight)
        tree, before = plan.tree._replace(stop=np.ones(1, np.int64)), run.tables.copy()
        held = weight, run.tables, run.back, run._scratch
        for step in (0.0, 1.0):
            assert math.isnan(bucket_passes.forward_pass(tree, plan.shift_at, step, 1.0, step, 9.0, *held))
        assert np.array_equal(run.tables, before)
        with no_time():
            for verb in (run.forward, lambda: run.match(1.0, 1.0), run.backward, run.beliefs):
                with pytest.raises(OutOfTime):
                    verb()

    def test_the_search_for_a_possible_state(self) -> None:
        hard = family("hard_zeros")
        assert feasible_state(hard) is not None
        with no_time():
            assert feasible_state(hard) is None


class TestPlanning:
    def test_an_order_that_takes_too_long_to_find_is_a_quick_one_and_is_not_kept(self) -> None:
        graph = bl.datasets.make_ising_grid(7, seed=1)
        problem = Problem(graph, Task.MARGINAL_MAP, query=np.arange(0, 49, 3))
        with no_time():
            quick = planned_order(problem, "auto")
            assert planned_order(problem, "auto") is quick
        assert quick.method == "degeneracy" and sorted(quick.order.tolist()) == list(range(49))
        late = np.isin(quick.order, problem.query)
        assert (np.diff(late.astype(int)) >= 0).all()  # sums first all the same
        found = planned_order(problem, "auto")
        assert found.method.startswith("auto (") and planned_order(problem, "auto") is found
        with no_time():
            assert planned_order(problem, "auto") is found

    def test_the_tree_of_a_quick_order_is_not_taken_for_that_of_a_good_one(self) -> None:
        graph, method = bl.datasets.make_ising_grid(7, seed=3), bl.JunctionTree()
        with no_time():
            quick = method._tree(Problem(graph), method.planned(Problem(graph)))
        good = method._tree(Problem(graph), method.planned(Problem(graph)))
        assert good.order.method != quick.order.method == "degeneracy"

    def test_a_question_with_no_more_time_does_not_search_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        graph, seconds = bl.datasets.make_ising_grid(7, seed=2), iter(range(1000))
        monkeypatch.setattr(planned, "now", lambda: float(next(seconds)))  # a second a look
        with no_time():
            planned_order(Problem(graph), "auto")
        assert planned_order(Problem(graph, time_limit=5.0), "auto").method == "degeneracy"  # one second again
        assert planned_order(Problem(graph, time_limit=50.0), "auto").method != "degeneracy"


class TestRegions:
    """Sweeps over regions look at the clock between two parts; what is left in the middle of one is certified too."""

    METHODS = ("ijgp(ibound=1)", "gbp", "gbp(schedule=levels)", "double_loop", "convex_gbp")

    @pytest.mark.parametrize("n", [0, 1, 5, 9])
    @pytest.mark.parametrize("method", METHODS)
    def test_a_sweep_is_cut_off_in_the_middle(self, method: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
        graph = bl.datasets.make_ising_grid(3, field=1.0, coupling=1.0, seed=0)  # no plan or order is kept
        monkeypatch.setattr(region_state, "_PIECE", 50.0)  # several parts a sweep
        look = OutAfter(check_time, n)
        monkeypatch.setattr(region_state, "check_time", look)
        monkeypatch.setattr(region_concave, "check_time", look)
        with quietly():  # bounds do not warn, estimates do
            result = bl.infer(graph, method, time_limit=1000)
        assert result.status is bl.Status.TIME_LIMIT and look.left < 0 and np.isfinite(result.log_z)
        check_bounds(Task.INFER, result)

    def test_parts_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        graph = bl.datasets.make_ising_grid(4, seed=0)
        whole = [bl.infer(graph, method) for method in self.METHODS]
        monkeypatch.setattr(region_state, "_PIECE", 10.0)
        for method, before in zip(self.METHODS, whole, strict=True):
            after = bl.infer(graph, method)
            assert after.log_z == before.log_z and after.mu_var.tobytes() == before.mu_var.tobytes()

    def test_an_exact_join_graph_is_exact_after_a_whole_sweep_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(region_state, "_PIECE", 10.0)
        assert bl.infer(GRID, "ijgp(ibound=8)").bound is bl.Bound.EXACT
        monkeypatch.setattr(region_state, "check_time", OutAfter(check_time, 2))
        with pytest.warns(bl.ConvergenceWarning):
            result = bl.infer(GRID, "ijgp(ibound=8)", time_limit=1000)
        assert result.bound is bl.Bound.ESTIMATE and result.log_lower == -np.inf < np.inf == result.log_upper

    def test_choosing_regions_ends_too(self) -> None:
        graph = family("mixed_cardinalities")
        with no_time(), pytest.raises(bl.BudgetError, match="^gbp.* had no answer when the time limit of 7 s was over"):
            bl.infer(graph, "gbp(regions=cvm)", time_limit=7)

    @pytest.mark.parametrize("n", range(8))
    def test_the_start_of_a_join_graph_looks_at_the_clock(self, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
        graph = random_model([2] * 6, unary(6) + [(i, j) for i in range(6) for j in range(i)], seed=1, zeros=0.2)
        look = OutAfter(check_time, n)
        for module in (ijgp_module, region_plan_module, region_state):
            monkeypatch.setattr(module, "check_time", look)
        with pytest.raises(bl.BudgetError, match=r"^ijgp.* had no answer when the time limit of 1000 s was over"):
            bl.infer(graph, "ijgp", time_limit=1000)
        assert look.left < 0

    def test_hard_zeros_spread_no_further_when_the_time_is_over(self) -> None:
        graph = bl.FactorGraph.from_tables([2] * 3, [((0, 1), np.eye(2)), ((1, 2), np.eye(2)), ((0,), [1.0, 0.0])])
        problem = Problem(graph)
        plan = region_plan_module.region_plan(problem, bl.RegionGraph.bethe(graph), "gbp")
        assert region_state.RegionState(problem, plan).mu_var().tolist() == [1.0, 0.0] * 3
        with no_time(), pytest.raises(OutOfTime):
            region_state.RegionState(problem, plan)


class TestQuiet:
    def test_silence_belongs_to_a_thread(self) -> None:
        """Another thread's warnings are heard while this one is quiet."""
        heard: list[str] = []

        def other() -> None:
            with pytest.warns(bl.ConvergenceWarning) as caught:
                bl.infer(family("grid"), "bp", max_iters=0)
            heard.extend(str(w.message) for w in caught)

        with quietly():
            bl.infer(family("grid"), "bp", max_iters=0)  # warnings are errors here
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        assert len(heard) == 1

    def test_searches_ask_quietly(self) -> None:
        bl.maximize(GRID, "local_search", max_iters=2)
        bl.marginal_map(GRID, QUERY, "local_search", max_iters=2)
        assert math.isfinite(bounded_value(GRID).lower)
