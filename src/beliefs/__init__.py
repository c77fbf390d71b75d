"""beliefs: learning and inference in discrete graphical models.

Four doors answer the four questions about a model; every number says whether it is exact, a bound or an estimate:

>>> import beliefs as bl
>>> bn = bl.datasets.load_bn("asia")
>>> result = bl.infer(bn.condition({"xray": "yes"}))
>>> result.bound.name, result.marginal("lung").round(4)
('EXACT', array([0.4887, 0.5113]))
"""

from typing import TYPE_CHECKING

from beliefs.lazy import loader

if TYPE_CHECKING:
    from beliefs import cycles, datasets, inference, io, learning, metrics, plot
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
        LogLikelihood,
        MapResult,
        MarginalMapResult,
        Method,
        SampleResult,
        infer,
        infer_many,
        log_likelihood,
        marginal_map,
        maximize,
        maximize_many,
        methods,
        sample,
    )
    from beliefs.inference.boltzmann.ais import AIS
    from beliefs.inference.buckets.mini_bucket import MiniBucket
    from beliefs.inference.buckets.wmb import WMB
    from beliefs.inference.clusters.region_graph import RegionGraph
    from beliefs.inference.dual.gdd import GDD
    from beliefs.inference.exact.elimination import Elimination
    from beliefs.inference.exact.enumeration import Enumeration
    from beliefs.inference.exact.junction_tree import JunctionTree
    from beliefs.inference.messages.bp import BP
    from beliefs.inference.messages.fractional import FractionalBP
    from beliefs.inference.messages.trw import TRW
    from beliefs.inference.regions.convex import ConvexGBP
    from beliefs.inference.regions.double_loop import DoubleLoop
    from beliefs.inference.regions.gbp import GBP
    from beliefs.inference.regions.ijgp import IJGP
    from beliefs.inference.sampling.gibbs import Gibbs
    from beliefs.inference.sampling.likelihood_weighting import LikelihoodWeighting
    from beliefs.inference.search.local_search import LocalSearch
    from beliefs.inference.variational.mean_field import MeanField
    from beliefs.io import read, read_evidence, read_query, write
    from beliefs.learning.cluster import cluster
    from beliefs.learning.estimators.boltzmann.bernoulli_rbm import BernoulliRBM
    from beliefs.learning.estimators.boltzmann.conditional_rbm import ConditionalRBM
    from beliefs.learning.estimators.boltzmann.infinite_rbm import InfiniteRBM
    from beliefs.learning.estimators.networks.bayes_net import BNLearner
    from beliefs.learning.estimators.networks.bn_classifier import BNClassifier
    from beliefs.learning.estimators.networks.markov_field import MRFLearner
    from beliefs.learning.estimators.per_instance import PerInstance
    from beliefs.learning.estimators.structured.chain import ChainCRF
    from beliefs.learning.estimators.structured.chain_svm import ChainSVM
    from beliefs.learning.estimators.structured.graph import GraphCRF
    from beliefs.learning.estimators.structured.graph_svm import GraphSVM
    from beliefs.learning.estimators.structured.grid import GridCRF
    from beliefs.learning.estimators.structured.grid_svm import GridSVM
    from beliefs.learning.networks.gaussian import GaussianLeaf
    from beliefs.learning.networks.scores import structure_score
    from beliefs.model import (
        CRBM,
        RBM,
        BayesianNetwork,
        Factor,
        FactorGraph,
        FractionalRBM,
        Layout,
        RBMBatch,
        Variable,
        noisy_max,
        noisy_or,
    )

__version__ = "0.1.0"

