"""What tests of learning share: instances whose weights are their log potentials, chains, and finite differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beliefs.learning.instances import Instance
from beliefs.model import FactorGraph
from beliefs.model.features import DifferentiableTemplate
from beliefs.model.layout import Layout


def identity(n_cells: int) -> DifferentiableTemplate:
    """The template whose weights are the log potentials."""
    return DifferentiableTemplate(n_cells, lambda weights, _: weights, lambda _w, _x, grad: grad)


def chain_layout(n: int, k: int, boundaries: bool) -> Layout:
    """A layout of tokens, neighbours with a tied table, and the ends."""
    scopes = [[t] for t in range(n)] + [[t, t + 1] for t in range(n - 1)]
    cells = [k * t for t in range(n)] + [n * k] * (n - 1)
    at = n * k + (k * k if n > 1 else 0)
    if boundaries:
        scopes, cells = scopes + [[0], [n - 1]], cells + [at, at + k]
    ptr = np.concatenate([[0], np.cumsum([len(s) for s in scopes])])
    return Layout.build(np.full(n, k), ptr, np.concatenate(scopes), np.array(cells))


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
