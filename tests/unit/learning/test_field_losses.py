"""Losses on fields and rows, against enumeration: values, gradients, populations and chains."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import beliefs as bl
from beliefs.errors import ModelError
from beliefs.inference.rows.sweep import RowSweep
from beliefs.learning.fields.base import clamped
from beliefs.learning.fields.blankets import BlanketCounts
from beliefs.learning.fields.composite import FieldCompositeLikelihood
from beliefs.learning.fields.hidden_flow import HiddenFlow
from beliefs.learning.fields.likelihood import FieldLikelihood
from beliefs.learning.fields.matrices import PairMatrices
from beliefs.learning.fields.one_variable import FieldProbabilityFlow, FieldPseudoLikelihood
from beliefs.learning.fields.sampled import FieldContrastiveDivergence, FieldStochasticLikelihood
from beliefs.learning.fields.statistics import FieldRows, conditionals_of
from beliefs.learning.networks.counts import count
from beliefs.learning.networks.structure import Structure
from beliefs.learning.parallel import executor_of
from beliefs.model.layout import Layout
from beliefs.model.naming import Naming
from beliefs.model.rows.reading import read_rows

CARD = (2, 3, 2, 2)
LOOP = [(0, 1), (1, 2), (2, 3), (3, 0), (1,)]
WIDE = [(0, 1, 2), (2, 3), (3,)]
STATES = np.array(list(product(*map(range, CARD))))


def structure_of(scopes, cell_ptr=None, card=CARD):
    naming = Naming.of([f"x{v}" for v in range(len(card))], None, np.array(card))
    ptr = np.cumsum([0, *map(len, scopes)])
    return Structure(naming, Layout.build(card, ptr, [v for scope in scopes for v in scope], cell_ptr))


def rows_of(structure, rows, weights=None):
    """Rows as a loss takes them, with statistics by counting."""
    table = read_rows(rows, structure.naming, weights=weights)
    counts = count(structure, table, executor_of(1))
    sweep = RowSweep(structure.layout, table.take(table.incomplete())) if table.n_missing.any() else None
    cells = structure.layout.in_cells(counts.flat())
    return FieldRows(cells / table.total, table.total, sweep, {}, table, table.total)


def scores(structure, theta, states=STATES):
    graph = bl.FactorGraph.build(structure.layout, theta.copy(), structure.naming)
    return np.array([graph.log_score(x) for x in states])


def probabilities(structure, theta):
    logs = scores(structure, theta)
    return np.exp(logs - np.logaddexp.reduce(logs))


def neighbours(x):
    for v, card in enumerate(CARD):
        for k in range(card):
            if k != x[v]:
                yield np.array([*x[:v], k, *x[v + 1 :]])


def by_definition(name, structure, theta, rows, weights):
    """The loss a row, by enumeration."""
    total = 0.0
    for x, w in zip(rows, weights, strict=True):
        own = scores(structure, theta, [x])[0]
        if name == "minimum_probability_flow":
            total += w * sum(np.exp(0.5 * (scores(structure, theta, [y])[0] - own)) for y in neighbours(x))
            continue
        sets = [[v] for v in range(4)] if name == "pseudo_likelihood" else [[0, 1], [1, 2, 3]]
        for part in sets:
            same = [y for y in STATES if all(y[v] == x[v] for v in range(4) if v not in part)]
            total += w * (np.logaddexp.reduce(scores(structure, theta, same)) - own)
    return total / sum(weights)


def losses(structure):
    return [
        FieldPseudoLikelihood(structure=structure, l2=0.01),
        FieldProbabilityFlow(structure=structure),
        FieldCompositeLikelihood(structure=structure, components=[[0, 1], [1, 2, 3]]),
    ]


def slope_by_differences(loss, theta, data, step):
    ends = [loss.evaluate(theta + h * step, data).value for h in (1e-5, -1e-5)]
    return (ends[0] - ends[1]) / 2e-5


@pytest.mark.parametrize("scopes", [LOOP, WIDE])
def test_losses_are_their_definitions_and_gradients_their_slopes(scopes):
    structure, rng = structure_of(scopes), np.random.default_rng(0)
    rows, weights = STATES[rng.integers(0, len(STATES), 9)], rng.random(9) + 0.1
    data = rows_of(structure, rows, weights)
    theta, step = rng.normal(size=(2, structure.layout.n_cells))
    for loss in losses(structure):
        expected = by_definition(loss.name, structure, theta, rows, weights) + loss.l2 * theta @ theta
        found = loss.evaluate(theta, data)
        assert found.value == pytest.approx(expected, rel=1e-12)
        assert found.grad @ step == pytest.approx(slope_by_differences(loss, theta, data, step), rel=1e-7)


def test_extremes_of_the_composite_likelihood_and_tied_tables():
    """P11: single variables are the pseudo-likelihood, one set of all the likelihood; ties add gradients up."""
    tied = structure_of([(0, 2), (2, 3), (0, 3), (1,)], cell_ptr=[0, 0, 0, 4])
    rng = np.random.default_rng(1)
    data, theta = rows_of(tied, STATES[rng.integers(0, 24, 30)]), rng.normal(size=tied.layout.n_cells)
    pairs = [
        ("variables", FieldPseudoLikelihood(structure=tied)),
        ([[0, 1, 2, 3]], FieldLikelihood(structure=tied, inference=bl.JunctionTree())),
    ]
    for components, other in pairs:
        composite = FieldCompositeLikelihood(structure=tied, components=components).evaluate(theta, data)
        found = other.evaluate(theta, data)
        assert composite.value == pytest.approx(found.value, rel=1e-12)
        assert composite.grad == pytest.approx(found.grad, abs=1e-12)


@pytest.mark.parametrize("card", [(2, 2, 2, 2), CARD])
def test_matrices_are_blankets(card):
    structure, rng = structure_of(LOOP, card=card), np.random.default_rng(2)
    rows = np.stack([rng.integers(0, k, 700) for k in card], axis=1)
    theta = rng.normal(size=structure.layout.n_cells)
    for weights in (None, rng.random(700)):
        data = rows_of(structure, rows, weights)
        for cls in (FieldPseudoLikelihood, FieldProbabilityFlow):
            found = []
            for way in (BlanketCounts, PairMatrices):
                data._conditionals = way(structure.layout, data.rows)
                found.append(replace(cls(structure=structure), threads=1).evaluate(theta, data))
            again = cls(structure=structure, threads=2).evaluate(theta, data)
            assert found[1].value == pytest.approx(found[0].value, rel=1e-12)
            assert found[1].grad == pytest.approx(found[0].grad, abs=1e-12)
            assert again.value == found[1].value and (again.grad == found[1].grad).all()
    assert isinstance(conditionals_of(structure.layout, data.rows), BlanketCounts)
    dense = structure_of([(u, v) for v in range(12) for u in range(v)], card=[2] * 12)
    many = read_rows(rng.integers(0, 2, (300, 12)), dense.naming)
    assert isinstance(conditionals_of(dense.layout, many), PairMatrices)


@pytest.mark.parametrize("card", [(2, 2, 2, 2), (2, 3, 2, 4)])
def test_centred_coordinates_span_what_gradients_span(card):
    """Their slopes are those of the composed function, J and h + m J are what they say, and no gradient is left out."""
    structure, rng = structure_of([*LOOP, (1, 0), (0, 2)], card=card), np.random.default_rng(5)
    layout = structure.layout
    data = rows_of(structure, np.stack([rng.integers(0, k, 60) for k in card], axis=1), rng.random(60))
    matrices = PairMatrices(layout, data.rows)
    data._conditionals, loss = matrices, FieldPseudoLikelihood(structure=structure)
    found = loss.coordinates(data)
    assert found is not None
    z, step = rng.normal(size=(2, found.size))
    a = np.stack([found.weights(unit) for unit in np.eye(found.size)], axis=1)
    assert found.weights(z) == pytest.approx(a @ z) and np.linalg.matrix_rank(a) == found.size
    theta = rng.normal(size=layout.n_cells)
    grad = loss.evaluate(theta, data).grad
    assert found.slopes(grad) == pytest.approx(a.T @ grad, abs=1e-14)
    assert a @ np.linalg.lstsq(a, grad, rcond=None)[0] == pytest.approx(grad, abs=1e-12)
    means = np.concatenate([
        [np.average(column == j, weights=data.rows.weights) for j in range(1, k)]
        for column, k in zip(data.rows.codes, card, strict=True)
    ])  # fmt: skip
    only_biases = np.where(np.arange(found.size) < means.size, z, 0.0)
    h, couplings = matrices.map.biases_and_couplings(found.weights(only_biases))
    assert couplings == pytest.approx(np.zeros_like(couplings), abs=1e-14)
    curved = np.zeros((means.size, means.size))
    for first, k in zip(np.cumsum([0, *(k - 1 for k in card[:-1])]), card, strict=True):
        curved[first : first + k - 1, first : first + k - 1] = (np.eye(k - 1) - 1.0 / k) / k
    assert h @ curved @ h == pytest.approx(0.5 * z[: means.size] @ z[: means.size])  # the variance of the odds
    h, couplings = matrices.map.biases_and_couplings(found.weights(z - only_biases))
    assert h + means @ couplings == pytest.approx(np.zeros_like(h), abs=1e-13)
    assert np.trace(curved @ couplings @ curved @ couplings) == pytest.approx(0.5 * z[means.size :] @ z[means.size :])


@pytest.mark.parametrize("l2", [0.0, 0.01])
@pytest.mark.parametrize("states", [2, 3])
def test_dense_fields_are_found_in_few_iterations(states, l2, monkeypatch):
    """In centred coordinates and in tables the minimum is one; the search has few numbers, and goes quickly."""
    n = 9
    rng = np.random.default_rng(6)
    hidden = rng.integers(0, states, (3000, 1))
    rows = np.where(rng.random((3000, n)) < 0.4, hidden, rng.integers(0, states, (3000, n)))
    edges = [(u, v) for v in range(n) for u in range(v)]
    learners = [bl.MRFLearner(edges, method="pseudo_likelihood", l2=l2, tol=1e-7) for _ in range(2)]
    monkeypatch.setattr("beliefs.learning.fields.statistics._LOOKUP", 0.0)
    centred = learners[0].fit(rows)
    monkeypatch.setattr(PairMatrices, "coordinates", lambda self: None)
    tables = learners[1].fit(rows)
    assert centred.result_.converged and tables.result_.converged
    assert centred.result_.objective == pytest.approx(tables.result_.objective, abs=1e-9)
    assert centred.model_.theta == pytest.approx(tables.model_.theta, abs=1e-4)
    if not l2:
        assert centred.result_.n_iters < 0.8 * tables.result_.n_iters


def test_the_truth_is_stationary_in_the_population():
    """P27: pseudo-likelihood, composite likelihood and flow, also with a hidden variable; P23 of the likelihood."""
    structure = structure_of(LOOP)
    theta = np.random.default_rng(3).normal(size=structure.layout.n_cells)
    data = rows_of(structure, STATES, probabilities(structure, theta))
    for loss in [
        *(replace(loss, l2=0.0) for loss in losses(structure)),
        HiddenFlow(structure=structure),
        FieldLikelihood(structure=structure, inference=bl.JunctionTree()),
    ]:
        assert np.abs(loss.evaluate(theta, data).grad).max() < 1e-14
    seen = STATES.copy()
    seen[:, 1] = -1
    hidden = rows_of(structure, seen, probabilities(structure, theta))
    assert np.abs(HiddenFlow(structure=structure).evaluate(theta, hidden).grad).max() < 1e-14
    with pytest.raises(ModelError, match="pseudo_likelihood needs complete rows"):
        FieldPseudoLikelihood(structure=structure).check(hidden)


def test_flow_between_what_is_observed():
    structure, rng = structure_of(LOOP), np.random.default_rng(4)
    theta, step = rng.normal(size=(2, structure.layout.n_cells))
    rows = STATES[rng.integers(0, 24, 8)].copy()
    rows[:, 2], rows[3, 0] = -1, -1
    data, loss = rows_of(structure, rows), HiddenFlow(structure=structure)

    def energy(x):
        return np.logaddexp.reduce(scores(structure, theta, STATES[((STATES == x) | (x < 0)).all(axis=1)]))

    expected = 0.0
    for x in rows:
        for v in np.flatnonzero(x >= 0):
            for k in set(range(CARD[v])) - {x[v]}:
                expected += np.exp(0.5 * (energy(np.array([*x[:v], k, *x[v + 1 :]])) - energy(x)))
    found = loss.evaluate(theta, data)
    assert found.value == pytest.approx(expected / len(rows), rel=1e-12)
    assert found.grad @ step == pytest.approx(slope_by_differences(loss, theta, data, step), rel=1e-7)


def kernel_of(structure, theta):
    """The matrix of one sweep of Gibbs sampling in the order of the schedule."""
    from beliefs.inference.sampling.sweeps import Schedule

    number = {tuple(x): i for i, x in enumerate(STATES)}
    sweep, logs = np.eye(len(STATES)), scores(structure, theta)
    for v in Schedule.of(structure.layout, "color").order:
        one = np.zeros_like(sweep)
        for i, x in enumerate(STATES):
            to = [number[*x[:v], k, *x[v + 1 :]] for k in range(CARD[v])]
            one[i, to] = np.exp(logs[to] - np.logaddexp.reduce(logs[to]))
        sweep = sweep @ one
    return sweep


def test_sampled_gradients_have_the_expectation_of_their_chains():
    """P27: contrastive divergence by the exact transition matrix; it tends to the likelihood as sweeps grow."""
    structure, rng = structure_of(LOOP), np.random.default_rng(5)
    theta = 0.5 * rng.normal(size=structure.layout.n_cells)
    data = rows_of(structure, STATES[rng.integers(0, 24, 50)])
    law = np.bincount([np.flatnonzero((STATES == x).all(axis=1))[0] for x in data.rows.codes.T], minlength=24) / 50
    features = np.zeros((24, structure.layout.n_cells))
    for i, x in enumerate(STATES):
        features[i] = rows_of(structure, [x]).frequencies
    exact = FieldLikelihood(structure=structure, inference=bl.JunctionTree()).evaluate(theta, data).grad
    moved = kernel_of(structure, theta)
    assert features.T @ (law @ np.linalg.matrix_power(moved, 60) - law) == pytest.approx(exact, abs=1e-9)
    for k in (1, 3):
        expected = features.T @ (law @ np.linalg.matrix_power(moved, k) - law)
        loss = FieldContrastiveDivergence(structure=structure, sweeps=k, chains=40_000)
        assert loss.evaluate(theta, data).grad == pytest.approx(expected, abs=0.02)
    seen = data.rows.codes.T.astype(int)
    seen[:, 1] = -1
    hidden = rows_of(structure, seen)
    wanted = features.T @ probabilities(structure, theta) - clamped(theta, hidden)[1]
    chains = FieldStochasticLikelihood(structure=structure, sweeps=20, chains=40_000)
    assert chains.evaluate(theta, hidden).grad == pytest.approx(wanted, abs=0.02)
    longer = FieldContrastiveDivergence(structure=structure, sweeps=20, chains=40_000)
    assert longer.evaluate(theta, hidden).grad == pytest.approx(wanted, abs=0.03)
