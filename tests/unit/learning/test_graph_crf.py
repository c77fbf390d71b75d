"""Conditional random fields on any graph: potentials, answers and fits against enumeration and logistic regression."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import beliefs as bl
import reference
from beliefs.learning.estimators.examples import Examples
from beliefs.learning.estimators.structured.graph import GraphCRF
from beliefs.model.features import DifferentiableTemplate

K = 3
EDGES = np.array([[0, 1], [2, 1], [2, 3], [3, 0]])


def example(seed: int = 0, n: int = 4, edges: np.ndarray = EDGES) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, 2)), edges, rng.normal(size=(len(edges), 2))), rng.integers(0, K, n)


def at(x: Any, y: np.ndarray, weights: np.ndarray | None = None, **options: Any) -> GraphCRF:
    """A model with these weights: a fit of no iteration."""
    crf = GraphCRF(n_states=K, max_iters=0, init="zeros", loss="likelihood", **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beliefs.learning.estimators.labels.warnings.warn", lambda *_, **__: None)
        crf.fit([x], [y])
        if weights is None:
            weights = np.random.default_rng(1).normal(size=crf.weights_.size)
        return crf.set_params(init=weights).fit([x], [y])


def test_potentials_are_weights_times_features() -> None:
    x, y = example()
    crf = at(x, y, intercept=False)
    F = crf.weights_[: K * 2].reshape(K, 2)
    G = crf.weights_[K * 2 :].reshape(K * K, 2)
    graph = crf.model(x)
    for i in range(4):
        assert graph.factors[i].log_table == pytest.approx(F @ x[0][i])
    for e, (i, j) in enumerate(EDGES):
        assert graph.layout.scope(4 + e).tolist() == [i, j]
        expected = [[G[a * K + b] @ x[2][e] for b in range(K)] for a in range(K)]
        assert graph.factors[4 + e].log_table == pytest.approx(np.array(expected))


def test_the_intercept_is_one_more_feature() -> None:
    x, y = example()
    crf = at(x, y)
    with_ones = (np.column_stack([x[0], np.ones(4)]), *x[1:])
    other = at(with_ones, y, crf.weights_, intercept=False)
    assert other.model(with_ones).theta.tobytes() == crf.model(x).theta.tobytes()
    narrow = (x[0].astype(np.float32), *x[1:])
    wide = (x[0].astype(np.float32).astype(np.float64), *x[1:])
    assert crf.model(narrow).theta.tobytes() == crf.model(wide).theta.tobytes()


def test_edges_without_features_share_one_table() -> None:
    x, y = example()
    crf = at(x[:2], y)
    graph = crf.model(x[:2])
    assert graph.layout.cell_ptr[4:].tolist() == [4 * K] * 4
    ones = (*x[:2], np.ones((4, 1)))
    untied = at(ones, y, crf.weights_).model(ones)
    assert reference.joint_table(graph) == pytest.approx(reference.joint_table(untied))


@pytest.mark.parametrize("form", ["list", "dict", "tuple"])
def test_types_of_edges_have_weights_of_their_own(form: str) -> None:
    x, y = example()
    types = np.array([0, 1, 0, 1])
    listed = (x[0], [EDGES[types == 0], EDGES[types == 1]], [x[2][types == 0], x[2][types == 1]])
    crf = at(listed, y)
    assert crf.weights_.size == K * 3 + 2 * K * K * 2
    given: Any = {
        "list": listed,
        "dict": {"unary": x[0], "edges": EDGES, "edge_features": x[2], "edge_types": types},
        "tuple": (*x, types),
    }[form]
    same = at(given, y, crf.weights_)
    assert same.model(given).theta.tobytes() == crf.model(listed).theta.tobytes()
    G = crf.weights_[K * 3 :].reshape(2, K * K, 2)
    graph = crf.model(listed)
    assert graph.factors[4 + 2].log_table.ravel() == pytest.approx(G[1] @ x[2][1])


def test_cliques_of_three() -> None:
    x, y = example()
    scopes, values = np.array([[0, 1, 2], [3, 1, 0]]), np.random.default_rng(3).normal(size=(2, 2))
    given = {"unary": x[0], "edges": EDGES, "cliques": [(scopes, values)]}
    crf = at(given, y)
    H = crf.weights_[-2 * K**3 :].reshape(K**3, 2)
    graph = crf.model(given)
    assert graph.layout.scope(graph.n_factors - 1).tolist() == [3, 1, 0]
    assert graph.factors[graph.n_factors - 1].log_table.ravel() == pytest.approx(H @ values[1])
    joint = reference.joint_table(graph)
    assert crf.predict_marginals([given])[0].ravel() == pytest.approx(reference.mu_var(joint))


def test_answers_are_those_of_enumeration() -> None:
    x, y = example()
    crf = at(x, y)
    joint = reference.joint_table(crf.model(x))
    marginals = reference.mu_var(joint).reshape(4, K)
    assert crf.predict_marginals([x])[0] == pytest.approx(marginals)
    assert crf.predict([x])[0].tolist() == marginals.argmax(1).tolist()
    assert crf.predict([x], "map")[0].tolist() == list(np.unravel_index(joint.argmax(), joint.shape))
    assert crf.predict([x], "mean")[0] == pytest.approx(marginals @ np.arange(K))
    drawn = crf.sample([x], 4000)[0]
    assert drawn.shape == (4000, 4)
    frequency = (drawn[:, :, None] == np.arange(K)).mean(0)
    assert np.abs(frequency - marginals).max() < 5 * np.sqrt(0.25 / 4000)


def test_ties_go_to_the_smallest_state() -> None:
    x, y = example()
    crf = at(x, y, np.zeros(K * 3 + K * K * 2))
    assert crf.predict([x])[0].tolist() == [0, 0, 0, 0]


def test_without_edges_it_is_logistic_regression() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 2))
    labels = (features @ rng.normal(size=(2, K)) + rng.gumbel(size=(60, K))).argmax(1)
    parts = np.split(np.arange(60), [10, 25])
    X = [{"unary": features[p]} for p in parts]
    crf = GraphCRF(loss="univariate_logistic", l2=1e-2, tol=1e-9, intercept=False).fit(X, [labels[p] for p in parts])
    peer = LogisticRegression(C=1 / (2 * 1e-2 * 60), fit_intercept=False, tol=1e-10, max_iter=1000)
    peer.fit(features, labels)
    assert crf.weights_.reshape(K, 2) == pytest.approx(peer.coef_, abs=1e-5)
    assert crf.score(X, [labels[p] for p in parts]) == pytest.approx(peer.score(features, labels))


def data(n: int = 6, hidden: bool = False) -> tuple[list[Any], list[np.ndarray]]:
    X, Y = map(list, zip(*(example(seed) for seed in range(n)), strict=True))
    if hidden:
        Y = [np.where(np.arange(4) == k % 4, -1, y) for k, y in enumerate(Y)]
    return X, Y


@pytest.mark.parametrize("loss", ["likelihood", "clique_logistic"])
def test_the_fit_is_where_the_gradient_vanishes(loss: str) -> None:
    X, Y = data()
    crf = GraphCRF(loss=loss, l2=0.01, tol=1e-7, n_sweeps=4).fit(X, Y)
    assert crf.result_.converged
    again = crf._instances(Examples(X, Y))
    value, grad = crf.loss_.value_and_grad(crf.weights_, again)
    assert value == pytest.approx(crf.result_.loss)
    assert np.abs(grad).max() < 1e-6


def test_a_weight_of_two_is_an_instance_twice() -> None:
    X, Y = data()
    options: dict[str, Any] = {"loss": "likelihood", "l2": 0.01, "tol": 1e-8}
    weighted = GraphCRF(**options).fit(X, Y, sample_weight=[2, 1, 1, 1, 1, 0])
    repeated = GraphCRF(**options).fit([X[0], *X[:5]], [Y[0], *Y[:5]])
    assert weighted.weights_ == pytest.approx(repeated.weights_, abs=1e-5)
    assert weighted.score(X, Y, [2, 1, 1, 1, 1, 0]) == pytest.approx(repeated.score([X[0], *X[:5]], [Y[0], *Y[:5]]))


def test_class_weights_count_every_label() -> None:
    """Without edges a weight per class is a weight per row, which logistic regression knows, too."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(40, 2)), np.repeat([0, 1], [30, 10])
    X, Y = [{"unary": features[:15]}, {"unary": features[15:]}], [labels[:15], labels[15:]]
    for weight in ("balanced", {1: 3.0}):  # the ridge on two opposite vectors is half that on their difference
        crf = GraphCRF(loss="univariate_logistic", class_weight=weight, l2=1e-2, tol=1e-9, intercept=False).fit(X, Y)
        peer = LogisticRegression(
            C=1 / (1e-2 * 40), class_weight=weight, fit_intercept=False, tol=1e-10, max_iter=1000
        ).fit(features, labels)
        assert crf.weights_[2:] - crf.weights_[:2] == pytest.approx(peer.coef_[0], abs=1e-5), weight


