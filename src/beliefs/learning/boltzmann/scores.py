r"""How probable a machine finds rows, as far as that is known without log Z.

.. math:: F(v) = -b^T v - \sum_j c_j \log(1 + e^{x_j}), \qquad
          \mathrm{PL}(v) = \sum_i \log p(v_i \mid v_{-i})

Both are exact and in float64. Rows that are probabilities (``binarize="mean"``) take the place of bits: the pseudo-
likelihood is then the expectation of :math:`\log p` over unit i, the others at their means.
"""

from __future__ import annotations

import numpy as np

from beliefs.kernels.boltzmann.flips import flip_log_odds
from beliefs.kernels.boltzmann.layers import softplus_sums
from beliefs.learning.boltzmann.rows import BitRows
from beliefs.learning.parallel import Executor, executor_of
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM
from beliefs.typing import Floats

__all__ = ["free_energies", "pseudo_log_likelihoods"]

_ROWS = 32  # of a piece of work on pseudo-likelihoods


def free_energies(machine: BoltzmannMachine, rows: BitRows) -> Floats:
    """Return the free energy of each row, ``(N,)``."""
    weights, visible_bias, hidden_bias = _doubles(machine)
    out, counts = np.zeros(len(rows)), machine.counts.copy()
    for where, piece in rows.pieces(np.float64):
        here = out[where]
        here += piece @ visible_bias
        softplus_sums(piece @ weights, hidden_bias, counts, 1.0, here)
    return -out


def pseudo_log_likelihoods(machine: BoltzmannMachine, rows: BitRows, executor: Executor | None = None) -> Floats:
    """Return the exact pseudo-log-likelihood of each row, ``(N,)``.

    Cost: two exponentials a row, visible and hidden unit.
    """
    weights, visible_bias, hidden_bias = _doubles(machine)
    counts = np.zeros(0) if isinstance(machine, RBM) else machine.counts
    out = np.zeros(len(rows))
    for where, piece in rows.pieces(np.float64):
        here, x = out[where], piece @ weights + hidden_bias

        def score(begin: int, end: int, piece: Floats = piece, here: Floats = here, x: Floats = x) -> None:
            for k in range(begin, end):
                part = slice(k * _ROWS, (k + 1) * _ROWS)
                odds = np.empty_like(piece[part])
                flip_log_odds(x[part], piece[part], weights, visible_bias, counts, odds)
                here[part] = (piece[part] * odds - np.logaddexp(0.0, odds)).sum(axis=1)

        (executor or executor_of(1)).chunks(score, -(-len(piece) // _ROWS))
    return out


def _doubles(machine: BoltzmannMachine) -> tuple[Floats, Floats, Floats]:
    arrays = (machine.weights, machine.visible_bias, machine.hidden_bias)
    weights, visible_bias, hidden_bias = (array.astype(np.float64) for array in arrays)
    return weights, visible_bias, hidden_bias
