"""What estimators of Boltzmann machines share: rows of bits in, a machine out, and everything one asks of it.

A subclass is a dataclass that adds its own parameters, ``random_state`` among them, and ``fit``, which begins and ends
with what is here::

    def fit(self, X, y=None):
        with unchanged_by_errors(self):
            self._check_options()
            data, held = self._divided(self._rows(X))       # BitRows to learn from; BitRows or None held out
            gap = self._gap(data, held)                     # FreeEnergyGap or None: gap.of(machine), gap.better(...)
            ...
            self._keep(machine)                             # sets model_, n_features_in_
        return self

``transform``, ``score_samples``, ``score``, ``sample``, ``gibbs``, ``log_likelihood``, ``save``, ``load`` and the
arrays under scikit-learn's names follow from ``model_``, which is an RBM or a FractionalRBM. A subclass keeps further
fitted attributes in files by naming them in ``_learned_names`` (arrays, numbers, words, or tuples of them).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from beliefs.errors import ModelError
from beliefs.inference.base import Method
from beliefs.inference.boltzmann.chains import BlockChains, root_key
from beliefs.inference.door_options import Options
from beliefs.inference.doors import sample
from beliefs.inference.likelihood import LogLikelihood, log_likelihood
from beliefs.inference.parallel import one_thread_of_blas
from beliefs.learning.boltzmann.gap import FreeEnergyGap
from beliefs.learning.boltzmann.parameters import MachineShape
from beliefs.learning.boltzmann.rows import BitRows, RowStream, bit_rows, check_binarize
from beliefs.learning.boltzmann.scores import free_energies, pseudo_log_likelihoods
from beliefs.learning.estimators.base import DataForm
from beliefs.learning.estimators.boltzmann.row_base import RowEstimator
from beliefs.learning.estimators.fitting import divided
from beliefs.learning.estimators.storage import Learned
from beliefs.learning.parallel import threads_of
from beliefs.model.fractional_rbm import FractionalRBM
from beliefs.model.machine import BoltzmannMachine, given_layer
from beliefs.model.rbm import RBM
from beliefs.options import check_number, check_option, is_number, is_word
from beliefs.typing import Floats

__all__ = ["MachineEstimator"]

_BYTES = 2**24  # of rows of a transform that are worked on together


@dataclass(kw_only=True, eq=False, repr=False)
class MachineEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowEstimator):  # type: ignore[misc]
    """Base of the estimators whose model is a Boltzmann machine.

    Parameters
    ----------
    dtype : "float32" or "float64"
        Of the weights and of all matrix products; likelihoods and free energies are float64 in any case.
    binarize : None, float, "sample" or "mean"
        None refuses all but 0 and 1; a number is a threshold; ``"sample"`` draws bits anew for each pass with the
        values as probabilities; ``"mean"`` takes probabilities as they are.
    validation : float or array_like, optional
        Share of the rows, or rows, held out: fitting stops when the gap between mean free energies has been grown for
        ``patience`` turns, and the machine before it grew is kept.
    max_gap : float, optional
        Nats by which the gap may exceed its smallest so far; None: two standard errors.
    checkpoint : path, optional
        File that is kept up to date while fitting, and from which an interrupted ``fit`` goes on.
    max_bytes : int, optional
        Memory for the fit above the rows; None: half of what is available.
    n_jobs : int, optional
        Threads: None means one, -1 all cores. It changes no byte of the answer.
    callback : callable, optional
        Called while fitting; an answer of True stops.
    progress : bool
        Whether to show a line on standard error.

    Attributes
    ----------
    model_ : RBM or FractionalRBM
    result_ : FitResult
    n_features_in_ : int
    """

    binarize: Any = None
    max_gap: float | None = None

    data_form: ClassVar[DataForm] = DataForm("`(units,)`, bits", "none")
    labelled: ClassVar[bool] = False

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a machine to rows of bits."""

    @classmethod
    def tiny_data(cls) -> tuple[list[Any], None]:
        """Return a few very small rows."""
        return list(np.arange(12).reshape(4, 3) % 5 < 2), None

    @classmethod
    def warm_up(cls) -> None:
        """Fit the tiny data in either type, and ask."""
        rows = cls.tiny_data()[0]
        for dtype in ("float32", "float64"):
            machine = cls(**cls._tiny, dtype=dtype, validation=0.5).fit(rows)
            machine.score(rows)
            machine.gibbs(rows)

    # -- what a fit begins and ends with --------------------------------------------------------------------------
    def _check_options(self) -> None:
        """Raise for options out of range, before any work."""
        super()._check_options()
        check_binarize(self.binarize)
        check_number("max_gap", self.max_gap, none=True)

    def _rows(self, X: Any, name: str = "X", seed: int = 0, fitted: bool = False) -> BitRows:
        """Return checked rows; with ``fitted``, as wide as those that were learned from."""
        if fitted:
            self._check_fitted()
        return bit_rows(X, self.binarize, seed, name, width=self.model_.n_visible if fitted else None)

    def _stream(self, X: Any, seed: int = 0) -> BitRows | RowStream:
        """Return rows, or a stream of them where X is no table: a generator, or an object with ``__iter__`` alone."""
        table = hasattr(X, "shape") or hasattr(X, "__len__") or isinstance(X, BitRows)
        check_option(table or hasattr(X, "__iter__"), "X", "a table of bits, or rows one after the other", X)
        return self._rows(X, seed=seed) if table else RowStream(X, self.binarize, seed, "X")

    def _divided(self, rows: BitRows, seed: int = 0) -> tuple[BitRows, BitRows | None]:
        """Return the rows to learn from, and those held out."""
        if self.validation is None or is_number(self.validation):
            data, held = divided(rows, self.validation, seed)
            return data, held
        return rows, bit_rows(self.validation, self.binarize, seed, "validation", width=rows.width)

    def _gap(self, data: BitRows, held: BitRows | None) -> FreeEnergyGap | None:
        """Return what early stopping looks at, if rows are held out."""
        return None if held is None else FreeEnergyGap(data, held, self.max_gap)

    def _keep(self, machine: BoltzmannMachine) -> None:
        """Take a machine for the one that was learned."""
        self.model_ = machine
        self.n_features_in_ = machine.n_visible
        self._gibbs_calls: int = 0  # of steps that were asked for

    # -- questions ------------------------------------------------------------------------------------------------
    def transform(self, X: Any) -> np.ndarray:
        """Return P(h = 1) of every hidden unit given each row, ``(N, n_hidden)``."""
        rows = self._rows(X, fitted=True)
        machine = self.model_
        out = np.empty((len(rows), machine.n_hidden), machine.dtype)
        size = max(1, _BYTES // (8 * machine.n_vars))
        for where, piece in rows.pieces(machine.dtype, size):
            out[where] = given_layer(piece, machine.weights, machine.hidden_bias)
        return out

    def free_energy(self, X: Any) -> Floats:
        """Return the free energy of each row: log p(v) = -F(v) - log Z."""
        rows = self._rows(X, fitted=True)
        return free_energies(self.model_, rows)

    def score_samples(self, X: Any) -> Floats:
        """Return the exact pseudo-log-likelihood of each row, ``(N,)``."""
        rows = self._rows(X, fitted=True)
        with one_thread_of_blas():
            return pseudo_log_likelihoods(self.model_, rows, self._executor)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of :meth:`score_samples`."""
        return float(self.score_samples(X).mean())

    def log_likelihood(
        self, X: Any, method: Method | str = "auto", gradient: bool = False, **options: Unpack[Options]
    ) -> LogLikelihood:
        """Return the log-likelihood of rows with what it is worth; see :func:`beliefs.log_likelihood`."""
        rows = self._rows(X, fitted=True)
        bits = rows.into(np.empty((len(rows), rows.width), np.float64 if self.binarize == "mean" else np.uint8))
        return log_likelihood(self.model_, bits, method, gradient, **options)

    def sample(self, n: int = 1, method: Method | str = "auto", **options: Unpack[Options]) -> np.ndarray:
        """Return ``n`` rows of visible bits drawn from the machine; see :func:`beliefs.sample`."""
        self._check_fitted()
        found = sample(self.model_, n, method, **options)
        return found.samples[:, : self.model_.n_visible].astype(np.uint8)

    def gibbs(self, v: Any) -> np.ndarray:
        """Return the rows after one step of block Gibbs sampling; further calls have further random numbers."""
        rows = self._rows(v, "v", fitted=True)
        chains = BlockChains(self.model_, len(rows), root_key(self._seed(), 1), threads_of(self.n_jobs))
        rows.into(chains.visible)
        chains.n_sweeps = self._gibbs_calls
        with one_thread_of_blas():
            chains.sweep()
        self._gibbs_calls += 1
        return chains.visible.astype(np.bool_)

    # -- scikit-learn's names -------------------------------------------------------------------------------------
    @property
    def components_(self) -> np.ndarray:
        """Weights ``(n_hidden, n_visible)``."""
        self._check_fitted()
        return self.model_.weights.T

    @property
    def intercept_hidden_(self) -> np.ndarray:
        """Hidden bias."""
        self._check_fitted()
        return self.model_.hidden_bias

    @property
    def intercept_visible_(self) -> np.ndarray:
        """Visible bias."""
        self._check_fitted()
        return self.model_.visible_bias

    @property
    def weights_(self) -> np.ndarray:
        """All numbers of the machine: weights row by row, visible bias, hidden bias."""
        self._check_fitted()
        return MachineShape.vector(self.model_)

    @property
    def _n_features_out(self) -> int:
        return self.model_.n_hidden

    # -- files ----------------------------------------------------------------------------------------------------
    def _learned(self) -> Learned:
        """Return what a file keeps."""
        machine = self.model_
        state: dict[str, Any] = {"n_visible": machine.n_visible, "type": str(machine.dtype)}
        if isinstance(machine, FractionalRBM):
            state["counts"] = machine.counts
        state |= {name: getattr(self, name) for name in self._learned_names if hasattr(self, name)}
        none = np.zeros(0, np.int64)
        return Learned(MachineShape.vector(machine), none, none, (), state)

    def _restore(self, learned: Learned) -> None:
        """Take up what a file has kept."""
        self._check_options()
        state = dict(learned.state)
        n, dtype, counts = int(state.pop("n_visible")), state.pop("type"), state.pop("counts", None)
        check_option(is_word(dtype, ("float32", "float64")), "the type of the weights", "float32 or float64", dtype)
        n_hidden, rest = divmod(learned.weights.size - n, n + 1)
        if n < 1 or rest or learned.weights.ndim != 1:
            raise ModelError(f"expected the weights of {n} visible units, found {learned.weights.shape}")
        parts = MachineShape(n, n_hidden).parts(learned.weights.astype(dtype))
        for name in state:
            if name not in self._learned_names:
                raise ModelError(f"{name!r} is no name of something learned")
        self._keep(RBM(*parts) if counts is None else FractionalRBM(*parts, counts))
        for name, value in state.items():
            setattr(self, name, value)
