"""Cutting planes of each instance: the program on many simplices, true gaps, few evaluations, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from beliefs.errors import BudgetError, ModelError
from beliefs.kernels.optimizers.simplex_blocks import BlockPlanes, room_for, sweep_blocks
from beliefs.learning.fit import fit
from beliefs.learning.instances import Instance
from beliefs.learning.losses.likelihood import Likelihood
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.model.features import FactorType, LogLinearTemplate, Rows
from beliefs.model.layout import Layout
from margin_reference import Hinge, crammer_singer, digits
from small_crf import TEMPLATE, chains

DATA = chains(8)
MARGIN = MaxMargin(template=TEMPLATE, l2=0.01)


def test_sweeps_reach_the_minimum_of_the_program() -> None:
    rng = np.random.default_rng(0)
    counts, d, l2 = np.array([1, 3, 4, 2]), 5, 0.3
    ptr, n = np.concatenate([[0], np.cumsum(counts)]), int(counts.sum())
    slopes, offsets = rng.normal(size=(n, d)), rng.normal(size=n)
    gram = np.zeros((n, counts.max()))
    for i, m in enumerate(counts):
        own = slopes[ptr[i] : ptr[i + 1]]
        gram[ptr[i] : ptr[i + 1], :m] = own @ own.T
    alpha = np.zeros(n)
    alpha[ptr[:-1]] = 1.0
    total = alpha @ slopes
    planes, room = BlockPlanes(ptr, slopes, offsets, gram), room_for(int(counts.max()))
    gaps = [sweep_blocks(planes, l2, 1e-14, room, alpha, total) for _ in range(300)]
    np.testing.assert_allclose(total, alpha @ slopes, atol=1e-12)
    np.testing.assert_allclose(np.add.reduceat(alpha, ptr[:-1]), 1.0, atol=1e-14)

    def dual(a: np.ndarray) -> float:
        return float((a @ slopes) @ (a @ slopes) / (4 * l2) - offsets @ a)

    sums = [
        {"type": "eq", "fun": lambda a, i=i: a[ptr[i] : ptr[i + 1]].sum() - 1.0} for i in range(len(counts))
    ]  # fmt: skip
    other = minimize(dual, np.repeat(1 / counts, counts), method="SLSQP", bounds=[(0, 1)] * n, constraints=sums,
                     options={"ftol": 1e-14, "maxiter": 500})  # fmt: skip
    assert dual(alpha) <= other.fun + 1e-12 and dual(alpha) == pytest.approx(other.fun, abs=1e-6)
    assert gaps[0] > 0.1 and gaps[-1] < 1e-12


@pytest.mark.parametrize("loss", [MARGIN, Likelihood(template=TEMPLATE, l2=0.01)], ids=["kinks", "smooth"])
@pytest.mark.parametrize("optimizer", ["n_slack", "n_slack(step=0.5, inertia=0.5, keep=1)"])
def test_every_gap_is_true(loss: MaxMargin, optimizer: str) -> None:
    data = [replace(i, weight=0.5 + k % 3) for k, i in enumerate(DATA)]
    whole = fit(loss, data, optimizer="one_slack", tol=1e-9, max_iters=2000)
    optimum = whole.loss - whole.gap
    result = fit(loss, data, optimizer=optimizer, tol=1e-5)
    assert result.converged and (result.trace.gap >= result.trace.loss - whole.loss - 1e-12).all()
    assert result.loss - optimum <= 1e-5 * result.loss + 1e-9 and (np.diff(result.trace.loss) <= 0).all()
    assert result.loss == pytest.approx(loss.evaluate(result.weights, data).value, abs=1e-13)
    assert result.n_evaluations < whole.n_evaluations


def test_without_edges_it_is_the_svm_of_crammer_and_singer() -> None:
    x, y = digits(30)
    layout = Layout.build(np.array([10]), np.array([0, 1]), np.array([0]), np.array([0]))
    data = [Instance(layout, (Rows(1, row[None]),), np.array([label])) for row, label in zip(x, y)]
    loss = MaxMargin(template=LogLinearTemplate([FactorType("row", 10, 64)]), l2=1 / (2 * 1.0 * len(y)))
    optimum = Hinge(10, 64, loss.l2).evaluate(crammer_singer(x, y, 1.0), list(zip(x, y))).value
    result = fit(loss, data, optimizer="n_slack", tol=1e-4)
    assert result.converged and -1e-12 <= result.loss - optimum <= result.gap <= 1e-4 * result.loss
    assert result.n_evaluations < 25


def test_weights_may_be_held_and_threads_change_no_byte() -> None:
    free = np.arange(10) % 3 > 0
    start = np.linspace(-0.5, 0.5, 10)
    one, two = (fit(replace(MARGIN, threads=t), DATA, start, optimizer="n_slack", free=free, tol=1e-5) for t in (1, 2))
    assert one.weights.tobytes() == two.weights.tobytes() and (one.weights[~free] == start[~free]).all()
    whole = fit(MARGIN, DATA, start, optimizer="one_slack", free=free, tol=1e-6)
    assert abs(one.loss - whole.loss) <= 1e-5 * whole.loss


def test_a_fit_that_is_cut_short_goes_on_alike(tmp_path: Path) -> None:
    whole = fit(MARGIN, DATA, optimizer="n_slack(keep=1)", tol=1e-6)
    file = tmp_path / "fit.npz"
    for iterations in (0, 2, 4):
        fit(MARGIN, DATA, optimizer="n_slack(keep=1)", tol=1e-6, max_iters=iterations, checkpoint=file)
    resumed = fit(MARGIN, DATA, optimizer="n_slack(keep=1)", tol=1e-6, checkpoint=file)
    assert whole.n_iters > 4 and resumed.weights.tobytes() == whole.weights.tobytes()
    assert resumed.trace.gap.tobytes() == whole.trace.gap.tobytes()


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = [replace(DATA[0], labels=np.array([-1, 0]))]
    with pytest.raises(ModelError, match="n_slack needs a convex loss.*cccp"):
        fit(MARGIN, hidden, optimizer="n_slack")
    with pytest.raises(ModelError, match="n_slack needs a ridge"):
        fit(replace(MARGIN, l2=0.0), DATA, optimizer="n_slack")
    with pytest.raises(ModelError, match="n_slack needs a loss of instances.*one_slack"):
        fit(Hinge(2, 2, 0.1), [(np.zeros(2), 0)], optimizer="n_slack")  # type: ignore[list-item]
    monkeypatch.setattr("beliefs.learning.optimizers.n_slack.default_budget", lambda: 1000.0)
    with pytest.raises(BudgetError, match="n_slack needs .* Use bcfw or one_slack"):
        fit(MARGIN, DATA, optimizer="n_slack")
