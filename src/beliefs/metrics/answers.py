r"""How good predictions are: errors of labels, losses of marginals, and distances between two answers.

Labels are int arrays of any shape, -1 where unknown (``error_rate`` and ``accuracy`` also take words, None where
unknown); predictions have their shape, marginals one more axis, the last,
for the states. Lists of them (one a graph, image or sequence) count as one long array, so that every labelled variable
counts alike. With :math:`\hat x_i` the label of variable i and :math:`\mu_i` its predicted marginal
([domke2013] section 4.2; [domke2008]):

===================  ====================================================================
``error_rate``       mean of :math:`[\,x_i \ne \hat x_i\,]`; ``accuracy`` is one minus it
``log_loss``         mean of :math:`-\log \mu_i(\hat x_i)`
``quadratic_loss``   mean of :math:`-2\mu_i(\hat x_i) + \sum_k \mu_i(k)^2`
``brier_score``      mean of :math:`\sum_k ([k = \hat x_i] - \mu_i(k))^2`, one more than the quadratic loss
``squared_error``    half of that; of two states :math:`(\hat x_i - \mu_i(1))^2`, the regression error
``mean_error``       mean of :math:`(\hat x_i - m_i)^2` for predicted means :math:`m_i`
===================  ====================================================================

Two answers about one model are compared by ``log_z_error``, :math:`|\log Z - \log \tilde Z|`, and by
``marginal_error``, the mean over variables of :math:`\sum_x |\mu_i(x) - \tilde\mu_i(x)|` [gelfand2014].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.typing import Floats, Ints

__all__ = [
    "accuracy",
    "brier_score",
    "confusion",
    "error_rate",
    "log_loss",
    "log_z_error",
    "marginal_error",
    "mean_error",
    "quadratic_loss",
    "squared_error",
]

Arrays: TypeAlias = ArrayLike | Sequence[ArrayLike] | Iterable[ArrayLike]
"""One array, or a list of arrays whose shapes may differ."""

_FLOOR = 1e-300  # marginals are taken for at least this in logs, so that a wrong certainty costs 690 nats, not inf


def error_rate(labels: Arrays, predictions: Arrays, where: ArrayLike | None = None) -> float:
    """Return the share of labelled variables that are predicted wrongly.

    ``where``, for labels in one array, is a mask of those that count: with ``where=X != V`` the error on bits that were
    changed.

    Examples
    --------
    >>> error_rate([[0, 1, -1], [2]], [[0, 0, 1], [2]])
    0.3333333333333333
    >>> error_rate(np.array([0, 1, 1]), np.array([0, 0, 1]), where=[False, True, True])
    0.5
    """
    if where is not None:
        labels, predictions = _masked(labels, predictions, where)
    truth, found = _labels_and(*_numbered(labels, predictions), "predictions")
    return float(np.mean(truth != found))


def _masked(labels: Arrays, predictions: Arrays, where: ArrayLike) -> tuple[Arrays, Arrays]:
    """Return the entries of two arrays that count."""
    truth, found, mask = np.asarray(labels), np.asarray(predictions), np.asarray(where)
    if mask.dtype.kind != "b" or mask.shape != truth.shape:
        raise ModelError(f"where must be a mask of shape {truth.shape}, found {mask.dtype} of shape {mask.shape}")
    if found.shape != truth.shape:
        raise ModelError(f"predictions have shape {found.shape}, labels have {truth.shape}")
    if not mask.any():
        raise ModelError("where leaves nothing to compare")
    return truth[mask], found[mask]


def accuracy(labels: Arrays, predictions: Arrays) -> float:
    """Return the share of labelled variables that are predicted rightly."""
    truth, found = _labels_and(*_numbered(labels, predictions), "predictions")
    return float(np.mean(truth == found))


def mean_error(labels: Arrays, means: Arrays) -> float:
    """Return the mean squared distance of predicted mean states from the labels."""
    truth, found = _labels_and(labels, means, "means")
    return float(np.mean((truth - found) ** 2))


def log_loss(labels: Arrays, marginals: Arrays) -> float:
    """Return the mean of minus the log probability of the label; probabilities count as at least 1e-300."""
    truth, mu = _labels_and_marginals(labels, marginals)
    return float(-np.mean(np.log(np.maximum(_at(mu, truth), _FLOOR))))


def quadratic_loss(labels: Arrays, marginals: Arrays) -> float:
    """Return the mean of minus twice the probability of the label plus the sum of squared probabilities."""
    truth, mu = _labels_and_marginals(labels, marginals)
    return float(np.mean((mu**2).sum(axis=1) - 2.0 * _at(mu, truth)))


def brier_score(labels: Arrays, marginals: Arrays) -> float:
    """Return the mean squared distance of the marginals from the point masses of the labels."""
    truth, mu = _labels_and_marginals(labels, marginals)
    off = mu.copy()
    off[np.arange(truth.size), truth] -= 1.0
    return float(np.mean((off**2).sum(axis=1)))


def squared_error(labels: Arrays, marginals: Arrays) -> float:
    """Return half the Brier score; of two states the mean of (label - probability of state 1) squared."""
    return 0.5 * brier_score(labels, marginals)


def log_z_error(result: Any, truth: Any) -> float:
    """Return how far two values of log Z are apart, each a result of ``infer`` or a number.

    Examples
    --------
    >>> log_z_error(2.5, 3.0)
    0.5
    """
    one, other = (float(getattr(answer, "log_z", answer)) for answer in (result, truth))
    if not np.isfinite([one, other]).all():
        raise ModelError(f"log_z_error needs finite values of log Z, found {one} and {other}")
    return abs(one - other)


def marginal_error(result: Any, truth: Any) -> float:
    """Return the mean over unobserved variables of the L1 distance between their marginals in two results."""
    layout, other = result.graph.layout, truth.graph.layout
    if not (np.array_equal(layout.card, other.card) and np.array_equal(layout.observed, other.observed)):
        raise ModelError("marginal_error compares results of one model; these differ in their variables or evidence")
    hidden = ~layout.observed
    apart = np.abs(result.mu_var - truth.mu_var) if hidden.any() else np.zeros(0)
    return float(np.add.reduceat(apart, layout.state_ptr[:-1])[hidden].mean()) if hidden.any() else 0.0


def confusion(labels: Arrays, predictions: Arrays, n_states: int | None = None) -> Ints:
    """Return how often each label (row) was predicted as each state (column).

    Examples
    --------
    >>> confusion([0, 1, 1, -1], [0, 0, 1, 1])
    array([[1, 0],
           [1, 1]])
    """
    truth, found = (a.astype(np.int64) for a in _labels_and(labels, predictions, "predictions"))
    least = int(max(truth.max(), found.max())) + 1
    if n_states is not None and n_states < least:
        raise ModelError(f"state {least - 1} occurs, but n_states is {n_states}")
    if found.min() < 0:
        raise ModelError(f"predictions must be states from 0 on, found {found.min()}")
    k = n_states or least
    return np.bincount(truth * k + found, minlength=k * k).reshape(k, k).astype(np.int64)


# -- reading the arguments ------------------------------------------------------------------------------------------
def _numbered(labels: Arrays, predictions: Arrays) -> tuple[Any, Any]:
    """Return both with numbers for words, -1 for None."""
    numbers: dict[str, int] = {}

    def coded(values: Any) -> Any:
        if isinstance(values, list | tuple) and any(isinstance(v, list | tuple | np.ndarray) for v in values):
            return [coded(v) for v in values]
        array = np.asarray(values)
        if not (array.size and array.dtype.kind in "UO" and all(v is None or isinstance(v, str) for v in array.flat)):
            return values
        found = [-1 if v is None else numbers.setdefault(v, len(numbers)) for v in array.flat]
        return np.array(found, np.int64).reshape(array.shape)

    return (coded(labels), coded(predictions)) if _has_words(labels) else (labels, predictions)


def _has_words(values: Any) -> bool:
    """Whether there is a word among labels, or among the labels of one of their arrays."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return bool(values.dtype.kind == "U")
    within = isinstance(values, list | tuple | np.ndarray)
    return within and any(isinstance(v, str) or _has_words(v) for v in values)


