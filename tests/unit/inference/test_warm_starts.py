"""Messages that go on from those of other potentials, or have far to go while all beliefs stand still."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.messages.schedule import make_schedule
from beliefs.inference.messages.sweep_spec import SweepSpec
from beliefs.kernels.messages.reach import keep_within_reach

METHODS = [
    *(f"{name}(damping={d})" for name in ("bp", "trw", "fractional_bp") for d in (0.0, 0.3, 0.9)),
    "bp(schedule=flooding, damping=0.5)",
    "bp(schedule=residual)",
    "bp(stop=messages, damping=0.9)",
    "bp(damp=probability, damping=0.3)",
    "mean_field",
    "mean_field(structure=tree)",
]


def ask(door: Any, *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        return door(*args, **options)


def weak(seed: int) -> bl.RBM:
    rng = np.random.default_rng(seed)
    n, m = rng.integers(3, 6, 2)
    return bl.RBM(0.5 * rng.normal(size=(n, m)), rng.normal(size=n), rng.normal(size=m))


def aligned(like: bl.RBM, scale: float, sign: float) -> bl.RBM:
    """A machine whose messages all say the same, as loudly as they can."""
    n, m = like.weights.shape
    return bl.RBM(sign * scale * np.ones((n, m)), scale * np.ones(n), sign * scale * np.ones(m))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [20.0, 1.6e4, 1e29])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("form", ["graph", "machine"])
def test_a_start_from_far_larger_potentials_ends_where_others_do(
    method: str, scale: float, sign: float, form: str
) -> None:
    for seed in range(2):
        one = weak(seed)
        far: Any = aligned(one, scale, sign)
        model, begin = (one, far) if form == "machine" else (one.to_factor_graph(), far.to_factor_graph())
        there = bl.infer(model, method)
        for steps in (1, 5):
            here = bl.infer(model, method, init=ask(bl.infer, begin, method, max_iters=steps))
            assert here.converged and here.log_z == pytest.approx(there.log_z, abs=2e-3)
            np.testing.assert_allclose(here.mu_var, there.mu_var, rtol=0, atol=2e-3)


@pytest.mark.parametrize("method", ["bp(damping=0.5)", "bp(damping=0.9)"])
@pytest.mark.parametrize("form", ["graph", "machine", "batch"])
def test_damped_messages_have_not_settled_while_they_may_turn_a_unit_over(method: str, form: str) -> None:
    """Five units of 30 nats each are more than a bias of -100, but tenths of them are not."""
    weights = np.full((2, 5), 30.0)
    visible, hidden = np.full(2, -100.0), np.full(5, -1.0)
    one = bl.RBM(weights, visible, hidden)
    truth = bl.infer(one, "enumeration")
    if form == "batch":
        crbm = bl.CRBM(weights, np.zeros((2, 1)), np.zeros((5, 1)), visible, hidden)
        batch = bl.infer(crbm.given(np.zeros((2, 1))), method)
        assert batch.converged.all()
        found = batch.log_z[0]
    else:
        result = bl.infer(one if form == "machine" else one.to_factor_graph(), method)
        assert result.converged
        again = ask(bl.infer, result.model, method, init=result, tol=0.0, max_iters=200)
        np.testing.assert_allclose(again.mu_var, result.mu_var, rtol=0, atol=1e-3)
        found = result.log_z
    assert found == pytest.approx(truth.log_z, abs=1.0)


@pytest.mark.parametrize("form", ["graph", "machine"])
def test_answers_about_saturated_machines_are_their_own_continuation(form: str) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, m = rng.integers(2, 7, 2)
        weights = rng.choice([5, 30, 100]) * np.abs(rng.normal(size=(n, m)))
        one = bl.RBM(weights, -rng.random(n) * weights.sum(1), -0.2 * rng.random(m) * weights.sum(0))
        model: Any = one if form == "machine" else one.to_factor_graph()
        result = ask(bl.infer, model, "bp(damping=0.9)", max_iters=2000)
        again = ask(bl.infer, model, "bp(damping=0.9)", init=result, tol=0.0, max_iters=300)
        assert result.converged
        np.testing.assert_allclose(again.mu_var, result.mu_var, rtol=0, atol=1e-2)


def test_a_start_from_the_same_potentials_is_taken_as_it_is() -> None:
    graph = weak(0).to_factor_graph()
    for method in METHODS:
        settled = bl.infer(graph, method, tol=1e-10)
        again = bl.infer(graph, method, tol=1e-10, init=settled)
        assert again.n_iters <= 2 and again.log_z == pytest.approx(settled.log_z, abs=1e-9)


@pytest.mark.parametrize("summed", [True, False])
def test_messages_say_no_more_than_their_factors(summed: bool) -> None:
    rng = np.random.default_rng(0)
    tables: list[Any] = [
        ((0,), rng.normal(size=2)),
        ((0, 1), rng.normal(size=(2, 3))),
        ((1, 2), rng.normal(size=(3, 2))),
    ]
    tables[2][1][0, 0] = -np.inf
    graph = bl.FactorGraph.from_tables([2, 3, 2], tables, log=True)
    lay, rho = graph.layout, np.array([1.0, 0.5, 0.5])
    spec = SweepSpec(lay, graph.theta, np.full(3, summed), rho, make_schedule(lay, "sequential", None), 0.0, True)
    messages = 1e5 * rng.normal(size=int(lay.message_ptr[-1]))
    messages[lay.message_ptr[1]] = -np.inf
    expected, edge = messages.copy(), 0
    for f in range(2):
        span = np.ptp(tables[f][1]) / rho[f]
        for _ in tables[f][0]:
            run = expected[lay.message_ptr[edge] : lay.message_ptr[edge + 1]]
            run[:] = np.maximum(run, run.max() - span)
            run -= np.logaddexp.reduce(run) if summed else run.max()
            edge += 1
    keep_within_reach(lay.scopes, spec.model, spec.summed, messages)
    np.testing.assert_allclose(messages, expected, rtol=1e-12, atol=1e-9)  # a hard zero may say anything
    again = messages.copy()
    keep_within_reach(lay.scopes, spec.model, spec.summed, again)
    assert again.tobytes() == messages.tobytes()


@pytest.mark.parametrize("scale", [1.0, 0.9, 100.0])
@pytest.mark.parametrize("aside", [0, 1])
@pytest.mark.parametrize("form", ["machine", "batch"])
def test_messages_have_not_settled_while_saturated_units_are_still_told_otherwise(
    scale: float, aside: int, form: str
) -> None:
    """The hidden unit's bias of 50 leaves the first unit on at 90 - 50, its neighbour's 150 turns it off at 90 - 100.

    Ratios up to weights of 300, logs beyond. All beliefs stand still in the first sweep.
    """
    weights = scale * np.hstack([[[-100.0], [150.0]], np.zeros((2, aside))])
    visible, hidden = scale * np.array([90.0, 30.0]), scale * np.array([50.0, 0.0])[: 1 + aside]
    one = bl.RBM(weights, visible, hidden)
    truth = bl.infer(one, "enumeration")
    if form == "batch":
        crbm = bl.CRBM(weights, np.zeros((2, 1)), np.zeros((1 + aside, 1)), visible, hidden)
        found: Any = bl.infer(crbm.given(np.zeros((1, 1))), "bp")
        assert found.converged.all()
        log_z, mean = found.log_z[0], found.visible[0]
    else:
        found = bl.infer(one, "bp")
        assert found.converged
        log_z, mean = found.log_z, found.visible
    assert log_z == pytest.approx(truth.log_z, rel=1e-12)
    np.testing.assert_allclose(mean, truth.visible, rtol=0, atol=1e-9)
    assert bl.maximize(one, "bp").log_score == pytest.approx(bl.maximize(one, "enumeration").log_score)


@pytest.mark.parametrize("seed", [44, 132, 148, 243, 333, 366])
@pytest.mark.parametrize("method", ["bp", "bp(schedule=flooding)", "bp(schedule=residual)"])
def test_messages_that_drift_behind_saturated_beliefs_have_not_settled(seed: int, method: str) -> None:
    """A state of probability exp(-750) gains a nat or two in every step, until it turns over."""
    rng = np.random.default_rng(seed)
    scopes: list[tuple[int, ...]] = [(0, 1, 2), (1, 2, 3), (2, 3, 0), (0, 1, 3), (0, 2), (1, 3)]
    tables: Any = [(scope, 1000.0 * rng.integers(-1, 2, [2] * len(scope))) for scope in scopes]
    graph = bl.FactorGraph.from_tables([2] * 4, tables, log=True)
    result = ask(bl.infer, graph, method)
    if result.converged:
        again = ask(bl.infer, graph, method, init=result, tol=0.0, max_iters=1000)
        np.testing.assert_allclose(again.mu_var, result.mu_var, rtol=0, atol=1e-3)
