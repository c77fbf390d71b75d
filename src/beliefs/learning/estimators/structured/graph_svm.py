"""Structured support vector machines on any graph, with the inputs of :class:`GraphCRF`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from beliefs.learning.estimators.structured.graph import GraphCRF
from beliefs.learning.estimators.structured.svm import SVM

__all__ = ["GraphSVM"]


@dataclass(kw_only=True, eq=False, repr=False)
class GraphSVM(SVM, GraphCRF):
    """A max-margin model of graphs; inputs and the options of graphs are those of :class:`GraphCRF`.

    A graph without edges is the multiclass machine of Crammer and Singer, one with ``"hidden"`` vertices a latent or
    marginal structured machine. Prefer ``inference=None``, which is exact, where graphs are narrow: messages may stop
    short even on a chain whose every second vertex is hidden.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> edges, hidden = np.array([[0, 1], [1, 2]]), np.array([False, True, False])
    >>> Y = [np.array([k, -1, k]) for k in rng.integers(2, size=20)]
    >>> X = [{"unary": y[:, None] + rng.normal(size=(3, 1)), "edges": edges, "hidden": hidden} for y in Y]
    >>> svm = GraphSVM(n_hidden_states=3, inference=None).fit(X, Y)
    >>> svm.predict(X)[0].tolist()[1], svm.predict_latent(X)[0].tolist()[1] in (0, 1, 2)
    (-1, True)
    """

    _learned_names: ClassVar[tuple[str, ...]] = (*GraphCRF._learned_names, *SVM._of_the_fit)
