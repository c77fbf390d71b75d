"""Generalised dual decomposition: bounds, monotone blocks, closed forms, exactness, and the tree-reweighted optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beliefs as bl
import reference
from beliefs.inference.base import Problem, Task
from beliefs.inference.clusters.junction_graph import JunctionGraph
from beliefs.inference.dual.joint import JointDescent
from beliefs.inference.dual.state import SplitTables
from families import family, grid_pairs, random_model, unary
from strategies import examples, factor_graphs, temperatures

TRIANGLE_AND_MORE = [(0, 1, 2), (2, 3), (1, 3), (3, 4, 0), (4, 5), (5,), ()]


def split_of(
    graph: bl.FactorGraph, tau: np.ndarray, order: list[int] | None = None, floor: float = 0.002, ibound: int = 0,
    spread: float = 0.2,
) -> SplitTables:  # fmt: skip
    listed = list(range(graph.n_vars)) if order is None else order
    used = [v for v in listed if graph.layout.var_ptr[v] < graph.layout.var_ptr[v + 1]]
    if not ibound:
        return SplitTables(graph, JunctionGraph.of_factors(graph.layout, np.array(used, np.int64)), tau, floor, spread)
    method = bl.GDD(ibound=ibound, order=listed, floor=floor, spread=spread)
    return SplitTables(graph, method._plans(Problem(graph), tau)[0](), tau, floor, spread)


def random_point(split: SplitTables, rng: np.random.Generator, zeros: float = 0.0) -> None:
    """Random shifts, and random weights that add up to the temperatures, some of them 0."""
    descent = JointDescent(split, 0.0, False)
    descent.value_and_gradient(rng.normal(size=descent.search.x.size))
    variable, state = np.concatenate([split.graph.clusters.var, split.graph.separators.var]), split.state
    weight = rng.random(variable.size) * (rng.random(variable.size) >= zeros) + 1e-9
    weight *= (split.tau / np.bincount(variable, weight, split.tau.size))[variable]
    state.weight[:], state.sep_weight[:] = weight[: state.weight.size], weight[state.weight.size :]


def exact(graph: bl.FactorGraph, order: list[int], tau: np.ndarray) -> float:
    return reference.power_sum(reference.joint_table(graph), order, list(tau))[0]


class TestBound:
    @given(data=st.data(), graph=factor_graphs(scales=(1.0, 3.0)))
    @examples(80)
    def test_it_holds_at_any_shifts_and_weights(self, data: st.DataObject, graph: bl.FactorGraph) -> None:
        order = data.draw(st.permutations(range(graph.n_vars)))
        tau = np.array(data.draw(temperatures(graph.n_vars)))
        truth = exact(graph, order, tau)
        rng = np.random.default_rng(0)
        for ibound in (0, 1, 2):
            split = split_of(graph, tau, order, ibound=ibound)
            assert split.value() >= truth - 1e-9 * max(1.0, abs(truth))
            for zeros in (0.0, 0.5):
                random_point(split, rng, zeros)
                assert split.value() >= truth - 1e-9 * max(1.0, abs(truth))

    @given(data=st.data(), graph=factor_graphs(scales=(1.0, 0.0, 5.0)))
    @examples(70)
    def test_no_block_update_ever_raises_it(self, data: st.DataObject, graph: bl.FactorGraph) -> None:
        order = data.draw(st.permutations(range(graph.n_vars)))
        tau = np.array(data.draw(temperatures(graph.n_vars)))
        truth = exact(graph, order, tau)
        for ibound, floor in ((0, 0.002), (0, 0.0), (2, 0.002)):
            split = split_of(graph, tau, order, floor, ibound)
            room = 1e-9 * max(1.0, abs(truth))
            for turn in range(3):
                sequence = np.arange(split.graph.n_separators)[:: 1 if turn % 2 == 0 else -1].copy()
                options = split.options(split.graph.revisited(backward=turn % 2 == 1), 1 + turn, True)
                for k in range(sequence.size):
                    before = split.value()
                    split.update(sequence, k, k + 1, options)
                    after = split.value()
                    assert truth - room <= after <= before + room
                    assert after == pytest.approx(before - split.state.decrease[sequence[k]], abs=room)
            variable, state = np.concatenate([split.graph.clusters.var, split.graph.separators.var]), split.state
            sums = np.bincount(variable, np.concatenate([state.weight, state.sep_weight]), tau.size)
            held = np.isin(np.arange(tau.size), variable)
            np.testing.assert_allclose(sums[held], tau[held], atol=1e-12)
            assert min(state.weight.min(initial=0), state.sep_weight.min(initial=0)) >= 0

    def test_the_model_is_only_moved_about(self) -> None:
        graph = random_model([2, 3, 2, 2, 3, 2], TRIANGLE_AND_MORE, seed=1)
        for ibound in (0, 2):
            split = split_of(graph, np.array([1.0, 1, 0.5, 0, 0, 0]), ibound=ibound)
            for _ in range(4):
                split.sweep(2, True, 1)
            np.testing.assert_allclose(reference.total_table(split), reference.joint_table(graph), atol=1e-12)

    def test_adding_a_constant_to_a_shift_changes_nothing(self) -> None:
        graph = random_model([2, 3, 2, 2, 3, 2], TRIANGLE_AND_MORE, seed=2)
        split = split_of(graph, np.array([1.0, 1, 0.5, 2, 0, 0]))
        descent = JointDescent(split, 0.002, True)
        x = np.random.default_rng(0).normal(size=descent.search.x.size)
        value, gradient = descent.value_and_gradient(x)
        start = 0
        for width in split.graph.link_width:
            assert gradient[start : start + width].sum() == pytest.approx(0.0, abs=1e-12)
            moved = x.copy()
            moved[start : start + width] += 3.0
            assert descent.value_and_gradient(moved)[0] == pytest.approx(value, abs=1e-10)
            start += width


class TestGradient:
    @pytest.mark.parametrize("ibound", [0, 2])
    def test_it_is_that_of_the_bound_in_shifts_and_weights(self, ibound: int) -> None:
        graph = random_model([2, 3, 2, 2, 3, 2], TRIANGLE_AND_MORE, seed=3)
        split = split_of(graph, np.array([1.0, 1, 0.5, 2, 0.3, 1]), [3, 1, 0, 2, 4, 5], 0.01, ibound)
        descent = JointDescent(split, 0.01, True)
        rng = np.random.default_rng(1)
        x = descent.search.x + 0.5 * rng.normal(size=descent.search.x.size)
        _, gradient = descent.value_and_gradient(x)
        for _ in range(10):
            d = rng.normal(size=x.size)
            up, down = (descent.value_and_gradient(x + h * d)[0] for h in (1e-5, -1e-5))
            assert (up - down) / 2e-5 == pytest.approx(float(gradient @ d), rel=1e-6, abs=1e-7)

    def test_beliefs_and_entropies_match_at_the_optimum(self) -> None:
        graph = random_model([2, 2, 2, 2], unary(4) + [(0, 1), (1, 2), (2, 3), (3, 0)], seed=4)
        split = split_of(graph, np.ones(4), floor=0.02)
        descent = JointDescent(split, 0.02, True)
        for _ in range(400):
            descent.step()
        assert np.abs(descent.search.gradient).max() < 1e-5  # moments match, and so do entropies above the floor
        _, entropies, _, sep_entropies, _ = split.gradients()
        weight, entropy = np.append(split.state.weight, split.state.sep_weight), np.append(entropies, sep_entropies)
        variable = np.append(split.graph.clusters.var, split.graph.separators.var)
        for v in range(4):
            mine = variable == v
            mean = float((weight[mine] * entropy[mine]).sum())
            on_floor = weight[mine] < 0.021
            np.testing.assert_allclose(entropy[mine][~on_floor], entropy[mine][~on_floor][0], atol=1e-3)
            assert (entropy[mine][on_floor] >= mean - 1e-3).all()  # dual feasibility of weights at their least


class TestMaximum:
    def test_a_block_update_is_the_star_update_and_optimal(self) -> None:
        graph = random_model([3] * 5, [*unary(5), (0, 1), (0, 2), (3, 0), (0, 4, 2)], seed=5)
        split = split_of(graph, np.zeros(5))
        g, s = split.graph, int(split.graph.node[0])
        clusters, links = g.clusters, range(int(g.links.ptr[s]), int(g.links.ptr[s + 1]))
        own = slice(int(g.separators.cell[s]), int(g.separators.cell[s + 1]))
        tables = {}
        for link in links:
            c = int(g.links.cluster[link])
            scope = [int(v) for v in clusters.var[clusters.ptr[c] : clusters.ptr[c + 1]]]
            tables[link] = split.tables[clusters.cell[c] : clusters.cell[c + 1]].reshape([3] * len(scope)).copy(), scope
        largest = [t.max(axis=tuple(a for a, v in enumerate(scope) if v != 0)) for t, scope in tables.values()]
        node = split.state.sep_tables[own].copy()
        nowhere = np.zeros(g.links.cluster.size, np.bool_)
        nowhere.setflags(write=False)
        before = split.value()
        split.update(np.array([s]), 0, 1, split.options(nowhere, 1, True))
        pooled = node + sum(largest)
        decrease = float(split.state.decrease[s])
        assert decrease == pytest.approx(node.max() + sum(m.max() for m in largest) - pooled.max(), abs=1e-12)
        assert before - split.value() == pytest.approx(decrease, abs=1e-12)
        target = pooled / (len(links) + 1)  # Eq. (3.10): every term becomes the average
        np.testing.assert_allclose(split.state.sep_tables[own], target, atol=1e-12)
        for link, (table, scope) in tables.items():
            c = int(g.links.cluster[link])
            now = split.tables[clusters.cell[c] : clusters.cell[c + 1]].reshape(table.shape)
            np.testing.assert_allclose(now.max(axis=tuple(a for a, v in enumerate(scope) if v)), target, atol=1e-12)
        value, rng = split.value(), np.random.default_rng(0)
        for _ in range(50):  # no other shifts of this separator are better
            x = np.zeros(int(g.link_width.sum()))
            descent = JointDescent(split, 0.002, False)
            start = int(g.link_width[: links[0]].sum())
            x[start : start + 3 * len(links)] = rng.normal(size=3 * len(links))
            assert descent.value_and_gradient(x)[0] >= value - 1e-12
            descent.value_and_gradient(np.zeros(x.size))

    @pytest.mark.parametrize("solver", ["blocks", "lbfgs"])
    def test_the_optimum_on_a_tree_is_the_maximum(self, solver: str) -> None:
        for name in ("tree", "chain", "higher_order_tree"):
            result = bl.maximize(family(name), bl.GDD(solver=solver), tol=0, max_iters=60)
            assert result.log_upper >= reference.maximum(reference.joint_table(family(name))) - 1e-9
            if solver == "blocks":
                assert result.gap == pytest.approx(0.0, abs=1e-9)

    def test_the_optimum_is_at_least_the_linear_program(self) -> None:
        """A frustrated triangle: the local polytope's value is known, and the integer one is below it."""
        repel = np.array([[0.0, 1.0], [1.0, 0.0]])
        graph = bl.FactorGraph.from_tables([2] * 3, [(e, repel) for e in ((0, 1), (1, 2), (0, 2))], log=True)
        result = bl.maximize(graph, "gdd", tol=0, max_iters=50)
        assert result.log_upper == pytest.approx(3.0, abs=1e-9) and result.log_score == 2.0


