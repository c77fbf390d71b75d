"""Many small instances evaluated as one: their disjoint union.

An evaluation of one instance costs about a millisecond of interpreter, however small its graph. The loss of a disjoint
union is the sum of its parts' losses wherever inference treats a union as its parts, so small instances are joined up
to a size at which that millisecond no longer counts.

=====================  =============================================================================================
a number of sweeps     each part's messages are those that it would have alone, in the same order; to the last byte
                       where both are held in the same form, else to rounding
exact inference        to rounding
until convergence      all parts go on until the last has converged: to the tolerance of inference
=====================  =============================================================================================

Parts keep their own counting numbers (those of a union as a whole might be others) and are joined only with parts whose
messages take the same schedule. What is joined with what depends on the instances and their order alone, never on
threads. A union that fails, does not converge or gives some part a probability above one is evaluated again half by
half, until the part is found: flags and errors are those of single instances. For some time it is then left apart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from beliefs.inference.base import Method, Unions
from beliefs.inference.messages.schedule import is_forest
from beliefs.learning.instances import Instance
from beliefs.model.features import LogLinearTemplate, Rows
from beliefs.model.layout import Layout
from beliefs.typing import Floats, Ints

__all__ = ["Joined", "Joiner", "common_tol", "part_by_part"]

_CELLS = 2**14  # of a union: a sweep then takes about as long as starting it; below the size that sweeps cut in strips
_FEATURES = 2**17  # numbers, copied for a union
_SMALL = 8  # instances that fit into a union at least, else each stays alone
_LONGEST = 64  # evaluations for which a union that has failed is left apart
_SHARPER = 0.01
_LEAST_TOL = 1e-13
_OPEN = 64  # unions being filled at a time

Size: TypeAlias = tuple[int, int] | None
"""The cells and features of an instance to be joined with others; None where it stays alone."""


@dataclass(eq=False)
class Attempts:
    """How a union has fared: failures so far, evaluations for which its halves are taken, and these."""

    failures: int = 0
    apart: int = 0
    halves: list[Instance] | None = None


@dataclass(frozen=True, eq=False)
class Joined(Instance):
    """Instances side by side: variables, factors and labels one after the other, cells in the template's order."""

    parts: tuple[Instance, ...] = ()
    attempts: Attempts = field(default_factory=Attempts, init=False, repr=False)

    @property
    def n_counted(self) -> float:
        """The labelled variables, weighted like their instances."""
        return float(sum(part.n_counted for part in self.parts))

    @property
    def n_parts(self) -> int:
        """How many instances it stands for."""
        return len(self.parts)

    @cached_property
    def first_vars(self) -> Ints:
        """Where the variables of each part begin, and end, ``(n_parts + 1,)``."""
        return _starts([part.layout.n_vars for part in self.parts])

    @cached_property
    def _owners(self) -> tuple[Ints, Ints]:
        """The part of each factor and of each variable."""
        numbers = np.arange(self.n_parts)
        factors = [part.layout.n_factors for part in self.parts]
        return np.repeat(numbers, factors), np.repeat(numbers, np.diff(self.first_vars))

    def is_apart(self) -> bool:
        """Whether its halves are to be evaluated, one by one, this time: it has failed not long ago."""
        left = self.attempts.apart
        self.attempts.apart = max(left - 1, 0)
        return left > 0

    def leave_apart(self) -> None:
        """Take note of a failure: the more there were, the longer it is before all are tried together again."""
        self.attempts.failures += 1
        self.attempts.apart = min(2**self.attempts.failures, _LONGEST)

    def by_part(self, of_factors: Floats, of_vars: Floats | None = None) -> Floats:
        """Return the sum of terms, those of factors and of variables, of each part."""
        sums = np.zeros(self.n_parts)
        sums += np.bincount(self._owners[0], of_factors, self.n_parts)
        if of_vars is not None:
            sums += np.bincount(self._owners[1], of_vars, self.n_parts)
        return sums

    def divided(self, mu_var: Floats) -> list[Floats]:
        """Return the states of each part, views of an array ``(n_states,)`` of the union."""
        return np.split(mu_var, self.layout.state_ptr[self.first_vars[1:-1]])


