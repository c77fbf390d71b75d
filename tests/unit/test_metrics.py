"""Metrics: numbers worked by hand, identities, hidden labels, lists of arrays, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs import metrics

LABELS = np.array([0, 1, 1, -1])
MARGINALS = np.array([[0.8, 0.2], [0.4, 0.6], [0.7, 0.3], [0.5, 0.5]])


def test_by_hand() -> None:
    assert metrics.error_rate(LABELS, [0, 1, 0, 0]) == pytest.approx(1 / 3)
    assert metrics.accuracy(LABELS, [0, 1, 0, 0]) == pytest.approx(2 / 3)
    assert metrics.log_loss(LABELS, MARGINALS) == pytest.approx(-np.log([0.8, 0.6, 0.3]).mean())
    quadratic = [-1.6 + 0.64 + 0.04, -1.2 + 0.16 + 0.36, -0.6 + 0.49 + 0.09]
    assert metrics.quadratic_loss(LABELS, MARGINALS) == pytest.approx(np.mean(quadratic))
    assert metrics.squared_error(LABELS, MARGINALS) == pytest.approx((0.2**2 + 0.4**2 + 0.7**2) / 3)
    assert metrics.brier_score([2], [[0.2, 0.3, 0.5]]) == pytest.approx(0.04 + 0.09 + 0.25)
    assert metrics.mean_error([0, 2, -1], [0.5, 1.0, 7.0]) == pytest.approx((0.25 + 1.0) / 2)
    assert metrics.confusion([0, 1, 1, 2, -1], [0, 2, 1, 0, 5 - 4], 4).tolist() == [
        [1, 0, 0, 0],
        [0, 1, 1, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 0],
    ]


@pytest.mark.parametrize("k", [2, 3, 21])
def test_the_brier_identity(k: int) -> None:
    """Brier = 1 + quadratic; with two states also twice the regression error (x - mu(1))^2."""
    rng = np.random.default_rng(k)
    labels, mu = rng.integers(0, k, 50), rng.dirichlet(np.ones(k), 50)
    assert metrics.brier_score(labels, mu) == pytest.approx(1 + metrics.quadratic_loss(labels, mu), rel=1e-13)
    assert metrics.squared_error(labels, mu) == pytest.approx((1 + metrics.quadratic_loss(labels, mu)) / 2, rel=1e-13)
    if k == 2:
        assert metrics.squared_error(labels, mu) == pytest.approx(np.mean((labels - mu[:, 1]) ** 2), rel=1e-13)


def test_the_identity_holds_in_the_published_tables() -> None:
    """Regression error and L_quad of [domke2008], tables 1 and 2: rounded to four digits."""
    for regression, quadratic in ((0.0445, -0.9109), (0.0265, -0.9470), (0.0201, -0.9598), (0.0866, -0.8268)):
        assert abs((1 + quadratic) - 2 * regression) < 2e-4


def test_uniform_beliefs_have_known_losses() -> None:
    labels = np.array([0, 1, 2])
    assert metrics.log_loss(labels, np.full((3, 3), 1 / 3)) == pytest.approx(np.log(3))
    assert metrics.quadratic_loss([0, 1], np.full((2, 2), 0.5)) == -0.5


def test_a_wrong_certainty_is_costly_but_finite() -> None:
    assert metrics.log_loss([1], [[1.0, 0.0]]) == pytest.approx(300 * np.log(10))


def test_lists_count_every_variable_alike() -> None:
    rng = np.random.default_rng(0)
    labels = [rng.integers(-1, 3, shape) for shape in [(4, 5), (7,), (2, 2, 2)]]
    mu = [rng.dirichlet(np.ones(3), x.shape) for x in labels]
    predicted = [m.argmax(-1) for m in mu]
    flat = np.concatenate([x.ravel() for x in labels])
    flat_mu = np.concatenate([m.reshape(-1, 3) for m in mu])
    for name in ("log_loss", "quadratic_loss", "brier_score", "squared_error"):
        metric = getattr(metrics, name)
        assert metric(labels, mu) == metric(flat, flat_mu) == metric(iter(labels), iter(mu))
    for name in ("error_rate", "accuracy", "mean_error"):
        metric = getattr(metrics, name)
        assert metric(labels, predicted) == metric(flat, flat_mu.argmax(-1))
    known = flat >= 0
    assert metrics.accuracy(labels, predicted) == np.mean(flat_mu.argmax(-1)[known] == flat[known])
    assert metrics.confusion(labels, predicted).sum() == known.sum()


@pytest.mark.parametrize(
    "metric, arguments, message",
    [
        ("error_rate", ([0, 1], [0]), r"instance 0: predictions have shape \(1,\), labels have \(2,\)"),
        ("error_rate", ([[0, 1]], [[0, 1], [1]]), "labels of 1 instances and predictions of 2"),
        ("error_rate", ([-1, -1], [0, 0]), "no variable has a label"),
        ("error_rate", ([0.5], [1]), "instance 0: labels must be integers, found float64"),
        ("log_loss", ([0, 1], [0.5, 0.5]), r"instance 0: marginals have shape \(2,\), expected \(2,\) and the states"),
        ("log_loss", ([[0], [1]], [np.ones((1, 2)), np.ones((1, 3))]), "different numbers of states"),
        ("log_loss", ([2], [[0.5, 0.5]]), "label 2 occurs, but the marginals have 2 states"),
        ("log_loss", ([0], [[np.nan, 0.5]]), "marginals must be finite"),
        ("confusion", ([0, 3], [0, 1], 3), "state 3 occurs, but n_states is 3"),
        ("confusion", ([0, 3], [0, -1]), "predictions must be states from 0 on, found -1"),
    ],
)
def test_bad_input(metric: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        getattr(metrics, metric)(*arguments)


def test_words() -> None:
    truth: list[Any] = [["N", "V", None], ["N"]]
    assert metrics.error_rate(truth, [np.array(["N", "N", "V"]), np.array(["N"])]) == pytest.approx(1 / 3)
    assert metrics.accuracy(np.array(["a", "b"]), ["a", "c"]) == 0.5
    hidden: list[Any] = [[None], ["a"]]
    assert metrics.accuracy(hidden, [["b"], ["a"]]) == 1.0
    with pytest.raises(bl.ModelError, match="labels must be integers"):
        metrics.log_loss(["a"], [[0.5, 0.5]])


@pytest.mark.parametrize("nothing", [None, 3, "text"])
def test_what_is_no_array(nothing: Any) -> None:
    with pytest.raises(bl.ModelError, match="labels must be an array or a list of arrays"):
        metrics.error_rate(nothing, nothing)
    with pytest.raises(bl.ModelError, match="marginals must be an array or a list of arrays"):
        metrics.log_loss([0, 1], nothing)


def test_distances_between_two_answers() -> None:
    graph = bl.FactorGraph.from_tables([2, 2, 3], [((0, 1), [[1, 3], [2, 2]]), ((2,), [1, 1, 2])])
    exact, rough = bl.infer(graph), bl.infer(graph, "mean_field")
    by_hand = np.mean([np.abs(exact.marginal(v) - rough.marginal(v)).sum() for v in range(3)])
    assert metrics.marginal_error(rough, exact) == pytest.approx(by_hand)
    assert metrics.log_z_error(rough, exact) == pytest.approx(exact.log_z - rough.log_z)
    assert metrics.log_z_error(rough, exact.log_z) == metrics.log_z_error(rough, exact)
    seen = graph.condition({0: 1})
    assert metrics.marginal_error(bl.infer(seen), bl.infer(seen)) == 0.0
    with pytest.raises(bl.ModelError, match="one model"):
        metrics.marginal_error(rough, bl.infer(seen))
    with pytest.raises(bl.ModelError, match="finite"):
        metrics.log_z_error(rough, -np.inf)


class TestWhere:
    def test_errors_on_what_was_changed(self) -> None:
        truth, seen, found = np.array([[0, 1, 1, 0]]), np.array([[1, 1, 0, 0]]), np.array([[0, 0, 0, 0]])
        assert metrics.error_rate(truth, found, where=seen != truth) == 0.5
        assert metrics.error_rate(truth, found) == 0.5

    @pytest.mark.parametrize(
        ("where", "message"),
        [([[True]], "mask of shape"), ([[1, 0, 0, 1]], "mask of shape"), ([[False] * 4], "leaves nothing")],
    )
    def test_bad_masks(self, where: Any, message: str) -> None:
        with pytest.raises(bl.ModelError, match=message):
            metrics.error_rate(np.zeros((1, 4), int), np.zeros((1, 4)), where=where)
