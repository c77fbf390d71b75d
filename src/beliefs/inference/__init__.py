"""Questions and methods: four doors, one driver, one method a file."""

from importlib import import_module
from typing import TYPE_CHECKING

from beliefs.inference.text import use_methods
from beliefs.lazy import loader

if TYPE_CHECKING:
    from beliefs.inference.base import Bound, Method, Task
    from beliefs.inference.batch_result import BatchDecoding, BatchMarginals
    from beliefs.inference.doors import infer, marginal_map, maximize, sample
    from beliefs.inference.likelihood import LogLikelihood, log_likelihood
    from beliefs.inference.many import infer_many, maximize_many
    from beliefs.inference.many_result import ManyDecodings, ManyMarginals
    from beliefs.inference.registry import METHODS, methods
    from beliefs.inference.result import InferenceResult
    from beliefs.inference.states_result import MapResult, MarginalMapResult, SampleResult

__all__ = [
    "BatchDecoding",
    "BatchMarginals",
    "METHODS",
    "Bound",
    "InferenceResult",
    "LogLikelihood",
    "ManyDecodings",
    "ManyMarginals",
    "MapResult",
    "MarginalMapResult",
    "Method",
    "SampleResult",
    "Task",
    "infer",
    "infer_many",
    "log_likelihood",
    "marginal_map",
    "maximize",
    "maximize_many",
    "methods",
    "sample",
]

_HOMES = {
    "base": ("Bound", "Method", "Task"),
    "batch_result": ("BatchDecoding", "BatchMarginals"),
    "doors": ("infer", "marginal_map", "maximize", "sample"),
    "likelihood": ("LogLikelihood", "log_likelihood"),
    "many": ("infer_many", "maximize_many"),
    "many_result": ("ManyDecodings", "ManyMarginals"),
    "registry": ("METHODS", "methods"),
    "result": ("InferenceResult",),
    "states_result": ("MapResult", "MarginalMapResult", "SampleResult"),
}
__getattr__, __dir__ = loader(__name__, _HOMES)
use_methods(lambda: import_module("beliefs.inference.registry").METHODS)  # with all of them, when one is named
