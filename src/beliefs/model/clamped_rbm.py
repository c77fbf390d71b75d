r"""A restricted Boltzmann machine with some units observed: one with fewer units, and a constant.

With the states of the observed units written :math:`\hat v, \hat h`, the score of the units that are left is

.. math::
    v^T W_{vh} h + v^T (b_v + W_{v \hat h} \hat h) + h^T (a_h + W_{\hat v h}^T \hat v)
    + \hat v^T b_{\hat v} + \hat h^T a_{\hat h} + \hat v^T W_{\hat v \hat h} \hat h .

So what is clamped becomes biases, and whatever serves machines serves it: :attr:`ClampedRBM.free`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from beliefs.display.description import Described, Description
from beliefs.elsewhere import MACHINES, Hinting
from beliefs.model.describing import describe_layers
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import frozen
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.naming import Naming
from beliefs.model.rbm import RBM
from beliefs.model.views import Variables
from beliefs.typing import Evidence, Floats, Ints

__all__ = ["AskedModel", "ClampedRBM"]


@dataclass(frozen=True, eq=False, repr=False)
class ClampedRBM(Hinting, Described):
    """What :meth:`beliefs.RBM.condition` returns; it does not change, and is accepted wherever a factor graph is.

    Every unit keeps its index and name.

    Attributes
    ----------
    machine : RBM
        Without evidence.
    evidence_states : ndarray of int (n_vars,)
        The state of each observed unit, the visible ones first; -1 of the others.

    Examples
    --------
    >>> clamped = RBM([[1.0, -1.0], [0.5, 2.0]]).condition({"v0": 1})
    >>> clamped.free.hidden_bias, clamped.free.n_visible
    (array([ 1., -1.]), 1)
    """

    _elsewhere: ClassVar[Mapping[str, str]] = MACHINES

    machine: RBM
    evidence_states: Ints

    def __post_init__(self) -> None:
        self.evidence_states.setflags(write=False)

    @property
    def n_vars(self) -> int:
        """Number of units, observed ones included."""
        return self.machine.n_vars

    @cached_property
    def free_units(self) -> Ints:
        """The index of each unit that is left, in order."""
        return np.flatnonzero(self.evidence_states < 0)

    @cached_property
    def free(self) -> RBM | None:
        """The machine of the units that are left, in float64; None where there are none.

        Hidden units among themselves are visible units without hidden ones.
        """
        if not self.free_units.size:
            return None
        weights, visible, hidden = self._parts()
        keep, n = self.evidence_states < 0, self.machine.n_visible
        if not keep[:n].any():
            return RBM(np.zeros((self.free_units.size, 0)), hidden[keep[n:]])
        return RBM(weights[keep[:n]][:, keep[n:]], visible[keep[:n]], hidden[keep[n:]])

    @cached_property
    def constant(self) -> float:
        """The score of the observed units among themselves, in nats."""
        n, on = self.machine.n_visible, (self.evidence_states > 0).astype(np.float64)
        _, visible, _ = self._parts()
        return float(on[:n] @ visible + on[n:] @ self.machine.hidden_bias.astype(np.float64))

    def _parts(self) -> tuple[Floats, Floats, Floats]:
        """Return the weights, and the biases of all units with what observed ones of the other layer add to them."""
        machine, on = self.machine, (self.evidence_states > 0).astype(np.float64)
        n, weights = machine.n_visible, machine.weights.astype(np.float64, copy=False)
        return weights, machine.visible_bias + weights @ on[n:], machine.hidden_bias + on[:n] @ weights

    @property
    def evidence(self) -> dict[int, int]:
        """What was observed, ``{unit: state}``."""
        return {int(v): int(self.evidence_states[v]) for v in np.flatnonzero(self.evidence_states >= 0)}

    @property
    def naming(self) -> Naming:
        """The units' names."""
        return self.machine.naming

    @property
    def variables(self) -> Variables:
        """The units as variables of the factor graph."""
        return self.to_factor_graph().variables

    def condition(self, evidence: Evidence) -> ClampedRBM:
        """Return the machine with more units observed."""
        return ClampedRBM(self.machine, self.naming.observed(self.evidence_states, evidence))

    @cached_property
    def _graph(self) -> FactorGraph:
        return self.machine.to_factor_graph().observing(self.evidence_states.copy())

    def to_factor_graph(self) -> FactorGraph:
        """Return the machine's factor graph with the same evidence, made once."""
        return self._graph

    def __getstate__(self) -> dict[str, Any]:
        return {"machine": self.machine, "evidence_states": self.evidence_states}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(frozen(state))

    def __eq__(self, other: object) -> bool:
        """Whether the machine and what is observed of it are the same."""
        if not isinstance(other, ClampedRBM):
            return NotImplemented
        return self.machine == other.machine and np.array_equal(self.evidence_states, other.evidence_states)

    def __hash__(self) -> int:
        return hash((self.machine, self.evidence_states.tobytes()))

    def _description(self) -> Description:
        whole = describe_layers(self.machine)
        return Description("ClampedRBM", [*whole.facts, ("observed", f"{len(self.evidence)} of {self.n_vars} units")])

    def __repr__(self) -> str:
        return f"ClampedRBM({self.machine!r}, {len(self.evidence)} of {self.n_vars} units observed)"


AskedModel: TypeAlias = FactorGraph | BoltzmannMachine | ClampedRBM
"""What methods are asked about: factor graphs, and machines as they are."""
