"""Bad data and options: one clear line that names the instance and what to do, and the estimator is left as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import beliefs as bl
from beliefs.learning.estimators.structured.graph import GraphCRF
from beliefs.learning.estimators.structured.grid import GridCRF

EDGES = np.array([[0, 1], [1, 2]])
U = np.arange(6.0).reshape(3, 2)
Y = np.array([0, 1, 0])


def changed(array: np.ndarray, value: float) -> np.ndarray:
    copy = array.astype(np.float64)
    copy[1, 1] = value
    return copy


def sparse_nan() -> Any:
    return csr_array(changed(U, np.nan))


# the second instance (instance 1) is wrong; the first is (U, EDGES) with labels Y
GRAPHS: list[tuple[Any, Any, str]] = [
    ((U, EDGES), [0, 1, -2], r"instance 1: label -2 of variable 2; labels are 0, 1, \.\.\., or -1 where hidden"),
    ((U, EDGES), [0, 1], r"instance 1: labels must have shape \(3,\), one per variable, found \(2,\)"),
    ((U, EDGES), [0.0, 1.0, 0.5], "instance 1: labels must be integers"),
    ((U, EDGES), ["a", "b", "a"], "instance 1: labels are words in some instances and integers in others"),
    ((changed(U, np.nan), EDGES), Y, "instance 1: unary features hold nan in row 1, feature 1"),
    ((changed(U, np.inf), EDGES), Y, "instance 1: unary features hold inf in row 1, feature 1"),
    ((sparse_nan(), EDGES), Y, "instance 1: unary features hold nan"),
    ((U[:, :1], EDGES), Y, "instance 1: vertices have 1 features, those of instance 0 2"),
    ((U[0], EDGES), Y, r"instance 1: unary features must have shape \(n, width\), found \(2,\)"),
    ((np.array([["a"]] * 3), EDGES), Y, "instance 1: unary features must be real numbers"),
    ((U[:0], EDGES[:0]), [], "instance 1 has no vertices"),
    ((U, [[0, 3]]), Y, r"instance 1: edges\[0\] is \(0, 3\), but the variables are 0..2; count from 0"),
    ((U, [[0, 1], [-1, 2]]), Y, r"instance 1: edges\[1\] is \(-1, 2\)"),
    ((U, [[0, 1], [1, 1]]), Y, r"instance 1: edges\[1\] is \(1, 1\), which names a variable twice; leave it out"),
    ((U, [[0, 1], [1, 2], [0, 1]]), Y, r"edges\[2\] \(0, 1\) joins the same variables as edges\[0\] \(0, 1\)"),
    ((U, [[0, 1], [1, 0]]), Y, r"instance 1: edges\[1\] \(1, 0\) joins the same variables as edges\[0\] \(0, 1\)"),
    ((U, [[0, 1, 2]]), Y, r"instance 1: edges must have shape \(m, 2\), found \(1, 3\)"),
    ((U, [[0.0, 1.0]]), Y, "instance 1: edges must be integers"),
    ((U, EDGES, np.ones((2, 1))), Y, "edges have features in instance 1 and none in instance 0; give all or none"),
    ((U, [EDGES, EDGES]), Y, "instance 1 has 3 types of factors, instance 0 has 2"),
    ((U, EDGES, None, [0]), Y, "instance 1: edge_types must be 2 integers"),
    ((U, [EDGES], [np.ones((2, 1)), 1]), Y, "instance 1: edge_features must be a list with one entry for each of 1"),
    ({"unary": U, "edge": EDGES}, Y, "instance 1 has the key 'edge'; known are unary, edges"),
    ({"edges": EDGES}, Y, "instance 1: unary features are missing"),
    ({"unary": U, "edges": EDGES, "cliques": [EDGES]}, Y, "instance 1: cliques are a list of types"),
    (U, Y, "instance 1: an input is a tuple"),
]


@pytest.mark.parametrize(("x", "y", "said"), GRAPHS)
def test_a_bad_graph_is_named(x: Any, y: Any, said: str) -> None:
    with pytest.raises(bl.ModelError, match=said) as caught:
        GraphCRF().fit([(U, EDGES), x], [Y, y])
    assert "\n" not in str(caught.value)


IMAGE = np.zeros((3, 4, 2))
LABELS = np.array([[0, 1, 0, 1]] * 3)


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (np.zeros(3), LABELS, r"instance 1: an input is an array \(H, W, D\)"),
        (np.zeros((0, 4, 2)), LABELS[:0], "instance 1: an input is an array"),
        (IMAGE, LABELS.T, r"instance 1: labels must have shape \(3, 4\), one per variable, found \(4, 3\)"),
        (IMAGE[..., :1], LABELS, "instance 1: pixels have 1 features, those of instance 0 2"),
        (np.full((3, 4, 2), np.nan), LABELS, "instance 1: features of pixels hold nan in row 0, feature 0"),
        ((IMAGE, np.ones((3, 3, 1))), LABELS, r"instance 1: features of edges are 2 arrays \(horizontal, vertical\)"),
        ((IMAGE, np.ones((3, 4, 1)), np.ones((2, 4, 1))), LABELS, "instance 1: features of horizontal edges must have"),
    ],
)
def test_a_bad_image_is_named(x: Any, y: Any, said: str) -> None:
    with pytest.raises(bl.ModelError, match=said):
        GridCRF().fit([IMAGE, x], [LABELS, y])


GOOD = [(U, EDGES)], [Y]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_states": 1}, "n_states must be an integer of at least 2, found 1"),
        ({"n_sweeps": -1}, "n_sweeps must be an integer of at least 0, found -1"),
        ({"loss": "truncated_likelihood", "n_sweeps": 0}, "n_sweeps of at least 1"),
        ({"loss": "truncated_em", "n_sweeps": 0}, "n_sweeps of at least 1"),
        ({"loss": "clique_logistik"}, r"clique_logistik.*did you mean 'clique_logistic'"),
        ({"loss": "clique_logistic(alpha=3)"}, "clique_logistic has no option 'alpha'"),
        ({"inference": "twr"}, r"no method 'twr'.*known: "),
        ({"inference": "auto"}, "inference must be one method for all graphs"),
        ({"inference": 3}, "inference must be a Method or its text"),
        ({"gradient": "truncate"}, "did you mean 'truncated'"),
        ({"optimizer": "lbgfs"}, "did you mean 'lbfgs'"),
        ({"l2": -1.0}, "l2 must be a number of at least 0, found -1.0"),
        ({"l2": 1e300}, r"l2 must be at most 1e\+15, found 1e\+300"),
        ({"l1": float("nan")}, "l1 must be a number of at least 0"),
        ({"max_iters": 1.5}, "max_iters must be None or an integer of at least 0, found 1.5"),
        ({"decode": "best"}, "decode must be one of mpm, map, mean, found 'best'"),
        ({"validation": 1.0}, "validation must be between 0 and 1"),
        ({"validation": 0.5}, "leaves none to fit to"),
        ({"n_jobs": 0}, "n_jobs must be None or an integer other than 0"),
        ({"class_weight": "even"}, "class_weight must be None, 'balanced' or a mapping"),
        ({"class_weight": {2: 1.0}}, "class_weight names the class 2; the classes are 0, 1"),
        ({"class_weight": {1: -1.0}}, "class_weight of 1 must be a number of at least 0"),
        ({"class_weight": "balanced", "loss": "likelihood"}, "not a sum over variables"),
        ({"init": np.zeros(3)}, "init must be a word or 10 finite weights"),
        ({"init": {"a": 1}}, "init must be a word or 10 finite weights, found {'a': 1}"),
        ({"init": [[1], [1, 2]]}, "init must be a word or 10 finite weights"),
        ({"substates": np.array(0)}, r"substates must be None or an integer"),
        ({"substates": [[1], [1, 2]]}, r"substates must be an integer"),
        ({"class_weight": csr_array(np.eye(2))}, "class_weight must be None, 'balanced' or a mapping"),
        ({"warm_start": np.ones(2)}, "warm_start must be True or False"),
        ({"init": "zero"}, "did you mean 'zeros'"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises((bl.ModelError, bl.UnsupportedError), match=said) as caught:
        GraphCRF(**options).fit(*GOOD)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"connectivity": 6}, "connectivity must be 4 or 8, found 6"),
        ({"connectivity": np.ones(2)}, "connectivity must be 4 or 8, found array"),
        ({"features": "sinus"}, "no pixel features 'sinus'"),
        ({"edge_features": "diff"}, "no edge features 'diff'"),
    ],
)
def test_a_bad_option_of_a_grid_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(bl.ModelError, match=said):
        GridCRF(**options).fit([IMAGE], [LABELS])


def test_edges_given_and_to_be_made() -> None:
    with pytest.raises(bl.ModelError, match="instance 0 brings features of edges, and edge_features says how to make"):
        GridCRF(edge_features="difference").fit([(IMAGE, np.ones((3, 3, 1)), np.ones((2, 4, 1)))], [LABELS])


@pytest.mark.parametrize(
    ("X", "labels", "weights", "said"),
    [
        ([(U, EDGES)] * 2, [Y], None, "X has 2 instances and Y has 1; each input needs its labels"),
        ([], [], None, "there is no instance"),
        ([(U, EDGES)], 3, None, "Y must be a list with one entry per instance"),
        (7, None, None, "X must be a list of instances"),
        ([(U, EDGES)] * 2, [Y, Y], [1.0], "sample_weight has 1 entries for 2 instances"),
        ([(U, EDGES)], [Y], [-1.0], "sample_weight must be one number of at least 0"),
        ([(U, EDGES)], [Y], [0.0], "not all of them 0"),
        ([(U, EDGES)], [np.full(3, -1)], None, "every label is hidden"),
        ([(U, EDGES)], [np.zeros(3, int)], None, "all labels are 0; there is nothing to tell apart"),
        ([U], None, None, r"instance 0: expected a pair \(input, labels\)"),
        (lambda: iter(()), None, None, "there is no instance"),
    ],
)
def test_bad_sets_of_instances(X: Any, labels: Any, weights: Any, said: str) -> None:
    with pytest.raises(bl.ModelError, match=said):
        GraphCRF().fit(X, labels, weights)


def test_a_generator_is_read_once() -> None:
    with pytest.raises(bl.ModelError, match="give the function that makes it"):
        GraphCRF().fit(((U, EDGES), Y) for _ in range(2))


def test_labels_beyond_the_states_asked_for() -> None:
    with pytest.raises(bl.ModelError, match=r"instance 0: label 2 of variable 1; labels are 0..1, or -1 where hidden"):
        GraphCRF(n_states=2).fit([(U, EDGES)], [[0, 2, 1]])


@pytest.mark.parametrize(
    ("labels", "states", "said"),
    [([0, 2, 0], None, "class 1 never occurs"), ([0, 1, 0], 5, "classes 2, 3, 4 never occur")],
)
def test_a_class_that_never_occurs_is_named(labels: list[int], states: int | None, said: str) -> None:
    with pytest.warns(bl.DataWarning, match=said):
        GraphCRF(n_states=states, max_iters=1).fit([(U, EDGES)], [labels])


def test_a_loss_that_hidden_labels_do_not_suit() -> None:
    with pytest.raises(bl.ModelError, match="instance 0: variable 2 has no label, and surrogate_likelihood is not"):
        GraphCRF(loss="surrogate_likelihood").fit([(U, EDGES)], [[0, 1, -1]])


def test_a_method_that_cannot_serve_the_loss() -> None:
    for inference in ("local_search", "mini_bucket"):
        with pytest.raises(bl.UnsupportedError):
            GraphCRF(loss="truncated_likelihood", inference=inference).fit(*GOOD)


def test_an_error_leaves_the_estimator_as_it_was() -> None:
    crf = GraphCRF(max_iters=2).fit(*GOOD)
    weights, attributes = crf.weights_.copy(), sorted(vars(crf))
    with pytest.raises(bl.ModelError):
        crf.fit([(U, EDGES), (U[:, :1], EDGES)], [Y, Y])
    assert np.array_equal(crf.weights_, weights)
    assert sorted(vars(crf)) == attributes
    fresh = GraphCRF()
    with pytest.raises(bl.ModelError):
        fresh.fit([(U, EDGES)], [[0, 1]])
    assert not hasattr(fresh, "classes_")


def test_inputs_of_another_kind_are_refused_by_predict() -> None:
    crf = GraphCRF(max_iters=2).fit(*GOOD)
    with pytest.raises(bl.ModelError, match="instance 1: vertices have 1 features, those of the fitted model 2"):
        crf.predict([(U, EDGES), (U[:, :1], EDGES)])
    with pytest.raises(bl.ModelError, match="X must be a list of instances"):
        crf.predict(3)
    with pytest.raises(bl.ModelError, match="decode must be one of"):
        crf.predict([(U, EDGES)], "max")
    with pytest.raises(bl.ModelError, match="every label is hidden"):
        crf.score([(U, EDGES)], [[-1, -1, -1]])
    with pytest.raises(bl.ModelError, match="instance 0: label 5 of variable 0"):
        crf.score([(U, EDGES)], [[5, 0, 0]])


ROWS = np.arange(24).reshape(8, 3) % 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: bl.BernoulliRBM(2, inference=3).fit(ROWS), "inference must be a Method or its text, found int"),
        (lambda: bl.ConditionalRBM(2, inference=None).fit(ROWS, ROWS), "inference must be a Method or its text"),
        (lambda: bl.BNLearner({"x0": 3}).fit(ROWS), "structure must have a list of parents of 'x0', found 3"),
        (lambda: bl.BNLearner(np.array(3)).fit(ROWS), "structure must be a network, arcs"),
        (lambda: bl.BNLearner([], tied=np.array(3)).fit(ROWS), "tied must be a list of groups of variables"),
        (lambda: bl.BNLearner([], states={0: 1.0}).fit(ROWS), "states must be a mapping of columns to states"),
        (lambda: bl.MRFLearner(np.array(3)).fit(ROWS), "structure must be a model, scopes"),
        (lambda: bl.MRFLearner([], hidden=np.array(3)).fit(ROWS), "hidden must be names of variables"),
        (lambda: bl.MRFLearner([], hidden={"h": 0.5}).fit(ROWS), "'h' needs a number of states, or their names"),
        (lambda: bl.MRFLearner([], states={"x0": 1.0}).fit(ROWS), "states must be a mapping of columns to states"),
        (
            lambda: bl.BNClassifier().set_params(target=["y"]).fit(ROWS, ROWS[:, 0]),
            "target must be the name of the class",
        ),
    ],
)
def test_bad_options_of_learners_of_rows(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(bl.ModelError, match=said) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_mapping_may_name_one_parent() -> None:
    learner = bl.BNLearner({"x1": "x0"}).fit(ROWS)
    assert learner.model_.parents("x1") == bl.BNLearner([("x0", "x1")]).fit(ROWS).model_.parents("x1")


def test_an_error_leaves_a_classifier_as_it_was() -> None:
    classifier = bl.BNClassifier("naive_bayes").fit(ROWS, ROWS[:, 0])
    before = dict(classifier.__dict__)
    with pytest.raises(bl.ModelError):
        classifier.set_params(estimate="best").fit(ROWS[:, :2], ROWS[:, 0])
    assert {**classifier.__dict__, "estimate": "mean"} == before


@pytest.mark.parametrize("X", [pd.DataFrame([[1, 2]]), csr_array(np.eye(1)), {0: U}], ids=lambda X: type(X).__name__)
def test_tables_are_no_lists_of_instances(X: Any) -> None:
    crf = GraphCRF(max_iters=1, n_sweeps=1).fit(*GOOD)
    for ask in (lambda: crf.score(X, [Y]), lambda: crf.predict(X), lambda: crf.fit(X, [Y]), lambda: crf.fit(X)):
        with pytest.raises(bl.ModelError, match=f"X must be a list .*, found {type(X).__name__}"):
            ask()
