"""Max-margin losses with two temperatures: every corner, cost and hidden pattern equals enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from beliefs.learning.instances import Instance
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.model import FactorGraph
from families import family
from losses_reference import TEMPLATE, margin, possible

CORNERS = [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.3, 0.3), (0.0, 0.5), (0.4, 2.0)]
FAMILIES = [
    "chain", "tree", "grid", "higher_order", "hard_zeros", "hard_zeros_tree", "parity", "disconnected",
    "mixed_cardinalities", "constants", "repeated_scopes", "tied_tables", "isolated_variables", "no_factors",
    "huge_range",
]  # fmt: skip
PATTERNS = ["nothing", "every second", "most", "first"]


def hiding(graph: FactorGraph, labels: np.ndarray, pattern: str) -> np.ndarray:
    n, labels = graph.n_vars, labels.copy()
    where = {"nothing": [], "every second": range(1, n, 2), "most": range(1, n), "first": range(min(1, n - 1))}
    labels[list(where[pattern])] = -1
    return labels


def loss_of(eps_y: float, eps_h: float, delta: object = "hamming", **options: object) -> MaxMargin:
    return MaxMargin(template=TEMPLATE, eps_y=eps_y, eps_h=eps_h, delta=delta, **options)  # type: ignore[arg-type]


def assert_margin(loss: MaxMargin, graph: FactorGraph, instance: Instance, costs: object) -> None:
    found = loss.part(np.array(graph.theta), instance)
    value, grad, delta = margin(graph, instance.labels, costs, loss.eps_y, loss.eps_h)  # type: ignore[arg-type]
    size = max(1.0, float(np.abs(graph.theta[graph.theta > -np.inf]).sum()))
    assert found.value == pytest.approx(value, abs=1e-13 * size + 1e-10)
    assert found.bound.name == "EXACT" and found.upper == found.value  # type: ignore[union-attr]
    np.testing.assert_allclose(found.grad_theta, grad, rtol=0, atol=1e-9)
    assert found.delta == pytest.approx(delta, abs=1e-9)
    assert found.minorant == (instance.n_labelled == graph.n_vars)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_corner_equals_enumeration(name: str, pattern: str) -> None:
    graph = family(name)
    labels = hiding(graph, possible(graph), pattern)
    for eps_y, eps_h in CORNERS:
        for delta in ("hamming", "none", "zero_one"):
            assert_margin(loss_of(eps_y, eps_h, delta), graph, Instance(graph.layout, None, labels), delta)
