"""Estimators on chains: inputs of every kind, exact answers, other losses, files and bad input."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import beliefs as bl
from beliefs.errors import ModelError
from beliefs.learning.chains.attributes import Vocabulary
from beliefs.learning.chains.likelihood import ChainLikelihood
from beliefs.learning.chains.template import ChainTemplate
from beliefs.learning.losses.likelihood import Likelihood
from beliefs.typing import Floats, Ints
from reference import joint_table, log_z, marginal

K, D = 3, 4


def arrays(n: int = 30, seed: int = 0) -> tuple[list[Floats], list[Ints]]:
    """Sequences whose labels follow each other in a circle, and features that betray them."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for s in range(n):
        y = (rng.integers(K) + np.arange(1 + s % 6)) % K
        X.append(np.eye(K, D)[y] + 0.7 * rng.normal(size=(y.size, D)))
        Y.append(y)
    return X, Y


WORDS = [[["w=the"], ["w=dog", "last"]], [["w=a"], ["w=cat"], ["w=barks", "last"]], [["w=dog", "last"]]]
TAGS = [["DET", "NOUN"], ["DET", "NOUN", "VERB"], ["NOUN"]]


def by_definition(crf: Any, X: list[Any], Y: list[Any]) -> float:
    """The objective from the joint tables of the fitted models."""
    total = count = 0.0
    place = {k: i for i, k in enumerate(crf.classes_.tolist())}
    for x, y in zip(X, Y, strict=True):
        joint = joint_table(crf.model(x))
        total += log_z(joint) - joint[tuple(place[k] for k in y)]
        count += len(y)
    return float(total / count + crf.l2 * crf.weights_ @ crf.weights_)


