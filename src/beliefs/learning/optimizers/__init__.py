"""Optimisers: frozen dataclasses of options, also written as text (``"adam(step=0.01)"``)."""

from beliefs.learning.optimizers.base import Optimizer
from beliefs.learning.optimizers.lbfgs import LBFGS

__all__ = ["LBFGS", "OPTIMIZERS", "Optimizer"]

OPTIMIZERS: tuple[type[Optimizer], ...] = (LBFGS,)
"""All optimisers, by their names in text."""
