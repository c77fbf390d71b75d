"""In which form the messages of a run are held: the fastest that there is a way back through."""

from __future__ import annotations

from beliefs.inference.base import zero_probability
from beliefs.inference.messages.pairwise_tier import PairwiseTier
from beliefs.inference.messages.sweep_spec import SweepSpec
from beliefs.inference.messages.tiers import LogTier
from beliefs.learning.gradients.message_run import LogRun, MessageRun
from beliefs.learning.gradients.pairwise_run import PairwiseRun
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["message_run"]


def message_run(
    graph: FactorGraph, spec: SweepSpec, mu_var: Floats, messages: Floats | None = None, *, fast: bool = True
) -> MessageRun:
    """Hold log messages (None: they say nothing yet) and write the beliefs of variables to ``mu_var``."""
    pairs = PairwiseTier.make(spec, messages) if fast else None
    if pairs is not None:
        run: MessageRun = PairwiseRun(graph, pairs, mu_var)
    else:
        logs = LogTier.make(spec, messages)
        if logs is None:
            raise zero_probability(graph)
        run = LogRun(graph, logs, mu_var)
    run.beliefs()
    return run
