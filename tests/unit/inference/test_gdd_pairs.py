"""Dual decomposition of pairs, whose tables have a form of their own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from beliefs.inference.clusters.junction_graph import JunctionGraph
from beliefs.inference.dual.pair_tables import PairTables
from beliefs.inference.dual.state import SplitTables
from beliefs.kernels._jit import kernel
from beliefs.kernels.dual.pairs.terms import exponentials, pair_workspace, scaled_value
from beliefs.kernels.dual.structure import Pair, PairMemory, PairWorkspace
from beliefs.kernels.primitives.memory import address
from families import grid_pairs, random_model, unary
from strategies import examples


@kernel
def value_and_marginal(pair: Pair, theta: np.ndarray, shift: np.ndarray, scratch: PairMemory) -> float:
    """Return one cluster's value and write its marginal of the earlier variable, rows scaled by ``work.scale``."""
    theta, shift, work = address(theta), address(shift), pair_workspace(scratch)
    exponentials(pair, theta, shift, pair.own, 0, 0, work)
    return scaled_value(pair, 0, 0, shift, work, work.mu, 0)


class TestPairs:
    """Clusters of two variables have kernels of their own; they take the same steps."""

    @given(data=st.data())
    @examples(40)
    def test_they_agree_with_the_general_path(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(2, 6))
        pairs = [(u, v) for u in range(n) for v in range(u)]
        edges = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=9, unique=True))
        card = data.draw(st.lists(st.integers(2, 9), min_size=n, max_size=n))
        seed, zeros = data.draw(st.integers(0, 99)), data.draw(st.sampled_from([0.0, 0.2]))
        graph = random_model(
            card, [*unary(n), *edges], seed=seed, scale=data.draw(st.sampled_from([1, 4])), zeros=zeros
        )
        tau = np.full(n, data.draw(st.sampled_from([0.0, 1.0, 0.5])))
        tau[n // 2 :] = data.draw(st.sampled_from([0.0, 1.0])) * tau[0]
        junction = JunctionGraph.of_factors(graph.layout, np.arange(n))
        general = SplitTables(graph, junction, tau, 0.002, 0.2)
        assert PairTables.fits(junction)
        for steps, moving in ((1, False), (2, True), (1, True)):
            pair = PairTables(graph, junction, tau, 0.002, 0.2)
            assert pair.resume(
                general.warm_start(())
            )  # each sweep from one point: flat directions amplify other roundings
            assert pair.value() == pytest.approx(general.value(), abs=1e-10)
            decreases = [split.sweep(steps, moving, 1) for split in (general, pair)]
            assert decreases[0] == pytest.approx(decreases[1], abs=1e-10 * max(1.0, abs(decreases[0])))
            assert pair.value() == pytest.approx(general.value(), abs=1e-10 * max(1.0, abs(general.value())))
            np.testing.assert_allclose(pair.state.weight, general.state.weight, atol=1e-8)
            np.testing.assert_allclose(pair.tables, general.tables, atol=1e-6)
            assert pair.rounded().tolist() == general.rounded().tolist()

    @pytest.mark.parametrize("tau", [0.0, 1.0])
    def test_decreases_add_up(self, tau: float) -> None:
        graph = random_model([3, 2, 4] * 4, unary(12) + grid_pairs(3, 4), seed=7, scale=2.0)
        pair = PairTables(graph, JunctionGraph.of_factors(graph.layout, np.arange(12)), np.full(12, tau), 0.002)
        before, total = pair.value(), 0.0
        for _ in range(6):
            total += pair.sweep(1, True, 1)
            assert (pair.state.decrease >= -1e-12).all()
        assert pair.value() == pytest.approx(before - total, abs=1e-10)
        np.testing.assert_allclose(reference.total_table(pair), reference.joint_table(graph), atol=1e-10)

    def test_value_and_marginal_of_one_cluster(self) -> None:
        rng = np.random.default_rng(0)
        for rows, columns, w, v in ((2, 2, 0.5, 0.3), (3, 5, 1.0, 0.0), (8, 8, 0.1, 0.7), (4, 1, 0.0, 1.0)):
            theta, shift = rng.normal(size=rows * columns + 4), rng.normal(size=rows + columns + 4)
            room, scale, mu = rows * columns + 8, *(PairWorkspace._fields.index(name) for name in ("scale", "mu"))
            scratch = PairMemory(np.zeros(18 * room), room * np.arange(19))
            d = 0.1 * rng.normal(size=rows)
            scratch.memory[scale * room :][:rows] = np.exp(-d / w) if w else 1.0
            value = value_and_marginal(Pair(0, rows, columns, 0, rows, w, v), theta, shift, scratch)
            table = theta[: rows * columns].reshape(rows, columns) - shift[:rows, None] - shift[rows : rows + columns]
            table = table - (d[:, None] if w else 0.0)
            truth, belief = reference.power_sum(table, [0, 1], [w, v])
            assert value == pytest.approx(truth, abs=1e-12)
            np.testing.assert_allclose(scratch.memory[mu * room :][:rows], belief.sum(axis=1), atol=1e-12)
