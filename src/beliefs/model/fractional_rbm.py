r"""Fractional Boltzmann machines: hidden units that are there a fraction of a time.

.. math:: \log p(v) = v^T b + \sum_j c_j \log(1 + e^{w_j^T v + a_j}) - \log Z, \qquad c_j \ge 0

([ping2016] eq. 5.10). A measure over weight vectors with finite support, as Frank-Wolfe steps make it. Where every
count is whole it is an ordinary machine with copies of units; in between there is no joint law of units, and
``hidden_probability`` is that of one whole unit with the same weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.model.factor import numeric
from beliefs.model.graph import FactorGraph
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM
from beliefs.typing import Evidence

if TYPE_CHECKING:
    from beliefs.model.clamped_rbm import ClampedRBM

__all__ = ["FractionalRBM"]

_MOST_UNITS = 10**6  # copies that to_rbm makes


class FractionalRBM(BoltzmannMachine):
    """A machine whose hidden unit j counts ``counts[j]`` times.

    Parameters
    ----------
    weights, visible_bias, hidden_bias
        As for :class:`beliefs.RBM`.
    counts : array_like (n_hidden,), optional
        Numbers of at least 0; ones unless given.

    Examples
    --------
    >>> machine = FractionalRBM([[1.0], [0.5]], counts=[2.0])
    >>> machine.to_rbm().weights
    array([[1. , 1. ],
           [0.5, 0.5]])
    """

    def __init__(
        self,
        weights: ArrayLike,
        visible_bias: ArrayLike | None = None,
        hidden_bias: ArrayLike | None = None,
        counts: ArrayLike | None = None,
    ) -> None:
        self._set(weights, visible_bias, hidden_bias)
        given = np.ones(self.n_hidden) if counts is None else numeric(counts, "counts")
        if given.shape != (self.n_hidden,):
            raise ModelError(f"counts must have shape ({self.n_hidden},), found {given.shape}")
        fine = np.isfinite(given) & (given >= 0)
        if not fine.all():
            j = int(np.argmin(fine))
            raise ModelError(f"counts must be finite and at least 0, found {given[j]} for hidden unit {j}")
        self._keep("counts", given)

    @property
    def is_whole(self) -> bool:
        """Whether every count is a whole number."""
        return bool((self.counts == np.floor(self.counts)).all())

    def to_rbm(self) -> RBM:
        """Return the ordinary machine in which every unit is there as often as it counts."""
        if not self.is_whole:
            j = int(np.argmax(self.counts != np.floor(self.counts)))
            raise ModelError(
                f"hidden unit {j} counts {self.counts[j]:g} times: only whole counts make an RBM; ask this machine "
                "itself, by enumeration, gibbs or ais"
            )
        if self.counts.sum() > _MOST_UNITS:
            raise ModelError(f"copies would make {self.counts.sum():.3g} hidden units, more than {_MOST_UNITS}")
        copies = np.repeat(np.arange(self.n_hidden), self.counts.astype(np.int64))
        return RBM(self.weights[:, copies], self.visible_bias, self.hidden_bias[copies])

    def to_factor_graph(self) -> FactorGraph:
        """Return the factor graph of :meth:`to_rbm`; fractions have none, and raise a ModelError."""
        return self.to_rbm().to_factor_graph()

    def condition(self, evidence: Evidence) -> ClampedRBM:
        """Return :meth:`to_rbm` with some units observed; fractions raise a ModelError."""
        return self.to_rbm().condition(evidence)
