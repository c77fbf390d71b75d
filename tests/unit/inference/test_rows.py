"""Rows with missing cells, swept together: against enumeration, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.errors import BudgetError, ModelError
from beliefs.inference.rows.sweep import RowSweep, scored_rows, single_variables
from beliefs.model.layout import Layout
from beliefs.model.rows.reading import read_rows


def holes(model, n, share, seed=0):
    rng = np.random.default_rng(seed)
    rows = (
        rng.integers(0, model.graph.layout.card, (n, model.n_vars)) if not hasattr(model, "sample") else model.sample(n)
    )
    rows[rng.random(rows.shape) < share] = -1
    return rows


def asked_one_by_one(graph, rows):
    """Log Z, expected cells and marginals of each row, by enumeration."""
    log_z, cells, marginals = [], np.zeros(graph.layout.n_cells), []
    for row in rows:
        given = graph.condition({v: int(x) for v, x in enumerate(row) if x >= 0})
        found = bl.infer(given, "enumeration")
        log_z.append(found.log_z)
        np.add.at(cells, given.parent_cells, found.mu)
        marginals.append(found.mu_var)
    return np.array(log_z), cells, np.array(marginals)


@pytest.fixture(scope="module")
def asia():
    return bl.datasets.load_bn("asia")


@pytest.mark.parametrize("share", [0.15, 0.6, 1.0])
def test_sweep_is_enumeration_row_by_row(asia, share):
    layout, rows = asia.graph.layout, holes(asia, 40, share)
    table = read_rows(rows, asia.graph.naming)
    sweep = RowSweep(layout, table, soft=single_variables(layout))
    swept = sweep.run(asia.probabilities, np.ones((len(rows), layout.n_states)))
    scores = sweep.added_to(scored_rows(layout, asia.graph.theta, table), swept)
    log_z, cells, marginals = asked_one_by_one(asia.graph, rows)
    assert scores == pytest.approx(log_z, abs=1e-12)
    missing = np.repeat(rows < 0, layout.card, axis=1)
    assert np.where(missing, swept.soft, marginals) == pytest.approx(marginals, abs=1e-12)
    whole = np.zeros(layout.n_cells)  # families that are seen whole are not the sweep's
    for row in rows:
        for v in range(asia.n_vars):
            states = row[layout.scope(v)]
            if (states >= 0).all():
                whole[layout.cells(v)][np.ravel_multi_index(states, layout.shape(v))] += 1
    assert whole + swept.cells == pytest.approx(cells, abs=1e-9)


def test_soft_evidence_of_two_variables_is_a_factor_of_the_row(asia):
    rng, layout, naming = np.random.default_rng(5), asia.graph.layout, asia.graph.naming
    pairs = [(0, 3), (2, 4)]
    soft = Layout.build(layout.card, [0, 2, 4], np.ravel(pairs))
    rows, tables = holes(asia, 30, 0.4), rng.random((30, 8))
    tables[3] *= 1e-200  # underflows
    sweep = RowSweep(layout, read_rows(rows, naming), soft=soft)
    swept = sweep.run(asia.probabilities, tables)
    scores = sweep.added_to(scored_rows(layout, asia.graph.theta, sweep.table), swept)
    assert swept.soft is not None
    for row, given, score, posterior in zip(rows, tables.reshape(30, 2, 2, 2), scores, swept.soft, strict=True):
        own = [(pair, table) for pair, table in zip(pairs, given, strict=True)]
        joint = [(layout.scope(v), asia.cpt(v)) for v in range(asia.n_vars)]
        graph = bl.FactorGraph.from_tables(layout.card, [*joint, *own])
        found = bl.infer(graph.condition({v: int(x) for v, x in enumerate(row) if x >= 0}), "enumeration")
        seen = [(row[list(pair)] >= 0).all() for pair in pairs]
        known = sum(np.log(t[tuple(row[list(p)])]) for (p, t), whole in zip(own, seen, strict=True) if whole)
        assert score + known == pytest.approx(found.log_z, abs=1e-9)
        for k, whole in enumerate(seen):
            expected = 0.0 if whole else found.marginal(list(pairs[k])).ravel()
            assert posterior.reshape(2, 4)[k] == pytest.approx(expected, abs=1e-12)


def test_threads_and_weights():
    model = bl.datasets.load_bn("asia")
    rows = holes(model, 1200, 0.3)
    weights = np.random.default_rng(2).random(len(rows))
    table = read_rows(rows, model.graph.naming, weights=weights)
    one, two = (RowSweep(model.graph.layout, table, threads=k).run(model.probabilities) for k in (1, 2))
    assert one.cells.tobytes() == two.cells.tobytes() and one.log_z.tobytes() == two.log_z.tobytes()
    halves = [read_rows(rows[k::2], model.graph.naming, weights=weights[k::2]) for k in range(2)]
    parts = [RowSweep(model.graph.layout, half).run(model.probabilities).cells for half in halves]
    assert one.cells == pytest.approx(sum(parts), abs=1e-9)


def test_products_that_underflow_are_summed_in_logs():
    tiny = 1e-160
    tables: list[Any] = [((0,), [tiny, 1.0]), ((0, 1), [[1.0, tiny], [0.0, 0.0]]), ((1,), [tiny, tiny])]
    graph = bl.FactorGraph.from_tables([2, 2], tables)
    found = bl.log_likelihood(graph, [[-1, -1], [0, -1], [0, 0]])
    log_z = bl.infer(graph).log_z
    expected = [bl.infer(graph.condition(e)).log_z - log_z for e in ({}, {0: 0}, {0: 0, 1: 0})]
    assert found.per_row == pytest.approx(expected, abs=1e-9)


def test_log_likelihood_of_a_field_is_normalised():
    rng = np.random.default_rng(3)
    scopes = [(0, 1), (1, 2), (2, 0), (2,), (3,)]
    tables = [(scope, rng.normal(0, 50, [(2, 3, 2, 2, 2)[v] for v in scope])) for scope in scopes]
    graph = bl.FactorGraph.from_tables([2, 3, 2, 2, 2], tables, log=True)  # variable 4 is in no factor
    rows = rng.integers(-1, 2, (30, 5))
    found = bl.log_likelihood(graph, rows)
    expected = asked_one_by_one(graph, rows)[0] - bl.infer(graph, "enumeration").log_z
    assert found.per_row == pytest.approx(expected, rel=1e-12, abs=1e-9)
    assert found.bound is bl.Bound.EXACT and found.mean == pytest.approx(found.per_row.mean())
    assert found.log_lower <= found.mean <= found.log_upper


def test_log_likelihood_of_a_network(asia):
    rows = asia.sample(20)
    found = bl.log_likelihood(asia, rows)
    assert found.inference is None and found.bound is bl.Bound.EXACT
    assert found.per_row == pytest.approx([asia.log_score(row) for row in rows])
    part = bl.log_likelihood(asia, {"lung": ["yes", "no"], "xray": ["yes", None]})
    pair = bl.infer(asia).marginal(["lung", "xray"])
    assert np.exp(part.per_row) == pytest.approx([pair[0, 0], pair[1].sum()])
    with pytest.raises(ModelError, match="before conditioning"):
        bl.log_likelihood(asia.condition({"lung": "yes"}), rows)


def test_impossible_rows_have_probability_zero():
    rain, grass = bl.Variable("rain", 2), bl.Variable("grass", 2)
    cpts: dict[str, Any] = {"rain": ([], [1.0, 0.0]), "grass": (["rain"], [[0.5, 0.5], [0.5, 0.5]])}
    model = bl.BayesianNetwork.from_cpts([rain, grass], cpts)
    found = bl.log_likelihood(model, [[1, -1], [0, -1]])
    assert found.per_row.tolist() == [-np.inf, 0.0]
    assert found.mean == -np.inf and not np.isnan([found.log_lower, found.log_upper]).any()


def test_groups_over_the_budget_are_refused(asia):
    table = read_rows(np.full((1, 8), -1), asia.graph.naming)
    with pytest.raises(BudgetError, match="missing cells"):
        RowSweep(asia.graph.layout, table, max_bytes=100)
