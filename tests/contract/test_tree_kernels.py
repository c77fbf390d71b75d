"""Kernels of the cluster tree against NumPy: symbolic elimination, layout, passes in both domains, decoding, draws.

Trees are planned as the engines plan them, for random graphs, orders and temperatures; large complete graphs make
clusters of several blocks and grouped operands.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beliefs as bl
import reference
from beliefs.inference.clusters.cluster_tree import ClusterTree
from beliefs.inference.orders.orders import order_cost
from beliefs.kernels.trees import blocks as walking
from beliefs.kernels.trees import decode as tree_decode
from beliefs.kernels.trees import linear as tree_linear
from beliefs.kernels.trees import log as tree_log
from beliefs.kernels.trees import plan as planning
from families import random_model
from strategies import examples, factor_graphs

pytestmark = pytest.mark.usefixtures("both_ways")

WIDE = random_model([3] * 7, [(u, v) for u in range(7) for v in range(u)], seed=1)  # one clique of 2187 cells
RAGGED = random_model([2, 5, 3, 4, 2, 3, 1, 4], [(0, 1, 2), (2, 3, 4, 6), (4, 5, 7), (7, 0), (1, 5), (3,)], seed=2)
SPARSE = random_model([4] * 6, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5), (5, 3), (2, 5)], seed=3, zeros=0.3)
LARGE = pytest.mark.parametrize("graph", [WIDE, RAGGED, SPARSE], ids=["wide", "ragged", "sparse"])
both = pytest.mark.parametrize("absorb", [True, False])


def planted(graph: bl.FactorGraph, order: list[int], tau: np.ndarray | None = None, absorb: bool = True) -> ClusterTree:
    lay = graph.layout
    connected = [v for v in order if lay.var_ptr[v + 1] > lay.var_ptr[v]]
    cost = order_cost(lay.card, lay.scope_ptr, lay.scope_vars, connected)
    return ClusterTree.build(lay, cost, np.ones(lay.n_vars) if tau is None else tau, absorb=absorb)


class Cluster:
    """One cluster of a planned tree in NumPy terms: its variables, and where each operand's cells fall."""

    def __init__(self, graph: bl.FactorGraph, plan: ClusterTree, c: int) -> None:
        t = plan.tree
        span = slice(t.axes_ptr[c], t.axes_ptr[c + 1])
        self.variables, self.shape = t.axes_var[span].tolist(), tuple(t.axes_card[span].tolist())
        self.n_eliminated, self.number = int(t.n_eliminated[c]), c
        self.slots = t.op_slot[t.op_ptr[c] : t.op_ptr[c + 1]].tolist()
        self.separator = self.slots[-1]
        place = {int(v): k for k, v in enumerate(plan.order.order)}
        self.slot_variables = [slot_variables(graph, plan, s, place) for s in self.slots]

    def spread(self, values: np.ndarray, k: int) -> np.ndarray:
        """Broadcast the table of operand ``k`` over the cluster's axes."""
        axes = [self.variables.index(v) for v in self.slot_variables[k]]
        shape = [self.shape[a] if a in axes else 1 for a in range(len(self.shape))]
        return np.broadcast_to(values.reshape(shape), self.shape)

    def rows(self, table: np.ndarray) -> np.ndarray:
        """The table as a matrix: states of the eliminated variables by states of the separator."""
        return table.reshape(int(np.prod(self.shape[: self.n_eliminated])), -1)


def slot_variables(graph: bl.FactorGraph, plan: ClusterTree, slot: int, place: dict[int, int]) -> list[int]:
    """Variables of a slot in the order of its axes: factors by position, separators as their clusters have them."""
    t, n_factors = plan.tree, plan.factors.size
    if slot < n_factors:
        return sorted((int(v) for v in graph.layout.scope(int(plan.factors[slot]))), key=lambda v: place[v])
    c = slot - n_factors
    return t.axes_var[t.axes_ptr[c] + t.n_eliminated[c] : t.axes_ptr[c + 1]].tolist()


