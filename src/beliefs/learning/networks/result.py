"""What fitting a joint model led to: how it ended, and what its numbers are worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beliefs.display.description import Described, Description
from beliefs.driver import Status
from beliefs.errors import NotConvergedError
from beliefs.inference.base import Bound
from beliefs.learning.result import FitTrace
from beliefs.typing import Floats

__all__ = ["JointFit"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JointFit(Described):
    """How tables were found.

    Attributes
    ----------
    status : Status
    reason : str
        What the status means here.
    trace : FitTrace
        One row an iteration, its loss the negative objective per row; empty where counting was enough.
    n_parameters : int
        Free numbers in all tables.
    bound : Bound
        What the log-likelihood is: EXACT, or what approximate inference makes of it.
    log_likelihood : float
        Of a row of the training data on average.
    objective : float
        What is maximised: the log-likelihood of all rows, and the log of the prior up to a constant, per row.
    restarts : ndarray
        The objective that each start of EM led to.
    n_uniform : int
        Columns of tables of which neither rows nor prior say anything.
    tree_weight : float
        The sum of the mutual informations along the arcs of a tree that was searched for, in nats; else 0.
    """

    status: Status = Status.CONVERGED
    reason: str = "all rows are complete, and counting them is enough"
    trace: FitTrace = field(default_factory=lambda: FitTrace.of([]))
    n_parameters: int
    bound: Bound = Bound.EXACT
    log_likelihood: float
    objective: float
    n_iters: int = 0
    seconds: float = 0.0
    restarts: Floats = field(default_factory=lambda: np.zeros(0))
    n_uniform: int = 0
    tree_weight: float = 0.0

    @property
    def converged(self) -> bool:
        """Whether the tolerance was met."""
        return self.status is Status.CONVERGED

    def to_frame(self) -> Any:
        """Return the trace as a pandas frame, a row an iteration."""
        return self.trace.to_frame()

    def _description(self) -> Description:
        facts = [
            ("log-likelihood", f"{self.log_likelihood:.10g} a row of the training data"),
            ("worth", self.bound.words),
            ("parameters", f"{self.n_parameters}"),
            ("status", f"{self.status} after {self.n_iters} iterations, {self.seconds:.3g} s"),
            ("that is", self.reason),
        ]
        return Description("JointFit", facts)

    def __repr__(self) -> str:
        return self._description().text()

    def require_converged(self) -> JointFit:
        """Return itself, or raise NotConvergedError with advice."""
        if not self.converged:
            raise NotConvergedError(f"the fit stopped after {self.n_iters} iterations: {self.reason}")
        return self
