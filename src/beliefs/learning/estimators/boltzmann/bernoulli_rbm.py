r"""Restricted Boltzmann machines under scikit-learn's names, judged by exact pseudo-likelihoods.

.. math:: W \leftarrow W - \eta\, \frac1B \sum_{n \in \text{batch}} \nabla L(v_n) - 2 \eta \lambda W

``learning_rate`` :math:`\eta` multiplies the mean gradient per row, as in the papers and in scikit-learn, and ``l2``
:math:`\lambda` is on weights alone. Losses are in :mod:`beliefs.learning.boltzmann`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.budget import over_budget
from beliefs.inference.text import named_method
from beliefs.learning.boltzmann.gap import FreeEnergyGap
from beliefs.learning.boltzmann.loss import RowLoss
from beliefs.learning.boltzmann.parameters import MachineShape
from beliefs.learning.boltzmann.registry import ROW_LOSSES, make_row_loss
from beliefs.learning.boltzmann.rows import BitRows, RowStream
from beliefs.learning.boltzmann.sampled import StochasticLikelihood
from beliefs.learning.estimators.boltzmann.machine import MachineEstimator
from beliefs.learning.estimators.unchanged import unchanged_by_errors
from beliefs.learning.fit import fit, optimizer_of
from beliefs.learning.optimizers.base import Optimizer
from beliefs.learning.optimizers.stochastic import Stochastic
from beliefs.learning.parallel import threads_of
from beliefs.learning.result import FitResult
from beliefs.model.rbm import RBM
from beliefs.options import MANY, check_integer, check_number, check_option
from beliefs.typing import Floats

__all__ = ["BernoulliRBM"]

_SPREAD = 0.01  # standard deviation of the weights to start from
_COPIES = 9.0  # of the weights that a fit holds at once: present, gradient, last pass, best, results
_LOOKED_AT = 1024  # rows that scores look at together


@dataclass(eq=False, repr=False)
class BernoulliRBM(MachineEstimator):
    """A restricted Boltzmann machine fitted to rows of bits.

    Parameters
    ----------
    n_components : int
        Hidden units.
    learning_rate : float
        Multiplies the mean gradient per row.
    batch_size : int
        Rows a mini-batch.
    n_iter : int
        Passes over the rows; iterations of L-BFGS.
    random_state : int, optional
        Seed of everything random; None means 0. Generators are asked for a seed.
    loss : str
        ``"stochastic_likelihood"`` (persistent contrastive divergence; with options ``chains``, ``sweeps``, ``fast``,
        ``temperatures``), ``"contrastive_divergence(sweeps=10)"``, ``"pseudo_likelihood"``, ``"ratio_matching"``,
        ``"minimum_probability_flow"``, ``"likelihood"`` (small machines), ``"surrogate_likelihood"``.
    l2 : float
        Ridge on the weights, relative to the loss per row.
    optimizer : str
        ``"sgd(t0=None)"``: a constant rate. ``"sgd(t0=1000, momentum=0.9)"``, ``"adam"``; their step and batch size are
        ``learning_rate`` and ``batch_size``. ``"lbfgs"`` for losses that are no estimates.
    inference : str
        For ``surrogate_likelihood``: ``"mean_field"``, ``"mean_field(order=2)"``, ``"gibbs"``, ...
    init : RBM, optional
        Where to start; None: small random weights, and visible biases at the log odds of the rows, or at 0 where
        rows come one after the other (streams, ``partial_fit``).
    verbose : int
        scikit-learn's name for ``progress``: shown where it is above 0.
    dtype, binarize, validation, patience, max_gap, checkpoint, max_bytes, n_jobs, callback, progress
        As for every estimator of machines, :class:`~beliefs.learning.estimators.boltzmann.machine.MachineEstimator`.

    Attributes
    ----------
    model_ : RBM
    result_ : FitResult
        Its loss is a monitor for sampled losses: an estimate of the negative log pseudo-likelihood; ``validation`` in
        its trace is the gap.
    components_, intercept_hidden_, intercept_visible_ : ndarray
        Weights ``(n_components, n_features)`` and biases.
    h_samples_ : ndarray (chains, n_components)
        Hidden units of persistent chains.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((200, 6)) < [0.9, 0.9, 0.1, 0.1, 0.5, 0.5]
    >>> rbm = BernoulliRBM(4, n_iter=20, random_state=0).fit(X)
    >>> rbm.transform(X).shape, rbm.model_
    ((200, 4), RBM(6 visible, 4 hidden units, float32))
    >>> rbm.log_likelihood(X).bound.name
    'EXACT'
    """

    n_components: int = 256
    learning_rate: float = 0.1
    batch_size: int = 10
    n_iter: int = 10
    random_state: Any = None
    _: KW_ONLY
    loss: Any = "stochastic_likelihood"
    l2: float = 0.0
    optimizer: Any = "sgd(t0=None)"
    inference: Any = "mean_field"
    init: Any = None
    verbose: int = 0

    option_names: ClassVar[dict[str, str]] = MachineEstimator.option_names | {"max_iters": "n_iter"}
    _learned_names: ClassVar[tuple[str, ...]] = ("h_samples_",)
    _tiny: ClassVar[Mapping[str, Any]] = {"n_components": 2, "n_iter": 1}

    @classmethod
    def warm_up(cls) -> None:
        """Fit the tiny data by every loss."""
        super().warm_up()
        rows = cls.tiny_data()[0]
        for loss in ROW_LOSSES:
            cls(**cls._tiny, loss=loss.name).fit(rows)

    # -- fitting --------------------------------------------------------------------------------------------------
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the machine to rows of bits; ``y`` is ignored.

        X is an array or sparse matrix (N, n_features), or an iterable of rows or blocks of rows; a generator is read
        once, so ``n_iter`` must then be 1. An error or Ctrl-C leaves the estimator as it was.
        """
        with unchanged_by_errors(self):
            self._check_options()
            seed = self._seed()
            rows = self._stream(X, seed)
            shape = self._shape(rows.width)
            self._check_budget(shape, self.batch_size)
            optimizer, loss = self._optimizer(self.batch_size), self._made_loss(shape, seed)
            data, held = self._split(rows, seed)
            gap = None if held is None else self._gap(data, held)
            self._learn(loss, data, self._start(shape, seed, data), optimizer, seed, gap)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Make one update with the rows of X as its mini-batch; chains go on where the last call left them.

        Momentum, decay of the rate, validation and checkpoints belong to ``fit``: a call knows nothing of those before.
        """
        with unchanged_by_errors(self):
            self._check_options()
            seed, known = self._seed(), hasattr(self, "model_")
            rows = self._rows(X, seed=seed, fitted=known)
            shape = self._shape(rows.width)
            self._check_budget(shape, len(rows))
            loss = self._made_loss(shape, seed)
            if known and self._memory:
                loss.recall({name: array.copy() for name, array in self._memory.items()})
            start = MachineShape.vector(self.model_, self.dtype) if known else self._start(shape, seed, None)
            self._learn(loss, rows, start, self._optimizer(len(rows)), seed, None, once=True)
        return self

    def _learn(
        self,
        loss: RowLoss,
        data: Any,
        start: Floats,
        optimizer: Optimizer,
        seed: int,
        gap: FreeEnergyGap | None,
        once: bool = False,
    ) -> None:
        """Minimise the loss and take its machine."""
        self.result_: FitResult = fit(
            loss,
            data,
            start,
            optimizer=optimizer,
            max_iters=1 if once else self.n_iter,
            callback=self.callback,
            progress=bool(self.progress or self.verbose),
            checkpoint=None if once else self.checkpoint,
            seed=seed,
            validation=None if gap is None else _Judge(gap, loss.shape),
            patience=self.patience,
        )
        self._keep(loss.shape.machine(self.result_.weights.astype(self.dtype)))
        self._memory: dict[str, np.ndarray] = loss.remembered()
        if isinstance(loss, StochasticLikelihood) and loss.hidden_states is not None:
            self.h_samples_ = loss.hidden_states
        elif hasattr(self, "h_samples_"):
            del self.h_samples_

    # -- what a fit is made of ------------------------------------------------------------------------------------
    def _check_options(self) -> None:
        super()._check_options()
        check_integer("n_components", self.n_components, 1, MANY)
        check_integer("batch_size", self.batch_size, 1, MANY)
        check_integer("n_iter", self.n_iter, 0)
        check_number("learning_rate", self.learning_rate, positive=True)
        check_number("l2", self.l2)
        check_integer("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, 0)
        named = isinstance(self.loss, str) or (isinstance(self.loss, type) and issubclass(self.loss, RowLoss))
        check_option(named, "loss", "the text of a loss", self.loss)
        good = self.init is None or isinstance(self.init, RBM)
        check_option(good, "init", "None or an RBM", self.init)

    def _shape(self, width: int) -> MachineShape:
        shape = MachineShape(width, self.n_components)
        if self.init is not None and self.init.weights.shape != shape:
            raise ModelError(
                f"init has {self.init.n_visible} visible and {self.init.n_hidden} hidden units, the rows have {width} "
                f"units and n_components is {self.n_components}"
            )
        return shape

    def _start(self, shape: MachineShape, seed: int, data: Any) -> Floats:
        """Return the weights to start from; visible units begin with the rates of the data [hinton2012]."""
        if self.init is not None:
            return MachineShape.vector(self.init, self.dtype)
        start = np.zeros(shape.n_weights, self.dtype)
        drawn = np.random.default_rng([seed, shape.n_hidden]).normal(0.0, _SPREAD, shape.n_couplings)
        start[: shape.n_couplings] = drawn
        if isinstance(data, BitRows):
            shape.parts(start).visible_bias[:] = data.log_odds()
        return start

    def _optimizer(self, batch_size: int) -> Optimizer:
        meant = optimizer_of(self.optimizer)
        if isinstance(meant, Stochastic):
            return replace(meant, step=float(self.learning_rate), batch_size=batch_size)
        return meant

    def _made_loss(self, shape: MachineShape, seed: int) -> RowLoss:
        """Return the loss; line searches need float64."""
        method = named_method(self.inference, "inference")
        dtype = self.dtype if isinstance(optimizer_of(self.optimizer), Stochastic) else "float64"
        threads = threads_of(self.n_jobs)
        return make_row_loss(
            self.loss, method=method, seed=seed, shape=shape, dtype=dtype, l2=float(self.l2), threads=threads
        )

    def _split(self, rows: BitRows | RowStream, seed: int) -> tuple[Any, BitRows | None]:
        if isinstance(rows, BitRows):
            return self._divided(rows, seed)
        if self.validation is not None:
            raise ModelError("validation compares with rows that can be read again; a stream of rows cannot")
        if rows.once and self.n_iter > 1:
            raise ModelError(
                f"the rows come from a generator, which can be read once, and n_iter = {self.n_iter} asks for more: "
                "take n_iter=1, or give a table or an object whose __iter__ starts anew"
            )
        return rows.data(), None

    def _check_budget(self, shape: MachineShape, batch_size: int) -> None:
        """Raise if the fit would need more memory than there is."""
        width = np.dtype(self.dtype).itemsize
        units = float(shape.n_visible + shape.n_hidden)
        needed = _COPIES * width * shape.n_weights + 5.0 * width * batch_size * units
        if self.validation is not None:
            needed += 8.0 * (shape.n_weights + _LOOKED_AT * units)
        if needed > self._budget:
            advice = "Raise max_bytes, or take fewer units or smaller batches"
            what = f" for {shape.n_visible} x {shape.n_hidden} units"
            raise over_budget(f"{type(self).__name__} needs", needed, self._budget, advice, what)


class _Judge:
    """The gap as a function of the weights, for early stopping."""

    def __init__(self, gap: FreeEnergyGap, shape: MachineShape) -> None:
        self.gap, self.shape, self.better = gap, shape, gap.better

    def __call__(self, weights: Floats) -> float:
        """Return the gap."""
        return self.gap.of(self.shape.machine(weights))
