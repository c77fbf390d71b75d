"""Block-coordinate Frank-Wolfe: against a quadratic program written out, LinearSVC, and its own promises."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

import beliefs as bl
from beliefs.errors import BudgetError, ModelError, UnsupportedError
from beliefs.inference.base import Bound
from beliefs.learning.fit import fit
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import InstanceLoss, Loss
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.learning.optimizers import blocks as blocks_module
from beliefs.learning.optimizers.blocks import Dual, InstanceBlocks
from beliefs.learning.result import FitProgress
from beliefs.model.features import DifferentiableTemplate, FactorType, LogLinearTemplate, Rows
from beliefs.model.layout import Layout
from small_crf import TEMPLATE, Enumerated, chains

L2 = 0.05
DATA = [replace(i, weight=0.5 + k % 3) for k, i in enumerate(chains(9))]


@cache
def planes(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """The plane of every labelling: differences of statistics ``(n, n_cells)``, and Hamming losses."""
    states = np.array(list(product(*(range(k) for k in instance.layout.card))))
    found = [Instance(instance.layout, None, state).statistics - instance.statistics for state in states]
    return np.array(found), (states != instance.labels).sum(axis=1).astype(float)


@dataclass(frozen=True, kw_only=True)
class Hinge(Loss):
    """The structured hinge loss, by writing out all labellings."""

    name: ClassVar[str] = "hinge"
    slack: float = 0.0

    def part(self, theta: np.ndarray, instance: Instance) -> InstanceLoss:
        cells, delta = planes(instance)
        best = int(np.argmax(cells @ theta + delta))
        value = float(cells[best] @ theta + delta[best])
        bound = Bound.UPPER if self.slack else Bound.EXACT
        return InstanceLoss(value, cells[best], bound=bound, upper=value + self.slack, minorant=True, delta=delta[best])


LOSS = Hinge(template=TEMPLATE, l2=L2)


def quadratic_program(data: list[Instance], template: Any, l2: float) -> float:
    """The minimum over weights and slacks, one constraint a labelling, by a general solver."""
    n, n_labels = template.n_weights, sum(i.n_counted for i in data)
    a = np.array([i.weight for i in data])
    rows, heights = [], []
    for s, instance in enumerate(data):
        jacobian = np.array([template.theta(unit, instance.inputs) for unit in np.eye(n)]).T
        cells, delta = planes(instance)
        rows.append(np.concatenate([-cells @ jacobian, np.tile(np.eye(len(data))[s], (len(delta), 1))], axis=1))
        heights.append(delta)

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        return a @ x[n:] / n_labels + l2 * x[:n] @ x[:n], np.concatenate([2 * l2 * x[:n], a / n_labels])

    start = np.concatenate([np.zeros(n), [h.max() for h in heights]])
    held = LinearConstraint(np.concatenate(rows), np.concatenate(heights), np.inf)
    found = minimize(objective, start, jac=True, method="SLSQP", constraints=[held], options={"ftol": 1e-13})
    assert found.success
    return float(found.fun)


OPTIMUM = quadratic_program(DATA, TEMPLATE, L2)


@pytest.mark.parametrize("options", ["average=False", "average=True", "batch_size=4", "average=False, gap_every=3"])
def test_the_gap_is_at_least_the_excess_at_every_pass(options: str) -> None:
    """And both become small; the reference is another solver's."""
    result = fit(LOSS, DATA, optimizer=f"bcfw({options})", max_iters=150, tol=0.01)
    assert result.converged and "duality gap" in result.reason
    known = np.isfinite(result.trace.gap)
    assert known.sum() == len(known) // (3 if "gap_every" in options else 1) > 3
    excess = result.trace.loss[known] - OPTIMUM
    assert (result.trace.gap[known] >= excess - 1e-9).all() and (excess >= -1e-9).all()
    assert result.gap <= 0.01 * result.loss and result.bound is Bound.EXACT
    assert result.loss == LOSS.value_and_grad(result.weights, DATA)[0] and result.gap == result.trace.gap[-1]


