"""What must not matter, and what must move along: names, order, splitting, scale, evidence.

Hypothesis draws the graphs, and :data:`PROMISES` says who promises what on which of them. An exact method promises all
of it everywhere. A method that seeks a fixed point promises it where there is one fixed point only: on weakly coupled
graphs, however loopy. A bound that depends on how buckets are divided or which trees are drawn, and so on the order of
variables and factors, promises what leaves that order alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import beliefs as bl
import reference
from strategies import (
    examples,
    factor_graphs,
    forests,
    pairwise_graphs,
    possible_evidence,
    structures,
    subsets,
    tied_graphs,
)

WEAK = 0.3  # standard deviation of log potentials: so little that every method here has one fixed point
ANYTHING, TREES = factor_graphs(), forests()
LOOPY, PAIRS = factor_graphs(zeros=False, scales=(WEAK,)), pairwise_graphs(WEAK)
EVERY_WAY = "variables states order split shift union tied evidence indicator"


@dataclass(frozen=True)
class Promise:
    """What a method promises on some graphs.

    Attributes
    ----------
    kept : str
        What may be done to the model: number the ``variables`` or the ``states`` anew, change the ``order`` of factors
        and their axes, ``split`` a factor in two, ``shift`` one by a constant, look at a ``union``, write ``tied``
        tables out, give ``evidence`` at once or piece by piece, or as the ``indicator`` factor of a state.
    tol, marginal_tol : float
        How close log Z (relative beyond 1) and marginals must be.
    exact : bool
        Whether the answer is exact on these graphs; then it must say so.
    max_iters, run_tol
        Options of the run, so that a method that iterates is at its end; None: the method's own. With a ``run_tol`` of
        0 it need not be: where the end takes long, answers after as many iterations must agree.
    """

    method: str
    graphs: st.SearchStrategy[bl.FactorGraph]
    kept: str
    tol: float = 1e-10
    marginal_tol: float = 1e-9
    exact: bool = False
    max_iters: int | None = None
    run_tol: float | None = None

    def __str__(self) -> str:
        return f"{self.method} on {NAMES[id(self.graphs)]}"

    def solved(self, graph: bl.FactorGraph) -> bl.InferenceResult:
        """The answer, which must be at its end: exact where that is claimed, converged elsewhere."""
        options: dict[str, Any] = {"tol": self.run_tol, "max_iters": self.max_iters}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.ConvergenceWarning)
            result = bl.infer(graph, self.method, **{k: v for k, v in options.items() if v is not None})
        assert result.bound is bl.Bound.EXACT or not self.exact
        assert result.converged or self.run_tol == 0.0 or self.method in ("gibbs", "likelihood_weighting")
        return result

    def same(self, value: float, truth: float) -> None:
        assert value == pytest.approx(truth, rel=self.tol, abs=self.tol)

    def alike(self, marginals: Any, others: Any) -> None:
        np.testing.assert_allclose(marginals, others, rtol=0, atol=self.marginal_tol)

    def agree(self, result: bl.InferenceResult, other: bl.InferenceResult, shift: float = 0.0) -> None:
        self.same(result.log_z, other.log_z + shift)
        self.alike(result.mu_var, other.mu_var)

    @property
    def constants(self) -> tuple[float, ...]:
        """What tables may be shifted by: bounds are sought to a relative precision, so little by little."""
        return (-700.0, -1.5, 3.0, 1e4) if self.exact else (-1.5, 3.0)

    @property
    def tied(self) -> st.SearchStrategy[bl.FactorGraph]:
        return tied_graphs(1.0 if self.exact else WEAK, chain=self.graphs is TREES)


NAMES = {id(ANYTHING): "any graph", id(TREES): "forests", id(LOOPY): "weak couplings", id(PAIRS): "weak pairs"}
FIXED: dict[str, Any] = {"tol": 1e-9, "marginal_tol": 1e-8, "run_tol": 1e-12}
AS_LONG: dict[str, Any] = {"tol": 1e-9, "marginal_tol": 1e-5, "run_tol": 0.0, "max_iters": 50}
UNSPLIT = EVERY_WAY.replace("split ", "")
REWEIGHTED = UNSPLIT.replace(
    " indicator", ""
)  # evidence opens cycles, and counting numbers follow; an indicator does not
IN_PLACE = "states shift tied"
PROMISES: tuple[Promise, ...] = (
    Promise("enumeration", ANYTHING, EVERY_WAY, exact=True),
    Promise("elimination", ANYTHING, EVERY_WAY, exact=True),
    Promise("junction_tree", ANYTHING, EVERY_WAY, exact=True),
    Promise("bp", TREES, UNSPLIT, exact=True),  # a factor and its half close a cycle
    Promise("bp", LOOPY, UNSPLIT, **FIXED),  # and on cycles halves count evidence twice, as designed
    Promise("fractional_bp", LOOPY, REWEIGHTED, **FIXED),  # counting numbers follow from how many factors there are
    Promise("trw(rho=uniform)", PAIRS, REWEIGHTED, **FIXED),
    Promise("trw", LOOPY, IN_PLACE, **FIXED),  # forests are sampled factor by factor
    Promise("ijgp", ANYTHING, EVERY_WAY, exact=True),  # so small that nothing is split
    Promise("gbp", LOOPY, "states order shift tied", **FIXED),  # loops are chosen by the numbers of variables
    Promise("double_loop", LOOPY, "states order shift tied", tol=1e-8, marginal_tol=1e-5, run_tol=1e-9),
    Promise("convex_gbp", LOOPY, "states order shift tied", tol=1e-8, marginal_tol=1e-4, run_tol=1e-14),
    Promise("mean_field", LOOPY, EVERY_WAY, **FIXED),  # its objective knows only the sum of all factors
    Promise("mean_field(structure=tree)", LOOPY, IN_PLACE, **FIXED),  # the tree is chosen factor by factor
    Promise("mini_bucket(ibound=1)", LOOPY, IN_PLACE),  # buckets are divided in the order of factors
    Promise("wmb(ibound=1)", LOOPY, "states shift", **AS_LONG),
    Promise("gdd(ibound=1)", LOOPY, "states shift", **AS_LONG),
    Promise("gibbs", LOOPY, "shift", max_iters=20),  # the same draws; all else draws anew
    Promise("likelihood_weighting", LOOPY, "shift", max_iters=2),  # likewise
)


def promised(what: str, draws: int = 40) -> Callable[[Callable[..., None]], Any]:
    """Parametrise by the promises to keep one thing, and let Hypothesis draw so often for each."""
    assert what in EVERY_WAY.split()
    each = pytest.mark.parametrize("promise", [p for p in PROMISES if what in p.kept.split()], ids=str)
    return lambda test: each(given(data=st.data())(examples(draws)(test)))


def test_every_method_that_infers_promises_something() -> None:
    named = {promise.method.partition("(")[0] for promise in PROMISES}
    assert {cls.name for cls in bl.methods(task="infer") if cls.general} <= named


def tables_of(graph: bl.FactorGraph) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Scopes and log tables, as ``from_tables`` takes them."""
    lay = graph.layout
    return [
        (tuple(int(v) for v in lay.scope(f)), graph.theta[lay.cells(f)].reshape(lay.shape(f)))
        for f in range(lay.n_factors)
    ]


