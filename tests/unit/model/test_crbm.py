"""Conditional machines: an RBM for each input."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import beliefs as bl
from beliefs.cli.names import load_model


def crbm(n: int = 3, m: int = 2, d: int = 4, seed: int = 0, dtype: Any = np.float64) -> bl.CRBM:
    rng = np.random.default_rng(seed)
    shapes = ((n, m), (n, d), (m, d), n, m)
    return bl.CRBM(*(rng.normal(size=shape).astype(dtype) for shape in shapes))


def test_given_inputs_it_is_an_rbm() -> None:
    model, x = crbm(), np.random.default_rng(1).normal(size=(5, 4))
    many = model.given(x)
    assert len(many) == 5 and model.n_parameters == 6 + 12 + 8 + 5
    for k, one in enumerate(many):
        np.testing.assert_allclose(one.visible_bias, model.visible_bias + model.visible_input @ x[k])
        np.testing.assert_allclose(one.hidden_bias, model.hidden_bias + model.hidden_input @ x[k])
        np.testing.assert_allclose(model.given(x[k]).visible_bias, one.visible_bias)
    np.testing.assert_allclose(model.given(sparse.csr_matrix(x)).visible_bias, many.visible_bias)
    visible = np.array([[1, 0, 1]] * 5)
    energies = [one.free_energy(visible[:1])[0] for one in many]
    np.testing.assert_allclose(model.free_energy(visible, given=x), energies)
    assert pickle.loads(pickle.dumps(model)).weights.tobytes() == model.weights.tobytes()
    assert crbm(dtype=np.float32).given(x.astype(np.float32)).dtype == np.float32


def test_likelihoods_and_gradients_by_enumeration() -> None:
    model, rng = crbm(), np.random.default_rng(2)
    x, v = rng.normal(size=(4, 4)), rng.integers(0, 2, size=(4, 3))

    def log_likelihood(model: bl.CRBM) -> float:
        total = 0.0
        for row, one in zip(v, model.given(x), strict=True):
            states = np.array(list(itertools.product((0, 1), repeat=3)))
            total += -one.free_energy(row[None])[0] - np.logaddexp.reduce(-one.free_energy(states))
        return total / len(v)

    found = bl.log_likelihood(model, v, given=x, gradient=True)
    assert found.bound is bl.Bound.EXACT and found.mean == pytest.approx(log_likelihood(model), abs=1e-9)
    names = ("weights", "visible_input", "hidden_input", "visible_bias", "hidden_bias")
    for name in names:
        arrays = {other: getattr(model, other).copy() for other in names}
        slope = np.empty_like(arrays[name])
        for cell in np.ndindex(slope.shape):
            ends = []
            for step in (1e-5, -1e-5):
                arrays[name][cell] += step
                ends.append(log_likelihood(bl.CRBM(**arrays)))
                arrays[name][cell] -= step
            slope[cell] = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(getattr(found.gradient, name), slope, rtol=0, atol=1e-8)
    assert isinstance(found.gradient, bl.CRBM)
    assert bl.log_likelihood(model, v, "mean_field", given=x).mean >= found.mean - 1e-12
    assert bl.log_likelihood(model, v, "mean_field", given=x).bound is bl.Bound.UPPER


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_makes_the_same_machine_in_any_company(dtype: Any) -> None:
    rng = np.random.default_rng(4)
    model = bl.CRBM(*((0.2 * rng.normal(size=size)).astype(dtype) for size in ((33, 18), (33, 21), (18, 21))))
    x, v = rng.normal(size=(19, 21)), rng.integers(0, 2, size=(19, 33))
    batch, found = model.given(x), bl.log_likelihood(model, v, "bp", given=x, tol=1e-3).per_row
    for k in (0, 7, 18):
        for alone in (model.given(x[k : k + 1])[0], model.given(x[k])):
            assert alone == batch[k]
        assert bl.log_likelihood(model, v[k : k + 1], "bp", given=x[k : k + 1], tol=1e-3).per_row[0] == found[k]


def test_bethe_gradient_is_that_of_the_bethe_likelihood() -> None:
    model, rng = crbm(4, 3, 2), np.random.default_rng(3)
    x, v = rng.normal(size=(3, 2)), rng.integers(0, 2, size=(3, 4))
    found = bl.log_likelihood(model, v, "bp", given=x, gradient=True, tol=1e-13)
    weights = model.weights.copy()
    slope = np.empty_like(weights)
    for cell in np.ndindex(slope.shape):
        ends = []
        for step in (1e-5, -1e-5):
            weights[cell] += step
            other = bl.CRBM(weights, model.visible_input, model.hidden_input, model.visible_bias, model.hidden_bias)
            ends.append(bl.log_likelihood(other, v, "bp", given=x, tol=1e-13).mean)
            weights[cell] -= step
        slope[cell] = (ends[0] - ends[1]) / 2e-5
    np.testing.assert_allclose(found.gradient.weights, slope, rtol=0, atol=1e-6)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda: bl.CRBM([[1.0]], [[1.0, 2.0]], [[1.0]]), "hidden_input must have shape"),
        (lambda: bl.CRBM([[1.0]], [[np.nan]], [[1.0]]), "visible_input must be finite"),
        (lambda: crbm().given([1.0, 2.0]), "inputs must have shape"),
        (lambda: crbm().given([[1.0, 2.0, np.inf, 0.0]]), "found inf in row 0, column 2"),
        (lambda: crbm().given([["a"] * 4]), "inputs must be numbers"),
        (lambda: bl.log_likelihood(crbm(), [[0, 1, 0]]), "pass given=X"),
        (lambda: bl.log_likelihood(crbm(), [[0, 1, 0]], given=np.zeros((2, 4))), "1 rows of visible units"),
        (lambda: bl.log_likelihood(crbm(), [[0, 2, 0]], given=np.zeros((1, 4))), "found 2 in row 0, unit 1"),
        (lambda: bl.RBMBatch([[1.0]], [[1.0]], [[1.0], [2.0]]), "1 rows of visible biases and 2 of hidden"),
        (lambda: bl.log_likelihood(bl.RBM([[1.0]]), [[1]], given=[[1.0]]), "takes no inputs"),
    ],
)
def test_bad_input(question: Any, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message) as caught:
        question()
    assert "\n" not in str(caught.value)


def test_it_does_not_change() -> None:
    with pytest.raises(AttributeError, match="do not change"):
        crbm().weights = np.zeros((3, 2))
    with pytest.raises(ValueError, match="read-only"):
        crbm().weights[0, 0] = 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_files_keep_every_bit(dtype: Any, tmp_path: Path) -> None:
    model = crbm(dtype=dtype)
    bl.write(model, tmp_path / "crbm.npz")
    again = bl.read(tmp_path / "crbm.npz")
    assert isinstance(again, bl.CRBM)
    for name in ("weights", "visible_input", "hidden_input", "visible_bias", "hidden_bias"):
        kept, read = getattr(model, name), getattr(again, name)
        assert kept.dtype == read.dtype and np.array_equal(kept, read), name


def test_doors_ask_for_inputs(tmp_path: Path) -> None:
    model: Any = crbm()
    with pytest.raises(bl.ModelError, match=r"found CRBM; ask the machine given\(x\)"):
        bl.infer(model)
    bl.write(model, tmp_path / "crbm.npz")
    with pytest.raises(bl.ModelError, match="a CRBM answers for rows of inputs"):
        load_model(str(tmp_path / "crbm.npz"))
