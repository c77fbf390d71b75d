"""Belief propagation between layers, against Algorithms 6.1 and 6.2 in NumPy, the general method and enumeration."""

from __future__ import annotations

import itertools
import math
import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.boltzmann.matrix_bp import LayerMessages


def soft(x: Any) -> Any:
    return np.logaddexp(0.0, x)


def hard(x: Any) -> Any:
    return np.maximum(0.0, x)


def algorithm_6_1(weights: Any, b: Any, a: Any, n_sweeps: int, s: Any = soft) -> tuple[Any, Any, Any, Any]:
    """Log odds of both layers and the log messages between them."""
    to_hidden, hidden = np.zeros_like(weights), a
    for _ in range(n_sweeps):
        x = hidden - to_hidden
        to_visible = s(weights + x) - s(x)
        visible = b + to_visible.sum(axis=1)
        x = visible[:, None] - to_visible
        to_hidden = s(weights + x) - s(x)
        hidden = a + to_hidden.sum(axis=0)
    return visible, hidden, to_visible, to_hidden


def algorithm_6_2(weights: Any, b: Any, a: Any, n_sweeps: int) -> tuple[Any, Any]:
    to_hidden, hidden = np.zeros_like(weights), a
    for _ in range(n_sweeps):
        x = hidden - to_hidden
        visible = b + (soft(weights + x) - soft(x)).sum(axis=1)
        to_hidden = weights * (visible > 0)[:, None]
        hidden = a + to_hidden.sum(axis=0)
    return visible, hidden


def machine(n: int, m: int, scale: float = 1.0, seed: int = 0, dtype: Any = np.float64) -> bl.RBM:
    rng = np.random.default_rng(seed)
    arrays = (scale * rng.normal(size=(n, m)), rng.normal(size=n), rng.normal(size=m))
    return bl.RBM(*(array.astype(dtype) for array in arrays))


def batch(n_machines: int, n: int, m: int, scale: float = 1.0, dtype: Any = np.float64, seed: int = 0) -> bl.RBMBatch:
    rng = np.random.default_rng(seed)
    arrays = scale * rng.normal(size=(n, m)), rng.normal(size=(n_machines, n)), rng.normal(size=(n_machines, m))
    return bl.RBMBatch(*(array.astype(dtype) for array in arrays))


