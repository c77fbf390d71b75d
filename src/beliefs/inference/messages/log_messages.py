"""Messages as logs with their sums: what beliefs, bounds and decodings are made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.inference.messages.tiers import Setting, message_offsets
from beliefs.kernels.messages import log_beliefs
from beliefs.typing import Floats, Ints

__all__ = ["LogMessages"]


@dataclass(frozen=True, eq=False)
class LogMessages:
    """Flat log messages in the order of edges, and per state the sum of finite ones and the number of ``-inf``."""

    setting: Setting
    messages: Floats
    finite: Floats
    zeros: Ints

    @classmethod
    def of(cls, setting: Setting, messages: Floats) -> LogMessages:
        """Add up the messages."""
        lay = setting.layout
        finite, zeros = np.empty(lay.n_states), np.empty(lay.n_states, np.int64)
        log_beliefs(
            lay.scope_ptr, lay.scope_vars, lay.state_ptr, message_offsets(lay), setting.rho, messages,
            finite, zeros,
        )  # fmt: skip
        return cls(setting, messages, finite, zeros)

    @property
    def beta(self) -> Floats:
        """The log beliefs of variables, ``-inf`` where a message is."""
        return np.where(self.zeros == 0, self.finite, -np.inf)
