"""Messages as logs with their sums: what beliefs, bounds and decodings are made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.inference.base import Bound
from beliefs.inference.messages.schedule import factors_breadth_first
from beliefs.inference.messages.sweep_spec import SweepSpec
from beliefs.inference.rounding import UNIT, rounding_error, widened
from beliefs.kernels.messages.beliefs import assess_factors, factor_beliefs
from beliefs.kernels.messages.decode import decode_in_order
from beliefs.kernels.messages.decomposed_bound import decomposed_bound
from beliefs.kernels.messages.log import log_beliefs
from beliefs.kernels.messages.structures import LogSums
from beliefs.typing import Floats, Ints

__all__ = ["Assessment", "LogMessages"]


@dataclass(frozen=True)
class Assessment:
    """What messages are worth.

    Attributes
    ----------
    energy : float
        Their value, at a fixed point the free energy of the beliefs; ``-inf``: no state is possible.
    upper : float
        A certified upper bound, inf if there is none.
    apart : float
        The largest difference between a variable's belief and the same summed out of a factor's.
    rounding : float
        How far ``upper`` was moved for the errors of its own arithmetic.
    """

    energy: float
    upper: float
    apart: float
    rounding: float = 0.0


@dataclass(frozen=True, eq=False)
class LogMessages:
    """Flat log messages in the order of edges, and per state the sum of finite ones and the number of ``-inf``."""

    spec: SweepSpec
    sums: LogSums

    @classmethod
    def of(cls, spec: SweepSpec, messages: Floats) -> LogMessages:
        """Add up the messages."""
        n_states = spec.layout.n_states
        sums = LogSums(messages, np.empty(n_states), np.empty(n_states, np.int64))
        log_beliefs(spec.layout.scopes, spec.layout.message_ptr, spec.rho, *sums)
        return cls(spec, sums)

    @property
    def messages(self) -> Floats:
        """The messages themselves."""
        return self.sums.messages

    @property
    def beta(self) -> Floats:
        """The log beliefs of variables, ``-inf`` where a message is."""
        return np.where(self.sums.zeros == 0, self.sums.finite, -np.inf)

    def assess(self, mu_var: Floats, parent: Floats | None) -> Assessment:
        """Return what sums are worth; ``mu_var`` are the beliefs of variables that belong to these messages."""
        now, lay = self.spec, self.spec.layout
        energy, apart = assess_factors(lay.scopes, lay.observed, now.model, self.sums, mu_var)
        upper, rounding = self.upper_bound(now.summed.astype(float), parent)
        return Assessment(float(energy), upper, float(apart), rounding)

    def upper_bound(self, tau: Floats, parent: Floats | None) -> tuple[float, float]:
        """Return the decomposed bound on the power sum with temperatures ``tau``, and how far rounding moved it.

        Without a certificate it is inf. A variable that is observed, or was pruned and has no state at all, is in no
        scope: one state stands for it.
        """
        if parent is None:
            return np.inf, 0.0
        now, lay = self.spec, self.spec.layout
        beta = np.where(np.repeat(lay.observed, lay.card), -np.inf, self.beta)
        beta[lay.state_ptr[:-1][lay.observed]] = 0.0
        bound = decomposed_bound(lay.scopes, now.model, tau, parent, self.sums.messages, beta)
        rounding = self._rounding()
        return widened(float(bound), rounding, Bound.UPPER), rounding

    def _rounding(self) -> float:
        """Return how wrong the bound may be: the sum of its terms, each a power sum of messages and potentials.

        A term is no larger than its largest entry and the log of their number. Messages enter with their counting
        numbers, potentials once; variables in no factor are terms like others.
        """
        lay = self.spec.layout
        of_variables = (1.0 + lay.degree) * (_largest(np.abs(self.sums.finite), lay.state_ptr[:-1]) + np.log(lay.card))
        messages = self.sums.messages
        sent = np.where(messages > -np.inf, np.abs(messages), 0.0)
        of_edges = _largest(sent, lay.message_ptr[:-1])
        magnitude = self.spec.magnitude + float(of_variables.sum() + of_edges.sum())
        widest = float(lay.factor_size.max(initial=1)) + float(lay.card.max(initial=1))
        n_terms = lay.n_factors + lay.n_vars
        return rounding_error(magnitude, n_terms + widest) + UNIT * n_terms * (3.0 * widest + 10.0)

    def tables(self) -> Floats | None:
        """Return the beliefs of all factors, one after the other; None if one has no state."""
        now, lay = self.spec, self.spec.layout
        tables = np.empty(int(lay.table_ptr[-1]))
        return tables if factor_beliefs(lay.scopes, lay.table_ptr, now.model, self.sums, tables) else None

    def decode(self, states: Ints, tie: float) -> None:
        """Decide the variables that are open in ``states`` (-1), one after the other, as factors reach them."""
        now, lay = self.spec, self.spec.layout
        decode_in_order(lay.scopes, lay.adjacency, now.model, self.sums, factors_breadth_first(lay), tie, states)


def _largest(values: Floats, starts: Ints) -> Floats:
    """Return the largest of each run of values."""
    return np.maximum.reduceat(values, starts) if starts.size else np.zeros(0)
