"""beliefs: learning and inference in discrete graphical models.

Four doors answer the four questions about a model; every number says whether it is exact, a bound or an estimate:

>>> import beliefs as bl
>>> bn = bl.datasets.load_bn("asia")
>>> result = bl.infer(bn.condition({"xray": "yes"}))
>>> result.bound.name, result.marginal("lung").round(4)
('EXACT', array([0.4887, 0.5113]))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from beliefs import datasets, io
from beliefs.driver import Progress, Status, Trace
from beliefs.errors import (
    BeliefsError,
    BudgetError,
    ConvergenceWarning,
    DataWarning,
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

if TYPE_CHECKING:
    from beliefs import learning, metrics
    from beliefs.learning.estimators.chain import ChainCRF
    from beliefs.learning.estimators.graph import GraphCRF
    from beliefs.learning.estimators.grid import GridCRF

__version__ = "0.1.0"

# What takes long to load and is not needed by every program: name -> module.
_LATE = {
    "ChainCRF": "beliefs.learning.estimators.chain",
    "GraphCRF": "beliefs.learning.estimators.graph",
    "GridCRF": "beliefs.learning.estimators.grid",
    "learning": "beliefs.learning",
    "metrics": "beliefs.metrics",
}

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
    "ChainCRF",
    "ConvergenceWarning",
    "DataWarning",
    "Elimination",
    "Enumeration",
    "Factor",
    "FactorGraph",
    "FormatError",
    "FractionalBP",
    "Gibbs",
    "GraphCRF",
    "GridCRF",
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
    "learning",
    "marginal_map",
    "maximize",
    "methods",
    "metrics",
    "read",
    "read_evidence",
    "read_query",
    "sample",
    "write",
]


def __getattr__(name: str) -> Any:
    """Load what is loaded late, at its first use."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_LATE[name])
    found = module if name.islower() else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
