"""Cutsets, and the lower bound on log Z from their heaviest assignments."""

from __future__ import annotations

import math

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.inference.base import Problem, Task
from beliefs.inference.clusters.partition import partition
from beliefs.inference.orders.chosen import chosen_order
from beliefs.inference.search.cutset import CutsetSearch, cutset
from families import FAMILIES, evidence, family, oracle


@pytest.mark.parametrize("log2_cells", [2.0, 5.0, 8.0])
def test_what_a_cutset_leaves_is_small(log2_cells: float) -> None:
    layout = bl.datasets.make_ising_grid(12, seed=0).layout
    order = chosen_order(Problem(bl.datasets.make_ising_grid(12, seed=0)), "auto")
    cut = cutset(layout, order, log2_cells)
    clusters = partition(layout, order, order.width)
    left = [
        sum(v not in set(cut.tolist()) for v in clusters.order[clusters.axes[a:b]])
        for a, b in zip(clusters.axes_ptr[:-1], clusters.axes_ptr[1:])
    ]
    assert max(left) <= log2_cells and 0 < cut.size < layout.n_vars and (np.diff(cut) > 0).all()


def test_a_model_that_is_small_enough_needs_none() -> None:
    graph = family("chain")
    assert cutset(graph.layout, chosen_order(Problem(graph), "auto"), 20.0).size == 0
    with pytest.raises(bl.UnsupportedError, match="nothing to cut"):
        CutsetSearch().init(Problem(graph))


@pytest.mark.parametrize("observed", [0, 2])
@pytest.mark.parametrize("name", list(FAMILIES))
def test_every_sum_of_terms_is_a_lower_bound_and_it_only_rises(name: str, observed: int) -> None:
    problem = Problem(family(name).condition(evidence(name, observed)))
    method = CutsetSearch(log2_cells=1.0, moves=1)
    try:
        state = method.init(problem)
    except bl.UnsupportedError:
        pytest.skip("nothing to cut")
    truth, before = reference.log_z(oracle(name, observed)), -math.inf
    for _ in range(20):
        residual = method.step(state)
        value = method.value(state)
        assert before <= value.lower <= truth + 1e-9 * max(1.0, abs(truth)) and value.upper == math.inf
        before = value.lower
        if residual == 0:
            break
    assert before > -math.inf


def test_all_terms_together_are_the_truth() -> None:
    graph = family("complete")
    method = CutsetSearch(log2_cells=5.0)
    state = method.init(Problem(graph))
    for states in np.ndindex(*graph.layout.card[state.query]):
        state.evaluator.log_value(np.array(states))
    assert method.value(state).lower == pytest.approx(reference.log_z(oracle("complete")), rel=1e-12)


def test_it_goes_on_from_where_it_was_and_has_no_marginals() -> None:
    graph = family("hard_zeros")
    method = CutsetSearch(log2_cells=2.0)
    state = method.init(Problem(graph))
    method.step(state)
    again = method.init(Problem(graph), method.warm_state(state))
    assert again.value.value == pytest.approx(state.value.value)
    with pytest.raises(bl.UnsupportedError, match="no marginals"):
        method.finish(state)
    assert method.tasks == (Task.INFER,)