LEAVES_FIRST = {  # orders in which every variable has one later neighbour at most
    "tree": [2, 4, 6, 7, 3, 5, 1, 0],
    "chain": [0, 1, 2, 3, 4, 5, 6],
    "hard_zeros_tree": [0, 2, 6, 1, 3, 5, 4],
    "star": [1, 2, 3, 4, 5, 6, 7, 8, 0],
}


class TestExactness:
    @pytest.mark.parametrize("name", list(LEAVES_FIRST))
    @pytest.mark.parametrize("tau", [1.0, 0.0, 0.4, 2.0, "sum leaves"])
    def test_trees_with_orders_of_width_one(self, name: str, tau: float | str) -> None:
        graph, order = family(name), LEAVES_FIRST[name]
        heat = np.ones(graph.n_vars) if tau == "sum leaves" else np.full(graph.n_vars, tau)
        if tau == "sum leaves":
            heat[order[len(order) // 2 :]] = 0.0
        truth = exact(graph, order, heat)
        for floor, close in ((0.0, 1e-6), (0.002, 1e-2)):
            split = split_of(graph, heat, order, floor, spread=0.0)
            for _ in range(20):
                split.sweep(1, True, 1)
            assert split.value() == pytest.approx(truth, abs=close * max(1.0, abs(truth)))

    @pytest.mark.parametrize("name", ["tree", "chain", "hard_zeros_tree", "star"])
    def test_marginals_of_trees(self, name: str) -> None:
        graph, joint = family(name), reference.joint_table(family(name))
        for method, close in ((bl.GDD(floor=0.0), 1e-9), (bl.GDD(ibound=2, floor=0.0), 1e-9), (bl.GDD(), 1e-2)):
            result = bl.infer(graph, method)
            np.testing.assert_allclose(result.mu_var, reference.mu_var(joint), atol=close)
            np.testing.assert_allclose(result.mu, reference.mu(graph, joint), atol=close)

    @pytest.mark.parametrize("name", ["grid", "complete", "higher_order", "hard_zeros", "parity"])
    def test_large_ibounds(self, name: str) -> None:
        graph, joint = family(name), reference.joint_table(family(name))
        method = bl.GDD(ibound=9, floor=0.0)
        assert bl.infer(graph, method, max_iters=2).log_z == pytest.approx(reference.log_z(joint), abs=1e-6)
        assert bl.maximize(graph, method, max_iters=60).gap == pytest.approx(0.0, abs=1e-6)
        query = [0, 2, 4]
        best = float(reference.query_values(joint, query).max())
        assert bl.marginal_map(graph, query, method, max_iters=2).log_upper == pytest.approx(best, abs=1e-6)


class TestOptimum:
    @pytest.mark.parametrize("seed", [0, 1])
    def test_it_is_the_tree_reweighted_one_with_the_same_weights(self, seed: int) -> None:
        """Spec 4.13 (7): counting numbers are the weights of the earlier endpoints."""
        graph = random_model([2] * 9, unary(9) + grid_pairs(3, 3), seed=seed, scale=1.0)
        method = bl.GDD(order=list(range(9)), weights=False, floor=0.0, spread=0.4)
        split = split_of(graph, np.ones(9), floor=0.0, spread=0.4)
        rho = np.ones(graph.n_factors)
        pairs = split.graph.home >= 0
        rho[pairs] = split.state.weight[split.graph.clusters.ptr[split.graph.home[pairs]]]
        trw = bl.infer(graph, bl.TRW(rho=rho), tol=1e-12, max_iters=2000)
        assert trw.converged and trw.bound is bl.Bound.UPPER
        for solver, iterations in (("blocks", 1500), ("lbfgs", 1500)):
            ours = bl.infer(graph, _with(method, solver), tol=0, max_iters=iterations)
            assert ours.log_z == pytest.approx(trw.log_z, abs=1e-6)
            np.testing.assert_allclose(ours.mu_var, trw.mu_var, atol=1e-3)

    def test_both_solvers_reach_it(self) -> None:
        graph = random_model([3] * 5, unary(5) + [(u, v) for u in range(5) for v in range(u)], seed=5, scale=0.7)
        methods = [bl.GDD(order=list(range(5)), floor=0.02, solver=solver) for solver in ("blocks", "lbfgs")]
        blocks, joint = (bl.infer(graph, method, tol=0, max_iters=2000).log_z for method in methods)
        assert blocks == pytest.approx(joint, abs=2e-3)

    def test_variables_as_separators_give_the_bound_of_the_factor_graph(self) -> None:
        """Spec 4.13 (10): with an i-bound of 1 a pairwise model has the same clusters and separators."""
        graph = random_model([2] * 9, unary(9) + grid_pairs(3, 3), seed=3)
        order = list(range(9))
        plain, buckets = split_of(graph, np.ones(9), order), split_of(graph, np.ones(9), order, ibound=1)
        assert plain.graph.n_separators == buckets.graph.n_separators == 9
        best = []
        for split in (plain, buckets):
            descent = JointDescent(split, 0.002, True)
            for _ in range(400):
                descent.step()
            best.append(descent.search.value)
        assert best[0] == pytest.approx(best[1], abs=1e-3)

    def test_larger_clusters_are_tighter(self) -> None:
        graph = random_model([2] * 12, unary(12) + grid_pairs(3, 4), seed=4, scale=1.5)
        bounds = [bl.infer(graph, bl.GDD(ibound=k), tol=0, max_iters=200).log_z for k in (1, 2, 3)]
        assert bounds[0] > bounds[1] > bounds[2] >= reference.log_z(reference.joint_table(graph)) - 1e-9


def _with(method: bl.GDD, solver: str) -> bl.GDD:
    return bl.GDD(order=method.order, weights=method.weights, floor=method.floor, spread=method.spread, solver=solver)


class TestSweeps:
    def test_one_and_two_threads_give_the_same_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("beliefs.inference.dual.state._WORTH_THREADS", 0)
        graph = random_model([2] * 30, unary(30) + grid_pairs(5, 6), seed=6)
        for ibound in (None, 2):
            for query in ([], list(range(0, 30, 2)), list(range(30))):
                one, two = (bl.marginal_map(graph, query, bl.GDD(ibound=ibound), threads=n) for n in (1, 2))
                assert one.trace.upper.tobytes() == two.trace.upper.tobytes()
                assert one.assignment.tobytes() == two.assignment.tobytes()

    def test_levels_are_independent_and_keep_neighbours_in_turn(self) -> None:
        graph = JunctionGraph.of_factors(family("higher_order").layout, np.arange(6))
        ptr, cluster = graph.links.ptr, graph.links.cluster
        clusters = [set(cluster[a:b]) for a, b in zip(ptr[:-1], ptr[1:], strict=True)]
        for backward in (False, True):
            order, ends = graph.levels(backward=backward)
            level = {int(s): k for k in range(ends.size - 1) for s in order[ends[k] : ends[k + 1]]}
            assert sorted(level) == list(range(6))
            for s in range(6):
                for other in range(s):
                    if clusters[s] & clusters[other]:
                        assert level[other] > level[s] if backward else level[other] < level[s]

    def test_a_warm_start_goes_on_where_it_stopped(self) -> None:
        graph = family("hard_zeros")
        whole = bl.infer(graph, "gdd", tol=0, max_iters=12)
        part = bl.infer(graph, "gdd", tol=0, max_iters=5)
        rest = bl.infer(graph, "gdd", tol=0, max_iters=7, init=part)
        assert rest.log_z == pytest.approx(whole.log_z, abs=1e-9)
        moved = graph.with_theta(np.where(np.isfinite(graph.theta), graph.theta + 0.01, graph.theta))
        warm = bl.infer(moved, "gdd", tol=0, max_iters=1, init=whole)
        assert reference.log_z(reference.joint_table(moved)) - 1e-9 <= warm.log_z
        assert warm.log_z <= bl.infer(moved, "gdd", tol=0, max_iters=1).log_z
        softer = graph.with_theta(np.maximum(graph.theta, -5.0))  # other zeros: shifts of the old ones do not fit
        fresh = bl.infer(softer, "gdd", max_iters=3, tol=0)
        assert bl.infer(softer, "gdd", max_iters=3, tol=0, init=whole).log_z == fresh.log_z


class TestErrors:
    @pytest.mark.parametrize(
        "options, message",
        [
            ({"ibound": 0}, "ibound"), ({"floor": -0.1}, "floor must be in"), ({"floor": 0.5}, "floor must be in"),
            ({"spread": 1.5}, "spread must be"), ({"local_steps": 0}, "local_steps must be"),
            ({"solver": "newton"}, "solver must be blocks or lbfgs"), ({"weights": 1}, "weights must be True or False"),
            ({"order": "best"}, "order must be"),
        ],
    )  # fmt: skip
    def test_options_out_of_range(self, options: dict[str, object], message: str) -> None:
        with pytest.raises(bl.ModelError, match=message):
            bl.GDD(**options)  # type: ignore[arg-type]

    def test_orders_must_put_sums_first_and_be_complete(self) -> None:
        graph = family("chain")
        with pytest.raises(bl.ModelError, match="must end with the query"):
            bl.marginal_map(graph, ["x0"], bl.GDD(order=list(range(7))))
        with pytest.raises(bl.ModelError, match="lacks 'x6'"):
            bl.infer(graph, bl.GDD(order=list(range(6))))
        with pytest.raises(bl.ModelError, match="tau must be finite and at least 0"):
            bl.infer(graph, bl.GDD(tau=[-1.0] * 7))

    def test_no_weight_anywhere_is_proved(self) -> None:
        never = np.array([[0.0, -np.inf], [-np.inf, -np.inf]])
        graph = bl.FactorGraph.from_tables([2, 2, 2], [((0, 1), never), ((1, 2), never[::-1])], log=True)
        for method in ("gdd", "gdd(ibound=1)"):
            with pytest.raises(bl.ZeroProbabilityError):
                bl.infer(graph, method)

    def test_clusters_that_do_not_fit_are_refused_first(self) -> None:
        graph = bl.datasets.make_ising_grid(40, seed=0)
        with pytest.raises(bl.BudgetError, match="gdd with ibound=35 needs .* Lower ibound"):
            bl.infer(graph, bl.GDD(ibound=35), max_bytes=10**9)

    def test_a_power_sum_says_what_it_is(self) -> None:
        graph = family("grid")
        cold, hot = (bl.infer(graph, bl.GDD(tau=np.full(12, t))) for t in (0.5, 2.0))
        assert cold.bound is bl.Bound.ESTIMATE and cold.log_upper == np.inf
        assert hot.bound is bl.Bound.UPPER and hot.log_upper >= bl.infer(graph).log_z


def test_decodings_are_real_and_bounds_close_around_them() -> None:
    graph = family("grid")
    joint = reference.joint_table(graph)
    result = bl.marginal_map(graph, [0, 5, 7], "gdd", trace_every=1)
    values = reference.query_values(joint, [0, 5, 7])
    assert result.log_value == pytest.approx(float(values[tuple(result.assignment)]), abs=1e-9)
    assert result.log_value <= values.max() + 1e-9 <= result.log_upper + 2e-9
    assert Task.MARGINAL_MAP in bl.GDD.tasks
