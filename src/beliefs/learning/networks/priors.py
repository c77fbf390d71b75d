r"""Dirichlet priors of a network's tables: what each says, in imaginary rows, of every cell.

For each joint state of the parents of ``v`` the numbers of a column are Dirichlet with :math:`\alpha_{v}(x_{pa}, x_v)`:

=============================  =====================================================================================
``dirichlet(alpha=1)``         :math:`\alpha` in every cell
``laplace``, ``k2``            1 in every cell [cooper1992]
``bdeu(ess=10)``               :math:`ess / \text{cells of the family}`: equivalent networks are alike [heckerman1995]
``NetworkPrior(net, ess=10)``  :math:`ess \cdot p(x_{pa}, x_v)` under a prior network, whatever its arcs [heckerman1995]
a mapping of tables            as given, by the name of the variable; others have 1
=============================  =====================================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.base import written
from beliefs.inference.doors import infer
from beliefs.inference.text import parse
from beliefs.learning.networks.structure import Structure
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.options import check_number, shown
from beliefs.typing import Floats

__all__ = ["PRIORS", "BDeu", "Dirichlet", "K2", "Laplace", "NetworkPrior", "NoPrior", "Prior", "prior_of"]


class Prior(ABC):
    """Imaginary rows, cell by cell."""

    @abstractmethod
    def counts(self, structure: Structure) -> Floats:
        """Return the Dirichlet parameters of all cells ``(n_cells,)``; zeros where there is no prior."""


@dataclass(frozen=True, kw_only=True, repr=False)
class _Named(Prior):
    name: ClassVar[str]

    def __repr__(self) -> str:
        return written(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class NoPrior(_Named):
    """No imaginary rows: estimates are of maximum likelihood."""

    name: ClassVar[str] = "none"

    def counts(self, structure: Structure) -> Floats:
        """Return zeros."""
        return np.zeros(structure.layout.n_cells)


@dataclass(frozen=True, kw_only=True, repr=False)
class Dirichlet(_Named):
    """The same number in every cell."""

    alpha: float = 1.0

    name: ClassVar[str] = "dirichlet"

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, positive=True)

    def counts(self, structure: Structure) -> Floats:
        """Return ``alpha`` everywhere."""
        return np.full(structure.layout.n_cells, float(self.alpha))


@dataclass(frozen=True, kw_only=True, repr=False)
class Laplace(Dirichlet):
    """One imaginary row in every cell."""

    name: ClassVar[str] = "laplace"


@dataclass(frozen=True, kw_only=True, repr=False)
class K2(_Named):
    """Uniform over all tables: one in every cell."""

    name: ClassVar[str] = "k2"

    def counts(self, structure: Structure) -> Floats:
        """Return ones."""
        return np.ones(structure.layout.n_cells)


@dataclass(frozen=True, kw_only=True, repr=False)
class BDeu(_Named):
    """``ess`` imaginary rows, spread evenly over the cells of each family."""

    ess: float = 10.0

    name: ClassVar[str] = "bdeu"

    def __post_init__(self) -> None:
        check_number("ess", self.ess, positive=True)

    def counts(self, structure: Structure) -> Floats:
        """Return ``ess`` over the family's cells."""
        sizes = structure.layout.factor_size
        return np.repeat(self.ess / sizes, sizes)


@dataclass(frozen=True, eq=False)
class NetworkPrior(Prior):
    """``ess`` imaginary rows, drawn from a network over the same variables."""

    network: BayesianNetwork
    ess: float = 10.0

    def __post_init__(self) -> None:
        check_number("ess", self.ess, positive=True)

    def counts(self, structure: Structure) -> Floats:
        """Return ``ess`` times the family's marginals under the network."""
        theirs, ours = self.network.graph.naming, structure.naming
        for v in range(structure.n_vars):
            name = ours.name(v)
            if theirs.states(theirs.index(name)) != ours.states(v):
                raise ModelError(f"the prior network has other states of {name!r} than the structure")
        asked = infer(self.network)
        found = []
        for v in range(structure.n_vars):
            scope = [theirs.index(ours.name(int(u))) for u in structure.layout.scope(v)]
            found.append(self.ess * np.asarray(asked.marginal(scope)).ravel())
        return np.concatenate([*found, np.zeros(0)])


@dataclass(frozen=True, eq=False)
class _Given(Prior):
    tables: Mapping[str, Any]

    def counts(self, structure: Structure) -> Floats:
        layout, found = structure.layout, np.ones(structure.layout.n_cells)
        for name, table in self.tables.items():
            v = structure.naming.index(name)
            numbers = np.asarray(table, np.float64)
            if numbers.shape != layout.shape(v) or not (np.isfinite(numbers) & (numbers > 0)).all():
                raise ModelError(f"the prior of {name!r} must be positive numbers of shape {layout.shape(v)}")
            found[layout.cells(v)] = numbers.ravel()
        return found


PRIORS: tuple[type[_Named], ...] = (BDeu, K2, Laplace, Dirichlet, NoPrior)
"""The priors that have a text."""


def prior_of(prior: Any) -> Prior:
    """Return the prior that is meant: itself, by its text, a network, tables, or None for none."""
    if prior is None:
        return NoPrior()
    if isinstance(prior, Prior):
        return prior
    if isinstance(prior, BayesianNetwork):
        return NetworkPrior(prior)
    if isinstance(prior, Mapping):
        return _Given(prior)
    if isinstance(prior, str):
        return parse(prior, PRIORS, "prior")
    raise ModelError(f"prior must be a text such as bdeu(ess=10), a network or tables, found {shown(prior)}")
