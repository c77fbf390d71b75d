"""UAI evidence files and query files.

Evidence comes in two dialects, told apart by counting tokens:

* ``k v_1 x_1 .. v_k x_k``, one sample (since 2014);
* ``s``, then ``s`` lines ``k v_1 x_1 .. v_k x_k`` (2010); ``s = 1`` is one sample, too.

``0`` alone is no evidence. Sometimes both readings use up the file exactly: ``2 0 1 3 2`` is x0 = 1 and x3 = 2, or no
evidence and then x3 = 2. A reading that contradicts itself or the model (no such variable or state) is dropped; of two
that are left, the one counts that fits the lines: a pair is never split, and a sample of several is a line. If that
does not settle it either, a FormatError says so. A query file is ``q v_1 .. v_q``; in it, lines that start with ``#``
are comments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from beliefs.errors import FormatError
from beliefs.io.files import StrPath, write_bytes
from beliefs.io.limits import MOST_ENTRIES
from beliefs.io.scanner import Scanner, without_comments
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.typing import Ints

__all__ = ["Sample", "counted_evidence", "dumps_evidence", "loads_evidence", "loads_query", "write_evidence"]

Sample = dict[int, int]
_COMMENT = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)


def loads_evidence(data: str | bytes, model: Model | None = None) -> Sample | list[Sample]:
    """Return ``{variable index: state index}``, or a list of them where the file holds several samples.

    With a model, variables and states are checked against it.

    Examples
    --------
    >>> loads_evidence("2  0 1  4 0"), loads_evidence("1  2  0 1  4 0")
    ({0: 1, 4: 0}, {0: 1, 4: 0})
    """
    return _choose(*counted_evidence(data), None if model is None else as_factor_graph(model))


def counted_evidence(data: str | bytes) -> tuple[Scanner, Ints, list[list[int]]]:
    """Return the text, its numbers, and where samples start in each of the dialects whose counts add up."""
    scan = Scanner(without_comments(data))
    numbers = scan.rest("an integer")
    if not numbers.size:
        raise scan.unexpected("the number of observed variables")
    scan.at = 0
    if (numbers < 0).any():
        raise scan.unexpected("a non-negative integer", scan.next_token(int(np.argmax(numbers < 0))))
    readings = [starts for starts in (_one_sample(numbers), _samples(numbers)) if starts is not None]
    if not readings:
        raise _wrong_count(scan, numbers)
    return scan, numbers, readings


def _one_sample(numbers: Ints) -> list[int] | None:
    """Return where the samples start, in the one-sample dialect, or None if the counts do not add up."""
    return [0] if numbers.size == 1 + 2 * numbers[0] else None


def _samples(numbers: Ints) -> list[int] | None:
    """Return where the samples start, in the dialect with a leading number of samples."""
    starts, at = [], 1
    for _ in range(int(numbers[0])):
        if at >= numbers.size:
            return None
        starts.append(at)
        at += 1 + 2 * int(numbers[at])
    return starts if at == numbers.size else None


def _choose(
    scan: Scanner, numbers: Ints, readings: list[list[int]], graph: FactorGraph | None
) -> Sample | list[Sample]:
    """Return the one reading that is legal and, if need be, fits the lines."""
    lines = _lines(scan, numbers) if len(readings) == 2 else None
    fits = [lines is None or _fits_lines(numbers, starts, lines) for starts in readings]
    legal: list[tuple[bool, list[Sample]]] = []
    problems: list[FormatError] = []
    for fit, starts in sorted(zip(fits, readings), reverse=True):
        try:
            samples = [_sample(scan, numbers, start, graph) for start in starts] or [{}]
        except FormatError as error:
            problems.append(error)
        else:
            legal.append((fit, samples))
    if not legal:
        raise problems[0]
    (fit, first), (other, second) = legal[0], legal[-1]
    if fit == other and first != second:
        raise scan.error(
            f"ambiguous evidence: one sample or several, {first} or {second}; put each sample on a line of its own"
        )
    return first[0] if len(first) == 1 else first


def _lines(scan: Scanner, numbers: Ints) -> list[int]:
    """Return the line of each number."""
    counts = [len(line.split()) for line in scan.data.split(b"\n")]
    return [line for line, count in enumerate(counts) for _ in range(count)]


def _fits_lines(numbers: Ints, starts: list[int], lines: list[int]) -> bool:
    if starts == [0]:
        return all(lines[k] == lines[k + 1] for k in range(1, numbers.size, 2))
    begins = [0, *(lines[start] for start in starts)]
    ends = [lines[start + 2 * int(numbers[start])] for start in starts]
    return begins[1:] == ends and len(set(begins)) == len(begins)


def _sample(scan: Scanner, numbers: Ints, start: int, graph: FactorGraph | None) -> Sample:
    """Return the sample whose count stands at ``numbers[start]``, checked."""
    sample: Sample = {}
    for k in range(start + 1, start + 1 + 2 * int(numbers[start]), 2):
        v, x = int(numbers[k]), int(numbers[k + 1])
        if graph is not None and v >= graph.n_vars:
            raise scan.error(f"no variable {v}: the model has variables 0..{graph.n_vars - 1}", scan.next_token(k))
        if graph is not None and x >= graph.layout.card[v]:
            name, last = graph.naming.name(v), graph.layout.card[v] - 1
            raise scan.error(f"variable {v} ({name}) has states 0..{last}, found state {x}", scan.next_token(k + 1))
        if sample.setdefault(v, x) != x:
            raise scan.error(f"variable {v} is observed in state {sample[v]} and in state {x}", scan.next_token(k))
    return sample


def _wrong_count(scan: Scanner, numbers: Ints) -> FormatError:
    pairs, first = numbers.size - 1, int(numbers[0])
    told = (
        f"{first} observed variables need {2 * first} numbers after the count, found {pairs}"
        f" (nor is this {first} samples of counted pairs)"
    )
    return scan.error(told, ended=first <= MOST_ENTRIES and (pairs < 2 * first or not _exceeded(numbers)))


def _exceeded(numbers: Ints) -> bool:
    """Whether there are more numbers than the samples that the first one promises."""
    at = 1
    for _ in range(int(numbers[0])):
        if at >= numbers.size:
            return False
        at += 1 + 2 * int(numbers[at])
    return at < numbers.size


def loads_query(data: str | bytes, model: Model | None = None) -> tuple[int, ...]:
    """Return the variable indices of a query file, in its order.

    Examples
    --------
    >>> loads_query("2  7 3")
    (7, 3)
    """
    scan = Scanner(_COMMENT.sub(b"", without_comments(data)))
    count = scan.count("the number of query variables", "variables")
    begin = scan.at
    query = scan.integers(count, "query variable {}")
    scan.end()
    scan.at = begin
    n_vars = None if model is None else as_factor_graph(model).n_vars
    seen: set[int] = set()
    for k, v in enumerate(query.tolist()):
        if v < 0 or (n_vars is not None and v >= n_vars):
            known = "" if n_vars is None else f": the model has variables 0..{n_vars - 1}"
            raise scan.error(f"no variable {v}{known}", scan.next_token(k))
        if v in seen:
            raise scan.error(f"query variable {v} is named twice", scan.next_token(k))
        seen.add(v)
    return tuple(query.tolist())


def dumps_evidence(evidence: Mapping[int, int] | Sequence[Mapping[int, int]]) -> str:
    """Return evidence by indices as text: one line, or for several samples their number and a line each."""
    samples = [evidence] if isinstance(evidence, Mapping) else list(evidence)
    lines = [" ".join(map(str, [len(s), *(n for pair in s.items() for n in pair)])) for s in samples]
    return "\n".join(lines if isinstance(evidence, Mapping) else [str(len(samples)), *lines]) + "\n"


def write_evidence(path: StrPath, evidence: Mapping[int, int] | Sequence[Mapping[int, int]]) -> None:
    """Write evidence, ``{variable index: state index}`` or a list of such samples, whole or not at all."""
    write_bytes(path, dumps_evidence(evidence).encode())
