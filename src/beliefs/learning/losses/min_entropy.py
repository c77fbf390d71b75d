r"""Max-margin min-entropy models: outputs that score well and leave little doubt about what is hidden.

.. math::
    L(\theta) = \max_y \bigl( \Delta(\hat y, y) + R_a(y) \bigr) - R_a(\hat y), \qquad
    R_a(y) = \frac{1}{a - 1} \Bigl( \log \sum_h e^{a\, \theta(y, h)} - \log \sum_h e^{\theta(y, h)} \Bigr)

([miller2012]). :math:`-R_a(y)` is, but for log Z, the generalised Rényi entropy of order a of the unnormalised
distribution over h that y leaves: :math:`-\log p(y) + H_a(h \mid y)`. Order 1 is the limit, the expectation of the
score (Shannon's entropy); as the order grows R approaches the maximum over h, so the loss that of the latent structured
SVM (``max_margin(eps_h=0)``).

Where no factor holds two hidden variables they are independent given the outputs, and R is a sum: of the factors
without hidden variables, and of one table a hidden variable over the outputs around it. Maximising a model of such
tables is exact inference over outputs alone; anything else is refused. Not convex with hidden variables, and its two
terms are not either. Cost: a maximisation, and a few exponentials a cell around hidden variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import BudgetError, ModelError, UnsupportedError, ZeroProbabilityError
from beliefs.inference.base import Bound, Method
from beliefs.inference.portfolio.auto import exact_method
from beliefs.inference.run import answer, best_states
from beliefs.learning.instances import HIDDEN, Instance, Slot
from beliefs.learning.losses.base import InstanceLoss, Loss, Needs
from beliefs.learning.losses.costs import checked_delta, costs_of
from beliefs.learning.losses.difference import any_hidden
from beliefs.learning.losses.inference import InferenceSpec
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.options import check_option, is_number
from beliefs.typing import Bools, Floats, Ints

__all__ = ["MinEntropy"]

_MOST = 2.0**26  # cells around one hidden variable


@dataclass(frozen=True, kw_only=True)
class MinEntropy(Loss):
    """The margin of the outputs' entropies.

    Parameters
    ----------
    order : float
        Of the entropy, above 0.
    delta : str or array_like (K, K)
        As in :class:`~beliefs.learning.losses.max_margin.MaxMargin`, without ``"zero_one"``.
    """

    order: float = 2.0
    delta: Any = "hamming"

    name: ClassVar[str] = "m3e"
    hidden: ClassVar[bool] = True
    by_variable: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs.EXACT

    def __post_init__(self) -> None:
        super().__post_init__()
        ok = is_number(self.order) and 0 < self.order <= 1e6
        check_option(ok, "order", "a number above 0, up to 1e6 (beyond, max_margin(eps_h=0) is the limit)", self.order)
        object.__setattr__(self, "delta", checked_delta(self.delta))
        if self.delta == "zero_one":
            raise UnsupportedError(f"{self.name} takes costs that are sums over variables, so not delta='zero_one'")

    def check(self, instance: Instance) -> None:
        """Raise for an instance without labels, with bad costs, or with hidden variables that depend on each other."""
        if not instance.n_labelled:
            raise ModelError(f"{instance.name}: no variable has a label, so no output is left to compare with")
        costs_of(self.delta, instance)
        lay, inner = instance.layout, ~instance.labelled
        n_hidden = np.bincount(lay.edge_factor, inner[lay.scope_vars], lay.n_factors)
        if (n_hidden > 1).any():
            f = int(np.argmax(n_hidden))
            scope = ", ".join(str(v) for v in lay.scope(f) if inner[v])
            raise UnsupportedError(
                f"{instance.name}: {self.name} needs hidden variables that are independent given the outputs, and "
                f"factor {f} holds the hidden variables {scope}; use max_margin"
            )

    def is_convex(self, data: Any) -> bool:
        """Whether nothing is hidden."""
        return not any_hidden(data)

    def is_smooth(self, data: Any) -> bool:
        """It has kinks where two labellings are best."""
        return False

    def marginals(self, graph: FactorGraph, inference: InferenceSpec) -> Floats:
        """Return the exact marginals."""
        return answer(graph, exact_method(graph.layout), max_iters=1).mu_var

    def is_exact(self, inference: InferenceSpec) -> bool:
        """They are."""
        return True

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """Exact inference alone."""
        return ()

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return the difference of the best outputs' value and the labels', and of their gradients."""
        model, costs = _outputs_model(instance), costs_of(self.delta, instance)
        graph = model.graph(theta, float(self.order), costs)
        of_labels = model.value(graph, instance.labels)
        if of_labels == -np.inf:
            raise ZeroProbabilityError(
                f"{instance.name}: hard zeros exclude the labels, whatever the hidden variables are; no weights can "
                "make such labels likely, so correct the labels or drop the hard zeros"
            )
        best = best_states(graph, exact_method(model.layout), max_iters=1)[0]
        value = model.value(graph, best) - of_labels
        plane, n = instance.n_labelled == instance.labels.size, theta.size
        if not value > 0:
            return InstanceLoss(0.0, np.zeros(n), bound=Bound.EXACT, upper=0.0, minorant=plane)
        order = float(self.order)
        grad = model.gradient(theta, best, order) - model.gradient(theta, instance.labels, order)
        delta = float(costs[model.layout.state_ptr[:-1] + best].sum())
        return InstanceLoss(value, grad, bound=Bound.EXACT, upper=value, minorant=plane, delta=delta)

    def best(self, theta: Floats, instance: Instance) -> Ints:
        """Return the outputs that the model predicts, of least generalised entropy; hidden variables are -1."""
        model = _outputs_model(instance)
        graph = model.graph(theta, float(self.order), np.zeros(instance.layout.n_states))
        states = np.array(best_states(graph, exact_method(model.layout), max_iters=1)[0], np.int64)
        return np.where(instance.labelled, states, HIDDEN)


