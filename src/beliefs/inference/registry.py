"""METHODS, the written list of all methods, and the table of what each can do, promise and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from beliefs.display.description import Described, Description
from beliefs.errors import ModelError
from beliefs.inference.base import Bound, Method, Task
from beliefs.inference.boltzmann.ais import AIS
from beliefs.inference.buckets.mini_bucket import MiniBucket
from beliefs.inference.buckets.wmb import WMB
from beliefs.inference.dual.gdd import GDD
from beliefs.inference.exact.elimination import Elimination
from beliefs.inference.exact.enumeration import Enumeration
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.messages.bp import BP
from beliefs.inference.messages.fractional import FractionalBP
from beliefs.inference.messages.trw import TRW
from beliefs.inference.regions.convex import ConvexGBP
from beliefs.inference.regions.double_loop import DoubleLoop
from beliefs.inference.regions.gbp import GBP
from beliefs.inference.regions.ijgp import IJGP
from beliefs.inference.sampling.gibbs import Gibbs
from beliefs.inference.sampling.likelihood_weighting import LikelihoodWeighting
from beliefs.inference.search.local_search import LocalSearch
from beliefs.inference.variational.mean_field import MeanField

__all__ = ["METHODS", "MethodTable", "methods"]

_HEADER = ("method", "answers", "guarantee", "cost", "reference")

METHODS: tuple[type[Method], ...] = (
    Enumeration, Elimination, JunctionTree, BP, TRW, FractionalBP, IJGP, GBP, DoubleLoop, ConvexGBP, MeanField,
    MiniBucket, WMB, GDD, LocalSearch, Gibbs, LikelihoodWeighting,
    AIS,
)  # fmt: skip


@dataclass(frozen=True)
class MethodTable(Described, Sequence[type[Method]]):
    """A selection of methods that prints as a table."""

    rows: tuple[type[Method], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        """Return the method class at an index."""
        return self.rows[index]

    def cells(self) -> list[tuple[str, str, str, str, str]]:
        """Return the rows as text: name, tasks, guarantee, cost, reference."""
        return [(m.name, ", ".join(t.value for t in m.tasks), str(m.guarantee), m.cost, m.reference) for m in self.rows]

    def markdown(self) -> str:
        """Return the table as Markdown; the README holds it between two marks, and a test keeps it current."""
        lines = [_HEADER, ("---",) * 5, *((f"`{name}`", *rest) for name, *rest in self.cells())]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def _description(self) -> Description:
        rows = [(name, tasks, words, cost, source) for name, tasks, words, cost, source in self.cells()]
        return Description("Methods", (), "", _HEADER, rows, len(rows))

    def __repr__(self) -> str:
        lines = [_HEADER, *self.cells()]
        widths = [max(len(line[k]) for line in lines) for k in range(5)]
        return "\n".join(
            "  ".join(word.ljust(w) for word, w in zip(line, widths, strict=True)).rstrip() for line in lines
        )


def methods(task: str | None = None, guarantee: str | None = None) -> MethodTable:
    """Return the methods that answer ``task`` and whose guarantee can give ``guarantee`` (``"exact"``, ``"upper"``).

    Examples
    --------
    >>> [m.name for m in methods(task="sample")]
    ['enumeration', 'junction_tree', 'gibbs']
    """
    known = [t.value for t in Task]
    if task is not None and task not in known:
        raise ModelError(f"no task {task!r}; tasks are {', '.join(known)}")
    bounds = [b.name.lower() for b in Bound]
    if guarantee is not None and guarantee.lower() not in bounds:
        raise ModelError(f"no guarantee {guarantee!r}; guarantees are {', '.join(bounds)}")
    chosen = [m for m in METHODS if task is None or Task(task) in m.tasks]
    return MethodTable(tuple(m for m in chosen if guarantee is None or m.guarantee.gives(Bound[guarantee.upper()])))
