"""What every estimator is: parameters, a fit that leaves it whole, labels, files.

An estimator turns examples into data that a loss evaluates (:meth:`Estimator._data`, :meth:`Estimator._loss`) and
predicts; the options of the fit, the classes and the score are here, files in
:mod:`beliefs.learning.estimators.storage`. What a conditional random field adds, a template, inference and its
marginals, is in :mod:`beliefs.learning.estimators.structured.crf`.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from beliefs.errors import ModelError
from beliefs.learning.batches import BatchLoss
from beliefs.learning.data import LabelledData
from beliefs.learning.estimators.examples import Examples
from beliefs.learning.estimators.fitting import FitOptions, Start, divided, fitted
from beliefs.learning.estimators.labels import Classes, label_array
from beliefs.learning.estimators.storage import Learned, StoredEstimator
from beliefs.learning.estimators.unchanged import unchanged_by_errors
from beliefs.learning.instances import HIDDEN
from beliefs.learning.parallel import Executor, executor_of, threads_of
from beliefs.options import check_integer, check_option, is_number
from beliefs.typing import Bools, Floats

__all__ = ["MOST_STATES", "DataForm", "Estimator"]

L = TypeVar("L", bound=BatchLoss)
MOST_STATES = 10**5  # weights of pairs grow with their square


@dataclass(frozen=True)
class DataForm:
    """What a data file holds of one instance: the shapes of ``X`` and ``Y``, and further arrays by name.

    ``further_shown`` says it of those in the docs; ``shared`` has the axes of those that one instance has and all may
    share. ``files`` says what else data may be: ``"images"``, a folder of them, or ``"tokens"``, a table.
    """

    x: str
    y: str
    further: tuple[str, ...] = ()
    further_shown: str = ""
    shared: Mapping[str, int] = field(default_factory=dict)
    files: str = ""


@dataclass(kw_only=True, eq=False, repr=False)
class Estimator(StoredEstimator, Generic[L]):
    """Base of all estimators.

    Parameters
    ----------
    l2, l1 : float
        Ridge and lasso, relative to the loss per labelled variable.
    optimizer : str
        ``"lbfgs"``, or ``"sgd"`` or ``"adam"`` for many instances.
    max_iters : int, optional
        Iterations (passes over the data for ``"sgd"`` and ``"adam"``) at most; None: the optimiser's own.
    tol : float, optional
        Largest entry of the gradient at which to stop; None: the optimiser's own.
    class_weight : None, "balanced" or dict
        Weight of each class in losses that are sums over variables.
    n_states : int, optional
        Number of states; None: as many as the labels need.
    init : str or array_like (n_weights,)
        Where to start: ``"zeros"``, ``"independent"`` (the model without edges, fitted first), the name of a loss to
        be fitted first, ``"random(scale=0.5)"`` (normal weights, seeded, for what touches hidden variables, and zeros),
        or weights; ``"auto"`` takes what the papers take for the loss, and a random start where some weights touch
        hidden variables alone.
    schedule : str, optional
        ``"doubling"`` begins with few instances and many iterations, then doubles the ones and halves the others;
        see :class:`~beliefs.learning.schedules.Doubling`.
    warm_start : bool
        Whether a second ``fit`` goes on from the weights of the first.
    checkpoint : path, optional
        File that is kept up to date while fitting, and from which an interrupted ``fit`` goes on.
    validation : float, optional
        Share of the instances held out; fitting stops when the loss on them has not improved for ``patience``
        iterations, and the best weights are kept.
    n_jobs : int, optional
        Instances worked on side by side: None means one, -1 all cores. It changes no byte of the answer.
    seed : int, optional
        Seed of everything random; None means 0.
    callback : callable, optional
        Called with a :class:`~beliefs.learning.result.FitProgress` after each iteration, also of fits that only find
        the start; an answer of True stops.
    progress : bool
        Whether to show loss, gradient and time left on standard error.

    Attributes
    ----------
    weights_ : ndarray (n_weights,)
    n_states_ : int
    classes_ : ndarray (n_states,)
        Names of the states: 0, 1, ... or words.
    class_counts_ : ndarray (n_states,)
        How often each occurs among the labels.
    loss_ : BatchLoss
    result_ : FitResult
        Status, loss and trace of the fit.
    """

    l2: float = 1e-3
    l1: float = 0.0
    optimizer: Any = "lbfgs"
    max_iters: int | None = None
    tol: float | None = None
    class_weight: Any = None
    n_states: int | None = None
    init: Any = "auto"
    schedule: Any = None
    warm_start: bool = False
    checkpoint: Any = None
    validation: float | None = None
    patience: int = 5
    n_jobs: int | None = None
    seed: int | None = None
    callback: Callable[..., Any] | None = None
    progress: bool = False

    data_form: ClassVar[DataForm]
    """What a file for the command line holds."""

    labelled: ClassVar[bool] = True
    """Whether it learns from labels, and predicts them."""

    option_names: ClassVar[Mapping[str, str]] = {}
    """Names of options of the command line that are called otherwise here."""

    _switches: ClassVar[tuple[str, ...]] = ()  # options that are True or False
    _learned_names: ClassVar[tuple[str, ...]] = ()  # what else belongs into a file: arrays or plain values

    # -- what a kind of estimator says ----------------------------------------------------------------------------
    @abstractmethod
    def _data(self, X: Any, Y: Any, sample_weight: ArrayLike | None) -> LabelledData:
        """Check all examples, learn classes and sizes from them, and return what the loss evaluates."""

    @abstractmethod
    def _loss(self) -> L:
        """Return the loss to be minimised, for what was learned of the data."""

    def _count(self, data: LabelledData) -> None:
        """Learn from the data to be fitted to what the loss must know of them."""

    def _conclude(self, data: LabelledData) -> None:
        """Say what else is known of a fit that has ended."""

    def _stage(self, text: str) -> BatchLoss:
        """Return the loss of a stage before the last, by its name."""
        raise ModelError(f"{type(self).__name__} has no stage {text!r}; init is auto, zeros or weights")

    def _touching_hidden(self, data: Any) -> Bools:
        """Return which weights a random start is for: those that touch hidden variables, all where there are none."""
        return np.ones(self._n_weights, np.bool_)

    @abstractmethod
    def predict(self, X: Any) -> list[np.ndarray]:
        """Return the labels of each input."""

    def _compared(self, X: Any) -> list[np.ndarray]:
        """Return the labels that :meth:`score` compares with the truth."""
        return self.predict(X)

    @classmethod
    @abstractmethod
    def tiny_data(cls) -> tuple[list[Any], list[Any]]:
        """Return a few very small inputs and their labels: what there is to compile is compiled by fitting them."""

    @classmethod
    def warm_up(cls) -> None:
        """Fit the tiny data, and ask."""
        X, Y = cls.tiny_data()
        cls(max_iters=2).fit(X, Y).predict(X)

    @classmethod
    def input_of(cls, x: np.ndarray, further: Sequence[np.ndarray | None]) -> Any:
        """Return an input made of the arrays of a file: ``X`` alone, or a tuple with those further ones there are."""
        given = [array for array in further if array is not None]
        return (x, *given) if given else x

    # -- fitting --------------------------------------------------------------------------------------------------
    def fit(self, X: Any, Y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the weights to inputs ``X`` and labels ``Y`` (-1 where hidden), one entry per instance each.

        Without ``Y``, ``X`` holds (input, labels) pairs, which are loaded when needed if it is not a list. An error
        or Ctrl-C leaves the estimator as it was.
        """
        with unchanged_by_errors(self):
            return self._fitted(X, Y, sample_weight)

    def _fitted(self, X: Any, Y: Any, sample_weight: ArrayLike | None) -> Self:
        self._check_options()
        before: Floats | None = getattr(self, "weights_", None) if self.warm_start else None
        data, held = divided(self._data(X, Y, sample_weight), self.validation, self.seed)
        self._count(data)
        self.loss_ = self._loss()
        start = Start(self._stage, self._touching_hidden, before)
        self.result_ = fitted(self._fit_options(data), self.loss_, data, held, start)
        self.weights_: Floats = self.result_.weights
        self._conclude(data)
        self.loss_.forget()  # unions of instances may be large
        return self

    def _fit_options(self, data: LabelledData) -> FitOptions:
        """Return how to fit to these data."""
        names = [f.name for f in fields(FitOptions) if f.name != "threads"]
        return FitOptions(threads=self._threads, **{name: getattr(self, name) for name in names})

    def _check_options(self) -> None:
        """Raise for options out of range, before any work."""
        check_integer("max_iters", self.max_iters, 0, none=True)
        check_integer("patience", self.patience, 1)
        check_integer("n_states", self.n_states, 2, MOST_STATES, none=True)
        for name in ("l2", "l1", "tol"):
            value = getattr(self, name)
            ok = (is_number(value) and 0 <= value < np.inf) or (value is None and name == "tol")
            check_option(ok, name, "a number of at least 0", value)
        for name in ("warm_start", "progress", *self._switches):
            value = getattr(self, name)
            check_option(isinstance(value, bool | np.bool_), name, "True or False", value)
        check_integer("seed", self.seed, 0, none=True)
        path = self.checkpoint
        check_option(path is None or isinstance(path, str | os.PathLike), "checkpoint", "the path of a file", path)
        held = self.validation
        check_option(held is None or (is_number(held) and 0 < held < 1), "validation", "between 0 and 1", held)

    # -- labels ---------------------------------------------------------------------------------------------------
    def score(self, X: Any, Y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of labelled variables whose label is predicted; instances may be weighted."""
        self._check_fitted()
        examples = list(Examples(X, Y, sample_weight))
        found = self._compared([example.x for example in examples])
        right = total = 0.0
        for example, labels in zip(examples, found, strict=True):
            truth, seen = self._truth(example.y, labels.shape, example.name)
            right += example.weight * int((np.asarray(truth == labels.ravel()) & seen).sum())
            total += example.weight * int(seen.sum())
        if not total > 0:
            raise ModelError("every label is hidden; there is nothing to compare predictions with")
        return float(right / total)

    def _truth(self, y: Any, shape: tuple[int, ...], name: str) -> tuple[np.ndarray, Bools]:
        """Return labels as they are predicted, flat, and which of them are known."""
        codes = Classes(self.classes_).codes(label_array(y, shape, name), name)
        return self._named(np.maximum(codes, 0)), codes != HIDDEN

    def _named(self, codes: np.ndarray) -> np.ndarray:
        """Return states as labels: words where the labels were words."""
        return codes if codes.dtype.kind == "f" or self.classes_.dtype.kind == "i" else self.classes_[codes]

    # -- files ----------------------------------------------------------------------------------------------------
    def _learned(self) -> Learned:
        """Return what a file keeps."""
        state = {name: getattr(self, name) for name in self._learned_names if hasattr(self, name)}
        return Learned(self.weights_, self.classes_, self.class_counts_, (), state)

    def _restore(self, learned: Learned) -> None:
        """Take up what a file has kept, where options and sizes allow it."""
        self._check_options()
        self.classes_, self.n_states_ = learned.classes, len(learned.classes)
        for name, value in learned.state.items():
            if name not in self._learned_names:
                raise ModelError(f"{name!r} is no name of something learned")
            setattr(self, name, value)
        self._restore_model(learned)
        n_weights = self._n_weights
        if learned.weights.shape != (n_weights,) or not np.isfinite(learned.weights).all():
            raise ModelError(f"expected {n_weights} finite weights, found {learned.weights.shape}")
        self.class_counts_ = learned.class_counts
        self.loss_ = self._loss()
        self.weights_ = learned.weights

    def _restore_model(self, learned: Learned) -> None:
        """Take up what the loss is made of."""

    @property
    def _n_weights(self) -> int:
        return self._loss().n_weights

    # -- workers --------------------------------------------------------------------------------------------------
    @property
    def _threads(self) -> int:
        return threads_of(self.n_jobs)

    @property
    def _executor(self) -> Executor:
        return executor_of(self._threads)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "weights_")
