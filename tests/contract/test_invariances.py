"""What must not matter, and what must move along: names, order, splitting, scale, evidence.

Each property holds for every method that claims an exact answer; Hypothesis draws the graphs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beliefs as bl
import reference
from strategies import examples, factor_graphs, possible_evidence, structures, subsets, tied_graphs

EXACT = [pytest.param(cls(), id=cls.name) for cls in bl.METHODS if cls.guarantee.startswith("exact")]
each_exact_method = pytest.mark.parametrize("method", EXACT)


def tables_of(graph: bl.FactorGraph) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Scopes and log tables, as ``from_tables`` takes them."""
    lay = graph.layout
    return [
        (tuple(int(v) for v in lay.scope(f)), graph.theta[lay.cells(f)].reshape(lay.shape(f)))
        for f in range(lay.n_factors)
    ]


def rebuilt(card: Sequence[int], tables: list[tuple[tuple[int, ...], np.ndarray]]) -> bl.FactorGraph:
    return bl.FactorGraph.from_tables(card, tables, log=True)


def solved(graph: bl.FactorGraph, method: bl.Method) -> bl.InferenceResult | None:
    """The exact answer, or None where the method (BP on a loopy graph) gives only an estimate."""
    if method.iterative and not reference.is_forest(graph):
        return None
    result = bl.infer(graph, method)
    assert result.bound is bl.Bound.EXACT
    return result


def same(value: float, truth: float) -> None:
    assert value == pytest.approx(truth, rel=1e-10, abs=1e-10)


@each_exact_method
@given(data=st.data(), graph=factor_graphs())
@examples(60)
def test_relabelling_variables_moves_the_marginals_with_them(
    method: bl.Method, data: st.DataObject, graph: bl.FactorGraph
) -> None:
    new_place = data.draw(st.permutations(range(graph.n_vars)))
    card = np.empty(graph.n_vars, int)
    card[new_place] = graph.layout.card
    moved = rebuilt(card, [(tuple(new_place[v] for v in scope), t) for scope, t in tables_of(graph)])
    before, after = solved(graph, method), solved(moved, method)
    if before is None or after is None:
        return
    same(after.log_z, before.log_z)
    for v in range(graph.n_vars):
        np.testing.assert_allclose(after.marginal(new_place[v]), before.marginal(v), atol=1e-10)
    np.testing.assert_allclose(after.mu, before.mu, atol=1e-10)


@each_exact_method
@given(data=st.data(), graph=factor_graphs())
@examples(60)
def test_permuting_states_permutes_marginals(method: bl.Method, data: st.DataObject, graph: bl.FactorGraph) -> None:
    shuffled = [np.array(data.draw(st.permutations(range(k)))) for k in graph.layout.card]
    tables = [
        (scope, t[np.ix_(*(shuffled[v] for v in scope))] if scope else t) for scope, t in tables_of(graph)
    ]  # state y of the new model is state shuffled[y] of the old
    before, after = solved(graph, method), solved(rebuilt(graph.layout.card, tables), method)
    if before is None or after is None:
        return
    same(after.log_z, before.log_z)
    for v in range(graph.n_vars):
        np.testing.assert_allclose(after.marginal(v), before.marginal(v)[shuffled[v]], atol=1e-10)


@each_exact_method
@given(data=st.data(), graph=factor_graphs())
@examples(60)
def test_the_order_of_factors_and_of_axes_does_not_matter(
    method: bl.Method, data: st.DataObject, graph: bl.FactorGraph
) -> None:
    tables = tables_of(graph)
    order = data.draw(st.permutations(range(len(tables))))
    turned = []
    for f in order:
        scope, table = tables[f]
        axes = data.draw(st.permutations(range(len(scope))))
        turned.append((tuple(scope[a] for a in axes), table.transpose(axes)))
    before, after = solved(graph, method), solved(rebuilt(graph.layout.card, turned), method)
    if before is None or after is None:
        return
    same(after.log_z, before.log_z)
    np.testing.assert_allclose(after.mu_var, before.mu_var, atol=1e-10)


