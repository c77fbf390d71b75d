"""From options and data to weights: what is held out, where to start, and the optimiser."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.text import parse
from beliefs.learning.batches import BatchLoss
from beliefs.learning.data import LabelledData, can_choose, chosen
from beliefs.learning.fit import fit, optimizer_of
from beliefs.learning.independent import fit_independent
from beliefs.learning.losses.base import Loss
from beliefs.learning.losses.registry import loss_names
from beliefs.learning.optimizers.lbfgs import LBFGS
from beliefs.learning.result import FitResult
from beliefs.learning.schedules import Doubling
from beliefs.model.features import LogLinearTemplate
from beliefs.model.variable import suggestion
from beliefs.options import check_number, is_word, shown
from beliefs.typing import Bools, Floats

__all__ = ["FitOptions", "Start", "divided", "fitted"]

_INDEPENDENT_ITERS = 200  # the start need not be exact


@dataclass(frozen=True, kw_only=True, eq=False)
class FitOptions:
    """How an estimator is fitted; the options are explained in :class:`~beliefs.learning.estimators.base.Estimator`."""

    optimizer: Any
    l1: float
    tol: float | None
    max_iters: int | None
    init: Any
    schedule: Any
    checkpoint: Any
    patience: int
    seed: int | None
    callback: Callable[..., Any] | None
    progress: bool
    threads: int

    @property
    def common(self) -> dict[str, Any]:
        """The options of all stages of a fit."""
        return {
            "optimizer": self.optimizer,
            "l1": self.l1,
            "tol": self.tol,
            "callback": self.callback,
            "progress": self.progress,
            "seed": self.seed,
        }

    @property
    def goes_on(self) -> bool:
        """Whether there is a checkpoint to go on from, so that it does not matter where the fit began."""
        return self.checkpoint is not None and self.schedule is None and os.path.exists(self.checkpoint)


@dataclass(frozen=True, eq=False)
class Start:
    """Where a fit may begin.

    Attributes
    ----------
    stage : callable
        From the text of a loss to the loss, for stages before the last.
    touching_hidden : callable
        From data to the weights ``(n_weights,)`` that a random start is for.
    before : ndarray, optional
        Weights to go on from, if there are as many.
    """

    stage: Callable[[str], BatchLoss]
    touching_hidden: Callable[[Any], Bools]
    before: Floats | None = None


def fitted(options: FitOptions, loss: BatchLoss, data: Any, held: Any, start: Start) -> FitResult:
    """Return the result of minimising a loss over data, with others held out (None: none)."""
    schedule = _schedule(options, data)
    warm = start.before is not None and start.before.shape == (loss.n_weights,)  # else other features or states
    begun = start.before if warm else _start(options, loss, data, start)
    if isinstance(begun, FitResult) and begun.was_stopped:
        return begun
    weights = begun.weights if isinstance(begun, FitResult) else begun
    further = {
        "max_iters": options.max_iters, "checkpoint": options.checkpoint, "validation": held,
        "patience": options.patience,
    }  # fmt: skip
    if schedule is None:
        return fit(loss, data, weights, **further, **options.common)
    return schedule.fit(loss, data, weights, **further, **options.common)[-1]


def _schedule(options: FitOptions, data: LabelledData) -> Doubling | None:
    if options.schedule is None:
        return None
    if not can_choose(data):
        raise ModelError("a schedule takes parts of a list of instances; pairs that are loaded one by one are none")
    given = options.schedule
    return given if isinstance(given, Doubling) else parse(str(given), (Doubling,), "schedule")


def divided(data: Any, validation: float | None, seed: int | None) -> tuple[Any, Any]:
    """Return the data to fit to and the share that is held out, drawn by the seed."""
    if validation is None:
        return data, None
    if not can_choose(data):
        raise ModelError(
            "validation holds out a share of a list of instances; pairs that are loaded one by one are not"
        )
    n = len(data)
    out = max(1, round(validation * n))
    if out >= n:
        raise ModelError(f"validation={validation} of {n} instances leaves none to fit to; give more instances")
    order = np.random.default_rng(seed or 0).permutation(n)
    return chosen(data, np.sort(order[out:])), chosen(data, np.sort(order[:out]))


@dataclass(frozen=True, kw_only=True)
class Random:
    """Normal weights of a standard deviation: a start that tells hidden states apart."""

    scale: float = 0.5

    name: ClassVar[str] = "random"

    def __post_init__(self) -> None:
        check_number("scale", self.scale, positive=True)

    def weights(self, where: Bools, seed: int | None) -> Floats:
        """Draw the weights, and leave the others at 0."""
        drawn = self.scale * np.random.default_rng(seed or 0).normal(size=where.size)
        return np.where(where, drawn, 0.0)


def _start(options: FitOptions, loss: BatchLoss, data: Any, start: Start) -> Floats | FitResult:
    """Return the weights that ``init`` asks for, or the fit that ends in them."""
    if not isinstance(options.init, str):
        return _given(options, loss.n_weights)
    words = ("auto", "zeros", "independent", Random.name, *loss_names())
    word = options.init.partition("(")[0].strip()
    if not is_word(word, words):
        hint = suggestion(options.init, words)
        raise ModelError(f"no init {options.init!r}{hint} (known: {', '.join(words)}, or weights)")
    begin: Floats = np.zeros(loss.n_weights)
    if options.init == "zeros" or options.goes_on:
        return begin
    if word == Random.name:
        return parse(options.init, (Random,), "init").weights(start.touching_hidden(data), options.seed)
    result = None
    if isinstance(loss, Loss) and isinstance(loss.template, LogLinearTemplate):
        changed = options.common | {"l1": 0.0, "tol": None, "optimizer": _of_stages(options.optimizer)}
        result = fit_independent(
            loss.template, data, threads=options.threads, max_iters=_INDEPENDENT_ITERS, **changed
        )  # fmt: skip
        if result.was_stopped:
            return result
        begin = result.weights
    first = _first_loss(options, loss, data)
    if first is None:
        return begin if result is None else result
    changed = options.common | {"optimizer": _of_stages(options.optimizer)}
    return fit(start.stage(first), data, begin, max_iters=options.max_iters, **changed)


def _of_stages(optimizer: Any) -> Any:
    """Return the optimiser of stages before the last, whose losses are smooth: one that is made for margins is not."""
    meant = optimizer_of(optimizer)
    return optimizer if meant.takes_estimates or isinstance(meant, LBFGS) else "lbfgs"


def _first_loss(options: FitOptions, loss: BatchLoss, data: Any) -> str | None:
    """Return the text of the loss to be fitted before the estimator's own, if any.

    Losses with many local minima start from the surrogate likelihood, with hidden labels from surrogate EM
    ([domke2013] section 8).
    """
    if options.init not in ("auto", "independent"):
        return str(options.init)
    if options.init == "independent" or loss.starts_from != "surrogate":
        return None
    hidden = any(instance.n_labelled < instance.labels.size for instance in data)
    return "surrogate_em" if hidden else "surrogate_likelihood"


def _given(options: FitOptions, n_weights: int) -> Floats:
    try:
        weights = np.array(options.init, np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"init must be a word or {n_weights} finite weights, found {shown(options.init)}") from None
    if weights.shape != (n_weights,) or not np.isfinite(weights).all():
        raise ModelError(f"init must be a word or {n_weights} finite weights, found shape {weights.shape}")
    return weights
