"""beliefs: learning and inference in discrete graphical models.

Four doors answer the four questions about a model; every number says whether it is exact, a bound or an estimate:

>>> import beliefs as bl
>>> bn = bl.datasets.load_bn("asia")
>>> result = bl.infer(bn.condition({"xray": "yes"}))
>>> result.bound.name, result.marginal("lung").round(4)
('EXACT', array([0.4887, 0.5113]))
"""

from beliefs import datasets, io
from beliefs.driver import Progress, Status, Trace
from beliefs.errors import (
    BeliefsError,
    BudgetError,
    ConvergenceWarning,
    FormatError,
    ModelError,
    NotConvergedError,
    UnsupportedError,
    ZeroProbabilityError,
)
from beliefs.inference import (
    METHODS,
    Bound,
    InferenceResult,
    MapResult,
    MarginalMapResult,
    Method,
    SampleResult,
    infer,
    marginal_map,
    maximize,
    methods,
    sample,
)
from beliefs.inference.buckets.mini_bucket import MiniBucket
from beliefs.inference.buckets.wmb import WMB
from beliefs.inference.dual.gdd import GDD
from beliefs.inference.exact.elimination import Elimination
from beliefs.inference.exact.enumeration import Enumeration
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.messages.bp import BP
from beliefs.inference.messages.fractional import FractionalBP
from beliefs.inference.messages.trw import TRW
from beliefs.inference.sampling.gibbs import Gibbs
from beliefs.inference.search.local_search import LocalSearch
from beliefs.inference.variational.mean_field import MeanField
from beliefs.io import read, read_evidence, read_query, write
from beliefs.model import BayesianNetwork, Factor, FactorGraph, Layout, Variable

__version__ = "0.1.0"

__all__ = [
    "BP",
    "GDD",
    "METHODS",
    "TRW",
    "WMB",
    "BayesianNetwork",
    "BeliefsError",
    "Bound",
    "BudgetError",
    "ConvergenceWarning",
    "Elimination",
    "Enumeration",
    "Factor",
    "FactorGraph",
    "FormatError",
    "FractionalBP",
    "Gibbs",
    "InferenceResult",
    "JunctionTree",
    "Layout",
    "LocalSearch",
    "MapResult",
    "MarginalMapResult",
    "MeanField",
    "Method",
    "MiniBucket",
    "ModelError",
    "NotConvergedError",
    "Progress",
    "SampleResult",
    "Status",
    "Trace",
    "UnsupportedError",
    "Variable",
    "ZeroProbabilityError",
    "datasets",
    "infer",
    "io",
    "marginal_map",
    "maximize",
    "methods",
    "read",
    "read_evidence",
    "read_query",
    "sample",
    "write",
]
