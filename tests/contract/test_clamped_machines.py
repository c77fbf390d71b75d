"""Machines with observed units: every method that has a form answers for the units that are left, and for all of them.

The oracle writes out all joint states that agree with the evidence.
"""

from __future__ import annotations

import pickle
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference import Bound, Task
from beliefs.inference.base import Problem
from beliefs.inference.boltzmann.free_units import FreeUnits
from beliefs.inference.boltzmann.native import FORMS, native
from beliefs.inference.text import parse_method
from families import MACHINE_METHODS, MACHINES

NAMES = [name for name in MACHINES if name != "fractional"]
GENERAL = ("junction_tree", "trw", "wmb", "gdd", "bp(stop=messages)")
SLACK = 1e-9


def observed(machine: Any, kind: str) -> dict[str, int]:
    """Evidence that leaves something of both layers, of one, or nothing."""
    n, m = machine.weights.shape
    visible, hidden = {f"v{i}": i % 2 for i in range(n)}, {f"h{j}": (j + 1) % 2 for j in range(m)}
    return {
        "some": {"v1": 1} | ({"h0": 1} if m else {}), "visible": visible, "hidden": hidden, "all": visible | hidden,
        "none": {}, "a layer and a unit": visible | dict(list(hidden.items())[:1]),
    }[kind]  # fmt: skip


