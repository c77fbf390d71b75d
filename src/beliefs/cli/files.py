"""Files that commands write: answers by the suffix of ``--output``, and models by ``convert``.

Every file is written whole or not at all. The kind of an answer's file is settled, and its folder looked for, before
any work is done.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence

import click
import numpy as np

from beliefs.cli.documents import Answer, csv_text, document
from beliefs.cli.names import load_model
from beliefs.display.documents import json_text
from beliefs.errors import FormatError
from beliefs.inference.base import Task
from beliefs.inference.result import InferenceResult
from beliefs.inference.states_result import MapResult, MarginalMapResult, SampleResult
from beliefs.io import write
from beliefs.io.files import check_place, plain_name, write_bytes
from beliefs.io.uai import write_solution

__all__ = ["SUFFIXES", "answer_kind", "convert_command", "solution_values", "write_answer"]

SUFFIXES = {
    Task.INFER: ("MAR", "PR", "json", "csv", "npz"),
    Task.MAXIMIZE: ("MAP", "MPE", "json", "csv"),
    Task.MARGINAL_MAP: ("MMAP", "json", "csv"),
    Task.SAMPLE: ("csv", "json", "npz"),
}


def answer_kind(task: Task, path: str) -> str:
    """Return the kind of file that a path asks for; a suffix or folder that cannot be is an error."""
    suffix = os.path.splitext(plain_name(path))[1].removeprefix(".")
    for kind in SUFFIXES[task]:
        if kind.lower() == suffix:
            break
    else:
        known = ", ".join(f".{kind}" for kind in SUFFIXES[task])
        raise FormatError(f"the answer to {task.value} is written to a file that ends in one of {known}", path)
    check_place(path)
    return kind


def write_answer(result: Answer, path: str, kind: str, model: str, shown: Sequence[int]) -> None:
    """Write an answer; ``shown`` are the variables to tell about where the kind leaves a choice."""
    if kind == "json":
        write_bytes(path, json_text(document(result, model, shown)).encode())
    elif kind == "csv":
        write_bytes(path, csv_text(result, shown).encode())
    elif kind == "npz":
        write_bytes(path, _npz(result))
    else:
        write_solution(path, kind, solution_values(result, kind))


def solution_values(result: Answer, task: str) -> object:
    """Return what :func:`beliefs.io.uai.write_solution` takes for a task of the UAI competitions."""
    if isinstance(result, InferenceResult):
        return result.log_z if task == "PR" else [result.marginal(v) for v in range(result.graph.n_vars)]
    if isinstance(result, MapResult):
        return result.assignment
    assert isinstance(result, MarginalMapResult)
    return np.stack([np.array(result.query, np.int64), result.assignment], axis=1)


def _npz(result: Answer) -> bytes:
    """Return the arrays of marginals or samples, names and labels included, without pickles."""
    naming = result.graph.naming
    n_vars = result.graph.n_vars
    arrays: dict[str, np.ndarray] = {"names": np.array([naming.name(v) for v in range(n_vars)], dtype=np.str_)}
    if isinstance(result, SampleResult):
        arrays |= {"samples": result.samples}
    elif isinstance(result, InferenceResult):
        labels = [label for v in range(n_vars) for label in naming.states(v)]
        arrays |= {name: np.array(getattr(result, name)) for name in ("log_z", "log_lower", "log_upper", "mu_var")}
        arrays |= {"state_ptr": result.graph.layout.state_ptr, "states": np.array(labels, dtype=np.str_)}
    arrays |= {name: np.array(str(getattr(result, name))) for name in ("method", "status")}
    data = io.BytesIO()
    np.savez(data, **arrays)  # type: ignore[arg-type]
    return data.getvalue()


@click.command("convert")
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
def convert_command(source: str, target: str) -> None:
    """Read a model and write it in another format.

    The suffixes of IN and OUT say which. OUT is replaced if it exists, and only when the new file is whole.
    """
    write(load_model(source), target)
