"""What careless callers give: lists that make no array, labels that name something, masks, functions that change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import beliefs as bl

EDGES = np.array([[0, 1], [1, 2]])
U = np.arange(6.0).reshape(3, 2)
Y = np.array([0, 1, 0])
IMAGE = np.arange(6.0).reshape(2, 3)
LABELS = np.array([[0, 1, 0], [1, 1, 0]])
WORDS = [[["a"], ["b"]], [["a"], ["b"], ["c"]]]
TAGS = [["N", "V"], ["N", "N", "V"]]


def refused(said: str, crf: Any, X: Any, labels: Any = None, weights: Any = None) -> None:
    with pytest.raises((bl.ModelError, bl.BudgetError), match=said) as caught:
        crf.fit(X, labels, weights)
    assert "\n" not in str(caught.value)
    assert not hasattr(crf, "classes_")


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (LABELS * 10**9, "instance 0: label 1000000000 would be one of 1000000001 states; number the labels 0, 1"),
        (np.where(LABELS, 2**64 - 1, 0).astype(np.uint64), "instance 0: label 18446744073709551615 would be"),
        (np.ma.masked_array(LABELS, LABELS == 1), "instance 0: labels are masked"),
        ([[0, 1, 0], [1, 1]], "instance 0: labels make no array, because the rows differ in length"),
    ],
)
def test_labels_of_images(labels: Any, said: str) -> None:
    refused(said, bl.GridCRF(), [IMAGE], [labels])


@pytest.mark.filterwarnings("ignore:classes 1")
def test_tables_beyond_memory() -> None:
    refused(
        "horizontal edges of 2 variables with 100001 states have 1e\\+10 weights",
        bl.GridCRF(),
        [IMAGE],
        [LABELS * 10**5],
    )
    clique = {"unary": np.ones((40, 1)), "edges": None, "cliques": [([list(range(40))], None)]}
    refused("cliques of type 0 of 40 variables", bl.GraphCRF(), [clique], [np.arange(40) % 2])


@pytest.mark.parametrize("hidden", [-1, np.nan, 0])
def test_words_and_numbers_in_one_list(hidden: float) -> None:
    refused("instance 0: labels must be words, None where hidden", bl.ChainCRF(), WORDS, [["N", hidden], TAGS[1]])


def test_hidden_instances_of_words() -> None:
    """An instance without any label says -1 or None, whatever the others say."""
    for nothing in ([-1, -1], [None, None]):
        crf = bl.ChainCRF(max_iters=2).fit(WORDS, [nothing, TAGS[1]])
        assert crf.classes_.tolist() == ["N", "V"]


def test_words_where_the_model_has_integers() -> None:
    crf = bl.GridCRF(max_iters=2, n_sweeps=2).fit([IMAGE], [LABELS])
    with pytest.raises(bl.ModelError, match="instance 0: '0' is not a class of the fitted model, whose labels are int"):
        crf.score([IMAGE], [LABELS.astype(str)])


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ([[1.0, 2.0, 3.0], [1.0]], "instance 0: features of pixels make no array"),
        (np.ma.masked_array(IMAGE, IMAGE > 3), "instance 0: features of pixels are masked"),
        (IMAGE * 1e200, r"instance 0: features of pixels hold 1e\+200 in row 1, feature 0; scale them"),
    ],
)
def test_images_that_are_no_arrays(x: Any, said: str) -> None:
    refused(said, bl.GridCRF(), [x], [LABELS])


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ((U, [[0, 1], [1]]), "instance 0: edges make no array"),
        ((U, np.array([[0, 2**63]], np.uint64)), r"instance 0: edges\[0\] is \(0, 9223372036854775808\)"),
        ((U, EDGES, None, [0, 10**9]), "instance 0: edge_types go up to 1000000000; number the types 0, 1"),
        ({"unary": U, "edges": EDGES, "cliques": 3}, "instance 0: cliques are a list of types, found int"),
    ],
)
def test_graphs(x: Any, said: str) -> None:
    refused(said, bl.GraphCRF(), [x], [Y])


@pytest.mark.parametrize(
    ("X", "said"),
    [
        ([[], WORDS[1]], "instance 0 is an empty sequence; leave it out"),
        ([["the", "dog"], WORDS[1]], "instance 0: a token is a list of attributes or a dict, found a word"),
        ([[{"a": 10**400}, {}], [{}, {}, {}]], "instance 0, token 0: the attribute 'a' is inf"),
    ],
)
def test_sequences(X: Any, said: str) -> None:
    refused(said, bl.ChainCRF(), X, TAGS)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"loss": None}, "loss must be the text of a loss, found None"),
        ({"gradient": None}, "gradient must be a Gradient or its text"),
        ({"seed": -1, "validation": 0.5}, "seed must be an integer of at least 0, found -1"),
        ({"checkpoint": 3}, "checkpoint must be the path of a file, found 3"),
        ({"warm_start": "no"}, "warm_start must be True or False, found 'no'"),
        ({"intercept": "no"}, "intercept must be True or False"),
        ({"features": 3}, "features must be a word or a function, found 3"),
        ({"edge_features": 3}, "edge_features must be a word or a function, found 3"),
        ({"edge_features": lambda image: image}, "instance 0: edge_features must return 2 arrays"),
        ({"class_weight": {0: 0, 1: 0}}, "class_weight is 0 for every class that occurs"),
    ],
)
def test_options(options: dict[str, Any], said: str) -> None:
    refused(said, bl.GridCRF(**options), [IMAGE] * 2, [LABELS] * 2)


def test_a_template_that_is_none() -> None:
    refused("template must be a Template, found 3", bl.GraphCRF(template=3), [(U, EDGES)], [Y])  # type: ignore[arg-type]


class Shrinking:
    """A function that forgets an instance at its fourth call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Iterator[Any]:
        self.calls += 1
        return zip(WORDS[: 2 if self.calls < 4 else 1], TAGS)


