"""Every method meets Boltzmann machines: natively where it has a form for them, and as on their factor graph.

The oracle writes out all visible states. A machine in ``families.MACHINES`` and a form in ``FORMS`` are tested here
without a further line.
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
from beliefs.inference.boltzmann.native import FORMS, native
from beliefs.inference.portfolio.auto import choose, instead_of_exact
from beliefs.inference.text import parse_method
from families import MACHINE_METHODS, MACHINES

GENERAL = [cls.name for cls in bl.methods(task="infer") if cls.general]
SLACK = 1e-9


@cache
def model(name: str) -> Any:
    return MACHINES[name]()


def states(n: int) -> np.ndarray:
    return np.indices((2,) * n).reshape(n, -1).T


@cache
def truth(name: str) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Log Z, P(v = 1), P(h = 1) and P(v = 1, h = 1), from the definition."""
    machine = model(name)
    v = states(machine.n_visible)
    x = v @ machine.weights.astype(float) + machine.hidden_bias
    scores = v @ machine.visible_bias.astype(float) + np.logaddexp(0, x) @ machine.counts
    log_z = float(np.logaddexp.reduce(scores))
    p, on = np.exp(scores - log_z), np.exp(-np.logaddexp(0, -x))
    return log_z, p @ v, p @ on, (v * p[:, None]).T @ on


def takes(name: str, method: str) -> bool:
    return name != "fractional" or not method.startswith(("mean_field", "bp"))


def ask(name: str, method: str | bl.Method, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        return bl.infer(model(name), method, **options)


every_machine = pytest.mark.parametrize("name", MACHINES)
every_method = pytest.mark.parametrize("method", MACHINE_METHODS)


@every_machine
@every_method
def test_bounds_hold_and_marginals_are_distributions(name: str, method: str) -> None:
    if not takes(name, method):
        pytest.skip("no form for fractional machines")
    log_z, visible, hidden, pairs = truth(name)
    result = ask(name, method, max_iters=30)
    again = ask(name, method, max_iters=30, threads=2)
    room = SLACK * max(1.0, abs(log_z))
    assert result.log_lower - room <= log_z <= result.log_upper + room
    assert not (result.bound is Bound.LOWER and result.log_z > log_z + room)
    assert result.mu_var.tobytes() == again.mu_var.tobytes() and result.log_z == again.log_z
    assert result.visible.shape == visible.shape and result.hidden.shape == hidden.shape
    assert result.pairs.shape == pairs.shape
    for found in (result.visible, result.hidden, result.pairs):
        assert ((found >= 0) & (found <= 1)).all()
    if result.bound is Bound.EXACT:
        assert result.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-12)
        for found, true in zip((result.visible, result.hidden, result.pairs), (visible, hidden, pairs), strict=True):
            np.testing.assert_allclose(found, true, rtol=0, atol=SLACK)
    if method == "enumeration":
        assert result.bound is Bound.EXACT
    if name != "fractional":
        graph = result.graph
        assert result.mu.shape == graph.theta.shape and result.marginal("v0").sum() == pytest.approx(1.0)
        for f in range(graph.n_factors):
            assert result.factor_marginal(f).sum() == pytest.approx(1.0, abs=1e-12)
    assert pickle.loads(pickle.dumps(result)).pairs.tobytes() == result.pairs.tobytes()


@every_machine
@pytest.mark.parametrize("method", ["enumeration", "mean_field", "mean_field(restarts=2)", "mean_field(order=2)"])
def test_a_form_gives_what_the_method_gives_on_the_factor_graph(name: str, method: str) -> None:
    if name == "fractional":
        pytest.skip("no factor graph")
    machine = model(name)
    here, there = ask(name, method), None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        there = bl.infer(machine.to_factor_graph(), method)
    assert here.method == there.method and here.bound is there.bound
    assert here.log_z == pytest.approx(there.log_z, rel=1e-10, abs=1e-9)
    np.testing.assert_allclose(here.mu_var, there.mu_var, rtol=0, atol=1e-9)
    np.testing.assert_allclose(here.mu, there.mu, rtol=0, atol=1e-9)
    assert here.status is there.status


