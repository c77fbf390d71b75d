"""Fits in stages, each starting from the weights of the one before.

The schedule of the papers for large sets of images begins with few instances and many iterations, then doubles the
instances and halves the iterations, so that most steps are cheap and all data is seen ([domke2013] section 8.4). A loss
with many local minima, such as smoothed classification, starts from the solution of another loss the same way.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from beliefs.driver import Status
from beliefs.errors import ModelError
from beliefs.inference.base import written
from beliefs.learning.data import Data, first_ones
from beliefs.learning.fit import fit
from beliefs.learning.instances import Instance
from beliefs.learning.result import FitResult
from beliefs.options import check_integer

__all__ = ["Doubling", "Stage", "fit_stages"]


@dataclass(frozen=True, eq=False)
class Stage:
    """A loss, the number of instances it sees (None: all; the first ones of the list) and its iterations."""

    loss: Any
    n_instances: int | None = None
    max_iters: int | None = None


def fit_stages(
    stages: Sequence[Stage], instances: Sequence[Instance] | Data, weights: ArrayLike | None = None, **options: Any
) -> list[FitResult]:
    """Fit stage after stage and return all results; the last one's weights are the answer.

    ``options`` are those of :func:`~beliefs.learning.fit.fit`. A time limit holds for all stages together. A checkpoint
    ``fit.npz`` becomes one file a stage, ``fit.0.npz``, ``fit.1.npz``, ...; a fit that is begun again passes quickly
    through the stages that were finished. A callback that stops one stage stops the whole.
    """
    if not stages:
        raise ModelError("there must be at least one stage")
    if not isinstance(instances, Sequence | Data):
        raise ModelError("stages take parts of the instances: give a list")
    started, limit, path = time.perf_counter(), options.pop("time_limit", None), options.pop("checkpoint", None)
    results: list[FitResult] = []
    for k, stage in enumerate(stages):
        part = instances if stage.n_instances is None else first_ones(instances, stage.n_instances)
        given = dict(options)
        if stage.max_iters is not None:
            given["max_iters"] = stage.max_iters
        if limit is not None:
            given["time_limit"] = max(limit - (time.perf_counter() - started), 0.0)
        if path is not None:
            stem, suffix = os.path.splitext(os.fspath(path))
            given["checkpoint"] = f"{stem}.{k}{suffix}"
        results.append(fit(stage.loss, part, results[-1].weights if results else weights, **given))
        if results[-1].status is Status.TIME_LIMIT or results[-1].was_stopped:
            break
    return results


@dataclass(frozen=True, kw_only=True, repr=False)
class Doubling:
    """Few instances and many iterations first; then twice the instances and half the iterations, up to all.

    Parameters
    ----------
    start : int
        Instances of the first stage.
    max_iters : int
        Iterations of the first stage.

    Examples
    --------
    >>> Doubling().stages(400)
    [(32, 1000), (64, 500), (128, 250), (256, 125), (400, 62)]
    """

    start: int = 32
    max_iters: int = 1000

    name: ClassVar[str] = "doubling"

    def __post_init__(self) -> None:
        for option in ("start", "max_iters"):
            check_integer(option, getattr(self, option), 1)

    def stages(self, n: int) -> list[tuple[int, int]]:
        """Return the stages for ``n`` instances: how many are used, and for how many iterations."""
        size, iterations, found = self.start, self.max_iters, []
        while size < n:
            found.append((size, iterations))
            size, iterations = 2 * size, max(iterations // 2, 1)
        return [*found, (n, iterations)]

    def fit(
        self, loss: Any, instances: Sequence[Instance] | Data, weights: ArrayLike | None = None, **options: Any
    ) -> list[FitResult]:
        """Fit stage after stage; see :func:`fit_stages`. ``max_iters`` is the schedule's."""
        if not isinstance(instances, Sequence | Data):
            raise ModelError("the doubling schedule takes parts of the instances: give a list")
        parts = [Stage(loss, size, iterations) for size, iterations in self.stages(len(instances))]
        return fit_stages(parts, instances, weights, **options)

    def __repr__(self) -> str:
        return written(self)
