r"""Fractional belief propagation: any positive counting numbers [wiegerinck2003].

The free energy with :math:`\sum_c \rho_c H(b_c) + \sum_i (1 - \sum_{c \ni i} \rho_c) H(b_i)` in the place of Bethe's
entropy: between belief propagation (all 1) and mean field (as :math:`\rho \to 0`). Messages are those of
:mod:`beliefs.kernels.messages.log`. ``rho="convex"`` takes :math:`\rho_c = 1 / \max_{i \in c} d_i` with :math:`d_i` the
number of factors of several variables at i: then all counting numbers are non-negative, the free energy is concave,
and its maximiser the only fixed point [weiss2007]. The value is an ESTIMATE; for a bound use ``trw``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.base import Bound, Guarantee, Problem
from beliefs.inference.messages.propagation import MessagePassing, MessageWarmStart
from beliefs.inference.messages.rho import Reweighting, check_range
from beliefs.model.layout import Layout
from beliefs.options import check_option, is_number

__all__ = ["FractionalBP"]


@dataclass(frozen=True, kw_only=True, repr=False)
class FractionalBP(MessagePassing):
    """Message passing with chosen counting numbers; for the other options see :class:`MessagePassing`.

    Parameters
    ----------
    rho : "convex", float or array (n_factors,)
        One number for all factors of several variables or one for each factor, positive.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.datasets.make_ising_grid(4, seed=0)
    >>> bl.infer(g, "fractional_bp(rho=0.8)").bound.name
    'ESTIMATE'
    """

    rho: Any = "convex"

    name: ClassVar[str] = "fractional_bp"
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.ESTIMATE, "unique with rho=convex")
    reference: ClassVar[str] = "wiegerinck2003, weiss2007"

    def __post_init__(self) -> None:
        super().__post_init__()
        named = isinstance(self.rho, str) and self.rho == "convex"
        single = is_number(self.rho) and 0 < self.rho < np.inf
        listed = isinstance(self.rho, (np.ndarray, list, tuple))
        check_option(named or single or listed, "rho", "'convex', a positive number or one for each factor", self.rho)

    @property
    def chooses_by_part(self) -> bool:
        """Whether they are no list, which is of one layout."""
        return isinstance(self.rho, str) or is_number(self.rho)

    def counting_numbers(self, problem: Problem, warm: MessageWarmStart | None) -> Reweighting:
        """Return the numbers as given, 1 on factors of one variable or none."""
        layout = problem.graph.layout
        if isinstance(self.rho, str):
            return layout.plan(_convex)
        coupling = layout.arity >= 2
        if is_number(self.rho):
            given = np.full(layout.n_factors, float(self.rho))
        else:
            try:
                given = np.asarray(self.rho, float)
            except (TypeError, ValueError, OverflowError):
                raise ModelError("rho must be numbers, one for each factor") from None
            if given.shape != (layout.n_factors,):
                raise ModelError(
                    f"rho must have one number for each of {layout.n_factors} factors, found {given.shape}"
                )
            if not ((given > 0) & (given < np.inf))[coupling].all():
                worst = int(np.argmax(coupling & ~((given > 0) & (given < np.inf))))
                raise ModelError(f"rho must be positive, found {given[worst]} for factor {worst}")
        check_range(layout, given)
        return Reweighting(np.where(coupling, given, 1.0), None, "as given")


def _convex(layout: Layout) -> Reweighting:
    """Return one over the largest number of neighbouring factors among each factor's variables."""
    arity, largest = layout.arity, np.ones(layout.n_factors)
    coupling, scoped = arity >= 2, arity > 0
    if scoped.any():
        degree = np.bincount(layout.scope_vars, np.repeat(coupling, arity), layout.n_vars)
        around = np.maximum.reduceat(degree[layout.scope_vars], layout.scope_ptr[:-1][scoped])
        largest[scoped] = np.maximum(around, 1.0)
    return Reweighting(np.where(coupling, 1.0 / largest, 1.0), None, "convex")