@pytest.mark.parametrize("method", GENERAL)
def test_every_method_takes_a_machine(method: str) -> None:
    """Those without a form are asked about the factor graph, and their answers have units all the same."""
    log_z, visible, hidden, pairs = truth("rbm")
    result = ask("rbm", method, max_iters=20)
    assert result.log_lower - SLACK <= log_z <= result.log_upper + SLACK
    if result.bound is Bound.EXACT:
        for found, true in zip((result.visible, result.hidden, result.pairs), (visible, hidden, pairs), strict=True):
            np.testing.assert_allclose(found, true, rtol=0, atol=SLACK)
    assert bl.maximize(model("rbm")).gap == 0.0 and result.model is model("rbm")


@every_machine
def test_auto_is_exact_and_so_are_its_samples(name: str) -> None:
    result = ask(name, "auto")
    assert result.bound is Bound.EXACT and result.method == bl.Enumeration() and "units" in result.reason
    drawn = bl.sample(model(name), 50, seed=1)
    assert drawn.bound is Bound.EXACT and drawn.samples.shape == (50, model(name).n_vars)
    assert drawn.samples.tobytes() == bl.sample(model(name), 50, seed=1).samples.tobytes()
    assert set(np.unique(drawn.samples)) <= {0, 1}


@every_machine
def test_chains_go_on_where_they_stopped(name: str) -> None:
    method = bl.Gibbs(chains=3, burn_in=5)
    whole = ask(name, method, max_iters=4, seed=2)
    half = ask(name, method, max_iters=2, seed=2)
    rest = ask(name, method, max_iters=2, seed=2, init=half)
    np.testing.assert_allclose(rest.mu_var, whole.mu_var, rtol=0, atol=1e-12)
    with pytest.raises(bl.ModelError, match="another layout"):
        bl.infer(bl.RBM(np.zeros((2, 2))), method, init=half)


def test_chains_that_stopped_while_burning_in_burn_on() -> None:
    method = bl.Gibbs(chains=3, burn_in=15)
    whole, half = ask("fractional", method, max_iters=3, seed=2), ask("fractional", method, max_iters=1, seed=2)
    rest = ask("fractional", method, max_iters=2, seed=2, init=half)
    np.testing.assert_allclose(rest.mu_var, whole.mu_var, rtol=0, atol=1e-12)
    drawn = bl.sample(model("rbm"), 4, bl.Gibbs(chains=2, burn_in=2), init=ask("rbm", bl.Gibbs(chains=2), max_iters=2))
    assert len(drawn) == 4


def test_joint_marginals_of_a_wide_machine() -> None:
    rbm = bl.RBM(np.random.default_rng(0).normal(size=(30, 3)))
    found = bl.infer(rbm).marginal(["v0", "v1"])
    expected = bl.infer(rbm.to_factor_graph(), "junction_tree").marginal(["v0", "v1"])
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_forms_stand_for_registered_methods_and_keep_their_words() -> None:
    for form in FORMS:
        assert form.stands_for in bl.METHODS and form.name == form.stands_for.name
        assert set(form.answers) <= set(form.stands_for.tasks)
    chosen, problem = native(parse_method("gibbs(chains=5)"), Problem(model("rbm")))
    assert repr(chosen) == "gibbs(chains=5)" and type(chosen) is not bl.Gibbs and problem.model is model("rbm")
    assert native(bl.TRW(), Problem(model("rbm")))[0] == bl.TRW()
    assert isinstance(native(bl.AIS(), Problem(model("rbm").to_factor_graph()))[1].model, bl.RBM)


@pytest.mark.parametrize("text", ["ais", "mean_field(order=2)", "gibbs(temperatures=3)"])
def test_options_for_machines_name_what_is_none(text: str) -> None:
    grid = bl.datasets.make_ising_grid(3)
    with pytest.raises(bl.UnsupportedError, match=r"is for restricted Boltzmann machines; the graph is no RBM: factor"):
        bl.infer(grid, text)
    with pytest.raises(bl.UnsupportedError, match="visible, hidden and pairs are those of an RBM"):
        _ = bl.infer(grid, "bp(damping=0.1)").visible


