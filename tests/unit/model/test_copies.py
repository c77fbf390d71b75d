"""Models and results survive pickling and copying: equal numbers, and arrays that stay read-only."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import beliefs as bl


@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_models_stay_immutable(again) -> None:  # type: ignore[no-untyped-def]
    bn = bl.datasets.load_bn("asia")
    bl.infer(bn)
    other = again(bn)
    graph = other.condition({"xray": "yes"})
    for array in (other.probabilities, other.graph.theta, other.graph.layout.card, other.graph.evidence_states):
        assert not array.flags.writeable
    assert bl.infer(graph).log_z == bl.infer(bn.condition({"xray": "yes"})).log_z
    assert len(other.graph.layout._plans) < len(bn.graph.layout._plans) or not bn.graph.layout._plans


def test_results_can_be_pickled_and_go_on_answering() -> None:
    result = bl.infer(bl.datasets.load_bn("asia"))
    again = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(again.mu_var, result.mu_var)
    np.testing.assert_allclose(again.marginal(["asia", "smoke"]), result.marginal(["asia", "smoke"]), rtol=1e-12)


def test_new_factors_on_observed_variables_are_sliced() -> None:
    g = bl.FactorGraph.from_tables([2, 3], [((0, 1), np.arange(1, 7.0).reshape(2, 3))])
    extra: list[Any] = [((0,), [5.0, 7.0]), ((1, 0), np.arange(6.0).reshape(3, 2))]
    late, early = g.condition({0: 1}).with_factors(extra), g.with_factors(extra).condition({0: 1})
    for method in ("enumeration", "elimination", "junction_tree", "bp"):
        assert bl.infer(late, method).log_z == pytest.approx(bl.infer(early, method).log_z, rel=1e-12)
    with pytest.raises(bl.ModelError, match=r"the new factor over \(x0\) must have shape \(2,\), found \(3,\)"):
        g.with_factors([((0,), [1.0, 2.0, 3.0])])


def test_logs_whose_sums_would_overflow_are_refused() -> None:
    with pytest.raises(bl.ModelError, match=r"\(up to 1e\+200\), found 1e\+308"):
        bl.FactorGraph.from_tables([2], [((0,), [1e308, 0.0])], log=True)
    huge = 1e200 * np.array([[1, 0.5], [0.5, 0.2]])
    graph = bl.FactorGraph.from_tables([2] * 3, [((0, 1), huge), ((1, 2), huge)], log=True)
    for method in ("enumeration", "elimination", "junction_tree", "bp"):
        result = bl.infer(graph, method)
        assert result.log_z == pytest.approx(2e200) and np.isfinite(result.mu_var).all()
