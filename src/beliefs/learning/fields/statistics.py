"""What a field is fitted to: its factors' scopes, and how often the rows take each cell of their tables.

Rows enter as sufficient statistics, so that an iteration costs the same for a thousand rows and for a million; only
rows with missing cells are looked at again, by the sweep of :mod:`beliefs.inference.rows.sweep`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.rows.sweep import RowSweep
from beliefs.learning.data import Data
from beliefs.learning.networks.structure import Structure
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.model.layout import Layout
from beliefs.model.naming import Naming
from beliefs.options import shown
from beliefs.typing import Floats, Ints

__all__ = ["FieldRows", "field_over", "given_field", "marginal_statistics", "n_free"]

_SUBSETS = 16  # variables of a scope up to which interactions are counted


class FieldRows(Data):
    """Relative frequencies of all cells ``(n_cells,)``, and the rows with missing cells, if there are any."""

    def __init__(self, frequencies: Floats, total: float, sweep: RowSweep | None, marks: Mapping[str, str]) -> None:
        self.frequencies, self.total, self.sweep, self.marks = frequencies, total, sweep, dict(marks)

    def __len__(self) -> int:
        return 1

    @property
    def n_labelled(self) -> float:
        """The weight of all rows."""
        return self.total

    def take(self, numbers: Ints) -> FieldRows:
        """Refuse: statistics have no parts."""
        raise ModelError("rows enter as statistics; there are no mini-batches of them")

    def fingerprint(self) -> dict[str, str]:
        """Return what a checkpoint knows the rows by."""
        return self.marks


def given_field(structure: Any) -> FactorGraph | None:
    """Return the graph of a model that is given as a structure, or None."""
    if isinstance(structure, FactorGraph | BayesianNetwork) or isinstance(structure, Model):
        return as_factor_graph(structure) if not isinstance(structure, type) else None
    return None


def field_over(structure: Any, naming: Naming) -> Structure:
    """Return the field over these variables with the scopes of a list, or of the families of arcs' ends."""
    if isinstance(structure, str) or not isinstance(structure, Iterable):
        raise ModelError(f"structure must be a model, scopes, or the name of a search, found {shown(structure)}")
    scopes: list[list[int]] = []
    for scope in structure:
        if isinstance(scope, str) or not isinstance(scope, Sequence) or not scope:
            raise ModelError(f"a scope is a sequence of variables, found {shown(scope)}")
        scopes.append([naming.index(ref) for ref in scope])
    alone = set(range(naming.card.size)) - {v for scope in scopes for v in scope}
    scopes += [[v] for v in sorted(alone)]
    ends = np.cumsum([len(scope) for scope in scopes], dtype=np.int64)
    flat = np.array([v for scope in scopes for v in scope], np.int64)
    return Structure(naming, Layout.build(naming.card, np.concatenate([[0], ends]), flat))


def marginal_statistics(structure: Structure, marginals: Mapping[Any, Any]) -> Floats:
    """Return given marginals as frequencies of all cells; they must be distributions that agree with each other."""
    layout, naming = structure.layout, structure.naming
    found = np.full(layout.n_cells, np.nan)
    single: dict[int, Floats] = {}
    scopes = {tuple(layout.scope(f).tolist()): f for f in range(layout.n_factors)}
    for scope, table in marginals.items():
        refs = (scope,) if isinstance(scope, str | int) else tuple(scope)
        key = tuple(naming.index(ref) for ref in refs)
        numbers = np.asarray(table, np.float64)
        if key not in scopes or numbers.shape != layout.shape(scopes[key]):
            raise ModelError(f"no factor has the scope and shape of the marginal of {shown(scope)}")
        if not (np.isfinite(numbers) & (numbers >= 0)).all() or abs(numbers.sum() - 1.0) > 1e-8:
            raise ModelError(f"the marginal of {shown(scope)} must be probabilities that sum to 1")
        for axis, v in enumerate(key):
            alone = numbers.sum(axis=tuple(k for k in range(numbers.ndim) if k != axis))
            if np.abs(single.setdefault(v, alone) - alone).max() > 1e-8:
                raise ModelError(f"two marginals disagree about {naming.name(v)!r}")
        found[layout.cells(scopes[key])] = numbers.ravel()
    if np.isnan(found).any():
        f = next(f for f in range(layout.n_factors) if np.isnan(found[layout.cells(f)]).any())
        names = ", ".join(naming.name(int(v)) for v in layout.scope(f))
        raise ModelError(f"the marginal of ({names}) is missing")
    return found


def n_free(layout: Layout) -> int:
    """Return the free numbers of the log-linear model with these scopes; the cells where it cannot be counted."""
    if layout.tied or layout.arity.max(initial=0) > _SUBSETS:
        return layout.n_cells
    parts: set[tuple[int, ...]] = set()
    for f in range(layout.n_factors):
        scope = sorted(layout.scope(f).tolist())
        parts |= {part for k in range(1, len(scope) + 1) for part in combinations(scope, k)}
    return int(sum(np.prod(layout.card[list(part)] - 1) for part in parts))


@dataclass(frozen=True, eq=False)
class Cell:
    """A cell of a factor, as messages name it."""

    structure: Structure
    number: int

    def __str__(self) -> str:
        layout, naming = self.structure.layout, self.structure.naming
        f = int(np.searchsorted(layout.table_ptr, self.number, side="right")) - 1
        states = np.unravel_index(self.number - int(layout.table_ptr[f]), layout.shape(f))
        pairs = zip(layout.scope(f).tolist(), states, strict=True)
        return ", ".join(f"{naming.name(v)}={naming.label(v, int(x))}" for v, x in pairs)
