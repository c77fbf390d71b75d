"""Files: models, evidence, queries and solutions in the formats of the field.

A format is a module with ``loads`` (text or bytes to model) and ``dumps`` (model to text or bytes); :func:`read` and
:func:`write` choose it by the file's suffix. Every malformed file ends in a FormatError with file, line, what was
expected and what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from beliefs.errors import FormatError
from beliefs.io import archive, bif, erg, fg, npz, uai, wcsp, xmlbif
from beliefs.io.files import StrPath, named_errors, plain_name, read_bytes, write_bytes
from beliefs.io.scanner import check_beginning
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.graph import FactorGraph, Model

__all__ = ["SUFFIXES", "read", "read_evidence", "read_query", "uai", "write"]

_READERS: dict[str, Callable[[bytes], FactorGraph | BayesianNetwork]] = {
    ".uai.lg": partial(uai.loads, log=True),
    ".lg": partial(uai.loads, log=True),
    ".uai": uai.loads,
    ".bif": bif.loads,
    ".xmlbif": xmlbif.loads,
    ".xml": xmlbif.loads,
    ".fg": fg.loads,
    ".wcsp": wcsp.loads,
    ".npz": npz.loads,
    ".erg": erg.loads,
}
_BEGINNINGS: dict[str, Callable[[bytes], None]] = {
    ".bif": bif.check_beginning,
    ".xmlbif": xmlbif.check_beginning,
    ".xml": xmlbif.check_beginning,
    ".npz": archive.check_beginning,
}
"""Who knows whether a file may begin with some bytes, where that is not the reader itself."""

_WRITERS: dict[str, Callable[[Model], str | bytes]] = {
    ".uai.lg": partial(uai.dumps, log=True),
    ".lg": partial(uai.dumps, log=True),
    ".uai": uai.dumps,
    ".bif": bif.dumps,
    ".xmlbif": xmlbif.dumps,
    ".xml": xmlbif.dumps,
    ".fg": fg.dumps,
    ".wcsp": wcsp.dumps,
    ".npz": npz.dumps,
}

SUFFIXES: tuple[str, ...] = tuple(_READERS)
"""Known suffixes, in lower case; each may be followed by ``.gz``, ``.xz`` or ``.bz2``."""


def read(path: StrPath) -> FactorGraph | BayesianNetwork:
    """Read a model: a BayesianNetwork from ``.bif`` and ``.xmlbif``, what was written from ``.npz``, else a graph.

    Suffixes: ``.uai``, ``.LG``, ``.bif``, ``.xmlbif``, ``.xml``, ``.fg``, ``.wcsp``, ``.npz``, ``.erg``, in any case,
    plain or followed by ``.gz``, ``.xz``, ``.bz2``.

    Raises
    ------
    FormatError
        No such file, an unknown suffix, or a malformed file; the message names the file and the line.
    """
    suffix = _suffix(path, _READERS)
    loads = _READERS[suffix]
    with named_errors(path):
        return loads(read_bytes(path, _BEGINNINGS.get(suffix, partial(check_beginning, loads))))


def write(model: Model, path: StrPath) -> None:
    """Write a model, in the format of the suffix; the file appears whole or not at all.

    Raises
    ------
    FormatError
        An unknown suffix, a place that cannot be written to, or numbers or names that the format cannot hold.
    ModelError
        A format for Bayesian networks, and a model that is none.
    """
    dumps = _WRITERS[_suffix(path, _WRITERS)]
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


def _suffix(path: StrPath, known: Iterable[str]) -> str:
    name = plain_name(path)
    for suffix in known:  # longer ones come before those that they end in
        if name.endswith(suffix):
            return suffix
    listed = ", ".join(known)
    raise FormatError(f"unknown suffix; known are {listed}, plain or followed by .gz, .xz or .bz2", str(path))
