"""Answers about many machines at once, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.inference.base import Bound, Method
from beliefs.model.rbm_batch import RBMBatch
from beliefs.typing import Bools, Floats, Ints

__all__ = ["BatchDecoding", "BatchMarginals"]


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchMarginals:
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

    def __repr__(self) -> str:
        settled = int(self.converged.sum())
        return f"BatchMarginals({self.method}: {len(self)} machines, {settled} converged, log Z {self.bound})"


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchDecoding:
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

    def __repr__(self) -> str:
        return f"BatchDecoding({self.method}: {len(self)} machines, {int(self.converged.sum())} converged)"
