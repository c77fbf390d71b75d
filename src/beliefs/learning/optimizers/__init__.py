"""Optimisers: frozen dataclasses of options, also written as text (``"adam(step=0.01)"``)."""

from beliefs.learning.optimizers.adam import Adam
from beliefs.learning.optimizers.base import Optimizer
from beliefs.learning.optimizers.bcfw import BCFW
from beliefs.learning.optimizers.cccp import CCCP
from beliefs.learning.optimizers.lbfgs import LBFGS
from beliefs.learning.optimizers.n_slack import NSlack
from beliefs.learning.optimizers.one_slack import OneSlack
from beliefs.learning.optimizers.sgd import SGD

__all__ = ["BCFW", "CCCP", "LBFGS", "OPTIMIZERS", "SGD", "Adam", "NSlack", "OneSlack", "Optimizer"]

OPTIMIZERS: tuple[type[Optimizer], ...] = (LBFGS, SGD, Adam, BCFW, OneSlack, NSlack, CCCP)
"""All optimisers, by their names in text."""
