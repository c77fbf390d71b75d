"""The door of learning: minimise a loss over instances, whatever the optimiser.

>>> import numpy as np
>>> class Parabola:
...     def value_and_grad(self, w, instances):
...         return float(((w - instances[0]) ** 2).sum()), 2.0 * (w - instances[0])
>>> result = fit(Parabola(), [np.array([1.0, -2.0])], np.zeros(2))
>>> result.status.name, result.weights.round(6)
('CONVERGED', array([ 1., -2.]))
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beliefs.driver import Limits, Status
from beliefs.errors import ConvergenceWarning, ModelError
from beliefs.inference.base import Bound
from beliefs.inference.parallel import one_thread_of_blas
from beliefs.inference.quiet import warn
from beliefs.inference.text import parse
from beliefs.io.files import StrPath
from beliefs.learning.checkpoint import Checkpoint, fingerprint
from beliefs.learning.data import Data, LabelledData, hand_out, read_once
from beliefs.learning.fit_loss import FitLoss, as_fit_loss, is_loss
from beliefs.learning.optimizers import OPTIMIZERS
from beliefs.learning.optimizers.base import Optimizer, Outcome
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.progress import reporter
from beliefs.learning.result import FitProgress, FitResult
from beliefs.learning.watch import UNBOUNDED, Watch
from beliefs.options import check_integer, check_option, is_number
from beliefs.typing import Floats

__all__ = ["fit", "optimizer_of"]

_LOG = logging.getLogger(__name__)


def fit(
    loss: Any,
    instances: LabelledData,
    weights: ArrayLike | None = None,
    *,
    optimizer: Optimizer | str = "lbfgs",
    l1: ArrayLike = 0.0,
    tol: float | None = None,
    max_iters: int | None = None,
    time_limit: float | None = None,
    callback: Callable[[FitProgress], object] | None = None,
    progress: bool = False,
    checkpoint: StrPath | None = None,
    checkpoint_every: float = 30.0,
    seed: int | None = None,
    free: ArrayLike | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    validation: LabelledData | Callable[[Floats], float] | None = None,
    patience: int = 10,
) -> FitResult:
    """Minimise a loss over instances.

    Parameters
    ----------
    loss : Loss
        Anything with ``value_and_grad(w, instances)``; with ``evaluate(w, instances)`` flags are reported, too.
    instances : iterable of Instance, or Data
        A list, or an object that can be iterated again and again. Mini-batch optimisers also take a generator, for one
        pass. Arrays that a loss of their own evaluates come as :class:`~beliefs.learning.data.Data`.
    weights : array (n_weights,), optional
        Where to start; zeros by default. Stages of a fit hand their weights on this way.
    optimizer : Optimizer or str
        ``"lbfgs"`` for smooth losses; ``"one_slack"`` for convex ones, smooth or not, with a certified gap; ``"sgd"``,
        ``"adam"``; with options: ``"adam(step=0.01, batch_size=8)"``.
    l1 : float or array (n_weights,)
        Penalty on absolute values, added to the loss per labelled variable.
    tol : float, optional
        On what the optimiser says (``tol_is_of``): the largest entry of the gradient (1e-5); of those with a certified
        gap, the gap relative to the objective (1e-3); of mini-batch optimisers, the relative change of the loss between
        passes (0).
    max_iters : int, optional
        Iterations (1000) or passes over the data.
    time_limit : float, optional
        Seconds from the call.
    callback : callable, optional
        Called with a :class:`FitProgress` after each update; stops the fit by returning True.
    progress : bool
        Whether to show a line on standard error.
    checkpoint : path, optional
        An ``.npz`` file, written whole or not at all, every ``checkpoint_every`` seconds (0: after each update), at
        the end, and before an exception or Ctrl-C leaves. If it exists the fit goes on from it.
    seed : int, optional
        For the order of mini-batches; None means 0.
    free : array of bool (n_weights,), optional
        Weights that may move.
    bounds : (low, high), optional
        Numbers or arrays.
    validation : iterable of Instance, Data, or callable, optional
        Held-out instances, on which the loss is taken without its ridge, or a function of the weights. The fit stops
        when it has not become smaller for ``patience`` iterations; the weights with the smallest are returned. A
        function with a method ``better(found, past)`` says itself which weights are to be kept.

    Notes
    -----
    A limit that was asked for is no reason for a warning; reaching the optimiser's own ``max_iters`` or a dead end is
    (:class:`ConvergenceWarning`), and so is a loss that has lost its bound because of too few sweeps.
    """
    started = time.perf_counter()
    method = optimizer_of(optimizer)
    limits = Limits(
        tol=method.default_tol if tol is None else tol,
        max_iters=_max_iters(method, instances, max_iters),
        time_limit=math.inf if time_limit is None else time_limit,
        started=started,
    )
    _check(loss, method, callback, checkpoint_every, seed, patience)
    own = as_fit_loss(loss)
    objective = Objective(own, instances, _start(own, weights), l1, free, bounds)
    method.check(objective)
    hand_out(instances)
    kept = None if checkpoint is None else Checkpoint(checkpoint, fingerprint(loss, objective, method, seed or 0))
    saved = None if kept is None else kept.load()
    _LOG.info("fit of %d weights by %s", objective.start.size, method)
    with reporter(progress, method, limits) as shown, one_thread_of_blas():
        watch = Watch(
            limits,
            [c for c in (callback, shown) if c is not None],
            _validator(validation, objective),
            patience,
            None if kept is None else kept.save,
            checkpoint_every,
            saved,
        )
        try:
            outcome = method.minimize(objective, watch, None if saved is None else saved.point, seed or 0)
        finally:
            watch.write()
    result = _result(objective, method, watch, outcome)
    _LOG.info("fit: %s after %d iterations, loss %.6g", result.status.name, result.n_iters, result.loss)
    _warn(result, watch, asked=max_iters is not None)
    return result


def optimizer_of(optimizer: Optimizer | str) -> Optimizer:
    """Return the optimiser meant by a text, or itself."""
    if isinstance(optimizer, Optimizer):
        return optimizer
    if not isinstance(optimizer, str):
        raise ModelError(f"optimizer must be an Optimizer or its text, found {type(optimizer).__name__}")
    return parse(optimizer, OPTIMIZERS, "optimizer")


def _max_iters(method: Optimizer, instances: Any, asked: int | None) -> int:
    """Return the iterations allowed: one where the instances can be read once, if the optimiser needs no more."""
    if not isinstance(instances, Iterable | Data):
        raise ModelError(f"instances must be a list of instances, found {type(instances).__name__}")
    once = read_once(instances)
    if once and not (method.reads_once and (asked is None or asked <= 1)):
        many = f"{asked} passes ask" if method.reads_once else f"{method.name} asks"
        raise ModelError(
            f"the instances come from a generator, which can be read once, and {many} for more: give a list, or an "
            "object whose __iter__ starts anew, or use a mini-batch optimizer (sgd, adam) with max_iters=1"
        )
    return (1 if once else method.default_max_iters) if asked is None else asked


def _check(loss: Any, method: Optimizer, callback: Any, checkpoint_every: Any, seed: Any, patience: Any) -> None:
    if not is_loss(loss):
        raise ModelError(f"loss must have value_and_grad(weights, instances), found {type(loss).__name__}")
    if as_fit_loss(loss).stochastic and not method.takes_estimates:
        raise ModelError(
            f"{loss.name} gives estimates of its value and gradient, on which the line search of {method.name} fails; "
            'use optimizer="adam" or "sgd"'
        )
    check_option(callback is None or callable(callback), "callback", "a function", callback)
    check_option(is_number(checkpoint_every) and checkpoint_every >= 0, "checkpoint_every", "seconds", checkpoint_every)
    check_integer("seed", seed, 0, none=True)
    check_integer("patience", patience, 1)


def _start(loss: FitLoss, weights: ArrayLike | None) -> Floats:
    """Return the starting weights, a copy."""
    n_weights, dtype = loss.n_weights, loss.weight_type
    if weights is None:
        if n_weights is None:
            raise ModelError("the loss has no n_weights to say how many weights there are; give the weights to start")
        return np.zeros(n_weights, dtype)
    start = np.array(weights, dtype)
    expected = start.size if n_weights is None else n_weights
    if start.shape != (expected,):
        raise ModelError(f"weights must be {expected} numbers, found shape {start.shape}")
    if not np.isfinite(start).all():
        raise ModelError(f"weight {int(np.argmin(np.isfinite(start)))} to start from is not finite")
    return start


def _validator(validation: Any, objective: Objective) -> Callable[[Floats], float] | None:
    """Return the function of the weights that early stopping watches."""
    if validation is None or callable(validation):
        given: Callable[[Floats], float] | None = validation
        return given
    held_out = list(validation) if read_once(validation) else validation

    def without_ridge(weights: Floats) -> float:
        return objective.of(weights, held_out).value - float(objective.loss.ridge(weights))

    return without_ridge


def _result(objective: Objective, method: Optimizer, watch: Watch, outcome: Outcome) -> FitResult:
    point = outcome.point if watch.best is None else watch.best
    return FitResult(
        weights=np.array(point.weights),
        loss=point.loss,
        grad_norm=point.grad_norm,
        validation=watch.best_validation,
        gap=point.gap if method.certifies else math.inf,
        bound=Bound[point.bound] if point.bound else None,
        trace=watch.trace(),
        status=outcome.status,
        reason=outcome.reason or _MEANING.get(outcome.status, outcome.status.advice).format(method.tol_is_of),
        n_iters=outcome.point.iteration,
        n_evaluations=objective.n_evaluations,
        n_diverged=outcome.point.n_diverged,
        n_not_converged=outcome.point.n_not_converged,
        seconds=watch.seconds,
        optimizer=method,
        record=outcome.record,
    )


_MEANING = {
    Status.CONVERGED: "the gradient fell below tol",
    Status.MAX_ITERS: "max_iters was reached; raise max_iters, or loosen tol if the {} is small enough for you",
}


def _warn(result: FitResult, watch: Watch, asked: bool) -> None:
    """Warn of a fit that stopped short unasked, and of a loss without a bound."""
    if result.n_diverged or watch.first_diverged is not None:
        warn(
            f"{result.n_diverged} instances give their labels a surrogate probability above one (first at iteration "
            f"{watch.first_diverged or 0}): {UNBOUNDED}",
            ConvergenceWarning,
            stacklevel=3,
        )
    short = result.status is Status.MAX_ITERS and not asked and result.optimizer.default_tol > 0
    if short or result.status in (Status.OSCILLATING, Status.DIVERGED):
        gap = f"gap {result.gap:.1e} of {result.loss:.4g}" if math.isfinite(result.gap) else ""
        text = f"{result.optimizer}, {gap or f'gradient {result.grad_norm:.1e}'}: {result.reason}"
        warn(text, ConvergenceWarning, stacklevel=3)
