"""``auto`` where exact inference does not fit: an interval that always holds, only shrinks, and keeps its time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.driver import Value
from beliefs.inference import Bound, Method, Task
from beliefs.inference.base import Problem, WarmStages
from beliefs.inference.orders.chosen import chosen_order
from beliefs.inference.portfolio import auto as auto_module
from beliefs.inference.portfolio.portfolio import Portfolio
from beliefs.inference.portfolio.stages import STAGES, Room, Stage
from beliefs.inference.regions.ijgp import join_ibound
from beliefs.inference.search.local_interval import local_interval
from families import FAMILIES, evidence, family, grid_pairs, oracle, random_model, unary

HARD = bl.datasets.make_ising_grid(40, seed=0)  # width 55
NARROW = random_model([2] * 12, unary(12) + grid_pairs(3, 4), seed=3, scale=1.5)
FRUSTRATED = bl.FactorGraph.pairwise(
    0.1 * np.random.default_rng(0).normal(size=(5, 2)),
    [(u, v) for u in range(5) for v in range(u)],
    -3.0 * np.eye(2),
)  # plain loopy BP does not settle here
PLAIN = (Stage(bl.BP()), Stage(bl.MeanField()), Stage(bl.TRW()), Stage(bl.BP(damping=0.5), fallback=True))
SLACK = 1e-9


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only methods of one size take part."""
    monkeypatch.setitem(STAGES, Task.INFER, PLAIN)


