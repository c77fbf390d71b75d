"""Frank-Wolfe on measures over weight vectors, against enumeration in plain NumPy."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import beliefs as bl
from beliefs.driver import Limits
from beliefs.errors import BudgetError, ModelError
from beliefs.learning.boltzmann.infinite.averages import RowAverages
from beliefs.learning.boltzmann.infinite.expectations import ExactExpectations
from beliefs.learning.boltzmann.infinite.frank_wolfe import COLUMNS, FrankWolfe
from beliefs.learning.boltzmann.infinite.line_search import along, best_step
from beliefs.learning.boltzmann.infinite.measure import Measure
from beliefs.learning.boltzmann.infinite.objective import GrowingLikelihood
from beliefs.learning.boltzmann.infinite.sampled import Sampling
from beliefs.learning.boltzmann.infinite.steps import Position
from beliefs.learning.boltzmann.infinite.subproblem import Inner, NewUnit, best_unit
from beliefs.learning.boltzmann.rows import BitRows
from beliefs.learning.fit import fit
from beliefs.learning.parallel import executor_of

EXACT = FrankWolfe(expectations="exact", n_starts=4)


def mixture(seed, n=8, k=3, rows=150):
    """Rows from a few noisy prototypes."""
    rng = np.random.default_rng(seed)
    prototypes = np.where(rng.random((k, n)) < 0.5, 0.05, 0.95)
    return (rng.random((rows, n)) < prototypes[rng.integers(k, size=rows)]).astype(np.uint8)


class Oracle:
    """A measure's law and objective, all visible rows written out."""

    def __init__(self, measure, rows, l2, alpha):
        self.rows = np.column_stack([rows, np.ones(len(rows))])
        states = np.array(list(itertools.product([0, 1], repeat=rows.shape[1])))
        self.states = np.column_stack([states, np.ones(len(states))])
        self.ridge = l2 if alpha == "units" else l2 / measure.alpha
        self.m = measure
        scores = self.score(self.states)
        self.log_z = np.logaddexp.reduce(scores)
        self.p = np.exp(scores - self.log_z)
        self.log_likelihood = self.score(self.rows).mean() - self.log_z
        self.penalty = 0.5 * self.ridge * (measure.counts * (measure.atoms**2).sum(axis=0)).sum()
        self.objective = self.log_likelihood - self.penalty

    def score(self, v):
        return v[:, :-1] @ self.m.bias + np.logaddexp(0.0, v @ self.m.atoms) @ self.m.counts

    def J(self, w):
        seen, expected = np.logaddexp(0.0, self.rows @ w).mean(), self.p @ np.logaddexp(0.0, self.states @ w)
        return seen - expected - 0.5 * self.ridge * w @ w

    def active(self, w):
        return (1.0 / (1.0 + np.exp(-(self.rows @ w)))).mean()

    def promise(self, w):
        """The slope of the objective towards a unit whose mean effect the visible bias makes up for."""
        excess = self.rows.mean(axis=0) - self.p @ self.states
        return self.J(w) - self.active(w) * w @ excess

    def slope(self, w):
        def of(v):
            return 1.0 / (1.0 + np.exp(-(v @ w)))

        seen, expected = of(self.rows) @ self.rows / len(self.rows), (self.p * of(self.states)) @ self.states
        return seen - expected - self.ridge * w


def grown(rows, *, alpha="units", l2=0.1, max_units=6, threads=1, steps=None, optimizer=EXACT, start=None, **options):
    """Return the loss, the fit, and the measure after every step, the start included."""
    loss = GrowingLikelihood(n_visible=rows.shape[1], max_units=max_units, l2=l2, alpha=alpha, threads=threads)
    mass = 1.0 if isinstance(alpha, str) else alpha
    first = Measure.independent(rows.mean(axis=0), len(rows), mass) if start is None else start
    path = []
    told = {"callback": lambda now: path.append(loss.measure(now.weights))} | options
    result = fit(loss, BitRows(rows), first.flat(max_units), optimizer=optimizer, max_iters=steps or max_units, **told)
    return loss, result, path


def some_measure(seed, n=4, k=3, alpha=2.0):
    rng = np.random.default_rng(seed)
    counts = rng.dirichlet(np.ones(k + 1))[:k] * alpha
    return Measure(rng.normal(size=n), rng.normal(size=(n + 1, k)), counts, alpha, 0.0)


# -- parts -------------------------------------------------------------------------------------------------------------
def test_a_measure_is_read_back_from_its_vector():
    m = some_measure(0)
    back = Measure.of_flat(m.flat(5), 4, 5)
    for name in ("bias", "atoms", "counts", "alpha", "log_z"):
        np.testing.assert_array_equal(getattr(back, name), getattr(m, name))


