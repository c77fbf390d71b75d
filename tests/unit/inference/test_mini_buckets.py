"""Mini-buckets: the partition, and bounds by elimination and by weights, against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.inference.base import Problem, Task
from beliefs.inference.buckets.bucket_order import few_later_neighbours
from beliefs.inference.buckets.bucket_run import BucketRun, elimination_weights, lower_weights, uniform_weights
from beliefs.inference.buckets.bucket_tree import BucketTree, bucket_tree, plan_bytes, predicted_bytes
from beliefs.inference.buckets.content import partition_by_content
from beliefs.inference.clusters.partition import MiniBuckets, partition
from beliefs.inference.orders.chosen import chosen_order
from beliefs.inference.orders.orders import Order
from beliefs.inference.orders.planned import planned_order
from families import FAMILIES, family, random_model


def random_case(seed: int, *, zeros: float = 0.0) -> bl.FactorGraph:
    """A small random model: up to six variables of one to three states, factors of one to four variables."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    card = rng.integers(1, 4, n).tolist()
    scopes = [tuple(rng.permutation(n)[: rng.integers(1, min(n, 4) + 1)].tolist()) for _ in range(rng.integers(1, 9))]
    return random_model(card, scopes, seed=seed, scale=float(rng.choice([0.3, 1.0, 4.0])), zeros=zeros)


def order_of(graph: bl.FactorGraph, listed: list[int] | None = None) -> Order:
    problem = Problem(graph)
    return chosen_order(problem, "auto" if listed is None else listed)


def check_partition(graph: bl.FactorGraph, order: Order, ibound: int, found: MiniBuckets) -> None:
    largest = max((int(s) for s in np.diff(graph.layout.scope_ptr)), default=0)
    scopes = [tuple(found.axes[a:b]) for a, b in itertools.pairwise(found.axes_ptr)]
    for scope in scopes:
        assert list(scope) == sorted(set(scope)) and len(scope) <= max(ibound + 1, largest)
    for f in range(graph.n_factors):
        placed = {int(np.flatnonzero(found.order == v)[0]) for v in graph.layout.scope(f)}
        host = found.host[f]
        assert (host < 0) if not placed else placed <= set(scopes[host]) and min(placed) == scopes[host][0]
    for c, (scope, parent) in enumerate(zip(scopes, found.parent, strict=True)):
        assert (parent < 0) == (len(scope) == 1)
        if parent >= 0:
            assert parent > c and set(scope[1:]) <= set(scopes[parent]) and scopes[parent][0] == scope[1]
    assert (np.diff(found.variable) >= 0).all()


@pytest.mark.parametrize("ibound", [1, 2, 3])
@pytest.mark.parametrize("name", list(FAMILIES))
def test_a_partition_holds_every_factor_and_respects_the_ibound(name: str, ibound: int) -> None:
    graph = family(name)
    order = order_of(graph)
    check_partition(graph, order, ibound, partition(graph.layout, order, ibound))
    problem = Problem(graph)
    check_partition(graph, order, ibound, partition_by_content(problem, order, ibound, problem.tau))


def test_at_the_width_nothing_is_split() -> None:
    for seed in range(200):
        graph = random_case(seed)
        order = order_of(graph)
        assert not partition(graph.layout, order, max(order.width, 1)).split


def test_a_degeneracy_order_removes_a_vertex_of_least_degree() -> None:
    for seed in range(100):
        graph = random_case(seed)
        query = np.arange(0, graph.n_vars, 3) if seed % 2 else np.zeros(0, np.int64)
        problem = Problem(graph, Task.MARGINAL_MAP if seed % 2 else Task.INFER, query=query)
        near: dict[int, set[int]] = {v: set() for v in range(graph.n_vars)}
        for f in range(graph.n_factors):
            for u, v in itertools.permutations(graph.layout.scope(f).tolist(), 2):
                near[u].add(v)
        found = few_later_neighbours(problem).order.tolist()
        left = {v for v in range(graph.n_vars) if graph.layout.var_ptr[v] < graph.layout.var_ptr[v + 1]}
        assert sorted(found) == sorted(left)
        for v in found:
            rivals = [u for u in left if u not in query] or list(left)
            assert v in rivals and len(near[v] & left) == min(len(near[u] & left) for u in rivals)
            left.remove(v)


def test_the_better_of_two_orders_is_taken() -> None:
    graph = bl.datasets.make_ising_grid(10, seed=0)
    problem = Problem(graph)
    orders = [planned_order(problem, "auto").order.tolist(), few_later_neighbours(problem).order.tolist()]
    taken = []
    for ibound in (1, 8):
        each = [bl.infer(graph, bl.WMB(ibound=ibound, order=order), max_iters=0).log_z for order in orders]
        assert bl.infer(graph, bl.WMB(ibound=ibound), max_iters=0).log_z == min(each)
        taken.append(int(np.argmin(each)))
    assert taken == [1, 0], "small i-bounds want few later neighbours, large ones a small width"


