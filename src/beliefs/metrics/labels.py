"""scikit-learn's metrics on structured labels: all labelled variables of all instances count as one long list.

Labels are integers, -1 where unknown, or words, None where unknown; one array an instance, of any shape. What is
unknown is left out. The numbers are scikit-learn's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from beliefs.errors import ModelError

__all__ = ["classification_report", "flat_f1", "flattened"]


def flattened(labels: Any, predictions: Any) -> tuple[list[Any], list[Any]]:
    """Return the known labels of all instances and what was predicted for them, as two flat lists."""
    truth, found = _instances(labels, "labels"), _instances(predictions, "predictions")
    if len(truth) != len(found):
        raise ModelError(f"there are labels of {len(truth)} instances and predictions of {len(found)}")
    for k, (one, two) in enumerate(zip(truth, found, strict=True)):
        if len(one) != len(two):
            raise ModelError(f"instance {k}: there are {len(one)} labels and {len(two)} predictions")
    pairs = [pair for one, two in zip(truth, found, strict=True) for pair in zip(one, two, strict=True)]
    known = [(x, y) for x, y in pairs if x is not None and not (not isinstance(x, str) and x == -1)]
    if not known:
        raise ModelError("no variable has a label to compare with")
    return [x for x, _ in known], [y for _, y in known]


def _instances(values: Any, what: str) -> list[list[Any]]:
    """Return the labels of each instance as a flat list; a single array is one instance."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        hint = "; scoring= takes metrics.scorer(name)" if hasattr(values, "predict") else ""
        raise ModelError(f"{what} must be an array or a list of arrays, found {type(values).__name__}{hint}")
    arrays = [values] if isinstance(values, np.ndarray) and values.dtype != object else list(values)
    if arrays and not any(isinstance(a, list | tuple | np.ndarray) for a in arrays):
        arrays = [arrays]
    return [np.asarray(a, object).ravel().tolist() for a in arrays]


def flat_f1(labels: Any, predictions: Any, average: Any = "weighted", **options: Any) -> Any:
    """Return scikit-learn's ``f1_score`` of all labelled variables; options are passed on.

    Examples
    --------
    >>> round(flat_f1([["A", "B"], ["A", None]], [["A", "A"], ["A", "B"]], average="macro"), 3)
    0.4
    """
    from sklearn.metrics import f1_score

    options.setdefault("zero_division", 0.0)
    found = f1_score(*flattened(labels, predictions), average=average, **options)
    return found if isinstance(found, np.ndarray) else float(found)


def classification_report(labels: Any, predictions: Any, **options: Any) -> Any:
    """Return scikit-learn's report of precision, recall and F1 by class, of all labelled variables."""
    from sklearn.metrics import classification_report as report

    options.setdefault("zero_division", 0.0)
    return report(*flattened(labels, predictions), **options)
