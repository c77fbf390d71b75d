"""Equal models: the same variables, states, factors, numbers and evidence, wherever they came from."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import beliefs as bl


def graph(first: float = 0.0, **more: Any) -> bl.FactorGraph:
    return bl.FactorGraph.from_tables([2, 3], [((0, 1), np.arange(6.0) + first), ((1,), [1, 2, 3])], log=True, **more)


def check_different(one: Any, others: list[Any]) -> None:
    for other in others:
        assert one != other and other != one


def test_graphs_are_equal_by_what_they_hold() -> None:
    one = graph()
    same = [graph(), graph(names=["x0", "x1"]), graph(states=[None, ["0", "1", "2"]]), pickle.loads(pickle.dumps(one))]
    same += [bl.FactorGraph.from_factors(list(one.factors)), one.with_theta(one.theta), graph(-0.0)]
    for other in same:
        assert one == other and hash(one) == hash(other)
    assert len({one, *same}) == 1
    others = [graph(1.0), graph(names=["a", "b"]), graph(states=[["n", "y"], None]), one.condition({0: 1})]
    check_different(one, [*others, one.with_factors([((0,), [0.0, 0.0])]), "graph", None])
    assert one.condition({0: 1}) == one.condition({"x0": "1"}) != one.condition({0: 0})
    assert list(one.factors) == list(graph().factors) and one.factors[0] != one.factors[1]
    assert len({one.factors[0], graph().factors[0]}) == 1
    assert one.variables == graph().variables != graph(names=["a", "b"]).variables
    assert one.layout == graph().layout and hash(one.layout) == hash(graph().layout)


def test_networks_are_equal_by_their_tables() -> None:
    asia = bl.datasets.load_bn("asia")
    again = bl.BayesianNetwork.from_cpts(
        list(asia.variables), {v.name: (asia.parents(v.name), asia.cpt(v.name)) for v in asia.variables}
    )
    assert asia == again and hash(asia) == hash(again) and asia != asia.graph
    rain = bl.Variable("Rain", 2)
    one, two = (bl.BayesianNetwork.from_cpts([rain], {"Rain": ([], p)}) for p in ([0.8, 0.2], [0.7, 0.3]))
    check_different(one, [two, asia])


def test_machines_are_equal_by_their_numbers() -> None:
    def machine(kind: Any = bl.RBM, w: float = 1.0, **more: Any) -> Any:
        return kind(np.array([[w, 2.0]]), **more)

    one, same = machine(), machine(visible_bias=[0.0])
    assert one.counts.sum() == 2.0  # looked at, and kept
    assert one == same and hash(one) == hash(same) and pickle.loads(pickle.dumps(one)) == one
    check_different(one, [machine(w=3.0), machine(bl.FractionalRBM), bl.RBM(np.array([[1.0, 2.0]], np.float32))])
    assert machine(bl.FractionalRBM, counts=[1, 2]) == machine(bl.FractionalRBM, counts=[1, 2])
    check_different(machine(bl.FractionalRBM, counts=[1, 2]), [machine(bl.FractionalRBM)])
    one, two = (bl.CRBM([[1.0]], [[x]], [[0.0]]) for x in (1.0, 2.0))
    check_different(one, [two])
    assert one.given([[1.0]]) == one.given([[1.0]]) != one.given([[2.0]])


@pytest.mark.parametrize("method", ["bp", "gibbs"])
def test_a_warm_start_takes_an_equal_model(method: str) -> None:
    first = bl.infer(graph(), method)
    assert bl.infer(graph(), method, init=first).model == first.model
