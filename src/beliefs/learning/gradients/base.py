r"""What a way of differentiating through inference is.

A marginal-based loss is :math:`L(\theta) = Q(\mu(\theta))`, so
:math:`dL/d\theta = (d\mu/d\theta)^\top dQ/d\mu`, Eq. (23) [domke2013]. A :class:`Gradient` runs inference on
a graph and returns :class:`Beliefs`, which know how to pull a gradient in the beliefs back to the log potentials.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.base import Method
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.typing import Floats

__all__ = ["Beliefs", "Gradient"]


class Beliefs(ABC):
    """Marginals of one graph, and the way back.

    Attributes
    ----------
    mu_var : ndarray (n_states,)
        Marginals of the variables; point masses where observed.
    mu_factor : ndarray (table_ptr[-1],)
        Every factor's own table, one after the other; tied ones are repeated.
    rho : ndarray (n_factors,) or None
        Counting numbers of the factors' entropies; None for mean field and exact inference.
    converged : bool
        Whether inference met its tolerance; always True where the answer is defined by a number of sweeps.
    warm_state : object
        What a later run on the same layout may start from.
    """

    layout: Layout
    mu_var: Floats
    rho: Floats | None = None
    converged: bool = True
    warm_state: Any = None

    @property
    def kept(self) -> Any:
        """``warm_state``, by its old name."""
        warnings.warn("Beliefs.kept is called warm_state; the old name goes in 0.2", DeprecationWarning, stacklevel=2)
        return self.warm_state

    @property
    @abstractmethod
    def mu_factor(self) -> Floats:
        """Every factor's own table, made when asked for."""

    def pullback(self, bar_var: Floats | None = None, bar_factor: Floats | None = None) -> Floats:
        r"""Return :math:`(d\mu/d\theta)^\top \bar\mu`, ``(n_cells,)``, for gradients in the beliefs (None: zero).

        The belief of a factor of one variable is the variable's, so its part of ``bar_factor`` joins ``bar_var``.
        """
        lay = self.layout
        of_var = np.zeros(lay.n_states) if bar_var is None else np.array(bar_var, np.float64)
        of_factor = None if bar_factor is None else np.ascontiguousarray(bar_factor, np.float64)
        if of_factor is not None:
            unary = lay.unary_cells
            taken = of_factor[unary.table_cells]
            if taken.any():
                of_var += np.bincount(unary.states, taken, lay.n_states)
        return self._pulled(of_var, of_factor)

    @abstractmethod
    def _pulled(self, bar_var: Floats, bar_factor: Floats | None) -> Floats:
        """Do the work; parts of ``bar_factor`` that belong to factors of one variable are to be ignored."""


@dataclass(frozen=True, kw_only=True)
class Gradient(ABC):
    """A way to differentiate through inference; the fields are its options."""

    name: ClassVar[str]
    exact: ClassVar[bool] = False
    """Whether the marginals are exact."""

    until_tol: ClassVar[bool] = True
    """Whether inference runs until a tolerance is met, and does no fixed amount of work."""

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """The methods whose marginals are differentiated, none where they are exact; None: not part by part.

        With methods that answer for a disjoint union as for its parts, so does the gradient.
        """
        return None

    @abstractmethod
    def run(self, graph: FactorGraph, warm: Any = None) -> Beliefs:
        """Run inference; ``warm`` is the ``warm_state`` of earlier beliefs, which ways with a fixed start ignore."""

    def marginals(self, graph: FactorGraph) -> Floats:
        """Return the marginals of the variables alone, ``(n_states,)``: there will be no way back."""
        return self.run(graph).mu_var
