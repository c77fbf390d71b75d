"""Methods on regions that go on from other potentials: beliefs of 0 and 1 keep still while logs behind them move."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from families import random_model, unary

N = 12
METHODS = ["gbp(regions=bethe)", "gbp(regions=bethe, schedule=two_way)", "double_loop(regions=bethe)"]


def chain(seed: int, closed: bool = False) -> bl.FactorGraph:
    pairs: list[tuple[int, ...]] = [(v, v + 1) for v in range(N - 1)]
    return random_model([2, 3] * (N // 2), unary(N) + pairs + [(0, N - 1)] * closed, seed=seed, scale=1000.0)


def quietly(graph: bl.FactorGraph, method: str, **options: Any) -> bl.InferenceResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        return bl.infer(graph, method, **options)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", [4, 66, 69, 75, 76])
def test_what_has_settled_from_elsewhere_is_the_answer(seed: int, method: str) -> None:
    """Exact on a chain. Settled they were called with values up to a thousand nats below."""
    graph = chain(seed + 1000)
    found = quietly(graph, method, init=quietly(chain(seed), method))
    exact = bl.infer(graph, "junction_tree")
    assert found.converged and found.log_z == pytest.approx(exact.log_z, rel=1e-9)
    np.testing.assert_allclose(found.mu_var, exact.mu_var, rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 51])
def test_damped_join_graphs_from_elsewhere_settle_where_they_do_alone(seed: int) -> None:
    graph, method = chain(seed + 1000, closed=True), "ijgp(ibound=1, damping=0.5)"
    warm, cold = quietly(graph, method, init=quietly(chain(seed, closed=True), method)), quietly(graph, method)
    assert not (warm.converged and cold.converged) or warm.log_z == pytest.approx(cold.log_z, rel=1e-9)
