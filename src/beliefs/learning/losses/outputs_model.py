"""The model of the outputs where hidden variables are independent given them: one table a hidden variable.

Where no factor holds two hidden variables, whatever is summed over their states given the outputs is a sum over them,
each term a function of the outputs around one hidden variable. Maximising a model of such tables is exact inference
over outputs alone. Cost: the joint states of a hidden variable and the outputs around it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.errors import BudgetError
from beliefs.learning.instances import Instance, Slot
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Bools, Floats, Ints

__all__ = ["OutputsModel", "outputs_model"]

_MOST = 2.0**26  # cells around one hidden variable


@dataclass(frozen=True, eq=False)
class OutputsModel:
    """The model of the outputs: factors without hidden variables, a table a hidden variable, costs of each variable.

    ``kept_cells`` are the cells of the first. ``around (n_factors, n)`` says for every cell of the second, joined with
    the hidden variable's states, which cells of theta it is the sum of; ``starts`` where the cells of one state of the
    outputs begin. ``n_cells`` of theta stands for nothing.
    """

    layout: Layout
    kept_cells: Ints
    around: Ints
    starts: Ints
    first: int  # of the factors of hidden variables
    n_cells: int

    def scores(self, theta: Floats) -> Floats:
        """Return the scores of hidden states, given each state of the outputs around them."""
        summed: Floats = np.append(theta, 0.0)[self.around].sum(axis=0)
        return summed

    def tables(self, theta: Floats, order: float) -> Floats:
        """Return what each hidden variable adds to R, by states of the outputs around it."""
        s = self.scores(theta)
        if not s.size:
            return s
        if order == 1.0:
            p, scores = self.shares(s, 1.0), np.where(s == -np.inf, 0.0, s)
            mean: Floats = np.add.reduceat(p * scores, self.starts)
            return np.where(np.maximum.reduceat(s, self.starts) == -np.inf, -np.inf, mean)
        with np.errstate(invalid="ignore"):
            found = (self.log_sums(order * s) - self.log_sums(s)) / (order - 1.0)
        return np.where(np.isnan(found), -np.inf, found)

    def graph(self, theta: Floats, order: float, costs: Floats) -> FactorGraph:
        """Return the outputs' model with these costs of states."""
        return self.with_tables(theta, self.tables(theta, order), costs)

    def with_tables(self, theta: Floats, tables: Floats, costs: Floats) -> FactorGraph:
        """Return such a model, whatever hidden variables add to it."""
        return FactorGraph.build(self.layout, np.concatenate([theta[self.kept_cells], tables, costs]))

    def value(self, graph: FactorGraph, state: Ints) -> float:
        """Return R and the costs of some outputs."""
        outputs = Instance(self.layout, None, np.maximum(state, 0))
        return float(graph.theta[outputs.label_cells].sum())

    def gradient(self, theta: Floats, state: Ints, order: float) -> Floats:
        """Return the gradient of R at some outputs, in theta."""
        return self.pulled_back(state, self._slope(self.scores(theta), order))

    def pulled_back(self, state: Ints, slope: Floats) -> Floats:
        """Return the gradient of a model at some outputs, in theta, given that of its tables in all scores."""
        picked = Instance(self.layout, None, np.maximum(state, 0)).label_cells
        n_tables = self.starts.size
        kept, tables = picked[: self.first], picked[self.first :] - self.kept_cells.size
        grad = np.bincount(self.kept_cells[kept], minlength=self.n_cells + 1).astype(np.float64)
        tables = tables[tables < n_tables]  # the rest are costs
        sizes = np.diff(np.append(self.starts, slope.size))[tables]
        cells = np.repeat(self.starts[tables] - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum()))
        around = self.around[:, cells]
        grad += np.bincount(around.ravel(), np.broadcast_to(slope[cells], around.shape).ravel(), self.n_cells + 1)
        return grad[: self.n_cells]

    def _slope(self, s: Floats, order: float) -> Floats:
        p = self.shares(s, 1.0)
        if order == 1.0:
            finite = np.where(s == -np.inf, 0.0, s)
            return p * (1.0 + finite - self._spread(np.add.reduceat(p * finite, self.starts) if s.size else s, s.size))
        return (order * self.shares(s, order) - p) / (order - 1.0)

    def shares(self, s: Floats, order: float) -> Floats:
        """Return the probabilities of hidden states, their scores times ``order``; 0 where none is possible."""
        if not s.size:
            return s
        top = np.maximum.reduceat(s, self.starts)
        weights = np.exp(order * (s - self._spread(np.where(top == -np.inf, 0.0, top), s.size)))
        total = np.add.reduceat(weights, self.starts)
        return weights / self._spread(np.where(total > 0, total, 1.0), s.size)

    def log_sums(self, s: Floats) -> Floats:
        """Return the logarithms of sums over the states of each hidden variable, by states of the outputs around it."""
        if not s.size:
            return s
        top = np.maximum.reduceat(s, self.starts)
        shift = np.where(top == -np.inf, 0.0, top)
        with np.errstate(divide="ignore"):
            return shift + np.log(np.add.reduceat(np.exp(s - self._spread(shift, s.size)), self.starts))

    def _spread(self, values: Floats, n: int) -> Floats:
        return np.repeat(values, np.diff(np.append(self.starts, n)))