def clusters(graph: bl.FactorGraph, plan: ClusterTree) -> list[Cluster]:
    return [Cluster(graph, plan, c) for c in range(plan.tree.block.size)]


def slot(plan: ClusterTree, s: int) -> slice:
    return slice(int(plan.tree.slot_ptr[s]), int(plan.tree.slot_ptr[s + 1]))


@st.composite
def plans(draw: st.DrawFn) -> tuple[bl.FactorGraph, ClusterTree]:
    """A random graph with a random order; buckets merged or not."""
    graph = draw(factor_graphs(scales=(1.0,)))
    order = draw(st.permutations(range(graph.n_vars)))
    return graph, planted(graph, list(order), absorb=draw(st.booleans()))


def symbolically_eliminated(
    data: st.DataObject, lay: bl.Layout
) -> tuple[list[int], np.ndarray, tuple[np.ndarray, ...]]:
    """A random order of the variables of factors, their positions in it, and its symbolic elimination."""
    order = [v for v in data.draw(st.permutations(range(lay.n_vars))) if lay.var_ptr[v + 1] > lay.var_ptr[v]]
    position = np.full(lay.n_vars, -1, np.int64)
    position[order] = np.arange(len(order))
    found = planning.eliminate_symbolic(lay.scope_ptr, lay.scope_vars, np.array(order, np.int64), position)
    return order, position, found