@pytest.mark.parametrize("batch_size", [1, 4])
def test_no_step_lowers_the_dual_and_the_weights_are_its(batch_size: int) -> None:
    """Averages are those of the formula, added up step by step here."""
    labels = sum(i.n_counted for i in DATA)
    blocks = InstanceBlocks(LOSS, DATA, labels)
    dual = Dual.start(blocks.n_weights, blocks.n_cells, blocks.n_blocks, labels, L2)
    order, before, averaged, mean = np.arange(9), -np.inf, np.zeros(TEMPLATE.n_weights), 0.0
    for _ in range(6):
        while dual.position < 9:
            blocks.advance(dual, order[dual.position :], batch_size)
            w, numbers = dual.arrays.weights, dual.arrays.numbers
            now = numbers[3] / labels - L2 * w @ w
            assert now >= before - 1e-14
            before = now
            if batch_size == 1:
                averaged += 2 / (dual.step + 1) * (w - averaged)
                mean += 2 / (dual.step + 1) * (numbers[3] - mean)
        dual.end_pass()
    pulled = np.zeros(TEMPLATE.n_weights)
    for i, instance in enumerate(DATA):
        mixture = dual.arrays.cells[blocks.ptr[i] : blocks.ptr[i + 1]]
        TEMPLATE.add_pullback(w, instance.inputs, -instance.weight / (2 * L2 * labels) * mixture, pulled)
    np.testing.assert_allclose(w, pulled, atol=1e-12)
    assert sum(i.weight * o for i, o in zip(DATA, dual.arrays.offsets, strict=True)) == pytest.approx(numbers[3])
    assert dual.step == 54 and dual.n_pass == 6
    if batch_size == 1:
        np.testing.assert_allclose(dual.averaged(), averaged, atol=1e-12)
        assert numbers[4] == pytest.approx(mean)


def test_one_block_reaches_its_optimum_by_hand() -> None:
    """One variable, two states, one feature of 2: the plane is (-1, 1) with loss 1, so d = 2 (-1, 1), |d|^2 = 8."""
    template = LogLinearTemplate([FactorType("vertex", 2, 1)])
    layout = Layout.build(np.array([2]), np.array([0, 1]), np.array([0]), np.array([0]))
    one = [Instance(layout, (Rows(1, np.array([[2.0]])),), np.array([0]))]
    soft = fit(Hinge(template=template, l2=1.0), one, optimizer="bcfw", max_iters=1)
    np.testing.assert_allclose(soft.weights, [0.25, -0.25])  # margin 2 (w0 - w1) = 1, reached at gamma = 1 / 4
    assert soft.gap == pytest.approx(0.0, abs=1e-15) and soft.loss == pytest.approx(0.125)
    stiff = fit(Hinge(template=template, l2=10.0), one, optimizer="bcfw", max_iters=1)
    np.testing.assert_allclose(stiff.weights, [0.1, -0.1])  # gamma = 1, then the ridge holds back


def test_without_edges_it_is_the_svm_of_crammer_and_singer() -> None:
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = rng.normal(size=(60, 4)) + 1.2 * np.eye(3, 4)[y]
    c = 0.3
    svm = LinearSVC(C=c, multi_class="crammer_singer", fit_intercept=False, tol=1e-8, max_iter=100_000).fit(X, y)
    scores = X @ svm.coef_.T
    hinge = (scores + (np.arange(3) != y[:, None])).max(axis=1) - scores[np.arange(60), y]
    theirs = 0.5 * (svm.coef_**2).sum() + c * hinge.sum()
    template = LogLinearTemplate([FactorType("vertex", 3, 4)])
    layout = Layout.build(np.full(5, 3), np.arange(6), np.arange(5), 3 * np.arange(5))
    data = [Instance(layout, (Rows(5, X[i : i + 5]),), y[i : i + 5]) for i in range(0, 60, 5)]
    result = fit(Separable(template=template, l2=1 / (2 * c * 60)), data, optimizer="bcfw", tol=1e-3, max_iters=1000)
    ours, gap = c * 60 * result.loss, c * 60 * result.gap
    assert ours - gap - 1e-6 <= theirs <= ours + 1e-6 and gap <= 1e-3 * ours
    np.testing.assert_allclose(result.weights.reshape(3, 4), svm.coef_, atol=0.05)