def quietly(question: Any, *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        return question(*arguments, **options)


class TestSweeps:
    @pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-10), (np.float32, 1e-4)])
    @pytest.mark.parametrize("scale", [0.3, 3.0])
    def test_after_some_sweeps_as_algorithm_6_1(self, dtype: Any, atol: float, scale: float) -> None:
        many = batch(5, 9, 7, scale, dtype)
        found = LayerMessages(many.weights).sums(many.visible_bias, many.hidden_bias, 6, 0.0)
        pairs = np.zeros(many.weights.shape)
        for k, one in enumerate(many):
            w, b, a = (np.asarray(p, float) for p in (one.weights, one.visible_bias, one.hidden_bias))
            visible, hidden, to_visible, to_hidden = algorithm_6_1(w, b, a, 6)
            np.testing.assert_allclose(found.visible_log_odds[k], visible, rtol=1e-5, atol=10 * atol)
            np.testing.assert_allclose(found.visible[k], 1 / (1 + np.exp(-visible)), rtol=0, atol=atol)
            np.testing.assert_allclose(found.hidden[k], 1 / (1 + np.exp(-hidden)), rtol=0, atol=atol)
            x, y = visible[:, None] - to_visible, hidden - to_hidden
            both = w + x + y
            pairs += np.exp(both - np.logaddexp.reduce([0 * x, x, y, both], axis=0))
        np.testing.assert_allclose(found.pair_sum, pairs, rtol=0, atol=10 * atol)
        assert found.pair_sum.dtype == dtype and (found.n_iters == 6).all()

    def test_maxima(self) -> None:
        many = batch(4, 6, 8)
        found = LayerMessages(many.weights).maxima(many.visible_bias, many.hidden_bias, 5, 0.0)
        for k, one in enumerate(many):
            visible, hidden, _, _ = algorithm_6_1(one.weights, one.visible_bias, one.hidden_bias, 5, hard)
            np.testing.assert_allclose(found.visible_log_odds[k], visible, rtol=0, atol=1e-10)
            np.testing.assert_allclose(found.hidden_log_odds[k], hidden, rtol=0, atol=1e-10)

    @pytest.mark.parametrize("scale", [1.0, 300.0])
    def test_mixed_as_algorithm_6_2(self, scale: float) -> None:
        many = batch(4, 6, 8, scale)
        found = LayerMessages(many.weights).mixed(many.visible_bias, many.hidden_bias, 5, 0.0)
        for k, one in enumerate(many):
            visible, hidden = algorithm_6_2(one.weights, one.visible_bias, one.hidden_bias, 5)
            np.testing.assert_allclose(found.visible_log_odds[k], visible, rtol=1e-10, atol=1e-10)
            given = one.hidden_bias + (found.visible_log_odds[k] > 0) @ one.weights
            np.testing.assert_allclose(found.hidden_log_odds[k], given, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(given, hidden, rtol=1e-10, atol=1e-10)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("n_visible", [1, 6, 7])
    def test_ratios_and_logs_agree_up_to_the_largest_weight(self, dtype: Any, n_visible: int) -> None:
        """Up to the limit weights are ratios, beyond it logs: both with odds far beyond what ratios can hold."""
        limit = 300.0 if dtype is np.float64 else 27.0
        many = batch(3, n_visible, 5, limit / 3, dtype)
        size = np.array([[1.0], [limit], [40.0 * limit]], dtype)  # of biases
        many = bl.RBMBatch(many.weights, size * many.visible_bias, size * many.hidden_bias)
        weights = np.clip(many.weights, -limit, limit)
        weights[0, 0] = limit
        below, above = LayerMessages(weights), LayerMessages(weights, damping=1e-300)
        assert not below.logs and above.logs
        one, other = (m.sums(many.visible_bias, many.hidden_bias, 4, 0.0) for m in (below, above))
        np.testing.assert_allclose(one.visible, other.visible, rtol=0, atol=1e-4 if dtype is np.float32 else 1e-9)
        np.testing.assert_allclose(one.log_z, other.log_z, rtol=1e-5 if dtype is np.float32 else 1e-10)
        assert np.isfinite(one.log_z).all() and np.isfinite(one.pair_sum).all()
        top, same = (m.maxima(many.visible_bias, many.hidden_bias, 4, 0.0) for m in (below, above))
        np.testing.assert_allclose(top.visible_log_odds, same.visible_log_odds, rtol=1e-5, atol=1e-4)
        beyond = np.full_like(weights, 1.01 * limit)
        assert LayerMessages(beyond).logs

    def test_an_answer_depends_neither_on_its_batch_nor_on_threads(self) -> None:
        many = batch(11, 13, 9, dtype=np.float32)
        whole = quietly(bl.infer, many, "bp", max_iters=30, tol=1e-3, threads=1)
        other = quietly(bl.infer, many, "bp", max_iters=30, tol=1e-3, threads=2)
        for name in ("log_z", "visible", "hidden", "pair_sum", "converged", "n_iters"):
            assert getattr(whole, name).tobytes() == getattr(other, name).tobytes()
        part = bl.RBMBatch(many.weights, many.visible_bias[4:6], many.hidden_bias[4:6])
        some = quietly(bl.infer, part, "bp", max_iters=30, tol=1e-3)
        assert some.visible.tobytes() == whole.visible[4:6].tobytes() and (some.log_z == whole.log_z[4:6]).all()


class TestOneMachine:
    @pytest.mark.parametrize("damping", [0.0, 0.4])
    def test_fixed_points_are_those_of_the_factor_graph(self, damping: float) -> None:
        one = machine(6, 5, 0.7)
        here = bl.infer(one, f"bp(damping={damping})", tol=1e-13)
        there = bl.infer(one.to_factor_graph(), f"bp(damping={damping})", tol=1e-13)
        assert here.log_z == pytest.approx(there.log_z, abs=1e-10)
        np.testing.assert_allclose(here.mu_var, there.mu_var, rtol=0, atol=1e-10)
        np.testing.assert_allclose(here.mu, there.mu, rtol=0, atol=1e-10)
        low = np.maximum(0.0, here.visible[:, None] + here.hidden - 1.0)
        high = np.minimum(here.visible[:, None], here.hidden)
        assert (here.pairs >= low - 1e-12).all() and (here.pairs <= high + 1e-12).all()

    @pytest.mark.parametrize("shape", [(1, 6), (6, 1), (4, 0)])
    def test_stars_are_exact(self, shape: tuple[int, int]) -> None:
        one = machine(*shape, scale=2.0)
        here, truth = bl.infer(one, "bp"), bl.infer(one, "enumeration")
        assert here.bound is bl.Bound.EXACT and here.log_z == pytest.approx(truth.log_z, abs=1e-10)
        np.testing.assert_allclose(here.pairs, truth.pairs, rtol=0, atol=1e-10)

    @pytest.mark.parametrize("shape", [(1, 5), (5, 1)])
    def test_a_star_in_single_precision_is_as_exact_as_it_says(self, shape: tuple[int, int]) -> None:
        """What is certified must hold to the digits of float64, whatever the type of the weights."""
        for seed in range(5):
            one = machine(*shape, scale=2.0, seed=seed, dtype=np.float32)
            here, truth = bl.infer(one, "bp"), bl.infer(one)
            assert here.bound is bl.Bound.EXACT and here.log_lower - 1e-12 <= truth.log_z <= here.log_upper + 1e-12
            np.testing.assert_allclose(here.pairs, truth.pairs, rtol=0, atol=1e-10)

    @pytest.mark.parametrize("scale", [30.0, 300.0])
    @pytest.mark.parametrize("tol", [1e-3, 1e-6])
    def test_damped_messages_have_settled_only_where_pairs_and_units_agree(self, scale: float, tol: float) -> None:
        """Large biases hold probabilities at 0 or 1 while damped messages have a long way to go."""
        n_settled = 0
        for seed in range(40):
            rng = np.random.default_rng(seed)
            n, m = rng.integers(2, 8, 2)
            weights, b, a = (scale * rng.normal(size=size) for size in ((n, m), n, m))
            one = bl.RBM(weights, b, a)
            alone = quietly(bl.infer, one, "bp(damping=0.5)", tol=tol, max_iters=300)
            many = quietly(bl.infer, bl.RBMBatch(weights, b[None], a[None]), "bp(damping=0.5)", tol=tol, max_iters=300)
            for converged, v, h, pairs in (
                (alone.converged, alone.visible, alone.hidden, alone.pairs),
                (many.converged[0], many.visible[0], many.hidden[0], many.pair_sum),
            ):
                if converged:
                    n_settled += 1
                    above, below = pairs - np.minimum(v[:, None], h), np.maximum(0.0, v[:, None] + h - 1.0) - pairs
                    assert max(above.max(), below.max()) < 3 * tol, seed
            if alone.converged and many.converged[0]:
                assert alone.log_z == pytest.approx(many.log_z[0], rel=10 * tol)
        assert n_settled > 40

    def test_one_weight_of_one(self) -> None:
        found = quietly(bl.infer, bl.RBM([[1.0]]), "bp", max_iters=1)
        assert found.visible[0] == pytest.approx((1 + math.e) / (3 + math.e), abs=1e-12)

    def test_weights_of_300_give_numbers(self) -> None:
        one = machine(7, 6, 300.0)
        found = quietly(bl.infer, one, "bp", max_iters=50)
        assert np.isfinite(found.log_z) and np.isfinite(found.mu).all()
        assert bl.maximize(one, "bp").log_score <= bl.maximize(one).log_score + 1e-9

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("damping", [0.0, 0.5])
    def test_memory_is_no_more_than_predicted(self, dtype: Any, damping: float) -> None:
        one, method = machine(300, 200, 0.1, dtype=dtype), bl.BP(damping=damping)
        quietly(bl.infer, one, method, max_iters=2)
        tracemalloc.start()
        quietly(bl.infer, one, method, max_iters=2)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        with pytest.raises(bl.BudgetError, match="bp.* needs"):
            quietly(bl.infer, one, method, max_iters=2, max_bytes=peak)

    def test_a_warm_start_is_where_it_stopped(self) -> None:
        one = machine(8, 6, 0.5)
        settled = bl.infer(one, "bp", tol=1e-12)
        again = bl.infer(one, "bp", tol=1e-12, init=settled)
        assert again.n_iters <= 2 < settled.n_iters and again.log_z == pytest.approx(settled.log_z, abs=1e-11)

    @pytest.mark.parametrize("damping", [0.0, 0.3])
    @pytest.mark.parametrize("wide", [np.float64, np.float32])
    @pytest.mark.parametrize("narrow", [np.float64, np.float32])
    def test_a_start_from_another_machine_ends_where_others_do(self, wide: Any, narrow: Any, damping: float) -> None:
        """Messages of large weights are beyond anything that small ones, or single precision, can hold."""
        scale = 200.0 if wide is np.float64 else 25.0
        far = bl.RBM(scale * np.sign(machine(4, 3).weights).astype(wide), 10.0 * scale * np.ones(4, wide))
        one, method = machine(4, 3, dtype=narrow), f"bp(damping={damping})"
        begin = quietly(bl.infer, far, method, max_iters=5)
        here, there = bl.infer(one, method, init=begin, tol=1e-6), bl.infer(one, method, tol=1e-6)
        assert here.log_z == pytest.approx(there.log_z, abs=1e-4)
        np.testing.assert_allclose(here.mu_var, there.mu_var, rtol=0, atol=1e-4)
        best = quietly(bl.maximize, one, method, init=quietly(bl.maximize, far, method, max_iters=5), max_iters=30)
        assert best.log_score == pytest.approx(bl.maximize(one).log_score, abs=1e-4)
        query = [f"v{i}" for i in range(4)]
        first = quietly(bl.marginal_map, far, query, method, max_iters=5)
        found = quietly(bl.marginal_map, one, query, method, init=first, max_iters=30)
        assert found.log_value == pytest.approx(-one.free_energy([found.assignment])[0], abs=1e-6)

    @pytest.mark.parametrize("seed", range(6))
    def test_decodings_are_states_with_their_own_values(self, seed: int) -> None:
        one = machine(5, 4, 1.5, seed)
        best = quietly(bl.maximize, one, "bp", max_iters=50)
        assert best.log_score == pytest.approx(one.to_factor_graph().log_score(best.assignment), abs=1e-12)
        assert best.log_score <= bl.maximize(one).log_score + 1e-9
        query = [f"v{i}" for i in range(5)]
        found = quietly(bl.marginal_map, one, query, "bp", max_iters=50)
        values = [-one.free_energy([v])[0] for v in itertools.product((0, 1), repeat=5)]
        assert found.log_value <= max(values) + 1e-9
        assert found.log_value == pytest.approx(-one.free_energy([found.assignment])[0], abs=1e-12)

    def test_other_queries_go_through_the_factor_graph(self) -> None:
        one = machine(4, 3)
        here, there = (quietly(bl.marginal_map, m, ["v1", "h0"], "bp") for m in (one, one.to_factor_graph()))
        assert here.log_value == there.log_value and (here.assignment == there.assignment).all()
        assert bl.infer(one, "bp(schedule=flooding)").log_z == pytest.approx(bl.infer(one, "bp").log_z, abs=1e-6)


class TestBatches:
    @pytest.mark.parametrize("method", ["bp", "mean_field", "mean_field(order=2)", "enumeration", "auto"])
    def test_as_one_by_one(self, method: str) -> None:
        many = batch(3, 5, 4, 0.6)
        together = bl.infer(many, method)
        singles = [bl.infer(one, method) for one in many]
        assert together.bound is singles[0].bound
        np.testing.assert_allclose(together.log_z, [r.log_z for r in singles], rtol=0, atol=1e-6)
        np.testing.assert_allclose(together.visible, [r.visible for r in singles], rtol=0, atol=1e-6)
        np.testing.assert_allclose(together.pair_sum, sum(r.pairs for r in singles), rtol=0, atol=1e-5)
        assert together.converged.all() and len(together) == 3

    @pytest.mark.parametrize("scale", [3.0, 300.0])
    def test_pairs_of_the_second_order_are_possible_whatever_the_weights(self, scale: float) -> None:
        many = batch(3, 5, 4, scale)
        together = quietly(bl.infer, many, "mean_field(order=2)", max_iters=20)
        singles = [quietly(bl.infer, one, "mean_field(order=2)", max_iters=20) for one in many]
        np.testing.assert_allclose(together.pair_sum, sum(r.pairs for r in singles), rtol=0, atol=1e-9)
        assert (together.pair_sum >= 0).all() and (together.pair_sum <= 3).all()

    @pytest.mark.parametrize("method", ["bp", "mean_field", "mean_field(order=2)", "gibbs(chains=3, burn_in=5)"])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_the_same_bytes_in_any_company(self, method: str, dtype: Any) -> None:
        whole = batch(21, 30, 17, 0.6)
        arrays = [a.astype(dtype) for a in (whole.weights, whole.visible_bias, whole.hidden_bias)]
        whole = bl.RBMBatch(*arrays)
        found = quietly(bl.infer, whole, method, max_iters=6)
        for n, threads in ((1, 1), (2, 2), (13, 1), (21, 2)):
            part = bl.RBMBatch(arrays[0], arrays[1][:n], arrays[2][:n])
            again = quietly(bl.infer, part, method, max_iters=6, threads=threads)
            for name in ("log_z", "visible", "hidden", "n_iters"):
                assert getattr(again, name).tobytes() == getattr(found, name)[:n].tobytes(), (name, n)
            if n == 21:
                assert again.pair_sum.tobytes() == found.pair_sum.tobytes()

    def test_chains_of_a_batch(self) -> None:
        many = batch(4, 5, 4, 0.6)
        truth = bl.infer(many, "enumeration")
        found = bl.infer(many, "gibbs(chains=100)", max_iters=30, seed=1)
        assert found.bound is bl.Bound.LOWER and (found.log_z <= truth.log_z).all()
        assert np.abs(found.visible - truth.visible).max() < 0.03 and np.abs(found.hidden - truth.hidden).max() < 0.03
        assert np.abs(found.pair_sum - truth.pair_sum).max() < 0.06
        assert not found.converged.any() and (found.n_iters == 30).all()
        settled = bl.infer(many, "gibbs(chains=100)", tol=0.01)
        assert settled.converged.all() and (settled.n_iters < 200).all()
        burning = bl.infer(many, "gibbs(burn_in=100)", max_iters=2)
        assert np.isfinite(burning.visible).all() and (burning.pair_sum <= 4).all()
        none = bl.RBMBatch(np.zeros((3, 0)), many.visible_bias[:, :3], np.zeros((4, 0)))
        found = bl.infer(none, "gibbs", max_iters=12)
        np.testing.assert_allclose(found.visible, 1 / (1 + np.exp(-none.visible_bias)), rtol=1e-12)
        with pytest.raises(bl.BudgetError, match="gibbs needs"):
            bl.infer(many, "gibbs", max_bytes=1000)

    def test_mean_field_bounds_from_below(self) -> None:
        many = batch(6, 5, 4, 1.5)
        low = quietly(bl.infer, many, "mean_field", max_iters=3)
        assert (low.log_z <= bl.infer(many, "enumeration").log_z).all() and low.bound is bl.Bound.LOWER

    def test_decodings(self) -> None:
        many = batch(4, 5, 4)
        best = quietly(bl.maximize, many, "bp")
        query = [f"v{i}" for i in range(5)]
        found = quietly(bl.marginal_map, many, query, "bp")
        for k, one in enumerate(many):
            row = np.concatenate([best.visible[k], best.hidden[k]])
            assert best.log_value[k] == pytest.approx(one.to_factor_graph().log_score(row), abs=1e-12)
            assert found.log_value[k] == pytest.approx(-one.free_energy(found.visible[k : k + 1])[0], abs=1e-12)
            assert found.log_value[k] <= bl.marginal_map(one, query).log_value + 1e-9
        exact = bl.maximize(many)
        assert (best.log_value <= exact.log_value + 1e-9).all()

    def test_those_that_stop_short_are_counted(self) -> None:
        with pytest.warns(bl.ConvergenceWarning, match="2 of 2 machines have not converged"):
            found = bl.infer(batch(2, 5, 4), "bp", max_iters=1)
        assert not found.converged.any() and (found.n_iters == 1).all()

    def test_too_large_for_the_budget(self) -> None:
        with pytest.raises(bl.BudgetError, match="bp needs"):
            bl.infer(batch(2, 40, 40), "bp", max_bytes=1000)

    def test_bad_questions(self) -> None:
        many = batch(2, 3, 2)
        with pytest.raises(bl.BudgetError, match="the 40 machines were not done after 1e-09 s; raise time_limit"):
            bl.infer(batch(40, 60, 50), "gibbs(chains=1000)", time_limit=1e-9)
        with pytest.raises(bl.UnsupportedError, match="all its visible units"):
            bl.marginal_map(many, ["v0"], "bp")
        with pytest.raises(bl.UnsupportedError, match="targets"):
            bl.infer(many, "bp", targets=["v0"])  # type: ignore[call-overload]
        with pytest.raises(bl.UnsupportedError, match="init is for single models"):
            bl.infer(many, "bp", init=bl.infer(many[0], "bp"))
        with pytest.raises(bl.ModelError, match="no machines"):
            bl.infer(bl.RBMBatch(np.zeros((3, 2)), np.zeros((0, 3)), np.zeros((0, 2))), "bp")
