"""What tests of learning share: instances whose weights are their log potentials, and finite differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beliefs.learning.instances import Instance
from beliefs.model import FactorGraph
from beliefs.model.features import DifferentiableTemplate


def identity(n_cells: int) -> DifferentiableTemplate:
    """The template whose weights are the log potentials."""
    return DifferentiableTemplate(n_cells, lambda weights, _: weights, lambda _w, _x, grad: grad)


def labelled(graph: FactorGraph, hidden: int = 0, seed: int = 0) -> Instance:
    """An instance of a graph with random labels, the last few variables hidden."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, graph.layout.card)
    labels[graph.n_vars - hidden :] = -1
    return Instance(graph.layout, None, labels.astype(np.int64), name="instance 0")


def slope(function: Callable[[np.ndarray], float], at: np.ndarray, direction: np.ndarray, r: float = 1e-5) -> float:
    """The derivative along a direction: central differences of fourth order."""
    near = function(at + r * direction) - function(at - r * direction)
    far = function(at + 2 * r * direction) - function(at - 2 * r * direction)
    return (8 * near - far) / (12 * r)