@pytest.fixture
def no_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact inference never fits."""
    monkeypatch.setattr(bl.JunctionTree, "n_bytes", lambda self, problem, order=None: 2**62 + 1)


def monotone(trace: bl.Trace) -> None:
    lower, upper = trace.lower, trace.upper
    assert (lower[1:] >= lower[:-1]).all() and (upper[1:] <= upper[:-1]).all() and (lower <= upper).all()


def within(truth: float, result: Any) -> None:
    room = SLACK * max(1.0, abs(truth))
    lower, upper = result.trace.lower, result.trace.upper
    assert (lower - room <= truth).all() and (truth <= upper + room).all()
    monotone(result.trace)
    for column in ("iteration", "seconds", "residual", "log_z", "lower", "upper"):
        assert not np.isnan(getattr(result.trace, column)).any()


@pytest.mark.usefixtures("no_exact")
@pytest.mark.parametrize("observed", [0, 2])
@pytest.mark.parametrize("name", list(FAMILIES))
class TestAgainstTheOracle:
    def test_infer(self, name: str, observed: int) -> None:
        graph = family(name).condition(evidence(name, observed))
        result = bl.infer(graph)
        truth = reference.log_z(oracle(name, observed))
        within(truth, result)
        assert result.log_lower == result.trace.lower[-1] and result.log_upper == result.trace.upper[-1]
        assert result.log_lower <= result.log_z <= result.log_upper
        assert result.trace.log_z[-1] == result.log_z and result.trace.iteration[-1] == result.n_iters
        assert (result.bound is Bound.EXACT) == (result.log_lower == result.log_upper)
        assert result.log_lower > -math.inf and result.log_upper < math.inf
        for v in range(graph.n_vars):
            assert result.marginal(v).sum() == pytest.approx(1.0, abs=1e-12) and (result.marginal(v) >= 0).all()
        for f in range(graph.n_factors):
            assert result.factor_marginal(f).sum() == pytest.approx(1.0, abs=1e-12)

    def test_maximize(self, name: str, observed: int) -> None:
        graph = family(name).condition(evidence(name, observed))
        result = bl.maximize(graph)
        truth = float(oracle(name, observed).max())
        within(truth, result)
        assert result.log_score == graph.log_score(result.assignment) <= truth + SLACK * max(1.0, abs(truth))
        assert result.log_upper >= truth - SLACK * max(1.0, abs(truth))
        if result.gap == 0:
            assert result.log_score == pytest.approx(truth, rel=1e-9, abs=1e-9)

    def test_marginal_map(self, name: str, observed: int) -> None:
        graph = family(name).condition(evidence(name, observed))
        query = [v for v in range(0, graph.n_vars, 2) if not graph.layout.observed[v]]
        result = bl.marginal_map(graph, query)
        joint = oracle(name, observed)
        values = reference.log_sum_exp(joint, tuple(v for v in range(graph.n_vars) if v not in query))
        truth = float(values.max())
        within(truth, result)
        own = float(values.reshape([int(graph.layout.card[v]) for v in query])[tuple(result.assignment)])
        room = SLACK * max(1.0, abs(truth))
        assert result.log_lower - room <= own <= truth + room and truth <= result.log_upper + room


@pytest.mark.usefixtures("no_exact")
def test_exact_stages_close_the_gap_at_once() -> None:
    result = bl.infer(family("tree"))
    assert result.method == bl.BP() and result.bound is Bound.EXACT and result.status is bl.Status.CONVERGED
    assert result.n_iters == 1 and result.log_z == pytest.approx(reference.log_z(oracle("tree")), rel=1e-12)
    np.testing.assert_allclose(result.mu_var, reference.mu_var(oracle("tree")), atol=1e-9)
    best = bl.maximize(family("tree"))
    assert best.gap == 0.0 and best.status is bl.Status.CONVERGED


class TestTime:
    @pytest.mark.parametrize("limit", [0.3, 1.5])
    @pytest.mark.parametrize("door", [bl.infer, bl.maximize, lambda g, **o: bl.marginal_map(g, range(0, 1600, 4), **o)])
    def test_the_limit_is_kept(self, door: Callable[..., Any], limit: float) -> None:
        door(HARD, max_iters=12)  # compiled, and planned
        began = time.perf_counter()
        result = door(HARD, time_limit=limit)
        assert time.perf_counter() - began < limit + 0.5
        assert result.status in (bl.Status.TIME_LIMIT, bl.Status.CONVERGED)
        assert f"over the time budget of {limit:g} s" in result.reason
        assert (np.diff(result.trace.seconds) >= 0).all() and result.trace.seconds[-1] <= limit + 0.5
        monotone(result.trace)

    def test_no_time_is_an_answer(self) -> None:
        result = bl.infer(HARD, time_limit=0)
        assert (result.status, result.n_iters, len(result.trace)) == (bl.Status.TIME_LIMIT, 0, 1)
        assert np.isfinite(result.log_z) and result.marginal(0).sum() == pytest.approx(1)

    def test_more_time_is_no_worse(self) -> None:
        short, long = (bl.infer(HARD, time_limit=limit) for limit in (0.05, 1.5))
        assert long.log_lower >= short.log_lower and long.log_upper <= short.log_upper + 1e-9

    def test_stages_that_would_not_end_in_time_are_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Slow(bl.MeanField):
            def step(self, state: Any) -> float:
                time.sleep(0.4)
                return super().step(state)

        stages = (Stage(bl.BP()), Stage(Slow()), Stage(bl.TRW()))
        monkeypatch.setitem(STAGES, Task.INFER, stages)
        began = time.perf_counter()
        result = bl.infer(HARD, time_limit=1.0)
        assert time.perf_counter() - began < 1.3 and result.log_upper < math.inf


class TestStopping:
    def test_without_a_limit_the_same_call_gives_the_same_bytes(self) -> None:
        one, other = (bl.infer(HARD, threads=threads, max_iters=40) for threads in (1, 2))
        assert one.mu_var.tobytes() == other.mu_var.tobytes() and one.mu.tobytes() == other.mu.tobytes()
        assert one.trace.log_z.tobytes() == other.trace.log_z.tobytes() and one.reason == other.reason
        assert one.trace.lower.tobytes() == other.trace.lower.tobytes()
        assert one.trace.upper.tobytes() == other.trace.upper.tobytes()
        first, again = bl.maximize(HARD, max_iters=9), bl.maximize(HARD, max_iters=9)
        assert first.assignment.tobytes() == again.assignment.tobytes() and first.n_iters == again.n_iters == 9

    def test_max_iters_counts_turns(self) -> None:
        result = bl.infer(HARD, max_iters=3)
        assert (result.n_iters, result.status) == (3, bl.Status.MAX_ITERS)
        assert bl.infer(HARD, max_iters=0).n_iters == 0

    def test_a_callback_sees_the_interval_and_stops_it(self) -> None:
        seen: list[bl.Progress] = []

        def watch(now: bl.Progress) -> bool:
            seen.append(now)
            return now.iteration == 4

        result = bl.infer(HARD, callback=watch)
        assert result.status is bl.Status.STOPPED and result.n_iters == 4
        assert [p.stage for p in seen][:3] == ["bp", "mean_field", "trw"]
        last = seen[-1].value
        assert last is not None and (last.lower, last.upper) == (result.log_lower, result.log_upper)
        assert math.isfinite(last.lower) and math.isfinite(last.upper) and last.log_z == result.log_z

    def test_an_interrupt_is_the_callers(self) -> None:
        def interrupt(now: bl.Progress) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            bl.infer(HARD, callback=interrupt)

    @pytest.mark.usefixtures("no_exact")
    def test_tol_is_the_width_of_the_interval(self) -> None:
        result = bl.infer(NARROW, tol=1.0)
        assert result.status is bl.Status.CONVERGED and result.trace.residual[-1] <= 1.0
        wide = result.log_upper - result.log_lower
        assert wide <= max(1.0, abs(result.log_lower), abs(result.log_upper))


class TestStages:
    @pytest.mark.usefixtures("plain")
    def test_what_ran_and_what_each_gave(self) -> None:
        result = bl.infer(HARD, max_iters=8)
        assert result.method == bl.BP() and result.bound is Bound.ESTIMATE
        assert result.reason.startswith("exact inference would take") and "width 55" in result.reason
        told = result.reason.split("\n")[1].split("; ")
        assert told[0].startswith("log Z and marginals by bp (") and told[1].startswith("lower bound by mean_field (")
        assert told[2].startswith("upper bound by trw (")

    @pytest.mark.usefixtures("plain")
    def test_a_stage_beyond_the_budget_is_named_and_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(self: Method, problem: Problem, warm: Any = None) -> Any:
            raise bl.BudgetError("mean_field needs 3 TB; the limit is 1 MB")

        monkeypatch.setattr(bl.MeanField, "init", refuse)
        result = bl.infer(HARD, max_iters=10)
        assert "left out: mean_field (mean_field needs 3 TB)" in result.reason
        assert result.log_lower == local_interval(HARD).lower and result.log_upper < local_interval(HARD).upper

    def test_a_stage_that_fails_on_the_way_keeps_what_it_gave(self, monkeypatch: pytest.MonkeyPatch) -> None:
        step = bl.TRW.step

        def failing(self: bl.TRW, state: Any) -> float:
            if state.n_steps >= 5:
                raise bl.UnsupportedError("trw cannot go on")
            return step(self, state)

        monkeypatch.setattr(bl.TRW, "step", failing)
        result = bl.infer(HARD, max_iters=30)
        assert "trw cannot go on" in result.reason and result.log_lower > -math.inf

    def test_no_stage_at_all_is_the_first_ones_error(self) -> None:
        with pytest.raises(bl.BudgetError, match="bp needs .* the limit is 1 B"):
            bl.infer(bl.datasets.make_ising_grid(100, seed=0), max_bytes=1)

    @pytest.mark.usefixtures("no_exact")
    def test_a_proof_of_zero_is_an_error(self) -> None:
        never = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 0], [0, 0]]), ((0,), [0, 1])])
        for door in (bl.infer, bl.maximize, lambda g: bl.marginal_map(g, [0])):
            with pytest.raises(bl.ZeroProbabilityError):
                door(never)

    def test_a_size_is_chosen_for_the_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rooms: list[Room] = []

        def sized(problem: Problem, room: Room) -> Method | None:
            rooms.append(room)
            return None

        monkeypatch.setitem(STAGES, Task.INFER, (Stage(bl.BP()), Stage(sized)))
        bl.infer(HARD, max_iters=3, max_bytes=10**8)
        bl.infer(HARD, time_limit=0.5, max_bytes=10**8)
        assert len(rooms) == 2 and all(0 < room.n_bytes <= 10**8 for room in rooms)
        assert rooms[0].cells > rooms[1].cells > 0

    @pytest.mark.usefixtures("plain")
    def test_estimates_that_do_not_settle_are_damped(self) -> None:
        result = bl.infer(FRUSTRATED, max_bytes=0)
        assert result.method == bl.BP(damping=0.5) and "log Z and marginals by bp(damping=0.5)" in result.reason
        assert result.log_z == pytest.approx(bl.infer(FRUSTRATED, "bp(damping=0.5)").log_z)

    @pytest.mark.usefixtures("no_exact")
    def test_the_last_stage_moves_the_estimate_and_no_bound(self, monkeypatch: pytest.MonkeyPatch) -> None:
        dense = random_model([2] * 12, unary(12) + [(u, v) for u in range(12) for v in range(u)], seed=5, scale=0.5)
        others = tuple(replace(stage, wider=0.0) for stage in STAGES[Task.INFER] if not stage.last)
        others = tuple(replace(stage, method=bl.WMB(ibound=1)) if i == 3 else stage for i, stage in enumerate(others))
        others = others[:4]  # none is exact here
        last = Stage(bl.IJGP(ibound=6, damping=0.5), last=True, most=0.1)
        monkeypatch.setitem(STAGES, Task.INFER, others)
        before = bl.infer(dense)
        monkeypatch.setitem(STAGES, Task.INFER, (*others, last))
        after, again = bl.infer(dense), bl.infer(dense)
        assert (after.log_lower, after.log_upper) == (before.log_lower, before.log_upper)
        assert before.method == bl.BP() and after.method == last.method and after.bound is Bound.ESTIMATE
        assert (after.log_z, after.mu_var.tobytes()) == (again.log_z, again.mu_var.tobytes())
        named = bl.infer(dense, last.method)
        assert after.log_z == pytest.approx(min(max(named.log_z, after.log_lower), after.log_upper), abs=1e-7)
        np.testing.assert_allclose(after.mu_var, named.mu_var, atol=1e-6)
        truth = bl.infer(dense, "enumeration")
        assert abs(after.log_z - truth.log_z) < abs(before.log_z - truth.log_z)

    def test_an_estimate_outside_the_interval_is_brought_into_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        far = Stage(_Far(damping=0.1), last=True)
        monkeypatch.setitem(STAGES, Task.INFER, (Stage(bl.BP()), Stage(bl.MeanField()), Stage(bl.TRW()), far))
        result = bl.infer(FRUSTRATED, max_bytes=0)
        assert result.method == far.method and result.log_z == result.log_upper and result.bound is Bound.ESTIMATE

    def test_marginals_of_an_estimate_outside_a_narrow_interval_are_those_of_the_bound(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        soft = random_model([2] * 12, unary(12) + grid_pairs(3, 4), seed=3, scale=0.3)
        stages = (Stage(bl.BP()), Stage(bl.MeanField()), Stage(bl.TRW()))
        monkeypatch.setitem(STAGES, Task.INFER, stages)
        inside = bl.infer(soft, max_bytes=0)
        assert inside.method == bl.BP() and inside.log_lower < inside.log_z < inside.log_upper
        monkeypatch.setitem(STAGES, Task.INFER, (*stages, Stage(_Far(damping=0.1), last=True)))
        result = bl.infer(soft, max_bytes=0)
        assert result.log_upper - result.log_lower < 0.04 * result.log_upper
        assert result.log_z == result.log_upper and "marginals and upper bound by trw" in result.reason
        np.testing.assert_allclose(result.mu_var, bl.infer(soft, "trw").mu_var, atol=1e-4)

    def test_estimates_that_the_interval_refutes_are_not_in_the_middle(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lost = tuple(Stage(_Lost(damping=damping)) for damping in (0.1, 0.2))
        monkeypatch.setitem(STAGES, Task.INFER, (Stage(bl.BP()), Stage(bl.MeanField()), Stage(bl.TRW()), *lost))
        result = bl.infer(FRUSTRATED, max_bytes=0)
        assert "log Z by bp (" in result.reason and result.log_lower < result.log_z < result.log_upper

    @pytest.mark.usefixtures("no_exact")
    def test_soft_models_have_their_estimate_from_a_join_graph(self) -> None:
        """Without a time limit too, although their interval is narrow."""
        soft = bl.datasets.make_ising_grid(20, seed=1)
        result, bp = bl.infer(soft), bl.infer(soft, "bp")
        assert result.log_upper - result.log_lower < 0.04 * result.log_upper
        assert "log Z and marginals by ijgp" in result.reason
        truth = bl.infer(soft, "elimination").log_z
        assert abs(result.log_z - truth) < 0.5 * abs(bp.log_z - truth)

    def test_a_join_graph_is_chosen_for_the_room(self) -> None:
        problem = Problem(HARD)
        order = chosen_order(problem, "auto")
        small, large = (join_ibound(problem, order, work) for work in (5e5, 4e6))
        assert small is not None and large is not None and 1 <= small < large
        for work, ibound in ((5e5, small), (4e6, large)):
            assert bl.IJGP(ibound=ibound).step_cells(problem) <= work < bl.IJGP(ibound=ibound + 1).step_cells(problem)
        assert join_ibound(problem, order, 10.0) is None
        tight = join_ibound(replace(problem, max_bytes=5 * 10**6), order, 4e6)
        assert tight is not None and tight < large

    def test_sampling_is_a_markov_chain(self) -> None:
        assert bl.sample(HARD, 2).method == bl.Gibbs()

    def test_every_stage_answers_its_task(self) -> None:
        for task, stages in STAGES.items():
            problem = Problem(NARROW, task, query=np.arange(3 if task is Task.MARGINAL_MAP else 0))
            for stage in stages:
                method = stage.sized(problem, Room(1e9, 1e6))
                assert method is None or task in method.tasks
                assert 0 <= stage.begins < 1 and 0 < stage.least < 1
            assert isinstance(stages[0].sized(problem, Room(0.0, 0.0)), Method)


class TestWarmStart:
    def test_every_stage_goes_on_where_it_was(self) -> None:
        first = bl.infer(HARD, max_iters=30)
        again = bl.infer(HARD, init=first, max_iters=3)
        assert isinstance(first.state, WarmStages)
        assert again.log_z == pytest.approx(first.log_z, abs=1e-4) and "bp (1 step)" in again.reason

    def test_from_auto_to_one_method_and_back(self) -> None:
        auto = bl.infer(HARD, max_iters=30)
        assert bl.infer(HARD, "bp", init=auto).n_iters <= 1
        assert "bp (1 step)" in bl.infer(HARD, init=bl.infer(HARD, "bp"), max_iters=1).reason
        assert bl.infer(HARD, "mean_field(restarts=1)", init=auto, max_iters=5).log_lower > -math.inf

    def test_the_choice_without_a_door(self) -> None:
        chosen, reason = auto_module.choose(replace(Problem(HARD), time_limit=1.0))
        assert isinstance(chosen, Portfolio) and repr(chosen) == "auto" and "bounds instead" in reason


class _Lost(bl.BP):
    """Does not settle, and is far away."""

    def value(self, state: Any) -> Value:
        return replace(super().value(state), log_z=1e6 * self.damping)

    def verify(self, state: Any) -> float:
        return math.inf


class _Far(bl.BP):
    """Settles at a value that cannot be right."""

    def value(self, state: Any) -> Value:
        return replace(super().value(state), log_z=1e6)

    def verify(self, state: Any) -> float:
        return 0.0

    def step(self, state: Any) -> float:
        super().step(state)
        return 0.0


class Boastful(bl.MeanField):
    """Claims a lower bound that is none."""

    def value(self, state: Any) -> Value:
        honest = super().value(state)
        return replace(honest, lower=honest.lower + 1e3)


@pytest.mark.usefixtures("no_exact")
def test_of_estimates_that_still_move_the_one_in_the_middle_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    wild = FRUSTRATED.with_theta(np.where(FRUSTRATED.theta < -1.0, -10.0, FRUSTRATED.theta))
    messages = [bl.BP(damping=damping) for damping in (0.0, 0.05, 0.1)]
    with pytest.warns(bl.ConvergenceWarning):
        values = [bl.infer(wild, method, max_iters=50, trace_every=50).log_z for method in messages]
    assert len(set(values)) == 3
    for count in (1, 2, 3):
        monkeypatch.setitem(STAGES, Task.INFER, tuple(map(Stage, messages[:count])))
        result = bl.infer(wild, max_iters=count)  # a turn each, of fifty steps
        assert result.bound is Bound.ESTIMATE and result.log_z == sorted(values[:count])[(count - 1) // 2]


@pytest.mark.usefixtures("no_exact")
def test_bounds_that_contradict_each_other_are_an_error_and_not_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STAGES, Task.INFER, (Stage(bl.TRW()), Stage(Boastful())))
    with pytest.raises(bl.BeliefsError, match="contradicts an upper bound"):
        bl.infer(NARROW)


def test_ends_meet_by_what_rounding_may_do_and_not_by_the_size_of_the_numbers() -> None:
    """Beside a constant of 1e9 an interval of 1e-4 is narrow, but rounding is a hundredth of it."""
    scopes = [(u, v) for v in range(6) for u in range(v)]
    for seed in range(12):
        small = random_model([2] * 6, scopes, seed=seed, scale=10.0 ** -(2 + seed % 3))
        graph = small.with_factors([((), np.array(-1e9))])
        sums, best = bl.infer(graph, max_bytes=500, max_iters=10), bl.maximize(graph, max_bytes=500, max_iters=10)
        if sums.bound is bl.Bound.EXACT:
            assert sums.log_z + 1e9 == pytest.approx(bl.infer(small).log_z, abs=1e-5)
        if best.gap == 0.0:
            assert small.log_score(best.assignment) == pytest.approx(bl.maximize(small).log_score, abs=1e-5)