def runs(graph: bl.FactorGraph, tau: np.ndarray, ibound: int, listed: list[int]) -> tuple[BucketRun, BucketTree]:
    problem = Problem(graph)
    plan = bucket_tree(problem, chosen_order(problem, listed), ibound, "test")
    return BucketRun(problem, plan, tau, uniform_weights(plan, tau)), plan


@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_power_sums_are_bounded_for_any_shifts_and_weights(zeros: float) -> None:
    """Hölder: random temperatures, weights and shifts, random orders, factors larger than the i-bound."""
    for seed in range(700):
        graph = random_case(seed, zeros=zeros)
        rng = np.random.default_rng(seed)
        listed = rng.permutation(graph.n_vars).tolist()
        tau = rng.choice([0.0, 0.3, 1.0, 2.0], graph.n_vars)
        truth, _ = reference.power_sum(reference.joint_table(graph), listed, tau.tolist())
        run, plan = runs(graph, tau, int(rng.integers(1, 3)), listed)
        assert run.forward() >= truth - 1e-9 * max(1.0, abs(truth))
        share = rng.dirichlet(np.ones(max(1, plan.buckets.n_clusters)))[: plan.buckets.n_clusters]
        total = np.bincount(plan.buckets.variable, share, plan.buckets.order.size)[plan.buckets.variable]
        run.weight = tau[plan.buckets.order][plan.buckets.variable] * share / total
        for position in np.flatnonzero(plan.buckets.replicas > 1):
            replicas = np.flatnonzero(plan.buckets.variable == position)
            shift = rng.normal(size=(replicas.size, plan.buckets.card[position]))
            for r, row in zip(replicas, shift - shift.mean(axis=0), strict=True):
                run.tables[plan.shift_at[r] :][: row.size] = row
        assert run.forward() >= truth - 1e-9 * max(1.0, abs(truth))
        run.weight = elimination_weights(plan, tau)
        assert run.forward() >= truth - 1e-9 * max(1.0, abs(truth))


def test_one_positive_weight_bounds_sums_from_below() -> None:
    for seed in range(500):
        graph = random_case(seed)
        truth = reference.log_z(reference.joint_table(graph))
        rng = np.random.default_rng(seed)
        run, plan = runs(graph, np.ones(graph.n_vars), 1, rng.permutation(graph.n_vars).tolist())
        for size in (1e-9, 0.2, 1.5):
            run.weight = lower_weights(plan, run.tau, size)
            assert run.forward() <= truth + 1e-9 * max(1.0, abs(truth))
            run.backward()
            assert run.match(0.5, 0.3) <= truth + 1e-9 * max(1.0, abs(truth))
            run.shifts[:] = 0.0


@pytest.mark.parametrize("lower", [False, True])
def test_beliefs_and_entropies_are_the_derivatives_of_the_bound(lower: bool) -> None:
    graph = random_model([2, 3, 2, 2, 3, 2], [(a, b) for a in range(6) for b in range(a)], seed=5)
    problem = Problem(graph)
    plan = bucket_tree(problem, order_of(graph), 1, "test")
    weight = lower_weights(plan, problem.tau, 0.4) if lower else uniform_weights(plan, problem.tau)
    run = BucketRun(problem, plan, problem.tau, weight)
    run.forward()
    _, mu_factor = run.beliefs()
    step = 1e-6
    for cell in range(0, graph.theta.size, 7):
        high, low = graph.theta.copy(), graph.theta.copy()
        high[cell] += step
        low[cell] -= step
        ends = [BucketRun(Problem(graph.with_theta(t)), plan, run.tau, weight).forward() for t in (high, low)]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(mu_factor[cell], abs=1e-7)
    run.backward()
    replicas = np.flatnonzero(plan.buckets.variable == np.argmax(plan.buckets.replicas))
    ends = []
    for sign in (1.0, -1.0):  # moving weight from one replica to another: the difference of their entropies
        run.weight = weight.copy()
        run.weight[replicas[:2]] += sign * step * np.array([1.0, -1.0])
        ends.append(run.forward())
    run.weight = weight
    run.forward()
    run.backward()
    entropies = [conditional_entropy(run, int(c)) for c in replicas[:2]]
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(entropies[0] - entropies[1], abs=1e-6)


def conditional_entropy(run: BucketRun, c: int) -> float:
    """H(x | s) of a cluster, its table written out with NumPy."""
    tree, weight = run.plan.tree, run.weight[c]
    first, last = tree.axes_ptr[c], tree.axes_ptr[c + 1]
    shape = tuple(tree.axes_card[first:last])
    table = np.zeros(shape)
    for o in range(tree.op_ptr[c], tree.op_ptr[c + 1] - 1):
        stride = tree.op_stride[tree.stride_ptr[o] :][: last - first]
        at = sum(s * index for s, index in zip(stride, np.indices(shape), strict=True)) + tree.slot_ptr[tree.op_slot[o]]
        table += run.tables[at]
    own = tree.op_slot[tree.op_ptr[c + 1] - 1]
    ends = slice(tree.slot_ptr[own], tree.slot_ptr[own + 1])
    logits = (table + run.back[ends].reshape(shape[1:])) / weight
    q = np.exp(logits - logits.max())
    q /= q.sum()
    conditional = q / q.sum(axis=0)
    return float(-(q * np.log(conditional)).sum())


