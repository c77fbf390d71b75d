"""The search for a state of positive weight: what it finds is possible, and its proofs are true."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.inference.search.feasible import feasible_state
from families import FAMILIES, evidence, family, unary

HARD = -np.inf


def constraints(n: int, arity: int, n_scopes: int, zeros: float, seed: int) -> bl.FactorGraph:
    """Random tables of zeros and minus infinities."""
    rng = np.random.default_rng(seed)
    card = rng.integers(2, 4, n)
    scopes = [tuple(rng.choice(n, size=rng.integers(1, arity + 1), replace=False)) for _ in range(n_scopes)]
    tables = [(s, np.where(rng.random([card[v] for v in s]) < zeros, HARD, 0.0)) for s in scopes]
    return bl.FactorGraph.from_tables(card, tables, log=True)


@pytest.mark.parametrize("observed", [0, 2, 99])
@pytest.mark.parametrize("name", list(FAMILIES))
def test_families_have_a_state(name: str, observed: int) -> None:
    graph = family(name).condition(evidence(name, observed))
    for seed in range(5):
        states = feasible_state(graph, seed)
        assert states is not None and states.dtype == np.int64 and graph.log_score(states) > HARD


def test_states_are_found_exactly_where_there_are_some() -> None:
    possible = 0
    for seed in range(300):
        graph = constraints(8, 3, 10, 0.4, seed)
        if (reference.joint_table(graph) > HARD).any():
            possible += 1
            states = feasible_state(graph, seed)
            assert states is not None and graph.log_score(states) > HARD
        else:
            with pytest.raises(bl.ZeroProbabilityError, match=r"weight zero \(Z = 0\)"):
                feasible_state(graph, seed)
    assert 50 < possible < 250


def test_a_proof_that_needs_backtracking() -> None:
    """A complete graph of four variables cannot have three colours, though every edge is arc consistent."""
    edges = [(u, v) for u in range(4) for v in range(u)]
    graph = bl.FactorGraph.pairwise(np.zeros((4, 3)), edges, np.where(np.eye(3) > 0, HARD, 0.0))
    with pytest.raises(bl.ZeroProbabilityError):
        feasible_state(graph)
    with pytest.raises(bl.ZeroProbabilityError, match="x0=1, x1=1"):
        feasible_state(graph.condition({0: 1, 1: 1}))
    fewer = bl.FactorGraph.pairwise(np.zeros((4, 3)), edges[1:], np.where(np.eye(3) > 0, HARD, 0.0))
    assert feasible_state(fewer) is not None


def test_random_colourings_that_need_restarts() -> None:
    """Random graphs that hide three colours, as dense as is hard to colour."""
    rng = np.random.default_rng(1)
    for seed in range(10):
        edges = rng.integers(150, size=(525, 2))
        edges = edges[edges[:, 0] % 3 != edges[:, 1] % 3]
        graph = bl.FactorGraph.pairwise(np.zeros((150, 3)), edges, np.where(np.eye(3) > 0, HARD, 0.0))
        states = feasible_state(graph, seed)
        assert states is not None and graph.log_score(states) == 0.0


def test_effort_is_kept() -> None:
    """Pigeons and holes: an exponential proof, which no effort of this size can finish."""
    different = np.where(np.eye(11) > 0, HARD, 0.0)
    edges = [(u, v) for u in range(12) for v in range(u)]
    graph = bl.FactorGraph.pairwise(np.zeros((12, 11)), edges, different)
    assert feasible_state(graph, effort=100_000) is None


def test_the_seed_decides() -> None:
    graph = family("hard_zeros")
    drawn = [feasible_state(graph, seed) for seed in range(20)]
    again = [feasible_state(graph, seed) for seed in range(20)]
    np.testing.assert_array_equal(drawn, again)
    assert len({tuple(states) for states in drawn if states is not None}) > 3


def test_without_zeros_every_state_can_be_drawn() -> None:
    graph = bl.FactorGraph.from_tables([2, 3], [(scope, np.ones(k)) for scope, k in zip(unary(2), (2, 3), strict=True)])
    drawn = {tuple(feasible_state(graph, seed)) for seed in range(200)}  # type: ignore[arg-type]
    assert drawn == set(reference.joint_states([2, 3]))


def test_a_constant_of_weight_zero_and_a_table_of_zeros_are_proofs() -> None:
    for scope, table in (((), HARD), ((0, 1), np.full((2, 2), HARD))):
        graph = bl.FactorGraph.from_tables([2, 2], [(scope, table)], log=True)
        with pytest.raises(bl.ZeroProbabilityError):
            feasible_state(graph)
