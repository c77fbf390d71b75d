"""Where fits begin and how they grow: the independent model, doubling, stages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import beliefs as bl
from beliefs.learning.fit import fit
from beliefs.learning.independent import Independent, _alone, fit_independent
from beliefs.learning.instances import Instance
from beliefs.learning.schedules import Doubling, Stage, fit_stages
from beliefs.model.features import DifferentiableTemplate, FactorType, LogLinearTemplate, Rows
from beliefs.model.layout import Layout
from small_crf import TEMPLATE, WIDTH, Enumerated, chains

LOSS = Enumerated(template=TEMPLATE, l2=0.01)
DATA = chains(20)


def test_the_independent_model_is_logistic_regression() -> None:
    """Two rows of weights under a ridge l2 |w|^2 per label: half the difference of the rows is sklearn's vector."""
    l2 = 0.02
    result = fit_independent(TEMPLATE, DATA, l2=l2, tol=1e-9)
    x = np.concatenate([i.inputs[0].values for i in DATA])
    y = np.concatenate([i.labels for i in DATA])
    # softmax rows -+u: l2 * 2 |u|^2 per label = l2/2 |c|^2 with c = 2u; sklearn: sum of losses + |c|^2 / (2 C)
    peer = LogisticRegression(C=1 / (l2 * len(y)), fit_intercept=False, tol=1e-10, max_iter=1000).fit(x, y)
    rows = result.weights[: 2 * WIDTH].reshape(2, WIDTH)
    np.testing.assert_allclose(rows[1] - rows[0], peer.coef_[0], atol=1e-6)
    np.testing.assert_allclose(rows[0], -rows[1], atol=1e-7)
    assert not result.weights[2 * WIDTH :].any() and result.converged


def test_it_is_the_likelihood_without_edges() -> None:
    free = np.arange(10) < 2 * WIDTH
    by_likelihood = fit(LOSS, DATA, free=free, tol=1e-9)
    alone = fit_independent(TEMPLATE, DATA, l2=0.01, tol=1e-9)
    np.testing.assert_allclose(alone.weights, by_likelihood.weights, atol=1e-7)


def test_hidden_and_weighted_labels_count_as_they_should() -> None:
    loss = Independent(template=TEMPLATE)
    instance, w = DATA[3], np.linspace(-1, 1, 10)
    theta = TEMPLATE.theta(w, instance.inputs)
    n = instance.labels.size
    scores = theta[: 2 * n].reshape(n, 2)
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    terms = -np.log(p[np.arange(n), instance.labels])
    weights = np.arange(1.0, n + 1)
    hidden = np.where(np.arange(n) == 1, -1, instance.labels)
    counted = np.where(hidden >= 0, weights, 0.0)
    part = loss.part(theta, replace(instance, labels=hidden, label_weights=weights))
    assert part.value == pytest.approx(counted @ terms, rel=1e-13)
    expected = (p - np.eye(2)[instance.labels]) * counted[:, None]
    np.testing.assert_allclose(part.grad_theta[: 2 * n], expected.ravel(), atol=1e-14)
    assert not part.grad_theta[2 * n :].any() and loss.part(theta, instance).value == pytest.approx(terms.sum())


def mixed_instance(rng: np.random.Generator) -> tuple[LogLinearTemplate, Instance]:
    """Cards 2 and 3 apart by type, tied and untied factors of one variable, a pair between them."""
    template = LogLinearTemplate(
        [FactorType("two", 2, 2), FactorType("pair", 6, 2), FactorType("three", 3), FactorType("more", 2)]
    )
    scopes = [(0,), (2,), (0, 1), (2, 3), (1,), (3,), (0,)]
    ptr = np.concatenate([[0], np.cumsum([len(s) for s in scopes])])
    starts = [0, 2, 4, 10, 16, 16, 19]
    layout = Layout.build([2, 3, 2, 3], ptr, np.concatenate([np.array(s) for s in scopes]), starts)
    inputs = (Rows(2, rng.normal(size=(2, 2))), Rows(2, rng.normal(size=(2, 2))), Rows(2), Rows(1))
    return template, Instance(layout, inputs, np.array([1, 2, 0, 0]))


def test_leaving_the_edges_out_changes_nothing_but_the_cost() -> None:
    rng = np.random.default_rng(0)
    template, instance = mixed_instance(rng)
    loss = Independent(template=template, l2=0.1)
    alone = _alone(template, instance)
    assert alone.layout.n_factors == 5 and alone.layout.n_cells == instance.layout.n_cells - 12
    w = rng.normal(size=template.n_weights)
    found, wanted = loss.value_and_grad(w, [alone]), loss.value_and_grad(w, [instance])
    np.testing.assert_allclose(found[0], wanted[0], atol=1e-14)
    np.testing.assert_allclose(found[1], wanted[1], atol=1e-14)
    step = 1e-6 * rng.normal(size=w.size)
    slope = loss.value_and_grad(w + step, [alone])[0] - loss.value_and_grad(w - step, [alone])[0]
    assert slope == pytest.approx(2 * loss.value_and_grad(w, [alone])[1] @ step, rel=1e-5)