def test_uniform_measures_are_ordinary_machines():
    rng = np.random.default_rng(0)
    m = Measure(rng.normal(size=4), rng.normal(size=(5, 3)), np.ones(3), 3.0, 0.0)
    rows = rng.integers(2, size=(7, 4))
    plain, counted = m.machine(np.float64, True), m.machine(np.float64, False)
    np.testing.assert_allclose(plain.free_energy(rows), counted.free_energy(rows), rtol=1e-14)
    again = Measure.of_machine(plain, 3.0, 0.0)
    np.testing.assert_array_equal(again.atoms, m.atoms)


@pytest.mark.parametrize("hidden_bias", [True, False])
def test_the_subproblem_and_its_gradient(hidden_bias):
    rows, m = mixture(0, n=4), some_measure(1)
    oracle = Oracle(m, rows, 0.3, 2.0)
    executor = executor_of(1)
    law = ExactExpectations(4, executor).law(m)
    problem = NewUnit(RowAverages(BitRows(rows), np.float64, executor), law, oracle.ridge, hidden_bias)
    w = np.random.default_rng(2).normal(size=5)
    value, grad = problem.value_and_grad(w)
    assert value == pytest.approx(-oracle.promise(w), abs=1e-12) and abs(oracle.promise(w) - oracle.J(w)) > 0.01
    by_differences = [(oracle.promise(w + e) - oracle.promise(w - e)) / 2e-5 for e in 1e-5 * np.eye(5)]
    np.testing.assert_allclose(-grad[:4], by_differences[:4], atol=1e-8)
    assert grad[4] == (pytest.approx(-by_differences[4], abs=1e-8) if hidden_bias else 0.0)


def test_the_functional_gradient_is_the_derivative_towards_an_atom():
    rows, m, rng = mixture(0, n=4), some_measure(1), np.random.default_rng(3)
    oracle, w = Oracle(m, rows, 0.3, 2.0), rng.normal(size=5)

    def at(s):
        made_up = sum(c * a[:-1] * oracle.active(a) for c, a in zip(m.counts, m.atoms.T, strict=True))
        bias = m.bias + s * (made_up - m.alpha * w[:-1] * oracle.active(w))
        moved = Measure(bias, m.atoms, (1 - s) * m.counts, m.alpha, 0.0).with_unit(w, s * m.alpha)
        return Oracle(moved, rows, 0.3, 2.0).objective

    values = np.array([oracle.promise(a) for a in m.atoms.T])
    expected = m.alpha * oracle.promise(w) - m.counts @ values
    assert (at(1e-6) - at(-1e-6)) / 2e-6 == pytest.approx(expected, rel=1e-6)
    executor = executor_of(1)
    law = ExactExpectations(4, executor).law(m)
    position = Position.of(m, RowAverages(BitRows(rows), np.float64, executor), law, oracle.ridge)
    np.testing.assert_allclose(position.values, values, atol=1e-12)
    assert position.gap(10.0) == pytest.approx(10.0 * m.alpha - m.counts @ values)


def test_rates_that_are_off_make_no_unit_that_is_always_on():
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.random((300, 6)) < 0.5, 2, axis=1).astype(np.uint8)  # pairs of equal pixels
    executor, off = executor_of(1), Measure(np.full(12, -0.6), np.zeros((13, 0)), np.zeros(0), 1.0, 0.0)
    data, law = RowAverages(BitRows(rows), np.float64, executor), ExactExpectations(12, executor).law(off)
    watch = SimpleNamespace(limits=Limits(tol=0.0, max_iters=1), check_time=lambda: None)
    atom, value = best_unit(NewUnit(data, law, 0.01), rng, 4, Inner(watch, 1e-6, 200))
    always_on = np.append((data.mean - law.mean) / 0.01, 0.0)
    oracle = Oracle(off, rows, 0.01, "units")
    assert oracle.J(always_on) > 0.5 and oracle.promise(always_on) < 0.0
    assert value == pytest.approx(oracle.promise(atom), abs=1e-9) and value > 0.05
    activity = 1.0 / (1.0 + np.exp(-(oracle.rows @ atom)))
    assert activity.std() > 0.1


def test_line_searches_find_the_maximum_of_a_concave_function():
    rng = np.random.default_rng(0)
    rows = BitRows(rng.integers(2, size=(40, 3)).astype(np.uint8))
    law = RowAverages(rows, np.float64, executor_of(1), rng.dirichlet(np.ones(40)))
    d = rng.normal(size=40)
    for slope in (-2.0, 0.1, 0.4, 3.0):
        found = best_step(law, d, slope, (-0.5, 1.0))
        grid = np.linspace(-0.5, 1.0, 2001)
        assert along(law, d, slope, found) >= max(along(law, d, slope, s) for s in grid) - 1e-12
    assert best_step(law, 1e4 * d, 1e9, (0.0, 1.0), least_share=0.5) < 1e-2