def test_matching_tightens_at_every_sweep_of_a_grid() -> None:
    graph = bl.datasets.make_ising_grid(3, 4, seed=2)
    truth = bl.infer(graph, "enumeration").log_z
    run, _ = runs(graph, np.ones(12), 1, list(range(12)))
    values = [run.forward()]
    run.backward()
    for _ in range(100):
        values.append(run.match(0.5, 0.1))
        run.backward()
    assert (np.diff(values) <= 1e-12).all() and min(values) >= truth
    assert values[-1] - truth < 0.8 * (values[0] - truth)  # and it is worth the while


@pytest.mark.parametrize("seed", range(3))
def test_content_and_scope_give_bounds_of_their_own(seed: int) -> None:
    graph = bl.datasets.make_ising_grid(4, seed=seed)
    truth = bl.infer(graph).log_z
    found = {p: bl.infer(graph, f"mini_bucket(ibound=2, partition={p})") for p in ("scope", "content")}
    for answer in found.values():
        assert answer.log_lower < truth < answer.log_upper and answer.bound is bl.Bound.UPPER
    assert found["scope"].log_upper != found["content"].log_upper


def test_content_keeps_together_what_is_strongly_coupled() -> None:
    """x0 meets x1 twice in effect: the pair that would lose most is not split."""
    strong, weak = [[4.0, -4.0], [-4.0, 4.0]], [[0.1, 0.0], [0.0, 0.1]]
    graph = bl.FactorGraph.from_tables(
        [2, 2, 2, 2], [((0, 3), weak), ((0, 1), strong), ((0, 2), strong), ((1, 2), strong)], log=True
    )
    problem = Problem(graph)
    order = chosen_order(problem, [0, 1, 2, 3])
    hosts = partition_by_content(problem, order, 2, problem.tau).host
    assert hosts[1] == hosts[2] != hosts[0]
    assert partition(graph.layout, order, 2).host[0] == partition(graph.layout, order, 2).host[1]


def test_an_unconstrained_order_bounds_marginal_map() -> None:
    for seed in range(100):
        graph = random_case(seed)
        query = list(range(0, graph.n_vars, 2))
        optimum = float(reference.query_values(reference.joint_table(graph), query).max())
        for ibound in (1, 6):
            answer = bl.marginal_map(graph, query, f"mini_bucket(ibound={ibound}, order=unconstrained)")
            assert answer.log_upper >= optimum - 1e-9 * max(1.0, abs(optimum)) and answer.log_value <= optimum + 1e-9


def test_memory_is_predicted() -> None:
    for rows, ibound in ((20, 1), (20, 6), (20, 12), (40, 10)):
        graph = bl.datasets.make_ising_grid(rows, seed=0)
        problem = Problem(graph)
        plan = bucket_tree(problem, order_of(graph), ibound, "test")
        buckets, slots = plan.buckets, int(plan.tree.slot_ptr[-1])
        divided = buckets.axes_ptr, buckets.axes, buckets.parent, buckets.host, buckets.scope_ptr, buckets.scope
        held = (*plan.tree, plan.source, plan.target, plan.factors, plan.shift_at, *divided)
        kept = sum(array.nbytes for array in held)
        besides = predicted_bytes(buckets, graph.layout) - plan_bytes(buckets, graph.layout)
        assert 24 * slots * (1 - 1e-9) <= besides <= 24 * slots + kept  # the rest is what making the plan leaves
        if ibound > 1:
            predicted = plan_bytes(buckets, graph.layout) + 24 * slots
            assert predicted == pytest.approx(kept + 24 * slots, rel=0.2)


@pytest.mark.parametrize("method", ["wmb", "mini_bucket"])
def test_bad_options_are_named(method: str) -> None:
    graph = bl.datasets.make_ising_grid(3, seed=0)
    for text, message in (
        ("ibound=0", "ibound must be an integer of at least 1, found 0"),
        ("ibound=1.5", "ibound must be"),
        ("order=sideways", "order must be one of"),
    ):
        with pytest.raises(bl.ModelError, match=message):
            bl.infer(graph, f"{method}({text})")
    cls: type[bl.WMB] | type[bl.MiniBucket] = bl.WMB if method == "wmb" else bl.MiniBucket
    with pytest.raises(bl.ModelError, match="tau must be finite and at least 0"):
        bl.infer(graph, cls(tau=[-1.0] * 9))
    with pytest.raises(bl.ModelError, match="must end with the query"):
        bl.marginal_map(graph, [0], cls(order=list(range(9))))
    with pytest.raises(bl.ModelError, match="lacks 'x8'"):
        bl.infer(graph, cls(order=list(range(8))))
    with pytest.raises(bl.BudgetError, match=r"with ibound=9 needs .*Lower ibound"):
        bl.infer(bl.datasets.make_ising_grid(20, seed=0), cls(ibound=9), max_bytes=1000)