def _labels_and(labels: Arrays, values: Arrays, what: str) -> tuple[Ints, Floats]:
    """Return the known labels and what was predicted for them, flat."""
    pairs = _paired(labels, values, what)
    for k, (truth, found) in enumerate(pairs):
        if truth.shape != found.shape:
            raise ModelError(f"instance {k}: {what} have shape {found.shape}, labels have {truth.shape}")
    return _known(pairs, lambda found: found.reshape(-1), what)


def _labels_and_marginals(labels: Arrays, marginals: Arrays) -> tuple[Ints, Floats]:
    """Return the known labels and their marginals ``(n, n_states)``."""
    pairs = _paired(labels, marginals, "marginals")
    for k, (truth, mu) in enumerate(pairs):
        if mu.ndim != truth.ndim + 1 or mu.shape[:-1] != truth.shape:
            raise ModelError(f"instance {k}: marginals have shape {mu.shape}, expected {truth.shape} and the states")
    if len({mu.shape[-1] for _, mu in pairs}) > 1:
        raise ModelError("marginals of different instances have different numbers of states")
    truth, mu = _known(pairs, lambda mu: mu.reshape(-1, mu.shape[-1]), "marginals")
    if truth.max() >= mu.shape[1]:
        raise ModelError(f"label {truth.max()} occurs, but the marginals have {mu.shape[1]} states")
    return truth, mu


def _known(pairs: list[tuple[Any, Any]], flat: Any, what: str) -> tuple[Ints, Floats]:
    truth = np.concatenate([t.reshape(-1) for t, _ in pairs])
    found = np.concatenate([flat(f) for _, f in pairs])
    known = truth >= 0
    if not known.any():
        raise ModelError("no variable has a label to compare with")
    found = found[known].astype(np.float64)
    if not np.isfinite(found).all():
        raise ModelError(f"{what} must be finite numbers")
    return truth[known].astype(np.int64), found


def _paired(labels: Arrays, values: Arrays, what: str) -> list[tuple[Any, Any]]:
    """Return one pair of arrays an instance."""
    for given, name in ((labels, "labels"), (values, what)):
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ModelError(f"{name} must be an array or a list of arrays, found {type(given).__name__}")
    truths = _instances(labels)
    founds = [np.asarray(values)] if truths is None else [np.asarray(v) for v in values]  # type: ignore[union-attr]
    truths = [np.asarray(labels)] if truths is None else truths
    if len(truths) != len(founds):
        raise ModelError(f"there are labels of {len(truths)} instances and {what} of {len(founds)}")
    for k, truth in enumerate(truths):
        if truth.size and truth.dtype.kind not in "iub":
            raise ModelError(f"instance {k}: labels must be integers, found {truth.dtype}")
    return list(zip(truths, founds, strict=True))


def _instances(labels: Any) -> list[Any] | None:
    """Return the arrays of a list of arrays; None for one plain array or flat list of numbers."""
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return None
    items = [np.asarray(item) for item in labels]
    return None if all(item.ndim == 0 for item in items) else items


def _at(mu: Floats, truth: Ints) -> Floats:
    return mu[np.arange(truth.size), truth]
