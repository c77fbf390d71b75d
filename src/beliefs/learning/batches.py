r"""What a fit minimises: a loss summed over batches of labelled data, per labelled variable, and a ridge.

.. math:: R(w) = \frac{1}{n} \sum_b L_b(w) + \lambda \lVert w \rVert^2

with n the number of labelled variables, weighted as the loss weights them, so that the ridge is measured against the
risk per variable ([domke2013] section 8). A :class:`Batch` is data laid out for one loss: it cuts itself into units of
work, has them evaluated side by side, and adds them up in their order. Lists of instances
(:mod:`beliefs.learning.instance_batch`) and unions of chains (:mod:`beliefs.learning.chains.batch`) are such; a table
of rows is another, with slices of its arrays as units. The sum, the ridge and the flags are said here once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.base import Bound
from beliefs.inference.engine import engine_around
from beliefs.learning.fit_loss import Evaluation, FitLoss
from beliefs.learning.parallel import Executor, Threads, executor_of
from beliefs.options import MANY, Suggesting, check_integer, check_number, check_option
from beliefs.typing import Floats

__all__ = ["Batch", "BatchLoss", "RecentBatches", "Share", "Total"]

_LARGEST_RIDGE = 1e15  # beside more, rounding hides the losses, and its gradients soon leave the range of numbers
_RECENT = 4  # lists: those of training, of validation, and room for others


@dataclass(frozen=True, eq=False)
class Share:
    """What one unit of work adds: loss and gradient in the weights, as they count in the sum, labels and flags."""

    value: float
    grad: Floats
    n_labelled: float
    n_instances: int = 1
    n_diverged: int = 0
    n_not_converged: int = 0
    bound: Bound | None = None
    upper: float = np.inf
    minorant: bool = False
    delta: float = 0.0


@dataclass(eq=False)
class Total:
    """The sum over batches, under way; a batch adds shares, or adds to the fields itself.

    ``overflowed``: potentials have left the range of numbers, so that the loss is infinite and has no gradient.
    """

    grad: Floats
    value: float = 0.0
    n_labelled: float = 0.0
    n_instances: int = 0
    n_diverged: int = 0
    n_not_converged: int = 0
    bounds: set[Bound | None] = field(default_factory=set)
    upper: float = 0.0
    minorant: bool = True
    delta: float = 0.0
    overflowed: bool = False

    def add(self, share: Share) -> None:
        """Add what a unit of work has found."""
        self.value += share.value
        self.grad += share.grad
        self.n_labelled += share.n_labelled
        self.n_instances += share.n_instances
        self.n_diverged += share.n_diverged
        self.n_not_converged += share.n_not_converged
        self.bounds.add(share.bound)
        self.upper += share.upper
        self.minorant &= share.minorant
        self.delta += share.delta

    def plus(self, other: Total) -> Total:
        """Return the sum of both."""
        return Total(
            self.grad + other.grad, self.value + other.value, self.n_labelled + other.n_labelled,
            self.n_instances + other.n_instances, self.n_diverged + other.n_diverged,
            self.n_not_converged + other.n_not_converged, self.bounds | other.bounds, self.upper + other.upper,
            self.minorant and other.minorant, self.delta + other.delta, self.overflowed or other.overflowed,
        )  # fmt: skip

    def evaluation(self, weights: Floats, l2: float) -> Evaluation:
        """Return the loss per labelled variable with its ridge."""
        if not self.n_labelled > 0:
            raise ModelError("no variable of any instance has a label; a loss needs labels to compare with")
        value, upper, grad, risk, risk_grad = np.inf, np.inf, np.zeros(weights.size), np.inf, None
        if not self.overflowed:
            ridge, risk = l2 * float(weights @ weights), self.value / self.n_labelled
            value, upper = risk + ridge, self.upper / self.n_labelled + ridge
            risk_grad = self.grad / self.n_labelled
            grad = risk_grad + 2.0 * l2 * weights
        return Evaluation(
            value, grad, self.n_instances, self.n_diverged, self.n_not_converged, _common(self.bounds),
            upper, self.minorant and not self.overflowed, self.delta / self.n_labelled, risk, risk_grad,
        )  # fmt: skip


def _common(bounds: set[Bound | None]) -> Bound | None:
    """Return what a sum is when its terms are these."""
    if None in bounds:
        return None
    inexact = bounds - {Bound.EXACT}
    if not inexact:
        return Bound.EXACT
    return inexact.pop() if len(inexact) == 1 else Bound.ESTIMATE


class Batch(ABC):
    """Labelled data laid out for one loss, to be evaluated at any weights."""

    @abstractmethod
    def add_to(self, total: Total, weights: Floats, executor: Executor) -> None:
        """Evaluate all units of work and add them up: the same bytes for any executor."""


class RecentBatches:
    """What was laid out for the lists of the last evaluations; the next one on the same list finds it again.

    A list is known by its identity and by what was in it then. A copy begins without any.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[object, tuple[Any, ...], Sequence[Batch]]] = []

    def of(self, data: Sequence[Any], lay_out: Callable[[], Iterable[Batch]]) -> Sequence[Batch]:
        """Return the batches of this list, as long as it holds the same; the oldest lists are let go."""
        content = tuple(data)
        for entry in self._entries:
            if entry[0] is data and entry[1] == content:  # instances are equal if they are the same
                return entry[2]
        others = [entry for entry in self._entries if entry[0] is not data]
        made = tuple(lay_out())
        self._entries = [*others[-(_RECENT - 1) :], (data, content, made)]
        return made

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Let go of all."""
        self._entries = []

    def __repr__(self) -> str:
        return "recent batches"

    def __reduce__(self) -> Any:
        return RecentBatches, ()


@dataclass(frozen=True, kw_only=True)
class BatchLoss(FitLoss, metaclass=Suggesting):
    """Base of everything that is a sum over batches: what :func:`~beliefs.learning.fit.fit` minimises.

    Parameters
    ----------
    l2 : float
        The ridge, relative to the loss per labelled variable.
    threads : int, optional
        Units of work evaluated side by side; None means all cores. It changes no byte of the answer.
    """

    l2: float = 0.0
    threads: int | None = 1
    _recent: RecentBatches = field(default_factory=RecentBatches, init=False, repr=False, compare=False)

    starts_from: ClassVar[str] = "zeros"
    """What an estimator fits first where nothing else is asked for."""

    def __post_init__(self) -> None:
        check_number("l2", self.l2)
        check_option(self.l2 <= _LARGEST_RIDGE, "l2", f"at most {_LARGEST_RIDGE:g}", self.l2)
        check_integer("threads", self.threads, 1, MANY, none=True)

    @property
    @abstractmethod
    def n_weights(self) -> int:
        """Number of weights."""

    @abstractmethod
    def batches(self, data: Any) -> Iterable[Batch]:
        """Return labelled data laid out for this loss."""

    def total(self) -> Total:
        """Return a sum without any terms."""
        return Total(np.zeros(self.n_weights))

    def evaluate(self, weights: Floats, data: Any) -> Evaluation:
        """Return the regularised loss per labelled variable, its gradient and flags; ``data`` may be a batch of it."""
        weights = np.asarray(weights, self.weight_type)
        total, engine = None, engine_around()
        if engine is not None and not (self.by_row or self.remembers):
            total = engine.total(self._on_worker, weights, data)
        if total is None:
            total = self._total(weights, data, executor_of(self.threads))
        return total.evaluation(weights, self.l2)

    def _total(self, weights: Floats, data: Any, executor: Executor) -> Total:
        total = self.total()
        for batch in (data,) if isinstance(data, Batch) else self.batches(data):
            batch.add_to(total, weights, executor)
        return total

    def _on_worker(self, items: list[Any], state: dict[str, Any], weights: Floats) -> Total:
        """Return the sum over some instances, in a process that holds them."""
        loss = state.setdefault("loss", replace(self, threads=1))
        with np.errstate(over="ignore", invalid="ignore"):  # as the objective has it
            found: Total = loss._total(weights, items, Threads(1))
        return found

    def forget(self) -> None:
        """Let go of what was laid out for lists."""
        self._recent.clear()