# Loaded at their first use, so that a program waits for what it uses only: module -> its public names.
_HOMES = {
    "driver": ("Progress", "Status", "Trace"),
    "errors": (
        "BeliefsError", "BudgetError", "ConvergenceWarning", "DataWarning", "FormatError", "ModelError",
        "NotConvergedError", "UnsupportedError", "ZeroProbabilityError",
    ),
    "inference": (
        "METHODS", "Bound", "InferenceResult", "LogLikelihood", "MapResult", "MarginalMapResult", "Method",
        "SampleResult", "infer", "infer_many", "log_likelihood", "marginal_map", "maximize", "maximize_many", "methods",
        "sample",
    ),
    "inference.boltzmann.ais": ("AIS",),
    "inference.buckets.mini_bucket": ("MiniBucket",),
    "inference.buckets.wmb": ("WMB",),
    "inference.clusters.region_graph": ("RegionGraph",),
    "inference.dual.gdd": ("GDD",),
    "inference.exact.elimination": ("Elimination",),
    "inference.exact.enumeration": ("Enumeration",),
    "inference.exact.junction_tree": ("JunctionTree",),
    "inference.messages.bp": ("BP",),
    "inference.messages.fractional": ("FractionalBP",),
    "inference.messages.trw": ("TRW",),
    "inference.regions.convex": ("ConvexGBP",),
    "inference.regions.double_loop": ("DoubleLoop",),
    "inference.regions.gbp": ("GBP",),
    "inference.regions.ijgp": ("IJGP",),
    "inference.sampling.gibbs": ("Gibbs",),
    "inference.sampling.likelihood_weighting": ("LikelihoodWeighting",),
    "inference.search.local_search": ("LocalSearch",),
    "inference.variational.mean_field": ("MeanField",),
    "io": ("read", "read_evidence", "read_query", "write"),
    "learning.cluster": ("cluster",),
    "learning.estimators.boltzmann.bernoulli_rbm": ("BernoulliRBM",),
    "learning.estimators.networks.bayes_net": ("BNLearner",),
    "learning.networks.gaussian": ("GaussianLeaf",),
    "learning.estimators.networks.bn_classifier": ("BNClassifier",),
    "learning.estimators.structured.chain": ("ChainCRF",),
    "learning.estimators.structured.chain_svm": ("ChainSVM",),
    "learning.estimators.boltzmann.conditional_rbm": ("ConditionalRBM",),
    "learning.estimators.structured.graph": ("GraphCRF",),
    "learning.estimators.structured.graph_svm": ("GraphSVM",),
    "learning.estimators.structured.grid": ("GridCRF",),
    "learning.estimators.structured.grid_svm": ("GridSVM",),
    "learning.estimators.boltzmann.infinite_rbm": ("InfiniteRBM",),
    "learning.estimators.networks.markov_field": ("MRFLearner",),
    "learning.estimators.per_instance": ("PerInstance",),
    "learning.networks.scores": ("structure_score",),
    "model": (
        "CRBM", "RBM", "BayesianNetwork", "Factor", "FactorGraph", "FractionalRBM", "Layout", "RBMBatch", "Variable",
        "noisy_max", "noisy_or",
    ),
}  # fmt: skip
__all__ = [
    "AIS",
    "BP",
    "CRBM",
    "GBP",
    "GDD",
    "IJGP",
    "METHODS",
    "RBM",
    "TRW",
    "WMB",
    "BNClassifier",
    "BNLearner",
    "BayesianNetwork",
    "BeliefsError",
    "BernoulliRBM",
    "Bound",
    "BudgetError",
    "ChainCRF",
    "ChainSVM",
    "ConditionalRBM",
    "ConvergenceWarning",
    "ConvexGBP",
    "DataWarning",
    "DoubleLoop",
    "Elimination",
    "Enumeration",
    "Factor",
    "FactorGraph",
    "FormatError",
    "FractionalBP",
    "FractionalRBM",
    "Gibbs",
    "GaussianLeaf",
    "GraphCRF",
    "GraphSVM",
    "GridCRF",
    "GridSVM",
    "InferenceResult",
    "InfiniteRBM",
    "JunctionTree",
    "Layout",
    "LikelihoodWeighting",
    "LocalSearch",
    "LogLikelihood",
    "MRFLearner",
    "MapResult",
    "MarginalMapResult",
    "MeanField",
    "Method",
    "MiniBucket",
    "ModelError",
    "NotConvergedError",
    "PerInstance",
    "Progress",
    "RegionGraph",
    "RBMBatch",
    "SampleResult",
    "Status",
    "Trace",
    "UnsupportedError",
    "Variable",
    "ZeroProbabilityError",
    "cluster",
    "cycles",
    "datasets",
    "infer",
    "infer_many",
    "inference",
    "io",
    "learning",
    "log_likelihood",
    "marginal_map",
    "maximize",
    "maximize_many",
    "methods",
    "metrics",
    "plot",
    "noisy_max",
    "noisy_or",
    "read",
    "read_evidence",
    "read_query",
    "sample",
    "structure_score",
    "write",
]


__getattr__, __dir__ = loader(__name__, _HOMES, "PACKAGE")
