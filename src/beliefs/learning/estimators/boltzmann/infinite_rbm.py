"""A restricted Boltzmann machine whose hidden layer grows until more units would not help."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from beliefs.driver import Status
from beliefs.errors import ModelError
from beliefs.inference.budget import over_budget
from beliefs.inference.doors import infer
from beliefs.learning.boltzmann.infinite.expectations import check_enumerable
from beliefs.learning.boltzmann.infinite.frank_wolfe import FrankWolfe
from beliefs.learning.boltzmann.infinite.gap import GrowingGap
from beliefs.learning.boltzmann.infinite.measure import Measure, flat_size
from beliefs.learning.boltzmann.infinite.objective import GrowingLikelihood
from beliefs.learning.boltzmann.infinite.sampled import Sampling
from beliefs.learning.boltzmann.rows import BitRows, RowStream
from beliefs.learning.estimators.boltzmann.machine import MachineEstimator
from beliefs.learning.estimators.unchanged import unchanged_by_errors
from beliefs.learning.fit import fit
from beliefs.learning.parallel import threads_of
from beliefs.learning.result import FitResult
from beliefs.model.machine import BoltzmannMachine
from beliefs.options import MANY, check_integer, check_number, check_option, is_number, is_word
from beliefs.typing import Floats, Ints

__all__ = ["GrowthTrace", "InfiniteRBM"]

_MOST_UNITS = 10**5
_STEPS = 4  # times max_units: the steps where some of them move or remove units


@dataclass(frozen=True, eq=False)
class GrowthTrace:
    """A row a step, that is a unit where none is removed or moved.

    Attributes
    ----------
    n_units : ndarray of int
        Hidden units after the step.
    seconds : ndarray
        Since the fit began.
    subproblem : ndarray
        J of the unit that was found, eq. (5.8), with the visible bias making up for the unit's mean effect.
    gap : ndarray
        The Frank-Wolfe gap before the step.
    gain : ndarray
        What the step and the bias after it have added to the mean log-likelihood of the training rows: exact with
        ``expectations="exact"``, else an estimate.
    step : ndarray
        1 where a unit was appended, -1 where one was removed; of a fixed or learned alpha the share of the mass that
        was moved, below 0 for steps away.
    log_z : ndarray
        The normaliser that the gains are based on, exact or an estimate likewise.
    free_energy : ndarray
        The mean free energy of the training rows.
    free_energy_gap : ndarray
        How much higher that of the rows held out is; inf where none are.
    """

    n_units: Ints
    seconds: Floats
    subproblem: Floats
    gap: Floats
    gain: Floats
    step: Floats
    log_z: Floats
    free_energy: Floats
    free_energy_gap: Floats

    @classmethod
    def of(cls, result: FitResult) -> GrowthTrace:
        """Collect what a fit has recorded; the first row of its trace is the start."""
        columns = dict(result.record)
        units = columns.pop("n_units").astype(np.int64)
        trace = result.trace
        return cls(n_units=units, seconds=trace.seconds[1:], free_energy_gap=trace.validation[1:], **columns)

    def __len__(self) -> int:
        return len(self.n_units)


@dataclass(eq=False, repr=False)
class InfiniteRBM(MachineEstimator):
    """A machine that hidden units are added to one by one, by Frank-Wolfe steps ([ping2016] chapter 5).

    Parameters
    ----------
    max_units : int
        Hidden units at most.
    alpha : "units", "learned" or float
        ``"units"`` appends a whole unit a step, so that the model is an ordinary machine. A number is the mass of a
        measure over weight vectors, which steps move about: a fractional machine whose counts sum to at most alpha;
        ``"learned"`` moves alpha as well.
    l2 : float
        lambda: the longer the weights of a unit, the more it must explain. With small values a unit may lower the
        likelihood; ``trace_.gain`` shows it.
    expectations : "sampled" or "exact"
        By persistent chains, or by writing out all visible rows, for up to 20 visible units.
    away_steps : bool
        Whether units may also be removed.
    hidden_bias : bool
        Whether hidden units have a bias; it counts as one of their weights.
    init : RBM, FractionalRBM or fitted estimator, optional
        A machine to go on from.
    n_starts : int
        Starts of the search for each unit.
    chains, sweeps : int
        Markov chains, and sweeps between two units.
    bias_steps : int
        Steps of the visible bias after each unit, one sweep each.
    learning_rate : float
        Of these steps.
    tol : float
        Nats that a unit (of a fixed or learned alpha, the best measure) must promise to add.
    dtype, binarize, validation, patience, max_gap, checkpoint, max_bytes, n_jobs, callback, progress, random_state
        As for every estimator of machines, :class:`~beliefs.learning.estimators.boltzmann.machine.MachineEstimator`;
        ``binarize="sample"`` draws once here, and with ``expectations="exact"`` all is float64.

    Attributes
    ----------
    model_ : RBM or FractionalRBM
    n_units_ : int
        Its hidden units.
    trace_ : GrowthTrace
    result_ : FitResult
        Status and reason: ``CONVERGED`` where no unit helps, ``STOPPED`` where the free-energy gap has grown,
        ``MAX_ITERS`` where ``max_units`` was reached.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> prototypes = np.where(rng.random((3, 8)) < 0.5, 0.05, 0.95)
    >>> rows = rng.random((200, 8)) < prototypes[rng.integers(3, size=200)]
    >>> machine = InfiniteRBM(20, l2=0.05, expectations="exact").fit(rows)
    >>> machine.result_.status.name, machine.trace_.gain[:4].round(2)
    ('CONVERGED', array([1.16, 0.41, 0.37, 0.2 ]))
    """

    max_units: int = 700
    _: KW_ONLY
    alpha: Any = "units"
    l2: float = 0.1
    expectations: str = "sampled"
    away_steps: bool = False
    hidden_bias: bool = True
    init: Any = None
    n_starts: int = 2
    chains: int = 1500
    sweeps: int = 10
    bias_steps: int = 20
    learning_rate: float = 0.2
    tol: float = 1e-4
    random_state: Any = None

    option_names: ClassVar[dict[str, str]] = MachineEstimator.option_names | {"max_iters": "max_units"}
    _tiny: ClassVar[dict[str, Any]] = {"max_units": 2, "chains": 8, "bias_steps": 2}

    @property
    def n_units_(self) -> int:
        """Hidden units of the fitted machine."""
        return self.model_.n_hidden

    def fit(self, X: Any, y: Any = None) -> Self:
        """Grow a machine on rows of bits, ``(N, n_visible)``; ``y`` is ignored. An error leaves the estimator as is."""
        with unchanged_by_errors(self):
            self._check_options()
            seed = self._seed()
            rows = self._stream(X, seed)
            if isinstance(rows, RowStream):
                raise ModelError("InfiniteRBM reads its rows for every unit: give an array, a memory map or a matrix")
            data, held = self._divided(rows, seed)
            self._check_memory(data, held)
            start = self._start(data, seed)
            loss = self._loss(data.width)
            gap = self._gap(data, held)
            self.result_ = self._reasoned(
                fit(
                    loss,
                    data,
                    start.flat(self.max_units),
                    optimizer=self._optimizer(),
                    tol=self.tol,
                    max_iters=self._max_steps,
                    callback=self.callback,
                    progress=self.progress,
                    checkpoint=self.checkpoint,
                    seed=seed,
                    validation=None if gap is None else GrowingGap(gap, loss, self._type, self._executor),
                    patience=self.patience,
                ),
                loss,
            )
            self.trace_ = GrowthTrace.of(self.result_)
            self._keep(loss.measure(self.result_.weights).machine(self._type, loss.plain))
        return self

    @property
    def _type(self) -> str:
        return "float64" if self.expectations == "exact" else self.dtype

    @property
    def _max_steps(self) -> int:
        """One step a unit; more where steps may move or remove units."""
        appends_only = self.alpha == "units" and not self.away_steps
        return self.max_units if appends_only else _STEPS * self.max_units

    def _optimizer(self) -> FrankWolfe:
        sampling = Sampling(self.chains, self.sweeps, self.bias_steps, float(self.learning_rate))
        return FrankWolfe(
            expectations=self.expectations,
            away_steps=bool(self.away_steps),
            hidden_bias=bool(self.hidden_bias),
            n_starts=self.n_starts,
            sampling=sampling,
            dtype=self.dtype,
        )

    def _loss(self, n_visible: int) -> GrowingLikelihood:
        return GrowingLikelihood(
            n_visible=n_visible,
            max_units=self.max_units,
            l2=float(self.l2),
            alpha=self.alpha,
            threads=threads_of(self.n_jobs),
        )

    def _reasoned(self, result: FitResult, loss: GrowingLikelihood) -> FitResult:
        """Say in words of machines why early stopping has stopped."""
        if result.status is not Status.STOPPED or result.was_stopped:
            return result
        kept = loss.measure(result.weights).n_units
        reason = f"the free-energy gap has grown for {self.patience} steps; the machine with {kept} units is kept"
        return replace(result, reason=reason)

    # -- where to begin ---------------------------------------------------------------------------------------------
    def _start(self, data: BitRows, seed: int) -> Measure:
        """Return the measure without units that fits the rates of the rows, or that of the machine to go on from."""
        machine = getattr(self.init, "model_", self.init)
        if machine is None:
            ones = np.zeros(data.width)
            for _, piece in data.pieces(np.float64):
                ones += piece.sum(axis=0)
            return Measure.independent(ones / len(data), len(data), self._mass(0.0))
        check_option(isinstance(machine, BoltzmannMachine), "init", "a machine or a fitted estimator of one", self.init)
        if machine.n_visible != data.width:
            raise ModelError(f"init has {machine.n_visible} visible units, and the rows have {data.width}")
        if machine.n_hidden > self.max_units:
            raise ModelError(f"init has {machine.n_hidden} hidden units, more than max_units = {self.max_units}")
        total = float(machine.counts.sum())
        if self.alpha == "units" and not (machine.counts == 1.0).all():
            raise ModelError('init has units that do not count once, which alpha="units" cannot go on from: give alpha')
        if is_number(self.alpha) and total > self.alpha:
            raise ModelError(f"the counts of init sum to {total:g}, more than alpha = {self.alpha:g}; raise alpha")
        log_z = infer(machine, seed=seed, threads=threads_of(self.n_jobs)).log_z
        return Measure.of_machine(machine, self._mass(total), log_z)

    def _mass(self, counts: float) -> float:
        return float(self.alpha) if is_number(self.alpha) else max(counts, 1.0)

    # -- checks -----------------------------------------------------------------------------------------------------
    def _check_options(self) -> None:
        """Raise for options out of range, before any work."""
        super()._check_options()
        check_integer("max_units", self.max_units, 1, _MOST_UNITS)
        good = is_word(self.alpha, ("units", "learned")) or (is_number(self.alpha) and self.alpha > 0)
        check_option(good, "alpha", "'units', 'learned' or a number above 0", self.alpha)
        for name in ("l2", "learning_rate"):
            check_number(name, getattr(self, name), positive=True)
        check_number("tol", self.tol)
        words = ("sampled", "exact")
        check_option(is_word(self.expectations, words), "expectations", "'sampled' or 'exact'", self.expectations)
        for name in ("away_steps", "hidden_bias"):
            value = getattr(self, name)
            check_option(isinstance(value, bool | np.bool_), name, "True or False", value)
        for name, least in (("n_starts", 1), ("chains", 1), ("sweeps", 1), ("bias_steps", 0)):
            check_integer(name, getattr(self, name), least, MANY)

    def _check_memory(self, data: BitRows, held: BitRows | None) -> None:
        """Raise where the fit would need more than is allowed, the rows themselves left aside."""
        n, k, width = data.width, self.max_units, np.dtype(self._type).itemsize
        needed = 5 * 8.0 * flat_size(n, k) + 3.0 * width * n * k  # points of the fit, and machines
        if self.expectations == "exact":
            check_enumerable(n)
            needed += 2.0**n * (9 * n + 64)
        else:
            needed += self.chains * (2.0 * width * (n + k) + 3.0 * n)
        needed += 2**22 * threads_of(self.n_jobs) + 64.0 * (0 if held is None else len(held))
        if needed > self._budget:
            advice = "Raise max_bytes, or give fewer chains or max_units"
            raise over_budget("InfiniteRBM needs", needed, self._budget, advice)
