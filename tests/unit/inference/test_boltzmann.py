"""Inference in Boltzmann machines: the second order, likelihoods and gradients, proposals, and what AIS reports."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.boltzmann.machines import SampledUnits
from beliefs.inference.likelihood import MachineGradient
from families import MACHINES

ROWS = np.random.default_rng(0).integers(0, 2, (7, 5))


def states(n: int) -> np.ndarray:
    return np.indices((2,) * n).reshape(n, -1).T


def second_order(v: np.ndarray, h: np.ndarray, rbm: bl.RBM) -> float:
    """The expansion by its definition."""
    entropy = -sum(float((p * np.log(p)).sum()) for m in (v, h) for p in (m, 1 - m))
    first = v @ rbm.visible_bias + h @ rbm.hidden_bias + v @ rbm.weights @ h
    return entropy + first + 0.5 * (v * (1 - v)) @ rbm.weights**2 @ (h * (1 - h))


class TestSecondOrder:
    RBM = bl.RBM(0.4 * np.random.default_rng(1).normal(size=(6, 4)), 0.3 * np.arange(6.0), [0.1, -0.5, 0.0, 1.0])

    def test_it_is_a_stationary_point_of_the_expansion(self) -> None:
        result = bl.infer(self.RBM, "mean_field(order=2)", tol=1e-12)
        v, h = result.visible, result.hidden
        assert result.log_z == pytest.approx(second_order(v, h, self.RBM), abs=1e-12)
        assert result.bound is bl.Bound.ESTIMATE and result.log_lower == -math.inf and result.converged
        for step in (1e-5 * np.eye(6), 1e-5 * np.eye(4)):
            moved = [
                second_order(v + d, h, self.RBM) if d.size == 6 else second_order(v, h + d, self.RBM) for d in step
            ]
            back = [second_order(v - d, h, self.RBM) if d.size == 6 else second_order(v, h - d, self.RBM) for d in step]
            np.testing.assert_allclose(np.subtract(moved, back) / 2e-5, 0.0, atol=1e-8)

    def test_pairs_are_its_gradient_in_the_weights(self) -> None:
        result = bl.infer(self.RBM, "mean_field(order=2)", tol=1e-12)
        for i, j in ((0, 0), (3, 2), (5, 3)):
            values = []
            for sign in (1, -1):
                weights = self.RBM.weights.copy()
                weights[i, j] += sign * 1e-5
                moved = bl.RBM(weights, self.RBM.visible_bias, self.RBM.hidden_bias)
                values.append(bl.infer(moved, "mean_field(order=2)", tol=1e-12).log_z)
            assert result.pairs[i, j] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-7)

    def test_its_error_is_of_third_order(self) -> None:
        rng = np.random.default_rng(2)
        weights, errors = rng.normal(size=(4, 3)), []
        for scale in (0.2, 0.1):
            rbm = bl.RBM(scale * weights, rng.normal(size=4) * 0 + 0.3)
            errors.append(bl.infer(rbm, "mean_field(order=2)", tol=1e-13).log_z - bl.infer(rbm).log_z)
        assert abs(errors[1]) < abs(errors[0]) / 6  # by 8 in the limit

    def test_what_does_not_settle_is_said(self) -> None:
        with pytest.warns(bl.ConvergenceWarning, match=r"mean_field\(order=2\)"):
            bl.infer(self.RBM, "mean_field(order=2)", max_iters=2)

    def test_it_has_no_other_options(self) -> None:
        with pytest.raises(bl.ModelError, match="order=2 has no structure, restarts or schedule"):
            bl.MeanField(order=2, restarts=1)


def like(machine: Any, name: str, value: np.ndarray) -> Any:
    parts = {k: getattr(machine, k) for k in ("weights", "visible_bias", "hidden_bias")}
    if isinstance(machine, bl.FractionalRBM):
        parts["counts"] = machine.counts
    return type(machine)(**{**parts, name: value})


class TestLikelihood:
    @pytest.mark.parametrize("name", ["rbm", "fractional"])
    def test_probabilities_of_all_states_add_up_to_one(self, name: str) -> None:
        found = bl.log_likelihood(MACHINES[name](), states(5))
        assert np.exp(found.per_row).sum() == pytest.approx(1.0, abs=1e-12)
        assert found.mean == pytest.approx(found.per_row.mean()) and found.bound is bl.Bound.EXACT
        assert found.log_lower == found.mean == found.log_upper
        assert found.inference is not None and found.inference.method == bl.Enumeration()

    @pytest.mark.parametrize("name", ["rbm", "fractional"])
    def test_the_gradient_is_that_of_the_mean(self, name: str) -> None:
        machine = MACHINES[name]()
        gradient = bl.log_likelihood(machine, ROWS, gradient=True).gradient
        assert isinstance(gradient, MachineGradient) and (gradient.counts is None) == (name == "rbm")
        for field in ("weights", "visible_bias", "hidden_bias", *(["counts"] if name == "fractional" else [])):
            value = getattr(machine, field)
            moved = np.zeros_like(value, dtype=float)
            for at in np.ndindex(value.shape):
                step = np.zeros_like(value)
                step[at] = 1e-5 if value[at] >= 1e-5 or field != "counts" else 0.0
                ends = [bl.log_likelihood(like(machine, field, value + s * step), ROWS).mean for s in (1, -1)]
                moved[at] = (ends[0] - ends[1]) / 2e-5 if step[at] else getattr(gradient, field)[at]
            np.testing.assert_allclose(getattr(gradient, field), moved, atol=1e-9)

    def test_bounds_of_log_z_change_sides(self) -> None:
        machine = MACHINES["rbm"]()
        exact = bl.log_likelihood(machine, ROWS).mean
        above = bl.log_likelihood(machine, ROWS, "mean_field")
        below = bl.log_likelihood(machine, ROWS, "trw")
        assert above.bound is bl.Bound.UPPER and below.bound is bl.Bound.LOWER
        assert below.log_lower == below.mean <= exact <= above.mean == above.log_upper
        assert "UPPER" in repr(above) and "7 rows" in repr(above)

    def test_rows_of_any_type_and_a_narrow_machine(self) -> None:
        machine = bl.RBM(MACHINES["rbm"]().weights.astype(np.float32))
        wide = bl.RBM(machine.weights.astype(np.float64))
        for rows in (ROWS, ROWS.astype(bool), ROWS.astype(np.float32), ROWS.tolist()):
            found = bl.log_likelihood(machine, rows).per_row
            np.testing.assert_allclose(found, bl.log_likelihood(wide, ROWS).per_row, atol=1e-12)

    def test_the_gradient_of_a_narrow_machine_is_in_double_precision(self) -> None:
        rng = np.random.default_rng(3)
        narrow = bl.RBM(*(3.0 * rng.normal(size=size).astype(np.float32) for size in ((6, 5), 6, 5)))
        wide = bl.RBM(*(np.float64(a) for a in (narrow.weights, narrow.visible_bias, narrow.hidden_bias)))
        rows = rng.integers(0, 2, (9, 6))
        here, there = (bl.log_likelihood(m, rows, gradient=True).gradient for m in (narrow, wide))
        for name in ("weights", "visible_bias", "hidden_bias"):
            np.testing.assert_allclose(getattr(here, name), getattr(there, name), rtol=0, atol=1e-12)

    def test_a_large_machine_is_annealed(self) -> None:
        rng = np.random.default_rng(0)
        machine = bl.RBM((0.1 * rng.normal(size=(30, 25))).astype(np.float32))
        found = bl.log_likelihood(machine, rng.integers(0, 2, (4, 30)), gradient=True, seed=1)
        asked: Any = found.inference
        assert found.bound is bl.Bound.ESTIMATE and isinstance(asked.method, bl.AIS)
        assert asked.log_weights.dtype == np.float64
        assert found.gradient is not None and np.isfinite(found.gradient.weights).all()


def test_a_dummy_visible_unit_stands_for_hidden_biases() -> None:
    rbm = MACHINES["rbm"]()
    dummy = bl.RBM(np.vstack([rbm.weights, rbm.hidden_bias]), np.append(rbm.visible_bias, 0.0))
    rows = np.column_stack([states(5), np.ones(32, int)])
    np.testing.assert_allclose(dummy.free_energy(rows), rbm.free_energy(states(5)), atol=1e-12)
    assert bl.infer(dummy.condition({"v5": 1})).log_z == pytest.approx(bl.infer(rbm).log_z, abs=1e-10)


class TestProposals:
    """Fractions are proposed by a scaled unit ([ping2016] section 5.4.3)."""

    def test_whole_units_are_themselves(self) -> None:
        units = SampledUnits.of(MACHINES["rbm"]())
        assert units.fractions.size == 0 and units.weights.shape == (5, 4)
        assert (units.log_ratio(np.zeros((3, 4)), np.ones(3)) == 0).all()

    @pytest.mark.parametrize("beta", [1.0, 0.4])
    def test_proposal_and_ratio_make_the_machine(self, beta: float) -> None:
        machine = MACHINES["fractional"]()
        units, v = SampledUnits.of(machine), states(5)
        found = units.log_weights(v.astype(float), v @ units.weights, beta)
        x = v @ machine.weights + machine.hidden_bias
        expected = beta * v @ machine.visible_bias + np.logaddexp(0, beta * x) @ machine.counts
        np.testing.assert_allclose(found, expected, atol=1e-12)
        assert units.weights.shape == (5, 1 + 2 + 2)

    def test_the_acceptance_bound(self) -> None:
        rng = np.random.default_rng(4)
        counts = rng.random(6)
        machine = bl.FractionalRBM(3.0 * rng.normal(size=(7, 6)), None, rng.normal(size=6), counts)
        units, v = SampledUnits.of(machine), states(7)
        ratios = units.log_ratio(v @ units.weights, np.ones(len(v)))
        least = float(((counts - 1) * np.log(2)).sum())
        assert (least - 1e-12 <= ratios).all() and (ratios <= 1e-12).all()
        result: Any = bl.infer(machine, "gibbs(chains=200)", max_iters=12)
        assert np.exp(least) <= result.acceptance_rate < 1.0

    def test_whole_counts_accept_everything(self) -> None:
        result: Any = bl.infer(bl.FractionalRBM(np.ones((3, 2)), counts=[2, 0]), "gibbs", max_iters=12)
        assert result.acceptance_rate == 1.0


class TestTempering:
    def test_swap_rates_are_those_of_neighbours(self) -> None:
        weak, strong = bl.RBM(np.zeros((4, 3))), bl.RBM(np.full((12, 12), 5.0), np.full(12, -30.0))
        rates = [bl.infer(m, "gibbs(chains=50, temperatures=4)", max_iters=12).swap_rates for m in (weak, strong)]  # type: ignore[attr-defined]
        assert rates[0].shape == (3,) and (rates[0] == 1.0).all()  # nothing changes with the temperature
        assert (rates[1] <= 1.0).all() and 0.0 <= rates[1].min() < 0.5

    def test_it_finds_both_modes_where_plain_chains_stay(self) -> None:
        """Two states of equal weight, all on and all off, with hardly anything between."""
        n = 8
        bias = np.full(n, -3.0 * n / 2)
        machine = bl.RBM(np.full((n, n), 3.0), bias, bias)
        away = bl.infer(machine, "gibbs(chains=20, temperatures=20)", max_iters=60, seed=2).visible
        np.testing.assert_allclose(away, 0.5, atol=0.2)


class TestAIS:
    RBM = MACHINES["rbm"]()

    def test_schedules(self) -> None:
        one: Any = bl.infer(self.RBM, bl.AIS(chains=4, schedule=np.linspace(0, 1, 7)), seed=2)
        other: Any = bl.infer(self.RBM, "ais(chains=4, temperatures=7)", seed=2)
        assert one.log_weights.tobytes() == other.log_weights.tobytes()
        betas = bl.AIS(schedule="standard").init(problem(self.RBM)).betas
        assert betas.size == 14_500 and betas[0] == 0 and betas[-1] == 1 and (np.diff(betas) > 0).all()
        assert np.sum(betas < 0.5) == 500 and np.sum(betas < 0.9) == 4_500

    def test_two_temperatures_are_plain_importance_sampling(self) -> None:
        result: Any = bl.infer(self.RBM, "ais(chains=5, temperatures=2, base=uniform)", seed=1)
        scores = -self.RBM.free_energy(states(5)) - 4 * np.log(2)
        assert all(np.abs(scores - w).min() < 1e-9 for w in result.log_weights)
        assert result.log_z_base == pytest.approx(9 * np.log(2))

    def test_what_the_weights_are_worth(self) -> None:
        result: Any = bl.infer(self.RBM, "ais(chains=30, temperatures=5)", seed=3)
        w = np.exp(result.log_weights)
        assert result.log_z == pytest.approx(result.log_z_base + np.log(w.mean()))
        assert result.standard_error == pytest.approx(w.std(ddof=1) / np.sqrt(30) / w.mean())
        assert result.effective_sample_size == pytest.approx(w.sum() ** 2 / (w**2).sum())
        assert result.log_z_reverse is result.log_weights_reverse is result.standard_error_reverse is None
        assert result.reverse_start == "" and result.effective_sample_size_reverse is None
        assert bl.infer(self.RBM, "ais(chains=1)").standard_error == math.inf  # type: ignore[attr-defined]

    def test_intervals_widen_with_confidence_and_need_reverse_chains_above(self) -> None:
        forward: Any = bl.infer(self.RBM, "ais(chains=30, temperatures=50)", seed=3)
        both: Any = bl.infer(self.RBM, "ais(chains=30, temperatures=50, reverse=True)", seed=3)
        assert forward.interval()[1] == math.inf and forward.log_z == both.log_z
        assert both.interval()[0] < forward.interval()[0] < forward.log_z
        narrow, wide = both.interval(0.5), both.interval(0.999)
        assert wide[0] < narrow[0] < narrow[1] < wide[1]
        single: Any = bl.infer(self.RBM, "ais(chains=1, temperatures=50)", seed=3)
        assert single.interval(0.9)[0] == pytest.approx(single.log_z + np.log(0.1))  # Markov's inequality as it stands
        for confidence in (0.0, 1.0, math.nan, "high"):
            with pytest.raises(bl.ModelError, match="confidence must be a number between 0 and 1"):
                both.interval(confidence)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("scale", [1e3, 1e8, 1e20, 9e29])
    @pytest.mark.parametrize("seed", [3, 9, 11])
    def test_intervals_hold_whatever_weights_are_rounded_to(self, dtype: Any, scale: float, seed: int) -> None:
        """Log Z of 1e29 is known to 1e13 at best, and single precision would know it to 1e21."""
        rng = np.random.default_rng(seed)
        n, m = rng.integers(1, 7, 2)
        parts = (scale * np.clip(rng.normal(size=shape), -1, 1) for shape in ((n, m), n, m))
        machine = bl.RBM(*(part.astype(dtype) for part in parts))
        truth = bl.infer(machine, "enumeration").log_z
        result: Any = bl.infer(machine, "ais(chains=30, temperatures=50, reverse=True)", seed=seed)
        low, high = result.interval()
        room = 1e-14 * abs(truth)
        assert low - room <= truth <= high + room
        assert math.isfinite(result.standard_error) and math.isfinite(result.standard_error_reverse)

    def test_ends_that_cross_are_exchanged_and_rounding_is_little_beside_them(self) -> None:
        result: Any = bl.infer(self.RBM, "ais(chains=30, temperatures=50, reverse=True)", seed=3)
        assert 0 < result.rounding < 1e-8
        low, high = result.interval()
        apart = replace(result, log_weights_reverse=result.log_weights_reverse + 9.0)
        assert apart.interval()[0] == pytest.approx(high - 9.0) and apart.interval()[1] == pytest.approx(low)
        large: Any = bl.infer(bl.RBM(np.full((784, 500), 0.1, np.float32)), "ais(chains=2, temperatures=3)")
        assert large.rounding < 0.01
        clamped: Any = bl.infer(self.RBM, "ais(temperatures=50)", evidence={"v1": 1})
        assert clamped.interval()[0] <= bl.infer(self.RBM, evidence={"v1": 1}).log_z and clamped.rounding > 0

    def test_a_machine_that_is_its_base_is_known_at_once(self) -> None:
        rbm = bl.RBM(np.zeros((6, 3)), np.arange(6.0))
        result: Any = bl.infer(rbm, "ais(chains=10, temperatures=5, reverse=True)")
        truth = np.logaddexp(0, np.arange(6.0)).sum() + 3 * np.log(2)
        assert result.log_z == pytest.approx(truth, abs=1e-12) == result.log_z_reverse
        assert result.effective_sample_size == pytest.approx(10.0) and result.standard_error < 1e-12

    def test_large_machines_go_back_from_chains(self) -> None:
        rng = np.random.default_rng(0)
        rbm = bl.RBM(0.05 * rng.normal(size=(24, 23)))
        result: Any = bl.infer(rbm, "ais(chains=20, temperatures=50, reverse=True)")
        assert result.reverse_start == "gibbs" and abs(result.log_z - result.log_z_reverse) < 0.1

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"schedule": "steep"}, "schedule must be linear, standard or an array"),
            ({"schedule": [0.0, 0.5]}, "schedule must rise from 0 to 1"),
            ({"schedule": [0.0, 0.7, 0.3, 1.0]}, "schedule must rise from 0 to 1"),
            ({"schedule": [0.0, np.nan, 1.0]}, "schedule must rise from 0 to 1"),
            ({"base": "data"}, "base must be visible_bias, uniform or rates"),
            ({"base": [0.5, 2.0]}, "rates from 0 to 1"),
            ({"base": [np.nan]}, "rates from 0 to 1"),
            ({"temperatures": 1}, "temperatures must be an integer of at least 2"),
            ({"chains": 0}, "chains must be an integer of at least 1"),
            ({"reverse": 1}, "reverse must be True or False"),
        ],
    )
    def test_bad_options_are_one_line(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(bl.ModelError, match=message):
            bl.AIS(**options)

    def test_rates_must_fit_the_machine(self) -> None:
        with pytest.raises(bl.ModelError, match="a rate for each visible unit, 5"):
            bl.infer(self.RBM, bl.AIS(base=[0.5]))


def problem(machine: Any) -> Any:
    return bl.inference.base.Problem(machine)


@pytest.mark.parametrize("method", ["ais(chains=2000)", "gibbs(temperatures=2, chains=50)"])
def test_factors_of_a_graph_keep_their_order_and_axes_where_a_machine_answers(method: str) -> None:
    """The machine's own factors are those of the units, then the pairs row by row, the visible unit first."""
    pairs = [((2, 0), [0.0, 0.5, -1.0, 2.0]), ((0, 1), [0.0, -1.0, 0.3, 1.0]), ((2, 0), [0.0, 0.1, 0.2, -0.5])]
    tables: Any = [(scope, np.reshape(cells, (2, 2))) for scope, cells in pairs]
    graph = bl.FactorGraph.from_tables([2] * 3, [*tables, ((), 0.0), ((2,), [0.0, 1.0])], log=True)
    truth, found = bl.infer(graph, "enumeration"), bl.infer(graph, method, seed=1)
    for f in range(graph.n_factors):
        np.testing.assert_allclose(found.factor_marginal(f), truth.factor_marginal(f), atol=0.05)
    np.testing.assert_allclose(found.mu, truth.mu, atol=0.05)
    np.testing.assert_allclose(found.marginal([2, 0]), truth.marginal([2, 0]), atol=0.05)
    np.testing.assert_allclose(found.pairs, [[truth.marginal([0, 1])[1, 1], truth.marginal([0, 2])[1, 1]]], atol=0.05)
