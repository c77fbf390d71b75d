"""Likelihood weighting: its weights by hand, its estimates against exact answers, and what it says of itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.sampling.likelihood_weighting import proposals

METHOD = "likelihood_weighting"


def weighted(model: Any, **options: Any) -> Any:
    """The answer, which has more than others."""
    return bl.infer(model, METHOD, **options)


def test_without_evidence_every_draw_has_weight_one() -> None:
    result = weighted(bl.datasets.load_bn("asia"), max_iters=2)
    assert result.n_samples == 2000 and result.effective_sample_size == pytest.approx(2000)
    assert result.log_z == pytest.approx(0.0, abs=1e-12) and result.standard_error == pytest.approx(0.0, abs=1e-6)


def test_weights_are_the_likelihood_of_the_evidence() -> None:
    """A with P(A) = (3/4, 1/4) and an observed child of likelihood (0.2, 0.8): two weights, known probabilities."""
    a, b = bl.Variable("A", 2), bl.Variable("B", 2)
    bn = bl.BayesianNetwork.from_cpts([a, b], {"A": ([], [0.75, 0.25]), "B": (["A"], [[0.8, 0.2], [0.2, 0.8]])})
    result = weighted(bn.condition({"B": 1}))
    ones = result.mu_var[1] * math.exp(result.log_z) / 0.8  # the share of draws with A = 1, from its weighted share
    n = result.n_samples
    assert ones * n == pytest.approx(round(ones * n), abs=1e-6) and abs(ones - 0.25) < 5 * math.sqrt(0.1875 / n)
    w1, w2 = 0.2 * (1 - ones) + 0.8 * ones, 0.04 * (1 - ones) + 0.64 * ones
    assert result.effective_sample_size == pytest.approx(n * w1**2 / w2)
    assert result.standard_error == pytest.approx(math.sqrt((w2 - w1**2) / (n - 1)) / w1)
    assert result.log_z == pytest.approx(math.log(w1))


@pytest.mark.parametrize("evidence", [{"dysp": "yes", "xray": "yes"}, {"asia": "yes"}])
def test_estimates_are_within_their_errors(evidence: dict[str, str]) -> None:
    graph = bl.datasets.load_bn("asia").condition(evidence).with_likelihood({"bronc": [0.9, 0.3]})
    truth, result = bl.infer(graph, "junction_tree"), weighted(graph)
    assert result.bound is bl.Bound.ESTIMATE and not result.log_lower > -math.inf
    assert abs(result.log_z - truth.log_z) < 5 * result.standard_error < 0.5
    assert np.abs(result.mu_var - truth.mu_var).max() < 5 * 0.5 / math.sqrt(result.effective_sample_size)
    assert "standard error" in str(result) and "draws" in str(result)


def test_a_field_is_drawn_in_the_order_of_its_indices() -> None:
    rng = np.random.default_rng(0)
    grid = bl.FactorGraph.pairwise(
        rng.normal(size=(4, 3)), [(0, 1), (1, 3), (2, 3), (0, 2)], rng.normal(size=(4, 3, 3))
    )
    plan, others = proposals(grid)
    assert [p.variable for p in plan] == [0, 1, 2, 3] and not others and plan[3].factors == (3, 5, 6)
    truth, result = bl.infer(grid, "enumeration"), weighted(grid)
    assert abs(result.log_z - truth.log_z) < 5 * result.standard_error
    np.testing.assert_allclose(result.mu, truth.mu, atol=5 * 0.5 / math.sqrt(result.effective_sample_size))


def test_draws_without_weight_are_counted_as_such() -> None:
    """One state of 2^14 is allowed: no draw finds it, and the answer says that it rests on nothing."""
    table = np.zeros((2,) * 14)
    table[(1,) * 14] = 1.0
    network = bl.FactorGraph.from_tables([2] * 14, [*(((v,), [1.0, 1e-4]) for v in range(14)), (range(14), table)])
    result = weighted(network, max_iters=1)
    assert not np.isnan(result.mu_var).any() and result.bound is bl.Bound.ESTIMATE
    assert result.log_z == pytest.approx(14 * math.log(1e-4)) and result.effective_sample_size in (0.0, 1000.0)


def test_options() -> None:
    with pytest.raises(bl.ModelError, match="samples must be an integer of at least 1"):
        bl.LikelihoodWeighting(samples=0)
    with pytest.raises(TypeError, match="has no option 'sample'; did you mean 'samples'"):
        bl.LikelihoodWeighting(sample=3)  # type: ignore[call-arg]
    with pytest.raises(bl.BudgetError, match="lower samples"):
        weighted(bl.datasets.load_bn("asia"), max_bytes=1000)
    same = [weighted(bl.datasets.load_bn("asia"), seed=s, max_iters=1).mu_var for s in (1, 1, 2)]
    assert (same[0] == same[1]).all() and (same[0] != same[2]).any()


def test_no_draws_about_part_of_a_network_count_one_state_of_that_part() -> None:
    bn = bl.datasets.load_bn("asia")
    for targets in ([], ["asia"], ["xray"]):
        found = bl.infer(bn, "likelihood_weighting", targets=targets, max_iters=0)
        assert -10.0 < found.log_z <= 0.0
