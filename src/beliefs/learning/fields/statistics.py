"""What a field is fitted to: its factors' scopes, and how often the rows take each cell of their tables.

Rows enter as sufficient statistics, so that an iteration costs the same for a thousand rows and for a million; only
rows with missing cells are looked at again, by the sweep of :mod:`beliefs.inference.rows.sweep`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.rows.sweep import RowSweep
from beliefs.learning.data import Data
from beliefs.learning.fields.blankets import Blanket, BlanketCounts, Conditionals
from beliefs.learning.fields.matrices import PairMatrices
from beliefs.learning.networks.structure import Structure
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.model.layout import Layout
from beliefs.model.naming import Naming
from beliefs.model.rows.table import RowTable
from beliefs.options import is_iterable, shown
from beliefs.typing import Floats, Ints

__all__ = ["Cell", "FieldRows", "conditionals_of", "field_over", "given_field", "marginal_statistics", "n_free"]

_LOOKUP = 0.05  # of the cost of a table's cell that an entry of a matrix product has
_SUBSETS = 16  # variables of a scope up to which interactions are counted


class FieldRows(Data):
    """Relative frequencies of all cells ``(n_cells,)``, and rows where a loss needs them.

    Parameters
    ----------
    frequencies : ndarray (n_cells,)
        Of the factors that rows observe whole; cells of tied tables hold sums.
    total : float
        The weight of all rows, imaginary ones included.
    sweep : RowSweep or None
        The rows with missing cells, if there are any.
    marks : mapping
        What a checkpoint knows the rows by.
    table : RowTable or None
        All rows, for losses that statistics are not enough for.
    n_real : float
        The weight of all rows but imaginary ones.
    """

    def __init__(
        self,
        frequencies: Floats,
        total: float,
        sweep: RowSweep | None,
        marks: Mapping[str, str],
        table: RowTable | None = None,
        n_real: float = 0.0,
    ) -> None:
        self.frequencies, self.total, self.sweep, self.marks = frequencies, total, sweep, dict(marks)
        self.table, self.n_real = table, n_real
        self._conditionals: Conditionals | None = None

    def __len__(self) -> int:
        return 1

    @property
    def n_labelled(self) -> float:
        """All rows together are one: losses are means over rows."""
        return 1.0

    @property
    def n_rows(self) -> float:
        """The weight of the rows in the table."""
        return self.rows.total

    @property
    def has_hidden(self) -> bool:
        """Whether some variable is never seen."""
        if self.sweep is None or self.sweep.table.total < self.n_real:
            return False
        return bool((self.sweep.table.n_missing == self.sweep.table.n_rows).any())

    @property
    def rows(self) -> RowTable:
        """The rows; refused where only statistics are there."""
        if self.table is None:
            raise ModelError("there are no rows, only statistics; use method='ipf' or 'likelihood'")
        return self.table

    def conditionals(self, layout: Layout) -> Conditionals:
        """Return complete rows as losses over one variable at a time see them, kept for the next time."""
        if self._conditionals is None:
            self._conditionals = conditionals_of(layout, self.rows)
        return self._conditionals

    def take(self, numbers: Ints) -> FieldRows:
        """Return all: statistics have no parts."""
        return self

    def fingerprint(self) -> dict[str, str]:
        """Return what a checkpoint knows the rows by."""
        return self.marks


def conditionals_of(layout: Layout, table: RowTable) -> Conditionals:
    """Return complete rows by blankets, or as matrices where a pairwise field has nearly as many blankets as rows."""
    if layout.arity.max(initial=0) <= 2:
        blankets = [Blanket.of(layout, v) for v in range(layout.n_vars)]
        lookups = sum(min(b.n_joint, table.n_rows) * b.card * b.partial.size for b in blankets)
        if lookups > _LOOKUP * table.n_rows * float((layout.card - 1).sum()) ** 2:
            return PairMatrices(layout, table)
    return BlanketCounts(layout, table)


def given_field(structure: Any) -> FactorGraph | None:
    """Return the graph of a model that is given as a structure, or None."""
    if isinstance(structure, FactorGraph | BayesianNetwork) or isinstance(structure, Model):
        return as_factor_graph(structure) if not isinstance(structure, type) else None
    return None


def field_over(structure: Any, naming: Naming) -> Structure:
    """Return the field over these variables with the scopes of a list, or of the families of arcs' ends."""
    if isinstance(structure, str) or not is_iterable(structure):
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
