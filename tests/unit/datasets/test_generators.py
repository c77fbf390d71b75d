"""Generators: shapes, laws, determinism and what they refuse."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from beliefs import datasets as ds
from beliefs.errors import ModelError
from beliefs.model import FactorGraph

SEEDED: dict[str, Callable[..., FactorGraph]] = {
    "chain": ds.make_chain,
    "star": ds.make_star,
    "tree": ds.make_tree,
    "grid": ds.make_grid,
    "ising": ds.make_ising_grid,
    "potts": ds.make_potts_grid,
    "grid8": lambda **kw: ds.make_grid(5, 4, neighbours=8, diagonal=0.2, **kw),
    "long range": lambda **kw: ds.make_grid(5, extra_edges=7, **kw),
    "complete": ds.make_complete,
    "delaunay": ds.make_delaunay,
    "k-tree": ds.make_k_tree,
    "partial k-tree": ds.make_partial_k_tree,
    "factors": ds.make_random_factor_graph,
    "ladder": ds.make_ladder,
    "hidden chain": ds.make_hidden_chain,
    "hidden grid": ds.make_hidden_grid,
    "rbm": ds.make_rbm,
}


def unary(graph: FactorGraph) -> np.ndarray:
    """The unary tables of a pairwise model, (n, K)."""
    k = int(graph.layout.card[0])
    return graph.theta[: graph.n_vars * k].reshape(-1, k)


def tables(graph: FactorGraph) -> np.ndarray:
    """The edge tables of a pairwise model that ties none, (m, K, K)."""
    k = int(graph.layout.card[0])
    return graph.theta[graph.n_vars * k :].reshape(-1, k, k)


def edges(graph: FactorGraph) -> np.ndarray:
    return graph.layout.scope_vars[graph.n_vars :].reshape(-1, 2)


def gaussian_z(values: np.ndarray, sigma: float) -> float:
    """Largest z-score of mean and variance against N(0, sigma^2); above 4.5 is a false alarm once in 70,000."""
    n = values.size
    mean = values.mean() / (sigma / math.sqrt(n))
    variance = (np.mean(values**2) / sigma**2 - 1) / math.sqrt(2 / n)
    return max(abs(float(mean)), abs(float(variance)))


def uniform_z(values: np.ndarray, low: float, high: float) -> float:
    """Largest z-score of mean and variance against U[low, high], whose fourth central moment is w^4/80."""
    assert low <= values.min() <= values.max() <= high
    n, width, middle = values.size, high - low, (low + high) / 2
    mean = (values.mean() - middle) / (width / math.sqrt(12 * n))
    variance = (np.mean((values - middle) ** 2) - width**2 / 12) / math.sqrt((1 / 80 - 1 / 144) * width**4 / n)
    return max(abs(float(mean)), abs(float(variance)))


# -- all of them ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", SEEDED.values(), ids=list(SEEDED))
def test_one_seed_one_model(make: Callable[..., FactorGraph]) -> None:
    one, same, other, streamed = make(seed=7), make(seed=7), make(seed=8), make(seed=np.random.default_rng(7))
    for twin in (same, streamed):
        assert one.layout.equals(twin.layout)
        assert one.theta.tobytes() == twin.theta.tobytes()
    assert one.theta.shape != other.theta.shape or not np.array_equal(one.theta, other.theta)
    assert make().theta.tobytes() == make(seed=0).theta.tobytes()


@pytest.mark.parametrize("make", SEEDED.values(), ids=list(SEEDED))
@pytest.mark.parametrize("seed", [-1, 1.5, "seven", True])
def test_a_bad_seed_is_named(make: Callable[..., FactorGraph], seed: Any) -> None:
    with pytest.raises(ModelError, match="seed must be an integer of at least 0, found"):
        make(seed=seed)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ds.make_chain(0), "n_vars must be an integer of at least 1, found 0"),
        (lambda: ds.make_tree(2.5), "n_vars must be an integer of at least 1, found 2.5"),  # type: ignore[arg-type]
        (lambda: ds.make_star(-3), "n_vars must be an integer of at least 1, found -3"),
        (lambda: ds.make_complete("6"), "n_vars must be an integer of at least 1, found '6'"),  # type: ignore[arg-type]
        (lambda: ds.make_delaunay(0), "n_vars must be an integer of at least 1, found 0"),
        (lambda: ds.make_grid(0, 3), "rows must be an integer of at least 1, found 0"),
        (lambda: ds.make_grid(3, 0), "cols must be an integer of at least 1, found 0"),
        (lambda: ds.make_grid(3, neighbours=6), "neighbours must be 4 or 8, found 6"),
        (lambda: ds.make_grid(3, diagonal=0.1), "diagonal is the scale of diagonal edges, which need neighbours=8"),
        (lambda: ds.make_grid(3, extra_edges=-1), "extra_edges must be an integer of at least 0, found -1"),
        (
            lambda: ds.make_grid(3, neighbours=8, diagonal=-1.0),
            "diagonal must be a finite number of at least 0, found -1.0",
        ),
        (lambda: ds.make_grid(3, field=-0.1), "field must be a finite number of at least 0, found -0.1"),
        (lambda: ds.make_grid(3, field=math.nan), "field must be a finite number of at least 0, found nan"),
        (lambda: ds.make_grid(3, coupling=math.inf), "coupling must be finite, found inf"),
        (lambda: ds.make_grid(3, law="constant", field=math.nan), "field must be a finite number, found nan"),
        (lambda: ds.make_grid(3, coupling=-1.0), "coupling must be at least 0, found -1.0; law='constant' takes"),
        (lambda: ds.make_grid(3, coupling=[1.0, 2.0]), "coupling must be one number or have shape (12,), found shape"),
        (lambda: ds.make_grid(3, law="gausian"), "found 'gausian'; did you mean 'gaussian'?"),  # type: ignore[arg-type]
        (lambda: ds.make_grid(3, form="pots"), "found 'pots'; did you mean 'potts'?"),  # type: ignore[arg-type]
        (lambda: ds.make_ising_grid(3, n_states=3), "form 'ising' needs n_states=2, found 3; try form='potts'"),
        (lambda: ds.make_chain(3, form="tables", attractive=True), "attractive couplings are defined for the forms"),
        (lambda: ds.make_potts_grid(3, n_states=0), "n_states must be an integer of at least 1, found 0"),
        (lambda: ds.make_partial_k_tree(20, 3, connectivity=1.5), "connectivity must be between 0 and 1, found 1.5"),
        (lambda: ds.make_k_tree(20, 0), "k must be an integer of at least 1, found 0"),
        (lambda: ds.make_pairwise(2, [(0, 2)]), "a scope names variable 2, but the model has variables 0..1"),
        (lambda: ds.make_pairwise(2, [(1, 1)]), "has a variable twice in its scope"),
        (lambda: ds.make_random_factor_graph(3, 2, arity=4), "arity must be at most the number of variables, 3"),
        (lambda: ds.make_random_factor_graph(3, 2, arity=(3, 1)), "arity must be given as (low, high), found (3, 1)"),
        (lambda: ds.make_random_factor_graph(3, 2, n_states=0), "n_states must be an integer of at least 1, found 0"),
        (lambda: ds.make_random_factor_graph(3, 2, zeros=1.2), "zeros must be between 0 and 1, found 1.2"),
        (lambda: ds.make_random_factor_graph(3, 2, scale=-1), "scale must be a finite number of at least 0, found -1"),
        (lambda: ds.make_ladder(0), "n_rungs must be an integer of at least 1, found 0"),
        (lambda: ds.make_hidden_chain(5, sigma_h=-1), "sigma_h must be a finite number of at least 0, found -1"),
        (lambda: ds.make_hidden_grid(2, n_states=0), "n_states must be an integer of at least 1, found 0"),
        (lambda: ds.make_rbm(0), "n_visible must be an integer of at least 1, found 0"),
        (lambda: ds.make_rbm(3, 2, weight=math.inf), "weight must be a finite number of at least 0, found inf"),
        (lambda: ds.make_distance_grid(2, weights=(math.nan,)), "weights must be a finite number, found nan"),
    ],
)
def test_bad_arguments_end_in_one_clear_line(make: Callable[[], FactorGraph], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# -- forms and laws ---------------------------------------------------------------------------------------------
def test_ising_scores_by_the_formula() -> None:
    graph = ds.make_ising_grid(2, 3, field=0.7, coupling=0.9, seed=4)
    h, j = unary(graph)[:, 1], tables(graph)[:, 1, 1]
    for states in itertools.product((0, 1), repeat=6):
        x = 2 * np.array(states) - 1
        expected = h @ x + sum(j[e] * x[u] * x[v] for e, (u, v) in enumerate(edges(graph)))
        assert graph.log_score(states) == pytest.approx(float(expected), abs=1e-12)


def test_ising_grid_by_default_is_a_gaussian_spin_glass() -> None:
    graph = ds.make_ising_grid(100, seed=1)
    assert gaussian_z(unary(graph)[:, 1], 0.1) < 4.5
    assert gaussian_z(tables(graph)[:, 1, 1], 0.5) < 4.5


def test_uniform_and_attractive_couplings() -> None:
    mixed = ds.make_ising_grid(100, law="uniform", field=0.3, coupling=2.0, seed=1)
    assert uniform_z(unary(mixed)[:, 1], -0.3, 0.3) < 4.5
    assert uniform_z(tables(mixed)[:, 1, 1], -2.0, 2.0) < 4.5
    attractive = ds.make_ising_grid(100, law="uniform", coupling=2.0, attractive=True, seed=1)
    assert uniform_z(tables(attractive)[:, 1, 1], 0.0, 2.0) < 4.5
    assert np.array_equal(tables(attractive)[:, 1, 1], np.abs(tables(mixed)[:, 1, 1]))


def test_gaussian_attractive_couplings_are_half_normal() -> None:
    """Mean sigma sqrt(2/pi), variance sigma^2 (1 - 2/pi)."""
    j = tables(ds.make_ising_grid(100, coupling=1.5, attractive=True, seed=5))[:, 1, 1]
    assert j.min() >= 0
    z = (j.mean() - 1.5 * math.sqrt(2 / math.pi)) / (1.5 * math.sqrt((1 - 2 / math.pi) / j.size))
    assert abs(z) < 4.5


def test_potts_rewards_equal_states_only() -> None:
    graph = ds.make_potts_grid(30, n_states=4, field=0.3, coupling=0.8, seed=2)
    j = tables(graph)
    assert np.array_equal(j, j[:, :1, :1] * np.eye(4))
    assert gaussian_z(j[:, 0, 0], 0.8) < 4.5
    assert gaussian_z(unary(graph), 0.3) < 4.5


def test_free_tables_are_drawn_cell_by_cell() -> None:
    graph = ds.make_chain(500, n_states=3, form="tables", coupling=1.2, seed=3)
    assert gaussian_z(tables(graph), 1.2) < 4.5
    assert not np.allclose(tables(graph), tables(graph).transpose(0, 2, 1))


@pytest.mark.parametrize(("k", "n_free"), [(2, 280), (3, 740), (4, 1380), (5, 2200)])
def test_identifiable_form_has_the_free_parameters_of_the_source(k: int, n_free: int) -> None:
    """[gelfand2014] 4.4: 280, 740, 1380 and 2200 parameters on a 10x10 grid."""
    graph = ds.make_grid(10, n_states=k, form="identifiable", field=0.1, coupling=0.5, seed=k)
    h, j = unary(graph), tables(graph)
    assert not h[:, 0].any()
    assert not j[:, 0].any()
    assert not j[:, :, 0].any()
    assert np.array_equal(j, j.transpose(0, 2, 1))
    a, b = np.triu_indices(k - 1)
    free = j[:, a + 1, b + 1]
    assert np.count_nonzero(h) + np.count_nonzero(free) == n_free
    assert gaussian_z(h[:, 1:], 0.1) < 4.5
    assert gaussian_z(free, 0.5) < 4.5


def test_constant_couplings_are_one_tied_table() -> None:
    graph = ds.make_grid(4, law="constant", field=0.2, coupling=-0.3)
    assert graph.layout.tied
    assert graph.layout.n_cells == 16 * 2 + 4
    assert graph.theta[-4:].tolist() == [-0.3, 0.3, 0.3, -0.3]
    assert graph.log_score(np.ones(16, int)) == pytest.approx(16 * 0.2 - 24 * 0.3)


def test_a_scale_stretches_the_same_draws() -> None:
    weak, strong = (ds.make_grid(6, coupling=c, field=0.1, seed=3) for c in (0.5, 2.0))
    assert np.array_equal(tables(strong), 4 * tables(weak))
    assert np.array_equal(unary(strong), unary(weak))


def test_scales_edge_by_edge() -> None:
    scale = np.array([0.0, 1.0, 3.0])
    graph, unit = (ds.make_chain(4, coupling=c, seed=6) for c in (scale, 1.0))
    assert np.array_equal(tables(graph), scale[:, None, None] * tables(unit))
    assert not ds.make_chain(4, coupling=scale, law="constant").layout.tied


def test_names_are_kept() -> None:
    graph = ds.make_pairwise(2, [(0, 1)], names=["left", "right"])
    assert graph.index("right") == 1


def test_single_variables_and_single_states() -> None:
    assert ds.make_chain(1).n_factors == ds.make_grid(1).n_factors == ds.make_complete(1).n_factors == 1
    assert ds.make_delaunay(1).n_factors == ds.make_tree(1).n_factors == ds.make_star(1).n_factors == 1
    assert ds.make_chain(3, n_states=1).layout.n_cells == 5


# -- structures -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("graph", "n_vars", "n_edges"),
    [
        (ds.make_chain(12), 12, 11),
        (ds.make_star(12), 12, 11),
        (ds.make_tree(12), 12, 11),
        (ds.make_complete(20), 20, 190),
        (ds.make_grid(9), 81, 144),
        (ds.make_grid(9, 4), 36, 59),
        (ds.make_grid(9, periodic=True), 81, 162),
        (ds.make_grid(9, neighbours=8), 81, 144 + 128),
        (ds.make_grid(10, extra_edges=50), 100, 180 + 50),
        (ds.make_k_tree(30, 4), 30, 4 * 30 - 10),
    ],
)
def test_pairwise_models_have_their_unaries_then_their_edges(graph: FactorGraph, n_vars: int, n_edges: int) -> None:
    assert (graph.n_vars, graph.n_factors) == (n_vars, n_vars + n_edges)
    assert graph.layout.scope_vars[:n_vars].tolist() == list(range(n_vars))
    assert np.diff(graph.layout.scope_ptr).tolist() == [1] * n_vars + [2] * n_edges


def test_delaunay_graphs_are_as_dense_as_triangulations() -> None:
    """A triangulation of n points with h on the hull has 3n - 3 - h edges."""
    graph = ds.make_delaunay(200, seed=1)
    assert 3 * 200 - 3 - 40 < graph.n_factors - 200 <= 3 * 200 - 6


def test_diagonals_have_their_own_scale_and_leave_the_rest_alone() -> None:
    plain = ds.make_grid(40, coupling=0.3, seed=9)
    full = ds.make_grid(40, neighbours=8, coupling=0.3, diagonal=0.9, seed=9)
    m = plain.n_factors - plain.n_vars
    assert np.array_equal(unary(plain), unary(full))
    assert np.array_equal(tables(plain), tables(full)[:m])
    assert gaussian_z(tables(full)[m:, 0, 0], 0.9) < 4.5


def test_diagonals_without_a_scale_of_their_own_share_the_couplings() -> None:
    full = ds.make_grid(40, neighbours=8, coupling=0.3, seed=9)
    assert gaussian_z(tables(full)[:, 0, 0], 0.3) < 4.5


def test_distance_grid_by_hand() -> None:
    graph = ds.make_distance_grid(1, 3, weights=(-0.5, -0.7, -2.0))
    assert graph.layout.card.tolist() == [4, 4, 4]
    assert graph.log_score([3, 0, 1]) == pytest.approx(-2.5)
    assert graph.log_score([2, 2, 0]) == pytest.approx(-0.7)
    assert graph.layout.n_cells == 12 + 16


def test_a_million_variables_are_a_matter_of_arrays() -> None:
    ds.make_ising_grid(4)  # what is made once
    before = sys.getallocatedblocks()
    graph = ds.make_ising_grid(1000)
    assert (graph.n_vars, graph.n_factors) == (1_000_000, 2_998_000)
    assert sys.getallocatedblocks() - before < 10_000  # objects of Python, of which a variable or a factor is none


# -- factor graphs ----------------------------------------------------------------------------------------------
def test_random_factor_graph_keeps_its_ranges() -> None:
    graph = ds.make_random_factor_graph(40, 400, arity=(0, 4), n_states=(1, 3), scale=0.7, seed=2)
    assert set(graph.layout.card.tolist()) == {1, 2, 3}
    assert set(np.diff(graph.layout.scope_ptr).tolist()) == {0, 1, 2, 3, 4}
    assert gaussian_z(graph.theta, 0.7) < 4.5


def test_random_scopes_are_uniform() -> None:
    """2000 pairs among 6 variables: 30 ordered scopes, chi-square with 29 degrees of freedom, 1e-4 at 63.3."""
    graph = ds.make_random_factor_graph(6, 2000, arity=2, seed=8)
    scopes = graph.layout.scope_vars.reshape(-1, 2)
    counts = np.bincount(scopes @ np.array([6, 1]), minlength=36).reshape(6, 6)
    assert not counts.diagonal().any()
    off = counts[~np.eye(6, dtype=bool)]
    assert float(((off - 2000 / 30) ** 2).sum() / (2000 / 30)) < 63.3


def test_hard_zeros_have_their_share_and_never_kill_every_assignment() -> None:
    graph = ds.make_random_factor_graph(60, 2000, arity=3, zeros=0.3, seed=5)
    share = float(np.mean(np.isneginf(graph.theta)))
    expected = 0.3 * 7 / 8  # one cell in eight is on the hidden assignment and spared
    assert abs(share - expected) < 4.5 * math.sqrt(0.25 / graph.theta.size)
    for seed in range(20):
        small = ds.make_random_factor_graph(6, 12, arity=(1, 3), zeros=0.9, seed=seed)
        scores = small.log_scores(np.array(list(itertools.product((0, 1), repeat=6))))
        assert np.isfinite(scores).any()


def test_all_zeros_but_one_assignment() -> None:
    graph = ds.make_random_factor_graph(4, 4, arity=4, zeros=1.0)
    scores = graph.log_scores(np.array(list(itertools.product((0, 1), repeat=4))))
    assert np.isfinite(scores).sum() == 1


# -- learning studies -------------------------------------------------------------------------------------------
def test_ladder_by_the_formula() -> None:
    n = 4
    graph = ds.make_ladder(n, seed=3)
    assert [v.name for v in graph.variables] == ["x0", "x1", "x2", "x3", "y0", "y1", "y2", "y3"]
    expected = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7), (0, 4), (1, 5), (2, 6), (3, 7)]
    assert [tuple(e) for e in edges(graph).tolist()] == expected
    assert not unary(graph)[n:].any()
    t = tables(graph)
    assert np.array_equal(t, t[:, :1, :1] * np.array([[1, -1], [-1, 1]]))


def test_ladder_numbers_are_uniform() -> None:
    graph = ds.make_ladder(2000, scale=1.0, seed=3)
    assert uniform_z(unary(graph)[:2000], -1, 1) < 4.5
    assert uniform_z(tables(graph)[:, 0, 0], -1, 1) < 4.5


def test_hidden_chain_layout() -> None:
    graph = ds.make_hidden_chain(4)
    assert [v.name for v in graph.variables] == ["x0", "x1", "x2", "x3", "y0", "h1", "y2", "h3"]
    expected = [(4, 5), (5, 6), (6, 7), (0, 4), (1, 5), (2, 6), (3, 7)]
    assert [tuple(e) for e in edges(graph).tolist()] == expected
    assert ds.make_hidden_chain().n_vars == 40
    assert set(graph.layout.card.tolist()) == {4}


def test_hidden_grid_is_a_checkerboard() -> None:
    graph = ds.make_hidden_grid(3, 4)
    names = [v.name for v in graph.variables]
    assert names[12:] == ["y0", "h1", "y2", "h3", "h4", "y5", "h6", "y7", "y8", "h9", "y10", "h11"]
    for u, v in edges(graph):
        assert {names[u][0], names[v][0]} in ({"y", "h"}, {"x", "y"}, {"x", "h"})
        if names[u][0] == "x":
            assert names[u][1:] == names[v][1:]
    assert ds.make_hidden_grid().n_vars == 72


def test_hidden_models_draw_each_role_at_its_scale() -> None:
    singles = {"x": 0.1, "y": 0.2, "h": 0.4}
    doubles = {"xy": 1.0, "xh": 2.0, "hy": 3.0}
    graph = ds.make_hidden_grid(
        20, sigma_x=0.1, sigma_y=0.2, sigma_h=0.4, sigma_xy=1.0, sigma_xh=2.0, sigma_yh=3.0, seed=1
    )
    role = np.array([v.name[0] for v in graph.variables])
    for r, sigma in singles.items():
        assert gaussian_z(unary(graph)[role == r], sigma) < 4.5
    kind = np.array(["".join(sorted(role[u] + role[v], key="xhy".index)) for u, v in edges(graph)])
    assert set(kind) == set(doubles)
    for k, sigma in doubles.items():
        assert gaussian_z(tables(graph)[kind == k], sigma) < 4.5


def test_rbm_scores_by_the_formula() -> None:
    graph = ds.make_rbm(3, 2, weight=0.8, visible_bias=0.5, hidden_bias=0.3, seed=2)
    assert [v.name for v in graph.variables] == ["v0", "v1", "v2", "h0", "h1"]
    w = tables(graph)[:, 1, 1].reshape(3, 2)
    b, c = unary(graph)[:3, 1], unary(graph)[3:, 1]
    for states in itertools.product((0, 1), repeat=5):
        v, h = np.array(states[:3]), np.array(states[3:])
        assert graph.log_score(states) == pytest.approx(float(v @ w @ h + v @ b + h @ c), abs=1e-12)


def test_rbm_law() -> None:
    graph = ds.make_rbm(300, 200, weight=0.5, visible_bias=0.2, hidden_bias=0.4, seed=6)
    assert gaussian_z(tables(graph)[:, 1, 1], 0.5) < 4.5
    assert gaussian_z(unary(graph)[:300, 1], 0.2) < 4.5
    assert gaussian_z(unary(graph)[300:, 1], 0.4) < 4.5
    assert ds.make_rbm(3, 0).n_factors == 3
