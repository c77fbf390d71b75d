"""The simulated models of [ping2016] section 4.7 with outputs y, hidden variables h and inputs x, as instances.

Outputs and hidden variables alternate along a chain, or form a checkerboard; inputs hang on the hidden variables
(reading "hidden") or on all (reading "all"). Every state, pair of states and position has its own weight, as in the
model the data come from:

    score(x, y, h) = sum_i a_i(v_i) + sum_i b_i(x_i, v_i) + sum_ij c_ij(v_i, v_j),   v the outputs and hidden variables

Inputs that hang nowhere are drawn with tables of zeros (``sigma_xy=0``) and not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

import beliefs as bl
from beliefs.datasets.edges import chain_edges, grid_edges
from beliefs.learning.instances import HIDDEN, Instance
from beliefs.model.features import FactorType, LogLinearTemplate, Rows
from beliefs.model.layout import Layout

__all__ = ["K", "Shape", "Trial", "chain", "grid", "simulated"]

K = 4  # states of every variable


@dataclass(frozen=True, eq=False)
class Shape:
    """A graph of outputs and hidden variables, and where inputs hang."""

    edges: np.ndarray
    hidden: np.ndarray  # (n,) bool
    inputs: np.ndarray  # the vertices with an input, ascending
    rows: int = 1

    @property
    def n(self) -> int:
        return len(self.hidden)

    @cached_property
    def template(self) -> LogLinearTemplate:
        width = self.n + K * len(self.inputs)
        return LogLinearTemplate([FactorType("vertex", K, width), FactorType("edge", K * K, len(self.edges))])

    @cached_property
    def touches_hidden(self) -> np.ndarray:
        """Which weights have to do with hidden variables, ``(n_weights,)``: all but the outputs' own."""
        columns = np.concatenate([self.hidden, np.repeat(self.hidden[self.inputs], K)])
        return np.concatenate([np.tile(columns, K), np.ones(K * K * len(self.edges), bool)])

    def layout(self, copies: int) -> Layout:
        """The graph of several examples side by side: their vertices, then their edges."""
        n, m = self.n, len(self.edges)
        shift = n * np.arange(copies)
        edges = (self.edges[None] + shift[:, None, None]).ravel()
        scopes = np.concatenate([np.arange(n * copies), edges])
        ptr = np.concatenate([np.arange(n * copies), n * copies + 2 * np.arange(m * copies + 1)])
        return Layout.build(np.full(n * copies, K), ptr, scopes)

    def instance(self, x: np.ndarray, v: np.ndarray, layout: Layout) -> Instance:
        """Return examples ``(copies, n)`` as one instance; labels of hidden variables are not shown."""
        copies, n = x.shape
        features = np.zeros((copies, n, self.template.types[0].width))
        features[:, np.arange(n), np.arange(n)] = 1.0
        place = n + K * np.arange(len(self.inputs)) + x[:, self.inputs]
        features[np.arange(copies)[:, None], self.inputs, place] = 1.0
        pairs = np.tile(np.eye(len(self.edges)), (copies, 1))
        inputs = (Rows(copies * n, features.reshape(copies * n, -1)), Rows(len(pairs), pairs))
        return Instance(layout, inputs, np.where(self.hidden, HIDDEN, v).ravel().astype(np.int64))

    def start(self, seed: int, scale: float = 0.5) -> np.ndarray:
        """Return small random weights where hidden variables are touched, which tells their states apart."""
        drawn = np.random.default_rng([seed, 1]).normal(scale=scale, size=self.template.n_weights)
        return np.where(self.touches_hidden, drawn, 0.0)


def chain(length: int = 40, reading: str = "hidden") -> Shape:
    """The hidden chain: outputs at even places, hidden variables at odd ones."""
    hidden = np.arange(length) % 2 == 1
    return Shape(chain_edges(length), hidden, np.flatnonzero(hidden | (reading == "all")))


def grid(rows: int = 6, reading: str = "hidden") -> Shape:
    """The hidden grid: a checkerboard of outputs and hidden variables."""
    hidden = (np.add.outer(np.arange(rows), np.arange(rows)) % 2 == 1).ravel()
    return Shape(grid_edges(rows, rows), hidden, np.flatnonzero(hidden | (reading == "all")), rows)


@dataclass(frozen=True, eq=False)
class Trial:
    """What was drawn from one model: examples to learn from, inputs and states ``(n_train, n)``, and test examples."""

    shape: Shape
    seed: int
    x: np.ndarray
    v: np.ndarray
    train: list[Instance]
    test: Instance

    def first(self, n: int) -> Trial:
        """Return the trial with fewer examples to learn from."""
        return replace(self, train=self.train[:n], x=self.x[:n], v=self.v[:n])

    @cached_property
    def examples(self) -> Instance:
        """The training examples as one instance."""
        return self.shape.instance(self.x, self.v, self.shape.layout(len(self.x)))

    @property
    def l2(self) -> float:
        """The ridge for 1/2 |w|^2 + sum of losses, C = 1, per labelled variable."""
        return 0.5 / sum(instance.n_labelled for instance in self.train)


def simulated(
    shape: Shape, seed: int, n_train: int = 20, n_test: int = 100, *, sigma_h: float = 0.1, draw: int = 0
) -> Trial:
    """Draw a model and examples of it, exactly; another ``draw`` has other examples of the same model."""
    sigma_xy = 2.0 if len(shape.inputs) == shape.n else 0.0
    sigmas = {"sigma_h": sigma_h, "sigma_xy": sigma_xy, "seed": seed}
    model = bl.datasets.make_hidden_chain(shape.n, **sigmas) if shape.rows == 1 else (
        bl.datasets.make_hidden_grid(shape.rows, **sigmas)
    )  # fmt: skip
    drawn = bl.sample(model, n_train + n_test, "junction_tree", seed=1000 * seed + 1 + draw).samples
    x, v = drawn[:, : shape.n], drawn[:, shape.n :]
    one = shape.layout(1)
    train = [shape.instance(x[i : i + 1], v[i : i + 1], one) for i in range(n_train)]
    test = shape.instance(x[n_train:], v[n_train:], shape.layout(n_test))
    return Trial(shape, seed, x[:n_train], v[:n_train], train, test)