def test_questions_that_fractions_cannot_answer() -> None:
    with pytest.raises(bl.UnsupportedError, match="bp does not answer infer about a fractional machine; use ais or"):
        bl.infer(model("fractional"), "bp")
    with pytest.raises(bl.ModelError, match="only whole counts make an RBM"):
        bl.maximize(model("fractional"))
    result = bl.infer(model("fractional"))
    for ask_for in (lambda: result.graph, lambda: result.mu_factor):
        with pytest.raises(bl.UnsupportedError, match="read visible, hidden and pairs"):
            ask_for()
    whole = bl.FractionalRBM(model("rbm").weights, counts=[1, 2, 0, 1])
    with pytest.raises(bl.UnsupportedError, match=r"about a fractional machine; ask to_rbm\(\) instead"):
        bl.infer(whole, "junction_tree")
    assert bl.infer(whole.to_rbm(), "junction_tree").log_z == pytest.approx(bl.infer(whole).log_z)


def test_too_many_units_and_too_little_memory_are_known_before_work() -> None:
    large = bl.RBM(np.zeros((40, 35), np.float32))
    with pytest.raises(bl.BudgetError, match=r"2\^35 states of a layer, and 2\^30 is the limit; try ais"):
        bl.infer(large, "enumeration")
    for method in ("ais(chains=1000)", "gibbs(chains=1000)", "mean_field"):
        with pytest.raises(bl.BudgetError, match="needs .* the limit is 10 kB"):
            bl.infer(large, method, max_bytes=10_000)
    with pytest.raises(bl.BudgetError, match="time limit"):
        bl.infer(large, "ais(temperatures=1000000)", time_limit=0.0)
    assert bl.infer(large, "ais(chains=2, temperatures=3)").log_z == pytest.approx(75 * np.log(2))
    assert choose(Problem(large))[0] == bl.AIS() and instead_of_exact(Problem(large)) == bl.MeanField()
    assert bl.sample(large, 2, "auto", max_iters=1).method == bl.Gibbs()


def test_targets_are_names_of_units() -> None:
    assert ask("rbm", "auto", targets=["v1"]).visible.shape == (5,)
    with pytest.raises(bl.ModelError, match="v9"):
        ask("rbm", "auto", targets=["v9"])
    assert Task.SAMPLE in bl.Gibbs.tasks


@pytest.mark.parametrize("method", ["bp", "mean_field", "gibbs(chains=2)", "auto"])
@pytest.mark.parametrize("shape", [(1, 3), (3, 2)])
def test_an_earlier_answer_is_gone_on_from_or_left_out_whatever_its_form(shape: tuple[int, int], method: str) -> None:
    """Some questions are answered by layers and some on the factor graph, whose warm starts differ."""
    machine = bl.RBM(np.random.default_rng(0).normal(size=shape))
    variants = [method] if method == "auto" else [method, method.rstrip(")") + _OTHER_FORM[method]]
    asked: list[tuple[str, Any, str]] = [("infer", (), m) for m in variants]
    if method in ("bp", "auto"):
        queries = [list(range(shape[0])), [machine.n_vars - 1]]
        asked += [("maximize", (), m) for m in variants] + [
            ("marginal_map", (q,), m) for q in queries for m in variants
        ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        for evidence in ({}, {"v0": 1} if shape[0] > 1 else {"h0": 1}):
            given = machine.condition(evidence)
            questions = [q for q in asked if not (evidence and q[1] and 0 in q[1][0])]
            earlier = [getattr(bl, door)(given, *rest, method=m, max_iters=2) for door, rest, m in questions]
            for start in earlier:
                for door, rest, m in questions:
                    getattr(bl, door)(given, *rest, method=m, max_iters=2, init=start)


_OTHER_FORM = {
    "bp": "(schedule=flooding)", "mean_field": "(structure=tree)", "gibbs(chains=2)": ", schedule=sequential)",
}  # fmt: skip


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_beliefs_of_pairs_are_distributions_wherever_messages_are(damping: float) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        machine = bl.RBM(5 * rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.ConvergenceWarning)
            answer = bl.infer(machine, bl.BP(damping=damping), max_iters=2)
        for f in range(machine.to_factor_graph().n_factors):
            assert (
                answer.factor_marginal(f).sum() == pytest.approx(1.0, abs=1e-12)
                and answer.factor_marginal(f).min() >= 0
            )