def rebuilt(card: Sequence[int] | np.ndarray, tables: list[tuple[tuple[int, ...], np.ndarray]]) -> bl.FactorGraph:
    return bl.FactorGraph.from_tables(card, tables, log=True)


@promised("variables")
def test_numbering_variables_anew_moves_the_marginals_with_them(promise: Promise, data: st.DataObject) -> None:
    graph = data.draw(promise.graphs)
    new_place = data.draw(st.permutations(range(graph.n_vars)))
    card = np.empty(graph.n_vars, int)
    card[new_place] = graph.layout.card
    moved = rebuilt(card, [(tuple(new_place[v] for v in scope), t) for scope, t in tables_of(graph)])
    before, after = promise.solved(graph), promise.solved(moved)
    promise.same(after.log_z, before.log_z)
    for v in range(graph.n_vars):
        promise.alike(after.marginal(new_place[v]), before.marginal(v))
    promise.alike(after.mu, before.mu)


@promised("states")
def test_permuting_states_permutes_marginals(promise: Promise, data: st.DataObject) -> None:
    graph = data.draw(promise.graphs)
    shuffled = [np.array(data.draw(st.permutations(range(k)))) for k in graph.layout.card]
    tables = [
        (scope, t[np.ix_(*(shuffled[v] for v in scope))] if scope else t) for scope, t in tables_of(graph)
    ]  # state y of the new model is state shuffled[y] of the old
    before, after = promise.solved(graph), promise.solved(rebuilt(graph.layout.card, tables))
    promise.same(after.log_z, before.log_z)
    for v in range(graph.n_vars):
        promise.alike(after.marginal(v), before.marginal(v)[shuffled[v]])


@promised("order")
def test_the_order_of_factors_and_of_axes_does_not_matter(promise: Promise, data: st.DataObject) -> None:
    graph = data.draw(promise.graphs)
    tables = tables_of(graph)
    order = data.draw(st.permutations(range(len(tables))))
    turned = []
    for f in order:
        scope, table = tables[f]
        axes = data.draw(st.permutations(range(len(scope))))
        turned.append((tuple(scope[a] for a in axes), table.transpose(axes)))
    before, after = promise.solved(graph), promise.solved(rebuilt(graph.layout.card, turned))
    promise.agree(after, before)


