"""The greedy colouring: proper, in the order promised, and the one that the definition gives."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.orders.colouring import colouring
from families import FAMILIES, family, grid_pairs, random_model


def neighbours(graph: bl.FactorGraph) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(graph.n_vars)]
    for f in range(graph.n_factors):
        scope = {int(v) for v in graph.layout.scope(f)}
        for v in scope:
            found[v] |= scope - {v}
    return found


def greedy(graph: bl.FactorGraph) -> list[int]:
    """The definition, in sets."""
    colours: list[int] = []
    for v, near in enumerate(neighbours(graph)):
        taken = {colours[u] for u in near if u < v}
        colours.append(min(set(range(v + 1)) - taken))
    return colours


def colours_of(graph: bl.FactorGraph) -> list[int]:
    plan = colouring(graph.layout)
    colours = np.full(graph.n_vars, -1)
    for c in range(plan.n_colours):
        members = plan.order[plan.colour_ptr[c] : plan.colour_ptr[c + 1]]
        assert members.size and (np.diff(members) > 0).all()
        colours[members] = c
    return colours.tolist()


@pytest.mark.parametrize("name", list(FAMILIES))
def test_families_get_the_greedy_colouring(name: str) -> None:
    graph = family(name)
    colours = colours_of(graph)
    assert colours == greedy(graph)
    assert all(colours[u] != colours[v] for v, near in enumerate(neighbours(graph)) for u in near)


def test_random_graphs_get_the_greedy_colouring() -> None:
    rng = np.random.default_rng(0)
    for seed in range(30):
        scopes = [tuple(rng.choice(14, size=rng.integers(1, 5), replace=False)) for _ in range(20)]
        graph = random_model([2] * 14, scopes, seed=seed)
        assert colours_of(graph) == greedy(graph)


def test_a_grid_is_a_chessboard() -> None:
    graph = bl.FactorGraph.pairwise(np.zeros((35, 2)), grid_pairs(5, 7), np.zeros((2, 2)))
    assert colours_of(graph) == [(r + c) % 2 for r in range(5) for c in range(7)]


def test_observed_variables_stand_in_nobodys_way_and_the_plan_is_kept() -> None:
    graph = random_model([2] * 3, [(0, 1), (1, 2), (0, 2)], seed=0)
    seen = graph.condition({1: 0})
    assert colouring(graph.layout).n_colours == 3
    assert colouring(seen.layout).order.tolist() == [0, 1, 2] and colours_of(seen) == [0, 0, 1]
    assert colouring(seen.layout) is colouring(seen.layout)
    assert not colouring(seen.layout).order.flags.writeable
