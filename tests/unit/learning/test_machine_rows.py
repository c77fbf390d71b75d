"""Rows of bits, their scores under a machine, and the gap, against the definitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import beliefs as bl
from beliefs.learning.boltzmann.gap import FreeEnergyGap
from beliefs.learning.boltzmann.parameters import MachineShape
from beliefs.learning.boltzmann.rows import RowStream, bit_rows
from beliefs.learning.boltzmann.scores import free_energies, pseudo_log_likelihoods


def bits(n: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, width)) < 0.4


def machine(n: int = 4, m: int = 3, scale: float = 1.0, counts: bool = False) -> bl.RBM | bl.FractionalRBM:
    rng = np.random.default_rng(1)
    w, b, a = (scale * rng.normal(size=shape) for shape in ((n, m), n, m))
    return bl.FractionalRBM(w, b, a, rng.random(m) * 2) if counts else bl.RBM(w, b, a)


def test_every_way_to_store_rows_gives_the_same_numbers(tmp_path: Path) -> None:
    table = bits(40, 7)
    stored = np.memmap(tmp_path / "rows", np.uint8, "w+", shape=table.shape)
    stored[:] = table
    some = np.array([5, 3, 39, 3])
    for source in (table, table.astype(np.uint8), table.astype(float), stored, csr_matrix(table.astype(float))):
        rows = bit_rows(source)
        assert len(rows) == 40 and rows.width == 7
        part = rows.take(some)
        out = part.into(np.empty((4, 7), np.float32))
        assert np.array_equal(out, table[some])
        assert np.array_equal(part.take(np.array([2])).into(np.empty((1, 7))), table[[39]])
        found = np.concatenate([piece.copy() for _, piece in rows.pieces(np.float64, 16)])
        assert np.array_equal(found, table)


def test_bits_are_made_as_asked_for() -> None:
    grey = np.random.default_rng(0).random((30, 5))
    out = np.empty((30, 5), np.float32)
    assert np.array_equal(bit_rows(grey, 0.3).into(out), grey > 0.3)
    assert np.array_equal(bit_rows(grey, "mean").into(out), grey.astype(np.float32))
    rows = bit_rows(grey, "sample", seed=3)
    first, again, later = (rows.of_pass(k).into(out.copy()) for k in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, later)
    draws = np.mean([rows.of_pass(k).into(out.copy()) for k in range(2000)], axis=0)
    assert np.abs(draws - grey).max() < 5 * 0.5 / np.sqrt(2000)


@pytest.mark.parametrize(
    ("X", "binarize", "message"),
    [
        ([[0, 1], [2, 1]], None, r"X must be 0 or 1 \(or give binarize\), found 2 in row 1, unit 0"),
        ([[0.0, np.nan]], None, "found nan in row 0, unit 1"),
        ([[0.0, np.nan]], 0.5, "X must be a number, found nan in row 0, unit 1"),
        ([[0.0, 1.5]], "mean", "X must be between 0 and 1, found 1.5 in row 0, unit 1"),
        ([[0.0, -0.5]], "sample", "found -0.5"),
        (np.zeros((0, 3)), None, "expected rows in X, found none"),
        (np.zeros((2, 0)), None, r"X must have shape \(rows, units\)"),
        (np.zeros(3), None, r"found \(3,\)"),
        ([[0, 1], [1]], None, "X must be a table of rows"),
        ([["a"]], None, "X must be numbers"),
        (csr_matrix([[0, 3]]), None, "found 3 in row 0, unit 1"),
    ],
)
def test_what_is_no_table_of_bits_is_refused(X: object, binarize: object, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        bit_rows(X, binarize)


def test_streams_yield_rows_and_check_them() -> None:
    table = bits(10, 3)
    again = RowStream([table[:4], table[4:9], table[9]], None, 0, "X")
    for _ in range(2):
        found = np.concatenate([row.into(np.empty((1, 3))) for row in again])
        assert np.array_equal(found, table)
    once = RowStream((row for row in table), None, 0, "X")
    assert once.once and len(list(once.data())) == 10
    with pytest.raises(bl.ModelError, match="found 3 in row 9, unit 0"):
        list(RowStream([table[:9], np.array([3, 0, 0])], None, 0, "X"))
    with pytest.raises(bl.ModelError, match="expected rows in X, found none"):
        RowStream(iter(()), None, 0, "X")


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_scores_are_their_definitions(counts: bool, scale: float) -> None:
    model, table = machine(scale=scale, counts=counts), bits(9, 4)
    assert np.allclose(free_energies(model, bit_rows(table)), model.free_energy(table), atol=1e-9)
    direct = np.zeros(9)
    for i in range(4):
        flipped = table.copy()
        flipped[:, i] ^= True
        direct -= np.logaddexp(0.0, model.free_energy(table) - model.free_energy(flipped))
    assert np.allclose(pseudo_log_likelihoods(model, bit_rows(table)), direct, rtol=1e-9, atol=1e-9)


def test_the_vector_of_a_machine_and_back() -> None:
    model = machine(5, 2)
    shape = MachineShape(5, 2)
    vector = shape.vector(model, np.float32)
    assert vector.shape == (shape.n_weights,) and vector.dtype == np.float32
    back = shape.machine(vector)
    assert np.array_equal(back.weights, model.weights.astype(np.float32)) and back.dtype == np.float32
    shape.parts(vector).visible_bias[:] = 0.0
    assert not shape.machine(vector).visible_bias.any()


def test_the_gap_is_a_difference_of_mean_log_likelihoods() -> None:
    model, seen, unseen = machine(), bits(50, 4), bits(20, 4, seed=5)
    gap = FreeEnergyGap(bit_rows(seen), bit_rows(unseen))
    some = seen[::2][:20]
    expected = bl.log_likelihood(model, some).mean - bl.log_likelihood(model, unseen).mean
    assert gap.of(model) == pytest.approx(expected, abs=1e-9)
    assert gap.better(1.0, []) and gap.better(1.0, [1.0, 0.9]) and not gap.better(100.0, [0.0, 200.0])
    strict = FreeEnergyGap(bit_rows(seen), bit_rows(unseen), max_gap=0.0)
    strict.of(model)
    assert strict.better(0.5, [0.5]) and not strict.better(0.51, [0.5])