class TestPlanning:
    @given(data=st.data(), graph=factor_graphs())
    @examples(80)
    def test_eliminate_symbolic(self, data: st.DataObject, graph: bl.FactorGraph) -> None:
        lay = graph.layout
        order, position, (ptr, members, parent, bucket) = symbolically_eliminated(data, lay)
        functions = [{int(position[v]) for v in lay.scope(f)} for f in range(lay.n_factors)]
        assert bucket.tolist() == [min(f, default=-1) for f in functions]
        for i in range(len(order)):  # the elimination game with sets
            met = set().union({i}, *(f for f in functions if i in f))
            functions = [f for f in functions if i not in f] + [met - {i}]
            assert members[ptr[i] : ptr[i + 1]].tolist() == sorted(met)
            assert parent[i] == min(met - {i}, default=-1)

    @given(data=st.data(), graph=factor_graphs())
    @examples(60)
    def test_absorbed_buckets_lie_inside_their_owners(self, data: st.DataObject, graph: bl.FactorGraph) -> None:
        order, _, (ptr, members, parent, _) = symbolically_eliminated(data, graph.layout)
        heat = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=len(order), max_size=len(order))))
        for enabled in (False, True):
            owner, eliminated, last, rank = planning.absorb_clusters(ptr, parent, heat, enabled)
            scopes = [set(members[ptr[i] : ptr[i + 1]].tolist()) for i in range(len(order))]
            assert all(scopes[i] <= scopes[owner[i]] and heat[i] == heat[owner[i]] for i in range(len(order)))
            assert sorted(rank.tolist()) == sorted(set(owner.tolist())) and last[rank].tolist() == sorted(last[rank])
            assert [int(np.sum(owner == i)) for i in rank] == eliminated[rank].tolist()
            if not enabled:
                assert owner.tolist() == list(range(len(order)))

    @given(st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=7), min_size=1, max_size=4), st.data())
    @examples(60)
    def test_choose_blocks(self, shapes: list[list[int]], data: st.DataObject) -> None:
        ptr = np.concatenate([[0], np.cumsum([len(s) for s in shapes])]).astype(np.int64)
        card = np.array([k for s in shapes for k in s], np.int64)
        gone = np.array([data.draw(st.integers(0, len(s))) for s in shapes], np.int64)
        split = data.draw(st.booleans())
        n_outer, block, cells, columns = np.empty((4, len(shapes)), np.int64)
        planning.choose_blocks(ptr, card, gone, 16, 64, split, n_outer, block, cells, columns)
        for c, shape in enumerate(shapes):
            inner, least = shape[n_outer[c] :], gone[c] if split else 0
            assert block[c] == np.prod(inner) and cells[c] == np.prod(shape) and columns[c] == np.prod(shape[gone[c] :])
            assert n_outer[c] >= least
            assert block[c] >= 16 or n_outer[c] == least or block[c] * shape[n_outer[c] - 1] > 64
            assert block[c] <= 64 or len([k for k in inner if k > 1]) == 1

    @given(plans())
    @examples(60)
    def test_factor_cells(self, planned: tuple[bl.FactorGraph, ClusterTree]) -> None:
        graph, plan = planned
        lay = graph.layout
        place = {int(v): k for k, v in enumerate(plan.order.order)}
        source, target = [], []
        for f in map(int, plan.factors):
            axes = np.argsort([place[int(v)] for v in lay.scope(f)])
            cells = np.arange(lay.factor_size[f]).reshape(lay.shape(f)).transpose(axes).ravel()
            source.append(lay.cell_ptr[f] + cells)
            target.append(lay.table_ptr[f] + cells)
        assert plan.source.tolist() == np.concatenate([*source, np.zeros(0, int)]).tolist()
        assert plan.target.tolist() == np.concatenate([*target, np.zeros(0, int)]).tolist()

    @LARGE
    @both
    def test_operands_are_broadcast_over_their_clusters(self, graph: bl.FactorGraph, absorb: bool) -> None:
        self.check_operands(graph, planted(graph, list(range(graph.n_vars)), absorb=absorb))

    @given(plans())
    @examples(40)
    def test_operands_of_random_trees(self, planned: tuple[bl.FactorGraph, ClusterTree]) -> None:
        self.check_operands(*planned)

    def check_operands(self, graph: bl.FactorGraph, plan: ClusterTree) -> None:
        t = plan.tree
        assert sorted(s for c in clusters(graph, plan) for s in c.slots[:-1] if s < plan.factors.size) == list(
            range(plan.factors.size)
        )
        for cluster in clusters(graph, plan):
            c, size, n_outer = cluster.number, int(t.block[cluster.number]), int(t.n_outer[cluster.number])
            for k, s in enumerate(cluster.slots):
                o = int(t.op_ptr[c]) + k
                n = int(t.slot_ptr[s + 1] - t.slot_ptr[s])
                wanted = cluster.spread(np.arange(n), k).reshape(-1, size)
                strides = t.op_stride[t.stride_ptr[o] : t.stride_ptr[o] + len(cluster.shape)]
                starts = np.array([np.dot(d, strides[:n_outer]) for d in np.ndindex(*cluster.shape[:n_outer])])
                read = t.maps[t.op_map[o] : t.op_map[o] + size].astype(np.int64)
                inner, mode = int(t.op_inner[o]), int(t.op_mode[o])
                within = {
                    walking.SCALAR: np.zeros(size, np.int64),
                    walking.RUN: np.arange(size),
                    walking.TILED: np.arange(size) % inner,
                    walking.REPEATED: np.arange(size) // (size // inner),
                    walking.MAPPED: read,
                }[mode]
                np.testing.assert_array_equal(starts[:, None] + within, wanted)
                if mode >= walking.MAPPED:  # the map for adding lists every cell of the block once, by operand cell
                    rows = t.maps[t.op_map[o] + size : t.op_map[o] + 2 * size].astype(np.int64).reshape(-1, inner)
                    assert sorted(rows.ravel().tolist()) == list(range(size))
                    np.testing.assert_array_equal(read[rows], np.broadcast_to(np.arange(inner), rows.shape))


