"""The file family of the UAI competitions: models, evidence, queries and solutions."""

from beliefs.io.uai.evidence import (
    Sample,
    counted_evidence,
    dumps_evidence,
    loads_evidence,
    loads_query,
    write_evidence,
)
from beliefs.io.uai.model import dumps, loads
from beliefs.io.uai.solution import dumps_solution, loads_solution, read_solution, write_solution

__all__ = [
    "Sample",
    "counted_evidence",
    "dumps",
    "dumps_evidence",
    "dumps_solution",
    "loads",
    "loads_evidence",
    "loads_query",
    "loads_solution",
    "read_solution",
    "write_evidence",
    "write_solution",
]