def outputs_model(instance: Instance) -> OutputsModel:
    """Return the model of an instance's outputs, which instances of one structure share."""
    lay, inner = instance.layout, ~instance.labelled
    return instance.memory.of(
        Slot[OutputsModel]("model of the outputs"),
        lambda: lay.keep((_lay_out, inner.tobytes()), lambda: _lay_out(lay, inner, instance.name)),
    )


def _lay_out(lay: Layout, inner: Bools, name: str) -> OutputsModel:
    """Plan the model of the outputs of a structure."""
    beside = np.bincount(lay.edge_factor, inner[lay.scope_vars], lay.n_factors) > 0
    kept = np.flatnonzero(~beside)
    scopes, starts, around, at = [lay.scope(f).tolist() for f in kept.tolist()], list[Ints](), list[list[Ints]](), 0
    for h in np.flatnonzero(inner & (lay.degree > 0)).tolist():
        factors = lay.edge_factor[lay.var_edges[lay.var_ptr[h] : lay.var_ptr[h + 1]]].tolist()
        near = sorted({int(v) for f in factors for v in lay.scope(f)} - {h})
        shape = [int(lay.card[v]) for v in (*near, h)]
        if float(np.prod(shape, dtype=np.float64)) > _MOST:
            raise BudgetError(f"{name}: hidden variable {h} has {len(near)} outputs around it, too many for one table")
        scopes.append(near)
        starts.append(at + shape[-1] * np.arange(int(np.prod(shape[:-1]))))
        around.append([_cells_of(lay, f, (*near, h), shape) for f in factors])
        at += int(np.prod(shape))
    scopes += [[v] for v in range(lay.n_vars)]
    ends = np.cumsum([0, *(len(scope) for scope in scopes)])
    most = max((len(cells) for cells in around), default=0)
    nothing = [np.full(cells[0].size, lay.n_cells) for cells in around]
    rows = [
        np.concatenate([cells[k] if k < len(cells) else no for cells, no in zip(around, nothing, strict=True)])
        for k in range(most)
    ]
    layout = Layout.build(lay.card, ends, np.array([v for scope in scopes for v in scope], np.int64))
    table_cells = np.concatenate(
        [np.arange(lay.cells(f).start, lay.cells(f).stop) for f in kept.tolist()] or [np.zeros(0, int)]
    )
    return OutputsModel(
        layout,
        table_cells.astype(np.int64),
        np.array(rows, np.int64).reshape(most, at),
        np.concatenate([*starts, np.zeros(0, np.int64)]).astype(np.int64),
        kept.size,
        lay.n_cells,
    )


def _cells_of(lay: Layout, f: int, scope: tuple[int, ...], shape: list[int]) -> Ints:
    """Return the cell of a factor that each joint state of a larger scope picks."""
    own = lay.scope(f).tolist()
    cells = np.arange(lay.cells(f).start, lay.cells(f).stop).reshape(lay.shape(f))
    axes = sorted(range(len(own)), key=lambda a: scope.index(own[a]))
    turned = cells.transpose(axes).reshape([int(lay.card[v]) if v in own else 1 for v in scope])
    return np.broadcast_to(turned, shape).ravel().astype(np.int64)