def test_any_template_and_any_iterable_of_instances_is_served() -> None:
    curved = DifferentiableTemplate(
        10,
        TEMPLATE.theta,
        lambda w, inputs, grad: _pulled(w, inputs, grad),
    )
    expected = fit_independent(TEMPLATE, DATA, tol=1e-9).weights
    np.testing.assert_allclose(fit_independent(curved, DATA, tol=1e-9).weights, expected, atol=1e-12)

    class Again:
        def __iter__(self) -> Any:
            return iter(DATA)

    np.testing.assert_allclose(fit_independent(TEMPLATE, Again(), tol=1e-9).weights, expected, atol=1e-12)


def _pulled(w: np.ndarray, inputs: Any, grad: np.ndarray) -> np.ndarray:
    out = np.zeros(10)
    TEMPLATE.add_pullback(w, inputs, grad, out)
    return out


@pytest.mark.parametrize(
    "n, stages",
    [
        (512, [(32, 1000), (64, 500), (128, 250), (256, 125), (512, 62)]),
        (100, [(32, 1000), (64, 500), (100, 250)]),
        (33, [(32, 1000), (33, 500)]),
        (32, [(32, 1000)]),
        (5, [(5, 1000)]),
    ],
)
def test_the_schedule_is_that_of_the_papers(n: int, stages: list[tuple[int, int]]) -> None:
    assert Doubling().stages(n) == stages


def test_doubling_goes_stage_by_stage_from_weights_to_weights() -> None:
    seen: list[int] = []

    class Counted(Enumerated):
        def evaluate(self, weights: np.ndarray, instances: Any) -> Any:
            seen.append(len(instances))
            return super().evaluate(weights, instances)

    results = Doubling(start=5, max_iters=8).fit(Counted(template=TEMPLATE, l2=0.01), DATA)
    assert sorted(set(seen)) == [5, 10, 20] and seen == sorted(seen)
    assert [r.n_iters for r in results] == [8, 4, 2] and all(r.status is bl.Status.MAX_ITERS for r in results)
    for before, after, size in zip(results, results[1:], (10, 20)):
        assert after.trace.loss[0] == LOSS.value_and_grad(before.weights, DATA[:size])[0]
    assert results[-1].loss == LOSS.value_and_grad(results[-1].weights, DATA)[0]


def test_a_long_schedule_ends_at_the_optimum() -> None:
    best = fit(LOSS, DATA, tol=1e-8)
    last = Doubling(start=5).fit(LOSS, DATA, tol=1e-8)[-1]
    assert last.converged
    np.testing.assert_allclose(last.weights, best.weights, atol=1e-6)


def test_stages_hand_their_weights_on() -> None:
    first = Independent(template=TEMPLATE, l2=1e-4)
    results = fit_stages([Stage(first), Stage(LOSS, max_iters=3), Stage(LOSS)], DATA)
    assert [r.converged for r in results] == [True, False, True]
    assert results[2].trace.loss[0] == results[1].loss


def test_stopping_one_stage_stops_the_whole() -> None:
    results = Doubling(start=5, max_iters=8).fit(LOSS, DATA, callback=lambda now: now.iteration == 5)
    assert len(results) == 1 and results[0].status is bl.Status.STOPPED
    assert len(Doubling(start=5).fit(LOSS, DATA, time_limit=0)) == 1


def test_a_schedule_goes_on_from_its_checkpoints(tmp_path: Path) -> None:
    schedule, path = Doubling(start=5, max_iters=8), tmp_path / "fit.npz"
    whole = schedule.fit(LOSS, DATA)

    def interrupt(now: Any) -> None:
        if now.iteration == 2 and (tmp_path / "fit.1.npz").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        schedule.fit(LOSS, DATA, checkpoint=path, checkpoint_every=0, callback=interrupt)
    again = schedule.fit(LOSS, DATA, checkpoint=path)
    assert [r.n_iters for r in again] == [8, 4, 2] and again[0].n_evaluations == 1
    assert again[-1].loss == pytest.approx(whole[-1].loss, abs=1e-3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fit.0.npz", "fit.1.npz", "fit.2.npz"]


def test_bad_input() -> None:
    assert repr(Doubling()) == "doubling" and repr(Doubling(start=8)) == "doubling(start=8)"
    with pytest.raises(bl.ModelError, match="start must be an integer of at least 1"):
        Doubling(start=0)
    with pytest.raises(bl.ModelError, match="give a list"):
        Doubling().fit(LOSS, iter(DATA))  # type: ignore[arg-type]
    with pytest.raises(bl.ModelError, match="at least one stage"):
        fit_stages([], DATA)
