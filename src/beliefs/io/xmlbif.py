"""XMLBIF 0.3, Bayesian networks in XML (``.xmlbif``, ``.xml``).

::

    <BIF><NETWORK> <NAME>..</NAME>
      <VARIABLE TYPE="nature"> <NAME>..</NAME> <OUTCOME>..</OUTCOME>.. <PROPERTY>key = value</PROPERTY> </VARIABLE>
      <DEFINITION> <FOR>child</FOR> <GIVEN>parent</GIVEN>.. <TABLE>p..</TABLE> </DEFINITION>
    </NETWORK></BIF>

In a table the child varies fastest, then the last parent: the order of our own tables. Properties are kept as for BIF.
The reader declines entity declarations, so a small file cannot grow, and never looks at anything outside the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from xml.parsers import expat

import numpy as np

from beliefs.errors import FormatError, ModelError
from beliefs.io.bif_writer import split_properties
from beliefs.io.limits import max_cells
from beliefs.io.plain import as_bayesian_network, number_texts
from beliefs.io.scanner import LONGEST, Scanner, check_density
from beliefs.model.bayes_net import COLUMN_TOLERANCE, BayesianNetwork
from beliefs.model.graph import Model
from beliefs.model.layout import Layout
from beliefs.model.naming import Naming
from beliefs.model.variable import suggestion
from beliefs.typing import Floats

__all__ = ["check_beginning", "dumps", "loads"]

_LETTERS = 64  # of a number and the white space around it, at most


@dataclass
class _Element:
    """A ``VARIABLE``, ``DEFINITION`` or ``NETWORK``: the texts of its parts with their lines, in order."""

    tag: str
    line: int
    parts: list[tuple[str, str, int]] = field(default_factory=list)

    def texts(self, *tags: str) -> list[str]:
        return [text for tag, text, _ in self.parts if tag in tags]

    def only(self, tag: str) -> tuple[str, int]:
        found = [(text, line) for name, text, line in self.parts if name == tag]
        if len(found) != 1:
            raise FormatError(f"a {self.tag} needs one {tag}, found {len(found)}", line=self.line)
        return found[0]


def loads(data: str | bytes) -> BayesianNetwork:
    """Return the Bayesian network of an XMLBIF text."""
    elements = _parse(data)
    names: dict[str, int] = {}
    states: list[tuple[str, ...]] = []
    for element in elements["VARIABLE"]:
        _declare(element, names, states)
    if not names:
        raise FormatError("expected at least one VARIABLE, found none", line=1)
    scopes, tables = _definitions(elements["DEFINITION"], names, states)
    order = range(len(names))
    layout = Layout.build(
        [len(s) for s in states],
        np.cumsum([0, *(len(scopes[v]) for v in order)]),
        np.array([u for v in order for u in scopes[v]], np.int64),
    )
    try:
        naming = Naming.of(list(names), states, layout.card)
        numbers = np.concatenate([tables[v] for v in order])
        return BayesianNetwork.build(layout, numbers, naming, _properties(elements))
    except ModelError as error:
        raise FormatError(str(error)) from None


def check_beginning(text: bytes) -> None:
    """Raise a FormatError if no XMLBIF file begins like this, or has so much in one element."""
    check_density(text)
    _parse(text, beginning=True)


def _promised(element: _Element, found: dict[str, list[_Element]]) -> int:
    """Return how many letters the table of a definition may have, by its variables' outcomes."""
    outcomes = {
        v.texts("NAME")[0].strip(): len(v.texts("OUTCOME", "VALUE")) for v in found["VARIABLE"] if v.texts("NAME")
    }
    names = [name.strip() for name in element.texts("FOR", "GIVEN")]
    return LONGEST + _LETTERS * min(math.prod(outcomes.get(name, 1) for name in names), max_cells())


def _parse(data: str | bytes, beginning: bool = False) -> dict[str, list[_Element]]:
    """Collect the elements; every handler sees only text that the parser has checked.

    Of the ``beginning`` of a text also the last element is checked, which may be unfinished.
    """
    found: dict[str, list[_Element]] = {"NETWORK": [], "VARIABLE": [], "DEFINITION": []}
    stack: list[_Element] = []
    path: list[tuple[str, int]] = []
    text: list[str] = []
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else bytes(data)
    parser = expat.ParserCreate("UTF-8" if isinstance(data, str) else None)

    def start(tag: str, attributes: dict[str, str]) -> None:
        path.append((tag.upper(), parser.CurrentLineNumber))
        if len(path) == 1 and path[0][0] != "BIF":
            raise FormatError(f"expected the element BIF, found {tag}", line=parser.CurrentLineNumber)
        if path[-1][0] in found:
            stack.append(_Element(*path[-1]))
            found[path[-1][0]].append(stack[-1])
        text.clear()

    def end(tag: str) -> None:
        name, line = path.pop()
        if name in found:
            stack.pop()
        elif stack:
            stack[-1].parts.append((name, "".join(text), line))
        text.clear()

    def entity(*_: object) -> None:
        raise FormatError("entity declarations are not allowed", line=parser.CurrentLineNumber)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.EntityDeclHandler = text.append, entity
    parser.buffer_text = True
    try:
        parser.Parse(raw, not beginning)
    except expat.ExpatError as error:
        message = expat.errors.messages.get(error.code, "not well-formed")
        raise FormatError(f"the XML is broken: {message}", line=error.lineno) from None
    except FormatError:
        raise
    except (LookupError, TypeError, ValueError) as error:  # an encoding that Python's codecs do not know or like
        raise FormatError(f"the XML is broken: {error}", line=parser.CurrentLineNumber) from None
    if beginning:
        most = _promised(stack[-1], found) if stack else LONGEST
        if sum(map(len, text)) > most or len(raw) - parser.CurrentByteIndex > LONGEST:
            what = path[-1][0] if path else "the file"
            raise FormatError(f"{what} goes on for more than it can mean", line=parser.CurrentLineNumber)
    return found


