r"""Potentials from features and weights: the templates of conditional random fields.

A template says how the log potentials of an instance follow from its inputs and the weights,
:math:`\theta = \theta(x; w)`, and how gradients go back (the transposed Jacobian):

.. math:: \frac{dL}{dw} = \Bigl(\frac{d\theta}{dw}\Bigr)^{\!\top} \frac{dL}{d\theta}

The log-linear template has one weight matrix per *type* of factor, so that factors of a type share their weights
([domke2013] section 8.1). With one row of :math:`W_t` per cell of the type's table and features :math:`v_f`,

.. math:: \theta_f = W_t v_f, \qquad \frac{dL}{dW_t} = \sum_f \frac{dL}{d\theta_f} v_f^\top

For factors of one variable :math:`W` is the matrix F of the papers, for pairs G, with row ``x_i * K + x_j`` for the
edge stored as ``(i, j)``; triples and more work the same way.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from beliefs.typing import Floats, Ints

__all__ = ["HUGE", "DifferentiableTemplate", "FactorType", "LogLinearTemplate", "Rows", "Template"]

HUGE = 1e100
"""Features are smaller: the square of the gradient must be a number."""


class Template(ABC):
    """How log potentials follow from inputs and weights."""

    n_weights: int

    @abstractmethod
    def theta(self, weights: Floats, inputs: Any) -> Floats:
        """Return the log potentials ``(n_cells,)`` of an instance with these inputs."""

    @abstractmethod
    def add_pullback(self, weights: Floats, inputs: Any, grad_theta: Floats, out: Floats) -> None:
        """Add the transposed Jacobian times ``grad_theta (n_cells,)`` to ``out (n_weights,)``."""


@dataclass(frozen=True, eq=False)
class DifferentiableTemplate(Template):
    """Any differentiable map from weights to log potentials, given as two functions.

    Parameters
    ----------
    n_weights : int
    potentials : callable ``(weights, inputs) -> theta (n_cells,)``
    vector_jacobian : callable ``(weights, inputs, grad_theta) -> (n_weights,)``
        The transposed Jacobian of ``potentials`` times a vector.
    """

    n_weights: int
    potentials: Callable[[Floats, Any], Floats]
    vector_jacobian: Callable[[Floats, Any, Floats], Floats]

    def theta(self, weights: Floats, inputs: Any) -> Floats:
        """Ask the user's function."""
        return np.asarray(self.potentials(weights, inputs), np.float64)

    def add_pullback(self, weights: Floats, inputs: Any, grad_theta: Floats, out: Floats) -> None:
        """Ask the user's function."""
        out += self.vector_jacobian(weights, inputs, grad_theta)


