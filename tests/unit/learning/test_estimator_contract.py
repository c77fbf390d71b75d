"""What scikit-learn and the user rely on in every estimator: parameters, clones, searches, pipelines, stops, starts."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import beliefs as bl
from beliefs.driver import Status
from beliefs.learning.estimators.examples import Examples
from beliefs.learning.estimators.structured.chain import ChainCRF
from beliefs.learning.estimators.structured.chain_svm import ChainSVM
from beliefs.learning.estimators.structured.crf import CRF
from beliefs.learning.estimators.structured.graph import GraphCRF
from beliefs.learning.estimators.structured.graph_svm import GraphSVM
from beliefs.learning.estimators.structured.grid import GridCRF
from beliefs.learning.estimators.structured.grid_svm import GridSVM
from beliefs.learning.estimators.structured.svm import SVM

QUICK: dict[str, Any] = {"n_sweeps": 2, "max_iters": 5}
BOTH = pytest.mark.parametrize("kind", [GridCRF, GraphCRF])
ALL = pytest.mark.parametrize("kind", [GridCRF, GraphCRF, ChainSVM, GridSVM, GraphSVM])


def ridge_of(kind: type[CRF]) -> str:
    """Return what says how much weights are held back."""
    return "C" if issubclass(kind, SVM) else "l2"


def quickly(kind: type[CRF]) -> dict[str, Any]:
    return {"max_iters": 5} if issubclass(kind, SVM) else QUICK


def images(n: int = 6) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(0)
    Y = [np.repeat(rng.integers(0, 2, (4, 2)), 2, axis=1) for _ in range(n)]
    return [y + 0.7 * rng.normal(size=y.shape) for y in Y], Y


def instances(kind: type[CRF], n: int = 6) -> tuple[list[Any], list[np.ndarray]]:
    X, Y = images(n)
    if issubclass(kind, GridCRF):
        return X, Y
    if issubclass(kind, ChainCRF):
        return [x.reshape(-1, 1) for x in X], [y.ravel() for y in Y]
    edges = np.stack([np.arange(15), np.arange(1, 16)], axis=1)
    return [(x.reshape(-1, 1), edges) for x in X], [y.ravel() for y in Y]


@ALL
def test_arguments_are_kept_unchanged(kind: type[CRF]) -> None:
    weight, method, ridge = {0: 1.0, 1: 2.0}, bl.TRW(), ridge_of(kind)
    crf = kind(class_weight=weight, inference=method, patience=np.int64(3), **{ridge: np.float32(0.5)})  # type: ignore[arg-type]
    params = crf.get_params()
    assert params["class_weight"] is weight
    assert params["inference"] is method
    assert crf.set_params(patience=4).patience == 4
    crf.set_params(max_iters=2).fit(*instances(kind))
    assert crf.get_params()["class_weight"] is weight
    copy = clone(crf)
    assert not hasattr(copy, "weights_")
    assert copy.get_params().keys() == params.keys()
    assert copy.fit(*instances(kind)).weights_.tobytes() == crf.weights_.tobytes()
    with pytest.raises(ValueError, match="Invalid parameter"):
        crf.set_params(n_sweep=3)


@ALL
def test_what_is_not_fitted_does_not_answer(kind: type[CRF]) -> None:
    X, Y = instances(kind)
    for question in (
        lambda c: c.predict(X), lambda c: c.predict_marginals(X), lambda c: c.score(X, Y), lambda c: c.sample(X),
        lambda c: c.model(X[0]), lambda c: c.describe(), lambda c: c.save("x.npz"),
    ):  # fmt: skip
        with pytest.raises(NotFittedError):
            question(kind())


@ALL
def test_searches_and_cross_validation(kind: type[CRF]) -> None:
    X, Y = instances(kind)
    quick, ridge = quickly(kind), ridge_of(kind)
    search = GridSearchCV(kind(**quick), {ridge: [1e-3, 10.0]}, cv=KFold(2)).fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    for value, found in zip((1e-3, 10.0), scores, strict=True):
        by_hand = []
        for train, test in KFold(2).split(X):
            crf = kind(**(quick | {ridge: value})).fit([X[i] for i in train], [Y[i] for i in train])
            by_hand.append(crf.score([X[i] for i in test], [Y[i] for i in test]))
        assert found == pytest.approx(np.mean(by_hand))
    assert search.best_params_[ridge] == (1e-3, 10.0)[int(np.argmax(scores))]
    assert search.predict(X)[0].shape == Y[0].shape
    assert cross_val_score(kind(**quick), X, Y, cv=2).shape == (2,)


def doubled(X: list[np.ndarray]) -> list[np.ndarray]:
    return [2 * x for x in X]


def test_pipelines() -> None:
    X, Y = images()
    steps = [("double", FunctionTransformer(doubled)), ("crf", GridCRF(**QUICK))]
    pipe = Pipeline(steps).fit(X, Y)
    alone = GridCRF(**QUICK).fit(doubled(X), Y)
    assert pipe.score(X, Y) == alone.score(doubled(X), Y)
    assert all(np.array_equal(a, b) for a, b in zip(pipe.predict(X), alone.predict(doubled(X)), strict=True))
    assert GridSearchCV(pipe, {"crf__n_sweeps": [1, 2]}, cv=2).fit(X, Y).best_score_ > 0.5


def test_stacked_arrays_are_lists() -> None:
    X, Y = images()
    stacked = GridCRF(**QUICK).fit(np.stack(X), np.stack(Y))
    assert stacked.weights_.tobytes() == GridCRF(**QUICK).fit(X, Y).weights_.tobytes()


@ALL
def test_a_fitted_model_survives_pickling(kind: type[CRF]) -> None:
    """Searches in several processes send fitted models home."""
    X, Y = instances(kind)
    crf = kind(**quickly(kind)).fit(X, Y)
    copy = pickle.loads(pickle.dumps(crf))
    assert copy.predict_marginals(X)[0].tobytes() == crf.predict_marginals(X)[0].tobytes()


def test_words_as_labels() -> None:
    X, Y = images()
    words = np.array(["sky", "grass"])
    named = GridCRF(**QUICK).fit(X, [words[y] for y in Y])
    coded = GridCRF(**QUICK).fit(X, [1 - y for y in Y])  # grass comes before sky
    assert named.classes_.tolist() == ["grass", "sky"]
    assert named.weights_.tobytes() == coded.weights_.tobytes()
    assert np.array_equal(named.predict(X)[0], np.array(["grass", "sky"])[coded.predict(X)[0]])
    assert named.score(X, [words[y] for y in Y]) == coded.score(X, [1 - y for y in Y])
    assert named.sample(X[:1], 2)[0].shape == (2, 4, 4)
    hidden = [np.where(np.arange(4) < 1, None, words[y]) for y in Y]
    some = GridCRF(**QUICK).fit(X, hidden)
    coded = GridCRF(**QUICK).fit(X, [np.where(np.arange(4) < 1, -1, 1 - y) for y in Y])
    assert some.weights_.tobytes() == coded.weights_.tobytes()
    with pytest.raises(bl.ModelError, match="'gras' is not a class of the fitted model; did you mean 'grass'"):
        named.score(X[:1], [np.full((4, 4), "gras")])


# -- starts and stops ---------------------------------------------------------------------------------------------
def test_the_independent_model_is_the_default_start() -> None:
    X, Y = images()
    crf = GridCRF(max_iters=0, n_sweeps=2).fit(X, Y)
    pixels = GraphCRF(loss="univariate_logistic", l2=1e-4, max_iters=200, init="zeros")
    alone = pixels.fit([{"unary": x.reshape(-1, 1)} for x in X], [y.ravel() for y in Y])
    assert crf.weights_[:4] == pytest.approx(alone.weights_, abs=1e-3)
    assert (crf.weights_[4:] == 0).all()


def test_one_loss_starts_from_another() -> None:
    X, Y = images()
    first = GridCRF(loss="surrogate_likelihood").fit(X, Y)
    for init in ("auto", "surrogate_likelihood"):
        stages: list[Any] = []

        def stop(now: Any, stages: list[Any] = stages) -> bool:
            return len(stages) > 1

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("beliefs.learning.estimators.fitting.fit", _spied(stages))
            GridCRF(loss="smoothed_classification(alpha=15)", init=init, n_sweeps=2, callback=stop).fit(X, Y)
        assert [name for name, _ in stages] == ["surrogate_likelihood", "smoothed_classification"]
        assert stages[1][1] == pytest.approx(first.weights_, abs=1e-3)


def _spied(stages: list[Any]) -> Any:
    from beliefs.learning.fit import fit

    def spied(loss: Any, instances: Any, weights: Any, **options: Any) -> Any:
        stages.append((loss.name, np.array(weights)))
        return fit(loss, instances, weights, **options)

    return spied


def test_hidden_labels_start_smoothed_losses_from_em() -> None:
    X, Y = images(2)
    Y = [np.where(np.arange(4) < 1, -1, y) for y in Y]
    stages: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beliefs.learning.estimators.fitting.fit", _spied(stages))
        GridCRF(loss="smoothed_classification", max_iters=2, n_sweeps=2).fit(X, Y)
    assert [name for name, _ in stages] == ["surrogate_em", "smoothed_classification"]


def test_a_warm_start_goes_on() -> None:
    X, Y = images()
    crf = GridCRF(n_sweeps=2, warm_start=True, tol=1e-4).fit(X, Y)
    assert crf.result_.n_iters > 3
    assert crf.fit(X, Y).result_.n_iters == 0
    assert crf.set_params(warm_start=False).fit(X, Y).result_.n_iters > 3


def test_a_callback_stops_the_fit_and_the_model_is_usable() -> None:
    X, Y = images()
    seen = []
    crf = GridCRF(n_sweeps=2, init="zeros", callback=lambda now: seen.append(now.loss) or len(seen) >= 3).fit(X, Y)  # type: ignore[func-returns-value]
    assert crf.result_.status is Status.STOPPED
    assert len(seen) == 3
    assert crf.predict(X)[0].shape == (4, 4)


def test_stopping_before_the_real_fit_has_begun() -> None:
    X, Y = images()
    crf = GridCRF(n_sweeps=2, callback=lambda now: True).fit(X, Y)
    assert crf.result_.status is Status.STOPPED
    assert (crf.weights_[4:] == 0).all()


def test_early_stopping_holds_instances_out() -> None:
    X, Y = images(8)
    crf = GridCRF(n_sweeps=2, validation=0.25, patience=1, l2=0.0, seed=3).fit(X, Y)
    assert np.isfinite(crf.result_.validation)
    assert crf.result_.validation == pytest.approx(min(crf.result_.trace.validation))
    with pytest.raises(bl.ModelError, match="validation holds out a share of a list"):
        crf.fit(lambda: zip(X, Y, strict=True))


def test_doubling() -> None:
    X, Y = images(6)
    sizes = []
    with pytest.MonkeyPatch.context() as patch:
        from beliefs.learning.fit import fit

        patch.setattr(
            "beliefs.learning.schedules.fit",
            lambda loss, part, *a, **k: sizes.append(len(part)) or fit(loss, part, *a, **k),  # type: ignore[func-returns-value]
        )
        GridCRF(n_sweeps=2, schedule="doubling(start=2, max_iters=4)").fit(X, Y)
    assert sizes == [2, 4, 6]


def test_a_killed_fit_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    X, Y = images()
    path = tmp_path / "fit.npz"
    whole = GridCRF(n_sweeps=2, tol=1e-7).fit(X, Y)

    def stop(now: Any) -> bool:
        return bool(path.exists() and now.iteration >= 4)

    crf = GridCRF(n_sweeps=2, tol=1e-7, checkpoint=path, callback=stop).fit(X, Y)
    assert path.exists()
    crf = GridCRF(n_sweeps=2, tol=1e-7, checkpoint=path).fit(X, Y)
    assert crf.weights_ == pytest.approx(whole.weights_, abs=1e-4)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_mini_batches_of_pairs_loaded_one_by_one(optimizer: str) -> None:
    X, Y = images()
    crf = GridCRF(n_sweeps=2, optimizer=optimizer, max_iters=20).fit(lambda: zip(X, Y, strict=True))
    assert crf.score(X, Y) > 0.7


# -- the package --------------------------------------------------------------------------------------------------
def test_estimators_are_at_the_top_level_and_loaded_late() -> None:
    assert bl.GridCRF is GridCRF
    assert bl.GraphCRF is GraphCRF
    assert {"GridCRF", "GraphCRF", "ChainCRF", "ChainSVM", "GridSVM", "GraphSVM", "learning", "metrics"} <= set(dir(bl))
    code = (
        "import sys, beliefs as bl\n"
        "late = ('sklearn', 'scipy.optimize', 'beliefs.learning')\n"
        "print(*[m for m in late if m in sys.modules])\n"
        "bl.GridCRF\n"
        "print('sklearn' in sys.modules)\n"
    )
    env = os.environ | {"PYTHONPATH": str(Path(bl.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["", "True"]
    with pytest.raises(AttributeError, match="no attribute 'GridCFR'"):
        bl.GridCFR  # noqa: B018


def test_weights_as_a_table() -> None:
    X, Y = images()
    crf = GridCRF(**QUICK).fit(X, Y)
    text = crf.describe(feature_names=["grey"])
    lines = text.splitlines()
    assert lines[0].split() == ["pixels", "0", "1"]
    assert lines[1].split() == ["grey", *(f"{w:.4g}" for w in crf.weights_[[0, 2]])]
    assert lines[2].split() == ["constant", *(f"{w:.4g}" for w in crf.weights_[[1, 3]])]
    assert lines[4].split() == ["horizontal", "edges", "0", "1"]
    assert lines[5].split() == ["0", *(f"{w:.4g}" for w in crf.weights_[4:6])]
    assert "1 more rows" in crf.describe(limit=1)


def test_lazy_pairs_are_checked_like_lists() -> None:
    X, Y = images()
    Y[3] = Y[3].astype(float)
    with pytest.raises(bl.ModelError, match="instance 3: labels must be integers"):
        GridCRF(**QUICK).fit(lambda: zip(X, Y, strict=True))
    assert not Examples(X, Y).lazy