@dataclass(frozen=True, kw_only=True)
class Separable(Hinge):
    """The hinge of variables without edges: a maximum each."""

    def part(self, theta: np.ndarray, instance: Instance) -> InstanceLoss:
        cost = np.arange(3) != instance.labels[:, None]
        state = (theta.reshape(-1, 3) + cost).argmax(axis=1)
        cells, delta = (
            Instance(instance.layout, None, state).statistics - instance.statistics,
            ((state != instance.labels).sum()),
        )
        value = float(cells @ theta + delta)
        return InstanceLoss(value, cells, bound=Bound.EXACT, upper=value, minorant=True, delta=float(delta))


# -- inexact inference --------------------------------------------------------------------------------------------
def test_upper_bounds_widen_the_gap_and_without_them_there_is_none() -> None:
    plain = fit(LOSS, DATA, optimizer="bcfw", max_iters=5, tol=0)
    loose = fit(replace(LOSS, slack=0.25), DATA, optimizer="bcfw", max_iters=5, tol=0)
    more = 0.25 * sum(i.weight for i in DATA) / sum(i.n_counted for i in DATA)
    assert (plain.weights == loose.weights).all() and loose.gap == pytest.approx(plain.gap + more)
    assert loose.bound is Bound.UPPER
    boundless = fit(replace(LOSS, slack=np.inf), DATA, optimizer="bcfw", max_iters=3)
    assert boundless.gap == np.inf and not boundless.converged


def rings(n: int) -> list[Instance]:
    """Rings of four variables, which messages do not solve exactly."""
    rng = np.random.default_rng(4)
    ring = [[0], [1], [2], [3], [0, 1], [1, 2], [2, 3], [3, 0]]
    ptr = np.concatenate([[0], np.cumsum([len(scope) for scope in ring])])
    layout = Layout.build(np.full(4, 2), ptr, np.concatenate(ring), np.array([0, 2, 4, 6, 8, 8, 8, 8]))
    return [Instance(layout, (Rows(4, rng.normal(size=(4, 3))), Rows(4)), rng.integers(0, 2, 4)) for _ in range(n)]


@pytest.mark.parametrize("method", [None, bl.TRW(), bl.GDD(), bl.BP()], ids=["exact", "trw", "gdd", "bp"])
def test_gaps_with_messages_on_rings_are_certified_or_none(method: Any) -> None:
    """The excess of the objective with exact inference is below the gap of the fit with another."""
    data = rings(6)
    loss = MaxMargin(template=TEMPLATE, l2=L2, method=method)
    result = fit(loss, data, optimizer="bcfw", max_iters=12, tol=0.0)
    optimum = quadratic_program(data, TEMPLATE, L2)
    exact = MaxMargin(template=TEMPLATE, l2=L2).evaluate(result.weights, data).value
    assert result.gap >= exact - optimum - 1e-9 >= -1e-9
    assert (result.gap < np.inf) == (result.trace.gap < np.inf).all()
    assert result.gap < 0.5 * result.loss or isinstance(method, bl.BP)


# -- the same steps -------------------------------------------------------------------------------------------------
def test_threads_change_no_byte() -> None:
    one, two = (fit(replace(LOSS, threads=n), DATA, optimizer="bcfw(batch_size=3)", max_iters=6, tol=0) for n in (1, 2))
    assert (one.weights == two.weights).all() and (one.trace.gap == two.trace.gap).all()


@pytest.mark.parametrize("step", [1, 8, 9, 13])
def test_every_stop_is_a_place_to_go_on_from(step: int, tmp_path: Path) -> None:
    """Within a pass and between passes: the very same steps follow."""
    options: dict[str, Any] = {"optimizer": "bcfw(gap_every=2)", "max_iters": 4, "tol": 0.0, "seed": 3}
    whole = fit(LOSS, DATA, **options)
    path = tmp_path / "fit.npz"
    stopped = fit(LOSS, DATA, **options, checkpoint=path, callback=lambda now: now.step == step)
    assert stopped.status is bl.Status.STOPPED and np.isfinite(stopped.weights).all()
    resumed = fit(LOSS, DATA, **options, checkpoint=path)
    assert (resumed.weights == whole.weights).all() and resumed.gap == whole.gap and resumed.n_iters == 4
    assert (resumed.trace.loss == whole.trace.loss).all() and (resumed.trace.gap == whole.trace.gap).all()


