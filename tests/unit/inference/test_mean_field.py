"""Mean field: a lower bound that never falls, the same whichever way it is computed, and trees that stay exact."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import beliefs as bl
import reference
from beliefs.inference.base import Problem
from beliefs.inference.search.feasible import hard_factors
from beliefs.inference.variational import mean_field as module
from beliefs.inference.variational.field import Field, Run
from beliefs.inference.variational.mean_field import MeanField, MeanFieldState
from beliefs.inference.variational.naive import NaiveField
from beliefs.inference.variational.structured import ForestField
from beliefs.model.layout import read_only
from families import FAMILIES, family, grid_pairs, random_model, unary
from strategies import examples, factor_graphs, possible_evidence, tied_graphs

METHODS = [
    MeanField(),
    MeanField(schedule="color"),
    MeanField(restarts=2),
    MeanField(structure="tree"),
    MeanField(structure="tree", schedule="color", restarts=1),
]
each_method = pytest.mark.parametrize("method", METHODS, ids=repr)
graphs = st.one_of(factor_graphs(), tied_graphs())


def started(graph: bl.FactorGraph, method: MeanField, **options: int) -> MeanFieldState:
    return method.init(Problem(graph, **options))  # type: ignore[arg-type]


def product(graph: bl.FactorGraph, mu: np.ndarray) -> np.ndarray:
    """The joint distribution of independent variables."""
    joint = np.ones(())
    for v in range(graph.n_vars):
        joint = np.multiply.outer(joint, mu[graph.layout.state_ptr[v] : graph.layout.state_ptr[v + 1]])
    return joint


def free_energy(q: np.ndarray, joint: np.ndarray) -> float:
    """E_q of the log score plus the entropy of q, by its definition."""
    held = q > 0
    return float((q[held] * (joint[held] - np.log(q[held]))).sum())


def plain_updates(graph: bl.FactorGraph, mu: np.ndarray, order: Iterator[int]) -> np.ndarray:
    """Coordinate ascent written with einsum; no hard zeros."""
    lay = graph.layout
    mu = mu.copy()
    runs = [slice(int(a), int(b)) for a, b in itertools.pairwise(lay.state_ptr)]
    for v in order:
        a = np.zeros(int(lay.card[v]))
        for f in range(lay.n_factors):
            scope = [int(u) for u in lay.scope(f)]
            if v in scope:
                operands: list[Any] = [graph.theta[lay.cells(f)].reshape(lay.shape(f)), scope]
                for u in scope:
                    operands += [mu[runs[u]], [u]] if u != v else []
                a += np.einsum(*operands, [v])
        p = np.exp(a - a.max())
        mu[runs[v]] = p / p.sum()
    return mu


# -- the update -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [n for n in FAMILIES if "zeros" not in n and n not in ("parity", "bayesian_network")])
def test_sweeps_are_those_of_the_formula_forward_and_backward(name: str) -> None:
    graph = family(name)
    moving = np.flatnonzero(np.diff(graph.layout.var_ptr) > 0).tolist()
    state, method = started(graph, MeanField()), MeanField()
    mu = state.runs[0].mu.copy()
    for sweep in range(4):
        before = mu
        mu = plain_updates(graph, mu, iter(moving[::-1] if sweep % 2 else moving))
        residual = method.step(state)
        np.testing.assert_allclose(state.runs[0].mu, mu, rtol=0, atol=1e-10)
        assert residual >= np.abs(mu - before).max(initial=0.0) - 1e-10


@given(graph=factor_graphs(zeros=False, scales=(1.0, 5.0)))
@examples(80)
def test_a_converged_answer_satisfies_the_fixed_point_equations(graph: bl.FactorGraph) -> None:
    result = bl.infer(graph, "mean_field", tol=1e-12, max_iters=20000)
    if result.converged:
        for v in range(graph.n_vars):
            after = plain_updates(graph, np.array(result.mu_var), iter([v]))
            np.testing.assert_allclose(after, result.mu_var, rtol=0, atol=1e-10)


@pytest.mark.parametrize("arity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("large", [False, True])
def test_expectations_of_tables_of_any_arity_towards_any_variable(arity: int, large: bool) -> None:
    """Small tables go cell by cell, large ones row by row; a card of one in the middle."""
    card = [9, 10, 1, 11, 3][:arity] if large else [2, 3, 1, 2, 2][:arity]
    graph = random_model(card, [tuple(range(arity))[::-1], *unary(arity)], seed=arity)
    field = NaiveField(graph, hard_factors(graph), "sequential")
    mu = started(graph, MeanField(restarts=1)).runs[1].mu
    for v in range(arity):
        run = field.begin(mu)
        field.update(read_only(np.array([v])), run)
        np.testing.assert_allclose(run.mu, plain_updates(graph, mu, iter([v])), rtol=0, atol=1e-12)


@each_method
@pytest.mark.parametrize("n_states", [2, 3])
def test_models_of_pairs_alone_and_of_single_variables_alone(method: MeanField, n_states: int) -> None:
    for scopes in ([(0, 1), (1, 2), (0, 2)], unary(3), [(0, 1), (2,)], [(0, 1)]):
        graph = random_model([n_states] * 3, scopes, seed=3)
        state = started(graph, method)
        for _ in range(3):
            method.step(state)
        general = NaiveField(graph, hard_factors(graph), "sequential")
        assert method.value(state).log_z <= reference.log_z(reference.joint_table(graph)) + 1e-9
        if method == MeanField():
            run = general.begin(started(graph, method).runs[0].mu)
            for sweep in range(3):
                general.sweep(run, forward=sweep % 2 == 0, threads=1)
            np.testing.assert_allclose(state.runs[0].mu, run.mu, rtol=0, atol=1e-12)


# -- the bound --------------------------------------------------------------------------------------------------------
@each_method
@given(data=st.data(), graph=graphs)
@examples(120)
def test_the_value_is_the_free_energy_of_a_distribution_and_never_falls(
    method: MeanField, data: st.DataObject, graph: bl.FactorGraph
) -> None:
    """At the start and after every update of one variable or tree, whatever the order; and below log Z."""
    given_ = graph.condition(data.draw(possible_evidence(graph)))
    joint = reference.joint_table(given_)
    log_z = reference.log_z(joint)
    room = 1e-9 * max(1.0, abs(log_z))
    state = started(given_, method)
    field, run = state.field, state.runs[-1]
    value = field.value(run)
    assert -np.inf < value <= log_z + room
    items = np.concatenate([*field.orders.forward, np.zeros(0, np.int64)]).astype(np.int64)
    for item in data.draw(st.permutations(items.tolist() * 2)):
        field.update(read_only(np.array([item])), run)
        q = distribution(given_, field, run)
        assert q.sum() == pytest.approx(1.0) and (q[joint == -np.inf] <= 1e-300).all()
        after = field.value(run)
        assert after == pytest.approx(free_energy(np.where(joint > -np.inf, q, 0.0), joint), rel=1e-8, abs=1e-8)
        assert value - room <= after <= log_z + room
        value = after


def distribution(graph: bl.FactorGraph, field: Field, run: Run) -> np.ndarray:
    """The joint distribution that a run stands for, from its tables and marginals."""
    if not isinstance(field, ForestField):
        return product(graph, run.mu)
    lay, forest = graph.layout, field.forest
    log_q = np.log(np.maximum(product(graph, run.mu), 1e-320))
    for i in range(forest.table_ptr.size - 1):
        scope = forest.branches.scope_vars[forest.branches.scope_ptr[i] : forest.branches.scope_ptr[i + 1]].tolist()
        table = run.tree[forest.table_ptr[i] : forest.table_ptr[i + 1]].reshape([int(lay.card[v]) for v in scope])
        alone = np.ones(())
        for v in scope:
            alone = np.multiply.outer(alone, run.mu[lay.state_ptr[v] : lay.state_ptr[v + 1]])
        with np.errstate(divide="ignore"):
            ratio = np.log(table) - np.log(np.maximum(alone, 1e-320))
        log_q = log_q + reference._spread(ratio, scope, lay.n_vars)
    return np.exp(log_q)


@each_method
@given(data=st.data(), graph=graphs)
@examples(100)
def test_every_recorded_bound_is_below_log_z_and_above_the_one_before(
    method: MeanField, data: st.DataObject, graph: bl.FactorGraph
) -> None:
    given_ = graph.condition(data.draw(possible_evidence(graph)))
    log_z = reference.log_z(reference.joint_table(given_))
    room = 1e-9 * max(1.0, abs(log_z))
    result = bl.infer(given_, method, trace_every=1)
    assert (result.trace.lower <= log_z + room).all() and (result.trace.log_z == result.trace.lower).all()
    assert (np.diff(result.trace.log_z) >= -room).all()
    assert result.log_z == result.log_lower and result.bound in (bl.Bound.LOWER, bl.Bound.EXACT)


def test_no_step_gives_the_bound_of_the_uniform_start() -> None:
    graph = family("higher_order")
    means = [graph.theta[graph.layout.cells(f)].mean() for f in range(graph.n_factors)]
    result = bl.infer(graph, "mean_field", max_iters=0)
    assert result.log_z == pytest.approx(sum(means) + np.log(graph.layout.card).sum())
    assert result.bound is bl.Bound.LOWER and result.n_iters == 0
    for v, k in enumerate(graph.layout.card):
        assert result.marginal(v) == pytest.approx(1 / k)
    tree = bl.infer(graph, MeanField(structure="tree"), max_iters=0)
    assert tree.log_z == pytest.approx(result.log_z) and tree.mu == pytest.approx(result.mu)


def test_an_ising_pair_by_hand() -> None:
    """Coupling J, no field: below J = 1 uniform marginals are best, with bound 2 log 2; above, m = tanh(J m)."""
    for strength in (0.5, 2.0):
        table = strength * np.array([[1.0, -1.0], [-1.0, 1.0]])
        graph = bl.FactorGraph.pairwise(np.zeros((2, 2)), [(0, 1)], table)
        m = 0.5 if strength > 1 else 0.0
        for _ in range(500):
            m = math.tanh(strength * m)
        p = np.array([1 + m, 1 - m]) / 2
        best = strength * m * m - 2 * float((p * np.log(p)).sum())
        result = bl.infer(graph, MeanField(restarts=3), tol=1e-13, max_iters=5000)
        assert result.log_z == pytest.approx(best, abs=1e-9)
        assert abs(result.marginal(0)[0] - 0.5) == pytest.approx(m / 2, abs=1e-6)


def test_factors_that_join_nothing_are_exact_after_one_sweep() -> None:
    tables: list[Any] = [
        ((0,), [1.0, 2.0]),
        ((0,), [3.0, 1.0]),
        ((1,), [1.0, 0.0, 2.0]),
        ((1, 2), [[1.0], [2.0], [0.0]]),
        ((), 5.0),
    ]
    graph = bl.FactorGraph.from_tables([2, 3, 1, 4], tables)
    joint = reference.joint_table(graph)
    for method in METHODS:
        result = bl.infer(graph, method, max_iters=1)
        assert result.bound is bl.Bound.EXACT and result.log_z == pytest.approx(reference.log_z(joint))
        np.testing.assert_allclose(result.mu_var, reference.mu_var(joint), atol=1e-14)
        assert bl.infer(graph, method, max_iters=0).bound is bl.Bound.LOWER


@each_method
@given(data=st.data(), graph=factor_graphs(zeros=False, scales=(1.0,)))
@examples(40)
def test_where_terms_of_single_variables_and_constants_stand_does_not_matter(
    method: MeanField, data: st.DataObject, graph: bl.FactorGraph
) -> None:
    """Adding a constant shifts the bound by it; moving a function of one variable to another factor changes nothing."""
    lay = graph.layout
    assume(lay.n_edges)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    theta, constant = np.array(graph.theta), 3.7
    theta[lay.cells(0)] += constant
    for v in range(lay.n_vars):
        edges = lay.var_edges[lay.var_ptr[v] : lay.var_ptr[v + 1]]
        if edges.size > 1:
            g = rng.normal(size=int(lay.card[v]))
            for sign, e in ((1, edges[0]), (-1, edges[-1])):
                f = int(lay.edge_factor[e])
                shape = [1] * len(lay.shape(f))
                shape[int(e - lay.scope_ptr[f])] = -1
                theta[lay.cells(f)] += (sign * g.reshape(shape) * np.ones(lay.shape(f))).ravel()
    results = [bl.infer(m, method, max_iters=30) for m in (graph, graph.with_theta(theta))]
    assert results[1].log_z == pytest.approx(results[0].log_z + constant, rel=1e-9, abs=1e-9)
    if not method.restarts:  # of two runs with the same bound, rounding chooses
        np.testing.assert_allclose(results[1].mu_var, results[0].mu_var, atol=1e-7)


# -- restarts and warm starts -----------------------------------------------------------------------------------------
def test_restarts_are_never_worse_and_leave_a_saddle() -> None:
    gain = []
    for seed in range(10):
        graph = random_model([3] * 9, unary(9) + grid_pairs(3, 3), seed=seed, scale=2.0)
        alone, several = bl.infer(graph, MeanField()), bl.infer(graph, MeanField(restarts=5))
        gain.append(several.log_z - alone.log_z)
    assert min(gain) >= -1e-7 and max(gain) > 1e-3
    table = 2.0 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    magnet = bl.FactorGraph.pairwise(np.zeros((16, 2)), grid_pairs(4, 4), table)
    stuck, free = bl.infer(magnet, MeanField()), bl.infer(magnet, MeanField(restarts=2))
    assert stuck.log_z == pytest.approx(16 * math.log(2)) and free.log_z > stuck.log_z + 30


def test_the_seed_decides_the_restarts() -> None:
    graph = family("complete")
    starts = [started(graph, MeanField(restarts=2), seed=s) for s in (1, 1, 2)]
    assert starts[0].runs[2].mu.tobytes() == starts[1].runs[2].mu.tobytes() != starts[2].runs[2].mu.tobytes()
    assert starts[0].runs[0].mu.tobytes() == starts[2].runs[0].mu.tobytes()


@each_method
def test_a_warm_start_goes_on_and_survives_new_zeros(method: MeanField) -> None:
    graph = family("grid")
    half = bl.infer(graph, method, max_iters=3)
    whole = bl.infer(graph, method, init=half)
    assert whole.log_z >= half.log_z - 1e-12
    theta = np.array(graph.theta)
    theta[graph.layout.cell_ptr[-1]] = theta[graph.layout.cell_ptr[0] + 1] = -np.inf
    harder = graph.with_theta(theta)
    log_z = reference.log_z(reference.joint_table(harder))
    cases: list[dict[str, Any]] = [{}, {"max_iters": 0}]
    for options in cases:
        result = bl.infer(harder, method, init=whole, **options)
        assert -np.inf < result.log_z <= log_z + 1e-9
    back = bl.infer(graph, method, init=bl.infer(harder, method))
    assert back.log_z == pytest.approx(whole.log_z, abs=0.5) and (back.mu_var > 0).all()


def test_a_warm_start_serves_other_options_of_the_method() -> None:
    graph = family("grid")
    first = bl.infer(graph, MeanField())
    for method in METHODS:
        assert bl.infer(graph, method, init=first).log_z >= first.log_z - 1e-9


# -- hard zeros -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("structure", ["none", "tree"])
def test_a_parity_check_spreads_nothing_and_equality_is_kept_by_a_tree(structure: str) -> None:
    equal = np.eye(2)
    graph = bl.FactorGraph.from_tables([2] * 3, [((0, 1), equal), ((1, 2), equal), ((0,), [0.2, 0.8])])
    result = bl.infer(graph, f"mean_field(structure={structure})")
    if structure == "tree":
        assert result.bound is bl.Bound.EXACT and result.log_z == pytest.approx(0.0, abs=1e-12)
        assert result.marginal(2) == pytest.approx([0.2, 0.8])
    else:
        assert result.log_z == pytest.approx(math.log(0.8)) and result.mu_var.tolist() == [0, 1] * 3


def test_states_that_only_underflow_forbid_nothing() -> None:
    """Two variables 2000 nats in favour of state 0 each, which must not both be in state 1."""
    graph = bl.FactorGraph.from_tables(
        [2, 2], [((0,), [0, -2000.0]), ((1,), [0, -2000.0]), ((0, 1), [[0.0, 0.0], [0.0, -np.inf]])], log=True
    )
    result = bl.infer(graph, "mean_field")
    assert -1e-10 <= result.log_z <= 0.0 and result.mu_var.tolist() == [1, 0, 1, 0]


@each_method
def test_a_state_that_is_not_found_is_a_bound_of_minus_infinity(
    method: MeanField, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "feasible_state", lambda graph, seed=0, effort=0: None)
    graph = family("hard_zeros")
    result = bl.infer(graph, method, trace_every=1)
    assert result.log_z == result.log_lower == -np.inf and result.log_upper == np.inf
    assert result.bound is bl.Bound.LOWER and result.mu_var == pytest.approx(1 / 3)
    for f in range(graph.n_factors):
        assert result.factor_marginal(f).sum() == pytest.approx(1)
    assert not np.isnan(result.trace.residual).any()


@pytest.mark.parametrize("name", ["water", "pigs", "insurance", "hailfinder", "link", "munin1", "diabetes"])
@pytest.mark.parametrize("structure", ["none", "tree"])
def test_networks_with_deterministic_tables_and_evidence(name: str, structure: str) -> None:
    try:
        network = bl.datasets.load_bn(name)
    except (bl.BeliefsError, FileNotFoundError):
        pytest.skip("this network does not come with the package")
    row = np.asarray(network.sample(1, seed=2))[0]
    for every in (len(row), 9):
        given_ = network.condition({v: int(row[v]) for v in range(1, len(row), every)})
        result = bl.infer(given_, f"mean_field(structure={structure})", max_iters=30, trace_every=1)
        assert (np.diff(result.trace.log_z) >= -1e-9 * abs(result.log_z)).all()
        assert -np.inf < result.trace.log_z[0] and not np.isnan(result.mu).any()
        score = np.multiply(result.mu, given_.theta, out=np.zeros_like(result.mu), where=result.mu > 0).sum()
        assert score > -np.inf
        if name in ("water", "pigs", "insurance", "hailfinder"):
            assert result.log_z <= bl.infer(given_, "junction_tree").log_z


# -- extremes, budget, options ----------------------------------------------------------------------------------------
@each_method
def test_a_star_with_10000_leaves_and_couplings_of_1000_nats(method: MeanField) -> None:
    n = 10_000
    rng = np.random.default_rng(1)
    edges = [(0, v) for v in range(1, n)]
    graph = bl.FactorGraph.pairwise(rng.normal(size=(n, 2)), edges, 1000.0 * rng.normal(size=(n - 1, 2, 2)))
    result, exact = bl.infer(graph, method), bl.infer(graph, "junction_tree")
    assert np.isfinite(result.mu).all() and result.log_z <= exact.log_z * (1 + 1e-12)
    assert result.log_z == pytest.approx(exact.log_z, rel=1e-3)


def test_200_states_and_single_states() -> None:
    graph = random_model([200, 1, 200, 2], [(0, 1, 2), (2, 3), (0,), (1, 3)], seed=1)
    joint = reference.joint_table(graph)
    for method in METHODS:
        result = bl.infer(graph, method)
        assert result.log_z <= reference.log_z(joint) + 1e-9 and result.marginal(1).tolist() == [1.0]


@pytest.mark.parametrize("structure", ["none", "tree"])
def test_cost_grows_with_the_cells(structure: str) -> None:
    """A sweep of a factor of 2^16 cells touches each cell a few times, not once a variable and state."""
    graph = random_model([2] * 16, [tuple(range(16))], seed=1)
    result = bl.infer(graph, f"mean_field(structure={structure})", max_iters=3)
    assert result.log_z <= reference.log_z(reference.joint_table(graph)) + 1e-9


@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("n_states", [2, 3])
def test_memory_used_is_within_the_prediction_and_the_budget_is_kept(method: MeanField, n_states: int) -> None:
    rng = np.random.default_rng(0)
    edges = grid_pairs(60, 60)
    graph = bl.FactorGraph.pairwise(
        rng.normal(size=(3600, n_states)), edges, rng.normal(size=(len(edges), n_states, n_states))
    )
    bl.infer(graph, method, max_iters=1)
    fresh = bl.FactorGraph.build(bl.Layout.build(*_arrays(graph.layout)), graph.theta)
    tracemalloc.start()
    state = method.init(Problem(fresh))
    method.step(state)
    method.finish(state)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    predicted = type(state.field).n_bytes(fresh.layout, hard_factors(fresh), method.restarts + 1)
    shared = 8 * (4 * fresh.layout.n_edges + 3 * fresh.layout.n_factors)  # what the layout itself keeps, made on demand
    assert used <= predicted + shared and predicted < 4 * used
    with pytest.raises(
        bl.BudgetError, match=r"mean_field.* needs .* MB for marginals and tables; the limit is 999 B\."
    ):
        bl.infer(graph, method, max_bytes=999)


def _arrays(layout: bl.Layout) -> tuple[np.ndarray, ...]:
    return layout.card, layout.scope_ptr, layout.scope_vars


@pytest.mark.parametrize(
    "text, message",
    [
        ("mean_field(structure=forest)", "structure must be none or tree, found 'forest'"),
        ("mean_field(restarts=-1)", "restarts must be an integer of at least 0, found -1"),
        ("mean_field(restarts=1.5)", "restarts must be an integer of at least 0, found 1.5"),
        ("mean_field(schedule=random)", "schedule must be sequential or color, found 'random'"),
    ],
)
def test_options_out_of_range(text: str, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        bl.infer(family("chain"), text)


def test_text_form() -> None:
    assert repr(MeanField()) == "mean_field"
    assert repr(MeanField(structure="tree", restarts=3)) == "mean_field(structure=tree, restarts=3)"
    assert bl.infer(family("chain"), "mean_field(schedule=color)").method == MeanField(schedule="color")
