"""BernoulliRBM: scikit-learn's manners, rows of every kind, early stopping, resuming, files and memory."""

from __future__ import annotations

import pickle
import tracemalloc
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import BernoulliRBM as Reference
from sklearn.pipeline import make_pipeline

import beliefs as bl
from beliefs.learning.boltzmann.parameters import MachineShape
from beliefs.learning.boltzmann.registry import make_row_loss
from beliefs.learning.boltzmann.rows import bit_rows

RNG = np.random.default_rng(0)
TRUTH = bl.RBM(2.0 * RNG.normal(size=(8, 2)), RNG.normal(size=8))
ROWS = bl.sample(TRUTH, 240, seed=1).samples[:, :8].astype(bool)


def small(**options: Any) -> bl.BernoulliRBM:
    return bl.BernoulliRBM(**{"n_components": 5, "batch_size": 20, "n_iter": 3, "random_state": 3} | options)


def weights(rbm: bl.BernoulliRBM) -> bytes:
    return MachineShape.vector(rbm.model_).tobytes()


def test_the_machine_under_scikit_learns_names() -> None:
    rbm = bl.BernoulliRBM(5, 0.1, 20, 30, 0).fit(ROWS)
    model = rbm.model_
    assert isinstance(model, bl.RBM) and model.dtype == np.float32 and rbm.n_features_in_ == 8
    assert np.array_equal(rbm.components_, model.weights.T)
    assert np.array_equal(rbm.intercept_hidden_, model.hidden_bias)
    assert np.array_equal(rbm.intercept_visible_, model.visible_bias)
    assert rbm.h_samples_.shape == (20, 5) and set(np.unique(rbm.h_samples_)) <= {0.0, 1.0}
    assert np.allclose(rbm.transform(ROWS), model.hidden_probability(ROWS), atol=1e-6)
    assert np.allclose(rbm.free_energy(ROWS), model.free_energy(ROWS))
    direct = np.zeros(len(ROWS))
    for i in range(8):
        flipped = ROWS.copy()
        flipped[:, i] ^= True
        direct -= np.logaddexp(0.0, model.free_energy(ROWS) - model.free_energy(flipped))
    assert np.allclose(rbm.score_samples(ROWS), direct, atol=1e-9)
    assert rbm.score(ROWS) == pytest.approx(direct.mean())
    assert rbm.log_likelihood(ROWS).bound is bl.Bound.EXACT
    drawn = rbm.sample(50, seed=2)
    assert drawn.shape == (50, 8) and drawn.dtype == np.uint8
    step = rbm.gibbs(ROWS)
    assert step.shape == ROWS.shape and step.dtype == bool
    assert not np.array_equal(step, rbm.gibbs(ROWS))
    assert list(rbm.get_feature_names_out()) == [f"bernoullirbm{j}" for j in range(5)]


def test_likelihoods_are_those_of_the_reference() -> None:
    """The same rate, batches and passes: as good a machine, by the exact likelihood."""
    reference = Reference(5, learning_rate=0.1, batch_size=20, n_iter=60, random_state=0).fit(ROWS.astype(float))
    theirs = bl.RBM(reference.components_.T, reference.intercept_visible_, reference.intercept_hidden_)
    before = bl.log_likelihood(bl.RBM(np.zeros((8, 1))), ROWS).mean
    for loss in ("stochastic_likelihood", "contrastive_divergence"):
        ours = bl.BernoulliRBM(5, 0.1, 20, 60, random_state=0, loss=loss).fit(ROWS).log_likelihood(ROWS).mean
        there = bl.log_likelihood(theirs, ROWS).mean
        assert ours > before + 1.0 and abs(ours - there) < 0.25 * (there - before)


def test_gibbs_steps_have_the_law_of_the_machine() -> None:
    rbm = small(n_iter=20).fit(ROWS)
    exact = bl.infer(rbm.model_).visible
    v = np.repeat(ROWS[:40], 50, axis=0)
    for _ in range(60):
        v = rbm.gibbs(v)
    assert np.abs(v.mean(axis=0) - exact).max() < 5 * 0.5 / np.sqrt(len(v)) + 0.02


def test_scikit_learn_can_handle_it() -> None:
    rbm = small(loss="contrastive_divergence(sweeps=2)", learning_rate=0.05)
    same = clone(rbm)
    assert same.get_params() == rbm.get_params() and not hasattr(same, "model_")
    labels = ROWS[:, 0].astype(int)
    pipe = make_pipeline(rbm, LogisticRegression()).fit(ROWS, labels)
    assert pipe.score(ROWS, labels) > 0.5
    search = GridSearchCV(small(n_iter=1), {"n_components": [2, 3], "learning_rate": [0.05, 0.1]}, cv=2).fit(ROWS)
    assert search.best_estimator_.model_.n_hidden in (2, 3) and np.isfinite(search.best_score_)
    again = pickle.loads(pickle.dumps(small().fit(ROWS)))
    assert again.partial_fit(ROWS[:20]).model_.n_hidden == 5


