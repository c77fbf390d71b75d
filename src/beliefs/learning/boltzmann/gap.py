r"""When to stop: the gap between the free energies of rows that are held out and of rows that are learned from.

.. math:: \mathrm{gap} = \overline{F}_{\text{held out}} - \overline{F}_{\text{training}}
          = \overline{\log p}_{\text{training}} - \overline{\log p}_{\text{held out}}

log Z cancels, so this difference of mean log-likelihoods is exact where neither of them is known ([hinton2012] section
6; [ping2016] section 5.5). It is near 0 before anything is learned, and grows once a machine learns rows by heart. Its
smallest value is therefore no mark of a good machine: a fit goes on, and its latest weights are the best, as long as
the gap is at most ``max_gap`` nats above its smallest so far; by default two standard errors of the gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from beliefs.learning.boltzmann.rows import BitRows
from beliefs.learning.boltzmann.scores import free_energies
from beliefs.model.machine import BoltzmannMachine
from beliefs.typing import Floats

__all__ = ["FreeEnergyGap"]

_ERRORS = 2.0  # standard errors that count as chance


class FreeEnergyGap:
    """The gap of machines on two sets of rows.

    Of the training rows as many are looked at as are held out, evenly spread: the gap costs no pass over all.

    Attributes
    ----------
    rows : pair of BitRows
        Training rows that are looked at, and those held out.
    training, held_out : float
        Mean free energies of the last machine.
    margin : float
        How far its gap may exceed the smallest so far.
    """

    def __init__(self, training: BitRows, held_out: BitRows, max_gap: float | None = None) -> None:
        step = max(1, len(training) // len(held_out))
        self.rows = training.take(np.arange(0, len(training), step)[: len(held_out)]), held_out
        self.max_gap = max_gap
        self.training = self.held_out = 0.0
        self.margin = math.inf

    def of(self, machine: BoltzmannMachine) -> float:
        """Return the gap of a machine."""
        seen, unseen = (free_energies(machine, rows) for rows in self.rows)
        return self.between(seen, unseen)

    def between(self, seen: Floats, unseen: Floats) -> float:
        """Return the gap of the machine with these free energies of training rows and of those held out."""
        self.training, self.held_out = float(seen.mean()), float(unseen.mean())
        error = math.sqrt(seen.var() / len(seen) + unseen.var() / len(unseen))
        self.margin = _ERRORS * error if self.max_gap is None else self.max_gap
        return self.held_out - self.training

    def better(self, gap: float, past: Sequence[float]) -> bool:
        """Whether the machine that was looked at last is to be kept: its gap has not grown markedly since."""
        return gap <= min(past, default=math.inf) + self.margin
