"""Questions and methods: four doors, one driver, one method a file."""

from beliefs.inference.base import Bound, Method, Task
from beliefs.inference.doors import infer, marginal_map, maximize, sample
from beliefs.inference.registry import METHODS, methods
from beliefs.inference.result import InferenceResult, MapResult, MarginalMapResult, SampleResult

__all__ = [
    "METHODS",
    "Bound",
    "InferenceResult",
    "MapResult",
    "MarginalMapResult",
    "Method",
    "SampleResult",
    "Task",
    "infer",
    "marginal_map",
    "maximize",
    "methods",
    "sample",
]
