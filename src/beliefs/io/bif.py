"""BIF, the Bayesian Interchange Format (``.bif``): reading.

::

    network NAME { property ..; }
    variable NAME { type discrete [ K ] { state, .., state }; property ..; }
    probability ( CHILD | PARENT, .. ) {
      (state, ..) p, .., p;      the child's probabilities, given these states of the parents
      table p, .., p;            all of them: the child varies slowest, the last parent fastest
      default p, .., p;          for the columns that no row gives
    }

Words may be quoted; unquoted, they hold anything but white space and ``{}()[];,|"``. Comments: ``//`` to the end of the
line, ``/* */``. Commas and the bar may be left out. Properties are kept: ``key = value`` of the network under ``key``,
of a variable (or its probabilities) under ``NAME.key``; the network's name is the property ``name``. A file reads as
a BayesianNetwork, its numbers as given. Cost: one pass over the bytes in compiled code, and a few microseconds a
variable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from beliefs.errors import FormatError, ModelError
from beliefs.io.bif_tokens import BifTokens
from beliefs.io.bif_writer import dumps
from beliefs.io.limits import max_cells
from beliefs.io.scanner import LONGEST, as_bytes, check_density
from beliefs.kernels.text.bif import BAD_NUMBER, DONE, NO_STATE, TWICE, bif_table
from beliefs.model.bayes_net import COLUMN_TOLERANCE, BayesianNetwork
from beliefs.model.layout import Layout
from beliefs.model.naming import Naming
from beliefs.model.variable import suggestion
from beliefs.typing import Floats, Ints

__all__ = ["check_beginning", "dumps", "loads"]

_CLOSE_BRACE = ord("}")
_OTHER_TOKENS = 100_000  # of properties and declarations, and of tables before their variables are declared


def loads(data: str | bytes) -> BayesianNetwork:
    """Return the Bayesian network of a BIF text."""
    tokens = BifTokens.cut(as_bytes(data))
    declared = _Declarations(tokens)
    headers = []
    for first, opened, closed in tokens.blocks():
        keyword = tokens.raw(first)
        if keyword == b"network":
            declared.read_network(first, opened, closed)
        elif keyword == b"variable":
            declared.read_variable(first, opened, closed)
        elif keyword == b"probability":
            headers.append((first, opened, closed))
        else:
            _check_keyword(tokens, first)
    tables = _Tables.of(declared)
    for first, opened, closed in headers:
        tables.read(first, opened, closed)
    return tables.network()


def check_beginning(text: bytes) -> None:
    """Raise a FormatError if no BIF file begins like this, or has so much in one block."""
    check_density(text)
    tokens = BifTokens.cut(as_bytes(text), beginning=True)
    declared, (last, brace) = _Declarations(tokens), tokens.unfinished()
    whole = BifTokens(tokens.data, tokens.buf, tokens.span[:last], tokens.kind[:last])
    for first, opened, closed in whole.blocks() if last else []:
        _check_keyword(tokens, first)
        if tokens.raw(first) == b"variable":
            declared.read_variable(first, opened, closed)
    if brace < len(tokens.kind):
        _check_keyword(tokens, last)
    if len(tokens.kind) and len(tokens.data) - int(tokens.span[-1, 0]) > LONGEST:
        raise tokens.error(f"a word of more than {LONGEST} bytes", len(tokens.kind) - 1)
    most = _tokens_promised(declared, last, brace)
    if len(tokens.kind) - last > most:
        raise tokens.error(f"a block of more than {len(tokens.kind) - last} words, which promises {most} at most", last)


def _check_keyword(tokens: BifTokens, first: int) -> None:
    if tokens.raw(first) not in (b"network", b"variable", b"probability"):
        raise tokens.unexpected("network, variable or probability", first)


def _tokens_promised(declared: _Declarations, first: int, opened: int) -> int:
    """Return how many tokens a block may have: of a table whose variables are known, a row a column of it."""
    words = [declared.tokens.word(t) for t in declared.tokens.names(first + 1, min(opened, first + _OTHER_TOKENS))]
    if declared.tokens.raw(first) != b"probability" or any(word not in declared.position for word in words):
        return _OTHER_TOKENS
    size = math.prod(len(declared.states[declared.position[word]]) for word in words)
    return _OTHER_TOKENS + 2 * (len(words) + 2) * min(size, max_cells())


@dataclass
class _Declarations:
    """The variables of a text; ``label_tokens`` says where their state labels stand."""

    tokens: BifTokens
    names: list[str] = field(default_factory=list)
    position: dict[str, int] = field(default_factory=dict)
    states: list[tuple[str, ...]] = field(default_factory=list)
    label_tokens: list[int] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)

    def read_network(self, first: int, opened: int, closed: int) -> None:
        name = " ".join(self.tokens.word(t) for t in self.tokens.names(first + 1, opened))
        self.properties |= ({"name": name} if name else {}) | self.tokens.only_properties(opened + 1, closed)

    def read_variable(self, first: int, opened: int, closed: int) -> None:
        tokens = self.tokens
        if tokens.names(first + 1, opened) != [first + 1] or opened != first + 2:
            raise tokens.unexpected("the name of a variable and {", first + 1)
        name = tokens.word(first + 1)
        if not name or name in self.position:
            raise tokens.error(f"variable {name!r} is declared twice" if name else "a variable has no name", first + 1)
        begin, labels, end = self._labels(name, opened + 1, closed)
        words = tokens.raws(first, closed)
        states = tuple(words[t - first].decode() for t in labels)
        if len(set(states)) < len(states):
            raise tokens.error(f"variable {name!r} has two states of the same name", labels[0])
        self.position[name] = len(self.names)
        self.names.append(name)
        self.states.append(states)
        self.label_tokens += labels
        self.keep(name, tokens.only_properties(opened + 1, begin) | tokens.only_properties(end + 1, closed))

    def _labels(self, name: str, t: int, closed: int) -> tuple[int, list[int], int]:
        """Return where ``type discrete [ K ] { state, .. }`` starts, its label tokens and its closing brace."""
        tokens = self.tokens
        begin = tokens.skip_properties(t, closed)
        words = [*tokens.raws(begin, min(begin + 6, closed + 1)), b"", b"", b"", b"", b"", b""]
        for k, expected in enumerate((b"type", b"discrete", b"[")):
            if words[k] != expected:
                raise tokens.unexpected(f"{expected.decode()} in the declaration of variable {name!r}", begin + k)
        if not (words[3].isdigit() and words[4:6] == [b"]", b"{"]):
            raise tokens.unexpected(f"the number of states of variable {name!r} as [ K ] {{", begin + 3)
        end = begin + 6 + tokens.kind[begin + 6 : closed + 1].tolist().index(_CLOSE_BRACE)
        labels, card = tokens.names(begin + 6, end), words[3].decode()
        if not labels or str(len(labels)) != card.lstrip("0"):
            raise tokens.error(f"variable {name!r} should have {card} states, found {len(labels)} labels", begin + 3)
        return begin, labels, end

    def keep(self, name: str, properties: dict[str, str]) -> None:
        for key, value in properties.items():
            self.properties[f"{name}.{key}"] = value


@dataclass
class _Tables:
    """The conditional tables, read after all variables because parents may be declared later."""

    declared: _Declarations
    card: Ints
    labels: Ints  # spans of all state labels (n_states, 2)
    first_label: Ints  # where each variable's start among them
    scopes: dict[int, list[int]] = field(default_factory=dict)
    tables: dict[int, Floats] = field(default_factory=dict)
    n_cells: int = 0

    @classmethod
    def of(cls, declared: _Declarations) -> _Tables:
        card = np.array([len(states) for states in declared.states], np.int64)
        return cls(declared, card, declared.tokens.span[declared.label_tokens], np.cumsum(card) - card)

    def read(self, first: int, opened: int, closed: int) -> None:
        declared = self.declared
        scope = self._scope(first, opened)
        child = scope[-1]
        name = declared.names[child]
        if child in self.scopes:
            raise declared.tokens.error(f"variable {name!r} has two probability blocks", first)
        size = math.prod(self.card[scope].tolist())
        self.n_cells += size
        if self.n_cells > max_cells():
            raise declared.tokens.error(f"the table of {name!r} has {size} cells, too many to fill", first)
        self.scopes[child] = scope
        self.tables[child] = self._table(scope, size, opened, closed)
        declared.keep(name, declared.tokens.properties(opened + 1, closed))

    def _scope(self, first: int, opened: int) -> list[int]:
        """Return the parents, then the child, of ``probability ( CHILD | PARENT, .. )``."""
        tokens = self.declared.tokens
        found = tokens.names(first + 1, opened)
        if not found or tokens.raw(first + 1) != b"(" or tokens.raw(opened - 1) != b")":
            raise tokens.unexpected("( CHILD | PARENTS ) after probability", first + 1)
        scope: list[int] = []
        words = tokens.raws(first, opened)
        for t in found:
            name = words[t - first].decode()
            v = self.declared.position.get(name)
            if v is None:
                raise tokens.error(f"no variable {name!r} is declared{suggestion(name, self.declared.names)}", t)
            scope.append(v)
        if len(set(scope)) < len(scope):
            k = next(k for k, v in enumerate(scope) if v in scope[:k])
            name = self.declared.names[scope[k]]
            raise tokens.error(f"variable {name!r} occurs twice among child and parents", found[k])
        return [*scope[1:], scope[0]]

    def _table(self, scope: list[int], size: int, opened: int, closed: int) -> Floats:
        tokens, card = self.declared.tokens, self.card[scope]
        table, default = np.zeros(size), np.full(card[-1], -1.0)
        row = np.full(size // int(card[-1]), -1, np.int64)
        hard = np.empty((closed - opened, 2), np.int64)
        t, n_hard, state, parent = bif_table(
            tokens.arrays, opened + 1, closed, self.labels, self.first_label[scope], card, table, default, row, hard
        )
        if state != DONE:
            raise self._error(scope, t, state, parent)
        for t, cell in hard[:n_hard].tolist():
            (table if cell >= 0 else default)[cell] = float(tokens.raw(t))
        columns = table.reshape(row.size, -1)
        if default[0] >= 0:
            columns[row < 0] = default
            row[row < 0] = opened
        self._check_columns(scope, columns, row, opened)
        return table

    def _error(self, scope: list[int], t: int, state: int, parent: int) -> FormatError:
        tokens, names = self.declared.tokens, self.declared.names
        child = names[scope[-1]]
        if state == BAD_NUMBER:
            return tokens.unexpected(f"a finite, non-negative probability of {child!r}", t)
        if state == NO_STATE:
            known = ", ".join(self.declared.states[scope[parent]][:8])
            return tokens.unexpected(f"a state of parent {names[scope[parent]]!r} ({known})", t)
        if state == TWICE:
            return tokens.error(f"a column of the table of {child!r} is given twice", t)
        need = f"{len(scope) - 1} parents' states and {self.card[scope[-1]]} probabilities a row"
        return tokens.unexpected(f"the table of {child!r} ({need}, each ending in ;)", t)

    def _check_columns(self, scope: list[int], columns: Floats, row: Ints, opened: int) -> None:
        sums = columns.sum(axis=1)
        wrong = (row < 0) | (np.abs(sums - 1) > COLUMN_TOLERANCE)
        if not wrong.any():
            return
        column = int(np.argmax(wrong))
        states = np.unravel_index(column, tuple(self.card[scope[:-1]])) if len(scope) > 1 else ()
        names = self.declared.names
        given = ", ".join(f"{names[v]}={self.declared.states[v][x]}" for v, x in zip(scope, states))
        where = f"{names[scope[-1]]!r} given {given}" if given else repr(names[scope[-1]])
        if row[column] < 0:
            raise self.declared.tokens.error(f"the probabilities of {where} are missing", opened)
        raise self.declared.tokens.error(
            f"the probabilities of {where} must sum to 1, found {sums[column]:.6g}", int(row[column])
        )

    def network(self) -> BayesianNetwork:
        declared = self.declared
        if not declared.names:
            raise FormatError("expected at least one variable block, found none", line=1)
        missing = [name for v, name in enumerate(declared.names) if v not in self.scopes]
        if missing:
            raise declared.tokens.error(f"variable {missing[0]!r} has no probability block", len(declared.tokens.kind))
        scopes = [self.scopes[v] for v in range(len(declared.names))]
        ptr = np.cumsum([0, *map(len, scopes)])
        layout = Layout.build(self.card, ptr, np.array([v for scope in scopes for v in scope], np.int64))
        naming = Naming.of(declared.names, declared.states, layout.card)
        numbers = np.concatenate([self.tables[v] for v in range(len(scopes))])
        try:
            return BayesianNetwork.build(layout, numbers, naming, declared.properties)
        except ModelError as error:  # a cycle: no single line is to blame
            raise FormatError(str(error)) from None
