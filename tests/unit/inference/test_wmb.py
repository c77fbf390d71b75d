"""Weighted mini-bucket as a method: bounds at every iterate, exactness, options, warm starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.inference.base import Problem, Task
from families import random_model
from unit.inference.test_mini_buckets import random_case


def room(truth: float) -> float:
    return 1e-9 * max(1.0, abs(truth))


@pytest.mark.parametrize("zeros", [0.0, 0.25])
@pytest.mark.parametrize("method", ["wmb(ibound=1)", "wmb(ibound=1, smoothing=0.0, backtrack=False)"])
def test_every_iterate_is_on_its_side_of_the_truth(method: str, zeros: float) -> None:
    """Sums, maxima and mixtures on random models of any arity; the bound never rises."""
    for seed in range(200):
        graph = random_case(1000 + seed, zeros=zeros)
        joint = reference.joint_table(graph)
        query = list(range(0, graph.n_vars, 2))
        truths = (
            reference.log_z(joint), reference.maximum(joint), float(reference.query_values(joint, query).max())
        )  # fmt: skip
        answers = (
            bl.infer(graph, method, max_iters=8),
            bl.maximize(graph, method, max_iters=8),
            bl.marginal_map(graph, query, method, max_iters=8),
        )
        for truth, answer in zip(truths, answers, strict=True):
            assert (answer.trace.upper >= truth - room(truth)).all() and (np.diff(answer.trace.upper) <= 0).all()
            assert (answer.trace.lower <= truth + room(truth)).all()


def test_lower_bounds_are_below_at_every_iterate() -> None:
    for seed in range(200):
        graph = random_case(seed)
        truth = reference.log_z(reference.joint_table(graph))
        answer = bl.infer(graph, "wmb(ibound=1, side=lower)", max_iters=20)
        assert (answer.trace.lower <= truth + room(truth)).all() and (np.diff(answer.trace.lower) >= 0).all()
        assert answer.log_z == answer.log_lower and answer.bound in (bl.Bound.LOWER, bl.Bound.EXACT)


def test_a_lower_bound_with_hard_zeros_says_nothing_rather_than_something_false() -> None:
    graph = bl.FactorGraph.from_tables(
        [2, 2, 2], [((0, 1), [[1, 0], [0, 1]]), ((0, 2), [[1, 0], [0, 1]]), ((1, 2), [[1, 2], [2, 1]])]
    )
    answer = bl.infer(graph, bl.WMB(ibound=1, side="lower", order=[0, 1, 2]))
    assert answer.log_lower == -np.inf and not np.isnan(answer.mu_var).any()


@pytest.mark.parametrize("query", [[], [0, 5, 10], list(range(16))])
def test_the_bound_is_exact_at_the_width(query: list[int]) -> None:
    graph = bl.datasets.make_ising_grid(4, seed=1)
    truth = bl.marginal_map(graph, query, "junction_tree").log_value
    answer = bl.marginal_map(graph, query, "wmb(ibound=15)")
    assert answer.gap == 0.0 and answer.log_value == pytest.approx(truth, abs=1e-9)


def test_a_tree_is_exact_at_ibound_1() -> None:
    graph = bl.datasets.make_ising_grid(1, 30, seed=0)
    answer = bl.infer(graph, "wmb(ibound=1)")
    assert answer.bound is bl.Bound.EXACT and answer.log_z == pytest.approx(bl.infer(graph).log_z, abs=1e-9)


def test_temperatures_between_sum_and_maximum() -> None:
    rng = np.random.default_rng(3)
    for seed in range(60):
        graph = random_case(seed)
        listed = rng.permutation(graph.n_vars).tolist()
        tau = rng.choice([0.0, 0.3, 1.0, 2.0], graph.n_vars)
        truth, _ = reference.power_sum(reference.joint_table(graph), listed, tau.tolist())
        answer = bl.infer(graph, bl.WMB(ibound=1, order=listed, tau=tau), max_iters=10)
        assert answer.log_z >= truth - room(truth)
        log_z = reference.log_z(reference.joint_table(graph))
        assert answer.log_lower <= log_z + room(log_z) and log_z - room(log_z) <= answer.log_upper


def test_without_backtracking_a_step_may_be_bad_but_the_best_is_kept() -> None:
    graph = bl.datasets.make_ising_grid(6, seed=0)
    query = list(range(0, 36, 2))
    method = bl.WMB(ibound=1, smoothing=0.0, backtrack=False)
    state = method.init(Problem(graph, Task.MARGINAL_MAP, query=np.array(query)))
    bounds = []
    for _ in range(10):
        method.step(state)
        bounds.append(state.bound)
    assert max(np.diff(bounds)) > 1.0, "full steps on max-marginals overshoot on this model"
    assert method.value(state).upper <= min(bounds)


def test_default_steps_beat_fixed_ones_on_the_average() -> None:
    query = list(range(0, 36, 2))
    graphs = [bl.datasets.make_ising_grid(6, field=0.3, coupling=0.6, seed=seed) for seed in range(8)]

    def mean_bound(method: str) -> float:
        return float(np.mean([bl.marginal_map(g, query, method, max_iters=40).log_upper for g in graphs]))

    best = mean_bound("wmb(ibound=1)")
    for step in (0.01, 0.05, 0.5):
        assert best < mean_bound(f"wmb(ibound=1, step_size={step}, backtrack=False, smoothing=0.0)")


def test_warm_starts_go_on_where_the_last_run_ended() -> None:
    graph = bl.datasets.make_ising_grid(8, seed=0)
    whole = bl.infer(graph, "wmb(ibound=2)", max_iters=40)
    first = bl.infer(graph, "wmb(ibound=2)", max_iters=20)
    second = bl.infer(graph, "wmb(ibound=2)", max_iters=20, init=first)
    assert second.log_upper < first.log_upper
    assert second.log_upper == pytest.approx(whole.log_upper, rel=1e-3)


def test_lower_side_is_for_sums() -> None:
    graph = bl.datasets.make_ising_grid(3, seed=0)
    with pytest.raises(bl.UnsupportedError, match="bounds sums only"):
        bl.maximize(graph, "wmb(side=lower)")
    with pytest.raises(bl.UnsupportedError, match="bounds sums only"):
        bl.marginal_map(graph, [], "wmb(side=lower)")
    for text, message in (
        ("side=left", "side must be upper or lower"),
        ("step_size=0", r"step_size must be in \(0, 1\]"),
        ("weight_step=-1", "weight_step must be a number of at least 0"),
        ("backtrack=3", "backtrack must be True or False"),
    ):
        with pytest.raises(bl.ModelError, match=message):
            bl.infer(graph, f"wmb({text})")


def test_contradictory_constraints_are_an_error_where_a_bucket_proves_it() -> None:
    never = [((0, 1), [[0, 1], [1, 0]]), ((0, 1), [[1, 0], [0, 1]])]
    with pytest.raises(bl.ZeroProbabilityError):
        bl.infer(bl.FactorGraph.from_tables([2, 2], never), "wmb(ibound=1)")
    with pytest.raises(bl.ZeroProbabilityError):
        bl.maximize(bl.FactorGraph.from_tables([2, 2], never), "mini_bucket(ibound=1)")


def test_extreme_tables() -> None:
    for scale in (1e3, 1e-300):
        graph = random_model([2] * 6, [(a, b) for a in range(6) for b in range(a)], seed=1, scale=scale)
        truth = reference.log_z(reference.joint_table(graph))
        upper, lower = (bl.infer(graph, f"wmb(ibound=1, side={side})") for side in ("upper", "lower"))
        assert lower.log_lower - room(truth) <= truth <= upper.log_upper + room(truth)
        assert np.isfinite(upper.mu_var).all() and np.isfinite(lower.mu_var).all()


def test_a_warm_start_from_another_split_model_proves_nothing_and_is_not_used() -> None:
    """Weights of another side, temperature, query or tree would make the bound a false one."""
    graph = bl.datasets.make_ising_grid(3, seed=0)
    truth = bl.infer(graph, "enumeration").log_z
    results = [
        bl.maximize(graph, "wmb(ibound=1)"),
        bl.infer(graph, "wmb(ibound=1, side=lower)"),
        bl.infer(graph, bl.WMB(ibound=1, tau=[0.5] * 9)),
        bl.marginal_map(graph, [0, 1, 2], "wmb(ibound=1)"),
        bl.infer(graph, "wmb(ibound=2)"),
    ]
    for earlier in results:
        upper = bl.infer(graph, "wmb(ibound=1)", init=earlier, max_iters=3)
        lower = bl.infer(graph, "wmb(ibound=1, side=lower)", init=earlier, max_iters=3)
        assert (upper.trace.upper >= truth - room(truth)).all() and (lower.trace.lower <= truth + room(truth)).all()
    best = bl.marginal_map(graph, [7, 8], "enumeration").log_value
    found = bl.marginal_map(graph, [7, 8], "wmb", init=bl.marginal_map(graph, [0, 1, 2, 3, 4], "wmb"))
    assert found.gap == 0.0 and found.log_value == pytest.approx(best, abs=1e-9)


def test_a_warm_start_on_other_tables_is_a_bound_on_those() -> None:
    """With other tables another order may be chosen, whose replicas are others."""
    scopes = [(0, 1), (1, 2), (2, 0), (0, 3), (3, 4)]
    for seed in range(60):
        first, second = (random_model([2] * 5, scopes, seed=2 * seed + k, scale=3.0) for k in range(2))
        truth = reference.log_z(reference.joint_table(second))
        lower, upper = (
            bl.infer(second, method, init=bl.infer(first, method))
            for method in ("wmb(ibound=1, side=lower)", "wmb(ibound=1)")
        )
        assert lower.log_lower - room(truth) <= truth <= upper.log_upper + room(truth)


def test_no_smoothing_before_smoothing() -> None:
    graph = bl.datasets.make_ising_grid(3, seed=0)
    first = bl.maximize(graph, "wmb(ibound=1, smoothing=0.0)")
    assert bl.maximize(graph, "wmb(ibound=1)", init=first).log_upper >= bl.maximize(graph).log_score - 1e-9


def test_a_proof_that_nothing_is_possible_is_an_error_from_below_too() -> None:
    never = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[0, 0], [0, 1]]), ((0,), [1, 0])])
    with pytest.raises(bl.ZeroProbabilityError):
        bl.infer(never, "wmb(side=lower)")


def test_joint_marginals_are_exact_or_refused() -> None:
    chain = bl.FactorGraph.from_tables([2] * 6, [((v, v + 1), [[3.0, 1.0], [1.0, 2.0]]) for v in range(5)])
    answer = bl.infer(chain, "mini_bucket(ibound=1)")
    assert answer.bound is bl.Bound.EXACT
    with pytest.raises(bl.UnsupportedError, match="not exact on a joint of"):
        answer.marginal(["x0", "x5"])


def test_local_search_starts_anew_for_another_query() -> None:
    graph = bl.FactorGraph.from_tables([4, 2], [((0, 1), [[1, 1], [1, 1], [1, 1], [9, 9]])])
    first = bl.marginal_map(graph, [0], "local_search")
    assert bl.marginal_map(graph, [1], "local_search", init=first).log_value == pytest.approx(np.log(12.0))


def test_marginals_of_factors_are_numbers_where_states_were_pruned() -> None:
    tables: list[Any] = [((0, 1), [[1.0]]), ((0, 2), [[0, 0, 1, 0]]), ((1, 2), [[1, 0, 1, 1]])]
    answer = bl.infer(bl.FactorGraph.from_tables([1, 1, 4], tables), "gdd")
    assert answer.mu_factor.tolist() == [1, 0, 0, 1, 0, 0, 0, 1, 0]


def test_temperatures_that_no_float_can_hold_are_refused() -> None:
    graph = bl.datasets.make_ising_grid(3, seed=0)
    for tau in (1e308, 1e-320):
        with pytest.raises(bl.ModelError, match="tau must be 0 or between"):
            bl.infer(graph, bl.WMB(tau=[tau] * 9))


@pytest.mark.parametrize("ibound", [1, 2])
def test_the_optimum_is_that_of_gdd(ibound: int) -> None:
    """The same clusters and separators: one convex problem, two roads. The floor of the weights costs a little."""
    for seed in range(2):
        graph = bl.datasets.make_ising_grid(4, field=0.5, coupling=0.6, seed=seed)
        order = list(range(16))
        wmb = bl.infer(graph, bl.WMB(ibound=ibound, order=order), max_iters=2000, tol=1e-10).log_z
        method = bl.GDD(ibound=ibound, order=order, floor=1e-4, solver="lbfgs")
        gdd = bl.infer(graph, method, max_iters=4000, tol=1e-12).log_z
        assert wmb - 1e-6 <= gdd <= wmb + 5e-3
