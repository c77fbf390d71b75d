"""Tiers, schedules, counting numbers and temperatures of message passing, against NumPy and against each other."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import beliefs as bl
import reference
from beliefs.inference.base import Problem, Task
from beliefs.inference.messages.bp import BP
from beliefs.inference.messages.fractional import FractionalBP
from beliefs.inference.messages.pairwise_tier import PairwiseTier
from beliefs.inference.messages.propagation import MessagePassing, MessageState
from beliefs.inference.messages.tiers import LinearTier, LogTier, Tier
from beliefs.inference.messages.trw import TRW
from families import FAMILIES, family, grid_pairs, random_model, unary
from messages_reference import Flooding
from strategies import examples, factor_graphs

FINITE = [name for name in FAMILIES if np.isfinite(FAMILIES[name]().theta).all()]


def held(method: MessagePassing, kinds: Sequence[type[Tier]], problem: Problem) -> MessageState:
    """The state of a method with its messages held by the first of these tiers that can."""
    state = method.init(problem)
    state.select_tier(tuple(kinds), state.spec, state.start)
    return state


def pairwise_model(states: int, seed: int, scale: float = 1.0, size: int = 4) -> bl.FactorGraph:
    return random_model([states] * size * size, unary(size * size) + grid_pairs(size, size), seed=seed, scale=scale)


# -- flooding against NumPy ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "method", [BP(schedule="flooding"), TRW(schedule="flooding"), FractionalBP(schedule="flooding")]
)
@pytest.mark.parametrize("kind", [LinearTier, LogTier])
@pytest.mark.parametrize("name", FINITE)
def test_flooding_is_the_equations_sweep_by_sweep(name: str, kind: type[Tier], method: MessagePassing) -> None:
    if kind is LinearTier and (name == "huge_range" or name == "strong_couplings" and isinstance(method, FractionalBP)):
        pytest.skip("beyond the range of a double")
    graph = family(name)
    state = held(method, [kind], Problem(graph))
    plain = Flooding(graph, state.spec.rho)
    assert isinstance(state.tier, kind)
    for _ in range(6):
        assert state.iterate() == 0
        plain.step()
        state.tier.beliefs(state.mu_var)
        np.testing.assert_allclose(state.mu_var, plain.marginals(), rtol=0, atol=1e-11)
    assert state.assessment.energy == pytest.approx(plain.value(), rel=1e-10, abs=1e-9)
    for _ in range(300):
        plain.step()
    state.select_tier((kind,), state.spec, np.concatenate([np.zeros(0), *(m for row in plain.lam for m in row)]))
    if state.assessment.apart < 1e-9:  # at a fixed point the value is the free energy of the beliefs
        assert state.assessment.energy == pytest.approx(plain.free_energy(), rel=1e-9, abs=1e-7)


@pytest.mark.parametrize("method", [BP(schedule="flooding"), TRW(schedule="flooding")])
@pytest.mark.parametrize("query", ["all", "even", "last"])
@pytest.mark.parametrize("name", [n for n in FINITE if n not in ("uniform", "no_factors", "only_constants")])
def test_flooding_with_maxima_is_the_equations_sweep_by_sweep(name: str, query: str, method: MessagePassing) -> None:
    graph = family(name)
    chosen = {
        "all": np.arange(graph.n_vars),
        "even": np.arange(0, graph.n_vars, 2),
        "last": np.array([graph.n_vars - 1]),
    }
    problem = Problem(graph, Task.MARGINAL_MAP, query=chosen[query])
    state = held(method, [LogTier], problem)
    plain = Flooding(graph, state.spec.rho, problem.tau)
    for _ in range(5):
        state.iterate()
        plain.step()
        state.tier.beliefs(state.mu_var)
        np.testing.assert_allclose(state.mu_var, plain.marginals(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("states", [2, 3, 4, 5, 8, 9, 21])
@pytest.mark.parametrize("method", [BP(), TRW(), BP(damping=0.5)])
def test_messages_of_maxima_stay_normalised_however_long_they_run(method: MessagePassing, states: int) -> None:
    """A message spans no more than its table does, divided by its counting number; its largest entry is zero."""
    graph = pairwise_model(states, seed=3, scale=0.3, size=12)
    state: Any = held(method, [PairwiseTier], Problem(graph, Task.MAXIMIZE))
    for _ in range(20):
        assert state.iterate() == 0
    width = state.tier.edges.width
    rows = state.tier.messages.reshape(-1, width)[:, : 1 if width == 1 else states]
    reach = np.ptp(graph.theta) / state.spec.rho.min()
    assert np.abs(rows).max() <= reach
    if width > 1:
        assert np.abs(rows.max(axis=1)).max() <= (1e-9 if method.damping == 0 else reach)


# -- tiers against each other ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("schedule", ["sequential", "color", "tree"])
@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("states", [2, 3, 4, 8, 17, 21])
@pytest.mark.parametrize("method", [BP, TRW, FractionalBP])
def test_fast_and_general_tiers_agree(method: type[MessagePassing], states: int, damping: float, schedule: str) -> None:
    graph = pairwise_model(states, seed=states)
    rule = method(damping=damping, schedule=schedule)
    for task in (Task.INFER, Task.MAXIMIZE):
        problem = Problem(graph, task)
        runs = [held(rule, [kind], problem) for kind in (PairwiseTier, LogTier)]
        if task is Task.INFER:
            runs.append(held(rule, [LinearTier], problem))
        for _ in range(5):
            for state in runs:
                assert state.iterate() == 0
                state.tier.beliefs(state.mu_var)
            common = runs[0].logs.messages.copy()
            for state in runs[1:]:
                np.testing.assert_allclose(state.mu_var, runs[0].mu_var, rtol=0, atol=1e-10)
                np.testing.assert_allclose(state.logs.messages, common, rtol=0, atol=1e-10)
            for state in runs:  # on from the same messages: max-product with loops amplifies any rounding
                state.select_tier((type(state.tier),), state.spec, common)


@pytest.mark.parametrize("states", [2, 5])
def test_tied_tables_share_one_copy_and_give_the_same(states: int) -> None:
    rng = np.random.default_rng(states)
    fields, table = rng.normal(size=(49, states)), rng.normal(size=(states, states))
    tied = bl.FactorGraph.pairwise(fields, grid_pairs(7, 7), table)
    free = bl.FactorGraph.pairwise(fields, grid_pairs(7, 7), np.stack([table] * len(grid_pairs(7, 7))))
    one, many = (BP().init(Problem(g)).tier for g in (tied, free))
    assert isinstance(one, PairwiseTier) and isinstance(many, PairwiseTier)
    assert one.pairs.psi.size <= states**2 + 4 * states and many.pairs.psi.size > 10 * one.pairs.psi.size
    results = [bl.infer(g, "bp") for g in (tied, free)]
    np.testing.assert_array_equal(results[0].mu_var, results[1].mu_var)


@pytest.mark.parametrize("states", [2, 5])
def test_tied_tables_with_uneven_counting_numbers_have_the_fast_form_too(states: int) -> None:
    rng, edges = np.random.default_rng(states), [(k, (k + 1) % 9) for k in range(9)] + [(0, 4), (2, 7), (0, 2)]
    graph = bl.FactorGraph.pairwise(rng.normal(size=(9, states)), edges, rng.normal(size=(states, states)))
    state = TRW().init(Problem(graph))
    assert isinstance(state.tier, PairwiseTier) and np.ptp(state.spec.rho[9:]) > 0.01
    general = held(TRW(), [LogTier], Problem(graph))
    for _ in range(5):
        for run in (state, general):
            assert run.iterate() == 0
            run.tier.beliefs(run.mu_var)
        np.testing.assert_allclose(state.mu_var, general.mu_var, rtol=0, atol=1e-12)
    even = bl.infer(graph, "bp")  # the same schedule, with one number for all
    fresh = bl.infer(bl.FactorGraph.build(graph.layout, graph.theta), "bp")
    np.testing.assert_array_equal(even.mu_var, fresh.mu_var)


def test_each_problem_gets_the_tier_it_can_have() -> None:
    grid, zeros, wide = family("grid"), family("hard_zeros"), family("huge_range")
    assert isinstance(BP().init(Problem(grid)).tier, PairwiseTier)
    assert isinstance(BP(damp="probability", damping=0.1).init(Problem(grid)).tier, LinearTier)
    assert isinstance(BP().init(Problem(zeros)).tier, LinearTier)
    assert isinstance(BP().init(Problem(zeros, Task.MAXIMIZE)).tier, LogTier)
    assert isinstance(BP().init(Problem(wide, Task.MAXIMIZE)).tier, PairwiseTier)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        assert bl.infer(wide, "bp").log_z == pytest.approx(reference.log_z(reference.joint_table(wide)), rel=1e-9)


@given(factor_graphs(scales=(0.5, 2.0)), st.sampled_from([0.0, 0.25]), st.sampled_from(["log", "probability"]))
@examples(60)
def test_linear_and_log_tiers_agree_with_hard_zeros_and_any_arity(
    graph: bl.FactorGraph, damping: float, damp: str
) -> None:
    rule = BP(damping=damping, damp=damp, schedule="sequential")
    try:
        states = [held(rule, [kind], Problem(graph)) for kind in (LinearTier, LogTier)]
        for state in states:
            for _ in range(4):
                if state.iterate():
                    raise bl.ZeroProbabilityError
            state.tier.beliefs(state.mu_var)
    except bl.ZeroProbabilityError:
        reject()  # zeros that only messages find
    np.testing.assert_allclose(states[0].mu_var, states[1].mu_var, rtol=0, atol=1e-10)


# -- options ---------------------------------------------------------------------------------------------------------
def test_the_tolerance_may_be_on_messages() -> None:
    graph = family("grid")
    rule = BP(stop="messages", schedule="flooding")
    states = [rule.init(Problem(graph))]
    residual = rule.step(states[0])
    plain = Flooding(graph)
    before = [np.exp(m) for row in plain.lam for m in row]
    plain.step()
    after = [np.exp(m) for row in plain.lam for m in row]
    assert residual == pytest.approx(max(np.abs(a - b).max() for a, b in zip(after, before, strict=True)), rel=1e-10)
    assert bl.infer(graph, rule).converged


@pytest.mark.parametrize("damp", ["log", "probability"])
def test_damping_mixes_as_said(damp: str) -> None:
    graph, share = family("complete"), 0.37
    state = BP(damping=share, damp=damp, schedule="flooding").init(Problem(graph))
    state.select_tier((LogTier,), state.spec, state.start)
    plain = Flooding(graph)
    old = np.concatenate([m for row in plain.lam for m in row])
    plain.step()
    new = np.concatenate([m for row in plain.lam for m in row])
    state.iterate()
    mixed = (
        share * old + (1 - share) * new if damp == "log" else np.log(share * np.exp(old) + (1 - share) * np.exp(new))
    )
    rows = mixed.reshape(-1, 3)  # every variable has three states
    rows -= np.logaddexp.reduce(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(state.tier.log_messages(), mixed, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [{"damping": 1}, {"damp": "linear"}, {"schedule": "random"}, {"stop": "never"}, {"damping": "x"}, {"schedule": 3}],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    for method in (BP, TRW, FractionalBP):
        with pytest.raises(bl.ModelError, match=next(iter(options))):
            method(**options)


@pytest.mark.parametrize("rho", [0, -1.0, np.nan, np.inf, "tree", None, [1.0, 2.0], {}])
def test_fractional_counting_numbers_are_positive(rho: Any) -> None:
    with pytest.raises(bl.ModelError, match="rho"):
        bl.infer(family("grid"), FractionalBP(rho=rho))


# -- counting numbers ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", FINITE)
def test_counting_numbers_of_one_are_belief_propagation(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        runs = [
            bl.infer(family(name), m, max_iters=4)
            for m in (BP(schedule="color"), FractionalBP(rho=1, schedule="color"))
        ]
    assert runs[0].mu_var.tobytes() == runs[1].mu_var.tobytes() and runs[0].log_z == runs[1].log_z


def test_convex_counting_numbers_have_one_fixed_point() -> None:
    graph = random_model([3] * 9, unary(9) + grid_pairs(3, 3), seed=5, scale=2.5)
    rule, found = FractionalBP(schedule="color"), []
    for seed in range(8):
        state = rule.init(Problem(graph))
        start = state.logs.messages
        state.select_tier(rule.tiers, state.spec, start + 3.0 * np.random.default_rng(seed).normal(size=start.size))
        for _ in range(400):
            rule.step(state)
        found.append(rule.marginals(state).log_z)
    np.testing.assert_allclose(found, found[0], rtol=0, atol=1e-8)


# -- extremes --------------------------------------------------------------------------------------------------------
def star(leaves: int, scale: float, states: int = 2) -> bl.FactorGraph:
    rng = np.random.default_rng(1)
    return bl.FactorGraph.pairwise(
        scale * rng.normal(size=(leaves + 1, states)),
        [(0, v) for v in range(1, leaves + 1)],
        scale * rng.normal(size=(leaves, states, states)),
    )


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("method", ["bp", "trw", "bp(schedule=flooding)", "bp(schedule=color)"])
def test_a_star_with_ten_thousand_leaves(method: str, scale: float) -> None:
    graph = star(10_000, scale)
    result, truth = bl.infer(graph, method), bl.infer(graph, "junction_tree")
    assert result.log_z == pytest.approx(truth.log_z, rel=1e-10)
    np.testing.assert_allclose(result.mu_var, truth.mu_var, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    "method", ["bp", "trw", "fractional_bp", "bp(damping=0.5,damp=probability)", "bp(schedule=residual)"]
)
@pytest.mark.parametrize("scale", [1000.0, 1e-300, 0.0])
def test_potentials_of_any_size_give_numbers(scale: float, method: str) -> None:
    graph = family("grid").with_theta(scale * family("grid").theta)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        result = bl.infer(graph, method, max_iters=50)
    assert np.isfinite(result.mu_var).all() and np.isfinite(result.log_z)


@pytest.mark.parametrize("method", ["bp", "trw", "fractional_bp", "bp(schedule=residual)", "bp(schedule=flooding)"])
def test_contradictions_that_messages_see_are_errors_at_every_door(method: str) -> None:
    same, different = np.eye(2), 1 - np.eye(2)
    graph = bl.FactorGraph.from_tables([2] * 3, [((0,), [1, 0]), ((0, 1), same), ((1, 2), same), ((0, 2), different)])
    for door in (bl.infer, bl.maximize, lambda g, m: bl.marginal_map(g, [1], m)):
        with pytest.raises(bl.ZeroProbabilityError):
            door(graph, method)


def test_large_cardinalities_and_duplicated_edges() -> None:
    rng = np.random.default_rng(2)
    big = bl.FactorGraph.pairwise(rng.normal(size=(3, 200)), [(0, 1), (1, 2)], rng.normal(size=(2, 200, 200)))
    assert bl.infer(big, "bp").log_z == pytest.approx(bl.infer(big, "junction_tree").log_z, rel=1e-12)
    twice = random_model([2] * 4, [*unary(4), (0, 1), (0, 1), (1, 0), (2, 3)], seed=4)
    truth = bl.infer(twice, "junction_tree").log_z
    assert bl.infer(twice, "trw", tol=1e-10).log_z >= truth - 1e-9
    assert bl.infer(twice, "bp").log_z != pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_long_chain_with_hard_zeros_is_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = np.where(rng.random((1999, 3, 3)) < 0.2, -np.inf, 5 * rng.normal(size=(1999, 3, 3)))
    tables[:, 0, 0] = 0.0
    graph = bl.FactorGraph.pairwise(rng.normal(size=(2000, 3)), [(v, v + 1) for v in range(1999)], tables)
    result, truth = bl.infer(graph, "bp"), bl.infer(graph, "junction_tree")
    assert result.bound is bl.Bound.EXACT and result.log_z == pytest.approx(truth.log_z, rel=1e-11)
    np.testing.assert_allclose(result.mu_var, truth.mu_var, rtol=0, atol=1e-9)


# -- claims that were once false -------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["trw", "fractional_bp", "trw(schedule=flooding)", "trw(schedule=residual)", "bp"])
def test_converged_means_that_factors_and_variables_agree(method: str) -> None:
    """Factors of several variables that send at once can swing between two states, pass by pass."""
    settled = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        scopes = [tuple(int(v) for v in rng.choice(8, size=int(rng.integers(3, 5)), replace=False)) for _ in range(9)]
        graph = random_model([2] * 8, scopes, seed=seed, scale=2.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.ConvergenceWarning)
            result = bl.infer(graph, method, max_iters=600)
        settled += result.converged
        for f in range(graph.n_factors if result.converged else 0):
            table = result.factor_marginal(f)
            for axis, v in enumerate(graph.layout.scope(f)):
                rest = tuple(a for a in range(table.ndim) if a != axis)
                np.testing.assert_allclose(table.sum(axis=rest), result.marginal(int(v)), rtol=0, atol=2e-6)
    assert settled >= (9 if method == "trw" else 1)


@pytest.mark.parametrize("cards", [[1, 3, 1, 1], [1, 1, 3], [1, 1, 1, 2], [1, 4, 1, 2, 1]])
def test_single_states_before_a_query_variable(cards: list[int]) -> None:
    rng = np.random.default_rng(0)
    graph = bl.FactorGraph.from_tables(cards, [(range(len(cards)), rng.normal(size=cards))], log=True)
    joint = reference.joint_table(graph)
    for v in range(len(cards)):
        for method in ("bp", "trw", "bp(schedule=residual)"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", bl.ConvergenceWarning)
                found = bl.marginal_map(graph, [v], method)
            assert found.log_value == pytest.approx(float(reference.query_values(joint, [v]).max()))


@pytest.mark.parametrize("method", ["trw(rho=1e-310)", "fractional_bp(rho=1e-310)", "fractional_bp(rho=1e300)"])
def test_counting_numbers_beyond_use_are_refused(method: str) -> None:
    with pytest.raises(bl.ModelError, match="rho must be between"):
        bl.infer(family("grid"), method)


@pytest.mark.parametrize("field", ["damp", "schedule", "stop"])
def test_an_array_is_no_word(field: str) -> None:
    with pytest.raises(bl.ModelError, match=field):
        BP(**{field: np.zeros(50)})  # type: ignore[arg-type]
    with pytest.raises(bl.ModelError, match="list of factor indices"):
        bl.infer(family("grid"), BP(order=[[1, 2], [3]]))


def test_a_full_query_is_the_maximum() -> None:
    for seed in range(10):
        graph = random_model([3] * 9, unary(9) + grid_pairs(3, 3), seed=seed, scale=3.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.ConvergenceWarning)
            whole = bl.maximize(graph, "bp(schedule=residual)", max_iters=20)
            query = bl.marginal_map(graph, range(9), "bp(schedule=residual)", max_iters=20)
        assert query.log_value == pytest.approx(whole.log_score)
