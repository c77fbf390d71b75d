"""Methods on region graphs against full tables in NumPy, against each other, and against exact answers."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.inference.base import Problem
from beliefs.inference.regions.choice import chosen_plan, message_order
from beliefs.inference.regions.plan import region_plan
from beliefs.inference.regions.state import RegionState
from beliefs.kernels.regions.beliefs import loop_beliefs
from families import family, grid_pairs, random_model, unary


def spins(n: int, edges: Sequence[tuple[int, ...]], field: float, coupling: float, seed: int) -> bl.FactorGraph:
    rng = np.random.default_rng(seed)
    h, j = field * rng.normal(size=n), coupling * rng.normal(size=len(edges))
    tables = j[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])
    return bl.FactorGraph.pairwise(np.stack([h, -h], axis=1), edges, tables)


def complete(n: int, coupling: float = 0.5, seed: int = 0) -> bl.FactorGraph:
    return spins(n, list(combinations(range(n), 2)), 0.1, coupling, seed)


# -- the reference: full tables over all variables of a region, in logs ------------------------------------------------
class FullTables:
    """Parent-to-child updates with one table over all variables of each region, loops too."""

    def __init__(self, graph: bl.FactorGraph, regions: bl.RegionGraph) -> None:
        self.graph, self.regions = graph, regions
        self.tables: list[np.ndarray] = [np.zeros(self.shape(s)) for s in regions.scopes]
        layout = graph.layout
        used: list[int] = []
        for f in range(graph.n_factors):
            scope = layout.scope(f).tolist()
            same = [r for r in range(regions.n_outer) if set(regions.scopes[r]) == set(scope) and r not in used]
            home = same[0] if same else next(r for r in range(regions.n_outer) if self.covers(r, scope))
            used += same[:1] if len(same) > 1 else []
            axes = np.argsort(scope)
            table = graph.theta[layout.cells(f)].reshape(layout.shape(f)).transpose(axes)
            self.tables[home] = self.tables[home] + self.wide(table, sorted(scope), home)

    def shape(self, scope: tuple[int, ...]) -> list[int]:
        return [int(self.graph.layout.card[v]) for v in sorted(scope)]

    def covers(self, r: int, scope: list[int]) -> bool:
        own = self.regions.scopes[r]
        if not self.regions.is_loop[r] or len(scope) == 1:
            return set(scope) <= set(own)
        return any(set(scope) == {own[k - 1], own[k]} for k in range(len(own)))

    def wide(self, table: np.ndarray, scope: list[int], r: int) -> np.ndarray:
        sizes = iter(table.shape)
        return table.reshape([next(sizes) if v in scope else 1 for v in sorted(self.regions.scopes[r])])

    def belief(self, r: int) -> np.ndarray:
        return self.tables[r] - np.logaddexp.reduce(self.tables[r], axis=None)

    def marginal(self, r: int, scope: tuple[int, ...]) -> np.ndarray:
        axes = tuple(k for k, v in enumerate(sorted(self.regions.scopes[r])) if v not in scope)
        return np.logaddexp.reduce(self.belief(r), axis=axes) if axes else self.belief(r)

    def send(self, e: int, share: float) -> None:
        parent, child = self.regions.edges[e].tolist()
        scope = self.regions.scopes[child]
        message = share * (self.marginal(parent, scope) - self.belief(child))
        for r in self.regions.ancestors[child] - self.regions.ancestors[parent]:
            self.tables[r] = self.tables[r] + self.wide(message, sorted(scope), r)

    def joint(self) -> np.ndarray:
        """The sum of counting numbers times log beliefs over all variables."""
        total = np.zeros([int(k) for k in self.graph.layout.card])
        for r, c in enumerate(self.regions.counting):
            shape = [int(k) if v in self.regions.scopes[r] else 1 for v, k in enumerate(self.graph.layout.card)]
            total = total + c * self.tables[r].reshape(shape)
        return total

    def kikuchi(self) -> float:
        norms = [np.logaddexp.reduce(t, axis=None) for t in self.tables]
        return float(self.regions.counting @ np.array(norms))


MIXED = random_model([2, 3, 2, 3, 2, 2], unary(6) + grid_pairs(2, 3) + [(0, 4)], seed=3, scale=0.7)
HIGHER = family("higher_order")
CASES = {
    "loops": lambda: (MIXED, bl.RegionGraph.loops(MIXED, bl.cycles.partially_tree_robust(MIXED))),
    "star": lambda: (complete(5), bl.RegionGraph.loops(complete(5), bl.cycles.star(complete(5)))),
    "cvm": lambda: (HIGHER, bl.RegionGraph.cvm(HIGHER, [(0, 1, 2, 3)])),
    "bethe": lambda: (HIGHER, bl.RegionGraph.bethe(HIGHER)),
    "join": lambda: (MIXED, bl.RegionGraph.join_graph(MIXED, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_messages_equal_full_tables_and_keep_the_product(name: str) -> None:
    graph, regions = CASES[name]()
    plan = chosen_plan(Problem(graph), regions, "gbp")
    state, full = RegionState(Problem(graph), plan), FullTables(graph, regions)
    truth = reference.joint_table(graph)
    for order in (message_order(regions, "depth_first"), message_order(regions, "two_way")):
        for e in order:
            state.send(np.array([e]), 0.5)
            full.send(int(e), 0.5)
            np.testing.assert_allclose(full.joint(), truth, rtol=0, atol=1e-9)  # after every update
        assert state.kikuchi() == pytest.approx(full.kikuchi(), abs=1e-9)
        for r in range(regions.n_outer, regions.n_regions):  # inner regions have one table
            q = plan.tables.table_ptr[r]
            own = state.beliefs[plan.tables.cell_ptr[q] : plan.tables.cell_ptr[q + 1]].reshape(
                [int(graph.layout.card[v]) for v in regions.scopes[r]]
            )
            axes = np.argsort(regions.scopes[r])
            np.testing.assert_allclose(own.transpose(axes), full.belief(r), rtol=0, atol=1e-9)


@pytest.mark.parametrize("scale", [0.5, 30.0, 300.0])
def test_plain_numbers_equal_logs(scale: float) -> None:
    """Also where a range turns out too large for them, before the first message or on the way."""
    graph = random_model([2, 3, 2, 3, 2, 2], unary(6) + grid_pairs(2, 3) + [(0, 4)], seed=6, scale=scale)
    zeros = graph.theta.copy()
    zeros[graph.layout.cell_ptr[7] + 1] = -np.inf
    problem = Problem(graph.with_theta(zeros))
    for word in ("loops", "bethe"):
        plan = chosen_plan(problem, word, "gbp")
        one, other = RegionState(problem, plan), RegionState(problem, plan)
        other.needs_logs = True
        for share in (0.5, 0.3, 0.5):
            order = message_order(plan.regions, "two_way")
            assert one.send(order, share) == pytest.approx(other.send(order, share), abs=1e-9)
            np.testing.assert_allclose(one.kikuchi(), other.kikuchi(), rtol=1e-10)
            np.testing.assert_allclose(one.mu_var(), other.mu_var(), rtol=0, atol=1e-9)
        assert one.needs_logs == (scale == 300.0)


@pytest.mark.parametrize("scale", [1.0, 400.0])
@pytest.mark.parametrize("zeros", [False, True])
def test_loop_kernel_equals_its_joint_table(scale: float, zeros: bool) -> None:
    rng = np.random.default_rng(5)
    card = np.array([2, 3, 2, 4, 2])
    tables = [scale * rng.normal(size=(card[k], card[(k + 1) % 5])) for k in range(5)]
    if zeros:
        tables[1][0, 1] = tables[3][2, :] = -np.inf
    total = np.zeros(tuple(card))
    for k, table in enumerate(tables):
        shape = [1] * 5
        shape[k], shape[(k + 1) % 5] = table.shape
        total = total + (table if k < 4 else table.T).reshape(shape)
    starts = np.concatenate([[0], np.cumsum([t.size for t in tables])])
    flat = np.concatenate([t.ravel() for t in tables])
    out = np.zeros_like(flat)
    log_z = loop_beliefs(flat, card, starts, np.zeros(18 * 16), out)
    assert log_z == pytest.approx(np.logaddexp.reduce(total, axis=None), rel=1e-12)
    for k, table in enumerate(tables):
        axes = tuple(a for a in range(5) if a not in (k, (k + 1) % 5))
        wanted = np.logaddexp.reduce(total, axis=axes) - log_z
        found = out[starts[k] : starts[k + 1]].reshape(table.shape)
        np.testing.assert_allclose(found if k < 4 else found.T, wanted, rtol=1e-11, atol=1e-9)


def test_a_loop_of_two_hundred_variables() -> None:
    n = 200
    graph = random_model([3] * n, unary(n) + [(v, (v + 1) % n) for v in range(n)], seed=1)
    found, exact = bl.infer(graph, "gbp"), bl.infer(graph, "junction_tree")
    assert found.log_z == pytest.approx(exact.log_z, abs=1e-9)
    np.testing.assert_allclose(found.mu, exact.mu, rtol=0, atol=1e-10)


def test_fixed_points_of_bp() -> None:
    for name in ("grid", "complete", "tied_tables", "hard_zeros"):
        graph = family(name)
        bp = bl.infer(graph, "bp", tol=1e-11)
        for method in ("ijgp(ibound=1)", "gbp(regions=bethe)"):
            found = bl.infer(graph, method, tol=1e-11)
            assert found.converged and found.log_z == pytest.approx(bp.log_z, abs=1e-8)
            np.testing.assert_allclose(found.mu, bp.mu, rtol=0, atol=1e-8)


@pytest.mark.parametrize("regions", ["loops", "cvm", "bethe"])
def test_messages_and_double_loop_agree_at_weak_couplings(regions: str) -> None:
    for graph in (complete(5, 0.2), random_model([2, 3, 2, 3], list(combinations(range(4), 2)), seed=1, scale=0.3)):
        one = bl.infer(graph, f"gbp(regions={regions})", tol=1e-10)
        other = bl.infer(graph, f"double_loop(regions={regions})", tol=1e-9)
        assert one.converged and other.converged
        assert one.log_z == pytest.approx(other.log_z, abs=1e-6)
        np.testing.assert_allclose(one.mu, other.mu, rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_a_star_is_conditioning_on_its_root_with_bethe_on_the_rest(seed: int) -> None:
    """P37: the sum over the root's states of the Bethe approximations given each."""
    graph = complete(5, 0.5, seed)
    star = bl.RegionGraph.loops(graph, bl.cycles.star(graph, 0))
    found = bl.infer(graph, bl.GBP(regions=star), tol=1e-10)
    given = np.array([bl.infer(graph.condition({0: x}), "bp", tol=1e-10).log_z for x in (0, 1)])
    log_z = np.logaddexp.reduce(given)
    assert found.log_z == pytest.approx(log_z, abs=1e-8)
    np.testing.assert_allclose(found.marginal(0), np.exp(given - log_z), rtol=0, atol=1e-8)


