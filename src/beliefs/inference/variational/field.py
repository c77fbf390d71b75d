"""What the naive and the structured mean field share: potentials without infinities, runs, and their schedule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from beliefs.inference.base import observed_point_masses
from beliefs.inference.parallel import in_chunks, parallel_chunks
from beliefs.inference.rounding import UNIT, magnitude, pairwise, rounding_error
from beliefs.kernels.layout import Scopes
from beliefs.kernels.mean_field.general import (
    SMALL,
    Potentials,
    Product,
    Scratch,
    expected_score,
    product_tables,
    small_score,
)
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout, read_only
from beliefs.typing import Bools, Floats, Ints

__all__ = ["Field", "Orders", "Run", "entropy", "uniform"]


_CHUNK = 2048  # variables or trees of one colour that a thread takes at a time


@dataclass(eq=False)
class Run:
    """One start and what became of it: the product of marginals, and the trees' tables.

    ``feasible`` is False where no state of positive weight was found, and then nothing moves.
    """

    product: Product
    feasible: bool = True
    tree: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def mu(self) -> Floats:
        """The marginals, ``(n_states,)``."""
        return self.product.mu


@dataclass(frozen=True, eq=False)
class Orders:
    """What is updated in a sweep, part by part; items of one part are independent if ``parallel``."""

    forward: Sequence[Ints]
    backward: Sequence[Ints]
    parallel: bool

    @classmethod
    def raster(cls, order: Ints) -> Orders:
        """One item after the other, in order and back."""
        return cls([read_only(order)], [read_only(order[::-1].copy())], False)

    @classmethod
    def coloured(cls, order: Ints, ptr: Ints) -> Orders:
        """Colour classes in order, always the same way: going back would begin with the class updated last."""
        parts = [read_only(order[a:b].copy()) for a, b in zip(ptr[:-1], ptr[1:], strict=True) if b > a]
        return cls(parts, parts, True)


class Field(ABC):
    """A family of distributions and its coordinate updates on one graph.

    ``hard (n_factors,)`` says which factors have hard zeros; ``potentials`` keeps these apart, so that ``theta`` is
    finite.
    """

    orders: Orders
    slope: ClassVar[float] = 1.0
    """By how many times itself a deviation of marginals may change their entropies; scaling them changes it once."""

    exact: bool
    """Whether the family contains the model's own distribution whatever its potentials, and one sweep finds it."""

    def __init__(self, graph: FactorGraph, hard: Bools) -> None:
        self.graph, self.hard = graph, hard
        layout = graph.layout
        self.potentials = Potentials(graph.theta, read_only(np.zeros(0)), hard)
        if hard.any():
            zero = graph.theta == -np.inf
            finite, forbidden = read_only(np.where(zero, 0.0, graph.theta)), read_only(zero.astype(np.float64))
            self.potentials = Potentials(finite, forbidden, hard)
        self.widest = int(layout.card.max(initial=1))
        arity = layout.arity
        self.largest = int(layout.factor_size[arity > 2].max(initial=1))
        self.largest_table = int(layout.factor_size.max(initial=1))
        small_pairs = layout.factor_size[arity == 2].max(initial=1) <= SMALL
        self.small = bool(small_pairs) and int(arity.max(initial=0)) <= 2 and not hard.any()
        self.magnitude, self.entropies = magnitude(graph), float(np.log(layout.card).sum())

    @property
    def theta(self) -> Floats:
        """The log potentials, 0 in the place of ``-inf``."""
        return self.potentials.theta

    def begin(self, mu: Floats) -> Run:
        """Start a run at these marginals; sets those of observed and of isolated variables right."""
        layout = self.graph.layout
        isolated = np.repeat(layout.degree == 0, layout.card)
        mu = np.where(isolated, uniform(layout), mu)
        mu = np.where(np.repeat(layout.observed, layout.card), observed_point_masses(self.graph), mu)
        return Run(Product(mu, (mu > 0).astype(np.float64) if self.hard.any() else np.zeros(0)))

    def sweep(self, run: Run, *, forward: bool, threads: int) -> float:
        """Update everything once; return the largest absolute change of a marginal."""
        largest = 0
        for items in self.orders.forward if forward else self.orders.backward:
            bounds = in_chunks(items.size, -(-items.size // _CHUNK) if self.orders.parallel else 1)
            answer = parallel_chunks(lambda a, b, part=items: self.update(part[a:b], run), bounds, threads)  # type: ignore[misc]
            largest = max(largest, int(answer))
        return float(np.int64(largest).view(np.float64))

    @abstractmethod
    def update(self, items: Ints, run: Run) -> int:
        """Update some items in order; return the bits of the largest absolute change of a marginal."""

    @abstractmethod
    def value(self, run: Run) -> float:
        """Return the lower bound, expected score plus entropy, at the present iterate."""

    def rounding(self, run: Run) -> float:
        """Return the rounding error of :meth:`value`, with what marginals that do not add up to one may change.

        Sums of a factor's cells, a compensated sum over factors and one in pairs of entropies; marginals that are off
        by a share change every expectation by as much for each variable in it.
        """
        layout = self.graph.layout
        arity = int(layout.arity.max(initial=0))
        n_terms = self.largest_table + 2 * arity + pairwise(int(layout.table_ptr[-1])) + 8
        moved = arity * self.magnitude + self.slope * self.entropies + layout.n_vars
        return rounding_error(self.magnitude + 2.0 * self.entropies, n_terms) + self.deviation(run) * moved

    def deviation(self, run: Run) -> float:
        """Return how far a variable's marginals are from adding up to one."""
        sums = np.add.reduceat(run.mu, self.graph.layout.state_ptr[:-1])
        return float(np.abs(sums - 1.0).max(initial=0.0)) + UNIT * self.widest

    @abstractmethod
    def tables(self, run: Run) -> Floats:
        """Return all factors' marginal tables, one after the other."""

    def refresh(self, run: Run) -> bool:
        """Go on from marginals of an earlier run; return whether they have weight where the model has."""
        return not self.hard.any() or self.value(run) > -np.inf

    @classmethod
    def n_bytes(cls, layout: Layout, hard: Bools, runs: int) -> float:
        """Predict the memory of ``runs`` runs, the order and temporaries; marginals of factors come when asked for."""
        zeros = 2.2 * layout.n_cells if hard.any() else 0
        structure = 2 * layout.n_factors + 6 * layout.n_vars + 2.3 * layout.n_edges
        return 8.0 * (layout.n_states * (2 * runs + 3) + zeros + structure)

    def _scratch(self) -> Scratch:
        """Return a thread's room to contract factors in."""
        return Scratch(np.empty(self.largest), np.empty(self.widest))

    def _score(self, factors: Ints, scopes: Scopes, run: Run) -> float:
        """Return the expected score of some factors under the product of marginals."""
        if self.small:
            return float(small_score(factors, scopes, self.potentials.theta, run.mu))
        return float(expected_score(factors, scopes, self.potentials, run.product, self._scratch()))

    def _products(self, factors: Ints, scopes: Scopes, run: Run, tables: Floats) -> None:
        """Write the tables of some factors: products of marginals."""
        product_tables(factors, scopes, self.graph.layout.table_ptr, run.mu, tables)


def uniform(layout: Layout) -> Floats:
    """Return uniform marginals, ``(n_states,)``."""
    return np.repeat(1.0 / layout.card, layout.card)


def entropy(p: Floats) -> Floats:
    """Return ``-p log p`` entry by entry, 0 at 0."""
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    result: Floats = -p * logs
    return result
