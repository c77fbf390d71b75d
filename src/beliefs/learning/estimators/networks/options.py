"""Options that all learners of tables of rows have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from beliefs.learning.parallel import threads_of
from beliefs.options import MANY, check_integer, check_number, check_option, is_iterable

__all__ = ["check_shared_options", "given_states"]


def check_shared_options(learner: Any) -> None:
    """Raise for those out of range, whether the fit at hand uses them or not."""
    threads_of(learner.n_jobs)
    check_integer("seed", learner.seed, 0, none=True)
    check_integer("n_restarts", learner.n_restarts, 1, MANY)
    check_integer("max_iters", learner.max_iters, 0, none=True)
    check_number("tol", learner.tol, none=True)
    check_number("max_bytes", learner.max_bytes, none=True)
    given_states(learner.states)
    callback = learner.callback
    check_option(callback is None or callable(callback), "callback", "a function", callback)
    check_option(isinstance(learner.progress, bool | np.bool_), "progress", "True or False", learner.progress)


def given_states(states: Any) -> dict[str, tuple[str, ...]]:
    """Return the states that an option names, by column."""
    mapped = isinstance(states, Mapping) and all(isinstance(k, str) and is_iterable(v) for k, v in states.items())
    check_option(states is None or mapped, "states", "a mapping of columns to states", states)
    found = {name: tuple(map(str, labels)) for name, labels in (states or {}).items()}
    for name, labels in found.items():
        check_option(bool(labels), f"states of {name!r}", "a list of at least one", states[name])
    return found
