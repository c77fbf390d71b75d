"""Fitting: weights from data, by way of inference.

A template (:mod:`beliefs.model.features`) says how log potentials follow from weights, an :class:`Instance` is one
training example, a loss of :mod:`beliefs.learning.losses` compares them, :func:`fit` minimises it. The estimators
``ChainCRF``, ``GridCRF`` and ``GraphCRF`` put these together for arrays.
"""

from beliefs.learning import gradients, losses, optimizers
from beliefs.learning.fit import fit
from beliefs.learning.instances import HIDDEN, Instance
from beliefs.learning.result import FitResult

__all__ = ["HIDDEN", "FitResult", "Instance", "fit", "gradients", "losses", "optimizers"]
