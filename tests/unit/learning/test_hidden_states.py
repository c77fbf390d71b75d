"""Hidden vertices and substates of labels: every answer against the sum over all joint states."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import beliefs as bl
from beliefs.learning.estimators.structured.chain import ChainCRF
from beliefs.learning.estimators.structured.crf import CRF
from beliefs.learning.estimators.structured.graph import GraphCRF
from beliefs.learning.estimators.structured.grid import GridCRF

LIKELIHOOD: dict[str, Any] = {"loss": "likelihood", "inference": "junction_tree", "max_iters": 0, "l2": 0.0}
KINDS = pytest.mark.parametrize("kind", [ChainCRF, GridCRF, GraphCRF])


def small(kind: type[CRF]) -> tuple[list[Any], list[np.ndarray], Any]:
    """Return inputs of four vertices, labels, and the features and typed edges ``(n, D), [(i, j), ...]`` of each."""
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(4, 2)) for _ in range(3)]
    Y = [np.array([0, 1, 1, 0]), np.array([1, 0, -1, 1]), np.array([0, 0, 1, 1])]
    if kind is ChainCRF:
        return rows, Y, [[(0, 1), (1, 2), (2, 3)]]
    if kind is GridCRF:
        return [r.reshape(2, 2, 2) for r in rows], [y.reshape(2, 2) for y in Y], [[(0, 1), (2, 3)], [(0, 2), (1, 3)]]
    edges = np.array([(0, 1), (1, 2), (2, 0)])
    return [(r, edges) for r in rows], Y, [edges.tolist()]


def by_hand(x: Any, edges: Any, weights: np.ndarray, groups: list[int]) -> dict[tuple[int, ...], list[Any]]:
    """Return, for each labelling, the scores of its joint substates and these."""
    rows = np.reshape(x[0] if isinstance(x, tuple) else x, (4, 2))
    u, s = np.column_stack([rows, np.ones(4)]), len(groups)
    unary = u @ weights[: 3 * s].reshape(s, 3).T
    tables = weights[3 * s :].reshape(len(edges), s, s)
    found: dict[tuple[int, ...], list[Any]] = {}
    for z in product(range(s), repeat=4):
        score = sum(unary[i, z[i]] for i in range(4))
        score += sum(table[z[i], z[j]] for table, pairs in zip(tables, edges, strict=True) for i, j in pairs)
        found.setdefault(tuple(groups[k] for k in z), []).append((score, z))
    return found


@KINDS
def test_substates_are_summed_out(kind: type[CRF]) -> None:
    X, Y, edges = small(kind)
    n_weights = 3 * 3 + 9 * len(edges)
    weights = np.random.default_rng(1).normal(size=n_weights)
    crf = kind(substates=[2, 1], init=weights, **LIKELIHOOD).fit(X, Y)
    assert crf.weights_.size == n_weights
    total, n, marginals, latent = 0.0, 0, [], []
    for x, y in zip(X, Y, strict=True):
        scores = by_hand(x, edges, weights, [0, 0, 1])
        logs = {k: np.logaddexp.reduce([s for s, _ in v]) for k, v in scores.items()}
        log_z = np.logaddexp.reduce(list(logs.values()))
        seen = [v for k, v in logs.items() if all(a in (-1, b) for a, b in zip(y.ravel(), k, strict=True))]
        total += log_z - np.logaddexp.reduce(seen)
        n += int((y >= 0).sum())
        marginals.append([[sum(np.exp(v - log_z) for k, v in logs.items() if k[i] == c) for c in (0, 1)]
                          for i in range(4)])  # fmt: skip
        predicted = tuple(np.argmax(marginals[-1], axis=1).tolist())
        latent.append([z % 2 for z in max(scores[predicted])[1]])  # substates 0, 1 of label 0, and 0 of label 1
    assert_allclose(crf.result_.loss, total / n, rtol=1e-10)
    assert_allclose([m.reshape(4, 2) for m in crf.predict_marginals(X)], marginals, atol=1e-10)
    assert [p.ravel().tolist() for p in crf.predict_latent(X)] == latent
    assert crf.predict(X)[0].shape == Y[0].shape
    assert crf.sample(X[:1], 3)[0].shape == (3, *Y[0].shape)
    assert "0/1" in crf.describe()


@KINDS
def test_fits_with_substates_descend_and_are_saved(kind: type[CRF], tmp_path: Path) -> None:
    X, Y, _ = small(kind)
    options: dict[str, Any] = {"substates": 2, "loss": "likelihood", "inference": "junction_tree", "l2": 0.01}
    crf = kind(**options, max_iters=20).fit(X, Y)
    assert crf.result_.loss < kind(**options, max_iters=0).fit(X, Y).result_.loss - 0.05
    assert kind(**options, max_iters=20, n_jobs=2).fit(X, Y).weights_.tobytes() == crf.weights_.tobytes()
    crf.save(tmp_path / "model.npz")
    again = kind.load(tmp_path / "model.npz")
    assert [p.tolist() for p in again.predict_latent(X)] == [p.tolist() for p in crf.predict_latent(X)]
    assert again.predict_marginals(X)[0].tobytes() == crf.predict_marginals(X)[0].tobytes()


def test_substates_of_named_attributes() -> None:
    X = [[["a"], ["b"]], [["b"], ["c"]]]
    crf = ChainCRF(substates=[1, 2], all_transitions=False, max_iters=3).fit(X, [["x", "y"], ["y", "x"]])
    assert crf.template_.n_weights == 1 + 2 + 1 + (2 + 2)  # a and c with x, b with both of y; x-y and y-x
    assert crf.predict(X)[0].dtype.kind == "U"


def hidden_graphs() -> tuple[list[Any], list[np.ndarray]]:
    """Return four outputs, each pair of neighbours joined through a hidden vertex that has features too."""
    rng = np.random.default_rng(2)
    edges = np.array([(0, 1), (1, 2), (2, 3), (4, 3)])
    mask = np.array([False, True, False, True, False])
    X = [{"unary": rng.normal(size=(5, 1)), "edges": edges, "hidden": mask} for _ in range(3)]
    Y = [np.where(mask, -1, rng.integers(0, 2, 5)) for _ in range(3)]
    return X, Y


def test_hidden_vertices_with_weights_of_their_own() -> None:
    X, Y = hidden_graphs()
    sizes = [2 * 2, 3 * 2, 4, 6, 6, 9]  # vertices, hidden ones, and edges by which ends are hidden
    weights = np.random.default_rng(3).normal(size=sum(sizes))
    crf = GraphCRF(n_hidden_states=3, init=weights, **LIKELIHOOD).fit(X, Y)
    cut = np.split(weights, np.cumsum(sizes)[:-1])
    total, latent = 0.0, []
    for x, y in zip(X, Y, strict=True):
        u = np.column_stack([x["unary"], np.ones(5)])
        scores: dict[tuple[int, ...], list[Any]] = {}
        for z in product(range(2), range(3), range(2), range(3), range(2)):
            score = sum(cut[0].reshape(2, 2)[z[i]] @ u[i] for i in (0, 2, 4))
            score += sum(cut[1].reshape(3, 2)[z[i]] @ u[i] for i in (1, 3))
            score += sum(cut[3].reshape(2, 3)[z[i], z[j]] for i, j in ((0, 1), (2, 3), (4, 3)))
            score += cut[4].reshape(3, 2)[z[1], z[2]]
            scores.setdefault((z[0], z[2], z[4]), []).append((score, z))
        logs = {k: np.logaddexp.reduce([s for s, _ in v]) for k, v in scores.items()}
        log_z = np.logaddexp.reduce(list(logs.values()))
        total += log_z - logs[tuple(y[[0, 2, 4]].tolist())]
        p = [sum(np.exp(v - log_z) for k, v in logs.items() if k[i] == 1) for i in range(3)]
        best = max(scores[tuple(int(q > 0.5) for q in p)])[1]
        latent.append([-1, best[1], -1, best[3], -1])
    assert_allclose(crf.result_.loss, total / 9, rtol=1e-10)
    assert [p.tolist() for p in crf.predict_latent(X)] == latent
    assert (crf.predict(X)[0] == -1).tolist() == X[0]["hidden"].tolist()
    assert (crf.predict_marginals(X)[0].sum(axis=1) == 0).tolist() == X[0]["hidden"].tolist()
    assert crf.score(X, Y) == np.mean([a == b for a, b in zip(np.concatenate(crf.predict(X)), np.concatenate(Y),
                                                              strict=True) if b >= 0])  # fmt: skip
    assert "edges (hidden-label)" in crf.describe()


def test_hidden_vertices_that_share_weights_are_variables_without_a_label() -> None:
    X, Y = hidden_graphs()
    options = LIKELIHOOD | {"max_iters": 10, "l2": 0.1}
    declared = GraphCRF(**options).fit(X, Y)
    plain = GraphCRF(**options).fit([(x["unary"], x["edges"]) for x in X], Y)
    assert declared.weights_.tobytes() == plain.weights_.tobytes()
    words = GraphCRF(**options).fit(X, [np.array([None, "no", "yes"], object)[y + 1] for y in Y])
    assert words.predict(X)[0].tolist()[1] is None
    assert words.weights_.tobytes() == plain.weights_.tobytes()


def test_random_starts_are_for_what_touches_hidden_variables() -> None:
    X, Y = hidden_graphs()
    options = LIKELIHOOD | {"n_hidden_states": 3}
    auto = GraphCRF(**options, seed=4).fit(X, Y).weights_
    assert auto.tobytes() == GraphCRF(**options, init="random(scale=0.5)", seed=4).fit(X, Y).weights_.tobytes()
    sizes = [4, 6, 4, 6, 6, 9]
    drawn = [part.any() for part in np.split(auto, np.cumsum(sizes)[:-1])]
    assert drawn == [False, True, False, True, True, False]  # no edge joins two hidden vertices
    little = GraphCRF(**options, init="random(scale=0.01)", seed=4).fit(X, Y).weights_
    assert_allclose(little, auto / 50, rtol=1e-12)
    whole = GraphCRF(**LIKELIHOOD, init="random").fit([(x["unary"], x["edges"]) for x in X], [abs(y) for y in Y])
    assert (whole.weights_ != 0).all()
    with pytest.raises(bl.ModelError, match="scale must be a number above 0"):
        GraphCRF(init="random(scale=0)").fit(X, Y)


def test_substates_of_marginal_losses_are_fitted_through_the_labels() -> None:
    X, Y, _ = small(GraphCRF)
    crf = GraphCRF(substates=2, n_sweeps=3, max_iters=5).fit(X, Y)
    alone = GraphCRF(substates=2, n_sweeps=3, max_iters=5, loss="univariate_logistic").fit(X, Y)
    assert crf.weights_.tobytes() == alone.weights_.tobytes()
    assert crf.result_.loss < np.log(2)


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({}, {"hidden": np.ones(5, bool)}, "instance 1: every vertex is declared hidden, so that no output is left"),
        ({}, {"hidden": np.arange(5) == 0}, "instance 1: vertex 0 is declared hidden and has the label"),
        ({}, {"hidden": np.zeros(4, bool)}, r"instance 1: hidden must be 5 times True or False"),
        ({}, {"hidden": np.zeros(5)}, r"instance 1: hidden must be 5 times True or False.*float64"),
        ({"substates": [2, 2, 2]}, {}, "substates has 3 entries for 2 labels"),
        ({"substates": 0}, {}, "substates must be an integer"),
        ({"substates": [2, 1.5]}, {}, "substates must be an integer"),
        ({"n_hidden_states": 1}, {}, "n_hidden_states"),
        ({"loss": "surrogate_likelihood"}, {}, "surrogate_likelihood is not defined with hidden variables"),
    ],
)
def test_bad_input(options: dict[str, Any], change: dict[str, Any], message: str) -> None:
    X, Y = hidden_graphs()
    X[1] = X[1] | change
    with pytest.raises(bl.ModelError, match=message):
        GraphCRF(**options).fit(X, Y)


def test_what_nobody_declares() -> None:
    X, Y = hidden_graphs()
    plain = [(x["unary"], x["edges"]) for x in X]
    with pytest.raises(bl.ModelError, match="hidden_weights is said, and no input declares"):
        GraphCRF(hidden_weights=True).fit(plain, Y)
    with pytest.raises(bl.ModelError, match="give labels hidden states by substates"):
        ChainCRF(n_hidden_states=2).fit([np.ones((2, 1))], [np.arange(2)])
    crf = GraphCRF(**LIKELIHOOD).fit(plain, Y)
    with pytest.raises(bl.ModelError, match="was fitted to inputs that declare none"):
        crf.predict(X)
    with pytest.raises(bl.ModelError, match="the model has no hidden variables"):
        crf.predict_latent(plain)
