"""Margins of chains by unions against the general loss; Frank-Wolfe in one loop against instance by instance."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beliefs.inference.base import Bound
from beliefs.kernels.chains.linear import Chains
from beliefs.kernels.chains.margins import add_costs, expected_costs, label_indicators
from beliefs.kernels.chains.viterbi import best_labels
from beliefs.learning.chains.blocks import ChainBlocks
from beliefs.learning.chains.margin import ChainMargin, MarginBatch
from beliefs.learning.chains.template import ChainTemplate, seen_pairs
from beliefs.learning.chains.tokens import DenseTokens, SparseTokens, Tokens
from beliefs.learning.fit import fit
from beliefs.learning.instances import Instance
from beliefs.learning.linearised import Terms
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.learning.optimizers.blocks import Dual, InstanceBlocks
from beliefs.learning.parallel import Threads
from learning_reference import chain_layout

N, D = (4, 1, 6, 2, 3, 5), 5


def problem(
    k: int = 3, boundaries: bool = False, hidden: float = 0.0, dtype: Any = float, sparse: str = ""
) -> tuple[ChainTemplate, list[Instance]]:
    """A template and instances with features of which some are zero, an intercept, and weights."""
    rng = np.random.default_rng(7)
    instances = []
    for s, n in enumerate(N):
        labels = rng.integers(0, k, n)
        labels[rng.random(n) < hidden] = -1
        labels[0] = 1
        values = rng.normal(size=(n, D - 1)) * (rng.random((n, D - 1)) < 0.7)
        tokens: Tokens = DenseTokens(values.astype(dtype), True)
        if sparse:
            attribute = rng.integers(0, D, 3 * n)  # some twice in a token, or in several
            value = np.zeros(0) if sparse == "ones" else rng.normal(size=3 * n)
            tokens = SparseTokens(3 * np.arange(n + 1), attribute, value)
        instances.append(
            Instance(chain_layout(n, k, boundaries), tokens, labels, weight=1.0 + s % 2, name=f"instance {s}")
        )
    if sparse:
        pairs = seen_pairs(((i.inputs, i.labels) for i in instances), D, k)
        return ChainTemplate(k, pairs=pairs, boundaries=boundaries, transitions=np.arange(0, k * k, 2)), instances
    return ChainTemplate(k, D, boundaries=boundaries, transitions=np.arange(0, k * k, 2)), instances


def check_equal(options: dict[str, Any], template: ChainTemplate, data: list[Instance], union: bool = True) -> None:
    weights = np.random.default_rng(1).normal(size=template.n_weights)
    fast, slow = (loss(template=template, l2=0.1, **options) for loss in (ChainMargin, MaxMargin))
    assert isinstance(next(iter(fast.batches(data))), MarginBatch) == union
    ours, theirs = fast.evaluate(weights, data), slow.evaluate(weights, data)
    for name in ("value", "upper", "delta"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-9), name
    np.testing.assert_allclose(ours.grad, theirs.grad, atol=1e-9)
    assert (ours.bound, ours.minorant, ours.n_instances) == (theirs.bound, theirs.minorant, theirs.n_instances)
    again = fast.evaluate(weights, data)
    assert again.value == ours.value and (again.grad == ours.grad).all()


TABLE = [[0.0, 1.0, 2.5], [0.5, 0.0, 1.0], [3.0, 0.1, 0.0]]


@pytest.mark.parametrize("boundaries", [False, True])
@pytest.mark.parametrize("eps", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("delta", ["hamming", "none", TABLE], ids=["hamming", "none", "table"])
def test_unions_are_the_general_loss(boundaries: bool, eps: float, delta: Any) -> None:
    check_equal({"eps_y": eps, "delta": delta}, *problem(boundaries=boundaries))


@pytest.mark.parametrize("eps", [0.0, 0.7])
def test_hidden_labels_at_one_temperature(eps: float) -> None:
    check_equal({"eps_y": eps, "eps_h": eps}, *problem(hidden=0.4, boundaries=True))


def test_costs_of_tokens_and_weights_of_labels() -> None:
    template, data = problem()
    rng = np.random.default_rng(2)
    costs = [rng.random((i.labels.size, 3)) * (np.arange(3) != i.labels[:, None]) for i in data]
    given = [replace(i, costs=c.ravel()) for i, c in zip(data, costs, strict=True)]
    check_equal({}, template, given)
    check_equal({"eps_y": 0.5}, template, [replace(i, label_weights=rng.random(i.labels.size)) for i in data])
    check_equal({}, *problem(sparse="values"))
    wide = replace(data[0], inputs=DenseTokens(1e6 * data[0].inputs.values, True))
    check_equal({"eps_y": 0.5}, template, [wide, *data[1:]])


@pytest.mark.parametrize("eps_y, eps_h", [(0.0, 1.0), (0.0, 0.4), (1.0, 0.0), (0.7, 0.2), (0.3, 1.0)])
def test_hidden_labels_at_two_temperatures(eps_y: float, eps_h: float) -> None:
    """Runs of hidden labels at either end and between outputs; spans beyond the range of exponentials, too."""
    template, data = problem(hidden=0.6, boundaries=eps_y == 0)
    first = replace(data[2], labels=np.array([-1, -1, 2, -1, -1, -1]))  # nothing before the first output
    data = [*data, first, replace(data[5], labels=np.array([-1, 0, 1, -1, 2]))]
    check_equal({"eps_y": eps_y, "eps_h": eps_h}, template, data)
    wide = [replace(i, inputs=DenseTokens(3e3 * i.inputs.values, True)) for i in data]
    check_equal({"eps_y": eps_y, "eps_h": eps_h}, template, wide)


def test_unions_serve_the_convex_problem_inside_too() -> None:
    """Free term, tangent and rounds of the concave-convex procedure are those of the general loss."""
    template, data = problem(hidden=0.4, boundaries=True)
    weights = np.random.default_rng(3).normal(size=template.n_weights)
    cases: list[dict[str, Any]] = [{"eps_h": 0.0}, {"eps_y": 0.7, "eps_h": 0.7}, {"eps_h": 1.0}]
    for options in cases:
        fast, general = (cls(template=template, l2=0.05, **options) for cls in (ChainMargin, MaxMargin))
        assert fast.free_batches(data) is not None and general.free_batches(data) is None
        one, other = (Terms(loss).tangent(weights, data) for loss in (fast, general))
        np.testing.assert_allclose(one.slope, other.slope, atol=1e-11)
        assert one.offset == pytest.approx(other.offset, abs=1e-11)
        found, expected = one.evaluate(-weights, data), other.evaluate(-weights, data)
        assert found.value == pytest.approx(expected.value, abs=1e-11) and found.minorant
        assert found.upper == pytest.approx(expected.upper, abs=1e-11)
        assert found.delta == pytest.approx(expected.delta, abs=1e-11)
        np.testing.assert_allclose(found.grad, expected.grad, atol=1e-11)
        result = fit(fast, data, weights, optimizer="cccp", max_iters=4)
        assert (np.diff(result.trace.loss) <= 0).all()


@pytest.mark.parametrize("options", [{}, {"eps_y": 0.4}, {"eps_h": 0.0}, {"eps_y": 0.0, "eps_h": 1.0}], ids=str)
@pytest.mark.parametrize("kind", ["dense", "values"])
@pytest.mark.parametrize("hidden", [0.0, 0.5])
def test_what_each_chain_adds(options: dict[str, Any], kind: str, hidden: float) -> None:
    """Values, gradients, costs and flags, chain by chain, from the union and from single instances."""
    template, data = problem(hidden=hidden, boundaries=kind == "dense", sparse="" if kind == "dense" else kind)
    data = costly(data, 3) if not hidden else data
    weights = np.random.default_rng(3).normal(size=template.n_weights)
    fast, slow = (
        list(loss(template=template, l2=0.1, **options).shares(weights, data, Threads(n)))
        for loss, n in ((ChainMargin, 2), (MaxMargin, 1))
    )
    assert len(fast) == len(slow) == len(data)
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_allclose(one.grad, other.grad, atol=1e-10)
        for name in ("value", "upper", "delta", "n_labelled"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-10), name
        assert (one.bound, one.minorant, one.n_instances) == (other.bound, other.minorant, other.n_instances)


def test_threads_and_copies() -> None:
    template, data = problem(k=5)
    loss = ChainMargin(template=template, l2=0.1)
    weights = np.random.default_rng(1).normal(size=template.n_weights)
    one = loss.evaluate(weights, data)
    two = pickle.loads(pickle.dumps(replace(loss, threads=2))).evaluate(weights, data)
    assert one.value == two.value and (one.grad == two.grad).all() and one.bound is Bound.EXACT


def test_costs_and_indicators_are_the_lines_they_stand_for() -> None:
    rng = np.random.default_rng(4)
    chains, k, width = Chains(np.array([0, 3, 4, 9]), 1, 3, 3, 4), 3, 4
    costs, cost_row, labels = rng.random((5, k)), rng.integers(0, 5, 9), rng.integers(0, k, 9)
    rows, weight = rng.normal(size=(9, width)), np.array([1.0, 2.0, 0.5])
    expected, found, here = rows.copy(), rows.copy(), slice(3, 9)
    expected[here, :k] += costs[cost_row[here]]
    add_costs(chains, costs.reshape(-1), cost_row, found.reshape(-1))
    assert (found == expected).all()
    paid = float((expected[here, :k] * costs[cost_row[here]]).sum())
    assert expected_costs(chains, costs.reshape(-1), cost_row, found.reshape(-1)) == pytest.approx(paid, rel=1e-13)
    pairs, counted = np.zeros(k * k), np.zeros((k, k))
    label_indicators(chains, labels, weight, found.reshape(-1), pairs)
    expected[here] = 0.0
    expected[np.arange(3, 9), labels[here]] = [2.0, 0.5, 0.5, 0.5, 0.5, 0.5]
    np.add.at(counted, (labels[4:8], labels[5:9]), 0.5)
    assert (found == expected).all() and (pairs.reshape(k, k) == counted).all()


# -- Frank-Wolfe in one loop ----------------------------------------------------------------------------------------
def costly(data: list[Instance], k: int) -> list[Instance]:
    """The instances with random costs, so that no two labellings tie and rounding decides nothing."""
    rng = np.random.default_rng(5)
    drawn = [(0.5 + rng.random((i.labels.size, k))) * (np.arange(k) != i.labels[:, None]) for i in data]
    return [replace(i, costs=costs.ravel()) for i, costs in zip(data, drawn, strict=True)]


@pytest.mark.parametrize("boundaries", [False, True])
@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("k, kind", [(3, "float64"), (26, "float32"), (3, "values"), (5, "ones")])
def test_the_loop_makes_the_steps_of_single_instances(boundaries: bool, batch_size: int, k: int, kind: str) -> None:
    """The same order, the same planes: weights, averages, blocks and sums, to rounding.

    The order is fixed: a block that is solved again at once has two planes of equal height, by its line search.
    """
    dense = kind.startswith("float")
    template, data = problem(k, boundaries, dtype=kind if dense else float, sparse="" if dense else kind)
    data = costly(data, k)
    l2, labels = 0.02, sum(i.n_counted for i in data)
    loss = ChainMargin(template=template, l2=l2)
    fast = loss.blocks(data)
    assert isinstance(fast, ChainBlocks)
    slow = InstanceBlocks(MaxMargin(template=template, l2=l2), data, labels)
    assert fast.n_cells == slow.n_cells
    duals = [Dual.start(b.n_weights, b.n_cells, b.n_blocks, labels, l2) for b in (fast, slow)]
    order = np.random.default_rng(0).permutation(len(data))
    for _ in range(4):
        for blocks, dual in zip((fast, slow), duals, strict=True):
            while dual.position < len(data):
                blocks.advance(dual, order[dual.position :], batch_size)
            dual.end_pass()
        one, two = duals
        np.testing.assert_allclose(fast.template_weights(one.arrays.weights), two.arrays.weights, atol=1e-10)
        np.testing.assert_allclose(fast.template_weights(one.averaged()), two.averaged(), atol=1e-10)
        np.testing.assert_allclose(one.arrays.cells, two.arrays.cells, atol=1e-10)
        np.testing.assert_allclose(one.arrays.offsets, two.arrays.offsets, atol=1e-10)
        np.testing.assert_allclose(one.arrays.numbers, two.arrays.numbers, atol=1e-9)
        assert one.lower() == pytest.approx(two.lower(), abs=1e-12)


def test_fits_agree_and_gaps_hold(tmp_path: Path) -> None:
    """By unions and without them; killed and resumed alike; threads change nothing."""
    template, data = problem()
    data = costly(data, 3)
    options: dict[str, Any] = {"optimizer": "bcfw", "tol": 0.0, "max_iters": 30}
    fast = ChainMargin(template=template, l2=0.05)
    one, two = fit(fast, data, **options), fit(MaxMargin(template=template, l2=0.05), data, **options)
    np.testing.assert_allclose(one.weights, two.weights, atol=1e-9)
    np.testing.assert_allclose(one.trace.gap, two.trace.gap, atol=1e-9)
    long = fit(fast, data, optimizer="bcfw(average=False, gap_every=50)", tol=1e-3, max_iters=4000)
    assert (one.trace.gap >= one.trace.loss - long.loss).all() and long.converged
    path = tmp_path / "fit.npz"
    fit(fast, data, **options, checkpoint=path, callback=lambda now: now.iteration == 7)
    resumed = fit(replace(fast, threads=2), data, **options, checkpoint=path)
    assert (resumed.weights == one.weights).all() and (resumed.trace.gap == one.trace.gap).all()


@pytest.mark.parametrize("states", [2, 4, 9, 26])
def test_best_labels_take_the_smallest_of_equals(states: int) -> None:
    """Small integers, so that many labellings tie: the first in each decision from the end."""
    from beliefs.kernels.chains.linear import Chains
    from beliefs.learning.chains.union import padded_table, rows_for

    rng = np.random.default_rng(states)
    starts = np.array([0, 3, 4, 9])
    rows = rows_for(9, states)
    rows[:, :states] = rng.integers(0, 2, (9, states))
    table = rng.integers(0, 2, (states, states)).astype(float)
    labels, score = np.zeros(9, np.int64), np.zeros(3)
    room = np.empty(6 * rows.shape[1])
    best_labels(Chains(starts, 0, 3, states, rows.shape[1]), padded_table(table), rows.ravel(), room, labels, score)
    for s, (first, last) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        best = [rows[first, :states]]
        for t in range(first + 1, last):
            best.append((best[-1][:, None] + table).max(axis=0) + rows[t, :states])
        expected = [int(best[-1].argmax())]
        for b in best[-2::-1]:
            expected.append(int((b + table[:, expected[-1]]).argmax()))
        assert labels[first:last].tolist() == expected[::-1] and score[s] == best[-1].max()
