"""The file family of the UAI competitions: models, evidence, queries and solutions."""

from beliefs.io.uai.evidence import Sample, dumps_evidence, loads_evidence, loads_query, write_evidence
from beliefs.io.uai.model import dumps, loads
from beliefs.io.uai.solution import dumps_solution, loads_solution, read_solution, write_solution

__all__ = [
    "Sample",
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
