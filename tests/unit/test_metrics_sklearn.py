"""F1 of labels and chunks, scorers by name, and transformers in pipelines: what users of scikit-learn expect."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction import DictVectorizer
from sklearn.metrics import classification_report, f1_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import beliefs as bl
from beliefs import metrics

TRUTH = [["B-NP", "I-NP", "O", "B-VP"], ["B-NP", "O"]]
FOUND = [["B-NP", "I-NP", "B-VP", "B-VP"], ["O", "O"]]


def sequences(n: int = 12) -> tuple[list[Any], list[Any]]:
    """Labels that are a threshold of the first feature, which is far from zero and badly scaled."""
    rng = np.random.default_rng(0)
    X = [1000 + 1e-2 * rng.normal(size=(rng.integers(2, 6), 2)) for _ in range(n)]
    return X, [np.where(x[:, 0] > 1000, "B-NP", "O") for x in X]


def test_flat_metrics_are_those_of_scikit_learn() -> None:
    truth, found = [[0, 1, -1], [2, 1]], [[0, 0, 1], [2, 1]]
    flat = [0, 1, 2, 1], [0, 0, 2, 1]
    for average in ("weighted", "macro", "micro"):
        assert metrics.flat_f1(truth, found, average) == f1_score(*flat, average=average)
    assert metrics.classification_report(truth, found) == classification_report(*flat, zero_division=0.0)
    words = metrics.classification_report([np.array(y) for y in TRUTH], FOUND, output_dict=True)
    assert words["B-VP"]["recall"] == 1.0 and words["B-NP"]["recall"] == 0.5
    image = np.array([[0, 1], [1, -1]])
    assert metrics.flat_f1(image, image) == metrics.flat_f1([image], [image]) == 1.0
    with pytest.raises(bl.ModelError, match="instance 1: there are 2 labels and 1 predictions"):
        metrics.flat_f1(truth, [[0, 0, 1], [2]])
    with pytest.raises(bl.ModelError, match="no variable has a label"):
        metrics.flat_f1([[-1]], [[0]])


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ("O O", []),
        ("B-A I-A I-A", [("A", 0, 3)]),
        ("B-A B-A", [("A", 0, 1), ("A", 1, 2)]),
        ("I-A I-A O I-A", [("A", 0, 2), ("A", 3, 4)]),  # IOB1
        ("B-A I-B I-B", [("A", 0, 1), ("B", 1, 3)]),
        ("S-A B-B I-B E-B E-C", [("A", 0, 1), ("B", 1, 4), ("C", 4, 5)]),  # IOBES
        ("B-A E-A I-A", [("A", 0, 2), ("A", 2, 3)]),
        ("B-A-B I-A-B", [("A-B", 0, 2)]),
    ],
)
def test_chunks(labels: str, found: list[Any]) -> None:
    assert metrics.chunks(labels.split()) == found


def test_chunk_f1_counts_whole_chunks() -> None:
    """True: NP, VP, NP; found: NP, VP (wrong place), VP; both: NP, VP. So P = 2/3, R = 2/3."""
    assert metrics.chunk_f1(TRUTH, FOUND) == pytest.approx(2 / 3)
    assert metrics.chunk_f1(TRUTH, FOUND, "macro") == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert metrics.chunk_f1(TRUTH, TRUTH) == 1.0 and metrics.chunk_f1([["O"]], [["O"]]) == 0.0
    lines = metrics.chunk_report(TRUTH, FOUND).splitlines()
    assert lines[1].split() == ["NP", "1.0000", "0.5000", "0.6667", "2"]
    assert lines[-1].split() == ["all", "0.6667", "0.6667", "0.6667", "3"]
    with pytest.raises(bl.ModelError, match="token 1: expected a label such as O, B-NP or I-NP, found 'NP'"):
        metrics.chunk_f1([["O", "NP"]], [["O", "O"]])


def test_scorers_by_name_serve_searches() -> None:
    X, Y = sequences()
    X = [100 * (x - 1000) for x in X]
    crf = bl.ChainCRF().fit(X, Y)
    assert metrics.scorer("accuracy")(crf, X, Y) == crf.score(X, Y)
    assert metrics.scorer("chunk_f1")(crf, X, Y) == metrics.chunk_f1(Y, crf.predict(X))
    codes = [(y == crf.classes_[1]).astype(int) for y in Y]
    assert metrics.scorer("neg_log_loss")(crf, X, Y) == -metrics.log_loss(codes, crf.predict_proba(X))
    again = pickle.loads(pickle.dumps(metrics.scorer("flat_f1_macro")))
    assert again(crf, X, Y) == metrics.flat_f1(Y, crf.predict(X), "macro")
    search = GridSearchCV(bl.ChainCRF(), {"l2": [1e-1, 1e-6]}, scoring=metrics.scorer("flat_f1"), cv=2)
    assert search.fit(X, Y).best_params_["l2"] in (1e-1, 1e-6)
    with pytest.raises(bl.ModelError, match="no scorer 'chunkf1'; did you mean 'chunk_f1'"):
        metrics.scorer("chunkf1")


def test_a_scaler_works_on_every_instance() -> None:
    X, Y = sequences()
    scaled = bl.PerInstance(StandardScaler()).fit_transform(X)
    rows = StandardScaler().fit_transform(np.concatenate(X))
    np.testing.assert_array_equal(np.concatenate(scaled), rows)
    assert [x.shape for x in scaled] == [x.shape for x in X]
    pipeline = make_pipeline(bl.PerInstance(StandardScaler()), bl.ChainCRF(l2=1e-4))
    assert cross_val_score(pipeline, X, Y, cv=2, scoring=metrics.scorer("chunk_f1")).min() > 0.8
    assert pipeline.fit(X, Y).predict_proba(X)[0].shape == (len(X[0]), 2)
    assert pipeline.get_params()["perinstance__transformer__with_mean"] is True


def test_other_kinds_of_instances() -> None:
    images = [np.arange(12.0).reshape(2, 3, 2), np.ones((1, 2, 2))]
    scaled = bl.PerInstance(StandardScaler()).fit_transform(images)
    assert scaled[0].shape == (2, 3, 2)
    graphs = [(images[0].reshape(6, 2), np.array([[0, 1]])), (np.ones((2, 2)), np.array([[0, 1]]))]
    moved = bl.PerInstance(StandardScaler()).fit_transform(graphs)
    np.testing.assert_array_equal(moved[0][0], scaled[0].reshape(6, 2))
    assert moved[0][1] is graphs[0][1]
    words = [[{"w": "a"}, {"w": "b"}], [{"w": "a", "n": 2.0}]]
    vectors = bl.PerInstance(DictVectorizer()).fit(words)
    assert vectors.get_feature_names_out().tolist() == ["n", "w=a", "w=b"]
    assert vectors.transform(words)[0].toarray().tolist() == [[0, 1, 0], [0, 0, 1]]
    with pytest.raises(bl.ModelError, match=r"pass a list of inputs, \[X\]"):
        vectors.transform(np.ones((2, 2)))
    with pytest.raises(bl.ModelError, match="different numbers of features"):
        bl.PerInstance(StandardScaler()).fit([np.ones((2, 1)), np.ones((2, 2))])


def test_near_misses_name_the_right_word() -> None:
    X, Y = sequences(4)
    X = [x - 1000 for x in X]
    crf = bl.ChainCRF(max_iters=2, tol=1e9).fit(X, Y)
    for ask in (crf.predict, crf.predict_proba):
        with pytest.raises(bl.ModelError, match=r"^X is a single input; pass a list of inputs, \[X\]$"):
            ask(X[0])
    with pytest.raises(bl.ModelError, match="have 3 features, those of the fitted model 2;"):
        crf.predict([np.ones((4, 3))])
    with pytest.raises(bl.ModelError, match="have 1 features, those of instance 0 2;"):
        bl.ChainCRF().fit([X[0], X[1][:, :1]], Y[:2])
