"""Counting numbers: known values, valid mixtures of forests, and the test of given ones against all vertex sets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.datasets import grid_edges, make_ising_grid
from beliefs.errors import ModelError
from beliefs.inference.messages import effective_resistance, forest_polytope
from beliefs.inference.messages.rho import Reweighting, choose_rho, improved
from beliefs.inference.messages.spanning_forests import maximum_forest
from beliefs.model.layout import Layout
from families import FAMILIES, TREE_PAIRS, family, grid_pairs

Pairs = Sequence[Sequence[int]]


def layout_of(n: int, scopes: Pairs | np.ndarray) -> Layout:
    ptr = np.concatenate([[0], np.cumsum([len(s) for s in scopes])])
    return Layout.build([2] * n, ptr, [v for scope in scopes for v in scope])


def cycle(n: int) -> Layout:
    return layout_of(n, [(v, (v + 1) % n) for v in range(n)])


def joined(layout: Layout) -> np.ndarray:
    """The factors of two or more variables."""
    return np.diff(layout.scope_ptr) > 1


def random_graph(rng: np.random.Generator, n: int, m: int) -> list[tuple[int, int]]:
    """Edges between random pairs, parallel ones among them."""
    return [tuple(int(v) for v in rng.choice(n, 2, replace=False)) for _ in range(m)]  # type: ignore[misc]


def subsets(n: int) -> list[tuple[int, ...]]:
    return [s for k in range(2, n + 1) for s in combinations(range(n), k)]


def largest_scale(n: int, edges: Pairs, rho: np.ndarray) -> float:
    """The largest t for which t * rho obeys the inequalities of all vertex sets."""
    best = np.inf
    for s in subsets(n):
        inside = sum(r for r, (u, v) in zip(rho, edges, strict=True) if u in s and v in s)
        if inside > 0:
            best = min(best, (len(s) - 1) / inside)
    return best


def check_certificate(layout: Layout, found: Reweighting) -> None:
    """Shares are probabilities, sum to rho, and no variable is a child more than once."""
    assert found.parent is not None
    has_edges = np.diff(layout.scope_ptr) > 0
    sums = np.bincount(layout.edge_factor, found.parent, layout.n_factors)
    np.testing.assert_allclose(sums[has_edges], found.rho[has_edges], rtol=1e-12)
    assert found.parent.min(initial=0) >= 0
    assert found.rho.min(initial=1) > 0
    assert found.rho.max(initial=0) <= 1
    assert (found.rho[~joined(layout)] == 1).all()
    assert found.root(layout).min(initial=0) >= -1e-9


# -- built-in choices ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("rho", [None, "sampled"])
def test_built_in_choices_are_certified_and_pass_the_check(name: str, rho: str | None) -> None:
    layout = family(name).layout
    found = choose_rho(layout, rho)
    check_certificate(layout, found)
    again = choose_rho(layout, found.rho)
    np.testing.assert_array_equal(again.rho, found.rho)
    if np.diff(layout.scope_ptr).max(initial=0) <= 2:
        check_certificate(layout, again)


@pytest.mark.parametrize("name", FAMILIES)
def test_default_is_one_exactly_on_forests(name: str) -> None:
    graph = family(name)
    found = choose_rho(graph.layout)
    assert bool((found.rho == 1).all()) == reference.is_forest(graph)


@pytest.mark.parametrize(
    "layout, low, high, total",
    [
        (layout_of(8, TREE_PAIRS), 1, 1, 7),  # bridges
        (cycle(7), 6 / 7, 6 / 7, 6),
        (layout_of(6, list(combinations(range(6), 2))), 2 / 6, 2 / 6, 5),
        (layout_of(9, grid_pairs(3, 3)), 7 / 12, 17 / 24, 8),
        (layout_of(100, grid_pairs(10, 10)), 0.505688, 0.697729, 99),
        (layout_of(400, grid_pairs(20, 20)), 0.501381, 0.697657, 399),  # by the sparse solver
        (layout_of(9, [(0, 1), (1, 2), (2, 0), (4, 5), (8, 5), (4, 8), (8, 4)]), 0.4, 2 / 3, 2 + 2),
    ],
)
def test_uniform_spanning_trees(layout: Layout, low: float, high: float, total: float) -> None:
    rho = choose_rho(layout, "uniform").rho
    assert rho.min() == pytest.approx(low, abs=1e-6)
    assert rho.max() == pytest.approx(high, abs=1e-6)
    assert rho.sum() == pytest.approx(total, rel=1e-12)  # Foster: vertices less components


def test_uniform_shares_are_those_of_all_rooted_spanning_trees() -> None:
    edges = [(0, 1), (2, 1), (2, 3), (3, 0), (0, 2), (1, 0), (4, 3)]
    layout = layout_of(5, edges)
    found = choose_rho(layout, "uniform")
    root = int(np.argmax(found.root(layout)))
    count, hung = 0, np.zeros(layout.n_edges)
    for tree in combinations(range(len(edges)), 4):
        parents = hang_from(root, [edges[f] for f in tree])
        if parents is not None:
            count += 1
            for f, end in zip(tree, parents, strict=True):
                hung[2 * f + end] += 1
    assert found.parent is not None
    np.testing.assert_allclose(found.parent, hung / count, atol=1e-14)


def hang_from(root: int, edges: Pairs) -> list[int] | None:
    """For each edge which of its ends is nearer the root; None if the edges do not reach everything."""
    ends = [-1] * len(edges)
    reached = {root}
    for _ in edges:
        for k, (u, v) in enumerate(edges):
            if ends[k] < 0 and (u in reached) != (v in reached):
                ends[k] = 0 if u in reached else 1
                reached |= {u, v}
    return None if -1 in ends else ends


def test_dense_and_sparse_resistances_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    edges = grid_pairs(10, 12) + random_graph(rng, 120, 20)
    dense = choose_rho(layout_of(120, edges), "uniform")
    monkeypatch.setattr(effective_resistance, "SMALL", 0)
    sparse = choose_rho(layout_of(120, edges), "uniform")
    monkeypatch.setattr(effective_resistance, "DENSE_GAIN", 10**9)
    cholesky = choose_rho(layout_of(120, edges), "uniform")
    assert sparse.parent is not None and cholesky.parent is not None and dense.parent is not None
    np.testing.assert_allclose(sparse.parent, dense.parent, atol=1e-13)
    np.testing.assert_allclose(cholesky.parent, dense.parent, atol=1e-13)


def test_grids_are_found_in_any_edge_order_and_direction() -> None:
    rng = np.random.default_rng(1)
    edges = rng.permuted(rng.permutation(grid_pairs(4, 3)), axis=1)
    graph = bl.FactorGraph.pairwise(np.zeros((12, 2)), edges, np.zeros((2, 2)))
    for layout in (graph.layout, make_ising_grid(5, seed=0).layout, layout_of(4, grid_pairs(2, 2))):
        found = choose_rho(layout)
        assert found.origin == "0.5 on a 4-connected grid"
        assert (found.rho[joined(layout)] == 0.5).all()
        check_certificate(layout, found)


@pytest.mark.parametrize("shape", [(2, 2), (2, 5), (5, 2), (3, 4), (7, 6)])
def test_grids_with_diagonals(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    edges = rng.permuted(rng.permutation(grid_edges(*shape, diagonals=True)), axis=1)
    layout = layout_of(shape[0] * shape[1], edges)
    found = choose_rho(layout)
    assert found.origin == "0.25 on an 8-connected grid"
    assert (found.rho[joined(layout)] == 0.25).all()
    check_certificate(layout, found)
    without = choose_rho(layout_of(shape[0] * shape[1], edges[1:]))
    assert "grid" not in without.origin


@pytest.mark.parametrize(
    "n, edges",
    [
        (9, grid_pairs(3, 3)[1:]),  # one is missing
        (9, [*grid_pairs(3, 3)[1:], grid_pairs(3, 3)[1]]),  # one twice, one missing
        (9, [*grid_pairs(3, 3), (0, 2)]),
        (9, [*grid_pairs(3, 3)[1:], (2, 3)]),  # from the end of a row to the next
        (10, grid_pairs(3, 3)),
        (4, [(0, 1), (1, 2), (2, 3), (3, 0)]),  # a grid, but not row by row
    ],
)
def test_what_is_not_a_grid_is_uniform(n: int, edges: Pairs) -> None:
    layout = layout_of(n, edges)
    assert choose_rho(layout).origin == "uniform over spanning trees"
    with pytest.raises(ModelError, match="grid"):
        choose_rho(layout, "grid")


def test_sampled_forests_repeat_by_seed_and_are_even() -> None:
    layout = layout_of(25, grid_pairs(5, 5))
    first, same, other = (choose_rho(layout_of(25, grid_pairs(5, 5)), "sampled", seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.parent, same.parent)
    assert first.parent is not None and other.parent is not None
    assert not np.array_equal(first.parent, other.parent)
    np.testing.assert_allclose(first.rho, 24 / 40, atol=0.02)  # the even value is a mixture of trees on this grid
    check_certificate(layout, first)


def test_sampled_forests_cover_more_factors_than_samples() -> None:
    layout = layout_of(3, [(0, 1)] * 300 + [(0, 1, 2)])
    found = choose_rho(layout, "sampled")
    check_certificate(layout, found)


def test_large_models_sample_in_blocks() -> None:
    layout = layout_of(6400, [*grid_pairs(80, 80), (0, 81)])
    found = choose_rho(layout)
    assert found.origin.startswith("the average of")
    check_certificate(layout, found)
    assert found.rho.sum() == pytest.approx(6399)  # every one of them is a spanning tree


# -- given numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 10, 101])
def test_cycles_take_up_to_their_share(n: int) -> None:
    layout = cycle(n)
    found = choose_rho(layout, (n - 1) / n)
    np.testing.assert_array_equal(found.rho, (n - 1) / n)
    check_certificate(layout, found)
    for too_much in (1.0, (n - 1) / n + 1e-7):
        with pytest.raises(ModelError, match=f"the {n} factors among the {n} variables 'x0', 'x1'"):
            choose_rho(layout, too_much)


@pytest.mark.parametrize("seed", range(60))
def test_given_numbers_against_all_vertex_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    edges = random_graph(rng, n, int(rng.integers(1, 3 * n)))
    layout = layout_of(n, edges)
    weights = rng.random(len(edges)) ** 2 + 1e-3
    scale = largest_scale(n, edges, weights)
    found = choose_rho(layout, np.minimum(scale * weights, 1))
    check_certificate(layout, found)
    if scale * weights.max() * (1 + 1e-6) <= 1:
        with pytest.raises(ModelError, match="not a mixture of forests"):
            choose_rho(layout, scale * (1 + 1e-6) * weights)


@pytest.mark.parametrize("seed", range(20))
def test_mixtures_of_random_forests_are_accepted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    layout = layout_of(12, random_graph(rng, 12, 30))
    shares = rng.dirichlet(np.ones(40))
    rho = sum(w * maximum_forest(layout, rng.random(30))[0] for w in shares)
    if rho.min() > 0:
        check_certificate(layout, choose_rho(layout, rho))
    tight = np.flatnonzero((rho > 0) & (rho < 1))
    rho = np.maximum(rho, 1e-12)
    rho[tight[0]] = min(1, rho[tight[0]] + 1e-4)  # spanning trees of a connected graph leave no room at all
    with pytest.raises(ModelError, match="not a mixture of forests"):
        choose_rho(layout, rho)


def test_rounded_numbers_are_scaled_back() -> None:
    found = choose_rho(cycle(3), [0.6666666667, 0.6666666667, 0.6666666667])
    assert found.rho.sum() <= 2
    assert found.rho.sum() == pytest.approx(2, abs=1e-9)
    assert found.root(cycle(3)).min() >= 0


def test_the_error_names_a_set_that_is_too_heavy() -> None:
    layout = layout_of(6, [(5, 3), (3, 4), (4, 5), (0, 1), (1, 2), (2, 3)])
    with pytest.raises(ModelError) as caught:
        choose_rho(layout, 1.0, name=lambda v: "abcdef"[v])
    assert str(caught.value) == (
        "rho is not a mixture of forests: the 3 factors among the 3 variables 'd', 'e', 'f' sum to 3, "
        "but at most 2 is possible"
    )


def test_larger_factors_with_two_variables_on_loops_are_checked_exactly() -> None:
    loop = layout_of(6, [(0, 1, 2), (2, 3, 4), (4, 5, 0)])
    check_certificate(loop, choose_rho(loop, 2 / 3))
    with pytest.raises(ModelError, match="the 3 factors among the 3 variables 'x0', 'x2', 'x4' sum to 2.01"):
        choose_rho(loop, 0.67)


def test_larger_factors_are_checked_as_far_as_possible() -> None:
    triples = layout_of(4, list(combinations(range(4), 3)))
    check_certificate(triples, choose_rho(triples, 1 / 3))  # every variable's factors weigh 1: all are peeled off
    assert choose_rho(triples, 3 / 8).parent is None  # four factors that join two more each: not impossible
    with pytest.raises(ModelError, match="each times the number of these variables less one, to 3.2, but at most 3"):
        choose_rho(triples, 0.4)


def test_beyond_the_limit_the_check_is_necessary_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest_polytope, "MAX_EXACT", 8)
    layout = layout_of(9, grid_pairs(3, 3))
    assert choose_rho(layout, 8 / 12).parent is None
    check_certificate(layout, choose_rho(layout, 0.5))
    with pytest.raises(ModelError, match="sum to 8.4, but at most 8 is possible"):
        choose_rho(layout, 0.7)


def test_single_variable_factors_always_count_one() -> None:
    graph = family("grid")
    found = choose_rho(graph.layout, np.full(graph.n_factors, 0.5))
    np.testing.assert_array_equal(found.rho, choose_rho(graph.layout, "grid").rho)
    observed = graph.condition({0: 0, 5: 1})  # a valid choice stays valid with evidence
    check_certificate(observed.layout, choose_rho(observed.layout, np.full(graph.n_factors, 0.5)))


@pytest.mark.parametrize(
    "rho, message",
    [
        ("best", "one of grid, uniform, sampled"),
        ([0.5, 0.5], "one number for each of 3 factors"),
        ([0.5, 0.5, np.nan], r"in \(0, 1\], found nan for factor 2"),
        ([0.5, 0.0, 0.5], r"in \(0, 1\], found 0 for factor 1"),
        (1.5, r"in \(0, 1\], found 1.5"),
        (True, "one number for each"),
        ([0.5, "a", 0.5], "a number or an array"),
    ],
)
def test_bad_arguments(rho: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        choose_rho(cycle(3), rho)  # type: ignore[arg-type]


def test_uniform_needs_pairs() -> None:
    with pytest.raises(ModelError, match="pairwise"):
        choose_rho(layout_of(6, [(0, 1, 2), (2, 3, 4), (4, 5, 0)]), "uniform")


# -- improvement --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_maximum_forest_is_the_heaviest_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = random_graph(rng, 5, 8)
    layout, weight = layout_of(5, edges), rng.random(8)
    chosen, hangs = maximum_forest(layout, weight)
    best = max(
        sum(weight[f] for f in tree)
        for size in range(5)
        for tree in combinations(range(8), size)
        if reference.is_forest(bl.FactorGraph.from_tables([2] * 5, [(edges[f], np.ones((2, 2))) for f in tree]))
    )
    assert weight @ chosen == pytest.approx(best, rel=1e-12)
    assert hangs.sum() == chosen.sum()


@pytest.mark.parametrize("name", ["grid", "complete", "higher_order", "repeated_scopes", "disconnected"])
def test_improvement_stays_certified_and_moves_to_the_forest(name: str) -> None:
    layout = family(name).layout
    rng = np.random.default_rng(0)
    start = found = choose_rho(layout)
    information = rng.random(layout.n_factors)
    for k in range(20):
        found = improved(layout, found, information, 2 / (k + 3))
        check_certificate(layout, found)
    assert information @ found.rho > information @ start.rho
    assert found.origin == start.origin + ", improved"


def test_improvement_without_certificate_has_none() -> None:
    layout = layout_of(4, list(combinations(range(4), 3)))
    assert improved(layout, choose_rho(layout, 3 / 8), np.ones(4), 0.5).parent is None
    with pytest.raises(ModelError, match="step"):
        improved(layout, choose_rho(layout), np.ones(4), 1.0)