def test_the_objective_against_enumeration_and_differences():
    rows, m = mixture(0, n=4), some_measure(1)
    loss = GrowingLikelihood(n_visible=4, max_units=3, l2=0.3, alpha=2.0)
    vector, data = m.flat(3), BitRows(rows)
    value, grad = loss.value_and_grad(vector, data)
    assert value == pytest.approx(-Oracle(m, rows, 0.3, 2.0).objective, abs=1e-10)
    moving = np.setdiff1d(np.arange(vector.size), [4, 5, 6])  # not the number of units, the mass and log Z
    for k in moving:
        e = np.zeros(vector.size)
        e[k] = 1e-5
        up, down = (-Oracle(loss.measure(vector + s * e), rows, 0.3, 2.0).objective for s in (1, -1))
        assert grad[k] == pytest.approx((up - down) / 2e-5, abs=1e-8)


# -- alpha = units -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("l2", [0.1, 0.01])
def test_columns_are_appended_stationary_and_gain_what_they_promise(l2):
    rows = mixture(1)
    loss, result, path = grown(rows, l2=l2)
    assert len(path) > 3
    assert [m.n_units for m in path] == list(range(len(path)))
    recorded = result.record
    for t, (before, after) in enumerate(itertools.pairwise(path)):
        np.testing.assert_array_equal(after.atoms[:, :-1], before.atoms)
        old, new, w = Oracle(before, rows, l2, "units"), Oracle(after, rows, l2, "units"), after.atoms[:, -1]
        assert np.abs(old.slope(w)).max() < 1e-6  # stationary for (5.8)
        bias_kept = Measure(before.bias, after.atoms, after.counts, after.alpha, 0.0)
        rise = Oracle(bias_kept, rows, l2, "units").log_likelihood - old.log_likelihood
        assert rise == pytest.approx(
            np.logaddexp(0, old.rows @ w).mean() - np.log(old.p @ (1 + np.exp(old.states @ w))), abs=1e-9
        )
        assert rise <= old.J(w) + 0.5 * l2 * w @ w + 1e-12  # Jensen
        np.testing.assert_allclose(new.p @ new.states[:, :-1], rows.mean(axis=0), atol=1e-7)  # moments match
        assert recorded["subproblem"][t] == pytest.approx(old.promise(w), abs=1e-9)
        assert recorded["gain"][t] == pytest.approx(new.log_likelihood - old.log_likelihood, abs=1e-9)
        assert recorded["log_z"][t] == pytest.approx(new.log_z, abs=1e-9)
        assert result.trace.loss[t + 1] == pytest.approx(-new.objective, abs=1e-9)
    machine = path[-1].machine(np.float64, True)
    assert isinstance(machine, bl.RBM)
    assert bl.log_likelihood(machine, rows).mean == pytest.approx(new.log_likelihood, abs=1e-9)


def test_units_that_cannot_help_are_not_added():
    rows = (np.random.default_rng(0).random((400, 5)) < 0.5).astype(np.uint8)
    _, result, path = grown(rows, l2=1.0)
    assert result.status is bl.Status.CONVERGED and path[-1].n_units == 0
    assert "no unit helps any more" in result.reason


def test_likelihood_gains_by_lambda():
    """With the bias refitted no unit lowers the likelihood at 0.1 and 0.05; at 0.01 some do."""
    falls = {}
    for l2 in (0.1, 0.05, 0.01):
        gains = np.concatenate(
            [
                np.diff([Oracle(m, rows, l2, "units").log_likelihood for m in grown(rows, l2=l2, max_units=5)[2]])
                for rows in (mixture(seed, k=8, rows=200) for seed in range(2))
            ]
        )
        falls[l2] = int((gains < -1e-9).sum())
    assert falls[0.1] == falls[0.05] == 0 and falls[0.01] > 0


# -- a fixed or learned mass -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("alpha", [4.0, "learned"])
@pytest.mark.parametrize("l2", [1.0, 0.05, 0.001])
@pytest.mark.parametrize("away_steps", [False, True])
def test_the_objective_never_falls(alpha, l2, away_steps):
    rows = mixture(1)
    optimizer = FrankWolfe(expectations="exact", n_starts=2, away_steps=away_steps)
    _, result, path = grown(rows, alpha=alpha, l2=l2, max_units=8, optimizer=optimizer)
    objectives = np.array([Oracle(m, rows, l2, alpha).objective for m in path])
    np.testing.assert_allclose(-result.trace.loss, objectives, atol=1e-8)
    assert (np.diff(objectives) > -1e-9).all()
    for m in path:
        assert m.counts.sum() <= m.alpha * (1 + 1e-12) and (m.counts > 0).all()


