"""Belief propagation: exact on forests in one sweep, a Bethe stationary point elsewhere, honest about both."""

from __future__ import annotations

import math
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beliefs as bl
import reference
from families import FAMILIES, family, grid_pairs, random_model, unary
from strategies import examples, factor_graphs

FORESTS = [name for name in FAMILIES if reference.is_forest(FAMILIES[name]())]
LOOPY = [name for name in FAMILIES if name not in FORESTS]


@pytest.mark.parametrize("name", FORESTS)
def test_a_forest_is_exact_after_one_sweep_and_converged_after_two(name: str) -> None:
    graph = family(name)
    joint = reference.joint_table(graph)
    result = bl.infer(graph, "bp", trace_every=1)
    assert result.n_iters <= 2 and result.bound is bl.Bound.EXACT
    assert result.trace.log_z[0] == pytest.approx(reference.log_z(joint), rel=1e-12, abs=1e-12)
    assert (result.trace.lower == result.trace.upper).all()


@pytest.mark.parametrize("name", LOOPY)
def test_a_loop_is_never_called_exact(name: str) -> None:
    result = bl.infer(family(name), "bp")
    assert result.bound is bl.Bound.ESTIMATE
    assert result.log_lower == -math.inf and result.log_upper == math.inf
    assert (result.trace.lower == -math.inf).all()


def test_one_step_short_of_convergence_a_forest_is_still_exact() -> None:
    with pytest.warns(bl.ConvergenceWarning):
        result = bl.infer(family("tree"), "bp", max_iters=1)
    joint = reference.joint_table(family("tree"))
    assert result.bound is bl.Bound.EXACT and result.log_z == pytest.approx(reference.log_z(joint))
    np.testing.assert_allclose(result.mu, reference.mu(family("tree"), joint), atol=1e-12)


def test_damping_gives_up_the_claim_of_exactness_but_not_the_limit() -> None:
    result = bl.infer(family("tree"), "bp(damping=0.5)")
    assert result.bound is bl.Bound.ESTIMATE and result.n_iters > 2
    assert result.log_z == pytest.approx(reference.log_z(reference.joint_table(family("tree"))), abs=1e-6)


def test_a_single_loop_by_hand() -> None:
    """Ising triangle with coupling J and no field: every variable is uniform, every edge as if it were alone.

    Bethe: three edges of log(4 cosh J), less (degree - 1) = 1 entropy of log 2 at each of the three variables.
    """
    strength = 0.8
    table = strength * np.array([[1.0, -1.0], [-1.0, 1.0]])
    graph = bl.FactorGraph.pairwise(np.zeros((3, 2)), [(0, 1), (1, 2), (2, 0)], table)
    result = bl.infer(graph, "bp")
    assert result.log_z == pytest.approx(3 * math.log(4 * math.cosh(strength)) - 3 * math.log(2), rel=1e-12)
    agree = math.exp(strength) / (4 * math.cosh(strength))
    np.testing.assert_allclose(result.factor_marginal(3), [[agree, 0.5 - agree], [0.5 - agree, agree]], rtol=1e-9)


@given(factor_graphs(scales=(0.5, 1.0)))
@examples(60)
def test_the_bethe_value_is_that_of_its_own_beliefs(graph: bl.FactorGraph) -> None:
    """log Z = sum_f <b_f, theta_f> + H(b_f) + sum_v (1 - d_v) H(b_v), recomputed from the result's beliefs."""
    result = bl.infer(graph, "bp(damping=0.3)", tol=1e-10, max_iters=5000)

    def entropy(p: np.ndarray) -> float:
        return -float((p[p > 0] * np.log(p[p > 0])).sum())

    value = 0.0
    for f in range(graph.n_factors):
        b, theta = result.factor_marginal(f).ravel(), graph.theta[graph.layout.cells(f)]
        value += float((b[b > 0] * theta[b > 0]).sum()) + entropy(b)
    degree = np.diff(graph.layout.var_ptr)
    value += sum((1 - int(degree[v])) * entropy(result.marginal(v)) for v in range(graph.n_vars))
    assert result.log_z == pytest.approx(value, rel=1e-9, abs=1e-9)


