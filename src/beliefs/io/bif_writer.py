"""BIF, the Bayesian Interchange Format: writing; see :mod:`beliefs.io.bif` for the grammar.

Probabilities are written as given, shortest form first, so that reading gives the same floats. Conditional tables are
written row by row, which every reader understands alike; ``table`` is used only for variables without parents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from beliefs.errors import FormatError
from beliefs.io.plain import as_bayesian_network, number_texts
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.graph import Model

__all__ = ["dumps", "split_properties"]

_BARE = re.compile(r"(?!//|/\*)[^\s{}()\[\];,|\"]+")
_OPEN_TEXT = re.compile(r"(?!\"[^\"]*\"$)(?:[^{};\"]|\"[^\"]*\")+")  # quotes in pairs, not around the whole


def dumps(model: Model) -> str:
    """Return the BIF text of a Bayesian network, or of a factor graph that is one."""
    network = as_bayesian_network(model)
    own, of_variable = split_properties(network)
    lines = [f"network {_word(own.pop('name', 'unknown'))} {{", *_properties(own), "}"]
    for variable in network.variables:
        states = ", ".join(map(_word, variable.states))
        lines += [f"variable {_word(variable.name)} {{", f"  type discrete [ {variable.card} ] {{ {states} }};"]
        lines += [*_properties(of_variable.get(variable.name, {})), "}"]
    numbers = number_texts(network.probabilities)
    for v in range(network.n_vars):
        lines += _table(network, v, numbers)
    return "\n".join(lines) + "\n"


def _table(network: BayesianNetwork, v: int, numbers: list[str]) -> Iterator[str]:
    layout, naming = network.graph.layout, network.graph.naming
    *parents, child = layout.scope(v).tolist()
    given = " | " + ", ".join(_word(naming.name(u)) for u in parents) if parents else ""
    yield f"probability ( {_word(naming.name(child))}{given} ) {{"
    card, at = int(layout.card[child]), layout.cells(v).start
    labels = [[_word(label) for label in naming.states(u)] for u in parents]
    for states in product(*labels):
        row = ", ".join(numbers[at : at + card])
        yield f"  ({', '.join(states)}) {row};" if parents else f"  table {row};"
        at += card
    yield "}"


def _word(text: str) -> str:
    """Return a name or label as a BIF word, quoted only where it must be."""
    if _BARE.fullmatch(text):
        return text
    if '"' in text:
        raise FormatError(f"BIF cannot hold a name with a quote: {text!r}; write .xmlbif or .npz instead")
    return f'"{text}"'


def _properties(properties: dict[str, str]) -> Iterator[str]:
    for key, value in properties.items():
        text = f"{key} = {value}" if value else key
        if not _OPEN_TEXT.fullmatch(text) or "//" in text or "/*" in text:
            if '"' in text:
                raise FormatError(f"BIF cannot hold the property {text!r}; write .npz instead")
            text = f'"{text}"'
        yield f"  property {text};"


def split_properties(network: BayesianNetwork) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the network's own properties, and those of each variable without its ``NAME.`` in front."""
    own: dict[str, str] = {}
    of_variable: dict[str, dict[str, str]] = {}
    names = {variable.name for variable in network.variables}
    for key, value in network.properties.items():
        cuts = [i for i, c in enumerate(key) if c == "." and key[:i] in names]
        if cuts:
            name, rest = key[: cuts[-1]], key[cuts[-1] + 1 :]
            of_variable.setdefault(name, {})[rest] = value
        else:
            own[key] = value
    return own, of_variable
