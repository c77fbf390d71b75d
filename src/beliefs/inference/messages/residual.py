"""Residual scheduling as a tier of its own: messages in logs, sent by a queue instead of in passes."""

from __future__ import annotations

import numpy as np

from beliefs.inference.messages.sweep_spec import SweepSpec
from beliefs.inference.messages.tiers import LogTier
from beliefs.kernels.messages.linear import DONE, IMPOSSIBLE
from beliefs.kernels.messages.log import scratch
from beliefs.kernels.messages.residual import prepare_queue, send_by_residual
from beliefs.kernels.messages.structures import Queue
from beliefs.typing import Floats

__all__ = ["ResidualQueue"]


class ResidualQueue(LogTier):
    """One iteration sends as many messages as a sweep would, each time the one whose change is largest."""

    def __init__(self, spec: SweepSpec, messages: Floats) -> None:
        super().__init__(spec, messages)
        lay = spec.layout
        heap, place = np.empty(lay.n_edges, np.int64), np.empty(lay.n_edges, np.int64)
        heap = heap[: prepare_queue(lay.scope_ptr, heap, place)]
        self.queue = Queue(messages.copy(), np.zeros(lay.n_edges), heap, place)
        self.possible = self._send(-1)

    def _send(self, n_updates: int) -> bool:
        now = self.spec
        possible = send_by_residual(
            now.layout.scopes, now.layout.adjacency, now.model, now.summed, self.scaled, self.update,
            scratch(self.extent), n_updates, self.sums, self.queue,
        )  # fmt: skip
        return bool(possible)

    def run(self, index: int, begin: int, end: int) -> int:
        """Send as many messages as there are."""
        self.possible = self.possible and self._send(self.queue.heap.size)
        return DONE if self.possible else IMPOSSIBLE

    def beliefs(self, mu_var: Floats) -> tuple[float, bool]:
        """Normalise the sums; a message that waits to be sent is a change too, though marginals may stand still."""
        change, possible = super().beliefs(mu_var)
        heap, residual = self.queue.heap, self.queue.residual
        waiting = float(residual[heap[0]]) if heap.size else 0.0
        return max(change, waiting), possible