class Joiner:
    """Joins small instances for one loss.

    Parameters
    ----------
    methods : tuple of Method
        The inference that is run on the unions.
    clamps : bool
        Whether it is also run with the labels as evidence.
    by_variable : bool
        Whether weights of instances may become weights of labels; else only equal ones are joined.
    check : callable
        Raises for an instance that the loss cannot serve.
    """

    def __init__(
        self,
        template: LogLinearTemplate,
        methods: tuple[Method, ...],
        clamps: bool,
        by_variable: bool,
        check: Callable[[Instance], None],
    ) -> None:
        self.template, self.methods, self.clamps, self.by_variable = template, methods, clamps, by_variable
        self.check = check

    @classmethod
    def of(cls, loss: Any) -> Joiner | None:
        """Return what joins instances for a loss; None if its value on a union is not the sum over the parts."""
        methods, template = loss.runs, loss.template
        if methods is None or not isinstance(template, LogLinearTemplate) or not part_by_part(methods):
            return None
        return cls(template, methods, loss.clamps, loss.by_variable, loss.check)

    def units(self, instances: Iterable[Instance]) -> Iterator[Instance]:
        """Yield the instances, small ones joined with others of their kind as they come."""
        return self.sized_units((instance, self.size(instance)) for instance in instances)

    def sized_units(self, sized: Iterable[tuple[Instance, Size]]) -> Iterator[Instance]:
        """Yield the same of instances whose sizes are known."""
        bins: dict[Hashable, _Bin] = {}
        for instance, size in sized:
            if size is None:
                yield instance
                continue
            self.check(instance)
            kind, (cells, features) = self._kind(instance), size
            found = bins.setdefault(kind, _Bin())
            if found.parts and (found.cells + cells > _CELLS or found.features + features > _FEATURES):
                yield self.join(found.parts)
                found = bins[kind] = _Bin()
            found.add(instance, cells, features)
            if len(bins) > _OPEN:
                yield self.join(bins.pop(next(iter(bins))).parts)
        for found in bins.values():
            yield self.join(found.parts)

    def join(self, parts: Sequence[Instance]) -> Instance:
        """Return the union; a single part stays as it is."""
        if len(parts) == 1:
            return parts[0]
        inputs = self.template.joined([part.inputs for part in parts])
        weights, label_weights = [part.weight for part in parts], None
        alike = min(weights) == max(weights)
        if not alike or any(part.label_weights is not None for part in parts):
            label_weights = np.concatenate([_label_weights(part, 1.0 if alike else part.weight) for part in parts])
        labels = np.concatenate([part.labels for part in parts])
        name = f"{parts[0].name} to {parts[-1].name}"
        layout = _joined_layout(self.template, parts)
        costs = None
        if parts[0].costs is not None:
            costs = np.concatenate([part.costs for part in parts if part.costs is not None])
        weight = weights[0] if alike else 1.0
        union = Joined(layout, inputs, labels, weight, label_weights, name, costs, tuple(parts))
        self._share_plans(union)
        return union

    def halves(self, union: Joined) -> list[Instance]:
        """Return a union as two, which are kept with it."""
        if union.attempts.halves is None:
            middle = union.n_parts // 2
            union.attempts.halves = [self.join(union.parts[:middle]), self.join(union.parts[middle:])]
        return union.attempts.halves

    def size(self, instance: Instance) -> Size:
        """Return the cells and features of an instance to be joined; None: too large, or too special."""
        lay = instance.layout
        cells = int(lay.table_ptr[-1])
        if _SMALL * cells > _CELLS or isinstance(instance, Joined):
            return None
        if lay.n_cells != self.template.n_cells(instance.inputs):
            return None
        features = _n_features(instance.inputs)
        return (cells, features) if _SMALL * features <= _FEATURES else None

    def _kind(self, instance: Instance) -> Hashable:
        """Return what instances must have in common to be joined."""
        tied = tuple([rows.tied for rows in instance.inputs if rows.n_factors])
        weight = None if self.by_variable else instance.weight
        clamps = self._clamps(instance)
        clamped = clamps and is_forest(instance.clamped_layout)
        return tied, instance.layout.plan(_structure), weight, clamps, clamped, instance.costs is not None

    def _clamps(self, instance: Instance) -> bool:
        """Whether inference is run with some variables observed."""
        return self.clamps and bool(self.methods) and instance.n_labelled < instance.labels.size

    def _share_plans(self, union: Joined) -> None:
        """Let the union have what its parts have, where that is chosen by structure."""
        for method in self.methods:
            method.share_plans(union.layout, [part.layout for part in union.parts])
            if self._clamps(union):
                method.share_plans(union.clamped_layout, [part.clamped_layout for part in union.parts])