class TestWalking:
    @pytest.mark.parametrize("extents, n_fast, n_axes", [([2, 3, 2, 5], 2, 3), ([3, 2, 4], 0, 2), ([2, 2, 2], 3, 3)])
    def test_the_odometer_turns_fast_axes_first_and_offsets_follow(
        self, extents: list[int], n_fast: int, n_axes: int
    ) -> None:
        rng = np.random.default_rng(0)
        strides = rng.integers(0, 50, (3, len(extents)))
        offset, digit = np.empty(3, np.int64), np.empty(4, np.int64)
        walking.rewind(np.array([2, 0, 1]), np.array([10, 20, 40, 80]), n_axes, offset, digit)
        assert offset.tolist() == [40, 10, 20] and digit[:n_axes].tolist() == [0] * n_axes
        slow, fast = extents[n_fast:n_axes], extents[:n_fast]
        for s, f in product(np.ndindex(*slow), np.ndindex(*fast)):
            wanted = [*f, *s]
            assert digit[:n_axes].tolist() == wanted
            assert offset.tolist() == ([40, 10, 20] + strides[:, :n_axes] @ np.array(wanted, np.int64)).tolist()
            walking.advance(np.array(extents), n_fast, n_axes, strides.ravel(), 3, offset, digit)
        assert offset.tolist() == [40, 10, 20]  # a full turn

    @pytest.mark.parametrize("mode", [walking.SCALAR, walking.RUN, walking.MAPPED, walking.TILED, walking.REPEATED])
    def test_blocks_are_added_and_operands_combined(self, mode: int) -> None:
        rng = np.random.default_rng(mode)
        size, inner, at = 12, 4, 3
        # which cell of the operand each cell of the block belongs to
        cell = np.arange(size) // (size // inner) if mode == walking.REPEATED else np.arange(size) % inner
        read = {walking.SCALAR: np.zeros(size, np.int64), walking.RUN: np.arange(size)}.get(mode, cell)
        maps = np.concatenate([cell, np.argsort(cell, kind="stable").reshape(inner, -1).T.ravel()]).astype(np.uint32)
        block, target = rng.random(size), rng.random(30)
        expected = target.copy()
        np.add.at(expected, at + read, block)
        walking.add_block(mode, maps[size:], inner, block, float(block.sum()), at, target)
        np.testing.assert_allclose(target, expected, rtol=1e-14)

        modes, starts = np.array([mode, walking.MAPPED, walking.RUN, walking.SCALAR]), np.zeros(4, np.int64)
        inners = np.full(4, inner)
        offset, tables, out = np.array([at, 0, 10, 25]), rng.random(40) + 0.1, np.empty(size)
        parts = [tables[at + read], tables[cell], tables[10 : 10 + size], np.full(size, tables[25])]
        for n_ops in (1, 2, 3, 4):
            assert tree_linear.multiply_block(modes, starts, inners, maps, n_ops, offset, tables, out)
            np.testing.assert_allclose(out, np.prod(parts[:n_ops], axis=0), rtol=1e-14)
            tree_log.add_operands(modes, starts, maps, n_ops, offset, tables, out)
            np.testing.assert_allclose(out, np.sum(parts[:n_ops], axis=0), rtol=1e-14)
        column = np.empty(size, np.int64)
        tree_log.fill_columns(mode, maps[:size], at, column)
        assert column.tolist() == (at + read).tolist()
        assert walking.sum_block(block) == pytest.approx(block.sum(), rel=1e-14)

    def test_a_zero_scalar_skips_the_block(self) -> None:
        modes, starts, maps = np.array([walking.RUN, walking.SCALAR]), np.zeros(2, np.int64), np.zeros(0, np.uint32)
        out = np.ones(3)
        zero = np.array([1.0, 2.0, 3.0, 0.0])
        assert not tree_linear.multiply_block(modes, starts, np.ones(2, np.int64), maps, 2, np.array([0, 3]), zero, out)
        assert out.tolist() == [0.0, 0.0, 0.0]