def test_the_gap_bounds_the_distance_to_the_optimum_and_closes():
    rows, l2 = mixture(2, n=5), 0.1
    optimizer = FrankWolfe(expectations="exact", n_starts=6, away_steps=True)
    _, result, path = grown(rows, alpha=2.0, l2=l2, max_units=40, steps=40, optimizer=optimizer, tol=1e-6)
    objectives = np.array([Oracle(m, rows, l2, 2.0).objective for m in path])
    gaps = result.trace.gap[1:]  # of the measure before each step
    assert (gaps >= objectives[-1] - objectives[: gaps.size] - 1e-9).all()
    assert gaps[-1] < 0.02 * gaps[0]


def test_away_steps_remove_units():
    rows = mixture(1)
    start = grown(rows, l2=0.01, max_units=4)[2][-1]  # units that are too long for what follows
    for alpha in ("units", float(start.n_units)):
        optimizer = FrankWolfe(expectations="exact", n_starts=2, away_steps=True)
        _, result, path = grown(rows, alpha=alpha, l2=0.3, max_units=12, steps=14, optimizer=optimizer, start=start)
        assert (result.record["step"] < 0).any()
        last = path[-1].atoms
        assert not all((last == column[:, None]).all(axis=0).any() for column in start.atoms.T)
        objectives = np.array([Oracle(m, rows, 0.3, alpha).objective for m in path])
        assert (np.diff(objectives) > -1e-9).all()
        if alpha == "units":
            assert [m.n_units for m in path[1:]] == result.record["n_units"].tolist()


# -- resuming, sampling, budgets ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("expectations", ["exact", "sampled"])
def test_resumed_runs_take_the_same_steps(expectations, tmp_path):
    rows = mixture(0, rows=60)
    optimizer = FrankWolfe(
        expectations=expectations, n_starts=1, sampling=Sampling(chains=30, sweeps=2, bias_steps=2), dtype="float64"
    )
    whole = grown(rows, max_units=5, optimizer=optimizer, seed=3)[1]
    path = tmp_path / "growth.npz"
    for steps in (2, 5):
        parts = grown(rows, max_units=5, optimizer=optimizer, seed=3, steps=steps, checkpoint=path)[1]
    np.testing.assert_array_equal(parts.weights, whole.weights)
    for name in COLUMNS:
        np.testing.assert_array_equal(parts.record[name], whole.record[name])
    two = grown(rows, max_units=5, optimizer=optimizer, seed=3, threads=2)[1]
    np.testing.assert_array_equal(two.weights, whole.weights)


def test_samples_lead_where_exact_expectations_lead():
    rows = mixture(0, rows=400)
    sampled = FrankWolfe(n_starts=2, sampling=Sampling(chains=4000, sweeps=20, bias_steps=60, learning_rate=0.5))
    exact, estimate = (grown(rows, max_units=4, optimizer=o)[2][-1] for o in (EXACT, sampled))
    truth = Oracle(exact, rows, 0.1, "units")
    found = Oracle(estimate, rows, 0.1, "units")
    assert found.objective == pytest.approx(truth.objective, abs=0.05)
    assert estimate.log_z == pytest.approx(found.log_z, abs=0.1)
    assert estimate.atoms.astype(np.float32).astype(float).tolist() == estimate.atoms.tolist()  # the machine's numbers


def test_fractions_are_sampled_too():
    rows = mixture(0, rows=200)
    sampled = FrankWolfe(n_starts=2, sampling=Sampling(chains=2000, sweeps=10, bias_steps=30, learning_rate=0.5))
    _, result, path = grown(rows, alpha=4.0, max_units=4, optimizer=sampled)
    objectives = [Oracle(m, rows, 0.1, 4.0).objective for m in path]
    assert objectives[-1] > objectives[0] + 0.1
    assert path[-1].counts.sum() <= 4.0 + 1e-9


def test_too_many_units_to_write_out_and_losses_of_others_are_refused():
    with pytest.raises(BudgetError, match=r"2\^21 visible rows.*sampled"):
        grown(np.zeros((2, 21), np.uint8))

    class Other:
        n_weights = 1

        def value_and_grad(self, w, data):
            return 0.0, np.zeros(1)

    with pytest.raises(ModelError, match="growing_likelihood alone, found Other"):
        fit(Other(), [], optimizer=EXACT)