def test_options_of_scikit_learns_machine_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[bool] = []

    def reporter(show: bool, *rest: Any) -> Any:
        shown.append(show)
        return nullcontext()

    monkeypatch.setattr(import_module("beliefs.learning.fit"), "reporter", reporter)
    for verbose in (0, True, 2):
        theirs = Reference(n_components=3, n_iter=2, verbose=verbose).get_params()
        assert bl.BernoulliRBM(**theirs).fit(ROWS).components_.shape == (3, ROWS.shape[1])
    assert shown == [False, True, True]
    with pytest.raises(bl.ModelError, match="verbose must be an integer of at least 0, found -1"):
        bl.BernoulliRBM(verbose=-1).fit(ROWS)


def test_every_way_to_store_rows_gives_the_same_machine(tmp_path: Path) -> None:
    stored = np.memmap(tmp_path / "rows", np.uint8, "w+", shape=ROWS.shape)
    stored[:] = ROWS
    expected = weights(small().fit(ROWS))
    for X in (ROWS.astype(np.uint8), ROWS.astype(np.float64), stored, csr_matrix(ROWS.astype(float)), ROWS.tolist()):
        assert weights(small().fit(X)) == expected
    grey = np.where(ROWS, 200, 30)
    assert weights(small(binarize=127).fit(grey)) == expected
    assert weights(small(binarize="mean").fit(ROWS.astype(float))) == expected
    assert weights(small(n_jobs=2).fit(ROWS)) == expected
    assert weights(small(random_state=4).fit(ROWS)) != expected
    assert weights(small(random_state=np.random.RandomState(1)).fit(ROWS)) != expected


class Blocks:
    """Blocks of rows, over and over."""

    def __iter__(self) -> Any:
        return iter(np.array_split(ROWS, 7))


def test_streams_of_rows() -> None:
    once = small(n_iter=1).fit(row for row in ROWS)
    blocks = small(n_iter=1).fit(iter(np.array_split(ROWS, 7)))
    again = small(n_iter=1).fit(Blocks())
    assert weights(once) == weights(blocks) == weights(again)
    assert small(n_iter=4).fit(Blocks()).result_.n_iters == 4
    assert small(n_iter=2, binarize="sample").fit(Blocks()).result_.n_iters == 2
    with pytest.raises(bl.ModelError, match=r"can be read once, and n_iter = 3 asks for more: take n_iter=1"):
        small().fit(row for row in ROWS)
    with pytest.raises(bl.ModelError, match="a stream of rows cannot"):
        small(n_iter=1, validation=0.2).fit(row for row in ROWS)


def test_an_update_is_the_rate_times_the_mean_gradient_per_row() -> None:
    shape = MachineShape(8, 5)
    rbm = small(l2=0.01, dtype="float64", learning_rate=0.3).fit(ROWS)
    before = MachineShape.vector(rbm.model_)
    loss = make_row_loss("stochastic_likelihood", shape=shape, dtype="float64", seed=3)
    loss.recall({name: array.copy() for name, array in rbm._memory.items()})
    order = np.random.default_rng([3, 0]).permutation(30)
    grad = loss.evaluate(before, bit_rows(ROWS[:30][order])).grad
    expected = before - 0.3 * grad
    expected[: shape.n_couplings] -= 0.3 * 0.02 * before[: shape.n_couplings]
    assert np.allclose(MachineShape.vector(rbm.partial_fit(ROWS[:30]).model_), expected, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "contrastive_divergence(sweeps=2)", "optimizer": "sgd(t0=50, momentum=0.9)", "binarize": "sample"},
        {"loss": "stochastic_likelihood(temperatures=3, fast=True, chains=7)", "optimizer": "adam"},
        {"loss": "pseudo_likelihood", "dtype": "float64", "validation": 0.25},
    ],
)
def test_a_resumed_fit_has_the_same_bytes(options: dict[str, Any], tmp_path: Path) -> None:
    X = ROWS if options.get("binarize") is None else np.clip(ROWS + 0.1, 0.0, 0.9)
    whole = small(**options).fit(X)
    path, steps = tmp_path / "fit.npz", []

    def stop(progress: Any) -> bool:
        steps.append(progress.step)
        return len(steps) == 17

    first = small(**options, checkpoint=path, callback=stop).fit(X)
    assert first.result_.status is bl.Status.STOPPED and weights(first) != weights(whole)
    second = small(**options, checkpoint=path).fit(X)
    assert weights(second) == weights(whole)
    assert second.result_.trace.loss.tobytes() == whole.result_.trace.loss.tobytes()
    with pytest.raises(bl.ModelError, match="is of another fit"):
        small(**options | {"batch_size": 30}, checkpoint=path).fit(X)