def test_regions_beat_bp_and_choose_their_schedule() -> None:
    errors: dict[str, list[float]] = {"bp": [], "gbp": [], "double_loop": []}
    for seed in range(4):
        graph = spins(16, grid_pairs(4, 4), 0.1, 1.0, seed)
        truth = bl.infer(graph, "junction_tree")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.ConvergenceWarning)
            for method in errors:
                errors[method].append(float(np.abs(bl.infer(graph, method).mu_var - truth.mu_var).mean()))
    assert np.mean(errors["gbp"]) < 0.2 * np.mean(errors["bp"])
    assert np.mean(errors["double_loop"]) == pytest.approx(np.mean(errors["gbp"]), abs=1e-3)
    stuck = spins(16, grid_pairs(4, 4), 0.1, 1.0, 7)  # depth first does not settle here
    result = bl.infer(stuck, "gbp(regions=faces)", tol=1e-6)
    assert result.converged and "double_loop had the last" in result.reason
    again = bl.infer(stuck, "gbp(regions=faces)", tol=1e-6, init=result)
    assert again.n_iters <= 2 and again.log_z == pytest.approx(result.log_z, abs=1e-8)


def test_impossible_beliefs_are_not_called_converged() -> None:
    """Level by level, a star of K6 is unstable: beliefs collapse to 0 and 1, and agree."""
    with pytest.warns(bl.ConvergenceWarning):
        result = bl.infer(complete(6), "gbp(regions=star, schedule=levels)", tol=1e-6)
    assert result.status is bl.Status.DIVERGED and "no answer" in result.reason
    assert np.isfinite(result.log_z) and np.isfinite(result.mu_var).all()
    good = bl.infer(complete(6), "gbp(regions=star)", tol=1e-6)
    assert good.converged and "depth_first" in good.reason and good.n_iters < 60