class TestPasses:
    """Collect and distribute, cluster by cluster, against broadcast products and sums."""

    @LARGE
    @both
    @pytest.mark.parametrize("seed", range(3))
    def test_linear(self, graph: bl.FactorGraph, absorb: bool, seed: int) -> None:
        self.check_linear(graph, planted(graph, shuffled(graph, seed), absorb=absorb))

    @LARGE
    @both
    @pytest.mark.parametrize("seed", range(3))
    def test_log(self, graph: bl.FactorGraph, absorb: bool, seed: int) -> None:
        tau = np.random.default_rng(seed).choice([0.0, 1.0, 0.5, 2.0], graph.n_vars) if seed else np.ones(graph.n_vars)
        self.check_log(graph, planted(graph, shuffled(graph, seed), tau, absorb=absorb and seed == 0))

    @given(plans())
    @examples(60)
    def test_both_on_random_trees(self, planned: tuple[bl.FactorGraph, ClusterTree]) -> None:
        graph, plan = planned
        if plan.tree.block.size:
            self.check_linear(graph, plan)
            self.check_log(graph, plan)

    def check_linear(self, graph: bl.FactorGraph, plan: ClusterTree) -> None:
        t, n_factors = plan.tree, plan.factors.size
        tables = np.zeros(int(t.slot_ptr[-1]))
        ranges, tops = np.zeros(t.slot_ptr.size - 1), np.empty(t.block.size)
        for s in range(n_factors):
            values = np.exp(graph.theta[plan.source[slot(plan, s)]])
            tables[slot(plan, s)] = values / values.max()
        assert tree_linear.collect_linear(t, tables, ranges, 600.0, tops) == tree_linear.DONE
        for c in clusters(graph, plan):
            phi = np.prod([c.spread(tables[slot(plan, s)], k) for k, s in enumerate(c.slots[:-1])], axis=0)
            message = c.rows(np.broadcast_to(phi, c.shape)).sum(axis=0)
            assert tops[c.number] == pytest.approx(message.max(), rel=1e-12)
            np.testing.assert_allclose(tables[slot(plan, c.separator)], message / message.max(), rtol=1e-12)
            spread = np.log(message.max()) - np.log(message[message > 0].min())
            assert ranges[c.separator] == pytest.approx(spread, abs=1e-12)
        beliefs = np.zeros(tables.size)
        tree_linear.distribute_linear(t, tables, tops, beliefs)
        self.check_beliefs(graph, plan, beliefs, reference.probabilities(reference.joint_table(graph)))

    def check_log(self, graph: bl.FactorGraph, plan: ClusterTree) -> None:
        t = plan.tree
        tables = np.full(int(t.slot_ptr[-1]), np.nan)
        tables[: plan.source.size] = graph.theta[plan.source]
        assert tree_log.collect_log(t, tables) == tree_linear.DONE
        for c in clusters(graph, plan):
            u = np.sum([c.spread(tables[slot(plan, s)], k) for k, s in enumerate(c.slots[:-1])], axis=0)
            u, tau = c.rows(np.broadcast_to(u, c.shape)), float(t.temperature[c.number])
            message = u.max(axis=0) if tau == 0 else tau * reference.log_sum_exp(u / tau, 0)
            np.testing.assert_allclose(tables[slot(plan, c.separator)], message, rtol=1e-12, atol=1e-12)
        beliefs = np.zeros(tables.size)
        tree_log.distribute_log(t, tables, beliefs)
        taus = np.ones(graph.n_vars)
        for c in clusters(graph, plan):
            taus[c.variables[: c.n_eliminated]] = t.temperature[c.number]
        rest = [v for v in range(graph.n_vars) if v not in plan.order.order]
        order = [*plan.order.order.tolist(), *rest]
        _, belief = reference.power_sum(reference.joint_table(graph), order, taus.tolist())
        self.check_beliefs(graph, plan, beliefs, belief)

    def check_beliefs(self, graph: bl.FactorGraph, plan: ClusterTree, beliefs: np.ndarray, joint: np.ndarray) -> None:
        for c in clusters(graph, plan):
            for k, s in enumerate(c.slots):
                kept = c.slot_variables[k]
                summed = joint.sum(axis=tuple(v for v in range(graph.n_vars) if v not in kept))
                wanted = summed.transpose([sorted(kept).index(v) for v in kept]).ravel()
                np.testing.assert_allclose(beliefs[slot(plan, s)], wanted, atol=1e-12)

    def test_out_of_range_is_said_and_zero_is_proved(self) -> None:
        graph = bl.FactorGraph.from_tables([2, 2], [((0, 1), np.eye(2)), ((0,), [1, 0]), ((1,), [0, 1])])
        plan = planted(graph, [0, 1])
        tables = np.exp(np.concatenate([graph.theta[plan.source], np.zeros(int(plan.tree.slot_ptr[-1]) - 8)]))
        ranges, tops = np.zeros(plan.tree.slot_ptr.size - 1), np.empty(plan.tree.block.size)
        assert tree_linear.collect_linear(plan.tree, tables, ranges, 600.0, tops) == tree_linear.ZERO
        ranges[:3] = 250.0
        assert tree_linear.collect_linear(plan.tree, tables, ranges, 600.0, tops) == tree_linear.OUT_OF_RANGE
        logs = np.concatenate([graph.theta[plan.source], np.zeros(tables.size - 8)])
        assert tree_log.collect_log(plan.tree, logs) == tree_linear.ZERO