def test_pairs_loaded_one_by_one_give_the_same_weights() -> None:
    X, Y = data(hidden=True)
    options: dict[str, Any] = {"n_sweeps": 3, "l2": 0.01}
    whole = GraphCRF(**options).fit(X, Y)
    passes = []

    def pairs() -> Any:
        passes.append(1)
        return zip(X, Y, strict=True)

    assert GraphCRF(**options).fit(pairs).weights_.tobytes() == whole.weights_.tobytes()
    assert len(passes) > 2
    assert GraphCRF(**options).fit(list(zip(X, Y, strict=True))).weights_.tobytes() == whole.weights_.tobytes()


def test_sparse_rows_are_features_like_any_other() -> None:
    X, Y = data()
    sparse = [(csr_array(np.where(np.abs(x[0]) > 0.5, x[0], 0)), *x[1:]) for x in X]
    dense = [(x[0].toarray(), *x[1:]) for x in sparse]
    options: dict[str, Any] = {"loss": "likelihood", "l2": 0.01, "tol": 1e-8}
    a, b = GraphCRF(**options).fit(sparse, Y), GraphCRF(**options).fit(dense, Y)
    assert a.weights_ == pytest.approx(b.weights_, abs=1e-6)
    assert a.predict(sparse)[0].tolist() == b.predict(dense)[0].tolist()


