"""Answers about many machines at once, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.display.description import MOST_ROWS, Described, Description
from beliefs.display.frames import frame
from beliefs.inference.base import Bound, Method
from beliefs.model.rbm_batch import RBMBatch
from beliefs.typing import Bools, Floats, Ints

__all__ = ["BatchDecoding", "BatchMarginals"]


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchMarginals(Described):
    """Answer to ``infer`` about machines that share their weights.

    Attributes
    ----------
    model : RBMBatch
    method : Method
        What ran.
    log_z : ndarray (N,)
        Log Z of each machine.
    bound : Bound
        What they are: EXACT, UPPER, LOWER or ESTIMATE, all alike.
    visible, hidden : ndarray (N, units)
        P(v = 1) and P(h = 1).
    pair_sum : ndarray (n_visible, n_hidden)
        The sum over machines of P(v = 1, h = 1), in the machines' type.
    converged : ndarray (N,)
    n_iters : ndarray (N,)
    seconds : float
    """

    model: RBMBatch
    method: Method
    log_z: Floats
    bound: Bound
    visible: Floats
    hidden: Floats
    pair_sum: np.ndarray
    converged: Bools
    n_iters: Ints
    seconds: float

    def __len__(self) -> int:
        return len(self.log_z)

    def to_frame(self) -> Any:
        """Return a pandas frame of a row a machine: ``log_z``, and P(unit = 1) of every unit."""
        return frame({"log_z": self.log_z, **_by_unit(self.visible, self.hidden)})

    def _description(self) -> Description:
        facts = [("method", f"{self.method}"), ("machines", f"{len(self)}"), ("worth", f"log Z is {self.bound.words}")]
        rows = [(f"{k}", f"{value:.10g}") for k, value in enumerate(self.log_z[:MOST_ROWS])]
        return Description("BatchMarginals", facts, "", ("machine", "log Z"), rows, len(self))

    def __repr__(self) -> str:
        settled = int(self.converged.sum())
        return f"BatchMarginals({self.method}: {len(self)} machines, {settled} converged, log Z {self.bound})"


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchDecoding(Described):
    """Answer to ``maximize`` and ``marginal_map`` about machines that share their weights.

    Attributes
    ----------
    visible : ndarray (N, n_visible)
        The states found.
    hidden : ndarray (N, n_hidden)
        The states found with them, or for ``marginal_map`` P(h = 1) given the visible ones.
    log_value : ndarray (N,)
        Their scores, or for ``marginal_map`` the log of their weights with the hidden units summed out: exact, hence
        lower bounds of the best ones.
    converged : ndarray (N,)
    n_iters : ndarray (N,)
    """

    model: RBMBatch
    method: Method
    visible: Ints
    hidden: np.ndarray
    log_value: Floats
    converged: Bools
    n_iters: Ints
    seconds: float

    def __len__(self) -> int:
        return len(self.log_value)

    def to_frame(self) -> Any:
        """Return a pandas frame of a row a machine: ``log_value``, and what was found for every unit."""
        return frame({"log_value": self.log_value, **_by_unit(self.visible, self.hidden)})

    def _description(self) -> Description:
        facts = [("method", f"{self.method}"), ("machines", f"{len(self)}")]
        rows = [(f"{k}", f"{value:.10g}") for k, value in enumerate(self.log_value[:MOST_ROWS])]
        caption = "the best that was found, hence lower bounds of the best"
        return Description("BatchDecoding", facts, caption, ("machine", "log value"), rows, len(self))

    def __repr__(self) -> str:
        return f"BatchDecoding({self.method}: {len(self)} machines, {int(self.converged.sum())} converged)"


def _by_unit(visible: np.ndarray, hidden: np.ndarray) -> dict[str, np.ndarray]:
    """Return the columns by the names of the units."""
    layers = (("v", visible), ("h", hidden))
    return {f"{name}{k}": column for name, layer in layers for k, column in enumerate(layer.T)}