@pytest.mark.parametrize("boundaries", [False, True])
def test_kinds_of_input_are_one_model(boundaries: bool) -> None:
    """Arrays, sparse rows and dicts of numbers with the same content give the same answers."""
    X, Y = arrays()
    names = [[{f"f{d}": float(row[d]) for d in range(D)} | {"constant": 1} for row in x] for x in X]
    options: dict[str, Any] = {"l2": 0.01, "tol": 1e-7, "boundaries": boundaries}
    dense = bl.ChainCRF(**options).fit(X, Y)
    for inputs in ([csr_array(x) for x in X], names):
        other = bl.ChainCRF(all_pairs=True, **options).fit(inputs, Y)
        assert other.result_.loss == pytest.approx(dense.result_.loss, rel=1e-9)
        for a, b in zip(dense.predict_marginals(X), other.predict_marginals(inputs), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
    assert dense.result_.loss == pytest.approx(by_definition(dense, X, Y), rel=1e-10)


def test_answers_are_those_of_the_joint_table() -> None:
    crf = bl.ChainCRF(l2=0.01, boundaries=True).fit(WORDS, TAGS)
    for x, mu, best, mpm, mean in zip(
        WORDS, crf.predict_marginals(WORDS), crf.predict(WORDS, "map"), crf.predict(WORDS), crf.predict(WORDS, "mean"),
        strict=True,
    ):  # fmt: skip
        joint = joint_table(crf.model(x))
        expected = np.stack([marginal(joint, [t]) for t in range(joint.ndim)])
        np.testing.assert_allclose(mu, expected, atol=1e-12)
        assert best.tolist() == crf.classes_[list(np.unravel_index(joint.argmax(), joint.shape))].tolist()
        assert mpm.tolist() == crf.classes_[expected.argmax(axis=1)].tolist()
        np.testing.assert_allclose(mean, expected @ np.arange(3), atol=1e-12)
    assert crf.score(WORDS, TAGS) == 1.0
    assert crf.result_.loss == pytest.approx(by_definition(crf, WORDS, TAGS), rel=1e-9)


def test_weights_only_for_what_was_seen() -> None:
    crf = bl.ChainCRF(l2=0.01, all_transitions=False).fit(WORDS, TAGS)
    assert crf.attributes_ == ["w=the", "w=dog", "last", "w=a", "w=cat", "w=barks"]
    template = crf.template_
    assert isinstance(template, ChainTemplate)
    assert template.pairs is not None
    assert np.diff(template.pairs.ptr).tolist() == [1, 1, 2, 1, 1, 1]  # last: NOUN and VERB
    assert crf.transitions_.tolist() == [0 * 3 + 1, 1 * 3 + 2]  # DET NOUN, NOUN VERB
    assert crf.weights_.size == 7 + 2
    everything = bl.ChainCRF(l2=0.01, all_pairs=True).fit(WORDS, TAGS)
    assert everything.weights_.size == 6 * 3 + 9


def test_unknown_attributes_are_ignored() -> None:
    crf = bl.ChainCRF(l2=0.01).fit(WORDS, TAGS)
    known, more = crf.predict_marginals([[["w=the"], ["w=dog"]], [["w=the", "new"], ["w=dog", "w=unheard"]]])
    np.testing.assert_array_equal(known, more)
    assert crf.predict([[["nothing"], ["known"]]])[0].shape == (2,)
    assert len(crf.attributes_) == 6


def test_forms_of_tokens() -> None:
    vocabulary = Vocabulary()
    tokens = [
        {"w": "dog", "length": 3, "upper": True, "lower": False, "next": ["a", "b"], "in": {"w": "x", "n": 2.5}},
        ["w:dog", "plain", "plain"],
        {},
    ]
    found = vocabulary.encoded(tokens, "it")
    names = vocabulary.names()
    assert [names[a] for a in found.attribute[:7]] == ["w:dog", "length", "upper", "next:a", "next:b", "in:w:x", "in:n"]
    assert found.value.tolist() == [1, 3, 1, 1, 1, 1, 2.5, 1, 1, 1]
    assert found.ptr.tolist() == [0, 7, 10, 10]
    vocabulary.close()
    later = vocabulary.encoded([{"w": "cat", "length": 1}, ("w:dog", "unheard")], "it")
    assert [names[a] for a in later.attribute] == ["length", "w:dog"]
    assert later.value.size == 0  # all of them 1
    assert len(vocabulary) == len(names)


@pytest.mark.parametrize("kind", ["arrays", "words"])
def test_hidden_labels_are_summed_out(kind: str) -> None:
    """The fit ends at a stationary point of the general likelihood on the same instances."""
    X, Y = arrays(12)
    inputs: list[Any] = (
        X if kind == "arrays" else [[[f"big{d}" for d in range(D) if row[d] > 0.5] for row in x] for x in X]
    )
    hidden = [np.where(np.arange(y.size) % 3 == 1, -1, y) for y in Y]
    crf = bl.ChainCRF(l2=0.05).fit(inputs, hidden)
    instances = crf._instances(_examples(inputs, hidden))
    general = Likelihood(template=crf.template_, l2=0.05).value_and_grad(crf.weights_, instances)
    assert crf.result_.loss == pytest.approx(general[0], rel=1e-10)
    assert np.abs(general[1]).max() < 1e-5


def _examples(X: Any, Y: Any) -> Any:
    from beliefs.learning.estimators.examples import Examples

    return Examples(X, Y)


def test_labels_never_met_count_as_missed() -> None:
    crf = bl.ChainCRF(l2=0.01).fit(WORDS, TAGS)
    assert crf.score(WORDS, [["DET", "PROPN"], TAGS[1], TAGS[2]]) == pytest.approx(5 / 6)
    assert crf.score(WORDS[:2], [[None, "PROPN"], TAGS[1]], sample_weight=[3, 1]) == pytest.approx(3 / 6)
    with pytest.raises(ModelError, match="instance 0: .* not a class"):
        crf.score(WORDS, [[0, 1], [0, 1, 2], [1]])
    X, Y = arrays(6)
    numbers = bl.ChainCRF(l2=0.01).fit(X, Y)
    hits = sum(int((a == b).sum()) for a, b in zip(numbers.predict(X), Y, strict=True))
    assert numbers.score(X, Y) == pytest.approx(hits / sum(map(len, Y)))
    with pytest.raises(ModelError, match="label 7"):
        numbers.score(X[:1], [[7]])


def test_words_with_hidden_labels() -> None:
    crf = bl.ChainCRF(l2=0.01).fit(WORDS, [["DET", None], ["DET", "NOUN", "VERB"], [None]])
    assert crf.classes_.tolist() == ["DET", "NOUN", "VERB"]
    assert crf.score(WORDS[:2], [["DET", None], TAGS[1]]) == 1.0


@pytest.mark.parametrize("loss", ["clique_logistic", "univariate_logistic", "pseudo_likelihood", "piecewise"])
def test_other_losses(loss: str) -> None:
    X, Y = arrays(12)
    inputs: list[Any] = [[[f"big{d}" for d in range(D) if row[d] > 0.5] for row in x] for x in X]
    for data in (X, inputs):
        crf = bl.ChainCRF(loss=loss, l2=0.02, max_iters=60).fit(data, Y)
        assert crf.loss_.name == loss
        assert crf.score(data, Y) > 0.75
        assert np.allclose([mu.sum(axis=1).mean() for mu in crf.predict_marginals(data)], 1.0)


def test_losses_with_many_minima_begin_at_the_likelihood() -> None:
    """Their first iterations are those of the likelihood."""
    X, Y = arrays(12)
    seen: list[Floats] = []
    options: dict[str, Any] = {"l2": 0.02, "max_iters": 5}
    options["callback"] = lambda progress: seen.append(progress.weights.copy())
    first = bl.ChainCRF(**options).fit(X, Y)
    n = len(seen)
    bl.ChainCRF(loss="smoothed_classification(alpha=5)", **options).fit(X, Y)
    np.testing.assert_array_equal(np.stack(seen[n : 2 * n]), np.stack(seen[:n]))
    np.testing.assert_array_equal(seen[2 * n], first.weights_)  # where the loss itself begins


@pytest.mark.parametrize("loss", ["pseudo_likelihood", "univariate_logistic", "surrogate_likelihood"])
def test_other_losses_are_answered_exactly_too(loss: str) -> None:
    crf = bl.ChainCRF(loss=loss, l2=0.02).fit(WORDS, TAGS)
    joint = joint_table(crf.model(WORDS[1]))
    np.testing.assert_allclose(crf.predict_marginals(WORDS)[1][0], marginal(joint, [0]), atol=1e-12)


def test_answers_are_those_of_the_inference_of_the_fit() -> None:
    """Mean field is not exact, and a model fitted through it is asked through it."""
    crf = bl.ChainCRF(loss="univariate_logistic", inference="mean_field", n_sweeps=3, l2=0.02).fit(WORDS, TAGS)
    joint = joint_table(crf.model(WORDS[1]))
    found = crf.predict_marginals(WORDS)[1]
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert np.abs(found[0] - marginal(joint, [0])).max() > 1e-4


def test_lasso_leaves_few_weights() -> None:
    X, Y = arrays(20)
    inputs = [[[f"big{d}" for d in range(D) if row[d] > 0.5] for row in x] for x in X]
    dense, sparse = (bl.ChainCRF(l2=1e-4, l1=l1).fit(inputs, Y) for l1 in (0.0, 0.05))
    assert np.count_nonzero(sparse.weights_) < np.count_nonzero(dense.weights_) / 2
    assert sparse.score(inputs, Y) > 0.6


def test_samples_follow_the_model_and_the_seed() -> None:
    crf = bl.ChainCRF(l2=0.3, seed=3).fit(WORDS, TAGS)
    drawn = crf.sample(WORDS, 4000)
    assert [d.shape for d in drawn] == [(4000, 2), (4000, 3), (4000, 1)]
    mu = crf.predict_marginals(WORDS)[1]
    share = np.stack([(drawn[1] == k).mean(axis=0) for k in crf.classes_], axis=1)
    assert np.abs(share - mu).max() < 5 * np.sqrt(0.25 / 4000)
    np.testing.assert_array_equal(crf.sample(WORDS, 4000)[1], drawn[1])
    assert crf.sample(WORDS[:1], 2, method="gibbs")[0].shape == (2, 2)


def test_answers_do_not_depend_on_threads() -> None:
    X, Y = arrays(25)
    one, two = (bl.ChainCRF(l2=0.05, n_jobs=n).fit(X, Y) for n in (1, 2))
    np.testing.assert_array_equal(one.weights_, two.weights_)
    for answers in ("predict_marginals", "predict"):
        for a, b in zip(getattr(one, answers)(X), getattr(two, answers)(iter(X)), strict=True):
            np.testing.assert_array_equal(a, b)


def test_windows_change_answers_by_rounding_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrix products of fewer rows may add up in another order, whatever the library of them."""
    from beliefs.learning.estimators.structured import chain

    X, Y = arrays(25)
    crf = bl.ChainCRF(l2=0.05).fit(X, Y)
    marginals, states = crf.predict_marginals(X), crf.predict(X, "map")
    monkeypatch.setattr(chain, "_WINDOW", 7)
    np.testing.assert_array_equal(crf.weights_, bl.ChainCRF(l2=0.05).fit(X, Y).weights_)
    for a, b in zip(marginals, crf.predict_marginals(iter(X)), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-14)
    for a, b in zip(states, crf.predict(iter(X), "map"), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", ["words", "dense", "sparse"])
def test_files_hold_the_whole_model(kind: str, tmp_path: Path) -> None:
    X, Y = arrays(10)
    inputs: Any = {"words": WORDS, "dense": X, "sparse": [csr_array(x) for x in X]}[kind]
    crf = bl.ChainCRF(l2=0.05, all_transitions=False, boundaries=True).fit(inputs, TAGS if kind == "words" else Y)
    crf.save(tmp_path / "model.npz")
    again = bl.ChainCRF.load(tmp_path / "model.npz")
    for a, b in zip(crf.predict_marginals(inputs), again.predict_marginals(inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.predict(inputs)[0].tolist() == crf.predict(inputs)[0].tolist()
    assert again.describe() == crf.describe()


def test_pairs_loaded_when_needed() -> None:
    lazy = bl.ChainCRF(l2=0.01).fit(lambda: zip(WORDS, TAGS, strict=True))
    eager = bl.ChainCRF(l2=0.01).fit(WORDS, TAGS)
    np.testing.assert_allclose(lazy.weights_, eager.weights_, atol=1e-6)


def test_a_second_fit_forgets_the_first() -> None:
    crf = bl.ChainCRF(l2=0.01).fit(WORDS, TAGS)
    crf.fit(WORDS[:1], TAGS[:1])
    assert crf.attributes_ == ["w=the", "w=dog", "last"]
    assert crf.predict(WORDS[:1])[0].tolist() == TAGS[0]
    X, Y = arrays(5)
    crf.fit(X, Y)
    assert crf.predict(X)[3].shape == (4,)


def test_weights_in_words() -> None:
    crf = bl.ChainCRF(l2=0.01, boundaries=True).fit(WORDS, TAGS)
    text = crf.describe()
    assert text.splitlines()[0].split() == ["transitions", "DET", "NOUN", "VERB"]
    assert "label NOUN: 3 weights" in text
    assert "w=cat" in text
    assert "first token" in text
    X, Y = arrays(8)
    dense = bl.ChainCRF(l2=0.05).fit(X, Y)
    assert "constant" in dense.describe(["a", "b", "c", "d"])
    assert "feature 3" in dense.describe() and "feature 4" not in dense.describe() and "constant" in dense.describe()


@pytest.mark.parametrize(
    "options", [{"optimizer": "adam(step=0.1, batch_size=8)", "max_iters": 30}, {"validation": 0.3}]
)
def test_parts_of_the_data_are_unions_of_their_own(options: dict[str, Any]) -> None:
    X, Y = arrays(40)
    words = [[[f"big{d}" for d in range(D) if row[d] > 0.5] for row in x] for x in X]
    for data in (X, words):
        crf = bl.ChainCRF(l2=1e-3, **options).fit(data, Y)
        assert crf.score(data, Y) > 0.9
        assert isinstance(crf.loss_, ChainLikelihood)
        assert not crf.loss_._recent


def test_copies_and_searches() -> None:
    X, Y = [*WORDS, *WORDS], [*TAGS, *TAGS]
    crf = bl.ChainCRF(l2=0.02, max_iters=30)
    search = GridSearchCV(crf, {"l2": [0.01, 100.0]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"l2": 0.01}
    fresh = clone(search.best_estimator_)
    assert not hasattr(fresh, "weights_")
    copy = pickle.loads(pickle.dumps(search.best_estimator_))
    assert [y.tolist() for y in copy.predict(WORDS)] == TAGS


def test_many_labels_are_listed_by_weight() -> None:
    rng = np.random.default_rng(0)
    Y = [rng.permutation(15) for _ in range(6)]
    X = [[[f"x{k}"] for k in y] for y in Y]
    crf = bl.ChainCRF(l2=0.01).fit(X, Y)
    text = crf.describe(limit=6)
    assert text.startswith("transitions: the 6 largest of ")
    assert text.count(" -> ") == 6


def test_counts_of_instances_weigh() -> None:
    """A sequence of weight 2 is that sequence twice."""
    twice = bl.ChainCRF(l2=0.05, tol=1e-7).fit([*WORDS, WORDS[1]], [*TAGS, TAGS[1]])
    weighted = bl.ChainCRF(l2=0.05, tol=1e-7).fit(WORDS, TAGS, sample_weight=[1, 2, 1])
    np.testing.assert_allclose(twice.weights_, weighted.weights_, atol=1e-6)


# -- bad input -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("X", "Y", "words"),
    [
        (
            [np.zeros((3, 2)), np.zeros((2, 3))],
            [[0, 1, 0], [0, 1]],
            "instance 1: tokens have 3 features, those of instance 0 2",
        ),
        ([np.zeros((3, 2)), np.zeros((2, 2))], [[0, 1, 0], [0, -2]], "instance 1: label -2"),
        ([np.zeros((3, 2))], [[0, 1]], "instance 0: labels must have shape"),
        ([np.zeros((3, 2)), np.zeros((0, 2))], [[0, 1, 0], []], "instance 1 is an empty sequence"),
        ([[["a"]], []], [["X"], []], "instance 1"),
        ([np.array([[0.0], [np.nan]])], [[0, 1]], "instance 0.*nan.*row 1"),
        ([[["a"], ["b"]], [[1, 2]]], [["X", "Y"], ["X"]], "instance 1 is arrays"),
        ([[["a"], ["b", 3]]], [["X", "Y"]], "instance 0, token 1: attributes are words, found 3"),
        ([[["a"], "bc"]], [["X", "Y"]], "instance 0, token 1: a token is a dict or a list.*str"),
        ([[{"a": "x"}, {"a": None}]], [["X", "Y"]], "instance 0, token 1: 'a' is None"),
        ([[{"a": "x"}, {"a": 1.0, "b": np.nan}]], [["X", "Y"]], "instance 0, token 1: the attribute 'b' is nan"),
        ([[{"a": "x"}, {3: 1.0}]], [["X", "Y"]], "instance 0, token 1: keys are words, found 3"),
        ([[["a"], ["b"]]], [[None, None]], "every label is hidden"),
    ],
)
def test_bad_input_names_the_instance(X: Any, Y: Any, words: str) -> None:
    crf = bl.ChainCRF()
    with pytest.raises(ModelError, match=words):
        crf.fit(X, Y)
    assert not hasattr(crf, "weights_")


def test_bad_options() -> None:
    with pytest.raises(ModelError, match="all_pairs"):
        bl.ChainCRF(all_pairs=1).fit(WORDS, TAGS)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="label 5 of variable 1"):
        bl.ChainCRF(n_states=3).fit([np.zeros((2, 1))], [[0, 5]])
    crf = bl.ChainCRF(l2=0.1).fit(WORDS, TAGS)
    with pytest.raises(ModelError, match="instance 0 is arrays"):
        crf.predict([np.zeros((2, 3))])
    with pytest.raises(ModelError, match="n must be"):
        crf.sample(WORDS, 0)
    with pytest.raises(ModelError, match="not a sum over variables"):
        bl.ChainCRF(class_weight="balanced").fit(WORDS, TAGS)
