"""Labelled data as a fit handles it, whatever its form: how many examples and labels, parts of it, a fingerprint.

===========================  =========================================================================================
a list of instances          parts are lists; mini-batches are drawn from it
:class:`Data`                arrays with any number of examples, never one object an example; likewise
:class:`InParts`             instances in parts that are loaded one by one and not kept; batches are drawn
any other iterable           read from its beginning, pass after pass
an iterator                  read once
===========================  =========================================================================================

A loss says which of them it evaluates; optimisers, validation and checkpoints ask here and serve all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from beliefs.inference.engine import engine_around
from beliefs.learning.instances import Instance
from beliefs.typing import Ints

__all__ = [
    "Data", "InParts", "LabelledData", "can_choose", "chosen", "first_ones", "hand_out", "mean_labels", "n_labels",
    "read_once",
]  # fmt: skip


class Data(ABC):
    """Labelled examples as arrays: rows of a table, samples of a layer; examples are numbered from 0."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of examples."""

    @property
    @abstractmethod
    def n_labelled(self) -> float:
        """The labelled variables of all examples, weighted as the loss weights them."""

    @abstractmethod
    def take(self, numbers: Ints) -> Data:
        """Return the examples with these numbers, in this order."""

    def of_pass(self, n_pass: int) -> Data:
        """Return the examples as one pass over them sees them; most are the same in all."""
        return self

    @abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """Return sizes and checksums, by which a checkpoint knows its data."""


class InParts(ABC):
    """Instances in parts that can be loaded in any order and are not kept: files, partitions of a collection.

    A pass of mini-batches goes through the parts in an order drawn anew, and through each in such an order: every part
    is loaded once. Parts of one instance come in the very order in which a list is drawn from.
    """

    @property
    @abstractmethod
    def sizes(self) -> Sequence[int]:
        """How many instances each part has."""

    @abstractmethod
    def part(self, number: int) -> list[Instance]:
        """Load a part."""

    def __len__(self) -> int:
        return sum(self.sizes)

    def __iter__(self) -> Iterator[Instance]:
        return (instance for k in range(len(self.sizes)) for instance in self.part(k))


LabelledData: TypeAlias = Data | Iterable[Instance]


def can_choose(data: Any) -> bool:
    """Whether parts of the data can be taken in any order, and its length is known."""
    return isinstance(data, list | tuple | Data)


def chosen(data: Any, numbers: Ints) -> Any:
    """Return the examples with these numbers: of a list a list, of :class:`Data` such."""
    return data.take(numbers) if isinstance(data, Data) else [data[k] for k in numbers]


def n_labels(data: Any) -> float:
    """Return the labelled variables of some examples, weighted as the loss weights them."""
    if isinstance(data, Data):
        return float(data.n_labelled)
    return float(sum(getattr(i, "weight", 1.0) * getattr(i, "n_labelled", 1) for i in data))


def mean_labels(data: Any) -> float | None:
    """Return the labelled variables an example, weighted; None where only reading all of them would tell.

    Data that was read once, such as what estimators have checked, knows its ``n_labelled``.
    """
    total = n_labels(data) if can_choose(data) else getattr(data, "n_labelled", None)
    return None if total is None or not len(data) else total / len(data)


def read_once(data: Any) -> bool:
    """Whether the data can be gone through only once, as a generator can."""
    return isinstance(data, Iterator)


def hand_out(data: Any) -> None:
    """Let the processes that a fit is engaged with, if any, hold the instances; mini-batches are then parts of them."""
    engine = engine_around()
    if engine is not None and isinstance(data, list | tuple) and all(isinstance(i, Instance) for i in data):
        engine.hold(data, [int(instance.layout.table_ptr[-1]) for instance in data])


def first_ones(data: Any, n: int) -> Any:
    """Return the first ``n`` examples."""
    return chosen(data, np.arange(min(n, len(data))))