@each_exact_method
@given(data=st.data(), graph=factor_graphs(scales=(1.0, 10.0)))
@examples(60)
def test_splitting_a_factor_changes_nothing_and_doubling_it_is_doubling_its_table(
    method: bl.Method, data: st.DataObject, graph: bl.FactorGraph
) -> None:
    tables = tables_of(graph)
    if not tables:
        return
    f = data.draw(st.integers(0, len(tables) - 1))
    scope, table = tables[f]
    noise = np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=table.shape)
    split = rebuilt(graph.layout.card, [*tables[:f], (scope, table - noise), *tables[f + 1 :], (scope, noise)])
    doubled = rebuilt(graph.layout.card, [*tables[:f], (scope, 2 * table), *tables[f + 1 :]])
    twice = rebuilt(graph.layout.card, [*tables, (scope, table)])
    for one, other in ((graph, split), (doubled, twice)):
        before, after = solved(one, method), solved(other, method)
        if before is None or after is None:
            continue
        same(after.log_z, before.log_z)
        np.testing.assert_allclose(after.mu_var, before.mu_var, atol=1e-10)


@each_exact_method
@given(data=st.data(), graph=factor_graphs())
@examples(60)
def test_shifting_a_table_shifts_log_z_and_nothing_else(
    method: bl.Method, data: st.DataObject, graph: bl.FactorGraph
) -> None:
    if not graph.n_factors:
        return
    f, c = data.draw(st.integers(0, graph.n_factors - 1)), data.draw(st.sampled_from([-700.0, -1.5, 3.0, 1e4]))
    theta = graph.theta.copy()
    theta[graph.layout.cells(f)] += c
    before, after = solved(graph, method), solved(graph.with_theta(theta), method)
    if before is None or after is None:
        return
    same(after.log_z, before.log_z + c)
    np.testing.assert_allclose(after.mu_var, before.mu_var, atol=1e-9)
    np.testing.assert_allclose(after.mu, before.mu, atol=1e-9)


@each_exact_method
@given(first=factor_graphs(), second=factor_graphs())
@examples(40)
def test_a_union_multiplies_partition_functions(
    method: bl.Method, first: bl.FactorGraph, second: bl.FactorGraph
) -> None:
    if np.prod(first.layout.card) * np.prod(second.layout.card) > 20000:
        return
    one, two, both = solved(first, method), solved(second, method), solved(first.union(second), method)
    if one is None or two is None or both is None:
        return
    same(both.log_z, one.log_z + two.log_z)
    np.testing.assert_allclose(both.mu_var, np.concatenate([one.mu_var, two.mu_var]), atol=1e-10)
    np.testing.assert_allclose(both.mu, np.concatenate([one.mu, two.mu]), atol=1e-10)


@each_exact_method
@given(data=st.data(), graph=factor_graphs())
@examples(60)
def test_evidence_is_slicing_and_an_indicator_factor_says_the_same(
    method: bl.Method, data: st.DataObject, graph: bl.FactorGraph
) -> None:
    seen = data.draw(possible_evidence(graph))
    indicator = graph.with_likelihood({v: np.eye(int(graph.layout.card[v]))[x] for v, x in seen.items()})
    sliced, joint = solved(graph.condition(seen), method), reference.joint_table(graph, seen)
    if sliced is None:
        return
    same(sliced.log_z, reference.log_z(joint))
    np.testing.assert_allclose(sliced.mu_var, reference.mu_var(joint), atol=1e-9)
    soft = solved(indicator, method)
    if soft is not None:
        same(soft.log_z, sliced.log_z)
        np.testing.assert_allclose(soft.mu_var, sliced.mu_var, atol=1e-9)


