"""From options and instances to weights: the loss, the place to start, and the optimiser."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from beliefs.driver import Status
from beliefs.errors import ModelError
from beliefs.inference.text import parse
from beliefs.learning.estimators.examples import Stream
from beliefs.learning.fit import fit
from beliefs.learning.independent import fit_independent
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import Loss
from beliefs.learning.losses.registry import LOSSES, make_loss
from beliefs.learning.result import FitResult
from beliefs.learning.schedules import Doubling
from beliefs.model.features import LogLinearTemplate
from beliefs.model.variable import suggestion
from beliefs.options import is_word
from beliefs.typing import Floats

if TYPE_CHECKING:
    from beliefs.learning.estimators.crf import CRF

__all__ = ["fitted", "loss_of"]

_INDEPENDENT_ITERS = 200  # the start need not be exact


def loss_of(crf: CRF, text: Any) -> Loss:
    """Return the loss meant by a text, through the inference of an estimator."""
    return make_loss(
        text,
        template=crf.template_,
        method=crf._method,
        n_sweeps=crf.n_sweeps,
        gradient=crf.gradient,
        tol=crf.inference_tol,
        l2=crf.l2,
        threads=crf._threads,
    )


def fitted(crf: CRF, instances: list[Instance] | Stream, before: Floats | None) -> FitResult:
    """Return the result of fitting an estimator's loss to instances, from ``before`` if there are such weights."""
    kept, held = _divided(crf, instances)
    schedule = _schedule(crf, kept)
    warm = before is not None and before.shape == (crf.template_.n_weights,)  # else other features or states
    begun = before if warm else _start(crf, kept)
    if isinstance(begun, FitResult) and _stopped(begun):
        return begun
    start = begun.weights if isinstance(begun, FitResult) else begun
    options = {"max_iters": crf.max_iters, "checkpoint": crf.checkpoint, "validation": held, "patience": crf.patience}
    if schedule is None:
        return fit(crf.loss_, kept, start, **options, **_common(crf))
    assert isinstance(kept, list)
    return schedule.fit(crf.loss_, kept, start, **options, **_common(crf))[-1]


def _common(crf: CRF) -> dict[str, Any]:
    """Return the options of all stages of a fit."""
    return {
        "optimizer": crf.optimizer,
        "l1": crf.l1,
        "tol": crf.tol,
        "callback": crf.callback,
        "progress": crf.progress,
        "seed": crf.seed,
    }


def _stopped(result: FitResult) -> bool:
    """Whether a callback ended the fit."""
    return result.reason == Status.STOPPED.advice


def _schedule(crf: CRF, instances: list[Instance] | Stream) -> Doubling | None:
    if crf.schedule is None:
        return None
    if isinstance(instances, Stream):
        raise ModelError("a schedule takes parts of a list of instances; pairs that are loaded one by one are none")
    return crf.schedule if isinstance(crf.schedule, Doubling) else parse(str(crf.schedule), (Doubling,), "schedule")


def _divided(crf: CRF, instances: list[Instance] | Stream) -> tuple[list[Instance] | Stream, list[Instance] | None]:
    """Return the instances to fit to and those held out, drawn by the seed."""
    if crf.validation is None:
        return instances, None
    if isinstance(instances, Stream):
        raise ModelError(
            "validation holds out a share of a list of instances; pairs that are loaded one by one are not"
        )
    n = len(instances)
    out = max(1, round(crf.validation * n))
    if out >= n:
        raise ModelError(f"validation={crf.validation} of {n} instances leaves none to fit to; give more instances")
    order = np.random.default_rng(crf.seed or 0).permutation(n)
    return [instances[i] for i in np.sort(order[out:])], [instances[i] for i in np.sort(order[:out])]


def _start(crf: CRF, instances: list[Instance] | Stream) -> Floats | FitResult:
    """Return the weights that ``init`` asks for, or the fit that ends in them."""
    if not isinstance(crf.init, str):
        return _given(crf)
    words = ("auto", "zeros", "independent", *(loss.name for loss in LOSSES))
    if not is_word(crf.init.partition("(")[0].strip(), words):
        raise ModelError(f"no init {crf.init!r}{suggestion(crf.init, words)} (known: {', '.join(words)}, or weights)")
    begin: Floats = np.zeros(crf.template_.n_weights)
    if crf.init == "zeros" or _goes_on(crf):
        return begin
    result = None
    if isinstance(crf.template_, LogLinearTemplate):
        result = fit_independent(
            crf.template_,
            instances,
            threads=crf._threads,
            max_iters=_INDEPENDENT_ITERS,
            **_common(crf) | {"l1": 0.0, "tol": None},
        )
        if _stopped(result):
            return result
        begin = result.weights
    first = _first_loss(crf, instances)
    if first is None:
        return begin if result is None else result
    return fit(crf._stage(first), instances, begin, max_iters=crf.max_iters, **_common(crf))


def _goes_on(crf: CRF) -> bool:
    """Whether there is a checkpoint to go on from, so that it does not matter where the fit began."""
    return crf.checkpoint is not None and crf.schedule is None and os.path.exists(crf.checkpoint)


def _first_loss(crf: CRF, instances: list[Instance] | Stream) -> str | None:
    """Return the text of the loss to be fitted before the estimator's own, if any.

    Losses with many local minima start from the surrogate likelihood, with hidden labels from surrogate EM
    ([domke2013] section 8).
    """
    if crf.init not in ("auto", "independent"):
        return str(crf.init)
    if crf.init == "independent" or getattr(crf.loss_, "starts_from", "independent") != "surrogate":
        return None
    hidden = any(instance.n_labelled < instance.labels.size for instance in instances)
    return "surrogate_em" if hidden else "surrogate_likelihood"


def _given(crf: CRF) -> Floats:
    weights = np.array(crf.init, np.float64)
    if weights.shape != (crf.template_.n_weights,) or not np.isfinite(weights).all():
        raise ModelError(
            f"init must be a word or {crf.template_.n_weights} finite weights, found shape {weights.shape}"
        )
    return weights