def test_double_loop_never_falls() -> None:
    for regions in (bl.RegionGraph.loops(complete(6, 1.0), list(combinations(range(6), 3))), "star", "bethe"):
        result = bl.infer(complete(6, 1.0), bl.DoubleLoop(regions=regions), trace_every=1, tol=1e-6)
        assert result.converged and (np.diff(result.trace.log_z) >= -1e-7).all()


@pytest.mark.parametrize("regions", ["loops", "cvm", "bethe"])
def test_convex_bound_is_certified_falls_and_has_its_marginals_for_gradient(regions: str) -> None:
    graph = random_model([2, 3, 2, 2, 3], unary(5) + list(combinations(range(5), 2)), seed=2, scale=0.8)
    method = f"convex_gbp(regions={regions})"
    result = bl.infer(graph, method, tol=1e-14, trace_every=1, max_iters=3000)
    truth = bl.infer(graph, "junction_tree").log_z
    assert result.bound is bl.Bound.UPPER and (result.trace.upper >= truth).all()
    assert (np.diff(result.trace.upper) <= 0).all()
    rng = np.random.default_rng(0)
    way = rng.normal(size=graph.theta.size)
    ends = [bl.infer(graph.with_theta(graph.theta + s * way), method, tol=1e-14, max_iters=3000) for s in (1e-4, -1e-4)]
    assert (ends[0].log_z - ends[1].log_z) / 2e-4 == pytest.approx(float(result.mu @ way), abs=1e-5)