@promised("split")
def test_splitting_a_factor_changes_nothing_and_doubling_it_is_doubling_its_table(
    promise: Promise, data: st.DataObject
) -> None:
    graph = data.draw(promise.graphs)
    tables = tables_of(graph)
    assume(tables)
    f = data.draw(st.integers(0, len(tables) - 1))
    scope, table = tables[f]
    noise = WEAK * np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=table.shape)
    split = rebuilt(graph.layout.card, [*tables[:f], (scope, table - noise), *tables[f + 1 :], (scope, noise)])
    doubled = rebuilt(graph.layout.card, [*tables[:f], (scope, 2 * table), *tables[f + 1 :]])
    twice = rebuilt(graph.layout.card, [*tables, (scope, table)])
    for one, other in ((graph, split), (doubled, twice)):
        before, after = promise.solved(one), promise.solved(other)
        promise.agree(after, before)


@promised("shift")
def test_shifting_a_table_shifts_log_z_and_nothing_else(promise: Promise, data: st.DataObject) -> None:
    graph = data.draw(promise.graphs)
    assume(graph.n_factors)
    f, c = data.draw(st.integers(0, graph.n_factors - 1)), data.draw(st.sampled_from(promise.constants))
    theta = graph.theta.copy()
    theta[graph.layout.cells(f)] += c
    before, after = promise.solved(graph), promise.solved(graph.with_theta(theta))
    promise.agree(after, before, c)
    promise.alike(after.mu, before.mu)


@promised("union")
def test_a_union_multiplies_partition_functions(promise: Promise, data: st.DataObject) -> None:
    first, second = data.draw(promise.graphs), data.draw(promise.graphs)
    assume(np.prod(first.layout.card) * np.prod(second.layout.card) <= 20000)
    one, two, both = promise.solved(first), promise.solved(second), promise.solved(first.union(second))
    promise.same(both.log_z, one.log_z + two.log_z)
    promise.alike(both.mu_var, np.concatenate([one.mu_var, two.mu_var]))
    promise.alike(both.mu, np.concatenate([one.mu, two.mu]))


@promised("indicator")
def test_evidence_is_slicing_and_an_indicator_factor_says_the_same(promise: Promise, data: st.DataObject) -> None:
    graph = data.draw(promise.graphs)
    seen = data.draw(possible_evidence(graph))
    sliced = promise.solved(graph.condition(seen))
    if promise.exact:
        joint = reference.joint_table(graph, seen)
        promise.same(sliced.log_z, reference.log_z(joint))
        promise.alike(sliced.mu_var, reference.mu_var(joint))
    soft = promise.solved(graph.with_likelihood({v: np.eye(int(graph.layout.card[v]))[x] for v, x in seen.items()}))
    promise.agree(soft, sliced)


@promised("evidence")
def test_evidence_may_come_at_once_or_piece_by_piece(promise: Promise, data: st.DataObject) -> None:
    graph = data.draw(promise.graphs)
    seen = data.draw(possible_evidence(graph))
    whole = graph.condition(seen)
    piecewise = graph
    for v, x in seen.items():
        piecewise = piecewise.condition({v: x})
    piecewise = piecewise.condition(seen)
    assert piecewise.layout.equals(whole.layout) and piecewise.theta.tobytes() == whole.theta.tobytes()
    one, other = promise.solved(whole), promise.solved(piecewise)
    assert one.log_z == other.log_z and one.mu.tobytes() == other.mu.tobytes()


@promised("tied", 30)
def test_tied_tables_answer_as_their_copies_do(promise: Promise, data: st.DataObject) -> None:
    graph = data.draw(promise.tied)
    copies = rebuilt(graph.layout.card, tables_of(graph))
    tied, free = promise.solved(graph), promise.solved(copies)
    promise.same(tied.log_z, free.log_z)
    promise.alike(tied.mu_factor, free.mu_factor)
    scattered = np.zeros(graph.layout.n_cells)
    for f in range(graph.n_factors):
        scattered[graph.layout.cells(f)] += free.factor_marginal(f).ravel()
    promise.alike(tied.mu, scattered)


@pytest.mark.parametrize("cls", [c for c in bl.methods(task="infer") if c.general], ids=lambda cls: cls.name)
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


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-10, abs=1e-10)


@given(data=st.data(), graph=factor_graphs())
@examples(60)
def test_every_exact_engine_gives_the_same_answers(data: st.DataObject, graph: bl.FactorGraph) -> None:
    seen = data.draw(possible_evidence(graph))
    hidden = [v for v in range(graph.n_vars) if v not in seen]
    query = [hidden[i] for i in data.draw(subsets(len(hidden)))]
    given_ = graph.condition(seen)
    truth = reference.joint_table(graph, seen)
    for method in ("enumeration", "elimination", "junction_tree"):
        value = bl.marginal_map(given_, query, method).log_value
        assert bl.infer(given_, method).log_z == near(reference.log_z(truth))
        assert bl.maximize(given_, method).log_score == near(reference.maximum(truth))
        assert value == near(float(reference.query_values(truth, query).max()))