def test_an_interrupt_within_an_update_leaves_the_last_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, path = small().fit(ROWS), tmp_path / "fit.npz"
    calls = []
    from beliefs.learning.optimizers.sgd import SGD

    real = SGD.direction

    def direction(self: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 17:
            raise KeyboardInterrupt
        return real(self, *arguments)

    monkeypatch.setattr(SGD, "direction", direction)
    rbm = small(checkpoint=path)
    with pytest.raises(KeyboardInterrupt):
        rbm.fit(ROWS)
    assert not hasattr(rbm, "model_")
    monkeypatch.setattr(SGD, "direction", real)
    assert weights(small(checkpoint=path).fit(ROWS)) == weights(whole)


def test_a_growing_gap_ends_the_fit_with_the_machine_before() -> None:
    few, others = ROWS[:20], ROWS[100:140]
    options: dict[str, Any] = {"n_components": 30, "n_iter": 400, "batch_size": 5, "learning_rate": 0.3, "patience": 8}
    rbm = small(**options, validation=others, max_gap=1.0).fit(few)
    result, gaps = rbm.result_, rbm.result_.trace.validation
    assert result.status is bl.Status.STOPPED and result.n_iters < 400
    assert np.all(gaps[-8:] > gaps.min() + 1.0) and result.validation == gaps[-9]
    assert f"those of iteration {result.n_iters - 8}" in result.reason
    seen = few[:: max(1, len(few) // 40)]
    assert gaps[-9] == pytest.approx(rbm.free_energy(others).mean() - rbm.free_energy(seen).mean(), abs=1e-4)
    by_share = small(validation=0.25, n_iter=2).fit(ROWS)
    assert np.isfinite(by_share.result_.validation)


def test_starts_and_optimisers() -> None:
    start = bl.RBM(0.1 * np.random.default_rng(5).normal(size=(8, 5)))
    assert np.array_equal(small(init=start, n_iter=0).fit(ROWS).components_, start.weights.T.astype(np.float32))
    exact = small(loss="likelihood", optimizer="lbfgs", n_iter=60, l2=1e-3).fit(ROWS)
    assert exact.model_.dtype == np.float32 and exact.result_.bound is bl.Bound.EXACT
    assert exact.log_likelihood(ROWS).mean > bl.log_likelihood(TRUTH, ROWS).mean - 0.05
    for options in ({"loss": "surrogate_likelihood", "inference": "mean_field(order=2)"}, {"loss": "ratio_matching"}):
        assert small(**options, n_iter=10).fit(ROWS).log_likelihood(ROWS).mean > -8 * np.log(2)
    with pytest.raises(bl.ModelError, match="line search of lbfgs fails"):
        small(optimizer="lbfgs").fit(ROWS)


def test_a_rate_that_is_too_large_diverges_to_the_last_good_weights() -> None:
    for rate in (1e5, 1e30):
        with pytest.warns(bl.ConvergenceWarning, match="use a smaller step"):
            rbm = small(learning_rate=rate).fit(ROWS)
        assert rbm.result_.status is bl.Status.DIVERGED
        assert np.isfinite(rbm.components_).all() and np.isfinite(rbm.score(ROWS))


@pytest.mark.parametrize("optimizer", ["sgd(t0=None)", "sgd(momentum=0.9)", "adam"])
def test_updates_of_many_weights_are_shared_by_threads(optimizer: str) -> None:
    """Weights are updated in blocks of 65,536: threads share them out where they share the products of a mini-batch."""
    X = np.random.default_rng(0).random((60, 700)) < 0.3
    one, two, three = (
        bl.BernoulliRBM(300, batch_size=60, n_iter=4, learning_rate=0.01, optimizer=optimizer, n_jobs=n).fit(X)
        for n in (None, 2, 3)
    )
    assert weights(one) == weights(two) == weights(three)


def test_an_update_that_overflows_on_two_threads_diverges() -> None:
    X = np.random.default_rng(0).random((60, 700)) < 0.3
    with pytest.warns(bl.ConvergenceWarning, match="use a smaller step"):  # and of nothing else
        rbm = bl.BernoulliRBM(300, batch_size=60, n_iter=9, learning_rate=1e38, n_jobs=2).fit(X)
    assert rbm.result_.status is bl.Status.DIVERGED and np.isfinite(rbm.model_.weights).all()


def test_files_keep_every_bit(tmp_path: Path) -> None:
    from beliefs.learning.estimators.registry import load_estimator

    rbm = small(validation=ROWS[:30], binarize="mean", learning_rate=0.07).fit(ROWS.astype(float))
    rbm.save(tmp_path / "rbm.npz")
    for back in (bl.BernoulliRBM.load(tmp_path / "rbm.npz"), load_estimator(tmp_path / "rbm.npz")):
        assert weights(back) == weights(rbm) and back.model_.dtype == np.float32
        assert back.learning_rate == 0.07 and back.binarize == "mean" and back.validation is None
        assert np.array_equal(back.h_samples_, rbm.h_samples_)
        assert np.array_equal(back.transform(ROWS), rbm.transform(ROWS))


def test_memory_is_predicted_and_small() -> None:
    X = np.random.default_rng(0).random((400, 784)) < 0.3
    rbm = bl.BernoulliRBM(500, batch_size=100, n_iter=2, validation=0.25)
    with pytest.raises(bl.BudgetError, match="BernoulliRBM needs .* for 784 x 500 units; the limit is 10 MB"):
        clone(rbm).set_params(max_bytes=10**7).fit(X)
    tracemalloc.start()
    rbm.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
    clone(rbm).set_params(max_bytes=50_000_000)._check_budget(MachineShape(784, 500), 100)
    with pytest.raises(bl.BudgetError):  # what is predicted is not less than what is used
        clone(rbm).set_params(max_bytes=int(peak))._check_budget(MachineShape(784, 500), 100)


@pytest.mark.parametrize(
    ("options", "X", "message"),
    [
        ({}, [[0, 2]], "X must be 0 or 1 .* found 2 in row 0, unit 1"),
        ({}, [[0.0, np.nan]], "found nan in row 0, unit 1"),
        ({}, np.zeros((0, 4)), "expected rows in X, found none"),
        ({"n_components": 0}, ROWS, "n_components must be an integer of at least 1, found 0"),
        ({"learning_rate": 0}, ROWS, "learning_rate must be a number above 0"),
        ({"learning_rate": np.nan}, ROWS, "learning_rate must be"),
        ({"batch_size": 0}, ROWS, "batch_size must be"),
        ({"n_iter": -1}, ROWS, "n_iter must be"),
        ({"dtype": "int8"}, ROWS, "dtype must be 'float32' or 'float64'"),
        ({"binarize": "yes"}, ROWS, "binarize must be None, a threshold, 'sample' or 'mean'"),
        ({"validation": 1.5}, ROWS, "validation must be rows, or a share between 0 and 1"),
        ({"validation": np.zeros((3, 4))}, ROWS, r"validation must have shape \(rows, 8\), found \(3, 4\)"),
        ({"loss": "stochastic"}, ROWS, "no loss 'stochastic'"),
        ({"init": bl.RBM(np.zeros((7, 5)))}, ROWS, "init has 7 visible and 5 hidden units"),
        ({"init": "random"}, ROWS, "init must be None or an RBM"),
        ({"random_state": -1}, ROWS, "random_state must be"),
        ({"max_gap": -1.0}, ROWS, "max_gap must be"),
        ({"n_jobs": 0}, ROWS, "n_jobs must be"),
        ({"l2": -1.0}, ROWS, "l2 must be"),
        ({"loss": 3}, ROWS, "loss must be the text of a loss, found 3"),
        ({}, None, "X must be a table of bits, or rows one after the other, found None"),
    ],
)
def test_bad_input_is_one_line(options: dict[str, Any], X: Any, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message) as error:
        small(**options).fit(X)
    assert "\n" not in str(error.value)


def test_nothing_is_asked_before_a_fit() -> None:
    rbm = small()
    for ask in (rbm.transform, rbm.score_samples, rbm.gibbs, rbm.log_likelihood, rbm.free_energy, rbm.score):
        with pytest.raises(NotFittedError):
            ask(ROWS)


def test_rows_of_another_width_are_refused() -> None:
    rbm = small(n_iter=1).fit(ROWS)
    for ask in (rbm.transform, rbm.score_samples, rbm.gibbs, rbm.log_likelihood, rbm.partial_fit):
        with pytest.raises(bl.ModelError, match=r"must have shape \(rows, 8\), found \(3, 7\)"):
            ask(np.zeros((3, 7)))
