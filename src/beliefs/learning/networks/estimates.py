r"""Tables from counts: maximum likelihood, posterior mode and posterior mean, tied and fixed tables.

With counts :math:`N` and a Dirichlet prior :math:`\alpha`, column by column:

.. math::
    \text{mle} \propto N, \qquad \text{map} \propto N + \alpha - 1, \qquad \text{mean} \propto N + \alpha

Columns of which neither rows nor prior say anything are uniform, and counted. The mode is refused where
:math:`\alpha < 1`: the density then has no maximum inside. Variables with *tied* tables share the sum of their counts
(and the first one's prior); *fixed* ones keep the tables of the given network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.networks.priors import Prior
from beliefs.learning.networks.structure import Structure
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.options import check_option, is_word
from beliefs.typing import Floats

__all__ = ["ESTIMATES", "Estimate", "estimate_of"]

ESTIMATES = ("mle", "map", "mean")


@dataclass(frozen=True, eq=False)
class Estimate:
    """How tables follow from counts.

    Attributes
    ----------
    prior : ndarray (n_cells,)
        Dirichlet parameters; zeros for maximum likelihood.
    shift : float
        What is added to counts and prior: -1 for the mode.
    groups : tuple of tuple of int
        Variables with tied tables.
    fixed : ndarray (n_cells,)
        Numbers of fixed tables, nan elsewhere.
    """

    structure: Structure
    prior: Floats
    shift: float
    groups: tuple[tuple[int, ...], ...]
    fixed: Floats

    def pooled(self, counts: Floats) -> Floats:
        """Return counts in which tied tables have the sum of theirs."""
        if not self.groups:
            return counts
        layout, found = self.structure.layout, counts.copy()
        for group in self.groups:
            total = sum(counts[layout.cells(v)] for v in group)
            for v in group:
                found[layout.cells(v)] = total
        return found

    def tables(self, counts: Floats) -> tuple[Floats, list[tuple[int, int]]]:
        """Return the tables, and the (variable, column) of which nothing is known."""
        layout = self.structure.layout
        weights = np.maximum(self.pooled(counts) + self.prior + self.shift, 0.0)
        unknown: list[tuple[int, int]] = []
        for v in range(layout.n_vars):
            columns = weights[layout.cells(v)].reshape(-1, int(layout.card[v]))
            sums = columns.sum(axis=1, keepdims=True)
            empty = ~(sums > 0.0)
            if empty.any():
                columns += empty
                sums = columns.sum(axis=1, keepdims=True)
                unknown += [(v, int(c)) for c in np.flatnonzero(empty)]
            columns /= sums
        held = ~np.isnan(self.fixed)
        weights[held] = self.fixed[held]
        return weights, [(v, c) for v, c in unknown if not held[layout.cells(v)].any()]

    def log_prior(self, probabilities: Floats) -> float:
        """Return what the prior adds to the log-likelihood, up to a constant: tied tables count once, fixed none."""
        powers = self.prior + self.shift
        free = np.isnan(self.fixed)
        for group in self.groups:
            for v in group[1:]:
                free[self.structure.layout.cells(v)] = False
        chosen = free & (powers != 0.0)
        with np.errstate(divide="ignore"):
            return float(powers[chosen] @ np.log(probabilities[chosen]))


def estimate_of(
    structure: Structure,
    prior: Prior,
    estimate: str,
    tied: Sequence[Sequence[Any]] = (),
    fixed: Sequence[Any] = (),
    network: BayesianNetwork | None = None,
) -> Estimate:
    """Check how tables are to be estimated, before any work."""
    check_option(is_word(estimate, ESTIMATES), "estimate", f"one of {', '.join(ESTIMATES)}", estimate)
    layout, naming = structure.layout, structure.naming
    alpha = np.zeros(layout.n_cells) if estimate == "mle" else prior.counts(structure)
    groups = tuple(tuple(naming.index(ref) for ref in group) for group in tied)
    _check_tied(structure, groups)
    for group in groups:
        for v in group[1:]:
            alpha[layout.cells(v)] = alpha[layout.cells(group[0])]
    held = np.full(layout.n_cells, np.nan)
    for ref in fixed:
        if network is None:
            raise ModelError("fixed tables are those of a given network; the structure is none")
        cells = layout.cells(naming.index(ref))
        held[cells] = network.probabilities[cells]
    if estimate == "map":
        low = (alpha < 1.0) & np.isnan(held)
        if low.any():
            v = int(np.searchsorted(layout.table_ptr, int(np.argmax(low)), side="right")) - 1
            raise ModelError(
                f"estimate='map' needs prior counts of at least 1, found {alpha[int(np.argmax(low))]:.4g} for "
                f"{naming.name(v)!r}; use estimate='mean', or a larger prior"
            )
    return Estimate(structure, alpha, -1.0 if estimate == "map" else 0.0, groups, held)


def _check_tied(structure: Structure, groups: tuple[tuple[int, ...], ...]) -> None:
    layout, naming = structure.layout, structure.naming
    seen: set[int] = set()
    for group in groups:
        for v in group:
            if layout.shape(v) != layout.shape(group[0]):
                names = f"{naming.name(group[0])!r} and {naming.name(v)!r}"
                raise ModelError(
                    f"tied tables must have one shape, found {layout.shape(group[0])} and {layout.shape(v)} of {names}"
                )
            if v in seen:
                raise ModelError(f"variable {naming.name(v)!r} is in two groups of tied tables")
            seen.add(v)
