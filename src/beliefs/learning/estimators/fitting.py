"""From options and instances to weights: the loss, the place to start, and the optimiser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.estimators.examples import Stream
from beliefs.learning.fit import fit
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import Loss
from beliefs.learning.losses.registry import make_loss
from beliefs.learning.result import FitResult
from beliefs.typing import Floats

if TYPE_CHECKING:
    from beliefs.learning.estimators.base import CRF

__all__ = ["fitted", "loss_of"]


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
    start = _start(crf, kept) if before is None else before
    if start.shape != (crf.template_.n_weights,):
        raise ModelError(f"the weights to start from must have shape ({crf.template_.n_weights},), found {start.shape}")
    return fit(
        crf.loss_,
        kept,
        start,
        optimizer=crf.optimizer,
        l1=crf.l1,
        tol=crf.tol,
        max_iters=crf.max_iters,
        callback=crf.callback,
        progress=crf.progress,
        checkpoint=crf.checkpoint,
        seed=crf.seed,
        validation=held,
        patience=crf.patience,
    )


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


def _start(crf: CRF, instances: list[Instance] | Stream) -> Floats:
    """Return the weights that ``init`` asks for."""
    return np.zeros(crf.template_.n_weights)
