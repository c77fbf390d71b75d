"""Losses on chains: sequences become unions. That of a list is kept for the next evaluation; streams go in pieces."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from beliefs.errors import ModelError
from beliefs.learning.batches import Batch
from beliefs.learning.chains.template import ChainTemplate
from beliefs.learning.chains.tokens import gathered
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import Loss

__all__ = ["JoinedChains"]

_STREAMED = 50_000  # tokens read at a time from instances that are not a list


@dataclass(frozen=True, kw_only=True)
class JoinedChains(Loss):
    """A loss whose batches are unions of chains; its template is a :class:`ChainTemplate`."""

    @abstractmethod
    def _joined(self, instances: Sequence[Instance]) -> Batch:
        """Return sequences as one batch."""

    def batches(self, data: Any) -> Iterable[Batch]:
        """Return sequences as unions."""
        if isinstance(data, list | tuple):
            return self._recent.of(data, lambda: (self._joined(data),))
        return map(self._joined, gathered(((instance, instance.labels.size) for instance in data), _STREAMED))

    def free_batches(self, data: Any) -> Iterable[Batch] | None:
        """Return unions for the free term alone, where there are such."""
        batches: Any = tuple(self.batches(data))
        return tuple(b.without_labels for b in batches) if all(hasattr(b, "without_labels") for b in batches) else None

    def _chain_template(self, instances: Sequence[Instance]) -> ChainTemplate:
        """Check the instances, and return the template."""
        if not instances:
            raise ModelError("no variable of any instance has a label; a loss needs labels to compare with")
        for instance in instances:
            self.check(instance)
        assert isinstance(self.template, ChainTemplate)
        return self.template
