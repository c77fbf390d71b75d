"""Numbers and shapes at the edge: no underflow, no limit of dimensions, no allocation beyond the budget."""

from __future__ import annotations

import math
import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.inference.search.local_search import LocalSearch
from families import grid_pairs, random_model, unary

TREE_METHODS = [pytest.param(m, id=m) for m in ("elimination", "junction_tree", "bp")]
SCALES = [1e-3, 1e300, 1e-300, 1.0]


def scaled_chain(n: int, scale: float, seed: int = 0) -> tuple[bl.FactorGraph, list[np.ndarray]]:
    tables = list(np.random.default_rng(seed).uniform(0.1, 1.0, (n - 1, 2, 2)))
    return bl.FactorGraph.from_tables(np.full(n, 2), [((v, v + 1), scale * t) for v, t in enumerate(tables)]), tables


def forward_backward(tables: list[np.ndarray], scale: float) -> tuple[float, np.ndarray]:
    """Scaled recursions on a chain: log Z and all variable marginals."""
    n = len(tables) + 1
    forward, backward = np.ones((n, 2)), np.ones((n, 2))
    log_z = (n - 1) * math.log(scale)
    for v in range(1, n):
        forward[v] = forward[v - 1] @ tables[v - 1]
        log_z += math.log(forward[v].sum() if v == n - 1 else forward[v].max())
        forward[v] /= forward[v].max()
    for v in range(n - 2, -1, -1):
        backward[v] = tables[v] @ backward[v + 1]
        backward[v] /= backward[v].max()
    product = forward * backward
    return log_z, product / product.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("method", TREE_METHODS)
def test_a_chain_of_2000_scaled_tables(method: str, scale: float) -> None:
    graph, tables = scaled_chain(2000, scale)
    log_z, marginals = forward_backward(tables, scale)
    result = bl.infer(graph, method)
    assert result.bound is bl.Bound.EXACT and result.n_iters <= 2
    assert result.log_z == pytest.approx(log_z, rel=1e-12)
    np.testing.assert_allclose(result.mu_var.reshape(-1, 2), marginals, atol=1e-10)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("method", ["elimination", "junction_tree"])
def test_the_best_state_of_a_chain_of_2000_scaled_tables(method: str, scale: float) -> None:
    """Viterbi in plain NumPy."""
    graph, tables = scaled_chain(2000, scale)
    best = np.zeros(2)
    for table in tables:
        best = (best[:, None] + np.log(scale * table)).max(axis=0)
    result = bl.maximize(graph, method)
    assert result.log_score == pytest.approx(best.max(), rel=1e-12) and result.gap == 0


def test_samples_of_a_long_chain_are_possible() -> None:
    graph, _ = scaled_chain(2000, 1e-300)
    samples = bl.sample(graph, 20).samples
    assert samples.shape == (20, 2000) and 0.2 < samples.mean() < 0.8


@pytest.mark.parametrize("coupling", [1000.0, -1000.0])
@pytest.mark.parametrize("method", TREE_METHODS)
def test_an_ising_chain_with_couplings_of_1000_nats(method: str, coupling: float) -> None:
    """log Z = log 2 + (n - 1) log(2 cosh J)."""
    n = 60
    table = coupling * np.array([[1.0, -1.0], [-1.0, 1.0]])
    graph = bl.FactorGraph.pairwise(np.zeros((n, 2)), [(v, v + 1) for v in range(n - 1)], table)
    result = bl.infer(graph, method)
    log_z = math.log(2) + (n - 1) * (abs(coupling) + math.log1p(math.exp(-2 * abs(coupling))))
    assert result.log_z == pytest.approx(log_z, rel=1e-14)
    np.testing.assert_allclose(result.mu_var, 0.5, atol=1e-9)


