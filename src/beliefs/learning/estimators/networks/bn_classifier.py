"""A scikit-learn classifier whose joint model of features and class is a Bayesian network.

>>> import numpy as np
>>> X, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5), np.array(["even", "odd", "odd", "even"] * 5)
>>> BNClassifier("tan").fit(X, y).predict(X[:2]).tolist()
['even', 'odd']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_X_y, column_or_1d, validate_data

from beliefs.errors import ModelError
from beliefs.learning.estimators.describing import DescribedEstimator
from beliefs.learning.estimators.networks.bayes_net import BNLearner
from beliefs.learning.estimators.networks.options import given_states
from beliefs.learning.estimators.unchanged import unchanged_by_errors
from beliefs.learning.networks.structure import given_network
from beliefs.model.rows.columns import CodedColumn
from beliefs.model.rows.reading import read_rows
from beliefs.model.rows.table import RowTable
from beliefs.options import check_option
from beliefs.typing import Floats

__all__ = ["BNClassifier"]


@dataclass(eq=False, repr=False)
class BNClassifier(DescribedEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predict a class from discrete features by a network over all of them.

    Features are codes 0, 1, ... without negative ones, of which fractions are cut off as scikit-learn's
    ``CategoricalNB`` does, or a pandas frame with categories or words, whose missing cells are summed out.

    Parameters
    ----------
    structure : str, BayesianNetwork, arcs or mapping
        ``"tan"``, ``"naive_bayes"``, or as of :class:`~beliefs.learning.estimators.networks.bayes_net.BNLearner`;
        features are called ``x0, x1, ...`` or by their columns.
    prior, estimate, seed, n_jobs
        As of ``BNLearner``.
    target : str
        The name of the class among the variables.
    states : mapping, optional
        States of features, in order, of which some may be met after the fit only: ``{"x4": ["0", "1"]}``. Otherwise
        they are those of the categories of a frame, and those that occur.

    Attributes
    ----------
    classes_ : ndarray
    model_ : BayesianNetwork
    learner_ : BNLearner
    """

    structure: Any = "tan"
    prior: Any = "bdeu(ess=10)"
    estimate: str = "mean"
    target: str = "y"
    n_jobs: int | None = None
    seed: int | None = None
    states: Any = None

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to features ``(n, d)`` and classes ``(n,)``; an error or Ctrl-C leaves the classifier as it was."""
        with unchanged_by_errors(self):
            return self._fitted(X, y, sample_weight)

    def _fitted(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Self:
        check_option(isinstance(self.target, str), "target", "the name of the class", self.target)
        table, classes = self._training_rows(X, y)
        found, codes = np.unique(classes, return_inverse=True)
        network = given_network(self.structure)
        labels = tuple(map(str, found))
        if network is not None:  # the class's states are the network's
            labels = network.graph.naming.states(network.index(self.target))
            found, codes = np.array(labels), np.array([labels.index(str(c)) for c in classes])
        columns = {name: CodedColumn(table.codes[c], table.labels[c], table.missing) for c, name in
                   enumerate(table.names)}  # fmt: skip
        columns[self.target] = CodedColumn(codes.astype(np.int64), labels, -1)
        learner = BNLearner(
            self.structure, self.prior, self.estimate, target=self.target, n_jobs=self.n_jobs, seed=self.seed
        ).fit(columns, sample_weight)
        self.classes_, self.learner_, self.model_ = found, learner, learner.model_
        self.labels_ = dict(zip(table.names, table.labels, strict=True))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the posterior of the classes, ``(n, n_classes)``."""
        check_is_fitted(self, "learner_")
        table = self._rows(X)
        columns = {name: CodedColumn(table.codes[c], table.labels[c], table.missing) for c, name in
                   enumerate(table.names)}  # fmt: skip
        columns[self.target] = CodedColumn(np.full(table.n_rows, -1), self.model_.graph.naming.states(
            self.model_.index(self.target)), -1)  # fmt: skip
        return self.learner_.predict_proba(columns, self.target)

    def predict(self, X: Any) -> np.ndarray:
        """Return the likeliest class of each row."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def _training_rows(self, X: Any, y: Any) -> tuple[RowTable, np.ndarray]:
        if _has_words(X):
            validate_data(self, X, skip_check_array=True)
            classes = column_or_1d(y, warn=True)
            table = read_rows(X, states=given_states(self.states))
            check_X_y(np.zeros((table.n_rows, 1)), classes, dtype=None)
        else:
            values, classes = validate_data(self, X, y, dtype=None)
            table = read_rows(self._columns(values), states=given_states(self.states))
        check_classification_targets(classes)
        return table, classes

    def _rows(self, X: Any) -> RowTable:
        if _has_words(X):
            validate_data(self, X, skip_check_array=True, reset=False)
            columns = {str(name): X[name] for name in X.columns}
        else:
            columns = self._columns(validate_data(self, X, dtype=None, reset=False))
        return read_rows(columns, states=self.labels_)

    def _columns(self, values: np.ndarray) -> dict[str, Any]:
        if values.dtype.kind in "OUS":
            try:
                values = values.astype(np.float64)
            except ValueError:
                raise ModelError("an array holds words, not states 0, 1, ...; give a data frame of words") from None
        if values.dtype.kind in "if" and values.size and values.min() < 0:
            raise ValueError(f"Negative values in data passed to {type(self).__name__}; states are 0, 1, ...")
        if values.dtype.kind not in "iu":
            values = values.astype(np.int64)  # as CategoricalNB takes them
        names = getattr(self, "feature_names_in_", [f"x{c}" for c in range(values.shape[1])])
        return {str(name): values[:, c] for c, name in enumerate(names)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        return tags


def _has_words(X: Any) -> bool:
    """Whether X is a frame with a column that is not of plain numbers."""
    return hasattr(X, "columns") and not all(isinstance(kind, np.dtype) and kind.kind in "iuf" for kind in X.dtypes)
