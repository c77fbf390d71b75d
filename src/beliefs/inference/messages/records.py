"""The messages of a run as its answer keeps them, without the tables that only further sweeps read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beliefs.inference.messages.log_messages import LogMessages
from beliefs.inference.messages.sweep_spec import SweepSpec
from beliefs.typing import Floats

__all__ = ["LinearRecord", "MessageRecord"]


@dataclass(frozen=True, eq=False)
class MessageRecord:
    """Log messages, normalised, in the order of edges."""

    spec: SweepSpec
    messages: Floats

    def log_messages(self) -> Floats:
        """Return all messages as logs, flat, in the order of edges, normalised."""
        return self.messages

    def tables(self, mu_var: Floats) -> Floats:
        """Return the beliefs of all factors, one after the other, of messages that were found possible.

        ``mu_var`` are the beliefs of variables that belong to the messages.
        """
        tables = LogMessages.of(self.spec, self.log_messages()).tables()
        assert tables is not None
        return tables


class LinearRecord(MessageRecord):
    """Messages as plain numbers in the order of edges."""

    def log_messages(self) -> Floats:
        """Return logs; a message damped in logs has lost its normalisation, so it is normalised here."""
        with np.errstate(divide="ignore"):
            logs: Floats = np.log(self.messages)
        if not logs.size:
            return logs
        offsets = self.spec.layout.message_ptr
        logs -= np.repeat(np.log(np.add.reduceat(self.messages, offsets[:-1])), np.diff(offsets))
        return logs
