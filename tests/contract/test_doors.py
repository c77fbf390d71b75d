"""The four doors: what they accept, refuse, warn of and return, the same for every method.

Rules of the public contract that concern one model or one method's arithmetic are tested elsewhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import beliefs as bl
import reference
from families import family, grid_pairs, random_model, sprinkler, unary

Door = Callable[..., Any]
DOORS: list[Any] = [
    pytest.param(bl.infer, id="infer"),
    pytest.param(bl.maximize, id="maximize"),
    pytest.param(lambda m, *a, **k: bl.marginal_map(m, [0], *a, **k), id="marginal_map"),
    pytest.param(lambda m, *a, **k: bl.sample(m, 5, *a, **k), id="sample"),
]
every_door = pytest.mark.parametrize("door", DOORS)
FRUSTRATED = bl.FactorGraph.pairwise(
    0.1 * np.random.default_rng(0).normal(size=(5, 2)),
    [(u, v) for u in range(5) for v in range(u)],
    -3.0 * np.eye(2),
)  # plain loopy BP does not settle here


class TestModels:
    @every_door
    def test_a_bayesian_network_is_accepted_as_it_is(self, door: Door) -> None:
        bn = sprinkler()
        plain, graph = door(bn), door(bn.to_factor_graph())
        assert plain.graph is bn.to_factor_graph() and repr(plain).split("\n")[2] == repr(graph).split("\n")[2]

    @every_door
    def test_an_empty_model_is_refused(self, door: Door) -> None:
        with pytest.raises(bl.ModelError, match="the model has no variables"):
            door(bl.FactorGraph.from_tables([], [((), 2.0)]))

    @every_door
    def test_anything_else_is_refused(self, door: Door) -> None:
        with pytest.raises(bl.ModelError, match="expected a model .*, found dict"):
            door({"x0": 1})

    def test_log_z_of_a_network_is_the_probability_of_the_evidence(self) -> None:
        bn = sprinkler()
        wet = bn.condition({"Grass": "wet"})
        joint = np.exp(reference.joint_table(bn.graph))
        assert np.exp(bl.infer(wet).log_z) == pytest.approx(joint[:, 2].sum())
        assert bl.maximize(wet).log_score == pytest.approx(np.log(joint[:, 2].max()))
        assert bl.marginal_map(wet, ["Rain"]).log_value == pytest.approx(np.log(joint[:, 2].sum(axis=(0, 1, 3)).max()))


class TestZeroProbability:
    IMPOSSIBLE = bl.FactorGraph.from_tables(
        [2, 2, 2], [((0, 1), np.eye(2)), ((1, 2), np.eye(2)), ((0,), [1, 2])], names=["rain", "wet", "slip"]
    )

    @every_door
    @pytest.mark.parametrize("method", [cls.name for cls in bl.METHODS if cls.general])
    def test_one_sentence_from_every_engine_and_door(self, method: str, door: Door) -> None:
        if bl.inference.Task(_name(door)) not in next(c for c in bl.METHODS if c.name == method).tasks:
            pytest.skip("not its task")
        given = self.IMPOSSIBLE.condition({"rain": 0, "slip": 1})
        query = {"marginal_map": lambda: bl.marginal_map(given, ["wet"], method)}.get(_name(door))
        with pytest.raises(bl.ZeroProbabilityError) as caught:
            query() if query else door(given, method)
        assert str(caught.value) == "the evidence has probability zero: rain=0, slip=1"

    @every_door
    @pytest.mark.parametrize("method", [cls.name for cls in bl.METHODS if cls.general])
    def test_without_evidence_the_model_itself_is_named(self, method: str, door: Door) -> None:
        if bl.inference.Task(_name(door)) not in next(c for c in bl.METHODS if c.name == method).tasks:
            pytest.skip("not its task")
        impossible: list[list[Any]] = [
            [((0,), [1, 0]), ((0,), [0, 1])],
            [((0,), [0, 0])],
            [((), 0.0), ((0,), [1, 1])],
            [((0, 1), np.eye(2)), ((1,), [0, 1]), ((0,), [1, 0])],
        ]
        for tables in impossible:
            with pytest.raises(bl.ZeroProbabilityError, match=r"every assignment .* weight zero \(Z = 0\)"):
                door(bl.FactorGraph.from_tables([2, 2], tables), method)

    def test_it_is_a_model_error_and_a_value_error(self) -> None:
        with pytest.raises(ValueError):
            bl.infer(self.IMPOSSIBLE.condition({0: 0, 2: 1}))

    def test_conditioning_alone_never_raises(self) -> None:
        assert self.IMPOSSIBLE.condition({0: 0, 1: 1, 2: 0}).log_score([0, 1, 0]) == -np.inf

    def test_a_contradiction_that_only_a_loop_shows_is_proved_by_exact_methods(self) -> None:
        """Odd cycle of differences: no message is empty, so BP cannot know; it must not return nan either."""
        differ = 1 - np.eye(2)
        ring = bl.FactorGraph.from_tables([2] * 3, [((0, 1), differ), ((1, 2), differ), ((2, 0), differ)])
        for method in ("enumeration", "elimination", "junction_tree"):
            with pytest.raises(bl.ZeroProbabilityError):
                bl.infer(ring, method)
        result = bl.infer(ring, "bp")
        assert result.bound is bl.Bound.ESTIMATE and np.isfinite(result.log_z) and not np.isnan(result.mu).any()
        assert result.log_lower == -np.inf


def _name(door: Door) -> str:
    names = {p.values[0]: p.id for p in DOORS}
    return str(names[door])


class TestQueries:
    def test_a_query_and_the_evidence_must_not_overlap(self) -> None:
        with pytest.raises(bl.ModelError, match="variable 'Rain' is in the query and in the evidence"):
            bl.marginal_map(sprinkler().condition({"Rain": 1}), ["Cloudy", "Rain"])

    def test_a_variable_is_asked_for_once(self) -> None:
        with pytest.raises(bl.ModelError, match="names a variable twice"):
            bl.marginal_map(sprinkler(), ["Rain", 3])

    def test_a_misspelt_name_is_answered_with_a_suggestion(self) -> None:
        for ask in (
            lambda: bl.marginal_map(sprinkler(), ["Rian"]),
            lambda: bl.infer(sprinkler(), targets=["Rian"]),
            lambda: sprinkler().condition({"Rian": 1}),
            lambda: bl.infer(sprinkler()).marginal("Rian"),
        ):
            with pytest.raises(bl.ModelError, match="no variable 'Rian'; did you mean 'Rain'?"):
                ask()

    @pytest.mark.parametrize(
        "ask", [lambda: bl.marginal_map(sprinkler(), "Rain"), lambda: bl.infer(sprinkler(), targets="Rain")]
    )
    def test_a_string_is_not_a_list_of_variables(self, ask: Callable[[], Any]) -> None:
        with pytest.raises(bl.ModelError, match=r"must be a list of variables, found 'Rain'; write \['Rain'\]"):
            ask()

    def test_empty_query_is_infer_and_full_query_is_maximize(self) -> None:
        graph = family("grid")
        empty, full = bl.marginal_map(graph, []), bl.marginal_map(graph, range(12))
        assert empty.log_value == pytest.approx(bl.infer(graph).log_z) and empty.assignment.shape == (0,)
        best = bl.maximize(graph)
        assert full.log_value == pytest.approx(best.log_score)
        assert full.assignment.tolist() == best.assignment.tolist() and full.gap == 0

    def test_the_assignment_follows_the_order_of_the_query(self) -> None:
        graph = family("higher_order")
        one, other = bl.marginal_map(graph, [4, 0, 1]), bl.marginal_map(graph, [1, 4, 0])
        assert one.query == (4, 0, 1) and other.query == (1, 4, 0)
        assert one.assignment[[2, 0, 1]].tolist() == other.assignment.tolist() and one.states() == other.states()

    @pytest.mark.parametrize("n", [-1, 2.0, True, "3", None])
    def test_the_number_of_samples_is_a_count(self, n: Any) -> None:
        with pytest.raises(bl.ModelError, match="number of samples must be an integer of at least 0"):
            bl.sample(family("chain"), n)


class TestOptions:
    @every_door
    def test_an_unknown_keyword_lists_the_known_ones(self, door: Door) -> None:
        with pytest.raises(TypeError, match="no keyword 'max_iter'; did you mean 'max_iters'"):
            door(family("chain"), max_iter=3)

    @every_door
    @pytest.mark.parametrize(
        "option",
        [
            {"tol": -1.0}, {"tol": float("nan")}, {"tol": "small"}, {"max_iters": -1}, {"max_iters": 2.5},
            {"time_limit": -1.0}, {"time_limit": "1"}, {"trace_every": 0}, {"max_bytes": -1}, {"max_bytes": 1.5},
            {"seed": -1}, {"seed": "x"}, {"threads": 0}, {"threads": True},
        ],
        ids=str,
    )  # fmt: skip
    def test_an_option_out_of_range_is_refused_whatever_the_method(self, door: Door, option: dict[str, Any]) -> None:
        name = next(iter(option))
        for method in ("auto", "enumeration"):
            with pytest.raises(bl.ModelError, match=f"{name} must be"):
                door(family("chain"), method, **option)

    @every_door
    def test_none_means_the_default(self, door: Door) -> None:
        names = ("tol", "max_iters", "time_limit", "max_bytes", "seed", "init", "callback", "threads", "trace_every")
        assert door(family("chain"), **dict.fromkeys(names)).converged

    def test_the_default_seed_is_zero(self) -> None:
        graph = family("grid")
        assert bl.sample(graph, 9).samples.tolist() == bl.sample(graph, 9, seed=0).samples.tolist()
        assert bl.sample(graph, 9).samples.tolist() != bl.sample(graph, 9, seed=1).samples.tolist()

    @every_door
    @pytest.mark.parametrize("method", [3, None, bl.BP])
    def test_a_method_is_an_object_or_its_text(self, door: Door, method: Any) -> None:
        with pytest.raises(bl.ModelError, match="method must be a Method or its text"):
            door(family("chain"), method)

    @every_door
    def test_a_progress_line_goes_to_standard_error_only(self, door: Door, capsys: pytest.CaptureFixture[str]) -> None:
        door(family("chain"), progress=True)
        assert capsys.readouterr().out == ""
        door(family("chain"))
        assert capsys.readouterr() == ("", "")

    def test_what_ran_and_why_is_on_the_result(self) -> None:
        chosen, asked = bl.infer(family("chain")), bl.infer(family("chain"), "bp(damping=0.1)")
        assert chosen.method == bl.JunctionTree() and chosen.reason.startswith("exact inference fits: ")
        assert "width 1" in chosen.reason
        assert asked.method == bl.BP(damping=0.1) and asked.reason == "as asked"


class TestStopping:
    def test_a_callback_sees_every_step_and_stops_by_returning_true(self) -> None:
        seen: list[bl.Progress] = []

        def watch(now: bl.Progress) -> bool:
            seen.append(now)
            return now.iteration == 3

        with warnings.catch_warnings():
            warnings.simplefilter("error")  # being stopped is no reason to warn
            result = bl.infer(FRUSTRATED, "bp", callback=watch)
        assert result.status is bl.Status.STOPPED and result.n_iters == 3
        assert [p.iteration for p in seen] == [1, 2, 3] and all(p.seconds >= 0 and p.residual > 0 for p in seen)
        assert all(p.value is None for p in seen)  # the Bethe value costs a pass, and nobody asked

    def test_only_true_stops(self) -> None:
        result = bl.infer(family("grid"), "bp", callback=lambda now: "go on")
        assert result.status is bl.Status.CONVERGED

    def test_an_exception_in_a_callback_is_the_callers(self) -> None:
        def interrupt(now: bl.Progress) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            bl.infer(FRUSTRATED, "bp", callback=interrupt)

    @pytest.mark.parametrize("graph", [FRUSTRATED, family("tree")])
    def test_no_step_at_all_is_an_answer(self, graph: bl.FactorGraph) -> None:
        with pytest.warns(bl.ConvergenceWarning, match="max_iters was reached"):
            result = bl.infer(graph, "bp", max_iters=0)
        assert result.n_iters == 0 and result.status is bl.Status.MAX_ITERS and result.bound is bl.Bound.ESTIMATE
        own = np.exp(graph.theta[: graph.layout.n_states]).reshape(-1, 2)  # the unary factors come first
        np.testing.assert_allclose(result.mu_var, (own / own.sum(axis=1, keepdims=True)).ravel())
        assert len(result.trace) == 1 and result.trace.iteration[0] == 0 and np.isfinite(result.log_z)

    def test_no_time_at_all_is_an_answer(self) -> None:
        with pytest.warns(bl.ConvergenceWarning, match="time_limit was reached"):
            result = bl.infer(FRUSTRATED, "bp", time_limit=0)
        assert result.status is bl.Status.TIME_LIMIT and result.n_iters == 0 and result.trace.lower[0] == -np.inf

    def test_a_time_limit_is_kept(self) -> None:
        with pytest.warns(bl.ConvergenceWarning):
            bl.infer(FRUSTRATED, "bp", max_iters=100)  # compiled: that is no part of the limit, but of the seconds
        with pytest.warns(bl.ConvergenceWarning):
            result = bl.infer(FRUSTRATED, "bp", time_limit=0.2, max_iters=10**9)
        assert result.status is bl.Status.TIME_LIMIT and 0.2 <= result.seconds < 1.0

    @pytest.mark.parametrize("method", ["enumeration", "elimination", "junction_tree"])
    def test_exact_methods_take_their_one_step_whatever_the_limits(self, method: str) -> None:
        result = bl.infer(family("grid"), method, max_iters=0, time_limit=0, callback=lambda now: True)
        assert result.status is bl.Status.CONVERGED and result.bound is bl.Bound.EXACT and result.n_iters == 1
        assert len(result.trace) == 1 and result.trace.residual[0] == 0.0

    def test_short_of_convergence_there_is_one_warning_with_advice(self) -> None:
        with pytest.warns(bl.ConvergenceWarning, match=r"^bp: ") as caught:
            result = bl.infer(FRUSTRATED, "bp", max_iters=100)
        assert len(caught) == 1 and caught[0].filename == __file__
        assert result.status is bl.Status.OSCILLATING and "damping" in result.status.advice
        with pytest.raises(bl.NotConvergedError, match="bp stopped after 100 steps: .*damping"):
            result.require_converged()
        settled = bl.infer(FRUSTRATED, "bp(damping=0.5)")
        assert settled.require_converged() is settled and settled.converged

    def test_trace_rows_come_where_they_were_asked_for_and_at_the_end(self) -> None:
        last = bl.infer(family("grid"), "bp")
        assert last.trace.iteration.tolist() == [last.n_iters]
        every = bl.infer(family("grid"), "bp", trace_every=1)
        assert every.trace.iteration.tolist() == list(range(1, every.n_iters + 1))
        third = bl.infer(family("grid"), "bp", trace_every=3)
        wanted = sorted({*range(3, third.n_iters + 1, 3), third.n_iters})
        assert third.trace.iteration.tolist() == wanted
        assert (np.diff(every.trace.seconds) >= 0).all() and every.trace.residual[-1] <= 1e-8
        assert every.log_z == last.log_z and len(every.trace) == every.n_iters


class TestWarmStart:
    def test_it_needs_the_same_layout(self) -> None:
        start = bl.infer(family("grid"), "bp")
        with pytest.raises(bl.ModelError, match="another layout"):
            bl.infer(family("chain"), "bp", init=start)
        with pytest.raises(bl.ModelError, match="another layout"):
            bl.infer(family("grid").condition({0: 1}), "bp", init=start)

    def test_it_needs_a_result(self) -> None:
        with pytest.raises(bl.ModelError, match="init must be an earlier result, found ndarray"):
            bl.infer(family("grid"), "bp", init=np.zeros(3))

    def test_an_equal_layout_of_another_graph_will_do(self) -> None:
        graph = family("grid")
        start = bl.infer(graph, "bp")
        nearby = random_model([2] * 12, unary(12) + grid_pairs(3, 4), seed=4)
        assert nearby.layout is not graph.layout
        moved = nearby.with_theta(nearby.theta + 1e-3)
        warm, cold = bl.infer(moved, "bp", init=start), bl.infer(moved, "bp")
        assert warm.n_iters < cold.n_iters and warm.log_z == pytest.approx(cold.log_z, abs=1e-6)

    def test_hard_zeros_of_the_start_are_not_inherited(self) -> None:
        """A message that was -inf must come back when the zero that caused it is gone."""
        zero = bl.FactorGraph.from_tables([2, 2], [((0,), [1, 0]), ((0, 1), [[1, 2], [3, 4]])])
        soft = zero.with_theta(np.log([1, 1, 1, 2, 3, 4]))
        result = bl.infer(soft, "bp", init=bl.infer(zero, "bp"))
        assert np.exp(result.log_z) == pytest.approx(10) and result.marginal(0) == pytest.approx([0.3, 0.7])

    def test_another_methods_state_is_not_used(self) -> None:
        graph = family("tree")
        start = bl.infer(graph, "junction_tree")
        assert bl.infer(graph, "bp", init=start).n_iters == bl.infer(graph, "bp").n_iters
        assert bl.infer(graph, "junction_tree", init=start).log_z == start.log_z

    def test_it_works_with_targets(self) -> None:
        bn = sprinkler()
        start = bl.infer(bn, "bp", targets=["Rain"])
        again = bl.infer(bn, "bp", targets=["Rain"], init=start)
        assert again.n_iters == 1 and again.marginal("Rain") == pytest.approx(start.marginal("Rain"))
        other = bl.infer(bn, "bp", targets=["Slip"], init=start)  # of another part: a cold start
        assert other.marginal("Slip") == pytest.approx(bl.infer(bn, "bp(damping=0.3)").marginal("Slip"), abs=1e-6)

    def test_an_answer_about_all_variables_starts_none_about_a_part(self) -> None:
        bn = sprinkler()
        part, best = bl.infer(bn, "bp", targets=["Rain"]), bl.maximize(bn, "bp")
        asked = bl.marginal_map(bn, ["Rain"], "bp")
        assert part.pruned.any()
        for whole in (best, asked):
            assert bl.infer(bn, "bp", targets=["Rain"], init=whole).n_iters == part.n_iters
        assert bl.maximize(bn, "bp", init=part).n_iters == best.n_iters
        assert bl.marginal_map(bn, ["Rain"], "bp", init=part).n_iters == asked.n_iters