@each_exact_method
@given(data=st.data(), graph=factor_graphs())
@examples(40)
def test_evidence_may_come_at_once_or_piece_by_piece(
    method: bl.Method, data: st.DataObject, graph: bl.FactorGraph
) -> None:
    seen = data.draw(possible_evidence(graph))
    whole = graph.condition(seen)
    piecewise = graph
    for v, x in seen.items():
        piecewise = piecewise.condition({v: x})
    piecewise = piecewise.condition(seen)
    assert piecewise.layout.equals(whole.layout) and piecewise.theta.tobytes() == whole.theta.tobytes()
    one, other = solved(whole, method), solved(piecewise, method)
    if one is not None and other is not None:
        assert one.log_z == other.log_z and one.mu.tobytes() == other.mu.tobytes()


@each_exact_method
@given(graph=tied_graphs())
@examples(30)
def test_tied_tables_answer_as_their_copies_do(method: bl.Method, graph: bl.FactorGraph) -> None:
    copies = rebuilt(graph.layout.card, tables_of(graph))
    tied, free = solved(graph, method), solved(copies, method)
    if tied is None or free is None:
        return
    same(tied.log_z, free.log_z)
    np.testing.assert_allclose(tied.mu_factor, free.mu_factor, atol=1e-10)
    scattered = np.zeros(graph.layout.n_cells)
    for f in range(graph.n_factors):
        scattered[graph.layout.cells(f)] += free.factor_marginal(f).ravel()
    np.testing.assert_allclose(tied.mu, scattered, atol=1e-10)


@pytest.mark.parametrize("cls", bl.methods(task="infer"), ids=lambda cls: cls.name)
@given(data=st.data(), structure=structures())
@examples(120)
def test_every_answer_is_a_number_and_impossible_models_are_errors(
    cls: type[bl.Method], data: st.DataObject, structure: tuple[list[int], list[list[int]]]
) -> None:
    """Hard zeros anywhere, ranges of hundreds of nats, evidence that may be impossible: never nan, never a lie."""
    card, scopes = structure
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    share, scale = data.draw(st.sampled_from([0.0, 0.3, 0.6])), data.draw(st.sampled_from([1.0, 300.0]))
    tables = []
    for scope in scopes:
        table = scale * rng.normal(size=[card[v] for v in scope])
        tables.append((tuple(scope), np.where(rng.random(table.shape) < share, -np.inf, table)))
    graph = rebuilt(card, tables)
    seen = {v: int(rng.integers(card[v])) for v in data.draw(subsets(len(card)))}
    truth = reference.log_z(reference.joint_table(graph, seen))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        try:
            result = bl.infer(graph.condition(seen), cls())
        except bl.ZeroProbabilityError:
            assert truth == -np.inf
            return
    assert not np.isnan(result.log_z) and not np.isnan(result.mu_var).any() and not np.isnan(result.mu).any()
    room = 1e-9 * max(1.0, abs(truth)) if truth > -np.inf else 0.0
    assert result.log_lower <= truth + room and truth - room <= result.log_upper
    if truth == -np.inf:
        assert result.bound is not bl.Bound.EXACT and cls.iterative


@given(data=st.data(), graph=factor_graphs())
@examples(60)
def test_every_exact_engine_gives_the_same_answers(data: st.DataObject, graph: bl.FactorGraph) -> None:
    seen = data.draw(possible_evidence(graph))
    hidden = [v for v in range(graph.n_vars) if v not in seen]
    query = [hidden[i] for i in data.draw(subsets(len(hidden)))]
    given_ = graph.condition(seen)
    truth = reference.joint_table(graph, seen)
    for method in ("enumeration", "elimination", "junction_tree"):
        same(bl.infer(given_, method).log_z, reference.log_z(truth))
        same(bl.maximize(given_, method).log_score, reference.maximum(truth))
        same(bl.marginal_map(given_, query, method).log_value, float(reference.query_values(truth, query).max()))
