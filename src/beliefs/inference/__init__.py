"""Questions and methods: four doors, one driver, one method a file."""

from functools import cache
from typing import TYPE_CHECKING, Any

from beliefs.inference.base import Bound, Method, Task
from beliefs.inference.batch_result import BatchDecoding, BatchMarginals
from beliefs.inference.doors import infer, marginal_map, maximize, sample
from beliefs.inference.likelihood import LogLikelihood, log_likelihood
from beliefs.inference.many import infer_many, maximize_many
from beliefs.inference.many_result import ManyDecodings, ManyMarginals
from beliefs.inference.result import InferenceResult
from beliefs.inference.states_result import MapResult, MarginalMapResult, SampleResult
from beliefs.inference.text import use_methods

if TYPE_CHECKING:
    from beliefs.inference.registry import METHODS, methods

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


@cache
def _registry() -> Any:
    """Load the list of methods, and with it all of them, when it is asked for or one is named."""
    from beliefs.inference import registry

    return registry


def __getattr__(name: str) -> Any:
    if name not in ("METHODS", "methods"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_registry(), name)


use_methods(lambda: _registry().METHODS)
