"""Answers of a fitted model: the inference of the fit, asked once more, for many inputs.

Which marginals these are is said by the loss (:meth:`beliefs.learning.losses.base.Loss.marginals`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from beliefs.errors import BeliefsError, ModelError
from beliefs.inference.base import Method, Task
from beliefs.inference.doors import maximize
from beliefs.inference.text import named_method
from beliefs.learning.instances import Instance
from beliefs.learning.joined import Joined, Joiner, Size
from beliefs.learning.parallel import Executor
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats, Ints

__all__ = [
    "all_marginals",
    "expected_states",
    "likeliest_states",
    "map_states",
    "method_of",
]

A = TypeVar("A")


def method_of(inference: Any) -> Method:
    """Return the method meant by a name, a text or a method; unknown ones list the known.

    Options that were left open are chosen for learning, see :meth:`~beliefs.inference.base.Method.for_learning`.
    """
    if isinstance(inference, str) and inference.strip() == "auto":
        raise ModelError(
            "inference must be one method for all graphs, in fitting and in prediction, such as trw, mean_field or "
            "junction_tree; auto would choose anew for each"
        )
    return named_method(inference, "inference").for_learning()


def all_marginals(
    solve: Callable[[Instance], Floats],
    ask: Callable[[Any], tuple[Instance, A]],
    inputs: Iterable[Any],
    joiner: Joiner | None,
    executor: Executor,
) -> list[tuple[Floats, A]]:
    """Return ``mu_var (n_states,)`` of each input and what is said of its answers; small inputs are solved together.

    Parameters
    ----------
    solve : callable
        From an instance, or several joined, to marginals.
    ask : callable
        From an input to an instance, and what else the answer about it needs.
    """

    def first(entry: Any) -> tuple[Any, Size, A]:
        instance, outputs = ask(entry)
        size = None if joiner is None else joiner.size(instance)
        return solve(instance) if size is None else instance, size, outputs

    def second(unit: Instance) -> list[tuple[Instance, Floats]]:
        if not isinstance(unit, Joined):
            return [(unit, solve(unit))]
        try:
            found = unit.divided(solve(unit))
        except BeliefsError:  # the one that fails says so itself
            found = [solve(part) for part in unit.parts]
        return list(zip(unit.parts, found, strict=True))

    answers = executor.map(first, inputs)
    waiting = [(instance, size) for instance, size, _ in answers if size is not None]
    units = [] if joiner is None else joiner.sized_units(waiting)
    solved = {part: mu_var for pairs in executor.map(second, units) for part, mu_var in pairs}
    return [(found if size is None else solved[found], outputs) for found, size, outputs in answers]


def likeliest_states(marginals: Floats) -> Ints:
    """Return the state of largest marginal of each variable, ``(n, K)`` in; ties go to the smallest index."""
    states: Ints = marginals.argmax(axis=1)
    return states


def expected_states(marginals: Floats) -> Floats:
    """Return the mean of the state index of each variable, ``(n, K)`` in."""
    means: Floats = marginals @ np.arange(marginals.shape[1], dtype=np.float64)
    return means


def map_states(method: Method, graph: FactorGraph) -> Ints:
    """Return the best joint state found, by the method if it maximises, else by what the door chooses."""
    return np.array(maximize(graph, method if Task.MAXIMIZE in method.tasks else "auto", threads=1).assignment)
