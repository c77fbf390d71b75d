r"""Conditional restricted Boltzmann machines: bits predicted from inputs, through a hidden layer.

.. math:: \theta \leftarrow \theta - \eta\, \frac1B \sum_{n \in \text{batch}} \nabla L(v_n, x_n)

Eight learners of [ping2016] chapter 6 are settings of ``loss`` and ``inference``; each predicts with the inference that
it was fitted through, which matters more than how good that is. Losses are in
:mod:`beliefs.learning.boltzmann.conditional`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from beliefs.errors import ModelError, UnsupportedError
from beliefs.inference.boltzmann.batch_gibbs import drawn_rows
from beliefs.inference.budget import over_budget
from beliefs.inference.text import named_method
from beliefs.learning.boltzmann.conditional.inference import Sweeps, input_rows, predicted_rows
from beliefs.learning.boltzmann.conditional.loss import ConditionalLoss
from beliefs.learning.boltzmann.conditional.parameters import ConditionalShape
from beliefs.learning.boltzmann.conditional.registry import make_conditional_loss
from beliefs.learning.boltzmann.conditional.rows import PairedRows, paired_rows
from beliefs.learning.boltzmann.conditional.surrogate import ConditionalSurrogate
from beliefs.learning.estimators.base import DataForm
from beliefs.learning.estimators.boltzmann.row_base import RowEstimator
from beliefs.learning.estimators.fitting import divided
from beliefs.learning.estimators.storage import Learned
from beliefs.learning.estimators.unchanged import unchanged_by_errors
from beliefs.learning.fit import fit, optimizer_of
from beliefs.learning.optimizers.base import Optimizer
from beliefs.learning.optimizers.stochastic import Stochastic
from beliefs.learning.parallel import threads_of
from beliefs.learning.result import FitResult
from beliefs.model.crbm import CRBM
from beliefs.options import MANY, check_integer, check_number, check_option, is_number, is_word
from beliefs.typing import Floats

__all__ = ["ConditionalRBM"]

_SPREAD = 0.01  # standard deviation of the weights to start from
_COPIES = 8.0  # of the weights that a fit holds at once
_MATRICES = 8.0  # of the weights between layers: couplings, messages, sums
_PIECE = 512  # rows that are worked on together


@dataclass(eq=False, repr=False)
class ConditionalRBM(RowEstimator):
    """A conditional restricted Boltzmann machine fitted to rows of inputs and bits.

    Parameters
    ----------
    n_components : int
        Hidden units; 0 is a logistic regression for each bit, whatever the loss.
    loss : str
        ``"surrogate_likelihood"`` (through ``inference``), ``"contrastive_divergence(sweeps=10, start=data)"``
        (``start`` also ``random``, ``logistic``), ``"contrastive_perceptron(sweeps=10)"``, ``"max_margin"`` (hidden
        units summed out, MSSVM) or ``"max_margin(eps_h=0)"`` (at their best, LSSVM).
    inference : str
        For ``surrogate_likelihood``: ``"bp"``, ``"mean_field"``, ``"mean_field(order=2)"``, ...
    n_sweeps, sweep_growth : int
        Sweeps of inference in the first pass, and how many more in every further one.
    inference_tol : float
        Rows whose beliefs move no more are done before.
    learning_rate : float
        Multiplies the mean gradient per row.
    batch_size : int
        Rows a mini-batch.
    n_iter : int
        Passes over the rows.
    l2 : float
        Ridge on the three matrices, relative to the loss per row.
    optimizer : str
        ``"sgd(t0=None)"``, ``"sgd(momentum=0.9)"``, ``"adam"``; ``"lbfgs"`` where the loss is a function of the weights
        alone: without hidden units, or with ``inference="enumeration"``.
    init : CRBM, optional
        Where to start; None: small random weights, and zeros from inputs to bits.
    validation : float or (X, V), optional
        Share of the rows, or rows, held out: fitting stops when the error of predictions on them has not become smaller
        for ``patience`` passes, and the best machine is kept.
    dtype, checkpoint, max_bytes, n_jobs, callback, progress, random_state
        As for :class:`~beliefs.BernoulliRBM`.

    Attributes
    ----------
    model_ : CRBM
    n_sweeps_ : int
        Sweeps of the pass whose machine is kept, with which predictions are made.
    converged_ : ndarray (passes,)
        The share of rows for which inference settled, in each pass.
    result_ : FitResult
        ``validation`` in its trace is the share of wrong bits among those held out.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> V = np.repeat(rng.integers(0, 2, size=(300, 1)), 6, axis=1)
    >>> X = np.where(rng.random(V.shape) < 0.3, 1 - V, V)
    >>> crbm = ConditionalRBM(4, n_iter=5, random_state=0).fit(X[:200], V[:200])
    >>> crbm.predict(X[200:]).shape, crbm.n_sweeps_, crbm.model_
    ((100, 6), 11, CRBM(6 visible, 4 hidden units, 6 inputs, float32))
    """

    n_components: int = 256
    _: KW_ONLY
    loss: Any = "surrogate_likelihood"
    inference: Any = "bp"
    n_sweeps: int = 7
    sweep_growth: int = 1
    inference_tol: float = 1e-3
    learning_rate: float = 0.02
    batch_size: int = 20
    n_iter: int = 50
    l2: float = 0.0
    optimizer: Any = "sgd(t0=None)"
    init: Any = None
    random_state: Any = None

    data_form: ClassVar[DataForm] = DataForm("`(inputs,)`", "`(units,)`, bits")
    labelled: ClassVar[bool] = True
    option_names: ClassVar[dict[str, str]] = RowEstimator.option_names | {"max_iters": "n_iter"}
    _tiny: ClassVar[Mapping[str, Any]] = {"n_components": 2, "n_iter": 1}
    _learned_names: ClassVar[tuple[str, ...]] = ("n_sweeps_", "converged_", "predicts_by_", "damping_")

    # -- fitting --------------------------------------------------------------------------------------------------
    def fit(self, X: Any, V: Any) -> Self:
        """Fit the machine to rows of inputs and bits.

        Parameters
        ----------
        X : array_like, sparse matrix or memory map (N, n_inputs)
            Real numbers.
        V : array_like (N, n_visible)
            Bits; -1 is hidden, and summed out.

        An error or Ctrl-C leaves the estimator as it was.
        """
        with unchanged_by_errors(self):
            self._check_options()
            rows = paired_rows(X, V)
            data, held = self._held_out(rows)
            shape = ConditionalShape(rows.bits.shape[1], self.n_components, rows.inputs.shape[1])
            self._check_budget(shape)
            seed, optimizer = self._seed(), self._optimizer()
            loss = self._made_loss(shape, seed)
            if rows.has_hidden and not loss.sums_out:
                raise UnsupportedError(f"{loss.name} needs all bits, found -1 in V; surrogate_likelihood sums them out")
            judge = None if held is None else _Judge(self, loss, held)
            self.result_: FitResult = fit(
                loss,
                data,
                self._start(shape, seed),
                optimizer=optimizer,
                max_iters=self.n_iter,
                callback=self.callback,
                progress=bool(self.progress),
                checkpoint=self.checkpoint,
                seed=seed,
                validation=judge,
                patience=self.patience,
            )
            self._take(loss)
        return self

    def _take(self, loss: ConditionalLoss) -> None:
        """Take the machine of a fit, and how to predict with it."""
        result = self.result_
        self.model_ = loss.shape.machine(result.weights.astype(self.dtype))
        self.n_features_in_ = self.model_.n_inputs
        judged = np.asarray(result.trace.validation, dtype=float)
        best = int(np.argmin(judged)) if judged.size and np.isfinite(judged).any() else max(0, result.n_iters - 1)
        self.n_sweeps_ = self._prediction_sweeps(loss, best)
        counts = loss.record.counts
        self.converged_: Floats = counts[:, 0] / np.maximum(counts[:, 1], 1.0)
        self.predicts_by_, self.damping_ = loss.predicts_by, self._damping(loss)

    def _prediction_sweeps(self, loss: ConditionalLoss, n_pass: int) -> int:
        """Return the sweeps of a pass; those that a swept loss would take where it takes none itself."""
        return loss.n_sweeps_of(n_pass) or self.n_sweeps + self.sweep_growth * n_pass

    @staticmethod
    def _damping(loss: ConditionalLoss) -> float:
        return float(getattr(getattr(loss, "method", None), "damping", 0.0))

    @classmethod
    def tiny_data(cls) -> tuple[list[Any], list[Any]]:
        """Return a few very small rows."""
        bits = np.arange(12).reshape(4, 3) % 5 < 2
        return list(bits.astype(float)), list(bits)

    @classmethod
    def warm_up(cls) -> None:
        """Fit the tiny data in either type, by each kind of inference and without hidden units, and ask."""
        X, V = cls.tiny_data()
        for dtype in ("float32", "float64"):
            for loss in ("surrogate_likelihood", "max_margin", "max_margin(eps_h=0)", "contrastive_divergence"):
                cls(**cls._tiny, dtype=dtype, loss=loss).fit(X, V).predict(X)
            cls(n_components=0, n_iter=1, dtype=dtype).fit(X, V).predict(X)

    # -- what a fit is made of ------------------------------------------------------------------------------------
    def _check_options(self) -> None:
        super()._check_options()
        check_integer("n_components", self.n_components, 0, MANY)
        check_integer("n_sweeps", self.n_sweeps, 1, MANY)
        check_integer("sweep_growth", self.sweep_growth, 0, MANY)
        check_integer("batch_size", self.batch_size, 1, MANY)
        check_integer("n_iter", self.n_iter, 0)
        check_number("inference_tol", self.inference_tol)
        check_number("learning_rate", self.learning_rate, positive=True)
        check_number("l2", self.l2)
        check_option(isinstance(self.loss, str), "loss", "the text of a loss", self.loss)
        check_option(self.init is None or isinstance(self.init, CRBM), "init", "None or a CRBM", self.init)

    def _held_out(self, rows: PairedRows) -> tuple[PairedRows, PairedRows | None]:
        """Return the rows to learn from, and those held out."""
        if self.validation is None or is_number(self.validation):
            data, held = divided(rows, self.validation, self._seed())
            return data, _comparable(held)
        if not (isinstance(self.validation, tuple | list) and len(self.validation) == 2):
            raise ModelError("validation must be a share of the rows, or a pair (X, V) of rows held out")
        X, V = self.validation
        return rows, _comparable(paired_rows(X, V, rows.inputs.shape[1], rows.bits.shape[1]))

    def _check_budget(self, shape: ConditionalShape) -> None:
        width, units = np.dtype(self.dtype).itemsize, float(sum(shape))
        pairs = float(shape.n_visible * shape.n_hidden)
        needed = width * (_COPIES * shape.n_weights + _MATRICES * pairs) + 64.0 * _PIECE * units
        if needed > self._budget:
            what = f" for {shape.n_visible} x {shape.n_hidden} units and {shape.n_inputs} inputs"
            advice = "Raise max_bytes, or take fewer units"
            raise over_budget(f"{type(self).__name__} needs", needed, self._budget, advice, what)

    def _optimizer(self) -> Optimizer:
        meant = optimizer_of(self.optimizer)
        if isinstance(meant, Stochastic):
            return replace(meant, step=float(self.learning_rate), batch_size=self.batch_size)
        return meant

    def _made_loss(self, shape: ConditionalShape, seed: int) -> ConditionalLoss:
        """Return the loss, without hidden units the likelihood whatever is asked for; line searches need float64."""
        method = named_method(self.inference, "inference")
        dtype = self.dtype if isinstance(optimizer_of(self.optimizer), Stochastic) else "float64"
        given = {"shape": shape, "dtype": dtype, "l2": float(self.l2), "threads": threads_of(self.n_jobs)}
        sweeps = {"n_sweeps": self.n_sweeps, "sweep_growth": self.sweep_growth, "tol": float(self.inference_tol)}
        loss = make_conditional_loss(self.loss, given, {"method": method, "seed": seed, **sweeps})
        if shape.n_hidden:
            return loss
        return make_conditional_loss(ConditionalSurrogate.name, given, {"method": method, **sweeps})

    def _start(self, shape: ConditionalShape, seed: int) -> Floats:
        """Return the weights to start from."""
        if self.init is not None:
            found = ConditionalShape(self.init.n_visible, self.init.n_hidden, self.init.n_inputs)
            if found != shape:
                raise ModelError(f"init has {found}, the rows and n_components ask for {shape}")
            return ConditionalShape.vector(self.init, self.dtype)
        start = np.zeros(shape.n_weights, self.dtype)
        parts, rng = shape.parts(start), np.random.default_rng([seed, shape.n_hidden])
        parts.weights[:] = rng.normal(0.0, _SPREAD, parts.weights.shape)
        parts.hidden_input[:] = rng.normal(0.0, _SPREAD, parts.hidden_input.shape)
        return start

    @property
    def weights_(self) -> Floats:
        """All numbers of the machine as one vector."""
        self._check_fitted()
        return ConditionalShape.vector(self.model_)

    # -- questions ------------------------------------------------------------------------------------------------
    def predict_marginals(self, X: Any) -> Floats:
        """Return P(v = 1) of every bit given each row, ``(N, n_visible)``, by the inference of the fit.

        Of max-margin machines these are beliefs whose side of a half is the state predicted.
        """
        return self._beliefs(X)[0]

    def predict(self, X: Any) -> np.ndarray:
        """Return the bits predicted for each row, ``(N, n_visible)``; they depend on no other row."""
        return (self.predict_marginals(X) > 0.5).astype(np.uint8)

    def transform(self, X: Any) -> Floats:
        """Return P(h = 1) of every hidden unit given each row of inputs, ``(N, n_hidden)``."""
        return self._beliefs(X)[1]

    def score(self, X: Any, V: Any) -> float:
        """Return the share of bits that are predicted right; hidden ones do not count."""
        self._check_fitted()
        rows = paired_rows(X, V, self.model_.n_inputs, self.model_.n_visible)
        known = rows.bits != -1
        if not known.any():
            raise ModelError("every bit of V is hidden; there is nothing to compare predictions with")
        return float((self.predict(X) == rows.bits)[known].mean())

    def sample(self, X: Any, n_sweeps: int = 100, random_state: int = 0) -> np.ndarray:
        """Return bits drawn for each row, ``(N, n_visible)``, by as many sweeps of Gibbs sampling from a random start.

        The draws of a row depend on its place and on ``random_state``, not on the other rows.
        """
        self._check_fitted()
        check_integer("n_sweeps", n_sweeps, 0, MANY)
        check_integer("random_state", random_state, 0)
        batch = self.model_.given(input_rows(X, self.model_.n_inputs))
        return drawn_rows(batch, n_sweeps, random_state, threads_of(self.n_jobs))

    def _beliefs(self, X: Any) -> tuple[Floats, Floats]:
        self._check_fitted()
        sweeps = Sweeps(self.n_sweeps_, float(self.inference_tol), self.damping_, threads_of(self.n_jobs), alone=True)
        return predicted_rows(self.model_, X, self.predicts_by_, sweeps)

    # -- files ----------------------------------------------------------------------------------------------------
    def _learned(self) -> Learned:
        """Return what a file keeps."""
        model, none = self.model_, np.zeros(0, np.int64)
        shape = np.array([model.n_visible, model.n_hidden, model.n_inputs])
        state: dict[str, Any] = {"shape": shape, "type": str(model.dtype)}
        state |= {name: getattr(self, name) for name in self._learned_names}
        return Learned(ConditionalShape.vector(model), none, none, (), state)

    def _restore(self, learned: Learned) -> None:
        """Take up what a file has kept."""
        self._check_options()
        state = dict(learned.state)
        sizes, dtype = state.pop("shape"), state.pop("type")
        check_option(is_word(dtype, ("float32", "float64")), "the type of the weights", "float32 or float64", dtype)
        shape = ConditionalShape(*(int(size) for size in sizes))
        if min(shape) < 0 or learned.weights.shape != (shape.n_weights,):
            raise ModelError(f"expected {shape.n_weights} weights, found {learned.weights.shape}")
        if set(state) != set(self._learned_names):
            raise ModelError("the file does not hold what a ConditionalRBM has learned")
        self.model_ = shape.machine(learned.weights.astype(dtype))
        self.n_features_in_ = self.model_.n_inputs
        for name, value in state.items():
            setattr(self, name, value)


def _comparable(held: PairedRows | None) -> PairedRows | None:
    """Return rows held out, or raise a ModelError where predictions could be compared with none of their bits."""
    if held is not None and held.has_hidden and not (held.everything()[1] != -1).any():
        raise ModelError("every bit held out for validation is hidden; there is nothing to compare predictions with")
    return held


class _Judge:
    """The share of wrong bits among rows held out, for early stopping."""

    def __init__(self, estimator: ConditionalRBM, loss: ConditionalLoss, held: PairedRows) -> None:
        self.estimator, self.loss, self.held = estimator, loss, held

    def __call__(self, weights: Floats) -> float:
        """Return the error of predictions with the sweeps of the pass that has ended."""
        estimator, loss = self.estimator, self.loss
        n_sweeps = estimator._prediction_sweeps(loss, loss.record.n_pass)
        threads, tol = threads_of(estimator.n_jobs), float(estimator.inference_tol)
        sweeps = Sweeps(n_sweeps, tol, estimator._damping(loss), threads)
        inputs, bits = self.held.everything()
        found = predicted_rows(loss.shape.machine(weights), inputs, loss.predicts_by, sweeps)[0] > 0.5
        return float((found != bits)[bits != -1].mean())