def test_given_counting_numbers() -> None:
    graph = complete(4)
    regions = bl.RegionGraph.bethe(graph)
    half = np.where(np.arange(regions.n_regions) < regions.n_outer, 1 / 3, 0.0)
    covering = bl.infer(graph, bl.ConvexGBP(regions=regions, counting=half))
    assert covering.bound is bl.Bound.UPPER and covering.log_z >= bl.infer(graph).log_z
    assert covering.log_z < bl.infer(graph, bl.ConvexGBP(regions=regions)).log_z
    less = bl.infer(graph, bl.ConvexGBP(regions=regions, counting=0.5 * half))
    assert less.bound is bl.Bound.ESTIMATE and less.log_upper == np.inf
    assert repr(bl.ConvexGBP(regions=regions)) == "convex_gbp(regions=<RegionGraph of 10 regions>)"


def test_negative_counting_numbers_need_one_optimum() -> None:
    tree = spins(5, [(0, 1), (1, 2), (2, 3), (1, 4)], 0.3, 0.8, 0)
    bethe = bl.RegionGraph.bethe(tree)
    found = bl.infer(tree, bl.ConvexGBP(regions=bethe, counting=bethe.counting), tol=1e-10)
    exact = bl.infer(tree, "junction_tree")
    assert found.bound is bl.Bound.ESTIMATE and found.log_z == pytest.approx(exact.log_z, abs=1e-9)
    np.testing.assert_allclose(found.mu_var, exact.mu_var, rtol=0, atol=1e-8)
    loopy = bl.RegionGraph.bethe(complete(4))
    with pytest.raises(bl.ModelError, match="one optimum.*use double_loop"):
        bl.infer(complete(4), bl.ConvexGBP(regions=loopy, counting=loopy.counting))