def test_a_finished_fit_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    first = fit(LOSS, DATA, optimizer="bcfw", tol=0.1, checkpoint=path)
    again = fit(LOSS, DATA, optimizer="bcfw", tol=0.1, checkpoint=path)
    assert first.converged and again.converged and again.n_evaluations == 0 and again.n_iters == first.n_iters
    assert (again.weights == first.weights).all() and again.gap == first.gap
    further = fit(LOSS, DATA, optimizer="bcfw", tol=0.05, checkpoint=path)
    assert further.converged and further.n_iters > first.n_iters


def test_an_interrupt_in_the_middle_of_a_step_loses_nothing(tmp_path: Path) -> None:
    """Ctrl-C inside inference, after steps of which no checkpoint was written."""
    path = tmp_path / "fit.npz"
    options: dict[str, Any] = {"optimizer": "bcfw", "max_iters": 3, "tol": 0.0}

    @dataclass(frozen=True, kw_only=True)
    class Interrupted(Hinge):
        def part(self, theta: np.ndarray, instance: Instance) -> InstanceLoss:
            calls.append(1)
            if len(calls) == 13:
                raise KeyboardInterrupt
            return super().part(theta, instance)

    calls: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        fit(Interrupted(template=TEMPLATE, l2=L2), DATA, **options, checkpoint=path)
    resumed = fit(Hinge(template=TEMPLATE, l2=L2), DATA, **options, checkpoint=path)
    assert (resumed.weights == fit(LOSS, DATA, **options).weights).all()


def test_seeds_draw_the_order_and_callbacks_see_every_step() -> None:
    seen: list[FitProgress] = []

    def note(now: FitProgress) -> None:
        seen.append(now)

    one = fit(LOSS, DATA, optimizer="bcfw", max_iters=2, tol=0, seed=1, callback=note)
    two = fit(LOSS, DATA, optimizer="bcfw", max_iters=2, tol=0, seed=2)
    assert [now.step for now in seen] == list(range(1, 19)) and (one.weights != two.weights).any()
    assert all(np.isfinite(now.loss) for now in seen) and seen[0].gap == np.inf and seen[8].gap < np.inf
    again = fit(LOSS, DATA, np.ones(TEMPLATE.n_weights), optimizer="bcfw", max_iters=2, tol=0, seed=1)
    assert (again.weights == one.weights).all()  # the dual begins at the labels


# -- refusals -------------------------------------------------------------------------------------------------------
def test_what_has_no_such_dual_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(kind: type[Exception], message: str, loss: Any = LOSS, data: Any = DATA, **options: Any) -> None:
        with pytest.raises(kind, match=message):
            fit(loss, data, optimizer="bcfw", max_iters=1, **options)

    hidden = [*DATA[:2], replace(DATA[2], labels=np.full(DATA[2].labels.size, -1), name="instance 2")]
    refused(UnsupportedError, "instance 2 has hidden variables.*cccp", data=hidden)
    refused(ModelError, "ridge", replace(LOSS, l2=0.0))
    refused(UnsupportedError, "l1 penalty", l1=0.1)
    refused(UnsupportedError, "bounds", bounds=(0, 1))
    refused(UnsupportedError, "may not move", free=np.arange(TEMPLATE.n_weights) > 0)
    refused(ModelError, "maximum of planes, which enumerated is not", Enumerated(template=TEMPLATE, l2=L2))
    refused(ModelError, "draws instances from a list", data=iter_again(DATA))
    curved = DifferentiableTemplate(TEMPLATE.n_weights, TEMPLATE.theta, lambda w, x, g: w)
    refused(UnsupportedError, "linear in its weights, found DifferentiableTemplate", replace(LOSS, template=curved))
    monkeypatch.setattr(blocks_module, "default_budget", lambda: 1000)
    refused(BudgetError, "bcfw needs .* for .* cells of 9 instances")


def iter_again(data: list[Instance]) -> Any:
    class Again:
        def __iter__(self) -> Any:
            return iter(data)

    return Again()
