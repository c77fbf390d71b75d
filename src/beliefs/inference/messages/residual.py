"""Residual scheduling as a tier of its own: messages in logs, sent by a queue instead of in passes."""

from __future__ import annotations

import numpy as np

from beliefs.inference.messages.sweep_spec import Setting
from beliefs.inference.messages.tiers import LogTier
from beliefs.kernels.messages.linear import DONE, IMPOSSIBLE
from beliefs.kernels.messages.residual import prepare_queue, send_by_residual
from beliefs.typing import Floats

__all__ = ["ResidualQueue"]


class ResidualQueue(LogTier):
    """One iteration sends as many messages as a sweep would, each time the one whose change is largest."""

    def __init__(self, setting: Setting, messages: Floats) -> None:
        super().__init__(setting, messages)
        lay = setting.layout
        self.pending, self.residual = messages.copy(), np.zeros(lay.n_edges)
        heap, self.place = np.empty(lay.n_edges, np.int64), np.empty(lay.n_edges, np.int64)
        self.heap = heap[: prepare_queue(lay.scope_ptr, heap, self.place)]
        self.possible = self._send(-1)

    def _send(self, n_updates: int) -> bool:
        now, lay = self.setting, self.setting.layout
        return bool(
            send_by_residual(
                lay.card,
                lay.scope_ptr,
                lay.scope_vars,
                lay.cell_ptr,
                lay.state_ptr,
                lay.var_ptr,
                lay.var_edges,
                lay.edge_factor,
                lay.message_ptr,
                now.theta,
                now.summed,
                now.rho,
                self.extent,
                now.damping,
                now.in_logs,
                now.floor,
                n_updates,
                self.messages,
                self.finite,
                self.zeros,
                self.pending,
                self.residual,
                self.heap,
                self.place,
                self.psi_ptr,
                self.psi,
                self.log_least,
            )  # fmt: skip
        )

    def run(self, index: int, begin: int, end: int) -> int:
        """Send as many messages as there are."""
        self.possible = self.possible and self._send(self.heap.size)
        return DONE if self.possible else IMPOSSIBLE

    def beliefs(self, mu_var: Floats) -> tuple[float, bool]:
        """Normalise the sums; a message that waits to be sent is a change too, though marginals may stand still."""
        change, possible = super().beliefs(mu_var)
        waiting = float(self.residual[self.heap[0]]) if self.heap.size else 0.0
        return max(change, waiting), possible
