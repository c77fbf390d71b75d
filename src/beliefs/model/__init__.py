"""Models: what is true. Immutable, without algorithms; whatever its kind, a model becomes a FactorGraph."""

from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.clamped_rbm import ClampedRBM
from beliefs.model.crbm import CRBM
from beliefs.model.factor import Factor
from beliefs.model.fractional_rbm import FractionalRBM
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.model.layout import Layout
from beliefs.model.noisy import noisy_max, noisy_or
from beliefs.model.rbm import RBM
from beliefs.model.rbm_batch import RBMBatch
from beliefs.model.variable import Variable

__all__ = [
    "CRBM",
    "RBM",
    "BayesianNetwork",
    "ClampedRBM",
    "Factor",
    "FactorGraph",
    "FractionalRBM",
    "Layout",
    "Model",
    "RBMBatch",
    "Variable",
    "as_factor_graph",
    "noisy_max",
    "noisy_or",
]