def common_tol(tol: float, n_parts: int) -> float:
    """Return the tolerance of inference on a union: two digits more than alone.

    Alone every instance stops just within its tolerance, so that errors of the value are much the same from one
    evaluation to the next. Parts of a union stop together, some with far smaller errors than others, and line searches
    stumble over errors that jump.
    """
    return tol if n_parts == 1 else min(tol, max(_SHARPER * tol, _LEAST_TOL))


def part_by_part(methods: Sequence[Method]) -> bool:
    """Whether these methods answer for a disjoint union as for its parts, and say what the answer is worth for each."""
    return {method.on_unions for method in methods} in (set(), {Unions.SUM}, {Unions.PARTS})


class _Bin:
    """Instances that will be joined."""

    def __init__(self) -> None:
        self.parts: list[Instance] = []
        self.cells = self.features = 0

    def add(self, instance: Instance, cells: int, features: int) -> None:
        """Take one more."""
        self.parts.append(instance)
        self.cells += cells
        self.features += features


def _n_features(inputs: Any) -> int:
    """Return how many numbers the features are; more than any union holds where that is not known."""
    if not isinstance(inputs, tuple | list):
        return _FEATURES
    total = 0
    for rows in inputs:
        size = rows.size if isinstance(rows, Rows) else None
        total += _FEATURES if size is None else size
    return total


def _structure(layout: Layout) -> Hashable:
    """Return what decides about the schedule and the form of messages."""
    card = layout.card
    states = (int(card.min()), int(card.max())) if card.size else (0, 0)
    return states, layout.is_pairwise, is_forest(layout)


def _label_weights(part: Instance, weight: float) -> Floats:
    given = part.label_weights
    return np.full(part.labels.size, weight) if given is None else weight * given


def _starts(sizes: Sequence[int]) -> Ints:
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def _joined_layout(template: LogLinearTemplate, parts: Sequence[Instance]) -> Layout:
    """Return the layout of the union, kept where all parts have the same."""
    first = parts[0].layout
    counts = template.cell_counts([part.inputs for part in parts])
    if all(part.layout is first for part in parts) and (counts == counts[0]).all():
        tied = tuple(rows.tied for rows in parts[0].inputs)
        return first.keep((_union, len(parts), counts[0].tobytes(), tied), lambda: _union(template, parts, counts))
    return _union(template, parts, counts)


def _union(template: LogLinearTemplate, parts: Sequence[Instance], counts: Ints) -> Layout:
    layouts = [part.layout for part in parts]
    vars_at, edges_at = (_starts([getattr(lay, name) for lay in layouts])[:-1] for name in ("n_vars", "n_edges"))
    scope_ptr = [lay.scope_ptr[:-1] + at for lay, at in zip(layouts, edges_at, strict=True)]
    n_edges = sum(lay.n_edges for lay in layouts)
    shift, ends = template.cell_shifts([part.inputs for part in parts], counts), np.cumsum(counts.ravel())
    first = np.repeat(_starts([lay.n_cells for lay in layouts])[:-1], [lay.n_factors for lay in layouts])
    cell_ptr = np.concatenate([lay.cell_ptr for lay in layouts])
    piece = np.searchsorted(ends, cell_ptr + first, side="right")  # which type of which part
    return Layout.build(
        np.concatenate([lay.card for lay in layouts]),
        np.concatenate([*scope_ptr, [n_edges]]),
        np.concatenate([lay.scope_vars + at for lay, at in zip(layouts, vars_at, strict=True)]),
        cell_ptr + shift.ravel()[piece],
        np.concatenate([lay.observed for lay in layouts]),
    )
