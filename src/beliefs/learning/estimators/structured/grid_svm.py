"""Structured support vector machines on images, with the inputs of :class:`GridCRF`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from beliefs.learning.estimators.structured.grid import GridCRF
from beliefs.learning.estimators.structured.svm import SVM

__all__ = ["GridSVM"]


@dataclass(kw_only=True, eq=False, repr=False)
class GridSVM(SVM, GridCRF):
    """A max-margin model of images; inputs and the options of grids are those of :class:`GridCRF`.

    ``inference=None`` is exact and certifies more; it suits images one side of which has few pixels.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = np.zeros((6, 6), int)
    >>> truth[2:5, 2:5] = 1
    >>> X = [truth + 0.6 * rng.normal(size=truth.shape) for _ in range(5)]
    >>> svm = GridSVM(C=1.0, inference=None).fit(X, [truth] * 5)
    >>> svm.predict(X)[0].shape, svm.score(X, [truth] * 5) > 0.85
    ((6, 6), True)
    """

    _learned_names: ClassVar[tuple[str, ...]] = (*GridCRF._learned_names, *SVM._of_the_fit)