@pytest.mark.parametrize("regions", ["loops", "bethe"])
def test_covering_numbers_bound_more_tightly(regions: str) -> None:
    graph = random_model([2, 3, 2, 2, 3, 2], unary(6) + grid_pairs(2, 3) + [(0, 4)], seed=2, scale=0.8)
    truth = bl.infer(graph, "junction_tree").log_z
    found = bl.infer(graph, f"convex_gbp(regions={regions}, counting=covering)", trace_every=1)
    assert found.bound is bl.Bound.UPPER and (found.trace.upper >= truth).all()
    assert (np.diff(found.trace.upper) <= 0).all()
    loose = bl.infer(graph, f"convex_gbp(regions={regions})").log_z
    assert found.log_z - truth < 0.5 * (loose - truth)


@pytest.mark.parametrize("regions", ["auto", "bethe", "cvm", "faces", "star"])
def test_covering_numbers_where_all_is_observed(regions: str) -> None:
    graph = random_model([2, 3], [(0, 1), (1,)], seed=3).condition({0: 1, 1: 2})
    found = bl.infer(graph, f"convex_gbp(regions={regions}, counting=covering)")
    assert found.bound is bl.Bound.UPPER and found.log_z == pytest.approx(graph.theta.sum(), rel=1e-13)


def test_joint_marginals_inside_a_loop() -> None:
    """One loop is the whole model, so its joints are exact; any order of variables, with a hard zero."""
    graph = random_model([2, 3, 2, 4, 2], unary(5) + [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], seed=4)
    theta = graph.theta.copy()
    theta[graph.layout.cell_ptr[5] + 1] = -np.inf
    graph = graph.with_theta(theta)
    table = np.exp(reference.joint_table(graph))
    for method in ("gbp", "double_loop", "convex_gbp"):
        found = bl.infer(graph, method)
        for scope in ((0, 2), (3, 1), (4, 2, 0), (2, 0, 3, 1, 4)):
            rest = tuple(v for v in range(5) if v not in scope)
            wanted = table.sum(axis=rest).transpose(np.argsort(np.argsort(scope))) / table.sum()
            np.testing.assert_allclose(found.marginal(list(scope)), wanted, rtol=0, atol=1e-9)


def test_joint_marginals_of_regions() -> None:
    graph = spins(9, grid_pairs(3, 3), 0.3, 0.8, 1)
    found = bl.infer(graph, "ijgp(ibound=3)")
    exact = bl.infer(graph, "junction_tree")
    np.testing.assert_allclose(found.marginal([3, 1]), exact.marginal([3, 1]), rtol=0, atol=1e-8)
    with pytest.raises(bl.UnsupportedError, match="no factor covers"):
        bl.infer(graph, "gbp").marginal([0, 8])


def test_maximize() -> None:
    for name in ("grid", "complete", "higher_order", "hard_zeros", "mixed_cardinalities"):
        graph = family(name)
        best = bl.maximize(graph, "junction_tree").log_score
        exact = bl.maximize(graph, "ijgp")
        assert exact.gap == 0 and exact.log_score == pytest.approx(best, abs=1e-9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.ConvergenceWarning)
            assert bl.maximize(graph, "ijgp(ibound=1)").log_score <= best + 1e-9


@pytest.mark.parametrize(("side", "n_states"), [(40, 2), (20, 8)])
def test_memory_is_predicted_within_a_fifth(side: int, n_states: int) -> None:
    small, grid = (bl.datasets.make_grid(n, n_states=n_states, seed=0) for n in (3, side))
    regions = bl.RegionGraph.loops(grid, bl.cycles.faces(grid))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        bl.infer(small, "gbp(regions=faces, schedule=depth_first)", max_iters=1)  # kernels
        tracemalloc.start()
        try:  # with regions that are made in the call
            bl.infer(grid, "gbp(regions=faces, schedule=depth_first)", max_iters=1)
            taken = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    predicted = region_plan(Problem(grid), regions, "gbp").n_bytes()
    assert 0.8 * predicted < taken < 1.2 * predicted
    with pytest.raises(bl.BudgetError, match=r"^gbp on \d+ regions needs"):
        bl.infer(grid, bl.GBP(regions=regions), max_bytes=int(0.9 * predicted))