@dataclass(frozen=True, eq=False)
class _OutputsModel:
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
            p, scores = self._shares(s, 1.0), np.where(s == -np.inf, 0.0, s)
            mean: Floats = np.add.reduceat(p * scores, self.starts)
            return np.where(np.maximum.reduceat(s, self.starts) == -np.inf, -np.inf, mean)
        with np.errstate(invalid="ignore"):
            found = (self._log_sums(order * s) - self._log_sums(s)) / (order - 1.0)
        return np.where(np.isnan(found), -np.inf, found)

    def graph(self, theta: Floats, order: float, costs: Floats) -> FactorGraph:
        """Return the outputs' model with these costs of states."""
        tables = self.tables(theta, order)
        return FactorGraph.build(self.layout, np.concatenate([theta[self.kept_cells], tables, costs]))

    def value(self, graph: FactorGraph, state: Ints) -> float:
        """Return R and the costs of some outputs."""
        outputs = Instance(self.layout, None, np.maximum(state, 0))
        return float(graph.theta[outputs.label_cells].sum())

    def gradient(self, theta: Floats, state: Ints, order: float) -> Floats:
        """Return the gradient of R at some outputs, in theta."""
        picked = Instance(self.layout, None, np.maximum(state, 0)).label_cells
        n_tables = self.starts.size
        kept, tables = picked[: self.first], picked[self.first :] - self.kept_cells.size
        grad = np.bincount(self.kept_cells[kept], minlength=self.n_cells + 1).astype(np.float64)
        tables = tables[tables < n_tables]  # the rest are costs
        s = self.scores(theta)
        sizes = np.diff(np.append(self.starts, s.size))[tables]
        cells = np.repeat(self.starts[tables] - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum()))
        slope, around = self._slope(s, order)[cells], self.around[:, cells]
        grad += np.bincount(around.ravel(), np.broadcast_to(slope, around.shape).ravel(), self.n_cells + 1)
        return grad[: self.n_cells]

    def _slope(self, s: Floats, order: float) -> Floats:
        p = self._shares(s, 1.0)
        if order == 1.0:
            finite = np.where(s == -np.inf, 0.0, s)
            return p * (1.0 + finite - self._spread(np.add.reduceat(p * finite, self.starts) if s.size else s, s.size))
        return (order * self._shares(s, order) - p) / (order - 1.0)

    def _shares(self, s: Floats, order: float) -> Floats:
        """Return the probabilities of hidden states, their scores times ``order``; 0 where none is possible."""
        if not s.size:
            return s
        top = np.maximum.reduceat(s, self.starts)
        weights = np.exp(order * (s - self._spread(np.where(top == -np.inf, 0.0, top), s.size)))
        total = np.add.reduceat(weights, self.starts)
        return weights / self._spread(np.where(total > 0, total, 1.0), s.size)

    def _log_sums(self, s: Floats) -> Floats:
        top = np.maximum.reduceat(s, self.starts)
        shift = np.where(top == -np.inf, 0.0, top)
        with np.errstate(divide="ignore"):
            return shift + np.log(np.add.reduceat(np.exp(s - self._spread(shift, s.size)), self.starts))

    def _spread(self, values: Floats, n: int) -> Floats:
        return np.repeat(values, np.diff(np.append(self.starts, n)))


def _outputs_model(instance: Instance) -> _OutputsModel:
    lay, inner = instance.layout, ~instance.labelled
    return instance.memory.of(
        Slot[_OutputsModel]("model of the outputs"),
        lambda: lay.keep((_lay_out, inner.tobytes()), lambda: _lay_out(lay, inner, instance.name)),
    )


def _lay_out(lay: Layout, inner: Bools, name: str) -> _OutputsModel:
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
    return _OutputsModel(
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
