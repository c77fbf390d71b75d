"""What a machine's factor graph takes, which methods without a form of their own are asked about."""

from __future__ import annotations

from typing import Any

from beliefs.model.clamped_rbm import ClampedRBM
from beliefs.model.rbm import RBM

__all__ = ["graph_bytes"]

_A_WEIGHT = 72.0  # bytes: cells, scope and offsets of a pair
_OBSERVED = 104.0  # bytes: those of the slice, and where it is from


def graph_bytes(model: Any) -> float:
    """Return the bytes of a machine's factor graph; 0 where there is one already, for it is made once, or none to make.

    Examples
    --------
    >>> machine = RBM([[1.0, -1.0], [0.5, 2.0]])
    >>> graph_bytes(machine), graph_bytes(machine.to_factor_graph())
    (576.0, 0.0)
    """
    if "_graph" in vars(model):
        return 0.0
    if isinstance(model, ClampedRBM):
        return graph_bytes(model.machine) + _OBSERVED * model.machine.weights.size
    return _A_WEIGHT * (model.weights.size + model.n_vars) if isinstance(model, RBM) else 0.0
