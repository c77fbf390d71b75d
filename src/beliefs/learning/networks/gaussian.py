r"""Gaussian leaves: columns of numbers below discrete parents, one normal distribution a joint state of the parents.

With joint state :math:`k` of the parents, :math:`x \sim N(\mu_k, \Sigma_k)` in D columns. From weights
:math:`r_{sk}` of the rows (posteriors, or zeros and ones where the parents are seen) the statistics are

.. math:: N_k = \sum_s r_{sk}, \qquad F_k = \sum_s r_{sk} x_s, \qquad S_k = \sum_s r_{sk} x_s x_s^T

and the M-step is weighted maximum likelihood:

.. math:: \mu_k = F_k / N_k, \qquad \Sigma_k = S_k / N_k - \mu_k \mu_k^T

``covariance``: ``"full"``, ``"diagonal"`` (off-diagonal numbers are zero) or ``"tied"`` (one matrix, the mean of the
:math:`\Sigma_k` weighted by :math:`N_k`). Eigenvalues below ``floor`` are raised to it, which is the maximum over
all matrices with eigenvalues of at least ``floor``: EM still never falls, and no component shrinks to a point.

Where a row has some columns only, its density is that of these, and in the statistics the others stand with what they
are given these: with gain :math:`G = \Sigma_{mo} \Sigma_{oo}^{-1}`, x is filled by :math:`\mu_m + G (x_o - \mu_o)`, and
:math:`S_k` has :math:`\Sigma_{mm} - G \Sigma_{om}` more for the row. So EM is over missing columns, too.

Columns are taken from an origin near their mean, so that :math:`S_k / N_k - \mu_k \mu_k^T` loses no digits to a large
mean. Cost: rows x states x D (diagonal) or D squared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.model.distinct import distinct_rows
from beliefs.options import check_number, check_option, is_word, shown
from beliefs.typing import Floats, Ints

__all__ = [
    "COVARIANCES",
    "FittedLeaf",
    "GaussianLeaf",
    "expected_statistics",
    "log_densities",
    "maximised",
    "statistics",
]

COVARIANCES = ("full", "diagonal", "tied")


@dataclass(frozen=True, eq=False)
class GaussianLeaf:
    """Columns that are normal given the joint state of discrete parents.

    Parameters
    ----------
    columns : str or sequence of str
        One column, or several with a joint distribution.
    parents : str or sequence of str
        Discrete variables; none: one normal distribution.
    covariance : {"full", "diagonal", "tied"}
        Of each joint state of the parents; ``"tied"``: one full matrix for all of them.
    floor : float
        Smallest eigenvalue of a covariance, in the columns' units squared.
    means : array_like (parents' states..., columns), optional
        Where EM starts; None: at random rows.
    covariances : array_like (parents' states..., columns, columns), optional
        Where EM starts; None: at the covariance of all rows.
    """

    columns: Any
    parents: Any = ()
    covariance: str = "full"
    floor: float = 1e-6
    means: Any = None
    covariances: Any = None

    def __post_init__(self) -> None:
        check_option(is_word(self.covariance, COVARIANCES), "covariance", ", ".join(COVARIANCES), self.covariance)
        check_number("floor", self.floor, positive=True)
        if not self.column_names or len(set(self.column_names)) < len(self.column_names):
            raise ModelError(f"a leaf needs columns, each once, found {shown(self.columns)}")
        if len(set(self.parent_names)) < len(self.parent_names):
            raise ModelError(f"a leaf has each parent once, found {shown(self.parents)}")

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns, by name."""
        return _names(self.columns, "columns")

    @property
    def parent_names(self) -> tuple[str, ...]:
        """The parents, by name."""
        return _names(self.parents, "parents")


def _names(given: Any, what: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise ModelError(f"{what} of a leaf must be names, found {shown(given)}")
    return tuple(names)


@dataclass(frozen=True, eq=False)
class FittedLeaf:
    """A leaf with its numbers: ``weights (states...)``, ``means (states..., D)``, ``covariances (states..., D, D)``.

    ``states...`` are those of the parents; the weights are the (expected) rows of each.
    """

    columns: tuple[str, ...]
    parents: tuple[str, ...]
    covariance: str
    weights: Floats
    means: Floats
    covariances: Floats

    def log_density(self, x: Any) -> Floats:
        """Return log densities of rows ``(n, D)`` for each joint state of the parents, ``(n, states...)``.

        Columns that are nan are summed out.
        """
        rows, d = np.asarray(x, np.float64), len(self.columns)
        if rows.ndim != 2 or rows.shape[1] != d:
            raise ModelError(f"rows of the leaf must have shape (n, {d}), found {rows.shape}")
        found = log_densities(
            rows, self.means.reshape(-1, d), self.covariances.reshape(-1, d, d), self.covariance == "diagonal"
        )
        return found.reshape(len(rows), *self.weights.shape)

    def __repr__(self) -> str:
        below = f" given {', '.join(self.parents)}" if self.parents else ""
        return f"FittedLeaf({', '.join(self.columns)}{below}, {self.covariance})"


def log_densities(x: Floats, means: Floats, covariances: Floats, diagonal: bool) -> Floats:
    """Return the log densities of rows under each normal distribution, ``(n, K)``; nan is summed out."""
    n, d = x.shape
    found = np.empty((n, len(means)))
    for rows, seen in _patterns(x):
        own = x[rows][:, seen]
        for k, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
            if diagonal:
                variance = np.diagonal(covariance)[seen]
                scaled, log_det = (own - mean[seen]) / np.sqrt(variance), 0.5 * float(np.log(variance).sum())
            else:
                root = np.linalg.cholesky(covariance[np.ix_(seen, seen)])
                scaled, log_det = (own - mean[seen]) @ np.linalg.inv(root).T, float(np.log(np.diagonal(root)).sum())
            found[rows, k] = -0.5 * (scaled * scaled).sum(axis=1) - log_det
        found[rows] -= 0.5 * seen.size * math.log(2.0 * math.pi)
    return found


def statistics(x: Floats, weights: Floats, diagonal: bool) -> Floats:
    """Return N, F and S of each column of weights ``(n, K)`` side by side, ``(K, 1 + D + D * D)``."""
    n, d = x.shape
    found = np.zeros((weights.shape[1], 1 + d + d * d))
    found[:, 0] = weights.sum(axis=0)
    found[:, 1 : 1 + d] = weights.T @ x
    if diagonal:
        found[:, 1 + d :: d + 1] = weights.T @ (x * x)
        return found
    for k in range(weights.shape[1]):
        found[k, 1 + d :] = ((x * weights[:, k : k + 1]).T @ x).ravel()
    return found


def expected_statistics(x: Floats, weights: Floats, means: Floats, covariances: Floats, diagonal: bool) -> Floats:
    """Return the statistics that rows with nan have on average under each normal distribution, given their numbers."""
    d = x.shape[1]
    found = np.zeros((weights.shape[1], 1 + d + d * d))
    for rows, seen in _patterns(x):
        if seen.size == d:
            found += statistics(x[rows], weights[rows], diagonal)
            continue
        absent = np.setdiff1d(np.arange(d), seen)
        cells = 1 + d + (absent[:, None] * d + absent)
        for k, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
            gain = np.zeros((absent.size, seen.size))
            if not diagonal and seen.size:
                gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, absent)]).T
            filled, own = x[rows], weights[rows, k : k + 1]
            filled[:, absent] = mean[absent] + (filled[:, seen] - mean[seen]) @ gain.T
            found[k] += statistics(filled, own, diagonal)[0]
            rest = covariance[np.ix_(absent, absent)] - gain @ covariance[np.ix_(seen, absent)]
            found[k, cells] += own.sum() * (np.diag(np.diagonal(rest)) if diagonal else rest)
    return found


