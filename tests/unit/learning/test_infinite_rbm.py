"""InfiniteRBM as an estimator: what it learns, when it stops, how it goes on, and what it refuses."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import beliefs as bl
from beliefs.errors import BudgetError, ModelError


def mixture(seed=1, n=8, k=3, rows=150):
    rng = np.random.default_rng(seed)
    prototypes = np.where(rng.random((k, n)) < 0.5, 0.05, 0.95)
    return (rng.random((rows, n)) < prototypes[rng.integers(k, size=rows)]).astype(np.uint8)


ROWS = mixture()
SMALL: dict[str, Any] = {"chains": 40, "sweeps": 2, "bias_steps": 3, "n_starts": 1}


def exact(max_units=4, **options):
    return bl.InfiniteRBM(max_units, expectations="exact", **options)


def same(one, other):
    arrays = ("weights", "visible_bias", "hidden_bias", "counts")
    return all(getattr(one.model_, name).tobytes() == getattr(other.model_, name).tobytes() for name in arrays)


def test_the_trace_is_what_happened():
    machine = exact(l2=0.05).fit(ROWS)
    trace = machine.trace_
    assert isinstance(machine.model_, bl.RBM) and machine.n_units_ == 4 == machine.model_.n_hidden
    assert trace.n_units.tolist() == [1, 2, 3, 4] and (np.diff(trace.seconds) > 0).all()
    assert "max_units = 4 was reached" in machine.result_.reason
    likelihoods = [bl.log_likelihood(exact(k, l2=0.05).fit(ROWS).model_, ROWS).mean for k in (1, 2)]
    assert trace.gain[1] == pytest.approx(likelihoods[1] - likelihoods[0], abs=1e-9)
    assert trace.free_energy[-1] == pytest.approx(machine.free_energy(ROWS).mean(), abs=1e-9)
    assert trace.log_z[-1] == pytest.approx(bl.infer(machine.model_).log_z, abs=1e-9)
    assert (trace.gap > 0).all() and (trace.subproblem > 0).all()
    assert machine.log_likelihood(ROWS).bound.name == "EXACT"


def test_fractional_machines():
    machine = exact(6, alpha=4.0, away_steps=True).fit(ROWS)
    assert isinstance(machine.model_, bl.FractionalRBM)
    assert 0 < machine.model_.counts.sum() <= 4.0 + 1e-9
    assert machine.transform(ROWS).shape == (len(ROWS), machine.n_units_)
    learned = exact(6, alpha="learned").fit(ROWS)
    plain = bl.log_likelihood(exact(1).fit(ROWS).model_, ROWS).mean
    assert bl.log_likelihood(learned.model_, ROWS).mean > plain - 0.5


def test_no_hidden_bias():
    assert (exact(hidden_bias=False).fit(ROWS).model_.hidden_bias == 0).all()
    assert (exact().fit(ROWS).model_.hidden_bias != 0).any()


def test_init_goes_on_where_a_machine_ends():
    two = exact(2, random_state=5).fit(ROWS)
    for init in (two.model_, two):
        four = exact(4, random_state=5, init=init).fit(ROWS)
        np.testing.assert_array_equal(four.model_.weights[:, :2], two.model_.weights)
        assert four.trace_.n_units.tolist() == [3, 4]
    whole = exact(4, random_state=5).fit(ROWS)
    np.testing.assert_allclose(four.model_.weights, whole.model_.weights, atol=1e-5)
    sampled = bl.InfiniteRBM(3, init=two.model_, **SMALL).fit(ROWS)
    np.testing.assert_array_equal(sampled.model_.weights[:, :2], two.model_.weights.astype(np.float32))


def test_stops_when_no_unit_helps_and_when_the_gap_grows():
    coins = (np.random.default_rng(0).random((300, 6)) < 0.5).astype(np.uint8)
    none = exact(l2=1.0).fit(coins)
    assert none.result_.status is bl.Status.CONVERGED and none.n_units_ == 0
    early = exact(30, l2=0.002, validation=coins[200:], max_gap=0.02, patience=2).fit(coins[:30])
    assert early.result_.status is bl.Status.STOPPED
    assert f"the machine with {early.n_units_} units is kept" in early.result_.reason
    assert early.n_units_ < len(early.trace_)
    kept = early.trace_.free_energy_gap[: early.n_units_]
    seen, unseen = early.free_energy(coins[:30]).mean(), early.free_energy(coins[200:]).mean()
    assert unseen - seen == pytest.approx(early.result_.validation, abs=1e-6)
    assert early.n_units_ == 0 or kept[-1] == pytest.approx(early.result_.validation)


def test_resumed_same_bytes_and_any_threads(tmp_path):
    options: dict[str, Any] = {"validation": 0.2, "max_gap": 100.0, "random_state": 3, **SMALL}
    whole = bl.InfiniteRBM(5, **options).fit(ROWS)
    stops = [0]

    def stop_after_three(now):
        stops[0] += 1
        return stops[0] == 4

    path = tmp_path / "growing.npz"
    first = bl.InfiniteRBM(5, checkpoint=path, callback=stop_after_three, **options).fit(ROWS)
    assert first.n_units_ == 3 and first.result_.status is bl.Status.STOPPED
    second = bl.InfiniteRBM(5, checkpoint=path, n_jobs=2, **options).fit(ROWS)  # threads are no part of a fit
    assert same(second, whole) and len(second.trace_) == len(whole.trace_) > 3
    np.testing.assert_array_equal(second.trace_.free_energy_gap, whole.trace_.free_energy_gap)
    np.testing.assert_array_equal(second.trace_.gain, whole.trace_.gain)
    assert same(bl.InfiniteRBM(5, n_jobs=2, **options).fit(ROWS), whole)


def test_rows_may_be_stored_in_any_way():
    whole = bl.InfiniteRBM(2, **SMALL).fit(ROWS)
    for rows in (ROWS.astype(bool), ROWS.astype(float), csr_matrix(ROWS), ROWS.tolist()):
        assert same(bl.InfiniteRBM(2, **SMALL).fit(rows), whole)
    assert same(bl.InfiniteRBM(2, binarize=0.5, **SMALL).fit(0.2 + 0.6 * ROWS), whole)
    drawn = 0.2 + 0.6 * ROWS
    assert bl.InfiniteRBM(2, binarize="sample", l2=0.03, **SMALL).fit(drawn).n_units_ == 2
    assert (
        exact(2, binarize="sample").fit(drawn).n_units_
        == 0
        == bl.InfiniteRBM(2, binarize="sample", **SMALL).fit(drawn).n_units_
    )
    assert whole.model_.dtype == np.float32
    assert bl.InfiniteRBM(2, dtype="float64", **SMALL).fit(ROWS).model_.dtype == np.float64


def test_manners_of_scikit_learn(tmp_path):
    machine = bl.InfiniteRBM(3, **SMALL)
    assert clone(machine).get_params() == machine.get_params()
    fitted = make_pipeline(machine).fit(ROWS)
    assert fitted.transform(ROWS).shape == (len(ROWS), 3)
    machine.fit(ROWS)
    path = tmp_path / "machine.npz"
    machine.save(path)
    assert same(bl.InfiniteRBM.load(path), machine) and same(pickle.loads(pickle.dumps(machine)), machine)
    fractional = exact(3, alpha=2.0).fit(ROWS)
    fractional.save(path)
    assert same(bl.InfiniteRBM.load(path), fractional)
    assert machine.sample(5).shape == (5, 8) and machine.components_.shape == (3, 8)
    assert np.isfinite(machine.score(ROWS))


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({"max_units": 0}, ROWS, "max_units must be an integer of at least 1, found 0"),
        ({"alpha": -1.0}, ROWS, "alpha must be 'units', 'learned' or a number above 0, found -1.0"),
        ({"alpha": "more"}, ROWS, "alpha must be 'units', 'learned' or a number above 0, found 'more'"),
        ({"l2": 0.0}, ROWS, "l2 must be a number above 0, found 0.0"),
        ({"l2": float("nan")}, ROWS, "l2 must be a number above 0, found nan"),
        ({"expectations": "guessed"}, ROWS, "expectations must be 'sampled' or 'exact', found 'guessed'"),
        ({"away_steps": 1}, ROWS, "away_steps must be True or False, found 1"),
        ({"chains": 0}, ROWS, "chains must be an integer of at least 1, found 0"),
        ({}, ROWS * 2, "found 2"),
        ({}, ROWS[:0], "expected rows in X, found none"),
        ({}, np.full((3, 4), np.nan), "found nan"),
        ({}, (row for row in ROWS), "InfiniteRBM reads its rows for every unit: give an array"),
        ({"init": 3}, ROWS, "init must be a machine or a fitted estimator of one, found 3"),
        ({"init": bl.RBM(np.zeros((3, 2)))}, ROWS, "init has 3 visible units, and the rows have 8"),
        ({"init": bl.RBM(np.zeros((8, 9)))}, ROWS, "init has 9 hidden units, more than max_units = 4"),
        ({"init": bl.FractionalRBM(np.zeros((8, 1)), counts=[0.5])}, ROWS, "units that do not count once"),
        ({"init": bl.RBM(np.zeros((8, 2))), "alpha": 1.0}, ROWS, "sum to 2, more than alpha = 1"),
        ({"validation": np.zeros((2, 3))}, ROWS, "validation must have shape"),
    ],
)
def test_bad_input_is_one_line(options, rows, message):
    machine = bl.InfiniteRBM(**{"max_units": 4, **SMALL, **options})
    with pytest.raises(ModelError) as error:
        machine.fit(rows)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not hasattr(machine, "model_")


def test_a_rate_that_diverges_leaves_the_last_good_machine():
    machine = bl.InfiniteRBM(4, learning_rate=1e300, **SMALL)
    with pytest.warns(bl.ConvergenceWarning, match="use a smaller learning_rate"):
        machine.fit(ROWS)
    assert machine.result_.status is bl.Status.DIVERGED and machine.n_units_ == 0
    assert np.isfinite(machine.model_.visible_bias).all()


def test_budgets_are_known_beforehand():
    with pytest.raises(BudgetError, match=r"2\^21 visible rows"):
        exact().fit(np.zeros((2, 21)))
    with pytest.raises(BudgetError, match="InfiniteRBM needs .* the limit is 1 MB"):
        bl.InfiniteRBM(max_bytes=10**6).fit(ROWS)
