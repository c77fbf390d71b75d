"""Answers of a fitted model: the inference of the fit, asked once more.

A loss that runs inference predicts with that inference, sweep for sweep; likelihoods with the method of their log Z;
losses without inference (pseudo-likelihood, piecewise) with the estimator's method, run to convergence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

import numpy as np

from beliefs.errors import BeliefsError, ModelError
from beliefs.inference.base import Method, Task
from beliefs.inference.doors import maximize
from beliefs.inference.portfolio.auto import exact_method
from beliefs.inference.run import answer, settled
from beliefs.inference.text import named_method
from beliefs.learning.gradients.exact import Exact
from beliefs.learning.gradients.truncated import Truncated
from beliefs.learning.instances import Instance
from beliefs.learning.joined import Joined, Joiner
from beliefs.learning.losses.base import Loss
from beliefs.learning.losses.likelihood import Likelihood
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats, Ints

__all__ = [
    "all_marginals",
    "expected_states",
    "joiner_of",
    "likeliest_states",
    "map_states",
    "marginals",
    "method_of",
    "side_by_side",
]

S = TypeVar("S")
T = TypeVar("T")
Shape: TypeAlias = tuple[int, ...]

_TOL = 1e-5  # residual of inference for models that were fitted without one ([domke2013] section 8)


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


def marginals(loss: Loss, method: Method, tol: float | None, graph: FactorGraph) -> Floats:
    """Return the marginals of the variables, ``(n_states,)``, by the inference of a loss."""
    through = getattr(loss, "through", None)
    if through is not None:
        return np.array(through.marginals(graph))
    if isinstance(loss, Likelihood):
        return answer(graph, exact_method(graph.layout), max_iters=1).mu_var
    if hasattr(loss, "method"):
        return settled(graph, loss.method, tol=getattr(loss, "tol", tol)).mu_var
    return settled(graph, method, tol=_TOL if tol is None else tol).mu_var


def joiner_of(loss: Loss) -> Joiner | None:
    """Return what joins small inputs; None where inference runs until convergence.

    There the last digits of an answer would depend on what else is asked in the same call.
    """
    through = getattr(loss, "through", None)
    fixed = isinstance(through, Truncated | Exact) or (through is None and isinstance(loss, Likelihood))
    return Joiner.of(loss) if fixed else None


def all_marginals(
    solve: Callable[[Instance], Floats],
    ask: Callable[[Any], tuple[Instance, Shape]],
    inputs: Iterable[Any],
    joiner: Joiner | None,
    threads: int,
) -> list[tuple[Floats, Shape]]:
    """Return ``mu_var (n_states,)`` of each input and the shape of its variables; small inputs are solved together.

    Parameters
    ----------
    solve : callable
        From an instance, or several joined, to marginals.
    ask : callable
        From an input to an instance and the shape of its variables.
    """

    def first(entry: Any) -> tuple[Instance | Floats, Shape]:
        instance, shape = ask(entry)
        waits = joiner is not None and joiner.takes(instance)
        return instance if waits else solve(instance), shape

    def second(unit: Instance) -> list[tuple[Instance, Floats]]:
        if not isinstance(unit, Joined):
            return [(unit, solve(unit))]
        try:
            found = unit.divided(solve(unit))
        except BeliefsError:  # the one that fails says so itself
            found = [solve(part) for part in unit.parts]
        return list(zip(unit.parts, found, strict=True))

    answers = side_by_side(first, inputs, threads)
    waiting = [found for found, _ in answers if isinstance(found, Instance)]
    units = [] if joiner is None else joiner.units(waiting)
    solved = {id(part): mu_var for pairs in side_by_side(second, units, threads) for part, mu_var in pairs}
    return [(solved[id(found)] if isinstance(found, Instance) else found, shape) for found, shape in answers]


def side_by_side(task: Callable[[S], T], entries: Iterable[S], threads: int) -> list[T]:
    """Return the answers of a task for all entries, in order, from as many threads."""
    if threads == 1:
        return [task(entry) for entry in entries]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(task, entries))


def likeliest_states(mu_var: Floats, n_states: int) -> Ints:
    """Return the state of largest marginal of each variable; ties go to the smallest index."""
    states: Ints = mu_var.reshape(-1, n_states).argmax(axis=1)
    return states


def expected_states(mu_var: Floats, n_states: int) -> Floats:
    """Return the mean of the state index of each variable."""
    means: Floats = mu_var.reshape(-1, n_states) @ np.arange(n_states, dtype=np.float64)
    return means


def map_states(method: Method, graph: FactorGraph) -> Ints:
    """Return the best joint state found, by the method if it maximises, else by what the door chooses."""
    return np.array(maximize(graph, method if Task.MAXIMIZE in method.tasks else "auto", threads=1).assignment)
