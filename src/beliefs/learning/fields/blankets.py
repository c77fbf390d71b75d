r"""A variable given all others depends on its blanket alone: rows as counts of a variable's states a blanket.

.. math:: a_i(k; b) = \sum_{f \ni i} \theta_f(k, b), \qquad
          n_i(k, b) = \text{weight of the rows with } x_i = k \text{ and blanket } b

A loss that is a sum over variables of a function of :math:`a_i(\cdot; b)` and :math:`n_i(\cdot, b)` costs as much as
there are different blankets, whatever the number of rows: on sparse fields the rows are sufficient statistics. Where a
blanket is most of the variables there are as many as rows; pairwise fields are then evaluated as products of matrices
(:mod:`beliefs.learning.fields.matrices`).

Cost: one pass over the factors of each variable for each of its states, and one back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from beliefs.kernels.layout import Scopes
from beliefs.kernels.rows.counts import BLOCK, LANES, Scratch, count_families, score_rows
from beliefs.learning.optimizers.objective import Coordinates
from beliefs.learning.parallel import Executor
from beliefs.model.layout import Layout, offsets, read_only
from beliefs.model.rows.table import Codes, RowTable
from beliefs.typing import Bools, Floats, Ints

__all__ = ["Blanket", "BlanketCounts", "Conditionals", "Terms"]


class Terms(ABC):
    """What a variable given its blanket adds to a loss."""

    @abstractmethod
    def terms(self, logits: Floats, counts: Floats) -> tuple[float, Floats]:
        """Return the sum over blankets and its derivative in ``logits (n, K)``, given weights ``counts (n, K)``."""

    @abstractmethod
    def binary(self, odds: Floats, bias: Floats, bits: Floats, weights: Floats) -> float:
        """Return the same of two states each, in the log-odds ``odds + bias[:, None]`` of state 1 ``(n_vars, rows)``.

        Derivatives replace ``odds``. ``weights (rows,)`` are empty where all rows count once.
        """


class Conditionals(ABC):
    """Rows as a loss over one variable at a time sees them."""

    @abstractmethod
    def add(self, terms: Terms, theta: Floats, grad: Floats, executor: Executor) -> float:
        """Return the sum of all terms, and add its gradient."""

    def coordinates(self) -> Coordinates | None:
        """Return coordinates in which such losses are rounder than in the tables, if there are some."""
        return None


@dataclass(frozen=True, eq=False)
class Blanket:
    """A variable, those that share a factor with it, and these factors: ``columns[0]`` is the variable."""

    columns: Ints
    scopes: Scopes
    partial: Bools
    card: int

    @classmethod
    def of(cls, layout: Layout, v: int) -> Blanket:
        """Return the blanket of a variable."""
        edges = layout.var_edges[layout.var_ptr[v] : layout.var_ptr[v + 1]]
        factors = layout.edge_factor[edges]
        scopes = [layout.scope(int(f)) for f in factors]
        others = np.setdiff1d(np.concatenate([*scopes, np.zeros(0, np.int64)]), [v])
        columns = np.concatenate([[v], others]).astype(np.int64)
        number = np.zeros(layout.n_vars, np.int64)
        number[columns] = np.arange(columns.size)
        card = layout.card[columns]
        return cls(
            columns,
            Scopes(
                read_only(card),
                read_only(offsets(card)),
                read_only(offsets([scope.size for scope in scopes])),
                read_only(number[np.concatenate([*scopes, np.zeros(0, np.int64)])]),
                read_only(layout.cell_ptr[factors]),
            ),
            np.zeros(factors.size, np.bool_),
            int(layout.card[v]),
        )

    @property
    def n_joint(self) -> float:
        """Joint states of the blanket."""
        return float(np.prod(self.scopes.card[1:].astype(np.float64)))

    def logits(self, theta: Floats, codes: Codes) -> Floats:
        """Return the sums of log potentials of each state given the codes of the columns ``(n, K)``."""
        n, codes = codes.shape[1], codes.copy()
        found, cells = np.zeros((self.card, n)), np.empty(BLOCK, np.int32)
        for k in range(self.card):
            codes[0] = k
            score_rows(self.scopes, self.partial, codes, -1, theta, 0, n, cells, found[k])
        return found.T

    def add_slopes(self, slopes: Floats, codes: Codes, grad: Floats) -> None:
        """Add the derivative in theta, given that in the logits ``(n, K)``."""
        codes, scratch = codes.copy(), Scratch(np.empty(BLOCK, np.int32), np.zeros(LANES, np.int64))
        for k in range(self.card):
            codes[0] = k
            weights = np.ascontiguousarray(slopes[:, k])
            count_families(self.scopes, self.partial, codes, -1, weights, 0, self.partial.size, scratch, grad)


class BlanketCounts(Conditionals):
    """The different blankets of every variable in complete rows, and how often each state comes with them."""

    def __init__(self, layout: Layout, table: RowTable) -> None:
        self.parts = [self._counted(Blanket.of(layout, v), table) for v in range(layout.n_vars)]

    @staticmethod
    def _counted(blanket: Blanket, table: RowTable) -> tuple[Blanket, Codes, Floats]:
        own, k = table.codes[blanket.columns[0]], blanket.card
        distinct, number = table.columns(blanket.columns[1:]).merged()
        n = distinct.n_rows
        counts = np.bincount(number * k + own, table.weights, n * k).astype(np.float64).reshape(n, k)
        codes = np.concatenate([np.zeros((1, n), table.codes.dtype), distinct.codes])
        return blanket, codes, counts

    def add(self, terms: Terms, theta: Floats, grad: Floats, executor: Executor) -> float:
        """Return the sum of all terms, and add its gradient: variable after variable, in their order."""

        def task(part: tuple[Blanket, Codes, Floats]) -> tuple[float, Floats]:
            blanket, codes, counts = part
            value, slopes = terms.terms(blanket.logits(theta, codes), counts)
            own = np.zeros(theta.size)
            blanket.add_slopes(slopes, codes, own)
            return value, own

        total = 0.0
        for value, own in executor.windows(task, self.parts):
            total += value
            grad += own
        return total