@cache
def states_and_scores(name: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """The joint states that agree with the evidence, and their scores, from the definition."""
    machine = MACHINES[name]()
    n, m = machine.weights.shape
    states = np.indices((2,) * (n + m)).reshape(n + m, -1).T
    for unit, x in observed(machine, kind).items():
        states = states[states[:, int(unit[1:]) + (n if unit[0] == "h" else 0)] == x]
    v, h = states[:, :n], states[:, n:]
    weights, b, a = (np.asarray(p, float) for p in (machine.weights, machine.visible_bias, machine.hidden_bias))
    return states, v @ b + h @ a + ((v @ weights) * h).sum(axis=1)


def truth(name: str, kind: str) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    states, scores = states_and_scores(name, kind)
    n = MACHINES[name]().n_visible
    log_z = float(np.logaddexp.reduce(scores))
    p, v, h = np.exp(scores - log_z), states[:, :n], states[:, n:]
    return log_z, p @ v, p @ h, (v * p[:, None]).T @ h


def ask(door: Any, *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        return door(*args, **options)


every_machine = pytest.mark.parametrize("name", NAMES)
every_kind = pytest.mark.parametrize("kind", ["some", "visible", "hidden", "all", "none", "a layer and a unit"])


@every_machine
@every_kind
@pytest.mark.parametrize("method", [*MACHINE_METHODS, *GENERAL])
def test_units_of_every_method_and_its_claims(name: str, kind: str, method: str) -> None:
    machine = MACHINES[name]()
    evidence = observed(machine, kind)
    if len(evidence) == machine.n_vars and parse_method(method).needs_machine:
        with pytest.raises(bl.UnsupportedError, match=r"every unit is observed, which leaves .* nothing to do"):
            bl.infer(machine, method, evidence=evidence)
        return
    log_z, *expected = truth(name, kind)
    result = ask(bl.infer, machine, method, evidence=evidence, max_iters=30)
    room = SLACK * max(1.0, abs(log_z))
    assert result.log_lower - room <= log_z <= result.log_upper + room
    assert not (result.bound is Bound.LOWER and result.log_z > log_z + room)
    found = (result.visible, result.hidden, result.pairs)
    n = machine.n_visible
    for unit, x in evidence.items():
        assert found[unit[0] == "h"][int(unit[1:])] == x
    for values, true in zip(found, expected, strict=True):
        assert values.shape == true.shape and ((values >= 0) & (values <= 1)).all()
        if result.bound is Bound.EXACT:
            assert result.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-12)
            np.testing.assert_allclose(values, true, rtol=0, atol=SLACK)
    graph = result.graph
    assert graph.evidence == {int(k[1:]) + n * (k[0] == "h"): x for k, x in evidence.items()}
    assert result.mu.shape == graph.theta.shape and result.mu_var[::2] + result.mu_var[1::2] == pytest.approx(1.0)
    for f in range(graph.n_factors):
        assert result.factor_marginal(f).sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(result.marginal("v0")[1], result.visible[0], rtol=0, atol=1e-15)
    again = ask(bl.infer, machine.condition(evidence), method, max_iters=30, threads=2)
    assert again.mu_var.tobytes() == result.mu_var.tobytes() and again.log_z == result.log_z
    assert pickle.loads(pickle.dumps(result)).pairs.tobytes() == result.pairs.tobytes()
    assert not any(f"\n    {unit}  " in str(result) for unit in evidence)


@every_machine
@every_kind
@pytest.mark.parametrize("method", ["enumeration", "mean_field", "mean_field(restarts=2)", "bp", "bp(damping=0.3)"])
def test_a_form_gives_what_the_method_gives_on_the_factor_graph_with_that_evidence(
    name: str, kind: str, method: str
) -> None:
    clamped = MACHINES[name]().condition(observed(MACHINES[name](), kind))
    options = {"tol": 1e-12, "max_iters": 2000} if method.startswith("bp") else {}
    here = ask(bl.infer, clamped, method, **options)
    there = ask(bl.infer, clamped.to_factor_graph(), method, **options)
    if name == "strong_rbm" and method.startswith("bp") or method == "mean_field(restarts=2)":
        return  # several fixed points; other random starts, for other numbers of units
    assert here.log_z == pytest.approx(there.log_z, rel=1e-9, abs=1e-8)
    np.testing.assert_allclose(here.mu_var, there.mu_var, rtol=0, atol=1e-6)
    np.testing.assert_allclose(here.mu, there.mu, rtol=0, atol=1e-6)


@every_machine
@every_kind
@pytest.mark.parametrize("method", ["auto", "enumeration", "bp", "junction_tree", "trw"])
def test_best_states_keep_what_was_observed(name: str, kind: str, method: str) -> None:
    clamped = MACHINES[name]().condition(observed(MACHINES[name](), kind))
    states, scores = states_and_scores(name, kind)
    best = ask(bl.maximize, clamped, method, max_iters=30) if method != "auto" else bl.maximize(clamped)
    row = np.flatnonzero((states == best.assignment).all(axis=1))
    assert row.size == 1 and best.log_score == pytest.approx(scores[row[0]], rel=1e-12, abs=1e-12)
    assert best.log_upper >= scores.max() - SLACK * max(1.0, abs(scores.max()))
    if best.gap == 0.0:
        assert best.log_score == pytest.approx(scores.max(), rel=1e-12)
    n = clamped.machine.n_visible
    query = [v for v in clamped.free_units.tolist() if v < n]
    if not query:
        return
    found = ask(bl.marginal_map, clamped, query, method, max_iters=30)
    values: dict[tuple[int, ...], float] = {}
    for state, score in zip(map(tuple, states[:, query].tolist()), scores, strict=True):
        values[state] = np.logaddexp(values.get(state, -np.inf), score)
    value, most = values[tuple(found.assignment.tolist())], max(values.values())
    room = SLACK * max(1.0, abs(most))
    assert found.log_lower - room <= value and most <= found.log_upper + room
    if found.value_bound is Bound.EXACT:
        assert found.log_value == pytest.approx(value, rel=1e-10, abs=1e-10)


@every_machine
@every_kind
@pytest.mark.parametrize("method", ["auto", "enumeration", "gibbs(chains=3, burn_in=5)", "junction_tree"])
def test_samples_keep_what_was_observed(name: str, kind: str, method: str) -> None:
    machine = MACHINES[name]()
    evidence = observed(machine, kind)
    drawn = bl.sample(machine, 40, method, evidence=evidence, seed=3)
    assert drawn.samples.shape == (40, machine.n_vars) and set(np.unique(drawn.samples)) <= {0, 1}
    for unit, x in evidence.items():
        assert (drawn.samples[:, int(unit[1:]) + machine.n_visible * (unit[0] == "h")] == x).all()
    assert (
        drawn.samples.tobytes()
        == bl.sample(machine, 40, method, evidence=evidence, seed=3, threads=2).samples.tobytes()
    )


def test_independent_samples_have_the_law_given_the_evidence() -> None:
    _, visible, hidden, _ = truth("rbm", "some")
    drawn = bl.sample(MACHINES["rbm"](), 20_000, evidence=observed(MACHINES["rbm"](), "some"), seed=1)
    assert drawn.bound is Bound.EXACT
    np.testing.assert_allclose(drawn.samples.mean(axis=0), np.concatenate([visible, hidden]), atol=0.015)


def test_an_observed_machine_is_asked_by_the_forms() -> None:
    machine = MACHINES["rbm"]()
    clamped: Any = machine.condition({"v0": 1}).condition({"h1": 0})
    assert clamped == machine.condition({"h1": 0, "v0": 1}) == pickle.loads(pickle.dumps(clamped))
    assert hash(clamped) == hash(machine.condition({"h1": 0, "v0": 1})) and clamped != machine.condition({"v0": 1})
    assert (clamped.n_vars, clamped.free.weights.shape) == (
        machine.n_vars,
        (machine.n_visible - 1, machine.n_hidden - 1),
    )
    for text in ("enumeration", "mean_field", "mean_field(order=2)", "bp", "gibbs(chains=4)", "ais"):
        form, problem = native(parse_method(text), Problem(clamped))
        assert isinstance(form, FreeUnits) and isinstance(form.form, FORMS) and problem.model is clamped.free
        assert repr(form) == repr(parse_method(text))
    assert native(bl.TRW(), Problem(clamped))[0] == bl.TRW()
    chosen, problem = native(bl.BP(), Problem(clamped, Task.MARGINAL_MAP, np.arange(1, machine.n_visible)))
    assert isinstance(chosen, FreeUnits) and problem.query.tolist() == list(range(machine.n_visible - 1))
    with pytest.raises(bl.ModelError, match="variable 'v0' is already observed as '1', and cannot become '0'"):
        clamped.condition({"v0": 0})
    with pytest.raises(bl.ModelError, match="no variable 'v99'"):
        machine.condition({"v99": 0})
    assert "2 of 9 units observed" in repr(clamped)


def test_what_an_annealed_answer_says_contains_the_constant() -> None:
    machine = MACHINES["rbm"]()
    evidence = observed(machine, "some")
    result: Any = bl.infer(
        machine, bl.AIS(base=np.full(machine.n_visible, 0.5), reverse=True), evidence=evidence, seed=2
    )
    low, high = result.interval(0.999)
    log_z = truth("rbm", "some")[0]
    assert low <= log_z <= high and abs(result.log_z_reverse - log_z) < 0.5
    with pytest.raises(bl.ModelError, match=rf"a rate for each visible unit, {machine.n_visible}, found \(2,\)"):
        bl.infer(machine, bl.AIS(base=[0.5, 0.5]), evidence=evidence)


def test_a_warm_start_needs_the_same_units_observed() -> None:
    machine = MACHINES["rbm"]()
    first = ask(bl.infer, machine, "mean_field", evidence={"v0": 1}, max_iters=3)
    more = ask(bl.infer, machine, "mean_field", evidence={"v0": 0}, init=first)
    assert more.n_iters > 0
    for other in ({"v1": 1}, None):
        with pytest.raises(bl.ModelError, match="another layout"):
            bl.infer(machine, "mean_field", evidence=other, init=first)


def test_narrow_weights_are_summed_in_double_precision() -> None:
    machine = bl.RBM(np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32))
    evidence = {f"v{i}": 1 for i in range(1, 40)}
    assert bl.infer(machine, evidence=evidence).log_z == pytest.approx(
        bl.infer(machine.to_factor_graph(), "junction_tree", evidence=evidence).log_z, rel=1e-13
    )
