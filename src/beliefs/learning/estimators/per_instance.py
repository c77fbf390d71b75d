"""Transformers of rows for lists of instances: scikit-learn's own work on tokens and pixels, in a ``Pipeline``.

scikit-learn's transformers take one table of rows; here an input is an array of rows (tokens, vertices, pixels), and X
is a list of them. So the rows of all instances are fitted as one table, and every instance is transformed by itself:
``make_pipeline(PerInstance(StandardScaler()), ChainCRF())``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from beliefs.errors import ModelError

__all__ = ["PerInstance"]


class PerInstance(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Apply a transformer of rows to every instance.

    An instance is an array whose last axis holds features (``(T, D)`` of a sequence, ``(rows, cols, D)`` of an image),
    a sparse matrix, a list of dicts (for ``DictVectorizer``), or a tuple or dict whose first part, or ``"features"``,
    is one; all else of it stays as it is. An image without an axis of features needs one, ``image[..., None]``.

    Parameters
    ----------
    transformer : transformer of scikit-learn
        It is cloned, and fitted to the rows of all instances together.

    Attributes
    ----------
    transformer_ : the fitted transformer

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = [np.array([[0.0], [2.0]]), np.array([[4.0]])]
    >>> [x.ravel().round(2).tolist() for x in PerInstance(StandardScaler()).fit_transform(X)]
    [[-1.22, 0.0], [1.22]]
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the transformer to the rows of all instances; labels are not looked at."""
        instances = _listed(X)
        if not instances:
            raise ModelError("there is no instance; give at least one")
        rows = [_rows(_features(x), k) for k, x in enumerate(instances)]
        self.transformer_ = clone(self.transformer).fit(_stacked(rows))
        return self

    def transform(self, X: Any) -> list[Any]:
        """Return every instance with its rows transformed, in its own shape."""
        check_is_fitted(self)
        return [self._transformed(x, k) for k, x in enumerate(_listed(X))]

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns that come out, where the transformer knows them."""
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def _transformed(self, x: Any, number: int) -> Any:
        features = _features(x)
        out = self.transformer_.transform(_rows(features, number))
        shape = getattr(features, "shape", ())
        if len(shape) > 2:
            out = np.asarray(out.toarray() if hasattr(out, "toarray") else out).reshape(*shape[:-1], -1)
        if isinstance(x, tuple):
            return (out, *x[1:])
        return {**x, "features": out} if isinstance(x, Mapping) else out


def _listed(X: Any) -> list[Any]:
    if isinstance(X, str) or not isinstance(X, Iterable):
        raise ModelError(f"X must be a list of instances, found {type(X).__name__}")
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype != object:
        raise ModelError(f"X is one table of shape {X.shape}; pass a list of inputs, [X]")
    return list(X)


def _features(x: Any) -> Any:
    """Return the part of an instance that has a row a variable."""
    if isinstance(x, tuple):
        return x[0]
    return x["features"] if isinstance(x, Mapping) and "features" in x else x


def _rows(features: Any, number: int) -> Any:
    """Return features as a table of rows."""
    if hasattr(features, "tocsr") or (isinstance(features, list) and features and isinstance(features[0], Mapping)):
        return features
    array = np.asarray(features)
    if array.ndim < 2:
        raise ModelError(f"instance {number}: expected rows of features, found an array of shape {array.shape}")
    return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])


def _stacked(rows: list[Any]) -> Any:
    """Return the rows of all instances as one table."""
    if all(isinstance(r, list) for r in rows):
        return [row for r in rows for row in r]
    if any(hasattr(r, "tocsr") for r in rows):
        from scipy.sparse import vstack

        return vstack(rows).tocsr()
    widths = {r.shape[1] for r in rows}
    if len(widths) > 1:
        raise ModelError(f"instances have different numbers of features: {sorted(widths)}")
    return np.concatenate(rows)
