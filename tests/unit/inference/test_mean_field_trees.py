"""Mean field over induced trees: which trees they are, and what they gain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given

import beliefs as bl
import reference
from beliefs.inference.search.feasible import hard_factors
from beliefs.inference.variational.mean_field import MeanField
from beliefs.inference.variational.structured import ForestField
from families import FAMILIES, evidence, family, grid_pairs, random_model, unary
from strategies import examples, factor_graphs


def trees_of(graph: bl.FactorGraph) -> tuple[ForestField, list[set[int]], dict[int, tuple[int, ...]]]:
    """The field, the variables of each tree, and the scopes of the tree factors by tree."""
    field = ForestField(graph, hard_factors(graph), "sequential")
    forest = field.forest
    trees = [set(forest.trees.members[a:b].tolist()) for a, b in itertools.pairwise(forest.trees.member_ptr)]
    scopes = {
        i: tuple(forest.branches.scope_vars[forest.branches.scope_ptr[i] : forest.branches.scope_ptr[i + 1]].tolist())
        for i in range(forest.table_ptr.size - 1)
    }
    return field, trees, scopes


@given(graph=factor_graphs())
@examples(200)
def test_trees_are_induced_and_have_no_cycle(graph: bl.FactorGraph) -> None:
    lay = graph.layout
    field, trees, scopes = trees_of(graph)
    wide = {v for v in range(lay.n_vars) if lay.card[v] > 1}
    assert sorted(v for t in trees for v in t) == np.flatnonzero(np.diff(lay.var_ptr) > 0).tolist()
    for t in trees:
        inside = [s for s in scopes.values() if set(s) <= t]
        assert sum(len(s) - 1 for s in inside) == len(t) - 1, "connected and without a cycle"
    assert all(any(set(s) <= t for t in trees) for s in scopes.values())
    guests = dict(zip(field.forest.guests.tolist(), field.forest.branch.tolist(), strict=True))
    for f in range(lay.n_factors):
        scope = {int(v) for v in lay.scope(f)} & wide
        if f in guests:
            assert scope <= set(scopes[guests[f]])
        else:
            assert f in field.forest.outside.tolist() and all(len(scope & t) <= 1 for t in trees)


def test_equal_couplings_give_the_rows_of_a_grid_and_strong_ones_go_first() -> None:
    table = np.array([[1.0, -1.0], [-1.0, 1.0]])
    graph = bl.FactorGraph.pairwise(np.zeros((20, 2)), grid_pairs(4, 5), table)
    assert sorted(map(sorted, trees_of(graph)[1])) == [list(range(5 * r, 5 * r + 5)) for r in range(4)]
    strong = [table * (5.0 if abs(u - v) > 1 else 1.0) for u, v in grid_pairs(4, 5)]
    graph = bl.FactorGraph.pairwise(np.zeros((20, 2)), grid_pairs(4, 5), strong)
    assert sorted(map(sorted, trees_of(graph)[1])) == [list(range(c, 20, 5)) for c in range(5)]


def test_models_without_cycles_are_one_tree_and_exact() -> None:
    for name in (n for n in FAMILIES if reference.is_forest(FAMILIES[n]())):
        for observed in (0, 2):
            graph = family(name).condition(evidence(name, observed))
            joint = reference.joint_table(graph)
            result = bl.infer(graph, MeanField(structure="tree"), max_iters=1)
            assert result.bound is bl.Bound.EXACT and result.log_z == pytest.approx(reference.log_z(joint))
            np.testing.assert_allclose(result.mu, reference.mu(graph, joint), atol=1e-12)


def test_a_chain_of_2000_variables_keeps_its_digits() -> None:
    rng = np.random.default_rng(3)
    edges = [(v, v + 1) for v in range(1999)]
    graph = bl.FactorGraph.pairwise(rng.normal(size=(2000, 3)), edges, rng.normal(size=(1999, 3, 3)))
    result, exact = bl.infer(graph, MeanField(structure="tree")), bl.infer(graph, "junction_tree")
    assert result.log_z == pytest.approx(exact.log_z, rel=1e-13)
    np.testing.assert_allclose(result.mu, exact.mu, atol=1e-12)
    np.testing.assert_allclose(result.mu_var.reshape(-1, 3).sum(axis=1), 1, atol=1e-15)


def test_trees_are_tighter_than_single_variables() -> None:
    gaps = []
    for seed in range(12):
        graph = random_model([2] * 16, unary(16) + grid_pairs(4, 4), seed=seed, scale=1.5)
        exact = bl.infer(graph, "junction_tree").log_z
        gaps.append([exact - bl.infer(graph, m).log_z for m in (MeanField(), MeanField(structure="tree"))])
    naive, tree = np.mean(gaps, axis=0)
    assert 0 < tree < 0.5 * naive