def test_a_template_of_ones_own() -> None:
    """A log-linear model written as two functions is the same model."""
    X, Y = data()

    def potentials(w: np.ndarray, x: Any) -> np.ndarray:
        F, G = w[: K * 2].reshape(K, 2), w[K * 2 :].reshape(K * K, 2)
        return np.concatenate([(x[0] @ F.T).ravel(), (x[2] @ G.T).ravel()])

    def vector_jacobian(w: np.ndarray, x: Any, bar: np.ndarray) -> np.ndarray:
        n = x[0].shape[0] * K
        grad_f = bar[:n].reshape(-1, K).T @ x[0]
        return np.concatenate([grad_f.ravel(), (bar[n:].reshape(-1, K * K).T @ x[2]).ravel()])

    template = DifferentiableTemplate(K * 2 + K * K * 2, potentials, vector_jacobian)
    options: dict[str, Any] = {"loss": "likelihood", "l2": 0.01, "tol": 1e-8, "init": "zeros", "intercept": False}
    plain, curved = GraphCRF(**options).fit(X, Y), GraphCRF(template=template, **options).fit(X, Y)
    assert curved.weights_ == pytest.approx(plain.weights_, abs=1e-6)


def test_prediction_uses_the_sweeps_of_the_fit() -> None:
    X, Y = data()
    for inference in ("trw", "bp", "mean_field"):
        crf = GraphCRF(inference=inference, n_sweeps=1, max_iters=3).fit(X, Y)
        crf.weights_ = crf.weights_ * 5  # far from a fixed point after one sweep
        graph = crf.model(X[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.ConvergenceWarning)
            once = bl.infer(graph, crf._method, max_iters=1, tol=0)
        settled = bl.infer(graph, crf._method)
        assert crf.predict_marginals(X[:1])[0].ravel() == pytest.approx(once.mu_var, abs=1e-12)
        assert np.abs(once.mu_var - settled.mu_var).max() > 1e-6


def test_graphs_of_equal_structure_share_their_layout() -> None:
    X, Y = data()
    instances = GraphCRF()._instances(Examples(X, Y))
    assert len({id(instance.layout) for instance in instances}) == 1
    other: Any = GraphCRF()._instances(Examples([X[0], (X[1][0], EDGES[::-1].copy(), X[1][2])], Y[:2]))
    assert other[0].layout is not other[1].layout