Values: TypeAlias = Any
"""Features of the factors of one type: ``(n, width)`` dense or sparse rows, or a function that makes them."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The factors of one type in one instance.

    ``values`` are their features ``(n_factors, width)``: an array of float32 or float64, ``scipy.sparse`` rows, or a
    function without arguments that makes either when they are needed. None: the one feature 1, and all factors
    of the type share one table.
    """

    n_factors: int
    values: Values = None

    @property
    def tied(self) -> bool:
        """Whether the factors share one table."""
        return self.values is None

    @property
    def size(self) -> int | None:
        """How many numbers the features are; None for a function that does not say (by a ``shape``)."""
        if self.values is None:
            return 0
        if isinstance(self.values, np.ndarray):
            return self.values.size
        stored = getattr(self.values, "nnz", None)
        shape = getattr(self.values, "shape", None)
        return int(stored) if stored is not None else None if shape is None else math.prod(shape)

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Return the rows of several instances one after the other; what is made on the fly stays so."""
        n, values = sum(part.n_factors for part in parts), [part.values for part in parts if part.n_factors]
        if not values or values[0] is None:
            return cls(n)
        if any(callable(v) for v in values):
            return cls(n, lambda: _stacked([part.features() for part in parts if part.n_factors]))
        return cls(n, _stacked(values))

    def features(self) -> Any:
        """Return the features, made now if they are made on the fly; dense ones as float64."""
        values = self.values() if callable(self.values) else self.values
        return values if hasattr(values, "tocsr") else np.asarray(values, np.float64)


@dataclass(frozen=True)
class FactorType:
    """One kind of factor: its name, the cells of its table and the number of its features.

    ``fixed``: the one table of all factors of the type, where it is not to be learned; such a type has no weights.
    """

    name: str
    n_cells: int
    width: int = 1
    fixed: tuple[float, ...] | None = None

    @property
    def n_weights(self) -> int:
        """Weights of this type, a matrix of one row per cell."""
        return 0 if self.fixed is not None else self.n_cells * self.width


class LogLinearTemplate(Template):
    """One weight matrix ``(n_cells, width)`` per factor type; inputs are one :class:`Rows` per type, in that order.

    The cells of an instance are those of its factors, type after type, each factor's table in C order; a tied type has
    one table (none if the instance has no factor of that type).

    Examples
    --------
    >>> template = LogLinearTemplate([FactorType("pixel", 2, 3), FactorType("pair", 4)])
    >>> inputs = (Rows(2, np.array([[1.0, 0.0, 2.0], [1.0, 1.0, 0.0]])), Rows(1))
    >>> template.theta(np.arange(10.0), inputs)
    array([ 4., 13.,  1.,  7.,  6.,  7.,  8.,  9.])
    """

    def __init__(self, types: Sequence[FactorType]) -> None:
        self.types = tuple(types)
        ends = np.cumsum([t.n_weights for t in self.types], dtype=np.int64)
        self.starts = [0, *ends[:-1].tolist()] if self.types else []
        self.n_weights = int(ends[-1]) if self.types else 0

    def matrix(self, weights: Floats, index: int) -> Floats:
        """Return the view ``(n_cells, width)`` of the weights of one type."""
        kind, start = self.types[index], self.starts[index]
        return weights[start : start + kind.n_weights].reshape(kind.n_cells, kind.width)

    def n_cells(self, inputs: Sequence[Rows]) -> int:
        """Return the cells of an instance."""
        return sum([_cells(kind, rows) for kind, rows in zip(self.types, inputs, strict=True)])

    # -- several instances as one ---------------------------------------------------------------------------------
    def joined(self, inputs: Sequence[Sequence[Rows]]) -> tuple[Rows, ...]:
        """Return the inputs of the disjoint union of several instances; a tied type has one table for all."""
        return tuple(Rows.joined([rows[index] for rows in inputs]) for index in range(len(self.types)))

    def cell_counts(self, inputs: Sequence[Sequence[Rows]]) -> Ints:
        """Return the cells of each type in each instance, ``(n_instances, n_types)``."""
        counts = [[_cells(kind, one) for kind, one in zip(self.types, rows, strict=True)] for rows in inputs]
        return np.array(counts, np.int64).reshape(len(inputs), len(self.types))

    def cell_shifts(self, inputs: Sequence[Sequence[Rows]], counts: Ints) -> Ints:
        """Return how far the cells of each type of each instance lie further in the union than in the instance."""
        tied = np.array([any(rows[t].tied and rows[t].n_factors for rows in inputs) for t in range(len(self.types))])
        before = np.where(tied, 0, np.cumsum(counts, axis=0) - counts)
        totals = np.where(tied, counts.max(axis=0, initial=0), counts.sum(axis=0))
        shifts: Ints = np.cumsum(totals) - totals + before - (np.cumsum(counts, axis=1) - counts)
        return shifts

    def theta(self, weights: Floats, inputs: Sequence[Rows]) -> Floats:
        """Multiply features by weights, type after type."""
        out = np.empty(self.n_cells(inputs))
        at = 0
        for index, (kind, rows) in enumerate(zip(self.types, inputs, strict=True)):
            cells = out[at : at + _cells(kind, rows)]
            at += cells.size
            if kind.fixed is not None:
                cells[:] = kind.fixed if cells.size else 0.0
            elif rows.tied:
                cells[:] = self.matrix(weights, index)[:, 0] if cells.size else 0.0
            else:
                cells.reshape(rows.n_factors, kind.n_cells)[:] = rows.features() @ self.matrix(weights, index).T
        return out

    def add_pullback(self, weights: Floats, inputs: Sequence[Rows], grad_theta: Floats, out: Floats) -> None:
        """Add products of the gradient's tables with the features."""
        at = 0
        for index, (kind, rows) in enumerate(zip(self.types, inputs, strict=True)):
            cells = grad_theta[at : at + _cells(kind, rows)]
            at += cells.size
            if not cells.size or kind.fixed is not None:
                continue
            if rows.tied:
                self.matrix(out, index)[:, 0] += cells
            else:
                product = rows.features().T @ cells.reshape(rows.n_factors, kind.n_cells)
                self.matrix(out, index)[:] += product.T


def _stacked(values: Sequence[Any]) -> Any:
    """Return rows below one another, sparse if they are."""
    if hasattr(values[0], "tocsr"):
        from scipy.sparse import csr_array, vstack

        return csr_array(vstack(values))
    return np.concatenate(values)


def _cells(kind: FactorType, rows: Rows) -> int:
    if rows.tied:
        return kind.n_cells if rows.n_factors else 0
    return kind.n_cells * rows.n_factors


def __getattr__(name: str) -> Any:
    """Return what an old name stands for, with a warning; such names go with the next release."""
    if name == "CurvedTemplate":
        warnings.warn("CurvedTemplate is called DifferentiableTemplate now", DeprecationWarning, stacklevel=2)
        return DifferentiableTemplate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
