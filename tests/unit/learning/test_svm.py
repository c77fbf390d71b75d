"""Structured support vector machines: objectives by enumeration and by scikit-learn, predictions by hand, bad input."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

import beliefs as bl
from beliefs.learning.estimators.structured.chain_svm import ChainSVM
from beliefs.learning.estimators.structured.graph_svm import GraphSVM
from beliefs.learning.estimators.structured.grid_svm import GridSVM
from beliefs.learning.estimators.structured.svm import SVM

KINDS = pytest.mark.parametrize("kind", [ChainSVM, GridSVM, GraphSVM])


def points(n: int = 60, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return np.column_stack([rng.normal(size=(classes, 4))[y] + rng.normal(size=(n, 4)), np.ones(n)]), y


def vertices(X: np.ndarray, y: np.ndarray) -> tuple[list[Any], list[np.ndarray]]:
    return [{"unary": x[None]} for x in X], [np.array([k]) for k in y]


def small(kind: type[SVM], n: int = 8, hidden: float = 0.0) -> tuple[list[Any], list[np.ndarray]]:
    rng = np.random.default_rng(0)
    Y = [np.repeat(rng.integers(0, 2, 3), 2) for _ in range(n)]
    X = [y[:, None] + 0.8 * rng.normal(size=(6, 1)) for y in Y]
    Y = [np.where(rng.random(6) < hidden, -1, y) for y in Y]
    if kind is ChainSVM:
        return X, Y
    if kind is GridSVM:
        return [x.reshape(3, 2) for x in X], [y.reshape(3, 2) for y in Y]
    edges = np.array([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)])
    return [(x, edges) for x in X], Y


# -- against others ---------------------------------------------------------------------------------------------------
def test_without_edges_it_is_the_machine_of_crammer_and_singer() -> None:
    X, y = points()
    other = LinearSVC(multi_class="crammer_singer", C=0.7, fit_intercept=False, tol=1e-10, max_iter=10**6).fit(X, y)
    scores = X @ other.coef_.T
    truth = scores[np.arange(len(y)), y]
    losses = (scores + (np.arange(3) != y[:, None])).max(axis=1) - truth
    objective = 0.5 * (other.coef_**2).sum() + 0.7 * losses.sum()
    svm = GraphSVM(C=0.7, intercept=False, inference=None, tol=1e-5).fit(*vertices(X, y))
    assert svm.objective_ == pytest.approx(objective, rel=1e-4)
    assert svm.objective_ - svm.gap_ <= objective * (1 + 1e-9)
    assert svm.result_.loss * 0.7 * len(y) == pytest.approx(svm.objective_)
    assert svm.n_labelled_ == len(y)


def test_two_classes_are_the_binary_machine() -> None:
    X, y = points(classes=2)
    other = LinearSVC(loss="hinge", C=0.5, fit_intercept=False, tol=1e-10, max_iter=10**6).fit(X, y)
    margins = (2 * y - 1) * (X @ other.coef_[0])
    objective = 0.5 * (other.coef_**2).sum() + 0.5 * np.maximum(0, 1 - margins).sum()
    svm = GraphSVM(C=0.5, intercept=False, inference=None, tol=1e-5).fit(*vertices(X / np.sqrt(2), y))
    assert svm.objective_ == pytest.approx(objective, rel=1e-4)  # the weights of two classes are opposite, so sqrt(2)
    assert np.array_equal(np.concatenate(svm.predict(vertices(X / np.sqrt(2), y)[0])), other.predict(X))


def test_the_objective_of_chains_is_what_enumeration_says() -> None:
    X, Y = small(ChainSVM, 4)
    svm = ChainSVM(C=0.3, intercept=False).fit(X, Y, sample_weight=[1.0, 2.0, 1.0, 0.5])
    state, table = svm.weights_[:2], svm.weights_[2:].reshape(2, 2)
    total = 0.0
    for x, y, weight in zip(X, Y, (1.0, 2.0, 1.0, 0.5), strict=True):

        def score(z: Any, x: Any = x) -> float:
            return float(sum(state[k] * v for k, v in zip(z, x[:, 0], strict=True))
                         + sum(table[a, b] for a, b in zip(z[:-1], z[1:], strict=True)))  # fmt: skip

        total += weight * (max(score(z) + (np.array(z) != y).sum() for z in product((0, 1), repeat=6)) - score(y))
    assert svm.objective_ == pytest.approx(0.5 * svm.weights_ @ svm.weights_ + 0.3 * total, rel=1e-9)
    assert 0 <= svm.gap_ <= 1e-3 * svm.objective_
    assert svm.result_.optimizer.name == "one_slack"


def test_five_substates_tell_odd_from_even() -> None:
    digits = load_digits()
    X, Y = vertices(digits.data[:700] / 16, digits.target[:700] % 2)
    plain = GraphSVM(inference=None, tol=1e-2).fit(X[:300], Y[:300]).score(X[300:], Y[300:])
    latent = GraphSVM(inference=None, substates=5, tol=1e-2, max_iters=10).fit(X[:300], Y[:300])
    assert latent.score(X[300:], Y[300:]) > plain + 0.03
    assert {int(z[0]) for z in latent.predict_latent(X)} <= set(range(5))


# -- predictions ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("eps_y", "eps_h"), [(0.0, 0.0), (0.0, 1.0), (0.0, 0.4), (1.0, 1.0), (1.0, 0.0), (0.5, 0.5)])
def test_predictions_are_the_best_outputs_at_the_temperatures(eps_y: float, eps_h: float) -> None:
    rng = np.random.default_rng(5)
    edges, hidden = np.array([(0, 1), (1, 2), (2, 3), (3, 4)]), np.arange(5) % 2 == 1
    X = [{"unary": rng.normal(size=(5, 1)), "edges": edges, "hidden": hidden} for _ in range(6)]
    Y = [np.where(hidden, -1, rng.integers(0, 2, 5)) for _ in X]
    options: dict[str, Any] = {"n_hidden_states": 2, "inference": None, "optimizer": "sgd", "max_iters": 0, "seed": 1}
    svm = GraphSVM(eps_y=eps_y, eps_h=eps_h, init="random(scale=1.5)", **options).fit(X, Y)
    found = svm.predict(X)
    assert all((p == -1).tolist() == hidden.tolist() for p in found)
    for x, p in zip(X, found, strict=True):
        graph = svm.model(x)
        values: dict[Any, list[float]] = {}
        for z in product((0, 1), repeat=5):
            values.setdefault((z[0], z[2], z[4]), []).append(graph.log_score(np.array(z)))
        q = {y: eps_h * np.logaddexp.reduce(np.array(v) / eps_h) if eps_h else max(v) for y, v in values.items()}
        if eps_y == 0:
            best = max(q, key=lambda y: q[y])
        else:
            p_y = np.exp((np.array(list(q.values())) - max(q.values())) / eps_y)
            best = tuple(int(p_y[[y[i] == 1 for y in q]].sum() > p_y.sum() / 2) for i in range(3))
        assert tuple(p[~hidden].tolist()) == best


def test_messages_on_forests_are_exact_inference() -> None:
    X, Y = small(GraphSVM)
    trees = [(x[0], x[1][:-1]) for x in X]
    by_bp, exact = (GraphSVM(inference=method, max_iters=8).fit(trees, Y) for method in ("bp", None))
    assert by_bp.is_exact_
    assert by_bp.weights_.tobytes() == exact.weights_.tobytes()
    assert by_bp.gap_ < np.inf
    assert [p.tolist() for p in by_bp.predict(trees)] == [p.tolist() for p in exact.predict(trees)]
    assert all(p.shape == (6,) for p in by_bp.predict(X))  # rings: by messages
    assert not GraphSVM(max_iters=2).fit(X, Y).is_exact_
    chain = {"unary": X[0][0], "edges": X[0][1][:-1], "hidden": np.arange(6) == 2}
    labels = np.arange(6) % 2
    inner = GraphSVM(max_iters=1).fit([chain], [np.where(chain["hidden"], -1, labels)])
    assert not inner.is_exact_  # a sum between two maxima
    leaf = chain | {"hidden": np.arange(6) == 5}
    assert GraphSVM(max_iters=1).fit([leaf], [np.where(leaf["hidden"], -1, labels)]).is_exact_


# -- costs ------------------------------------------------------------------------------------------------------------
@KINDS
def test_costs_by_variable_are_those_of_tables_and_weights(kind: type[SVM]) -> None:
    X, Y = small(kind)
    options: dict[str, Any] = {"inference": None, "optimizer": "one_slack", "max_iters": 15}
    table = np.array([[0.0, 3.0], [0.5, 0.0]])
    given = kind(**options).fit(X, Y, costs=[table[y] for y in Y])
    assert_allclose(given.weights_, kind(delta=table, **options).fit(X, Y).weights_, atol=1e-9)
    assert_allclose(given.weights_, kind(class_weight={0: 3.0, 1: 0.5}, **options).fit(X, Y).weights_, atol=1e-9)


# -- fits -------------------------------------------------------------------------------------------------------------
CASES = [
    (ChainSVM, {}, "one_slack"),
    (ChainSVM, {"optimizer": "bcfw"}, "bcfw"),
    (GraphSVM, {"inference": None}, "one_slack"),
    (GridSVM, {}, "one_slack"),
    (ChainSVM, {"hidden": 0.3}, "cccp"),
    (ChainSVM, {"eps_y": 1.0}, "lbfgs"),
]


@pytest.mark.parametrize(("kind", "options", "optimizer"), CASES)
def test_the_same_bytes_for_any_threads_and_after_a_kill(
    kind: type[SVM], options: dict[str, Any], optimizer: str, tmp_path: Path
) -> None:
    given = dict(options)
    X, Y = small(kind, 4, hidden=given.pop("hidden", 0.0))
    whole = kind(**given, max_iters=4).fit(X, Y)
    assert whole.result_.optimizer.name == optimizer
    assert kind(**given, max_iters=4, n_jobs=2).fit(X, Y).weights_.tobytes() == whole.weights_.tobytes()
    if optimizer != "lbfgs":  # whose memory is scipy's
        path = tmp_path / "fit.npz"
        kind(**given, checkpoint=path, callback=lambda now: now.iteration >= 2).fit(X, Y)
        again = kind(**given, checkpoint=path, max_iters=4).fit(X, Y)
        assert again.weights_.tobytes() == whole.weights_.tobytes()
        assert again.objective_ == whole.objective_
    whole.save(tmp_path / "model.npz")
    kept = kind.load(tmp_path / "model.npz")
    assert [p.tolist() for p in kept.predict(X)] == [p.tolist() for p in whole.predict(X)]
    assert kept.get_params(deep=False).keys() == whole.get_params(deep=False).keys()
    assert (kept.objective_, kept.gap_) == (whole.objective_, whole.gap_)


def test_a_stopped_fit_says_what_its_weights_are_worth() -> None:
    X, Y = small(GridSVM, hidden=0.3)
    svm = GridSVM(inference=None, callback=lambda now: True).fit(X, Y)  # while the independent model is fitted
    value = svm.loss_.evaluate(svm.weights_, svm._data(X, Y, None)).value
    assert svm.objective_ == pytest.approx(value * svm.n_labelled_)
    assert svm.gap_ == np.inf
    chain = ChainSVM(callback=lambda now: now.iteration == 3).fit(*small(ChainSVM))
    assert chain.objective_ - chain.gap_ <= ChainSVM(optimizer="one_slack").fit(*small(ChainSVM)).objective_
    assert chain.gap_ < np.inf


@pytest.mark.parametrize(("hidden", "optimizer"), [(0.0, "one_slack"), (0.3, "sgd")])
def test_instances_that_are_loaded_one_by_one(hidden: float, optimizer: str) -> None:
    X, Y = small(ChainSVM, hidden=hidden)
    svm = ChainSVM(max_iters=5).fit(lambda: zip(X, Y, strict=True))
    assert svm.result_.optimizer.name == optimizer
    assert svm.score(X, Y) > 0.7


def test_options_of_fields_that_machines_have_not() -> None:
    for kind in (ChainSVM, GridSVM, GraphSVM):
        names = kind().get_params()
        assert not {"l1", "l2", "loss", "gradient", "n_sweeps"} & names.keys()
        assert {
            "C",
            "eps_y",
            "eps_h",
            "delta",
            "rescaling",
            "certified",
            "substates",
            "n_hidden_states",
        } <= names.keys()
    assert (ChainSVM().inference, GridSVM().inference, GraphSVM().decode) == (None, "bp", "auto")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0.0}, "C must be a positive number"),
        ({"C": -1.0}, "C must be a positive number"),
        ({"C": float("nan")}, "C must be a positive number"),
        ({"C": 1e-300}, "C must be a positive number, of 1e-15 to 1e\\+15"),
        ({"eps_y": -1.0}, "eps_y must be"),
        ({"eps_h": float("inf")}, "eps_h must be"),
        ({"eps_y": 1e-9}, "eps_y must be"),
        ({"delta": "hinge"}, "delta must be"),
        ({"delta": (1.0 - np.eye(2)) * 1j}, "delta must be"),
        (
            {"delta": "zero_one", "class_weight": {0: 2.0}},
            "labels are weighted .*delta='zero_one' is no sum over labels",
        ),
        ({"delta": [[0.0, 1.0], [1.0, 2.0]]}, "delta must cost 0 where the prediction is true"),
        ({"rescaling": "slack", "eps_y": 1.0}, "slack"),
        ({"rescaling": "slacks"}, "rescaling must be"),
        ({"decode": "best"}, "decode must be"),
        ({"inference": "mean_field"}, "mean_field does not give maxima"),
        ({"optimizer": "lbfgs"}, "lbfgs"),
        ({"optimizer": "bcfw", "substates": 2}, "cccp"),
        ({"optimizer": "n_slack", "substates": 2}, "cccp"),
        ({"optimizer": "cccp(inner=bcfw)", "substates": 2}, "eps_h=0 where variables are hidden"),
        ({"optimizer": "cccp(inner=lbfgs)", "substates": 2}, "the free term has kinks"),
        ({"substates": [1, 2, 3]}, "substates has 3 entries for 2 labels"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    X, Y = small(ChainSVM)
    with pytest.raises(bl.BeliefsError, match=message) as caught:
        ChainSVM(**options).fit(X, Y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c - 1.0, "instance 1: costs must be finite and at least 0"),
        (lambda c: c * np.nan, "instance 1: costs must be finite and at least 0"),
        (lambda c: c + 1.0, "instance 1: the label of variable 0 must cost 0"),
        (lambda c: c[:, :1], r"instance 1: costs must have shape \(6, 2\), found \(6, 1\)"),
        (lambda c: "much", "instance 1: costs must be an array of numbers"),
        (lambda c: c + 1j, "instance 1: costs must be an array of numbers"),
    ],
)
def test_bad_costs(change: Any, message: str) -> None:
    X, Y = small(ChainSVM)
    costs = [1.0 - np.eye(2)[y] for y in Y]
    costs[1] = change(costs[1])
    with pytest.raises(bl.ModelError, match=message):
        ChainSVM().fit(X, Y, costs=costs)


def test_mini_batches_do_not_meet_a_bad_instance_late() -> None:
    X, Y = small(ChainSVM)
    Y[-1] = np.full(6, -1)
    steps: list[int] = []
    svm = ChainSVM(optimizer="sgd(batch_size=1)", callback=lambda now: steps.append(now.step))
    with pytest.raises(bl.ModelError, match="instance 7: no variable has a label"):
        svm.fit(X, Y)
    assert not steps


@pytest.mark.parametrize("optimizer", ["one_slack", "lbfgs"])
def test_streams_say_that_labels_are_hidden(optimizer: str) -> None:
    X, Y = small(ChainSVM, hidden=0.3)
    svm = ChainSVM(optimizer=optimizer, eps_y=1.0, eps_h=0.0)
    with pytest.raises(bl.ModelError, match="convex" if optimizer == "one_slack" else "smooth"):
        svm.fit(lambda: zip(X, Y, strict=True))


@pytest.mark.parametrize("optimizer", ["bcfw", "one_slack", "n_slack"])
def test_instances_that_weigh_nothing_certify_nothing(optimizer: str) -> None:
    X, Y = small(GraphSVM)  # rings, on which bp has no certified bound
    svm = GraphSVM(optimizer=optimizer, max_iters=3).fit(X, Y, sample_weight=[0, 1, 1, 1, 1, 1, 1, 1])
    assert svm.gap_ == np.inf


def test_costs_that_belong_to_nothing() -> None:
    X, Y = small(ChainSVM)
    costs = [1.0 - np.eye(2)[y] for y in Y]
    with pytest.raises(bl.ModelError, match="costs must be a list with one array for each of 8 instances, found 7"):
        ChainSVM().fit(X, Y, costs=costs[1:])
    with pytest.raises(bl.ModelError, match="leave out class_weight"):
        ChainSVM(class_weight="balanced").fit(X, Y, costs=costs)
