"""Instances as a batch: each a unit of work, small ones joined where the loss allows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain

from beliefs.errors import BeliefsError
from beliefs.learning.batches import Batch, Share, Total
from beliefs.learning.instances import Instance
from beliefs.learning.joined import Joined, Joiner
from beliefs.learning.parallel import Executor
from beliefs.typing import Floats

__all__ = ["InstanceBatch"]


@dataclass(frozen=True, eq=False)
class InstanceBatch(Batch):
    """Instances, and unions of small ones.

    Parameters
    ----------
    units : iterable of Instance
    share : callable ``(weights, instance) -> Share``
        Evaluates one of them.
    check : callable
        Raises for an instance that the loss cannot serve.
    joiner : Joiner, optional
        Divides unions that fail as a whole.
    """

    units: Iterable[Instance]
    share: Callable[[Floats, Instance], Share]
    check: Callable[[Instance], None]
    joiner: Joiner | None = None

    def add_to(self, total: Total, weights: Floats, executor: Executor) -> None:
        """Add the instances in their order."""
        for share in chain.from_iterable(executor.windows(partial(self._shares, weights), self.units)):
            total.add(share)

    def _shares(self, weights: Floats, unit: Instance) -> list[Share]:
        """Return what a unit adds: of a union that fails, or raises a flag, what its halves add."""
        if not isinstance(unit, Joined):
            self.check(unit)
            return [self.share(weights, unit)]
        if not unit.is_apart():
            together = self._together(weights, unit)
            if together is not None:
                return [together]
            unit.leave_apart()
        assert self.joiner is not None
        return [share for half in self.joiner.halves(unit) for share in self._shares(weights, half)]

    def _together(self, weights: Floats, union: Joined) -> Share | None:
        """Return what joined instances add; None where one of them fails or raises a flag."""
        try:
            found = self.share(weights, union)
        except BeliefsError:
            return None
        return None if found.n_diverged or found.n_not_converged else found
