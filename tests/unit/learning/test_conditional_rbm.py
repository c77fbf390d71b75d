"""Conditional machines: gradients against enumeration and differences, learners, predictions, files and bad input."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import beliefs as bl
from beliefs.inference.text import parse_method
from beliefs.learning.boltzmann.conditional.parameters import ConditionalShape
from beliefs.learning.boltzmann.conditional.registry import CONDITIONAL_LOSSES, make_conditional_loss
from beliefs.learning.boltzmann.conditional.rows import paired_rows

SHAPE = ConditionalShape(4, 3, 2)
STATES = np.array(list(itertools.product((0, 1), repeat=SHAPE.n_visible)))
LEARNERS: dict[str, dict[str, Any]] = {
    "lr": {"n_components": 0},
    "cd": {"loss": "contrastive_divergence"},
    "cd from the logistic part": {"loss": "contrastive_divergence(sweeps=5, start=logistic)", "learning_rate": 0.1},
    "perceptron": {"loss": "contrastive_perceptron"},
    "mean field": {"inference": "mean_field"},
    "bp": {},
    "lssvm": {"loss": "max_margin(eps_h=0)"},
    "mssvm": {"loss": "max_margin"},
}
every_learner = pytest.mark.parametrize("learner", LEARNERS)


def made(text: str, method: str = "bp", **options: Any) -> Any:
    given = {"shape": SHAPE, "dtype": "float64", "l2": 0.0, "threads": 1}
    optional = {"method": parse_method(method), "seed": 0, "n_sweeps": 7, "sweep_growth": 0, "tol": 1e-3} | options
    return make_conditional_loss(text, given, optional)


def rows(n: int = 5, hidden: float = 0.0, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, size=(n, SHAPE.n_visible))
    bits[rng.random(bits.shape) < hidden] = -1
    return paired_rows(rng.normal(size=(n, SHAPE.n_inputs)), bits)


def weights(scale: float = 0.7, seed: int = 1) -> Any:
    return scale * np.random.default_rng(seed).normal(size=SHAPE.n_weights)


def slopes(function: Any, at: Any, step: float = 1e-6) -> Any:
    ends = [(at + step * e, at - step * e) for e in np.eye(at.size)]
    return np.array([(function(high) - function(low)) / (2 * step) for high, low in ends])


def scores(machine: Any, best: bool = False) -> Any:
    """Log weights of all visible states, hidden units summed out or at their best."""
    x = STATES @ machine.weights + machine.hidden_bias
    return STATES @ machine.visible_bias + (np.maximum(x, 0) if best else np.logaddexp(0, x)).sum(axis=1)


def agrees(row: Any) -> Any:
    return ((STATES == row) | (row < 0)).all(axis=1)


class TestGradients:
    @pytest.mark.parametrize("hidden", [0.0, 0.3])
    def test_the_likelihood_by_enumeration(self, hidden: float) -> None:
        data, at = rows(hidden=hidden), weights()

        def likelihood(w: Any) -> float:
            total = 0.0
            for row, machine in zip(data.bits, SHAPE.machine(w).given(data.inputs), strict=True):
                s = scores(machine)
                total += np.logaddexp.reduce(s) - np.logaddexp.reduce(s[agrees(row)])
            return total / len(data)

        found = made("surrogate_likelihood", "enumeration").evaluate(at, data)
        if hidden == 0.0:
            assert found.bound is bl.Bound.EXACT
        assert found.value == pytest.approx(likelihood(at), abs=1e-9)
        np.testing.assert_allclose(found.grad, slopes(likelihood, at), rtol=0, atol=1e-7)

    @pytest.mark.parametrize("method", ["bp", "mean_field", "mean_field(order=2)"])
    @pytest.mark.parametrize("hidden", [0.0, 0.3])
    def test_at_converged_inference_it_is_that_of_the_value(self, method: str, hidden: float) -> None:
        loss, data = made("surrogate_likelihood", method, n_sweeps=3000, tol=1e-14), rows(hidden=hidden)
        at = weights(0.3)
        found = loss.evaluate(at, data)
        found_grad = found.grad.copy()
        np.testing.assert_allclose(found_grad, slopes(lambda w: loss.evaluate(w, data).value, at, 1e-5), atol=1e-6)
        assert found.bound is (bl.Bound.LOWER if method == "mean_field" and not hidden else bl.Bound.ESTIMATE)

    @pytest.mark.parametrize("eps_h", [0, 1])
    def test_margins(self, eps_h: int) -> None:
        loss, data, at = made(f"max_margin(eps_h={eps_h})", n_sweeps=100, tol=0.0), rows(), weights()
        value = 0.0
        for row, machine in zip(data.bits, SHAPE.machine(at).given(data.inputs), strict=True):
            s = scores(machine, best=not eps_h)
            value += (s + (STATES != row).sum(axis=1)).max() - s[agrees(row)].max()
        found = loss.evaluate(at, data)
        assert found.value <= value / len(data) + 1e-9
        grad = found.grad.copy()
        np.testing.assert_allclose(grad, slopes(lambda w: loss.evaluate(w, data).value, at), rtol=0, atol=1e-6)

    def test_hamming_loss_is_a_bias(self) -> None:
        bits = np.array([1, 0, 1, 1])
        delta = (STATES != bits).sum(axis=1)
        np.testing.assert_array_equal(delta, bits.sum() + STATES @ (1 - 2 * bits))

    def test_long_chains_give_the_likelihood_gradient(self) -> None:
        data, at = rows(3), weights(0.4)
        exact = made("surrogate_likelihood", "enumeration").evaluate(at, data).grad.copy()
        loss = made("contrastive_divergence(sweeps=20, start=random)")
        mean = np.mean([loss.evaluate(at, data).grad.copy() for _ in range(1500)], axis=0)
        np.testing.assert_allclose(mean, exact, rtol=0, atol=0.06)

    def test_the_perceptron_updates_only_rows_that_lose(self) -> None:
        loss, data, at = made("contrastive_perceptron"), rows(1), weights()
        for seed in range(8):
            at = weights(seed=seed)
            found = loss.evaluate(at, data)
            machine = SHAPE.machine(at).given(data.inputs)[0]
            assert 0 <= found.value <= scores(machine).max() - scores(machine)[agrees(data.bits[0])][0] + 1e-9
            assert (found.value == 0.0) == (not found.grad.any())

    def test_sweeps_grow_with_passes(self) -> None:
        loss = made("surrogate_likelihood", n_sweeps=2, sweep_growth=3, tol=0.0)
        assert [loss.n_sweeps_of(k) for k in range(3)] == [2, 5, 8]
        late = made("surrogate_likelihood", n_sweeps=8, tol=0.0)
        one, other = loss.evaluate(weights(), rows().of_pass(2)), late.evaluate(weights(), rows())
        assert one.value == other.value and (one.grad == other.grad).all()


def pairs(n: int = 120, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    V = np.repeat(rng.integers(0, 2, size=(n, 2)), 3, axis=1)
    X = np.where(rng.random(V.shape) < 0.2, 1 - V, V)
    return X, V


class TestEstimator:
    @every_learner
    def test_every_learner_predicts_better_than_its_input(self, learner: str) -> None:
        X, V = pairs(300)
        options = {"n_components": 6, "n_iter": 40, "learning_rate": 0.3, "random_state": 0} | LEARNERS[learner]
        crbm = bl.ConditionalRBM(**options).fit(X[:200], V[:200])
        assert crbm.score(X[200:], V[200:]) > (X[200:] == V[200:]).mean() + 0.05
        p = crbm.predict_marginals(X)
        assert p.shape == V.shape and ((p >= 0) & (p <= 1)).all() and (crbm.predict(X) == (p > 0.5)).all()
        assert crbm.transform(X).shape == (300, crbm.model_.n_hidden)

    def test_without_hidden_units_it_is_logistic_regression(self) -> None:
        X, V = pairs()
        crbm = bl.ConditionalRBM(0, optimizer="lbfgs", n_iter=500, l2=0.01, dtype="float64").fit(X, V)
        for i in range(V.shape[1]):
            theirs = LogisticRegression(C=1 / (2 * 0.01 * len(X)), tol=1e-10, max_iter=1000).fit(X, V[:, i])
            np.testing.assert_allclose(crbm.model_.visible_input[i], theirs.coef_[0], rtol=0, atol=1e-4)
            np.testing.assert_allclose(crbm.predict_marginals(X)[:, i], theirs.predict_proba(X)[:, 1], atol=1e-4)

    def test_without_hidden_units_every_loss_is_that_of_logistic_regression(self) -> None:
        X, V = pairs(60)
        whole = bl.ConditionalRBM(0, n_iter=3).fit(X, V)
        for learner in LEARNERS.values():
            found = bl.ConditionalRBM(**(learner | {"n_components": 0, "learning_rate": 0.02}), n_iter=3).fit(X, V)
            assert found.weights_.tobytes() == whole.weights_.tobytes()
            assert found.predict_marginals(X).tobytes() == whole.predict_marginals(X).tobytes()

    @every_learner
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_predictions_of_a_row_know_no_others(self, learner: str, dtype: str) -> None:
        rng = np.random.default_rng(2)
        X, V = rng.normal(size=(21, 9)), rng.integers(0, 2, size=(21, 35))
        options: dict[str, Any] = {"n_components": 17, "n_iter": 2, "learning_rate": 0.3, "dtype": dtype}
        options |= LEARNERS[learner]
        crbm = bl.ConditionalRBM(**options).fit(X, V)
        marginals, hidden = crbm.predict_marginals(X), crbm.transform(X)
        for some in ([7], [20, 7, 3]):
            assert crbm.predict_marginals(X[some]).tobytes() == marginals[some].tobytes()
            assert crbm.transform(X[some]).tobytes() == hidden[some].tobytes()

    @every_learner
    def test_same_bytes_for_any_threads_and_resumed(self, learner: str, tmp_path: Path) -> None:
        X, V = pairs()
        options = {"n_components": 5, "n_iter": 4, "random_state": 3} | LEARNERS[learner]
        whole = bl.ConditionalRBM(**options).fit(X, V)
        other = bl.ConditionalRBM(**options, n_jobs=2).fit(X, V)
        path = tmp_path / "fit.npz"
        first = bl.ConditionalRBM(**(options | {"n_iter": 2}), checkpoint=path).fit(X, V)
        assert first.result_.n_iters == 2
        resumed = bl.ConditionalRBM(**options, checkpoint=path).fit(X, V)
        for found in (other, resumed):
            assert ConditionalShape.vector(found.model_).tobytes() == ConditionalShape.vector(whole.model_).tobytes()
            assert found.n_sweeps_ == whole.n_sweeps_ and (found.converged_ == whole.converged_).all()

    def test_early_stopping_keeps_the_best_and_its_sweeps(self) -> None:
        X, V = pairs(200)
        crbm = bl.ConditionalRBM(4, n_iter=12, patience=3, validation=(X[150:], V[150:]), learning_rate=0.3)
        crbm.fit(X[:150], V[:150])
        errors = crbm.result_.trace.validation
        assert crbm.result_.validation == errors.min() == pytest.approx(1 - crbm.score(X[150:], V[150:]))
        assert crbm.n_sweeps_ == 7 + int(errors.argmin()) and len(crbm.converged_) == crbm.result_.n_iters

    def test_files_sparse_inputs_and_search(self, tmp_path: Path) -> None:
        X, V = pairs()
        crbm = bl.ConditionalRBM(3, n_iter=2).fit(X, V)
        crbm.save(tmp_path / "crbm.npz")
        again = bl.ConditionalRBM.load(tmp_path / "crbm.npz")
        assert (again.predict_marginals(X) == crbm.predict_marginals(X)).all() and again.n_sweeps_ == crbm.n_sweeps_
        thin = bl.ConditionalRBM(3, n_iter=2).fit(sparse.csr_matrix(X), V)
        assert ConditionalShape.vector(thin.model_).tobytes() == ConditionalShape.vector(crbm.model_).tobytes()
        assert clone(crbm).get_params() == crbm.get_params()
        search = GridSearchCV(bl.ConditionalRBM(3, n_iter=1), {"n_components": [0, 2]}, cv=2).fit(X, V)
        assert search.best_params_["n_components"] in (0, 2)
        drawn = crbm.sample(X[:4], n_sweeps=3)
        assert drawn.shape == (4, 6) and set(np.unique(drawn)) <= {0, 1}
        many = crbm.sample(X, n_sweeps=3, random_state=1)
        assert crbm.sample(X[:11], n_sweeps=3, random_state=1).tobytes() == many[:11].tobytes()
        assert clone(crbm).set_params(n_jobs=2).fit(X, V).sample(X, 3, 1).tobytes() == many.tobytes()
        assert (crbm.sample(X, n_sweeps=3, random_state=2) != many).any()

    def test_a_rate_that_diverges_keeps_the_last_good_weights(self) -> None:
        X, V = pairs()
        with pytest.warns(bl.ConvergenceWarning, match="smaller step"):
            crbm = bl.ConditionalRBM(3, n_iter=20, learning_rate=1e37).fit(1e3 * X, V)
        assert crbm.result_.status.name == "DIVERGED" and np.isfinite(crbm.model_.weights).all()

    def test_losses_are_named_once(self) -> None:
        names = [cls.name for cls in CONDITIONAL_LOSSES]
        assert len(set(names)) == len(names)

    @pytest.mark.parametrize(
        ("options", "data", "message"),
        [
            ({}, (np.zeros((3, 2)), np.full((3, 2), 2)), "found 2 in row 0, unit 0"),
            ({}, ([[0.0, np.nan]], [[1]]), "X must be finite, found nan in row 0, column 1"),
            ({}, (sparse.csr_matrix([[0.0, 1.0], [0.0, np.nan]]), [[1], [0]]), "found nan in row 1, column 1"),
            ({"loss": 3}, None, "loss must be the text of a loss, found 3"),
            ({"validation": (np.zeros((1, 6)), -np.ones((1, 6), int))}, None, "every bit held out for validation is"),
            ({}, (np.zeros((3, 2)), np.zeros((2, 2))), "X has 3 rows and V has 2"),
            ({}, (np.zeros((0, 2)), np.zeros((0, 2))), "found none"),
            ({"n_sweeps": 0}, None, "n_sweeps"),
            ({"n_components": -1}, None, "n_components"),
            ({"loss": "stochastic_likelihood"}, None, "persistent chains do not suit"),
            ({"loss": "likelyhood"}, None, "loss"),
            ({"loss": "max_margin(eps_h=0.5)"}, None, "eps_h"),
            ({"inference": "local_search"}, None, "has no marginals"),
            ({"validation": 3}, None, "validation"),
            ({"loss": "max_margin"}, (np.zeros((2, 2)), [[-1, 0], [0, 1]]), "needs all bits"),
            ({"max_bytes": 10}, None, "ConditionalRBM needs"),
        ],
    )
    def test_bad_input(self, options: Any, data: Any, message: str) -> None:
        X, V = pairs(10) if data is None else data
        crbm = bl.ConditionalRBM(**options)
        with pytest.raises(bl.BeliefsError, match=message) as caught:
            crbm.fit(X, V)
        assert "\n" not in str(caught.value) and not hasattr(crbm, "model_")

    def test_other_widths_are_refused(self) -> None:
        X, V = pairs(20)
        crbm = bl.ConditionalRBM(2, n_iter=1).fit(X, V)
        with pytest.raises(bl.ModelError, match="X must have shape"):
            crbm.predict(X[:, :3])
        with pytest.raises(bl.ModelError, match="pass a list of rows"):
            crbm.predict(X[0])

    def test_scores_compare_with_bits_that_are_known(self) -> None:
        X, V = pairs(20)
        crbm = bl.ConditionalRBM(2, n_iter=1)
        with pytest.raises(NotFittedError):
            crbm.score(X, V)
        crbm.fit(X, V)
        some = V.astype(int)
        some[3:] = -1
        assert crbm.score(X, some) == crbm.score(X[:3], V[:3])
        with pytest.raises(bl.ModelError, match="every bit of V is hidden"):
            crbm.score(X, np.full(V.shape, -1))
