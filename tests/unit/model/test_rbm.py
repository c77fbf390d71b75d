"""Boltzmann machines: free energies and conditionals by the definition, the factor graph there and back, bad input."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from families import MACHINES, family

RNG = np.random.default_rng(0)


def states(n: int) -> np.ndarray:
    return np.indices((2,) * n).reshape(n, -1).T


def machine(n: int = 4, m: int = 3) -> bl.RBM:
    rng = np.random.default_rng(n * m)
    return bl.RBM(rng.normal(size=(n, m)), rng.normal(size=n), rng.normal(size=m))


def log_joint(rbm: bl.RBM) -> np.ndarray:
    """The log weights of all joint states, visible rows and hidden columns, by the definition."""
    v, h = states(rbm.n_visible), states(rbm.n_hidden)
    return v @ rbm.weights @ h.T + (v @ rbm.visible_bias)[:, None] + h @ rbm.hidden_bias


def test_free_energies_and_conditionals_are_sums_over_joint_states() -> None:
    rbm = machine()
    joint = log_joint(rbm)
    np.testing.assert_allclose(-rbm.free_energy(states(4)), np.logaddexp.reduce(joint, axis=1), atol=1e-12)
    p = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None]) @ states(3)
    np.testing.assert_allclose(rbm.hidden_probability(states(4)), p, atol=1e-12)
    q = np.exp(joint - np.logaddexp.reduce(joint, axis=0)).T @ states(4)
    np.testing.assert_allclose(rbm.visible_probability(states(3)), q, atol=1e-12)


def test_the_factor_graph_has_the_same_scores_and_the_order_of_make_rbm() -> None:
    rbm = machine()
    graph = rbm.to_factor_graph()
    rows = np.concatenate([np.repeat(states(4), 8, axis=0), np.tile(states(3), (16, 1))], axis=1)
    np.testing.assert_allclose(graph.log_scores(rows), log_joint(rbm).ravel(), atol=1e-12)
    drawn = bl.datasets.make_rbm(4, 3)
    assert graph.layout.equals(drawn.layout) and [v.name for v in graph.variables] == [v.name for v in drawn.variables]
    assert rbm.to_factor_graph() is graph and rbm.n_vars == graph.n_vars
    assert rbm.condition({"v0": 1, "h2": 0}).evidence == {0: 1, 6: 0}


def test_a_factor_graph_becomes_a_machine_again() -> None:
    for rbm in (machine(), machine(2, 5), bl.RBM(np.zeros((3, 0)), [1.0, 2.0, 3.0])):
        again = bl.RBM.from_factor_graph(rbm.to_factor_graph())
        for name in ("weights", "visible_bias", "hidden_bias"):
            np.testing.assert_array_equal(getattr(again, name), getattr(rbm, name))
    assert bl.RBM.from_factor_graph(rbm) is rbm


def test_tables_that_are_not_in_standard_form_are_read_by_what_they_mean() -> None:
    rng = np.random.default_rng(1)
    pairs = [(2, 0), (0, 2), (1, 3), (3, 0)]
    tables: list[Any] = [(scope, np.append(0.0, rng.normal(size=3)).reshape(2, 2)) for scope in pairs]
    tables += [((v,), [0.0, rng.normal()]) for v in (3, 0, 0)]
    graph = bl.FactorGraph.from_tables([2] * 4, tables, log=True)
    rbm = bl.RBM.from_factor_graph(graph)
    assert rbm.n_visible == 2
    np.testing.assert_allclose(rbm.to_factor_graph().log_scores(states(4)), graph.log_scores(states(4)), atol=1e-12)


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (
            lambda: bl.FactorGraph.from_tables([2], [((0,), [2.0, 1.0])]),
            r"factor 0 over \(x0\) .* zeros is 0\.69\d+, not 0",
        ),
        (lambda: family("chain"), "variable 'x0' has 3 states, not 2"),
        (lambda: family("parity"), "factor 6 over .* hard zero"),
        (lambda: bl.FactorGraph.from_tables([2] * 3, [((0, 1, 2), np.zeros(8))], log=True), "joins 3 variables"),
        (
            lambda: bl.FactorGraph.pairwise(np.zeros((3, 2)), [(0, 1), (1, 2)], np.zeros((2, 2))),
            r"factor 4 over \(x1, x2\) .* two variables of one layer",
        ),
        (lambda: machine().condition({"v0": 1}), "evidence"),
    ],
)
def test_a_graph_that_is_no_machine_names_the_factor(graph: Any, reason: str) -> None:
    with pytest.raises(bl.ModelError, match=reason):
        bl.RBM.from_factor_graph(graph())


def test_types_are_kept_and_nothing_changes() -> None:
    narrow = bl.RBM(np.ones((3, 2), np.float32))
    assert narrow.dtype == np.float32 and narrow.hidden_probability(np.eye(3)).dtype == np.float32
    assert narrow.free_energy(np.eye(3, dtype=bool)).dtype == np.float64
    assert bl.RBM(np.ones((3, 2), np.float32), np.zeros(3)).dtype == bl.RBM([[1, 2]]).dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        narrow.weights[0, 0] = 2.0
    with pytest.raises(AttributeError, match="do not change"):
        narrow.weights = np.zeros((3, 2))
    given = np.ones((3, 2))
    rbm = bl.RBM(given)
    given[:] = 5.0
    assert (rbm.weights == 1.0).all()


@pytest.mark.parametrize("name", MACHINES)
def test_machines_travel(name: str, tmp_path: Path) -> None:
    model = MACHINES[name]()
    bl.write(model, tmp_path / "model.npz")
    for again in (pickle.loads(pickle.dumps(model)), bl.read(tmp_path / "model.npz")):
        assert type(again) is type(model) and again.dtype == model.dtype
        for field in ("weights", "visible_bias", "hidden_bias", "counts"):
            array = getattr(again, field)
            np.testing.assert_array_equal(array, getattr(model, field))
            assert not array.flags.writeable


def test_a_machine_in_another_format_is_its_factor_graph(tmp_path: Path) -> None:
    bl.write(machine(), tmp_path / "model.uai.LG")
    again = bl.read(tmp_path / "model.uai.LG")
    assert isinstance(again, bl.FactorGraph)
    np.testing.assert_array_equal(again.theta, machine().to_factor_graph().theta)


class TestFractions:
    def test_whole_counts_are_copies(self) -> None:
        rbm, counts = machine(), np.array([2.0, 0.0, 3.0])
        fractional = bl.FractionalRBM(rbm.weights, rbm.visible_bias, rbm.hidden_bias, counts)
        copied = fractional.to_rbm()
        assert copied.n_hidden == 5 and fractional.is_whole
        np.testing.assert_allclose(fractional.free_energy(states(4)), copied.free_energy(states(4)), atol=1e-12)
        assert fractional.to_factor_graph().layout.equals(copied.to_factor_graph().layout)

    def test_free_energy_is_the_weighted_sum(self) -> None:
        f = MACHINES["fractional"]()
        v = states(5)
        expected = v @ f.visible_bias + np.logaddexp(0, v @ f.weights + f.hidden_bias) @ f.counts
        np.testing.assert_allclose(-f.free_energy(v), expected, atol=1e-12)

    def test_fractions_have_no_rbm(self) -> None:
        with pytest.raises(bl.ModelError, match="hidden unit 1 counts 0.5 times: only whole counts"):
            bl.FractionalRBM(np.ones((2, 2)), counts=[1.0, 0.5]).to_rbm()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bl.RBM([1.0, 2.0]), r"weights must have shape \(n_visible, n_hidden\)"),
        (lambda: bl.RBM(np.zeros((0, 2))), "n_visible > 0"),
        (lambda: bl.RBM([[np.nan]]), "weights must be finite"),
        (lambda: bl.RBM(np.full((1, 1), np.inf, np.float32)), "weights must be finite"),
        (lambda: bl.RBM(np.full((1, 1), 1e31, np.float32)), "weights must be finite .up to 1e.30., found"),
        (lambda: bl.RBM([["a"]]), "weights must be an array of numbers"),
        (lambda: bl.RBM([[1j]]), "weights must be an array of numbers .they are complex."),
        (lambda: bl.log_likelihood(bl.RBM([[1.0]]), [[1]], gradient=3), "gradient must be True or"),  # type: ignore[arg-type]
        (lambda: bl.RBM(np.ones((2, 3)), [1.0]), r"visible_bias must have shape \(2,\), found \(1,\)"),
        (lambda: bl.RBM(np.ones((2, 3)), None, [[1.0]]), r"hidden_bias must have shape \(3,\)"),
        (lambda: bl.FractionalRBM(np.ones((2, 2)), counts=[1.0, -0.5]), "at least 0, found -0.5 for hidden unit 1"),
        (lambda: bl.FractionalRBM(np.ones((2, 2)), counts=[np.nan, 1.0]), "found nan for hidden unit 0"),
        (lambda: bl.FractionalRBM(np.ones((2, 2)), counts=[1.0]), r"counts must have shape \(2,\)"),
        (lambda: machine().free_energy([[0, 1, 2, 0]]), "must be 0 or 1, found 2 in row 0, unit 2"),
        (lambda: machine().free_energy([[0, 1, np.nan, 0]]), "must be 0 or 1, found nan in row 0, unit 2"),
        (lambda: machine().hidden_probability([[0, 1]]), r"must have shape \(N, 4\), found \(1, 2\)"),
        (lambda: machine().visible_probability([[0.5, 1, 0]]), "must be 0 or 1, found 0.5"),
        (lambda: machine().free_energy([["a", "b", "c", "d"]]), "must be bits, found an array of"),
        (lambda: machine().free_energy([[0], [0, 1]]), "must be an array of bits"),
        (lambda: bl.log_likelihood(machine(), np.zeros((0, 4))), "expected rows of visible units, found none"),
        (lambda: bl.log_likelihood("grid", [[0]]), "expected a model .*found str"),  # type: ignore[arg-type]
    ],
)
def test_bad_input_is_one_line(make: Any, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
