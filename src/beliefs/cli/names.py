"""What the user typed, as variables, states, evidence and models of this library.

A variable is looked up by name first, then by index; a state by label first, then by index. A comma or an equals sign
inside a name is written with a backslash before it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from beliefs.datasets import bn_names, load_bn
from beliefs.errors import ModelError
from beliefs.io import read, read_evidence, read_query
from beliefs.io.files import plain_name
from beliefs.io.formats import suffixes
from beliefs.model.crbm import CRBM
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.model.variable import suggestion

__all__ = ["load_graph", "load_model", "parse_evidence", "parse_query", "parse_state", "parse_variable"]

_COMMA = re.compile(r"(?<!\\),")
_EQUALS = re.compile(r"(?<!\\)=")
_ESCAPED = re.compile(r"\\([,=\\])")


def load_model(text: str) -> Model:
    """Return the model of a file, or a network that comes with the package where no file has that name."""
    if os.path.exists(text) or plain_name(text).endswith(suffixes()):
        model = read(text)
        if isinstance(model, CRBM):
            raise ModelError(f"{text}: a CRBM answers for rows of inputs; fit and predict are for these")
        return model
    known = bn_names()
    if text not in known:
        hint = suggestion(text, known)
        raise ModelError(f"{text}: no such file, and no network of that name comes with the package{hint}")
    return load_bn(text)


def load_graph(text: str, evidence: Iterable[str] = ()) -> FactorGraph:
    """Return the factor graph of a model, conditioned on the evidence."""
    graph = as_factor_graph(load_model(text))
    observed = parse_evidence(graph, evidence)
    return graph.condition(observed) if observed else graph


def parse_variable(graph: FactorGraph, text: str) -> int:
    """Return the index of a variable given by name or, failing that, by index."""
    return _name_or_index(text, graph.index)


def parse_state(graph: FactorGraph, v: int, text: str) -> int:
    """Return the index of a state of variable ``v`` given by label or, failing that, by index."""
    return _name_or_index(text, lambda ref: graph.state(v, ref))


def _name_or_index(text: str, find: Callable[[str | int], int]) -> int:
    try:
        return find(text)
    except ModelError:
        if not (text.isascii() and text.isdecimal()):
            raise
        return find(int(text))


def parse_evidence(graph: FactorGraph, texts: Iterable[str]) -> dict[int, int]:
    """Return the evidence of all ``--evidence`` options, each a file or ``name=state,name=state``."""
    found: dict[int, int] = {}
    for text in texts:
        for v, x in _one_evidence(graph, text):
            if found.setdefault(v, x) != x:
                raise ModelError(f"evidence gives two states for variable {graph.naming.name(v)!r}")
    return found


def _one_evidence(graph: FactorGraph, text: str) -> list[tuple[int, int]]:
    if os.path.isfile(text) or (text and "=" not in text):
        return list(_evidence_file(graph, text).items())
    pairs = []
    for part in _parts(text):
        sides = _EQUALS.split(part, maxsplit=1)
        if len(sides) < 2:
            raise ModelError(f"evidence is written name=state,name=state; found {part!r}")
        v = parse_variable(graph, _plain(sides[0]))
        pairs.append((v, parse_state(graph, v, _plain(sides[1]))))
    return pairs


def _evidence_file(graph: FactorGraph, path: str) -> dict[int, int]:
    if not os.path.exists(path):
        raise ModelError(f"evidence {path!r} is neither a file nor written name=state,name=state")
    evidence = read_evidence(path, graph)
    if isinstance(evidence, dict):
        return evidence
    raise ModelError(f"{path} holds {len(evidence)} samples of evidence; one run takes one, so give each a file")


def parse_query(graph: FactorGraph, text: str) -> list[int]:
    """Return the variables of ``--query``, ``--targets`` or ``--variables``: names, or a query file."""
    try:
        return [parse_variable(graph, _plain(part)) for part in _parts(text)]
    except ModelError:
        if not os.path.isfile(text):
            raise
        return list(read_query(text, graph))


def _parts(text: str) -> list[str]:
    return _COMMA.split(text) if text.strip() else []


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text.strip())
