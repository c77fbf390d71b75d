"""Tree-reweighted message passing: bounds at every iterate, one optimum, exact on trees, and real decodings."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beliefs as bl
import reference
from beliefs.inference.base import Problem
from families import FAMILIES, TREE_PAIRS, family, grid_pairs, random_model, unary
from strategies import examples, factor_graphs, possible_evidence, subsets

FORESTS = [name for name in FAMILIES if reference.is_forest(FAMILIES[name]())]


def quietly(door: Any, *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        return door(*args, **options)


# -- the sandwich ----------------------------------------------------------------------------------------------------
@given(data=st.data(), graph=factor_graphs(scales=(0.5, 1.0, 3.0)))
@examples(1000)
def test_mean_field_exact_and_trw_are_in_order(data: st.DataObject, graph: bl.FactorGraph) -> None:
    part = graph.condition(data.draw(possible_evidence(graph)))
    truth = bl.infer(part, "enumeration").log_z
    upper = quietly(bl.infer, part, data.draw(st.sampled_from(TRW_WAYS)), max_iters=data.draw(st.integers(0, 12)))
    lower = bl.infer(part, "mean_field", max_iters=data.draw(st.integers(0, 12)))
    room = 1e-9 * max(1.0, abs(truth))
    assert lower.log_lower - room <= truth <= upper.log_upper + room
    assert lower.bound in (bl.Bound.LOWER, bl.Bound.EXACT) and upper.bound in (bl.Bound.UPPER, bl.Bound.EXACT)


TRW_WAYS = [
    bl.TRW(),
    bl.TRW(rho="sampled"),
    bl.TRW(schedule="flooding", damping=0.3),
    bl.TRW(schedule="residual"),
    bl.TRW(schedule="chains"),
    bl.TRW(rho="optimized", rho_steps=4),
]


@pytest.mark.parametrize("seed", range(40))
def test_the_sandwich_on_grids_of_every_strength(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scale = float(rng.choice([0.2, 1.0, 3.0, 10.0]))
    graph = random_model([int(rng.integers(2, 4))] * 12, unary(12) + grid_pairs(3, 4), seed=seed, scale=scale)
    truth = bl.infer(graph, "junction_tree").log_z
    upper, lower = quietly(bl.infer, graph, "trw", trace_every=1), bl.infer(graph, "mean_field", trace_every=1)
    room = 1e-9 * max(1.0, abs(truth))
    assert (upper.trace.upper >= truth - room).all() and (lower.trace.lower <= truth + room).all()
    assert (np.diff(upper.trace.upper) <= 0).all(), "the best bound so far"


# -- the optimum -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", FORESTS)
def test_a_tree_is_exact(name: str) -> None:
    result = bl.infer(family(name), "trw")
    assert result.bound is bl.Bound.EXACT
    assert result.log_z == pytest.approx(reference.log_z(reference.joint_table(family(name))), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("rho", [None, "uniform", "sampled"])
@pytest.mark.parametrize("name", ["grid", "complete", "higher_order", "repeated_scopes"])
def test_twenty_random_starts_have_one_value(name: str, rho: str | None) -> None:
    if rho == "uniform" and name == "higher_order":
        pytest.skip("effective resistances are for pairwise models")
    rule, graph, found = bl.TRW(rho=rho, damping=0.2), family(name), []
    for seed in range(20):
        state = rule.init(Problem(graph))
        start = state.logs.messages
        state.select_tier(rule.tiers, state.spec, start + 2.0 * np.random.default_rng(seed).normal(size=start.size))
        for _ in range(300):
            if rule.step(state) < 1e-13:
                break
        found.append((state.assessment.energy, state.assessment.upper))
    energies, bounds = np.array(found).T
    np.testing.assert_allclose(energies, energies[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(bounds, energies[0], rtol=0, atol=1e-8)  # at the maximum the two forms agree


def test_the_value_falls_along_the_gradient_of_rho() -> None:
    """d value / d rho_c = -I(mu_c), by central differences inside the forest polytope."""
    graph = random_model([2] * 4, unary(4) + [(u, v) for u in range(4) for v in range(u)], seed=3)
    rho = np.where(np.diff(graph.layout.scope_ptr) == 2, 0.45, 1.0)
    here = bl.infer(graph, bl.TRW(rho=rho), tol=1e-13)
    for f in range(4, graph.n_factors):
        values = []
        for sign in (-1, 1):
            moved = rho.copy()
            moved[f] += sign * 1e-4
            values.append(bl.infer(graph, bl.TRW(rho=moved), tol=1e-13).log_z)
        u, v = (int(x) for x in graph.layout.scope(f))
        assert (values[1] - values[0]) / 2e-4 == pytest.approx(-here.mutual_information(u, v), abs=1e-5)


@pytest.mark.parametrize("name", ["grid", "complete", "higher_order", "tied_tables"])
def test_optimized_counting_numbers_are_tighter_whatever_the_tolerance(name: str) -> None:
    plain = bl.infer(family(name), "trw")
    for tol in (1e-8, 1e-2):
        moved = quietly(bl.infer, family(name), "trw(rho=optimized)", tol=tol)
        assert moved.log_z < plain.log_z - 1e-3 and moved.bound is bl.Bound.UPPER


def test_a_warm_start_takes_the_counting_numbers_of_its_own_options() -> None:
    graph = family("grid")
    first = bl.infer(graph, "fractional_bp(rho=0.5)")
    again = bl.infer(graph, "fractional_bp(rho=0.9)", init=first)
    assert again.log_z == pytest.approx(bl.infer(graph, "fractional_bp(rho=0.9)").log_z, abs=1e-6)
    grid = bl.infer(graph, "trw(rho=grid)")
    uniform = bl.infer(graph, "trw(rho=uniform)", init=grid)
    assert uniform.log_z == pytest.approx(bl.infer(graph, "trw(rho=uniform)").log_z, abs=1e-6)


def test_counting_numbers_without_a_certificate_are_estimates() -> None:
    scopes: list[tuple[int, ...]] = [(0, 1, 2), (1, 2, 3), (2, 3, 0), (3, 0, 1)]
    graph = random_model([2] * 4, unary(4) + scopes, seed=1)
    rho = np.array([1.0] * 4 + [0.37] * 4)  # within the necessary conditions, but no certificate is found
    result = bl.infer(graph, bl.TRW(rho=rho))
    assert result.bound is bl.Bound.ESTIMATE and result.log_upper == math.inf


@pytest.mark.parametrize("rho", ["tree", -0.5, 0.0, 1.5, math.nan, np.ones(3), "optimised", [], {}])
def test_counting_numbers_that_make_no_sense_are_refused(rho: Any) -> None:
    with pytest.raises(bl.ModelError, match="rho"):
        bl.infer(family("complete"), bl.TRW(rho=rho))


def test_belief_propagation_on_a_cycle_is_no_mixture_of_trees() -> None:
    with pytest.raises(bl.ModelError, match="rho is not a mixture of forests"):
        bl.infer(family("grid"), bl.TRW(rho=1.0))


# -- maxima and both -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["bp", "trw"])
@given(data=st.data())
@examples(100)
def test_max_product_on_trees_is_map_ties_and_zeros_included(method: str, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    card = rng.integers(1, 4, size=8)
    tables = []
    for scope in [*unary(8), *TREE_PAIRS]:
        table = rng.integers(-2, 3, size=[card[v] for v in scope]).astype(float)
        hard = rng.random(table.shape) < 0.2
        hard.flat[0] = False
        tables.append((scope, np.where(hard, -np.inf, table)))
    graph = bl.FactorGraph.from_tables(card, tables, log=True)
    result = bl.maximize(graph, method)
    assert result.gap == 0.0 and result.log_score == pytest.approx(reference.maximum(reference.joint_table(graph)))


@given(data=st.data(), graph=factor_graphs(scales=(1.0, 3.0)))
@examples(150)
def test_decodings_are_real_and_their_bounds_true(data: st.DataObject, graph: bl.FactorGraph) -> None:
    joint = reference.joint_table(graph)
    best = quietly(bl.maximize, graph, data.draw(st.sampled_from(["trw", "bp", "fractional_bp"])), max_iters=20)
    room = 1e-9 * max(1.0, abs(reference.maximum(joint)))
    assert best.log_score == pytest.approx(float(joint[tuple(best.assignment)]))
    assert best.log_score - room <= reference.maximum(joint) <= best.log_upper + room
    query = data.draw(subsets(graph.n_vars))
    values = reference.query_values(joint, query)
    found = quietly(bl.marginal_map, graph, query, "trw", max_iters=20)
    assert found.log_value == pytest.approx(float(values[tuple(found.assignment)]))
    assert values.max() <= found.log_upper + room
    of_sums = quietly(bl.infer, graph, "trw", max_iters=100, tol=1e-5).log_upper
    assert found.log_upper <= of_sums + 1e-5 * max(1.0, abs(of_sums))  # both have settled to that, at other iterates


@pytest.mark.parametrize("name", ["grid", "higher_order", "complete"])
def test_mixed_product_reduces_to_max_and_to_sum_product(name: str) -> None:
    graph = family(name)
    for method in (bl.BP(damping=0.3), bl.TRW(damping=0.3)):
        everything = quietly(bl.marginal_map, graph, range(graph.n_vars), method)
        whole = quietly(bl.maximize, graph, method)
        assert everything.log_value == pytest.approx(whole.log_score)
        nothing = quietly(bl.marginal_map, graph, [], method)
        assert nothing.assignment.size == 0
        assert nothing.log_value == pytest.approx(bl.infer(graph, "junction_tree").log_z)


def test_mixed_product_is_exact_on_a_max_tree_with_sum_leaves() -> None:
    """An order that sums first has width 1 here, so the fixed point is the truth."""
    hits = 0
    for seed in range(20):
        graph = random_model([3] * 8, unary(8) + [(0, 1), (1, 2), (0, 3), (0, 4), (1, 5), (2, 6), (2, 7)], seed=seed)
        values = reference.query_values(reference.joint_table(graph), [0, 1, 2])
        found = quietly(bl.marginal_map, graph, [0, 1, 2], "bp")
        hits += found.log_value == pytest.approx(float(values.max()))
    assert hits == 20


def test_local_search_makes_decodings_of_a_frustrated_grid_good() -> None:
    gaps = []
    for seed in range(6):
        graph = bl.datasets.make_ising_grid(8, coupling=2.0, seed=seed)
        best = bl.maximize(graph, "junction_tree").log_score
        gaps.append((best - quietly(bl.maximize, graph, "trw", max_iters=100).log_score) / abs(best))
    assert max(gaps) < 0.05 and np.median(gaps) < 0.01