@given(data=st.data(), graph=factor_graphs(scales=(0.5, 1.0)))
@examples(40)
def test_damping_does_not_move_the_fixed_point(data: st.DataObject, graph: bl.FactorGraph) -> None:
    plain = bl.infer(graph, "bp(damping=0.2)", tol=1e-12, max_iters=5000)
    damped = bl.infer(graph, bl.BP(damping=data.draw(st.sampled_from([0.1, 0.5, 0.8]))), tol=1e-12, max_iters=5000)
    if plain.converged and damped.converged:
        np.testing.assert_allclose(damped.mu_var, plain.mu_var, atol=1e-6)


@pytest.mark.parametrize("seed", [88, 149, 195, 202, 204, 383])
def test_a_warm_start_does_not_believe_in_a_zero_that_is_gone(seed: int) -> None:
    """In a loop of hard constraints a zero keeps itself alive: messages once -inf would stay so for ever."""
    rng = np.random.default_rng(seed)
    ring = [((v, (v + 1) % 3), np.where(rng.random((3, 3)) < 0.45, 0, rng.random((3, 3)))) for v in range(3)]
    first = [1.0, 0.0, 1.0] if seed % 2 else [0.0, 1.0, 1.0]
    zero = bl.FactorGraph.from_tables([3] * 3, [*ring, ((0,), first)])
    free = zero.with_theta(np.where(np.arange(30) < 27, zero.theta, 0.0))
    cold, warm = bl.infer(free, "bp"), bl.infer(free, "bp", init=bl.infer(zero, "bp"))
    np.testing.assert_allclose(warm.mu_var, cold.mu_var, atol=1e-6)
    back = bl.infer(zero, "bp", init=warm)
    np.testing.assert_allclose(back.mu_var, bl.infer(zero, "bp").mu_var, atol=1e-6)


def test_the_residual_is_the_largest_change_of_a_variable_marginal() -> None:
    graph = family("grid")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        steps = [bl.infer(graph, "bp", max_iters=k, tol=0.0) for k in range(6)]
    for before, after in pairwise(steps):
        assert after.trace.residual[-1] == np.abs(after.mu_var - before.mu_var).max()
    settled = bl.infer(graph, "bp", tol=1e-3, trace_every=1)
    assert settled.trace.residual[-1] <= 1e-3 and (settled.trace.residual[:-1] > 1e-3).all()


@pytest.mark.parametrize("damping", [-0.1, 1.0, 1.5, math.nan, "half", None])
def test_damping_is_the_share_of_the_old_message(damping: object) -> None:
    with pytest.raises(bl.ModelError, match=r"damping must be in \[0, 1\)"):
        bl.BP(damping=damping)  # type: ignore[arg-type]


def test_a_repeated_pair_of_factors_is_a_loop_and_repeated_unaries_are_not() -> None:
    pair = random_model([2, 2], [(0, 1), (1, 0)], seed=0)
    assert bl.infer(pair, "bp").bound is bl.Bound.ESTIMATE
    assert bl.infer(random_model([2, 2], [(0, 1), (0,), (0,), (1,)], seed=0), "bp").bound is bl.Bound.EXACT


def test_evidence_can_cut_a_loop() -> None:
    ring = random_model([2] * 4, [(0, 1), (1, 2), (2, 3), (3, 0)], seed=1)
    given_ = ring.condition({2: 1})
    assert bl.infer(ring, "bp").bound is bl.Bound.ESTIMATE
    result = bl.infer(given_, "bp")
    assert result.bound is bl.Bound.EXACT
    assert result.log_z == pytest.approx(reference.log_z(reference.joint_table(ring, {2: 1})))


def test_weak_couplings_give_good_estimates() -> None:
    graph = random_model([2] * 12, unary(12) + grid_pairs(3, 4), seed=5, scale=0.3)
    joint = reference.joint_table(graph)
    result = bl.infer(graph, "bp")
    assert result.log_z == pytest.approx(reference.log_z(joint), abs=0.01)
    np.testing.assert_allclose(result.mu_var, reference.mu_var(joint), atol=0.01)
