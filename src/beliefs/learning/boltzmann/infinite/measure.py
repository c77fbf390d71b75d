r"""A measure over weight vectors: what an infinite restricted Boltzmann machine is before it is a machine.

.. math:: \log p(v) = \alpha\, E_q[\log(1 + e^{w^T v})] + b^T v - \log Z, \qquad \alpha q = \sum_j c_j \delta(w_j)

([ping2016] eq. 5.4). An atom is a column of ``atoms``; its last entry belongs to a visible unit that is always 1, and
so is the bias of the hidden unit. The mass that the counts leave, :math:`\alpha - \sum_j c_j`, is an atom at
:math:`w = 0`, where :math:`\log(1 + e^0)` is a constant: no unit at all. Before the first step all mass is there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beliefs.model.fractional_rbm import FractionalRBM
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM
from beliefs.typing import Floats

__all__ = ["Measure", "flat_size"]


def flat_size(n_visible: int, max_units: int) -> int:
    """Return how long the vector is that holds a measure of at most so many units."""
    return n_visible + max_units * (n_visible + 2) + 3


@dataclass(frozen=True, eq=False)
class Measure:
    """A bias, atoms with their counts, and the logarithm of the normaliser, as far as it is known.

    Attributes
    ----------
    bias : ndarray (n_visible,)
    atoms : ndarray (n_visible + 1, n_units)
        A column a unit; the last row is that of the unit that is always 1.
    counts : ndarray (n_units,)
    alpha : float
        The mass of the whole measure, the atom at zero included.
    log_z : float
        Exact where expectations are, else an estimate.
    """

    bias: Floats
    atoms: Floats
    counts: Floats
    alpha: float
    log_z: float

    @classmethod
    def independent(cls, rates: Floats, n_rows: int, alpha: float) -> Measure:
        """Return the measure without units that fits the rates of visible units (kept from 0 and 1)."""
        inside = np.clip(rates, 0.5 / (n_rows + 1), 1.0 - 0.5 / (n_rows + 1))
        bias = np.log(inside) - np.log1p(-inside)
        return cls(bias, np.zeros((bias.size + 1, 0)), np.zeros(0), alpha, float(np.logaddexp(0.0, bias).sum()))

    @classmethod
    def of_machine(cls, machine: BoltzmannMachine, alpha: float, log_z: float) -> Measure:
        """Return the measure that a machine is."""
        atoms = np.concatenate([machine.weights, machine.hidden_bias[None]]).astype(np.float64)
        return cls(machine.visible_bias.astype(np.float64), atoms, machine.counts.copy(), alpha, log_z)

    def machine(self, dtype: Any, plain: bool) -> BoltzmannMachine:
        """Return the machine: an ordinary one if every unit is there once, else a fractional one."""
        weights, bias = self.atoms[:-1].astype(dtype), self.bias.astype(dtype)
        if plain:
            return RBM(weights, bias, self.atoms[-1].astype(dtype))
        return FractionalRBM(weights, bias, self.atoms[-1].astype(dtype), self.counts)

    @property
    def n_units(self) -> int:
        """Number of atoms that are units."""
        return int(self.counts.size)

    @property
    def squares(self) -> Floats:
        """The squared length of each atom."""
        result: Floats = (self.atoms**2).sum(axis=0)
        return result

    def with_unit(self, atom: Floats, count: float) -> Measure:
        """Return the measure with a further column; those that are there stay as they are."""
        atoms = np.concatenate([self.atoms, atom[:, None]], axis=1)
        return replace(self, atoms=atoms, counts=np.append(self.counts, count))

    def without(self, unit: int) -> Measure:
        """Return the measure without one of its units."""
        return replace(self, atoms=np.delete(self.atoms, unit, axis=1), counts=np.delete(self.counts, unit))

    # -- as a vector ------------------------------------------------------------------------------------------------
    def flat(self, max_units: int) -> Floats:
        """Return bias, number of units, mass, log Z, counts and columns in one vector, with zeros for units to come."""
        out = np.zeros(flat_size(self.bias.size, max_units))
        n, k = self.bias.size, self.n_units
        out[:n] = self.bias
        out[n : n + 3] = k, self.alpha, self.log_z
        out[n + 3 : n + 3 + k] = self.counts
        begin = n + 3 + max_units
        out[begin : begin + self.atoms.size] = self.atoms.T.ravel()
        return out

    @classmethod
    def of_flat(cls, vector: Floats, n_visible: int, max_units: int) -> Measure:
        """Read a vector made by :meth:`flat`."""
        n = n_visible
        k, alpha, log_z = int(vector[n]), float(vector[n + 1]), float(vector[n + 2])
        begin = n + 3 + max_units
        atoms = vector[begin : begin + k * (n + 1)].reshape(k, n + 1).T  # large, and nobody changes it: no copy
        return cls(vector[:n].copy(), atoms, vector[n + 3 : n + 3 + k].copy(), alpha, log_z)