def _declare(element: _Element, names: dict[str, int], states: list[tuple[str, ...]]) -> None:
    name, line = element.only("NAME")
    name = name.strip()
    labels = tuple(label.strip() for label in element.texts("OUTCOME", "VALUE"))
    if not name or name in names:
        raise FormatError(f"variable {name!r} is declared twice" if name else "a variable has no name", line=line)
    if not labels or len(set(labels)) < len(labels):
        raise FormatError(f"variable {name!r} needs one or more different outcomes, found {labels}", line=element.line)
    names[name] = len(names)
    states.append(labels)


def _definitions(
    elements: list[_Element], names: dict[str, int], states: list[tuple[str, ...]]
) -> tuple[dict[int, list[int]], dict[int, Floats]]:
    scopes: dict[int, list[int]] = {}
    tables: dict[int, Floats] = {}
    for element in elements:
        child, line = element.only("FOR")
        scope = []
        for name in map(str.strip, [*element.texts("GIVEN"), child]):
            if name not in names:
                raise FormatError(f"no variable {name!r} is declared{suggestion(name, names)}", line=line)
            scope.append(names[name])
        if len(set(scope)) < len(scope):
            twice = next(v for k, v in enumerate(scope) if v in scope[:k])
            name = list(names)[twice]
            raise FormatError(f"variable {name!r} occurs twice among child and parents", line=line)
        if scope[-1] in scopes:
            raise FormatError(f"variable {child.strip()!r} has two definitions", line=line)
        scopes[scope[-1]] = scope
        tables[scope[-1]] = _table(element, [len(states[v]) for v in scope], child.strip())
    missing = [name for name, v in names.items() if v not in scopes]
    if missing:
        raise FormatError(f"variable {missing[0]!r} has no definition")
    return scopes, tables


def _table(element: _Element, shape: list[int], child: str) -> Floats:
    text, line = element.only("TABLE")
    scan = Scanner(text.encode(), line, "the end of the table")
    size = math.prod(shape)
    numbers = scan.numbers(size, f"{size} probabilities of {child!r}")
    scan.end()
    wrong = ~((numbers >= 0) & (numbers < np.inf))
    if wrong.any():
        scan.at = 0
        place = scan.next_token(int(np.argmax(wrong)))
        raise scan.unexpected(f"a finite, non-negative probability of {child!r}", place)
    sums = numbers.reshape(-1, shape[-1]).sum(axis=1)
    if (np.abs(sums - 1) > COLUMN_TOLERANCE).any():
        column = int(np.argmax(np.abs(sums - 1) > COLUMN_TOLERANCE))
        scan.at = 0
        place = scan.next_token(column * shape[-1])
        raise scan.error(f"column {column} of {child!r} must sum to 1, found {sums[column]:.6g}", place)
    return numbers


def _properties(elements: dict[str, list[_Element]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for element in (*elements["NETWORK"], *elements["VARIABLE"], *elements["DEFINITION"]):
        if element.tag == "NETWORK":
            prefix = ""
            name = "".join(element.texts("NAME")).strip()
            found |= {"name": name} if name else {}
        else:
            prefix = element.only("NAME" if element.tag == "VARIABLE" else "FOR")[0].strip() + "."
        for text in element.texts("PROPERTY"):
            key, _, value = text.partition("=")
            found[prefix + key.strip()] = value.strip()
    return found


def dumps(model: Model) -> str:
    """Return the XMLBIF text of a Bayesian network, or of a factor graph that is one; numbers as given."""
    network = as_bayesian_network(model)
    own, of_variable = split_properties(network)
    numbers = number_texts(network.probabilities)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<BIF VERSION="0.3">', "<NETWORK>"]
    lines += [_tag("NAME", own.pop("name", "unknown")), *_property_tags(own)]
    for variable in network.variables:
        lines += ['<VARIABLE TYPE="nature">', _tag("NAME", variable.name)]
        lines += [_tag("OUTCOME", label) for label in variable.states]
        lines += [*_property_tags(of_variable.get(variable.name, {})), "</VARIABLE>"]
    for v, variable in enumerate(network.variables):
        lines += ["<DEFINITION>", _tag("FOR", variable.name)]
        lines += [_tag("GIVEN", parent) for parent in network.parents(v)]
        lines += [f"  <TABLE>{' '.join(numbers[network.graph.layout.cells(v)])}</TABLE>", "</DEFINITION>"]
    return "\n".join([*lines, "</NETWORK>", "</BIF>"]) + "\n"


def _property_tags(properties: dict[str, str]) -> list[str]:
    return [_tag("PROPERTY", f"{key} = {value}" if value else key) for key, value in properties.items()]


def _tag(tag: str, text: str) -> str:
    if text != text.strip() or not text.isprintable():
        raise FormatError(f"XMLBIF cannot hold the text {text!r}; write .npz instead")
    return f"  <{tag}>{escape(text, quote=False)}</{tag}>"
