"""Models, evidence and queries from files and to files; the suffix says which format."""

from __future__ import annotations

from functools import partial

from beliefs.io import uai
from beliefs.io.files import StrPath, named_errors, read_bytes, write_bytes
from beliefs.io.formats import format_of, suffixes
from beliefs.io.machines import Machine
from beliefs.io.scanner import check_beginning
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.graph import FactorGraph, Model

__all__ = ["SUFFIXES", "read", "read_evidence", "read_query", "write"]

SUFFIXES: tuple[str, ...] = suffixes()
"""Known suffixes, in lower case; each may be followed by ``.gz``, ``.xz`` or ``.bz2``."""


def read(path: StrPath) -> FactorGraph | BayesianNetwork | Machine:
    """Read a model: a BayesianNetwork from ``.bif`` and ``.xmlbif``, what was written from ``.npz``, else a graph.

    The suffix says which format, in any case, plain or followed by ``.gz``, ``.xz``, ``.bz2``; see
    :data:`~beliefs.io.formats.FORMATS`.

    Raises
    ------
    FormatError
        No such file, an unknown suffix, or a malformed file; the message names the file and the line.
    """
    form = format_of(path)
    with named_errors(path):
        return form.loads(read_bytes(path, form.check_beginning))


def write(model: Model | Machine, path: StrPath) -> None:
    """Write a model, in the format of the suffix; the file appears whole or not at all.

    Raises
    ------
    FormatError
        An unknown suffix, a place that cannot be written to, or numbers or names that the format cannot hold.
    ModelError
        A format for Bayesian networks, and a model that is none.
    """
    dumps = format_of(path, written=True).dumps
    assert dumps is not None
    with named_errors(path):
        data = dumps(model)
        write_bytes(path, data.encode() if isinstance(data, str) else data)


def read_evidence(path: StrPath, model: Model | None = None) -> uai.Sample | list[uai.Sample]:
    """Read a UAI evidence file: ``{variable index: state index}``, or a list of them for several samples.

    With a model, variables and states are checked against it, which also settles most ambiguous files.
    """
    with named_errors(path):
        return uai.loads_evidence(read_bytes(path, partial(check_beginning, uai.counted_evidence)), model)


def read_query(path: StrPath, model: Model | None = None) -> tuple[int, ...]:
    """Read a UAI query file: variable indices in the file's order, checked against the model if one is given."""
    with named_errors(path):
        loads = partial(uai.loads_query, model=model)
        return loads(read_bytes(path, partial(check_beginning, loads)))
