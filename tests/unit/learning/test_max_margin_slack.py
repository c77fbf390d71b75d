"""Slack rescaling, and counting errors: against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from beliefs.errors import UnsupportedError, ZeroProbabilityError
from beliefs.learning.instances import Instance
from beliefs.learning.losses.error_counts import count_errors
from beliefs.learning.losses.max_margin import MaxMargin
from families import family
from losses_reference import TEMPLATE, annealed, cost_table, expected_statistics, labelled, possible, slack

SLACK = MaxMargin(template=TEMPLATE, rescaling="slack")
FORESTS = [
    "single_variable", "chain", "tree", "star", "higher_order_tree", "hard_zeros_tree", "isolated_variables",
    "no_factors",
]  # fmt: skip


@pytest.mark.parametrize("name", FORESTS)
def test_slack_rescaling_equals_enumeration(name: str) -> None:
    graph = family(name)
    for seed in range(4):
        for scale in (0.1, 1.0):  # nearly flat models have the worst labelling far away
            model = graph.with_theta(scale * graph.theta)
            instance = Instance(graph.layout, None, possible(graph, seed))
            SLACK.check(instance)
            found = SLACK.part(np.array(model.theta), instance)
            value, grad, delta = slack(model, instance.labels)
            assert found.value == pytest.approx(value, abs=1e-10) and found.upper == found.value
            assert found.bound.name == "EXACT" and found.minorant  # type: ignore[union-attr]
            if name not in ("no_factors", "isolated_variables"):  # where equal scores leave a choice
                np.testing.assert_allclose(found.grad_theta, grad, rtol=0, atol=1e-10)
                assert found.delta == delta
            finite = model.theta > -np.inf
            plane = found.delta + float(model.theta[finite] @ found.grad_theta[finite])
            assert plane == pytest.approx(found.value, abs=1e-10)


@pytest.mark.parametrize("name", ["chain", "tree", "star", "higher_order_tree", "hard_zeros_tree"])
def test_what_is_hidden_is_maximised_in_both_scores(name: str) -> None:
    graph, loss = family(name), MaxMargin(template=TEMPLATE, rescaling="slack", eps_h=0.0)
    for seed in range(4):
        instance = Instance(graph.layout, None, possible(graph, seed))
        instance.labels[seed % 2 :: 3] = -1
        loss.check(instance)
        found = loss.part(np.array(graph.theta), instance)
        delta, joint = cost_table(graph, instance.labels, "hamming"), reference.joint_table(graph)
        truth = int(np.where(delta == 0, joint, -np.inf).argmax())
        with np.errstate(invalid="ignore"):
            values = np.where(delta > 0, delta * (1.0 + joint - joint.flat[truth]), 0.0)
        at = int(values.argmax())
        assert found.value == pytest.approx(values.flat[at], abs=1e-10) and not found.minorant
        worst = np.zeros(joint.shape)
        worst.flat[at] += 1.0
        worst.flat[truth] -= 1.0
        expected = delta.flat[at] * expected_statistics(graph, worst)
        np.testing.assert_allclose(found.grad_theta, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("most", [None, 1, 2])
@pytest.mark.parametrize("eps_h", [0.0, 0.7])
@pytest.mark.parametrize("name", ["chain", "tree", "grid", "higher_order", "hard_zeros", "disconnected", "no_factors"])
def test_scores_by_errors_and_their_labellings(name: str, eps_h: float, most: int | None) -> None:
    graph = family(name)
    labels = possible(graph)
    labels[1 : graph.n_vars : 3] = -1
    counts = count_errors(graph, labels, eps_h, most)
    errors = cost_table(graph, labels, "hamming")
    limit = int((labels >= 0).sum()) if most is None else most
    for e in range(limit + 1):
        wanted = errors >= e if e == most else errors == e
        value = annealed(graph, np.where(wanted, 0.0, -np.inf), labels, 0.0, eps_h)[0] if wanted.any() else -np.inf
        found = counts.best[e] if e < counts.best.size else -np.inf
        assert found == pytest.approx(value, abs=1e-10)
        if found > -np.inf:
            state = counts.labelling(e)
            assert (state[labels < 0] == -1).all()
            wrong = int((state != labels).sum())
            assert wrong == e or (e == most and wrong > e)
            there = cost_table(graph, state, "zero_one")
            fixed = annealed(graph, np.where(there > 0, -np.inf, 0.0), state, 0.0, eps_h)[0]
            assert fixed == pytest.approx(value, abs=1e-10)


def test_what_slack_rescaling_cannot_serve_is_refused() -> None:
    grid, chain = family("grid"), family("chain")
    with pytest.raises(UnsupportedError, match="the graph has a loop"):
        SLACK.check(labelled(grid))
    with pytest.raises(UnsupportedError, match="variable 2 has no label"):
        SLACK.check(labelled(chain, hidden=[2]))
    with pytest.raises(UnsupportedError, match="every wrong label must cost 1"):
        SLACK.check(labelled(chain, label_weights=np.full(7, 2.0)))
    for options in ({"eps_y": 0.5}, {"delta": "zero_one"}, {"delta": "none"}):
        with pytest.raises(UnsupportedError, match="rescaling='slack' .* needs eps_y=0, delta='hamming'"):
            MaxMargin(template=TEMPLATE, rescaling="slack", **options)  # type: ignore[arg-type]
    zeros = family("hard_zeros_tree")
    joint = reference.joint_table(zeros)
    impossible = np.array(np.unravel_index(int(np.argmin(joint)), joint.shape), np.int64)
    with pytest.raises(ZeroProbabilityError, match="potential of zero"):
        SLACK.part(np.array(zeros.theta), Instance(zeros.layout, None, impossible))
