"""What all conditional random fields share: fitting to data, and answers about new inputs.

A kind of graph (chain, grid, any) says how one input is read (:meth:`CRF._read`); everything else is here. A fitted
model answers with the inference it was fitted through: the same method, sweeps and order, because a model learned
through approximate inference is only as good as the inference it was learned for ([domke2013]).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from beliefs.errors import ModelError, UnsupportedError
from beliefs.inference.base import Method
from beliefs.inference.doors import sample
from beliefs.io.files import StrPath
from beliefs.learning.estimators.examples import Example, Examples, Stream, inputs_of
from beliefs.learning.estimators.fitting import fitted, loss_of
from beliefs.learning.estimators.inputs import FactorSpec, Layouts, ParsedInput, check_kinds, check_tables
from beliefs.learning.estimators.labels import Classes, Tally, label_array
from beliefs.learning.estimators.prediction import (
    all_marginals,
    expected_states,
    joiner_of,
    likeliest_states,
    map_states,
    marginals,
    method_of,
)
from beliefs.learning.estimators.storage import load, save
from beliefs.learning.estimators.table import weight_table
from beliefs.learning.gradients.base import Gradient
from beliefs.learning.instances import HIDDEN, Instance
from beliefs.learning.losses.base import Loss
from beliefs.learning.parallel import Executor, executor_of
from beliefs.model.features import FactorType, LogLinearTemplate, Template
from beliefs.model.graph import FactorGraph
from beliefs.options import MANY, check_integer, check_option, is_number, is_word
from beliefs.typing import Floats, Ints

__all__ = ["DECODERS", "CRF"]

T = TypeVar("T")
DECODERS = ("mpm", "map", "mean")
_MOST_STATES = 10**5  # weights of pairs grow with their square


@dataclass(kw_only=True, eq=False, repr=False)
class CRF(BaseEstimator, ABC):  # type: ignore[misc]
    r"""Base of the estimators: :math:`p(y \mid x) \propto \exp \theta(x; w) \cdot f(y)`, with w fitted to examples.

    Parameters
    ----------
    loss : str
        What is minimised, such as ``"clique_logistic"`` or ``"smoothed_classification(alpha=15)"``; see
        :mod:`beliefs.learning.losses`.
    inference : str or Method
        The method through which is fitted and predicted, such as ``"trw"`` or ``"mean_field"``.
    n_sweeps : int, optional
        Sweeps of inference in losses on marginals and truncated losses; None: until convergence.
    gradient : str
        How losses on marginals are differentiated; ``"auto"`` goes back through the sweeps, or chooses what suits
        converged or exact inference. See :mod:`beliefs.learning.gradients`.
    decode : {"mpm", "map", "mean"}
        What :meth:`predict` returns: the likeliest state of each variable, the likeliest joint state, or the
        expected state.
    l2, l1 : float
        Ridge and lasso, relative to the loss per labelled variable.
    optimizer : str
        ``"lbfgs"``, or ``"sgd"`` or ``"adam"`` for many instances.
    max_iters : int, optional
        Iterations (passes over the data for ``"sgd"`` and ``"adam"``) at most; None: the optimiser's own.
    tol : float, optional
        Largest entry of the gradient at which to stop; None: the optimiser's own.
    inference_tol : float, optional
        Residual of inference where it is run to convergence; None: the method's own, and 1e-5 for predictions of
        models that were fitted without inference.
    class_weight : None, "balanced" or dict
        Weight of each class in losses that are sums over variables.
    n_states : int, optional
        Number of states; None: as many as the labels need.
    init : str or array_like (n_weights,)
        Where to start: ``"zeros"``, ``"independent"`` (the model without edges, fitted first), the name of a loss to
        be fitted first, or weights; ``"auto"`` takes what the papers take for the loss.
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
    kinds_ : tuple of FactorSpec
        The types of factors, each with its number of variables and of features.
    n_features_in_ : int
        Features of a variable, the constant included.
    template_ : Template
    loss_ : Loss
    result_ : FitResult
        Status, loss and trace of the fit.
    """

    loss: Any = "clique_logistic"
    inference: Any = "trw"
    n_sweeps: int | None = 10
    gradient: Any = "auto"
    decode: str = "mpm"
    l2: float = 1e-3
    l1: float = 0.0
    optimizer: Any = "lbfgs"
    max_iters: int | None = None
    tol: float | None = None
    inference_tol: float | None = None
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

    _switches: ClassVar[tuple[str, ...]] = ()  # options of a kind of graph that are True or False
    _learned_names: ClassVar[tuple[str, ...]] = ()  # what else belongs into a file: arrays or plain values

    # -- what a kind of graph says ------------------------------------------------------------------------------
    @abstractmethod
    def _read(self, x: Any, name: str) -> ParsedInput:
        """Check one input and return what it says; errors begin with ``name``. Must not need ``n_states_``."""

    def _prepare(self, examples: Examples) -> None:
        """Learn from all examples what reading needs (vocabularies, thresholds), before any is read."""

    def _template(self, kinds: tuple[FactorSpec, ...]) -> Template:
        """Return the template for these types of factors, with ``n_states_`` states."""
        return LogLinearTemplate([FactorType(k.name, self.n_states_**k.arity, k.width) for k in kinds])

    def _labels(self, y: Any, reading: ParsedInput, name: str) -> np.ndarray:
        """Return the labels of one example, flat: int64, or words as objects with None where hidden."""
        return label_array(y, reading.shape, name)

    # -- fitting ------------------------------------------------------------------------------------------------
    def fit(self, X: Any, Y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the weights to inputs ``X`` and labels ``Y`` (-1 where hidden), one entry per instance each.

        Without ``Y``, ``X`` holds (input, labels) pairs, which are loaded when needed if it is not a list. An error
        or Ctrl-C leaves the estimator as it was.
        """
        before = dict(self.__dict__)
        try:
            return self._fitted(Examples(X, Y, sample_weight))
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fitted(self, examples: Examples) -> Self:
        before: Floats | None = getattr(self, "weights_", None) if self.warm_start else None
        self._check_options()
        self._prepare(examples)
        instances = self._instances(examples)
        self.loss_ = self._loss()
        self.result_ = fitted(self, instances, before)
        self.weights_: Floats = self.result_.weights
        self.loss_.forget()  # unions of instances may be large
        return self

    def _loss(self) -> Loss:
        """Return the loss for the template."""
        return loss_of(self, self.loss)

    def _stage(self, text: str) -> Loss:
        """Return the loss of a stage before the last."""
        return loss_of(self, text)

    def _instances(self, examples: Examples) -> list[Instance] | Stream:
        """Check all examples, settle states, classes and template, and return what a loss takes."""
        tally, read, kinds, n = Tally(self.n_states), [], None, 0
        for example in examples:
            reading = self._read(example.x, example.name)
            kinds = kinds or reading.kinds
            check_kinds(reading.kinds, kinds, example.name, "instance 0")
            labels = self._labels(example.y, reading, example.name)
            tally.add(labels, example.name)
            n += 1
            if not examples.lazy:
                read.append((example, reading, labels))
        assert kinds is not None
        classes = tally.classes()
        self.classes_, self.n_states_, self.kinds_ = classes.names, len(classes.names), kinds
        check_tables(kinds, self.n_states_)
        self.template_ = self._template(kinds)
        self.class_counts_ = np.array([tally.counts.get(k, 0) for k in classes.names.tolist()], np.int64)
        weights, self._layouts = classes.weights(self.class_weight, tally.counts), Layouts(self.n_states_)
        if examples.lazy:
            return Stream(examples, lambda example: self._example(example, classes, weights), n)
        return [self._instance(*entry, classes, weights) for entry in read]

    def _example(self, example: Example, classes: Classes, weights: Floats | None) -> Instance:
        reading = self._read(example.x, example.name)
        check_kinds(reading.kinds, self.kinds_, example.name, "instance 0")
        return self._instance(example, reading, self._labels(example.y, reading, example.name), classes, weights)

    def _instance(
        self, example: Example, reading: ParsedInput, labels: np.ndarray, classes: Classes, weights: Floats | None
    ) -> Instance:
        codes = classes.codes(labels, example.name)
        each = None if weights is None else np.where(codes == HIDDEN, 0.0, weights[codes])
        return Instance(
            self._layouts.of(reading), reading.inputs, codes, example.weight, each, example.name
        )  # fmt: skip

    def _check_options(self) -> None:
        """Raise for options out of range, before any work."""
        check_integer("max_iters", self.max_iters, 0, none=True)
        check_integer("n_sweeps", self.n_sweeps, 0, MANY, none=True)
        check_integer("patience", self.patience, 1)
        check_integer("n_states", self.n_states, 2, _MOST_STATES, none=True)
        for name in ("l2", "l1", "tol", "inference_tol"):
            value = getattr(self, name)
            ok = (is_number(value) and 0 <= value < np.inf) or (value is None and name.endswith("tol"))
            check_option(ok, name, "a number of at least 0", value)
        for name in ("warm_start", "progress", *self._switches):
            value = getattr(self, name)
            check_option(isinstance(value, bool | np.bool_), name, "True or False", value)
        check_option(
            isinstance(self.loss, str) or (isinstance(self.loss, type) and issubclass(self.loss, Loss)),
            "loss", "the text of a loss", self.loss,
        )  # fmt: skip
        check_option(isinstance(self.gradient, str | Gradient), "gradient", "a Gradient or its text", self.gradient)
        check_integer("seed", self.seed, 0, none=True)
        path = self.checkpoint
        check_option(path is None or isinstance(path, str | os.PathLike), "checkpoint", "the path of a file", path)
        held = self.validation
        check_option(held is None or (is_number(held) and 0 < held < 1), "validation", "between 0 and 1", held)
        check_option(is_word(self.decode, DECODERS), "decode", f"one of {', '.join(DECODERS)}", self.decode)

    # -- answers ------------------------------------------------------------------------------------------------
    def model(self, x: Any) -> FactorGraph:
        """Return the factor graph of one input, with the fitted potentials."""
        self._check_fitted()
        return self._graph(self._asked(("the input", x))[0])

    def predict(self, X: Any, decode: str | None = None) -> list[np.ndarray]:
        """Return the labels of each input, in the shape of its variables; see ``decode`` of the class."""
        how = self.decode if decode is None else decode
        check_option(is_word(how, DECODERS), "decode", f"one of {', '.join(DECODERS)}", how)

        if how == "map":
            return self._each(X, lambda graph, shape: self._named(map_states(self._method, graph)).reshape(shape))
        by = likeliest_states if how == "mpm" else expected_states
        return [self._named(by(mu_var, self.n_states_)).reshape(shape) for mu_var, shape in self._all_marginals(X)]

    def predict_marginals(self, X: Any) -> list[Floats]:
        """Return the marginals of each input's variables, in the shape of the variables and a last axis of states."""
        return [mu_var.reshape(*shape, self.n_states_) for mu_var, shape in self._all_marginals(X)]

    def sample(self, X: Any, n: int = 1, method: Any = "auto") -> list[np.ndarray]:
        """Draw ``n`` joint labellings of each input, ``(n, *shape)``; exactly where that is affordable."""

        def drawn(graph: FactorGraph, shape: tuple[int, ...]) -> np.ndarray:
            found = sample(graph, n, method, seed=self.seed, threads=1).samples
            return self._named(found).reshape(n, *shape)

        return self._each(X, drawn)

    def score(self, X: Any, Y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of labelled variables whose label is predicted; instances may be weighted."""
        self._check_fitted()
        examples = list(Examples(X, Y, sample_weight))
        found = self.predict([example.x for example in examples], "map" if self.decode == "map" else "mpm")
        right = total = 0.0
        for example, labels in zip(examples, found, strict=True):
            reading = self._read(example.x, example.name)
            truth = self._codes(example.y, reading, example.name)
            seen = truth != HIDDEN
            hits = np.asarray(self._named(np.maximum(truth, 0)) == labels.ravel())
            right += example.weight * int((hits & seen).sum())
            total += example.weight * int(seen.sum())
        if not total > 0:
            raise ModelError("every label is hidden; there is nothing to compare predictions with")
        return float(right / total)

    # -- the model itself ---------------------------------------------------------------------------------------
    def describe(self, feature_names: Sequence[str] | None = None, limit: int = 30) -> str:
        """Return the learned weights as a table: features by states, and states by states for edges."""
        self._check_fitted()
        if not isinstance(self.template_, LogLinearTemplate):
            raise UnsupportedError("only log-linear models have a table of weights; read weights_")
        check_integer("limit", limit, 1)
        names = self._feature_names(feature_names)
        return weight_table(self.template_, self.weights_, [str(k) for k in self.classes_], names, limit)

    def _feature_names(self, given: Sequence[str] | None) -> Sequence[str] | None:
        """Return the names of features as tables take them: without the constant, which has a name already."""
        if given is None and getattr(self, "intercept", False):
            return [f"feature {k}" for k in range(self.kinds_[0].width - 1)]
        return given

    def save(self, path: StrPath) -> None:
        """Write the fitted model to an ``.npz`` file, whole or not at all, without pickles."""
        self._check_fitted()
        save(self, path)

    @classmethod
    def load(cls, path: StrPath, **functions: Any) -> Self:
        """Read a fitted model of this class; arguments that are functions are given again, by name."""
        found = load(path, {cls.__name__: lambda: cls}, **functions)
        assert isinstance(found, cls)
        return found

    def _learned(self) -> dict[str, Any]:
        """Return what else was learned and belongs into a file."""
        return {name: getattr(self, name) for name in self._learned_names if hasattr(self, name)}

    # -- parts of answers ---------------------------------------------------------------------------------------
    def _codes(self, y: Any, reading: ParsedInput, name: str) -> Ints:
        return Classes(self.classes_).codes(self._labels(y, reading, name), name)

    def _named(self, codes: np.ndarray) -> np.ndarray:
        """Return states as labels: words where the labels were words."""
        return codes if codes.dtype.kind == "f" or self.classes_.dtype.kind == "i" else self.classes_[codes]

    def _marginals(self, graph: FactorGraph) -> Floats:
        """Return ``mu_var (n_states,)`` by the inference of the fit."""
        return marginals(self.loss_, self._method, self.inference_tol, graph)

    def _graph(self, instance: Instance) -> FactorGraph:
        return FactorGraph.build(instance.layout, self.template_.theta(self.weights_, instance.inputs))

    def _asked(self, entry: tuple[str, Any]) -> tuple[Instance, tuple[int, ...]]:
        """Return one input, with its name, as an instance whose labels say nothing, and the shape of its answers."""
        name, x = entry
        reading = self._read(x, name)
        check_kinds(reading.kinds, self.kinds_, name, "the fitted model")
        nothing = np.zeros(reading.n_vars, np.int64)
        return Instance(self._layouts.of(reading), reading.inputs, nothing, name=name), reading.shape

    def _each(self, X: Any, answer: Callable[[FactorGraph, tuple[int, ...]], T]) -> list[T]:
        """Answer for each input, several side by side if asked; the answers do not depend on how many."""
        self._check_fitted()

        def one(entry: tuple[str, Any]) -> T:
            instance, shape = self._asked(entry)
            return answer(self._graph(instance), shape)

        return self._executor.map(one, inputs_of(X))

    def _all_marginals(self, X: Any) -> list[tuple[Floats, tuple[int, ...]]]:
        """Return ``mu_var (n_states,)`` and the shape of its variables for each input; small ones are joined."""
        self._check_fitted()

        def solve(instance: Instance) -> Floats:
            return self._marginals(self._graph(instance))

        return all_marginals(solve, self._asked, inputs_of(X), joiner_of(self.loss_), self._executor)

    @property
    def n_features_in_(self) -> int:
        """Features of a variable, the constant included."""
        self._check_fitted()
        return self.kinds_[0].width

    @property
    def _method(self) -> Method:
        return method_of(self.inference)

    @property
    def _threads(self) -> int:
        check_integer("n_jobs", self.n_jobs, -MANY, MANY, none=True)
        check_option(self.n_jobs != 0, "n_jobs", "None or an integer other than 0", self.n_jobs)
        return int(effective_n_jobs(self.n_jobs))

    @property
    def _executor(self) -> Executor:
        return executor_of(self._threads)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "weights_")
