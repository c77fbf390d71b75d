r"""The moves of Frank-Wolfe: a unit appended, mass moved towards an atom, mass moved away from one.

=================================  =================================================================================
appended (``alpha="units"``)       to :math:`q_t = (1 - \tfrac1t) q_{t-1} + \tfrac1t \delta(w^*)` with
                                   :math:`\alpha_t = t`, a column more, the others untouched ([ping2016] Algorithm
                                   5.1)
towards                            to :math:`q + s\,(\delta(w^*) - q)`, :math:`0 \le s \le 1` by line search
away [guelat1986]                  to :math:`q + s\,(q - \delta(a))`, :math:`0 \le s \le q_a / (1 - q_a)`, at the end
                                   of which line the unit is gone
removed (``alpha="units"``)        the away step to its end, where the penalised likelihood does not fall by it
=================================  =================================================================================

Counts are :math:`c = \alpha q`, and the mass they leave is an atom at zero (:mod:`.measure`), which mass may be moved
away from like from any other.

The bias moves along with the counts, by :math:`-\Delta c_j\, w_j E_{data}[\sigma(w_j^T v)]` of each unit, so that a
unit comes with a mean effect of about nothing: the line is one in q and b together, in which the objective is concave
all the same. Else long weights would push visible units far from their rates, and the steps that fit the bias
afterwards would have a long way back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from beliefs.learning.boltzmann.infinite.averages import RowAverages
from beliefs.learning.boltzmann.infinite.line_search import along, best_step
from beliefs.learning.boltzmann.infinite.measure import Measure
from beliefs.typing import Floats

__all__ = ["Position", "appended", "away", "rescaled", "towards", "without_worst"]

_EMPTY = 1e-12  # a count, relative to alpha, at which a unit is gone
_LEARNED = -0.5, 1.0  # how far alpha may move in a step, relative to itself


@dataclass(frozen=True, eq=False)
class Position:
    """A measure, the data, its law, and J of each of its atoms.

    Attributes
    ----------
    ridge : float
        rho of J: lambda / alpha, or lambda itself where a unit counts once.
    values : ndarray (n_units,)
        J of each atom; that of the atom at zero is 0.
    seen, active : ndarray (n_units,)
        The averages over the data of log(1 + exp(w v)) and of P(h = 1) of each atom.
    """

    measure: Measure
    data: RowAverages
    law: RowAverages
    ridge: float
    values: Floats
    seen: Floats
    active: Floats

    @classmethod
    def of(cls, measure: Measure, data: RowAverages, law: RowAverages, ridge: float) -> Position:
        """Evaluate J at every atom."""
        seen, active = data.units(measure.atoms)
        values = seen - law.softplus_means(measure.atoms) - 0.5 * ridge * measure.squares
        values -= active * ((data.mean - law.mean) @ measure.atoms[:-1])  # the bias moves along
        return cls(measure, data, law, ridge, values, seen, active)

    @property
    def mean(self) -> float:
        """alpha E_q[J], the average of the functional gradient."""
        return float(self.measure.counts @ self.values)

    def gap(self, best: float) -> float:
        """Return the Frank-Wolfe gap for the largest J, ``max g - E_q[g]``; of no atom is it larger."""
        largest = max(best, 0.0, float(self.values.max(initial=0.0)))
        return max(self.measure.alpha * largest - self.mean, 0.0)

    def worst(self) -> tuple[int, float]:
        """Return the away atom, the one with the smallest J, and J there; -1: the atom at zero."""
        m = self.measure
        at_zero = m.counts.sum() < m.alpha * (1.0 - _EMPTY)
        values = np.append(self.values, 0.0 if at_zero else np.inf)
        unit = int(np.argmin(values))
        return (-1 if unit == m.n_units else unit), float(values[unit])

    def line(self, direction: Floats) -> Line:
        """Return the line along which the counts of the atoms change by a direction, ``(n_units,)``."""
        m = self.measure
        shift = -m.atoms[:-1] @ (direction * self.active)
        d = self.law.softplus_sums(m.atoms, direction) + self.law.products(shift)
        seen = float(direction @ self.seen) + float(shift @ self.data.mean)
        return Line(d, seen - 0.5 * self.ridge * float(direction @ m.squares), shift)

    def with_atom(self, atom: Floats) -> tuple[Position, int]:
        """Return the position with an atom that has no mass yet, and its number; one that is there is found."""
        same = np.flatnonzero((self.measure.atoms == atom[:, None]).all(axis=0))
        if same.size:
            return self, int(same[0])
        return Position.of(self.measure.with_unit(atom, 0.0), self.data, self.law, self.ridge), self.measure.n_units


@dataclass(frozen=True, eq=False)
class Line:
    """A line of measures: what log weights, the linear part of the objective and the bias change by at step 1."""

    d: Floats
    slope: float
    shift: Floats


def appended(position: Position, atom: Floats) -> Measure:
    """Return the measure with the unit, and a mass of one more."""
    there, unit = position.with_atom(atom)
    after = position.measure.with_unit(atom, 1.0)
    return replace(after, alpha=float(after.n_units), bias=after.bias - atom[:-1] * there.active[unit])


def towards(position: Position, atom: Floats, least_share: float) -> tuple[Measure, float]:
    """Move mass from all atoms to one; return the measure and the step."""
    there, unit = position.with_atom(atom)
    direction = -there.measure.counts
    direction[unit] += there.measure.alpha
    line = there.line(direction)
    s = best_step(there.law, line.d, line.slope, (0.0, 1.0), least_share)
    return _moved(there.measure, line, direction, s), s


def away(position: Position, unit: int, least_share: float) -> tuple[Measure, float]:
    """Move mass from one atom to all others (-1: from the atom at zero); return the measure and the step, below 0."""
    m = position.measure
    share = (m.alpha - m.counts.sum() if unit < 0 else m.counts[unit]) / m.alpha
    if share >= 1.0:
        return m, 0.0
    direction = m.counts.copy()
    if unit >= 0:
        direction[unit] -= m.alpha
    line, end = position.line(direction), share / (1.0 - share)
    s = best_step(position.law, line.d, line.slope, (0.0, end), least_share)
    after = _moved(m, line, direction, s)
    return (after.without(unit) if s == end and after.n_units == m.n_units and unit >= 0 else after), -s


def without_worst(position: Position, unit: int) -> Measure | None:
    """Return the measure without a unit that counts once, or None if the penalised likelihood would fall."""
    m = position.measure
    direction = np.zeros(m.n_units)
    direction[unit] = -1.0
    line = position.line(direction)
    if along(position.law, line.d, line.slope, 1.0) < 0.0:
        return None
    after = replace(m, bias=m.bias + line.shift).without(unit)
    return replace(after, alpha=float(max(after.n_units, 1)))


def rescaled(position: Position, least_share: float) -> Measure:
    r"""Move alpha with q as it is: :math:`\nabla_\alpha L = E_{data} E_q[...] - E_p E_q[...]`, by line search."""
    m = position.measure
    line = position.line(m.counts)
    slope = line.slope + 0.5 * position.ridge * float(m.counts @ m.squares)  # the penalty is that of q, which stays
    s = best_step(position.law, line.d, slope, _LEARNED, least_share)
    return replace(_moved(m, line, m.counts, s), alpha=(1.0 + s) * m.alpha)


def _moved(measure: Measure, line: Line, direction: Floats, s: float) -> Measure:
    """Return the measure at a step along a line, without atoms that have no mass."""
    moved = replace(measure, counts=np.maximum(measure.counts + s * direction, 0.0), bias=measure.bias + s * line.shift)
    return _tidied(moved)


def _tidied(measure: Measure) -> Measure:
    """Drop atoms without mass."""
    there = measure.counts > _EMPTY * measure.alpha
    return measure if there.all() else replace(measure, atoms=measure.atoms[:, there], counts=measure.counts[there])
