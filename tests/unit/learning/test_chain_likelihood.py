"""The likelihood of chains by unions, against the general likelihood, closed forms and finite differences."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from beliefs.errors import ModelError
from beliefs.learning.chains.batch import ChainBatch
from beliefs.learning.chains.likelihood import ChainLikelihood
from beliefs.learning.chains.template import ChainTemplate, StatePairs, seen_pairs
from beliefs.learning.chains.tokens import DenseTokens, SparseTokens, Tokens, joined
from beliefs.learning.instances import Instance
from beliefs.learning.losses.likelihood import Likelihood
from beliefs.typing import Floats
from learning_reference import chain_layout

K, D, N = 3, 40, (4, 1, 6, 2, 3)


def sparse(rng: np.random.Generator, n: int, valued: bool) -> SparseTokens:
    counts = rng.integers(0, 6, n)
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    value = rng.normal(size=int(ptr[-1])) if valued else np.zeros(0)
    return SparseTokens(ptr, rng.integers(0, D, int(ptr[-1])), value)


def problem(
    kind: str = "sparse", hidden: float = 0.0, boundaries: bool = False, k: int = K, lengths: tuple[int, ...] = N
) -> tuple[ChainTemplate, list[Instance]]:
    """A template and instances; features dense, sparse, or sparse with values; some labels hidden."""
    rng = np.random.default_rng(3)
    instances = []
    for s, n in enumerate(lengths):
        labels = rng.integers(0, k, n)
        labels[rng.random(n) < hidden] = -1
        tokens: Tokens = DenseTokens(rng.normal(size=(n, 4)), True)
        if kind != "dense":
            tokens = sparse(rng, n, kind == "valued")
        instances.append(
            Instance(chain_layout(n, k, boundaries), tokens, labels, weight=1.0 + s % 2, name=f"instance {s}")
        )
    if kind == "dense":
        return ChainTemplate(k, n_features=5, boundaries=boundaries), instances
    pairs = seen_pairs(((i.inputs, i.labels) for i in instances), D, k)
    return ChainTemplate(k, pairs=pairs, boundaries=boundaries, transitions=np.arange(0, k * k, 2)), instances


def weights(template: ChainTemplate, scale: float = 1.0) -> Floats:
    return scale * np.random.default_rng(1).normal(size=template.n_weights)


CASES = [
    ("sparse", 0.0, False), ("sparse", 0.4, True), ("valued", 0.4, False), ("valued", 0.0, True), ("dense", 0.0, True),
    ("dense", 0.4, False),
]  # fmt: skip


@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize(("kind", "hidden", "boundaries"), CASES)
def test_union_agrees_with_one_graph_a_sequence(kind: str, hidden: float, boundaries: bool, scale: float) -> None:
    """Also with weights of a thousand nats, in the log domain."""
    template, instances = problem(kind, hidden, boundaries)
    w = weights(template, scale)
    value, grad = ChainLikelihood(template=template, l2=0.1).value_and_grad(w, instances)
    expected, slope = Likelihood(template=template, l2=0.1).value_and_grad(w, instances)
    assert value == pytest.approx(expected, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(grad, slope, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("kind", "hidden", "boundaries"), CASES)
def test_gradient_by_finite_differences(kind: str, hidden: float, boundaries: bool) -> None:
    template, instances = problem(kind, hidden, boundaries)
    w, loss, step = weights(template), ChainLikelihood(template=template, l2=0.05), 1e-5
    _, grad = loss.value_and_grad(w, instances)
    along = np.random.default_rng(2).normal(size=w.size)
    high, low = (loss.value_and_grad(w + h * along, instances)[0] for h in (step, -step))
    assert (high - low) / (2 * step) == pytest.approx(grad @ along, rel=1e-7)


def test_a_list_that_has_changed_is_read_again() -> None:
    template, instances = problem()
    w, loss = weights(template), ChainLikelihood(template=template)
    loss.value_and_grad(w, instances)
    instances.pop()
    value, grad = loss.value_and_grad(w, instances)
    expected, slope = Likelihood(template=template).value_and_grad(w, instances)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(grad, slope, rtol=1e-9, atol=1e-11)


def test_weights_of_zero_cost_the_log_of_the_number_of_states() -> None:
    template, instances = problem(k=22, lengths=(5, 9, 1))
    value, grad = ChainLikelihood(template=template).value_and_grad(np.zeros(template.n_weights), instances)
    assert value == pytest.approx(np.log(22), rel=1e-13)
    assert grad.any()


def test_a_sequence_whose_labels_are_all_hidden_adds_nothing() -> None:
    template, instances = problem()
    w, loss = weights(template), ChainLikelihood(template=template)
    rng = np.random.default_rng(4)
    blank = Instance(chain_layout(5, K, False), sparse(rng, 5, False), np.full(5, -1))
    value, grad = loss.value_and_grad(w, instances)
    with_blank = loss.value_and_grad(w, [*instances, blank])
    assert with_blank[0] == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(with_blank[1], grad, rtol=1e-12, atol=1e-14)
    with pytest.raises(ModelError, match="no variable of any instance has a label"):
        loss.value_and_grad(w, [blank])


@pytest.mark.parametrize("kind", ["sparse", "valued", "dense"])
def test_threads_change_no_byte(kind: str) -> None:
    template, instances = problem(kind, 0.1, True, 5, tuple(1 + 31 * s % 60 for s in range(300)))
    w = weights(template, 0.3)
    w[0] = 1e3  # some chains go to the log domain
    found = [ChainLikelihood(template=template, threads=n).value_and_grad(w, instances) for n in (1, 2, 3, None)]
    assert len(ChainBatch.build(template, instances).union.chunks) > 3
    for value, grad in found[1:]:
        assert value == found[0][0]
        np.testing.assert_array_equal(grad, found[0][1])


def test_streams_lists_and_batches_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    from beliefs.learning.chains import joining

    monkeypatch.setattr(joining, "_STREAMED", 5)
    template, instances = problem(hidden=0.3)
    w, loss = weights(template), ChainLikelihood(template=template, l2=0.01)
    value, grad = loss.value_and_grad(w, instances)
    again, same = loss.value_and_grad(w, ChainBatch.build(template, instances))
    assert again == value
    np.testing.assert_array_equal(grad, same)
    streamed, slope = loss.value_and_grad(w, iter(instances))
    assert streamed == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(slope, grad, atol=1e-14)


def test_kept_batches_follow_the_list_and_are_not_pickled() -> None:
    template, instances = problem()
    w, loss = weights(template), ChainLikelihood(template=template)
    whole = loss.value_and_grad(w, instances)[0]
    part = loss.value_and_grad(w, instances[:2])[0]
    assert part != whole
    for _ in range(6):
        assert loss.value_and_grad(w, list(instances[:2]))[0] == part
    assert loss.value_and_grad(w, instances)[0] == whole
    copy = pickle.loads(pickle.dumps(loss))
    assert len(pickle.dumps(loss)) < 20_000
    assert copy.value_and_grad(w, instances)[0] == whole


def test_overflow_is_an_infinite_loss() -> None:
    template, instances = problem()
    value, grad = ChainLikelihood(template=template).value_and_grad(weights(template, 5e307), instances)
    assert value == np.inf
    assert np.isfinite(grad).all()


def test_pairs_seen_are_those_at_labelled_tokens() -> None:
    tokens = SparseTokens(np.array([0, 2, 3, 5]), np.array([4, 1, 4, 0, 1]), np.zeros(0))
    pairs = seen_pairs([(tokens, np.array([2, 0, -1]))], 6, 3)
    assert pairs.ptr.tolist() == [0, 0, 1, 1, 1, 3, 3]
    assert pairs.label.tolist() == [2, 0, 2]
    every = StatePairs.every(6, 3)
    assert (every.n_attributes, every.n_weights, every.label[3:6].tolist()) == (6, 18, [0, 1, 2])


def test_tokens_with_and_without_values_are_joined() -> None:
    a = SparseTokens(np.array([0, 2]), np.array([3, 1]), np.zeros(0))
    b = SparseTokens(np.array([0, 0, 1]), np.array([2]), np.array([0.5]))
    both = joined([a, b, a])
    assert isinstance(both, SparseTokens)
    assert both.ptr.tolist() == [0, 2, 2, 3, 5]
    assert both.attribute.tolist() == [3, 1, 2, 3, 1]
    assert both.value.tolist() == [1.0, 1.0, 0.5, 1.0, 1.0]


def test_many_attributes_in_a_token() -> None:
    """Beyond what insertion sort is for; the order within a token does not matter."""
    rng = np.random.default_rng(0)
    names = rng.integers(0, D, 300)
    tokens = SparseTokens(np.array([0, 200, 300]), names, rng.normal(size=300))
    labels = np.array([1, 0])
    template = ChainTemplate(K, pairs=seen_pairs([(tokens, labels)], D, K))
    instance = Instance(chain_layout(2, K, False), tokens, labels)
    w = weights(template)
    value, grad = ChainLikelihood(template=template, threads=2).value_and_grad(w, [instance])
    expected, slope = Likelihood(template=template).value_and_grad(w, [instance])
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(grad, slope, rtol=1e-10, atol=1e-12)
