"""From options and instances to weights: the loss, the place to start, and the optimiser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.estimators.examples import Stream
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import Loss
from beliefs.typing import Floats

if TYPE_CHECKING:
    from beliefs.learning.estimators.base import CRF

__all__ = ["fitted", "loss_of"]


def loss_of(crf: CRF, text: Any) -> Loss:
    """Return the loss meant by a text, through the inference of an estimator."""
    from beliefs.learning.losses.registry import make_loss

    loss: Loss = make_loss(
        text,
        template=crf.template_,
        method=crf._method,
        n_sweeps=crf.n_sweeps,
        gradient=crf.gradient,
        tol=crf.inference_tol,
        l2=crf.l2,
        threads=crf._threads,
    )
    return loss


def fitted(crf: CRF, instances: list[Instance] | Stream, before: Floats | None) -> Any:
    """Return the result of fitting an estimator's loss to instances, from ``before`` if there are such weights."""
    from beliefs.learning.fit import fit

    start = before if before is not None else _start(crf, instances)
    if start.shape != (crf.template_.n_weights,):
        raise ModelError(f"the weights to start from must have shape ({crf.template_.n_weights},), found {start.shape}")
    return fit(
        crf.loss_,
        instances,
        start,
        optimizer=crf.optimizer,
        l1=crf.l1,
        max_iters=crf.max_iters,
        callback=crf.callback,
        checkpoint=crf.checkpoint,
        progress=crf.progress,
    )


def _start(crf: CRF, instances: list[Instance] | Stream) -> Floats:
    """Return the weights that ``init`` asks for."""
    return np.zeros(crf.template_.n_weights)
