"""Names outside, indices inside: the one place where the two meet.

Unnamed variables are ``x0, x1, ...`` and unlabelled states ``"0", "1", ...``; neither costs a Python object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.model.layout import frozen
from beliefs.model.variable import Variable, as_index, check_labels, state_index, suggestion
from beliefs.typing import Ints

__all__ = ["Naming"]


@dataclass(frozen=True, eq=False)
class Naming:
    """Names and state labels of the variables of one model; ``None`` stands for the default ones."""

    card: Ints
    names: tuple[str, ...] | None = None
    labels: tuple[tuple[str, ...] | None, ...] | None = None

    @classmethod
    def default(cls, card: Ints) -> Naming:
        """Return the naming ``x0, x1, ...``."""
        return cls(card)

    @classmethod
    def of(cls, names: Sequence[str] | None, states: Sequence[Sequence[str] | None] | None, card: Ints) -> Naming:
        """Check names and labels against the cardinalities."""
        checked_names = None if names is None else tuple(names)
        if checked_names is not None:
            _check_names(checked_names, len(card))
        checked: tuple[tuple[str, ...] | None, ...] | None = None
        if states is not None:
            checked = tuple(None if labels is None else tuple(labels) for labels in states)
            if len(checked) != len(card):
                raise ModelError(f"expected state labels for {len(card)} variables, found {len(checked)}")
            for v, labels in enumerate(checked):
                name = checked_names[v] if checked_names else f"x{v}"
                if labels is not None:
                    check_labels(name, labels)
                    if len(labels) != card[v]:
                        raise ModelError(f"variable {name!r} has {card[v]} states but {len(labels)} labels")
        return cls(card, checked_names, checked)

    @classmethod
    def union(cls, namings: Sequence[Naming], prefixes: Sequence[str] | None) -> Naming:
        """Concatenate namings; clashes raise unless ``prefixes`` (one per part) tell them apart."""
        card = np.concatenate([n.card for n in namings])
        if prefixes is not None and len(prefixes) != len(namings):
            raise ModelError(f"expected {len(namings)} prefixes, found {len(prefixes)}")
        labels = None
        if any(n.labels is not None for n in namings):
            labels = [part for n in namings for part in (n.labels or (None,) * len(n.card))]
        names: list[str] | None = None
        if prefixes is not None:
            names = [p + n.name(v) for p, n in zip(prefixes, namings, strict=True) for v in range(len(n.card))]
        elif any(n.names is not None for n in namings):
            names = []
            for n in namings:  # unnamed parts are named by their new index
                names += n.names if n.names is not None else [f"x{len(names) + v}" for v in range(len(n.card))]
        return cls.of(names, labels, card)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: v for v, name in enumerate(self.names or ())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(frozen(state))

    def __eq__(self, other: object) -> bool:
        """Whether all names and labels are the same, given ones or default ones."""
        if not isinstance(other, Naming):
            return NotImplemented
        if self is other:
            return True
        n, m = len(self.card), len(other.card)
        return n == m and (self.card == other.card).all() and self._same_names(other) and self._same_labels(other)

    def __hash__(self) -> int:
        return hash(self.card.tobytes())

    def _same_names(self, other: Naming) -> bool:
        if self.names is None or other.names is None:
            return self.names is other.names or all(self.name(v) == other.name(v) for v in range(len(self.card)))
        return self.names == other.names

    def _same_labels(self, other: Naming) -> bool:
        if self.labels == other.labels:
            return True
        return all(self.states(v) == other.states(v) for v in range(len(self.card)))

    def name(self, v: int) -> str:
        """Name of variable ``v``."""
        return f"x{v}" if self.names is None else self.names[v]

    def states(self, v: int) -> tuple[str, ...]:
        """State labels of variable ``v``."""
        labels = None if self.labels is None else self.labels[v]
        return tuple(map(str, range(int(self.card[v])))) if labels is None else labels

    def label(self, v: int, x: int) -> str:
        """Label of state ``x`` of variable ``v``."""
        labels = None if self.labels is None else self.labels[v]
        return str(x) if labels is None else labels[x]

    def variable(self, v: int) -> Variable:
        """The variable as an object."""
        return Variable(self.name(v), self.states(v))

    def index(self, ref: object) -> int:
        """Resolve a variable: a str is a name, an int an index."""
        if isinstance(ref, Variable):
            ref = ref.name
        if isinstance(ref, str):
            return self._by_name(ref)
        v = as_index(ref)
        if v is None:
            raise ModelError(f"a variable is addressed by name (str) or index (int), found {ref!r}")
        if not 0 <= v < len(self.card):
            raise ModelError(f"no variable {v}: the model has variables 0..{len(self.card) - 1}")
        return v

    def indices(self, refs: Any, what: str) -> list[int]:
        """Resolve a list of variables; a single one is refused, for a name is a list of letters."""
        if isinstance(refs, str) or not isinstance(refs, Iterable):
            hint = f"; write [{refs!r}]" if isinstance(refs, str) else ""
            raise ModelError(f"{what} must be a list of variables, found {refs!r}{hint}")
        return [self.index(ref) for ref in refs]

    def has(self, name: str) -> bool:
        """Whether a variable has this name."""
        return self._found(name) >= 0

    def _found(self, name: str) -> int:
        """Return the index of a name, -1 if there is none."""
        if self.names is not None:
            found = self._position.get(name, -1)
        else:
            digits = name[1:]
            short = len(digits) < 20 and digits.isdecimal() and digits.isascii()
            found = int(digits) if name[:1] == "x" and short else -1
            if found >= len(self.card) or (found >= 0 and name != f"x{found}"):
                found = -1
        return found

    def _by_name(self, name: str) -> int:
        found = self._found(name)
        if found < 0:
            plain = f" (variables have no names: x0 to x{len(self.card) - 1})" if self.names is None else ""
            raise ModelError(f"no variable {name!r}{suggestion(name, self.names or ())}{plain}")
        return found

    def state(self, v: int, ref: object) -> int:
        """Resolve a state of variable ``v``: a str is a label, an int an index."""
        labels = None if self.labels is None else self.labels[v]
        return state_index(self.name(v), labels, int(self.card[v]), ref)

    def in_order(self, v: int, values: Any) -> Any:
        """Return numbers by state, ``{"yes": .7, "no": .3}``, in the order of the states; other values as they are."""
        if not isinstance(values, Mapping):
            return values
        numbers: dict[int, Any] = {}
        for ref, number in values.items():
            x = self.state(v, ref)
            if x in numbers:
                raise ModelError(f"likelihood of {self.name(v)!r} gives two numbers for the state {self.label(v, x)!r}")
            numbers[x] = number
        for x in range(int(self.card[v])):
            if x not in numbers:
                raise ModelError(f"likelihood of {self.name(v)!r} gives no number for the state {self.label(v, x)!r}")
        return [numbers[x] for x in range(int(self.card[v]))]

    def evidence(self, evidence: Any) -> dict[int, int]:
        """Resolve ``{variable: state}`` (or a pandas row); missing values are skipped, contradictions raise."""
        rows = hasattr(evidence, "columns")
        if rows or not hasattr(evidence, "items"):
            rows = rows or isinstance(evidence, list | tuple | np.ndarray)
            hint = "infer_many takes rows of evidence" if rows else 'write {"variable": "state"}'
            if hasattr(evidence, "assignment") and hasattr(evidence, "states"):  # the best state that somebody found
                hint = "give its states()"
            raise ModelError(f"evidence must map variables to states, found {type(evidence).__name__}; {hint}")
        found: dict[int, int] = {}
        for ref, value in evidence.items():
            if _missing(value):
                continue
            v = self.index(ref)
            x = self.state(v, value)
            if found.setdefault(v, x) != x:
                raise ModelError(f"evidence gives two states for variable {self.name(v)!r}")
        return found

    def observed(self, states: Ints, evidence: Any) -> Ints:
        """Return the states of all variables ``(n_vars,)``, -1 where not observed, with more evidence among them."""
        now = states.copy()
        for v, x in self.evidence(evidence).items():
            if now[v] not in (-1, x):
                name, old, new = self.name(v), self.label(v, int(now[v])), self.label(v, x)
                raise ModelError(f"variable {name!r} is already observed as {old!r}, and cannot become {new!r}")
            now[v] = x
        return now


def _missing(value: Any) -> bool:
    """Whether a value stands for no observation: None, nan, or pandas' NA, which is neither equal nor unequal."""
    if value is None or isinstance(value, str):
        return value is None
    try:
        return bool(value != value)
    except TypeError:
        return True
    except ValueError:  # an array: let the state's own check refuse it
        return False


def _check_names(names: tuple[str, ...], n_vars: int) -> None:
    if len(names) != n_vars:
        raise ModelError(f"expected {n_vars} names, found {len(names)}")
    wrong = [name for name in names if not isinstance(name, str) or not name]
    if wrong:
        raise ModelError(f"a variable's name must be a non-empty string, found {wrong[0]!r}")
    if len(set(names)) < n_vars:
        seen: set[str] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ModelError(f"two variables have the name {twice!r}")


def checked_pairs(given: Iterable[tuple[Any, Any]], names: Sequence[str] | None) -> list[tuple[Any, Any]]:
    """Return ``(scope, table)`` pairs as a list; names in a scope become indices."""
    pairs: list[tuple[Any, Any]] = []
    position = {name: v for v, name in enumerate(names or ())}
    for f, (scope, table) in enumerate(given):
        for v in scope:
            if isinstance(v, str) and v not in position:
                hint = suggestion(v, position) or "; give names=[...]" * (not position)
                raise ModelError(f"the scope of factor {f} names {v!r}, which is no variable{hint}")
        pairs.append((tuple(position[v] if isinstance(v, str) else v for v in scope), table))
    return pairs
