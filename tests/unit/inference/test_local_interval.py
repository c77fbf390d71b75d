"""What tables say one by one, against enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.inference.search.local_interval import local_interval, score_of_a_state
from beliefs.model import FactorGraph
from beliefs.model.layout import Layout
from families import FAMILIES, evidence, family, oracle


@pytest.mark.parametrize("observed", [0, 1])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_the_truth_is_within(name: str, observed: int) -> None:
    graph = family(name).condition(evidence(name, observed))
    truth = reference.log_z(oracle(name, observed))
    found = local_interval(graph)
    assert found.lower <= truth <= found.upper == found.log_z and found.lower < found.upper
    if (graph.theta > -np.inf).all():
        assert math.isfinite(found.lower)
    score = score_of_a_state(graph, seed=0)
    assert -math.inf < score <= truth


def test_each_temperature() -> None:
    graph = bl.FactorGraph.from_tables([2, 3], [((0, 1), [[1, 2, 3], [4, 5, 6]]), ((1,), [1, 1, 2])])
    logs = np.log([1, 2, 3, 4, 5, 6]).mean() + np.log([1, 1, 2]).mean()
    for tau, states in (([1, 1], 6), ([0, 1], 3), ([1, 0], 2), ([0, 0], 1)):
        found = local_interval(graph, np.array(tau, float))
        assert found.lower == pytest.approx(logs + np.log(states), abs=1e-12)
        assert found.upper == pytest.approx(np.log(12 * states), abs=1e-12)


def test_constants_and_tied_tables_and_variables_in_no_factor() -> None:
    model = bl.FactorGraph.from_tables([2, 2, 5], [((), 3.0), ((0, 1), [[1, 1], [1, 1]])])
    found = local_interval(model)
    assert found.lower <= math.log(60) <= found.upper and found.upper - found.lower < 1e-10
    assert local_interval(bl.FactorGraph.from_tables([4], [])).upper == pytest.approx(math.log(4))
    layout = Layout.build([2, 2, 2], [0, 2, 4], [0, 1, 1, 2], [0, 0])
    found = local_interval(FactorGraph.build(layout, np.log([1.0, 4.0, 4.0, 1.0])))
    assert found.lower == pytest.approx(math.log(8 * 4)) and found.upper == pytest.approx(math.log(8 * 16))


def test_a_table_of_zeros_leaves_nothing() -> None:
    found = local_interval(bl.FactorGraph.from_tables([2, 2], [((0, 1), [[0, 0], [0, 0]])]))
    assert found.lower == found.upper == -math.inf
    with pytest.raises(bl.ZeroProbabilityError):
        score_of_a_state(bl.FactorGraph.from_tables([2], [((0,), [1, 1]), ((), 0.0)]), seed=0)
