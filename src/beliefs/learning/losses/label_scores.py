"""The score of the labels, checked: losses that compare it with something need it to be finite."""

from __future__ import annotations

import numpy as np

from beliefs.errors import ZeroProbabilityError
from beliefs.learning.instances import Instance
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats, Ints

__all__ = ["known_labels", "label_score", "label_scores"]


def label_score(graph: FactorGraph, instance: Instance) -> float:
    """Return the sum of the potentials at the labels, over factors whose labels are all known.

    Raises a :class:`~beliefs.errors.ZeroProbabilityError` where a hard zero excludes the labels.
    """
    return float(label_scores(graph, instance).sum())


def label_scores(graph: FactorGraph, instance: Instance) -> Floats:
    """Return the potential of each factor at the labels, ``(n_factors,)``, 0 where one is hidden; raises likewise."""
    cells = instance.label_cells
    scores: Floats = np.where(cells >= 0, graph.theta[cells], 0.0) if cells.size else np.zeros(0)
    if scores.size and scores.min() == -np.inf:
        f = int(np.argmin(scores))
        scope = ", ".join(str(v) for v in instance.layout.scope(f))
        raise ZeroProbabilityError(
            f"{instance.name}: the labels of variables {scope} have a potential of zero (factor {f}); "
            "no weights can make such labels likely, so correct the labels or drop the hard zero"
        )
    return scores


def known_labels(instance: Instance) -> Ints:
    """Return a writeable copy of the labels; kernels are compiled for that type."""
    return np.array(instance.labels, np.int64)