def test_functions_that_return_something_else() -> None:
    refused("the function must return pairs", bl.ChainCRF(), lambda: None)
    refused("there were 2 instances, and now there are 1", bl.ChainCRF(), Shrinking())
    refused("sample_weight has 3 entries for 2 instances", bl.ChainCRF(), lambda: zip(WORDS, TAGS), None, [1, 2, 3])
    refused("sample_weight must be one number", bl.ChainCRF(), WORDS, TAGS, ["a", "b"])


def test_names_of_features_are_counted() -> None:
    grid = bl.GridCRF(max_iters=1, n_sweeps=1).fit([IMAGE], [LABELS])
    assert "grey" in grid.describe(["grey"]) and "constant" in grid.describe(["grey"])
    with pytest.raises(bl.ModelError, match="there are 3 feature_names for 2 features, the constant included"):
        grid.describe(["a", "b", "c"])
    with pytest.raises(bl.ModelError, match="there are 1 feature_names for 3 features"):
        bl.ChainCRF(max_iters=1).fit(WORDS, TAGS).describe(["a"])
    with pytest.raises(bl.ModelError, match="limit must be an integer of at least 1"):
        grid.describe(limit=-1)


def test_features_of_any_kind_and_size() -> None:
    """Large, small, whole, logical, half and long: the same labels can be predicted, and no number is lost."""
    for kind in (np.float16, np.float32, np.longdouble, np.int8, np.uint64, np.bool_, ">f8"):
        crf = bl.GridCRF(max_iters=2, n_sweeps=2).fit([IMAGE.astype(kind)], [LABELS])
        assert np.isfinite(crf.predict_marginals([IMAGE.astype(kind)])[0]).all()
    for scale in (1e-300, 1e6):
        crf = bl.GridCRF(max_iters=2, n_sweeps=2, init="zeros").fit([IMAGE * scale], [LABELS])
        assert np.isfinite(crf.weights_).all()


def test_the_start_is_not_held_to_the_tolerance_of_the_fit(recwarn: pytest.WarningsRecorder) -> None:
    """Logistic regression to the last bit would end in a warning about a fit that nobody asked for."""
    bl.GridCRF(max_iters=2, n_sweeps=2, tol=0.0).fit([IMAGE * 1.3] * 2, [LABELS] * 2)
    assert not recwarn.list


@pytest.mark.parametrize("value", [1e308, -1e200, 10**400, np.inf])
def test_attributes_are_no_larger_than_features(value: float) -> None:
    X, Y = [[{"length": 1.0}, {"length": value}]], [["a", "b"]]
    with pytest.raises(bl.ModelError, match=r"instance 0, token 1: the attribute 'length' is .*; (scale|fill in)"):
        bl.ChainCRF().fit(X, Y)
    crf = bl.ChainCRF(max_iters=1).fit([[{"length": 1.0}, {"length": 2.0}]], Y)
    with pytest.raises(bl.ModelError, match="the attribute 'length' is"):
        crf.predict(X)
