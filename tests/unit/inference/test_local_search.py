"""Local search: never worse, local maxima indeed, exact on forests, and values of marginal-MAP assignments."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.inference.base import Problem, Task
from beliefs.inference.messages.decoding import Moves
from beliefs.inference.search.forest_moves import Forests, forest_moves
from beliefs.inference.search.icm import icm
from beliefs.inference.search.query_value import query_value
from families import FAMILIES, evidence, family, grid_pairs, oracle, random_model, random_models, unary

ROOM = 1e-9


def key(graph: bl.FactorGraph, states: np.ndarray) -> tuple[int, float]:
    """How search compares states: minus the cells of ``-inf``, then the sum of the others."""
    cells = [
        float(graph.theta[graph.layout.cells(f)].reshape(graph.layout.shape(f))[tuple(states[graph.layout.scope(f)])])
        for f in range(graph.n_factors)
    ]
    return -sum(c == -np.inf for c in cells), sum(c for c in cells if c > -np.inf)


def not_worse(new: tuple[int, float], old: tuple[int, float]) -> bool:
    return new[0] > old[0] or (new[0] == old[0] and new[1] >= old[1] - ROOM * max(1.0, abs(old[1])))


def random_states(graph: bl.FactorGraph, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).integers(graph.layout.card)
    return np.where(graph.layout.observed, graph.evidence_states, drawn)


def neighbours(graph: bl.FactorGraph, states: np.ndarray) -> list[np.ndarray]:
    """All states that differ in one unobserved variable."""
    found = []
    for v in np.flatnonzero(~graph.layout.observed):
        for x in range(int(graph.layout.card[v])):
            found.append(np.where(np.arange(states.size) == v, x, states))
    return found


@pytest.mark.parametrize("observed", [0, 2, 99])
@pytest.mark.parametrize("name", list(FAMILIES))
class TestFamilies:
    def test_conditional_modes_end_where_no_single_change_improves(self, name: str, observed: int) -> None:
        graph = family(name).condition(evidence(name, observed))
        for seed in range(5):
            start = random_states(graph, seed)
            states, score = icm(graph, start)
            assert not_worse(key(graph, states), key(graph, start)) and score == graph.log_score(states)
            assert all(not_worse(key(graph, states), key(graph, other)) for other in neighbours(graph, states))
            assert icm(graph, states)[0].tolist() == states.tolist()

    def test_forest_moves_are_never_worse_and_exact_on_forests(self, name: str, observed: int) -> None:
        graph = family(name).condition(evidence(name, observed))
        optimum = reference.maximum(oracle(name, observed))
        for seed in range(5):
            start = random_states(graph, seed)
            states, score = forest_moves(graph, start, seed=seed)
            assert not_worse(key(graph, states), key(graph, start)) and score == graph.log_score(states)
            assert score <= optimum + ROOM * max(1.0, abs(optimum))
            if reference.is_forest(graph):
                assert score == pytest.approx(optimum, rel=1e-12)
            again, _ = forest_moves(graph, start, seed=seed)
            assert states.tolist() == again.tolist() and states.dtype == np.int64

    def test_values_of_queries(self, name: str, observed: int) -> None:
        graph = family(name).condition(evidence(name, observed))
        hidden = np.flatnonzero(~graph.layout.observed)
        for query in (hidden[:0], hidden[:2], hidden[::-2], hidden):
            states = random_states(graph, 1)[query]
            joint = oracle(name, observed)
            fixed = dict(zip(query.tolist(), states.tolist(), strict=True))
            truth = reference.log_z(reference.joint_table(graph, fixed)) if fixed else reference.log_z(joint)
            found = query_value(graph, query, states)
            assert found.bound is bl.Bound.EXACT and found.lower == found.upper == found.value
            assert found.value == pytest.approx(truth, rel=1e-10, abs=1e-10)


class TestForests:
    @pytest.mark.parametrize("name", list(FAMILIES))
    def test_the_free_set_is_a_maximal_forest(self, name: str) -> None:
        graph = family(name)
        forests = Forests(graph, seed=3)
        for _ in range(5):
            _, is_best = forests.move(random_states(graph, 1))
            free = forests.forest.free.copy()
            assert induces_forest(graph, free) and is_best == (free.sum() == forests.order.size)
            for v in np.flatnonzero(~free & (graph.layout.card > 1)):
                free[v] = True
                assert not induces_forest(graph, free)
                free[v] = False

    @pytest.mark.parametrize("zeros", [0.0, 0.4])
    def test_one_move_is_exact_given_the_clamped_states(self, zeros: float) -> None:
        """Against all joint states of the free variables, violations first."""
        for seed, graph in enumerate(random_models(40, 11, 4, zeros)):
            forests = Forests(graph, seed)
            start = random_states(graph, seed)
            states = start.copy()
            improved, _ = forests.move(states)
            free = forests.forest.free
            assert (states == start)[~free].all()
            best = max(key(graph, row) for row in completions(graph, start, free))
            assert key(graph, states)[0] == best[0] and key(graph, states)[1] == pytest.approx(best[1], abs=1e-9)
            assert (improved > 0) == (states != start).any()

    def test_different_moves_free_different_variables(self) -> None:
        forests, drawn = Forests(family("grid"), 0), set()
        for _ in range(10):
            forests.move(random_states(family("grid"), 0))
            drawn.add(forests.forest.free.tobytes())
        assert len(drawn) > 3


def induces_forest(graph: bl.FactorGraph, free: np.ndarray) -> bool:
    seen = {int(v): 0 for v in np.flatnonzero(~free)}
    return reference.is_forest(graph.condition(seen))


def completions(graph: bl.FactorGraph, states: np.ndarray, free: np.ndarray) -> list[np.ndarray]:
    where = np.flatnonzero(free)
    rows = []
    for joint in reference.joint_states(graph.layout.card[where]):
        row = states.copy()
        row[where] = joint
        rows.append(row)
    return rows


def test_forests_leave_most_local_maxima_of_single_moves() -> None:
    """No proof, but on frustrated 4 x 4 grids forests should arrive far more often than single moves."""
    alone = found = 0
    for seed in range(30):
        graph = random_model([3] * 16, unary(16) + grid_pairs(4, 4), seed=seed)
        optimum = pytest.approx(bl.maximize(graph, "junction_tree").log_score, rel=1e-12)
        states, score = icm(graph, np.zeros(16, np.int64))
        alone += score == optimum
        found += forest_moves(graph, states, seed)[1] == optimum
    assert alone < 10 and found > 20


def test_impossible_states_are_repaired() -> None:
    """Even parity: single moves alone cannot satisfy all three checks, forests can."""
    graph = family("parity")
    for seed in range(20):
        _, score = forest_moves(graph, random_states(graph, seed), seed)
        assert score > -np.inf


def test_ties_keep_the_present_state_and_else_go_to_the_smallest_index() -> None:
    flat = bl.FactorGraph.from_tables([3, 3], [((0, 1), np.ones((3, 3)))])
    assert icm(flat, np.array([2, 1]))[0].tolist() == [2, 1]
    assert forest_moves(flat, np.array([2, 1]))[0].tolist() == [2, 1]
    peaks = bl.FactorGraph.from_tables([4], [((0,), [1, 3, 3, 2])])
    assert icm(peaks, np.array([3]))[0].tolist() == [1] and icm(peaks, np.array([2]))[0].tolist() == [2]
    assert forest_moves(peaks, np.array([3]))[0].tolist() == [1]


def test_the_order_of_conditional_modes_is_the_callers() -> None:
    graph = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [4, 1]])])
    start = np.array([0, 0])
    assert icm(graph, start)[0].tolist() == [1, 0]
    assert icm(graph, start, order=np.array([1, 0]))[0].tolist() == [0, 1]
    assert icm(graph, start, order=np.array([1]))[0].tolist() == [0, 1] and start.tolist() == [0, 0]


def test_no_moves_change_nothing() -> None:
    start = random_states(family("grid"), 0)
    assert forest_moves(family("grid"), start, n_moves=0)[0].tolist() == start.tolist()
    assert forest_moves(family("grid"), start, patience=0)[0].tolist() == start.tolist()


@pytest.mark.parametrize("search", [icm, forest_moves])
def test_bad_assignments_are_named(search: object) -> None:
    graph = family("bayesian_network")
    with pytest.raises(bl.ModelError, match=r"an assignment must have shape \(5,\), found \(3,\)"):
        search(graph, np.zeros(3, np.int64))  # type: ignore[operator]
    with pytest.raises(bl.ModelError, match=r"variable 'Grass' has states 0\.\.2"):
        search(graph, np.array([0, 3, 0, 0, 0]))  # type: ignore[operator]


def test_strides_are_those_of_the_tables() -> None:
    for name in FAMILIES:
        layout = family(name).layout
        expected = [np.zeros(layout.shape(f)).strides for f in range(layout.n_factors)]
        assert layout.edge_stride.tolist() == [s // 8 for strides in expected for s in strides]


def test_moves_on_large_models_wait_for_messages_and_go_on_from_the_best_state() -> None:
    side = 120
    graph = random_model([2] * side**2, unary(side**2) + grid_pairs(side, side), seed=0)
    problem, moves = Problem(graph, Task.MAXIMIZE), Moves(graph.layout)
    first, second = (random_states(graph, seed) for seed in (0, 1))
    moves.allow(4, settled=False)
    assert moves.made(problem, first)[1] == icm(graph, first)[1]
    moves.allow(8, settled=False)
    row, score = moves.made(problem, first)
    assert score == graph.log_score(row) > icm(graph, first)[1]
    moves.allow(8 + 3 * 160, settled=False)
    later, more = moves.made(problem, second)  # which is worse after coordinate ascent
    assert icm(graph, second)[1] < score < more and (later != row).mean() < 0.1
    moves.allow(8 + 3 * 160, settled=True)
    assert moves.made(problem, second)[1] == icm(graph, second)[1]  # all that were due are made