@pytest.mark.parametrize("method", ["gbp", "double_loop", "convex_gbp"])
def test_a_set_below_very_many_regions_is_refused_before_it_takes_memory(method: str) -> None:
    """Of a machine's pairs all meet in one set, so messages change each other's tables: in number the square."""
    machine = bl.RBM(np.zeros((90, 60)), np.zeros(90), np.zeros(60))
    machine.to_factor_graph()
    tracemalloc.start()
    try:
        with pytest.raises(bl.BudgetError, match="regions needs 2"):
            bl.infer(machine, method, max_bytes=10**8)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 5e7


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bl.GBP(regions="face"), bl.ModelError, "regions must be one of auto, bethe"),
        (lambda: bl.GBP(schedule="sideways"), bl.ModelError, "schedule must be one of"),
        (lambda: bl.infer(HIGHER, "gbp(regions=loops)"), bl.ModelError, "factors of at most two variables"),
        (lambda: bl.infer(complete(5), "gbp(regions=faces)"), bl.ModelError, "not planar"),
        (
            lambda: bl.infer(complete(5), bl.GBP(regions=bl.RegionGraph.bethe(complete(4)))),
            bl.ModelError,
            "other factors or evidence",
        ),
        (
            lambda: bl.infer(complete(3), bl.GBP(regions=bl.RegionGraph.build(complete(3), [(0, 1, 2)], [2]))),
            bl.ModelError,
            r"add up to 1 .*, found 2 for \(x0, x1, x2\)",
        ),
        (
            lambda: bl.infer(complete(3), bl.DoubleLoop(regions=bl.RegionGraph.build(complete(3), [(0, 1, 2)], [-1]))),
            bl.ModelError,
            "positive counting numbers",
        ),
        (lambda: bl.infer(complete(3), bl.ConvexGBP(counting=[1, 2])), bl.ModelError, "counting must be 1 finite"),
        (lambda: bl.infer(complete(3), bl.ConvexGBP(counting=[-1])), bl.ModelError, "positive counting numbers"),
        (lambda: bl.infer(complete(3), bl.ConvexGBP(counting=["a"])), bl.ModelError, r"1 finite numbers.*\['a'\]"),
        (lambda: bl.ConvexGBP(counting=3), bl.ModelError, "counting must be one of positive"),
        (lambda: bl.infer(family("complete"), "ijgp(ibound=5)", max_bytes=10), None, ""),
        (
            lambda: bl.infer(bl.datasets.make_ising_grid(40, seed=0), "ijgp(ibound=30)", max_bytes=10**7),
            bl.BudgetError,
            "Lower ibound|smaller regions",
        ),
    ],
)
def test_what_is_refused(call: Any, error: Any, message: str) -> None:
    if error is None:
        call()
        return
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_messages_of_more_than_the_range_of_numbers_go_on_in_logs() -> None:
    """A centre with 2,000 leaves: their product leaves the range half-way through the only sweep there is."""
    rng = np.random.default_rng(0)
    _ = rng.choice([2, 5]), rng.choice([0.1, 3.0, 300.0])  # drawn, so that the tables are those that once failed
    pairs = [((0, v) if rng.random() < 0.5 else (v, 0), 3.0 * rng.normal(size=(5, 5))) for v in range(1, 2001)]
    star = bl.FactorGraph.from_tables([5] * 2001, pairs, log=True)
    tables = np.array([table if scope[0] else table.T for scope, table in pairs])  # the centre last
    centre = np.logaddexp.reduce(tables, axis=1).sum(axis=0)
    found = bl.infer(star, "ijgp")
    assert found.bound is bl.Bound.EXACT
    assert found.log_z == pytest.approx(np.logaddexp.reduce(centre), rel=1e-12)
    np.testing.assert_allclose(found.marginal(0), np.exp(centre - np.logaddexp.reduce(centre)), atol=1e-9)
    best = bl.maximize(star, "ijgp")
    assert best.gap == 0.0 and best.log_score == pytest.approx(tables.max(axis=1).sum(axis=0).max(), rel=1e-12)


def test_tables_that_grow_in_an_exact_sweep_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beliefs.inference.regions.state._OVERGROWN", 0.0)  # whatever messages do is too much
    graph = family("chain")
    assert bl.infer(graph, "ijgp").log_z == pytest.approx(bl.infer(graph, "enumeration").log_z, rel=1e-12)
