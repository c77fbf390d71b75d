"""Losses of machines on rows: against differences, enumeration and long chains."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.learning import fit
from beliefs.learning.boltzmann.loss import RowLoss
from beliefs.learning.boltzmann.parameters import MachineShape
from beliefs.learning.boltzmann.registry import ROW_LOSSES, make_row_loss
from beliefs.learning.boltzmann.rows import bit_rows
from beliefs.learning.boltzmann.scores import pseudo_log_likelihoods
from beliefs.learning.optimizers.descent import Descent

SHAPE = MachineShape(4, 3)
STATES = np.array(list(product([0, 1], repeat=4)))
EXACT = ("pseudo_likelihood", "ratio_matching", "minimum_probability_flow", "likelihood", "surrogate_likelihood")


def vector(scale: float = 0.8, seed: int = 1) -> np.ndarray:
    return scale * np.random.default_rng(seed).normal(size=SHAPE.n_weights)


def some_rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, 4)) < np.array([0.2, 0.5, 0.7, 0.4])


def loss_of(text: str, **options: Any) -> Any:
    return make_row_loss(text, **{"shape": SHAPE, "dtype": "float64"} | options)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("binarize", [None, "mean"])
def test_gradients_are_differences(name: str, binarize: str | None) -> None:
    rng = np.random.default_rng(3)
    rows = bit_rows(some_rows(9) if binarize is None else rng.random((9, 4)), binarize)
    loss, w = loss_of(name, l2=0.1), vector()
    value, grad = loss.value_and_grad(w, rows)
    grad = grad.copy()
    for _ in range(4):
        d = rng.normal(size=w.size)
        up, down = (loss.value_and_grad(w + s * 1e-5 * d, rows)[0] for s in (1.0, -1.0))
        tol = 2e-4 if name == "surrogate_likelihood" else 1e-7  # mean field stops at its own tolerance
        assert (up - down) / 2e-5 == pytest.approx(grad @ d, rel=tol, abs=tol)
    assert loss.ridge(w) == pytest.approx(0.1 * (w[:12] ** 2).sum())


def test_values_are_their_definitions() -> None:
    table, w = some_rows(9), vector()
    rows, machine = bit_rows(table), SHAPE.machine(w)
    log_p = -machine.free_energy(STATES)
    log_p -= np.logaddexp.reduce(log_p)
    code = table @ np.array([8, 4, 2, 1])
    ratios, flow, pseudo = np.zeros(9), np.zeros(9), np.zeros(9)
    for i in range(4):
        here, there = log_p[code], log_p[code ^ (8 >> i)]
        ratios += (1.0 / (1.0 + np.exp(here - there))) ** 2
        flow += np.exp(0.5 * (there - here))
        pseudo += np.logaddexp(0.0, there - here)
    expected = {
        "ratio_matching": ratios, "minimum_probability_flow": flow, "pseudo_likelihood": pseudo,
        "likelihood": -log_p[code],
    }  # fmt: skip
    for name, per_row in expected.items():
        assert loss_of(name).value_and_grad(w, rows)[0] == pytest.approx(per_row.mean(), rel=1e-9)
    found = loss_of("surrogate_likelihood").evaluate(w, rows)
    assert found.bound is bl.Bound.LOWER and found.value <= -log_p[code].mean()  # mean field: log Z from below
    assert loss_of("likelihood").evaluate(w, rows).bound is bl.Bound.EXACT


def transition(machine: bl.RBM) -> np.ndarray:
    """The law of the visible layer after a sweep, from every state of it."""
    H = np.array(list(product([0, 1], repeat=machine.n_hidden)))
    p_h, p_v = machine.hidden_probability(STATES), machine.visible_probability(H)
    to_h = np.prod(np.where(H[None], p_h[:, None], 1 - p_h[:, None]), axis=2)
    to_v = np.prod(np.where(STATES[None], p_v[:, None], 1 - p_v[:, None]), axis=2)
    return to_h @ to_v


@pytest.mark.parametrize("sweeps", [1, 3])
def test_contrastive_divergence_has_the_law_of_its_chains(sweeps: int) -> None:
    w, n = vector(), 40_000
    machine = SHAPE.machine(w)
    table = np.repeat(some_rows(4), n // 4, axis=0)
    grad = loss_of(f"contrastive_divergence(sweeps={sweeps})").value_and_grad(w, bit_rows(table))[1]
    start = np.bincount(table @ np.array([8, 4, 2, 1]), minlength=16) / n
    end = start @ np.linalg.matrix_power(transition(machine), sweeps)
    p = machine.hidden_probability(STATES)
    change = end - start
    parts = SHAPE.parts(grad)
    assert np.abs(parts.weights - (STATES * change[:, None]).T @ p).max() < 5 / np.sqrt(n)
    assert np.abs(parts.visible_bias - change @ STATES).max() < 5 / np.sqrt(n)
    assert np.abs(parts.hidden_bias - change @ p).max() < 5 / np.sqrt(n)


@pytest.mark.parametrize("options", ["", "temperatures=4", "sweeps=3"])
def test_persistent_chains_reach_the_gradient_of_the_likelihood(options: str) -> None:
    w, rows = vector(), bit_rows(some_rows(20))
    loss = loss_of(f"stochastic_likelihood(chains=2000, {options})")
    exact = loss_of("likelihood").value_and_grad(w, rows)[1]
    grads = [loss.value_and_grad(w, rows)[1].copy() for _ in range(60)]
    assert np.abs(np.mean(grads[20:], axis=0) - exact).max() < 5 / np.sqrt(2000 * 40 / 4)


def test_the_monitor_estimates_the_pseudo_likelihood_without_bias() -> None:
    w, rows = vector(), bit_rows(some_rows(64))
    exact = -pseudo_log_likelihoods(SHAPE.machine(w), rows).mean()
    sixteenth = -pseudo_log_likelihoods(SHAPE.machine(w), bit_rows(some_rows(64)[::16])).mean()
    for name in ("contrastive_divergence", "stochastic_likelihood"):
        loss = loss_of(name)
        values = [loss.value_and_grad(w, rows)[0] for _ in range(400)]
        assert np.mean(values) == pytest.approx(sixteenth, abs=5 * np.std(values) / 20)
        shuffled = [loss.value_and_grad(w, rows.take(np.random.default_rng(k).permutation(64)))[0] for k in range(400)]
        assert np.mean(shuffled) == pytest.approx(exact, abs=5 * np.std(shuffled) / 20)


@pytest.mark.parametrize(
    "text",
    [
        "stochastic_likelihood(chains=100)",
        "stochastic_likelihood(chains=50, temperatures=3)",
        "stochastic_likelihood(chains=100, fast=True, fast_rate=0.01)",
    ],
)
def test_chains_reach_the_optimum_of_the_likelihood(text: str) -> None:
    truth = SHAPE.machine(vector(1.5))
    rows = bit_rows(bl.sample(truth, 400, seed=0).samples[:, :4])
    start = vector(0.1, seed=2)
    exact = loss_of("likelihood", l2=0.01)
    best = fit(exact, rows, start, tol=1e-6)
    assert best.converged and best.bound is bl.Bound.EXACT
    assert exact.value_and_grad(start, rows)[0] - best.loss > 0.1
    optimizer = "sgd(step=0.5, batch_size=400, t0=200, momentum=0.8, average=True)"
    found = fit(loss_of(text, l2=0.01), rows, start, optimizer=optimizer, max_iters=400)
    assert 0.0 <= exact.value_and_grad(found.weights, rows)[0] - best.loss < 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "text", ["contrastive_divergence", "stochastic_likelihood", "stochastic_likelihood(fast=True)"]
)
def test_gradients_in_blocks_are_the_whole_ones(text: str, dtype: str) -> None:
    shape, rng = MachineShape(400, 90), np.random.default_rng(0)
    w = (0.05 * rng.normal(size=shape.n_weights)).astype(dtype)
    rows = bit_rows(rng.random((30, shape.n_visible)) < 0.3)
    whole, blocked = (make_row_loss(text, shape=shape, dtype=dtype, l2=0.3) for _ in range(2))
    for _ in range(2):  # chains go on
        expected, found = whole.evaluate(w, rows), blocked.evaluate_in_blocks(w, rows)
        assert found.value == expected.value
        if "fast" in text:  # fast weights need the gradient, too
            assert found.blocks is None and found.grad.tobytes() == expected.grad.tobytes()
            continue
        assert found.blocks is not None and found.grad.size == 0
        ends = (0, *found.blocks.ends)
        parts = [np.empty(end - begin, dtype) for begin, end in pairwise(ends)]
        for k in reversed(range(len(parts))):
            found.blocks.write(k, parts[k])
        np.testing.assert_allclose(np.concatenate(parts), expected.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "optimizer", ["sgd(step=0.1, batch_size=10)", "sgd(step=0.1, batch_size=10, momentum=0.5)", "adam"]
)
def test_steps_by_blocks_are_those_with_the_whole_gradient(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, rng = MachineShape(400, 30), np.random.default_rng(0)
    w = (0.05 * rng.normal(size=shape.n_weights)).astype(np.float32)
    rows = bit_rows(rng.random((40, shape.n_visible)) < 0.3)
    options: dict[str, Any] = {"optimizer": optimizer, "max_iters": 3, "l1": 1e-3, "bounds": (-0.1, 0.1)}

    def fitted() -> np.ndarray:
        return fit(make_row_loss("contrastive_divergence", shape=shape, l2=0.01), rows, w, **options).weights

    found = fitted()
    monkeypatch.setattr(RowLoss, "evaluate_in_blocks", RowLoss.evaluate)
    np.testing.assert_allclose(found, fitted(), rtol=1e-4, atol=1e-6)


def test_points_within_a_pass_are_made_where_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    made, packed = [0], Descent._packed

    def counted(self: Descent, *arguments: Any) -> Any:
        made[0] += 1
        return packed(self, *arguments)

    monkeypatch.setattr(Descent, "_packed", counted)
    rows, found = bit_rows(some_rows(40)), {}
    for looking in (False, True):
        made[0], callback = 0, (lambda progress: None) if looking else None
        fit(loss_of("pseudo_likelihood"), rows, vector(), optimizer="sgd(batch_size=2)", max_iters=2, callback=callback)
        found[looking] = made[0]
    assert found[False] < 20 <= found[True]


@pytest.mark.parametrize("cls", ROW_LOSSES, ids=lambda cls: cls.name)
def test_threads_change_no_byte_and_types_are_kept(cls: Any) -> None:
    large = cls.name in ("stochastic_likelihood", "contrastive_divergence")
    shape = MachineShape(300, 280) if large else MachineShape(10, 6)
    rng = np.random.default_rng(0)
    w = (0.05 * rng.normal(size=shape.n_weights)).astype(np.float32)
    rows = bit_rows(rng.random((120, shape.n_visible)) < 0.3)
    found = []
    for threads in (1, 3):
        loss = make_row_loss(cls.name, shape=shape, threads=threads)
        value, grad = loss.value_and_grad(w, rows)  # type: ignore[arg-type]
        assert grad.dtype == np.float32 and np.isfinite(value)
        again = loss.value_and_grad(w, rows)  # type: ignore[arg-type]
        found.append((value, again[0], again[1].tobytes()))
    assert found[0] == found[1]


def test_extreme_weights_give_numbers() -> None:
    rows = bit_rows(some_rows(9))
    for cls in ROW_LOSSES:
        for dtype in ("float32", "float64"):
            loss = loss_of(cls.name, dtype=dtype)
            value, grad = loss.value_and_grad(300.0 * vector(), rows)
            assert not np.isnan(value) and np.isfinite(grad).all() or cls.name == "minimum_probability_flow"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("contrastive_divergence(sweeps=0)", "sweeps must be an integer of at least 1"),
        ("stochastic_likelihood(chains=0)", "chains must be"),
        ("stochastic_likelihood(temperatures=0)", "temperatures must be"),
        ("stochastic_likelihood(fast=3)", "fast must be True or False"),
        ("stochastic_likelihod", "did you mean 'stochastic_likelihood'"),
        ("ratio_matching(sweeps=1)", "ratio_matching has no option 'sweeps'"),
    ],
)
def test_bad_options_are_one_line(text: str, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        loss_of(text)


def test_methods_that_do_not_serve_and_machines_too_large_are_refused() -> None:
    rows = bit_rows(some_rows(5))
    with pytest.raises(bl.UnsupportedError, match="local_search has no marginals"):
        loss_of("surrogate_likelihood", method=bl.LocalSearch())
    with pytest.raises(bl.ModelError, match="line search of lbfgs fails"):
        fit(loss_of("surrogate_likelihood", method=bl.Gibbs()), rows)
    with pytest.raises(bl.BeliefsError, match="enumeration"):
        make_row_loss("likelihood", shape=MachineShape(60, 60)).value_and_grad(
            np.zeros(3720), bit_rows(np.zeros((2, 60)))
        )