@pytest.mark.parametrize("method", ["enumeration", "elimination", "junction_tree"])
def test_a_frustrated_ring_with_couplings_of_1000_nats(method: str) -> None:
    """One edge must be broken: 2 n states of score (n - 2) J each, up to exp(-2 J)."""
    n, strong = 7, 1000.0
    edges = [(v, (v + 1) % n) for v in range(n)]
    graph = bl.FactorGraph.pairwise(np.zeros((n, 2)), edges, -strong * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    result = bl.infer(graph, method)
    assert result.log_z == pytest.approx(math.log(2 * n) + (n - 2) * strong, rel=1e-14)
    np.testing.assert_allclose(
        result.factor_marginal(n), [[0.5 / n, 0.5 - 0.5 / n], [0.5 - 0.5 / n, 0.5 / n]], atol=1e-9
    )
    assert bl.maximize(graph, method).log_score == pytest.approx((n - 2) * strong)


@pytest.mark.parametrize("scale", [100.0, 1000.0])
@pytest.mark.parametrize("method", ["elimination", "junction_tree"])
def test_random_grids_with_couplings_up_to_1000_nats(method: str, scale: float) -> None:
    for seed in range(5):
        graph = random_model([2] * 9, unary(9) + grid_pairs(3, 3), seed=seed, scale=scale, zeros=0.1)
        joint = reference.joint_table(graph)
        result = bl.infer(graph, method)
        assert result.log_z == pytest.approx(reference.log_z(joint), rel=1e-12)
        np.testing.assert_allclose(result.mu_var, reference.mu_var(joint), atol=1e-9)
        assert bl.maximize(graph, method).log_score == pytest.approx(reference.maximum(joint), rel=1e-12)


@pytest.mark.parametrize("method", ["enumeration", *TREE_METHODS])
def test_a_product_beyond_the_range_of_floats_revived_by_a_hard_zero(method: str) -> None:
    """exp(-2000) is 0 in linear arithmetic, but it is all that is left once the other state is impossible."""
    graph = bl.FactorGraph.from_tables([2], [((0,), [0.0, -2000.0]), ((0,), [-math.inf, 0.0])], log=True)
    result = bl.infer(graph, method)
    assert result.log_z == -2000.0 and result.marginal(0).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("nats", [10.0, 29.0, 35.0, 70.0, 500.0])
@pytest.mark.parametrize("method", ["enumeration", *TREE_METHODS])
def test_small_ratios_that_add_up_and_are_revived_far_away(method: str, nats: float) -> None:
    """Twelve equal variables each prefer state 0 by some nats; the far end forbids it."""
    n = 12
    equal = np.where(np.eye(2, dtype=bool), 0.0, -math.inf)
    tables = [((v,), [0.0, -nats]) for v in range(n)] + [((v, v + 1), equal) for v in range(n - 1)]
    graph = bl.FactorGraph.from_tables([2] * n, [*tables, ((n - 1,), [-math.inf, 0.0])], log=True)
    result = bl.infer(graph, method)
    assert result.log_z == pytest.approx(-nats * n, rel=1e-14)
    assert (result.mu_var[::2] == 0).all() and result.mu_var[1::2] == pytest.approx(np.ones(n), rel=1e-15)
    assert bl.maximize(graph).assignment.tolist() == [1] * n and bl.sample(graph, 3).samples.min() == 1


LINEAR_METHODS = ["bp", "bp(schedule=flooding)", "bp(schedule=color)", "fractional_bp", "trw", "trw(schedule=flooding)"]


@pytest.mark.parametrize("method", LINEAR_METHODS)
def test_contradicting_evidence_at_several_variables_of_a_factor_is_not_impossible(method: str) -> None:
    """The products of what comes in are 1e-133 at each of three variables, and 0 together, in linear arithmetic."""
    sides = [(v, table) for v in range(3) for table in ([0.0, -307.0], [-307.0, 0.0])]
    table = np.random.default_rng(0).normal(size=(2, 2, 2))
    tables: list[Any] = [((0, 1, 2), table), *(((v,), side) for v, side in sides)]
    result = bl.infer(bl.FactorGraph.from_tables([2] * 3, tables, log=True), method)
    assert result.log_z == pytest.approx(-3 * 307.0 + np.log(np.exp(table).sum()), rel=1e-13)
    np.testing.assert_allclose(result.marginal(2), np.exp(table).sum(axis=(0, 1)) / np.exp(table).sum(), atol=1e-9)


@pytest.mark.parametrize("method", LINEAR_METHODS)
def test_a_message_that_is_too_small_for_a_float_is_no_hard_zero(method: str) -> None:
    """Many factors want state 0 of one variable, a hard zero at the next wants state 1, and a cell says how likely."""
    wants = [((0,), [0.0, -2.5])] * 240
    tables: list[Any] = [*wants, ((0, 1), [[0.0, -math.inf], [-math.inf, -165.0]]), ((1,), [-math.inf, 0.0])]
    result = bl.infer(bl.FactorGraph.from_tables([2, 2], tables, log=True), method)
    assert result.log_z == pytest.approx(-2.5 * 240 - 165.0, rel=1e-10)
    assert result.marginal(0).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("span", [590.0, 599.0, 601.0, 700.0, 744.0, 746.0, 1400.0])
def test_both_domains_meet_at_the_limit_of_the_linear_one(span: float) -> None:
    """A triangle whose operands' ranges add up to just below or above what linear arithmetic may hold."""
    rng = np.random.default_rng(int(span))
    tables = [(scope, rng.choice([0.0, -span / 3], (2, 2))) for scope in ((0, 1), (1, 2), (2, 0))]
    graph = bl.FactorGraph.from_tables([2] * 3, tables, log=True)
    for f in range(3):
        theta = graph.theta.copy()
        theta[4 * f : 4 * f + 3] = -math.inf  # only one state of two variables is left
        harder = graph.with_theta(theta)
        joint = reference.joint_table(harder)
        result = bl.infer(harder, "junction_tree")
        assert result.log_z == pytest.approx(reference.log_z(joint), rel=1e-13)
        np.testing.assert_allclose(result.mu_var, reference.mu_var(joint), atol=1e-12)


@pytest.mark.parametrize("coupling", [1.0, 30.0])
@pytest.mark.parametrize("method", TREE_METHODS)
def test_a_star_with_10000_leaves(method: str, coupling: float) -> None:
    n = 10_000
    rng = np.random.default_rng(1)
    tables = coupling * rng.normal(size=(n, 2, 2))
    graph = bl.FactorGraph.from_tables(np.full(n + 1, 2), [((0, v + 1), t) for v, t in enumerate(tables)], log=True)
    to_hub = np.logaddexp(tables[:, :, 0], tables[:, :, 1])
    hub = to_hub.sum(axis=0)
    log_z = float(np.logaddexp(hub[0], hub[1]))
    p_hub = np.exp(hub - log_z)
    leaves = np.einsum("h,vhx->vx", p_hub, np.exp(tables - to_hub[:, :, None]))
    result = bl.infer(graph, method)
    assert result.bound is bl.Bound.EXACT and result.log_z == pytest.approx(log_z, rel=1e-12)
    np.testing.assert_allclose(result.mu_var.reshape(-1, 2), np.vstack([p_hub, leaves]), atol=1e-8)


@pytest.mark.parametrize("width", [33, 65, 100])
@pytest.mark.parametrize("method", ["enumeration", *TREE_METHODS])
def test_clusters_of_more_axes_than_numpy_has(method: str, width: int) -> None:
    """Single-state variables make tables of many axes and few cells."""
    card = np.ones(width, int)
    card[::10] = 2
    rng = np.random.default_rng(width)
    wide = list(range(width))
    size = int(np.prod(card))
    graph = bl.FactorGraph.from_tables(card, [(wide, rng.normal(size=size)), (wide[:20], rng.normal(size=4))], log=True)
    small = bl.FactorGraph.from_tables(
        card[::10], [(range(len(card[::10])), graph.theta[:size]), ((0, 1), graph.theta[size:])], log=True
    )
    joint = reference.joint_table(small)
    result = bl.infer(graph, method, tol=1e-3)
    if result.bound is bl.Bound.EXACT:
        assert result.log_z == pytest.approx(reference.log_z(joint), rel=1e-12)
        assert result.marginal(10) == pytest.approx(reference.marginal(joint, [1]))
    else:
        assert method == "bp"
    np.testing.assert_allclose(result.mu_var[graph.layout.state_ptr[:-1][card == 1]], 1, rtol=1e-14)
    if method != "bp":
        assert bl.maximize(graph, method).log_score == pytest.approx(reference.maximum(joint))
        value = bl.marginal_map(graph, [0, 1], method).log_value
        assert value == pytest.approx(float(reference.query_values(joint, [0]).max()))


def test_what_needs_more_axes_than_numpy_has_is_refused_and_the_rest_answered() -> None:
    card = np.ones(70, int)
    card[[0, 30, 69]] = 2
    graph = bl.FactorGraph.from_tables(card, [(range(70), np.arange(1.0, 9.0))])
    result = bl.infer(graph)
    table = np.arange(1.0, 9.0).reshape(2, 2, 2) / 36
    np.testing.assert_allclose(result.marginal([69, 0]), table.sum(axis=1).T)
    np.testing.assert_allclose(result.marginal([5, 30, 0])[0], table.sum(axis=2).T)
    for refused in (lambda: result.factor_marginal(0), lambda: graph.factors[0], lambda: result.marginal(range(70))):
        with pytest.raises(bl.UnsupportedError, match="at most 64 axes, this one needs 70"):
            refused()


def test_a_pairwise_clique_of_100_variables_of_which_most_have_one_state() -> None:
    card = np.ones(100, int)
    card[[3, 50, 77, 99]] = 3
    graph = random_model(card.tolist(), [(u, v) for u in range(100) for v in range(u)], seed=3, scale=0.1)
    kept = [3, 50, 77, 99]
    log_z = bl.infer(graph, "enumeration").log_z
    for method in ("elimination", "junction_tree"):
        result = bl.infer(graph, method)
        assert result.log_z == pytest.approx(log_z, rel=1e-12)
        assert result.marginal(kept).shape == (3, 3, 3, 3)


COMPLETE_60 = bl.FactorGraph.pairwise(
    np.zeros((60, 2)), [(u, v) for u in range(60) for v in range(u)], 0.01 * np.eye(2)
)


@pytest.mark.parametrize("method", ["elimination", "junction_tree"])
def test_a_complete_graph_of_60_is_refused_before_anything_is_allocated(method: str) -> None:
    tracemalloc.start()
    try:
        for door, args in ((bl.infer, ()), (bl.maximize, ()), (bl.marginal_map, ([3, 4],))):
            with pytest.raises(
                bl.BudgetError,
                match=rf"{method} would take more than a day: .*width 59 .*largest table \d.* PB\. Observe",
            ):
                door(COMPLETE_60, *args, method=method)  # type: ignore[call-overload, operator]
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_enumeration_of_60_variables_is_refused() -> None:
    with pytest.raises(bl.BudgetError, match=r"2\^60.0 joint states of 64 bytes.*try junction_tree"):
        bl.infer(COMPLETE_60, "enumeration")


def test_auto_turns_to_an_estimate_where_exact_inference_does_not_fit() -> None:
    result = bl.infer(COMPLETE_60)
    assert isinstance(result.method, bl.IJGP) and result.bound is bl.Bound.ESTIMATE
    assert "over the time budget" in result.reason and "width 59" in result.reason
    for door, args, method in (
        (bl.maximize, (), bl.TRW()),
        (bl.marginal_map, ([1],), LocalSearch()),
        (bl.sample, (2,), bl.Gibbs()),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.ConvergenceWarning)
            other = door(COMPLETE_60, *args, max_iters=3)  # type: ignore[operator]
        assert other.method == method and "over the time budget of 600 s" in other.reason
        assert "width 59" in other.reason
        if door is bl.maximize:  # all alike attract each other: the bound is tight, and the search finds the state
            assert isinstance(other, bl.MapResult) and other.gap == 0
            assert other.assignment.tolist() == [other.assignment[0]] * 60


@pytest.mark.parametrize("max_bytes", [0, 100, 1000, 2000, 4000, 8000, 10**6])
def test_auto_never_runs_into_the_budget_where_an_estimate_will_do(max_bytes: int) -> None:
    graph = random_model([2] * 12, unary(12) + grid_pairs(3, 4), seed=0)
    result = bl.infer(graph, max_bytes=max_bytes)
    truth = reference.log_z(reference.joint_table(graph))
    if result.bound is bl.Bound.EXACT:
        assert result.log_z == pytest.approx(truth) and "exact inference fits" in result.reason
    else:
        assert result.log_z == pytest.approx(truth, rel=0.1) and "over the budget" in result.reason


def test_a_table_too_large_to_address_is_refused() -> None:
    with pytest.raises(bl.BudgetError, match=r"factor 0 over 70 variables needs a table of 2\^70 cells"):
        bl.Layout.build([2] * 70, [0, 70], range(70))


def test_numbers_at_the_ends_of_the_float_range() -> None:
    tiny, huge = 5e-324, 1.7e308
    graph = bl.FactorGraph.from_tables([2, 2], [((0,), [tiny, huge]), ((0, 1), [[huge, tiny], [tiny, 1.0]])])
    joint = reference.joint_table(graph)
    for method in (cls for cls in bl.methods(task="infer") if cls.general):
        result = bl.infer(graph, method())
        assert result.log_z == pytest.approx(reference.log_z(joint), rel=1e-13)
        np.testing.assert_allclose(result.mu_var, reference.mu_var(joint), atol=1e-12)
