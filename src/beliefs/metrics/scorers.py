"""Metrics as scikit-learn's searches take them: ``GridSearchCV(crf, grid, scoring=bl.metrics.scorer("chunk_f1"))``.

A scorer is called with an estimator, inputs and labels; more is better. Losses come with a minus, named as scikit-learn
names them (``neg_log_loss``). Scorers can be pickled, so a search may run in several processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.metrics.answers import accuracy, brier_score, log_loss
from beliefs.metrics.chunks import chunk_f1
from beliefs.metrics.labels import flat_f1
from beliefs.options import suggestion

__all__ = ["SCORERS", "Scorer", "scorer"]


@dataclass(frozen=True)
class Scorer:
    """A metric of what an estimator predicts."""

    name: str
    metric: Callable[..., float]
    answer: str = "predict"
    sign: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, estimator: Any, X: Any, Y: Any) -> float:
        """Return how good the estimator's answers are; more is better."""
        found = getattr(estimator, self.answer)(X)
        truth = Y if self.answer == "predict" else _numbered(Y, estimator.classes_)
        return self.sign * float(self.metric(truth, found, **self.options))

    def __repr__(self) -> str:
        return f"scorer({self.name!r})"


SCORERS: tuple[Scorer, ...] = (
    Scorer("accuracy", accuracy),
    Scorer("flat_f1", flat_f1),
    Scorer("flat_f1_macro", flat_f1, options={"average": "macro"}),
    Scorer("chunk_f1", chunk_f1),
    Scorer("chunk_f1_macro", chunk_f1, options={"average": "macro"}),
    Scorer("neg_log_loss", log_loss, "predict_proba", -1),
    Scorer("neg_brier_score", brier_score, "predict_proba", -1),
)


def _numbered(Y: Any, classes: Any) -> Any:
    """Return labels as numbers of classes, -1 where unknown, as metrics of probabilities take them."""
    if classes.dtype.kind in "iu":
        return Y
    number = {label: k for k, label in enumerate(classes.tolist())}
    return [np.array([number.get(label, -1) for label in np.ravel(y).tolist()]).reshape(np.shape(y)) for y in Y]


def scorer(name: str) -> Scorer:
    """Return the scorer of this name.

    Examples
    --------
    >>> scorer("chunk_f1")
    scorer('chunk_f1')
    """
    for one in SCORERS:
        if one.name == name:
            return one
    known = [one.name for one in SCORERS]
    raise ModelError(f"no scorer {name!r}{suggestion(str(name), known)} (known: {', '.join(known)})")