def _patterns(x: Floats) -> Iterator[tuple[Any, Ints]]:
    """Yield rows that have the same columns, and these columns."""
    missing = np.isnan(x)
    if not missing.any():
        yield slice(None), np.arange(x.shape[1])
        return
    kinds, _, number = distinct_rows(missing)
    for k, kind in enumerate(kinds):
        yield np.flatnonzero(number == k), np.flatnonzero(~kind)


def maximised(sums: Floats, d: int, covariance: str, floor: float, overall: Floats) -> Floats:
    """Return weights, means and covariances side by side, from statistics of the same shape ``(K, 1 + D + D * D)``.

    States without weight have the mean and covariance of ``overall``, statistics of all rows ``(1 + D + D * D,)``.
    """
    found = np.empty_like(sums)
    found[:, 0] = sums[:, 0]
    empty = ~(sums[:, 0] > 1e-200)
    filled = np.where(empty[:, None], overall, sums)
    weights = filled[:, 0]
    means = filled[:, 1 : 1 + d] / weights[:, None]
    spread = filled[:, 1 + d :].reshape(-1, d, d) / weights[:, None, None] - means[:, :, None] * means[:, None, :]
    if covariance == "tied":
        share = weights / weights.sum() if empty.all() else sums[:, 0] / sums[:, 0].sum()
        spread[:] = np.einsum("k,kij->ij", share, spread)
    found[:, 1 : 1 + d] = means
    found[:, 1 + d :] = _raised(0.5 * (spread + spread.transpose(0, 2, 1)), floor, covariance).reshape(len(sums), -1)
    return found


def _raised(matrices: Floats, floor: float, covariance: str) -> Floats:
    """Return matrices whose eigenvalues are at least ``floor``; those of a diagonal one are its entries."""
    if covariance == "diagonal":
        d = matrices.shape[1]
        return np.maximum(np.diagonal(matrices, axis1=1, axis2=2), floor)[:, :, None] * np.eye(d)
    values, vectors = np.linalg.eigh(matrices)
    low = values[:, 0] < floor
    if low.any():
        fixed = vectors[low] * np.maximum(values[low], floor)[:, None, :]
        matrices = matrices.copy()
        matrices[low] = fixed @ vectors[low].transpose(0, 2, 1)
    return matrices