def shuffled(graph: bl.FactorGraph, seed: int) -> list[int]:
    return np.random.default_rng(seed).permutation(graph.n_vars).tolist()


class TestDecoding:
    @LARGE
    @pytest.mark.parametrize("seed", range(3))
    def test_the_maximiser_is_read_off_column_by_column(self, graph: bl.FactorGraph, seed: int) -> None:
        plan = planted(graph, shuffled(graph, seed), np.zeros(graph.n_vars))
        tables = np.zeros(int(plan.tree.slot_ptr[-1]))
        tables[: plan.source.size] = graph.theta[plan.source]
        tree_log.collect_log(plan.tree, tables)
        row = np.zeros(graph.n_vars, np.int64)
        tree_decode.decode_maximum(plan.tree, tables, row)
        joint = reference.joint_table(graph)
        assert joint[tuple(row)] == pytest.approx(joint.max(), rel=1e-12)

    @LARGE
    @pytest.mark.parametrize("logs", [False, True])
    def test_a_draw_searches_the_cumulative_column(self, graph: bl.FactorGraph, logs: bool) -> None:
        plan = planted(graph, shuffled(graph, 5))
        t = plan.tree
        tables = np.zeros(int(t.slot_ptr[-1]))
        tables[: plan.source.size] = graph.theta[plan.source]
        tree_log.collect_log(t, tables)
        values = tables if logs else np.exp(tables)
        uniform = np.random.default_rng(1).random((40, t.block.size))
        uniform[0], uniform[1] = 0.0, np.nextafter(1.0, 0.0)
        samples = np.zeros((40, graph.n_vars), np.int64)
        tree_decode.draw_samples(t, values, logs, uniform, samples)
        for row, u in zip(samples, uniform, strict=True):
            for c in reversed(clusters(graph, plan)):
                if c.n_eliminated == 0:
                    continue
                parts = [c.spread(tables[slot(plan, s)], k) for k, s in enumerate(c.slots[:-1])]
                table = np.broadcast_to(np.sum(parts, axis=0), c.shape)
                column = table[(..., *(int(row[v]) for v in c.variables[c.n_eliminated :]))]  # type: ignore[arg-type]
                weights = np.exp(column - column.max())
                drawn = np.searchsorted(np.cumsum(weights), u[c.number] * weights.sum(), side="right")
                index = np.unravel_index(min(int(drawn), int(np.flatnonzero(weights)[-1])), weights.shape)
                assert [int(row[v]) for v in c.variables[: c.n_eliminated]] == [int(x) for x in index]
