"""Machines as resumable jobs: fitted, kept in a file, judged by annealing and by a classifier on their hidden units.

A job is one fit or one judgement. Fits keep a checkpoint and stop after ``minutes``; the next run goes on, and what is
not finished is None until then. Findings are kept in a JSON file, machines beside it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from image_bits import Bits
from trials import Kept

import beliefs as bl
from beliefs.learning.boltzmann.gap import FreeEnergyGap
from beliefs.learning.boltzmann.rows import bit_rows

__all__ = ["Jobs", "Setting"]

EVERY = 20  # units between two looks at a machine that grows


@dataclass(frozen=True)
class Setting:
    """How large a study is."""

    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    batches: tuple[int, ...]
    penalties: tuple[float, ...]
    bias_rates: tuple[float, ...]
    epochs: int
    n_starts: int
    chosen_at: tuple[int, int]  # units and epochs at which rate and batch are chosen; units at which the penalty is
    annealing: str  # of the rows that are tried
    chosen_by: str  # the annealing of validation rows
    minutes: float = 60.0


@dataclass(eq=False)
class Jobs:
    """Fits and judgements on one set of rows; ``wanted`` says by its name whether a job may be run now."""

    bits: Bits
    setting: Setting
    folder: Path
    kept: Kept
    wanted: Callable[[str], bool]

    def _job(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return what a job has found, None if it is neither kept nor wanted, or was not finished."""
        name = f"{self.bits.name}/{name}"
        if name in self.kept.found or not self.wanted(name):
            return self.kept.found.get(name)
        try:
            found = self.kept.of(name, compute)
        except Unfinished:
            print(f"  {name}: not finished; run again to go on", flush=True)
            return None
        print(f"  {name}: {_short(found)}", flush=True)
        return found

    def _judged(self, name: str, kind: str, compute: Callable[[], Any]) -> Any:
        """Return a judgement of a machine, None where neither it nor the machine is there."""
        whole = f"{name}/{kind}"
        is_known = f"{self.bits.name}/{whole}" in self.kept.found
        return self._job(whole, compute) if is_known or self._path(name).is_file() else None

    def is_made(self, name: str) -> bool:
        """Whether a machine is there, or was judged elsewhere."""
        return self._path(name).is_file() or f"{self.bits.name}/{name}/test" in self.kept.found

    def _path(self, name: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{self.bits.name}-{name.replace('/', '-')}.npz"

    def machine(self, name: str) -> bl.RBM:
        """Return a machine that a job has made."""
        return bl.read(self._path(name))

    def _stops(self) -> Callable[[Any], bool]:
        end = time.perf_counter() + 60 * self.setting.minutes
        return lambda now: time.perf_counter() > end

    def _random(self, size: int, seed: int) -> bl.RBM:
        """Return small random weights, with the bias that fits the rows alone: from none, units saturate."""
        rates = np.clip(self.bits.train.mean(axis=0), 1e-3, 1 - 1e-3)
        weights = np.random.default_rng([seed, size]).normal(0.0, 0.01, (rates.size, size))
        return bl.RBM(weights.astype(np.float32), np.log(rates / (1 - rates)).astype(np.float32))

    # -- fits -------------------------------------------------------------------------------------------------------
    def cd(self, name: str, size: int, rate: float, batch: int, epochs: int, seed: int = 0, init: str = "") -> Any:
        """Fit by contrastive divergence with ten sweeps, maybe from another job's machine; return the seconds."""

        def compute() -> dict[str, float]:
            begin = self.machine(init) if init else self._random(size, seed)
            path = self._path(name).with_suffix(".checkpoint.npz")
            rbm = bl.BernoulliRBM(
                n_components=size, learning_rate=rate, batch_size=batch, n_iter=epochs, random_state=seed,
                loss="contrastive_divergence(sweeps=10)", init=begin, checkpoint=path, callback=self._stops(),
            )  # fmt: skip
            rbm.fit(self.bits.train)
            if rbm.result_.n_iters < epochs:
                raise Unfinished
            bl.write(rbm.model_, self._path(name))
            path.unlink()
            return {"seconds": rbm.result_.seconds}

        return self._job(name, compute)

    def grown(self, name: str, units: int, l2: float, rate: float | None, judged: tuple[int, ...]) -> Any:
        """Grow a machine, and keep it at some sizes; return seconds, gains and gaps by unit."""

        def compute() -> dict[str, Any]:
            path, stops = self._path(name).with_suffix(".checkpoint.npz"), self._stops()

            def told(now: Any) -> bool:
                measure = result_measure(now.weights, self.bits.train.shape[1], units)
                if measure.n_units in judged:
                    bl.write(measure.machine(np.float32, True), self._path(f"{name}/{measure.n_units}"))
                return stops(now)

            options = {} if rate is None else {"learning_rate": rate}
            machine = bl.InfiniteRBM(
                units, l2=l2, validation=self.bits.validation, max_gap=1e9, checkpoint=path, callback=told,
                random_state=0, **options,
            )  # fmt: skip
            machine.fit(self.bits.train)
            if machine.result_.status is bl.Status.STOPPED:
                raise Unfinished
            path.unlink()
            trace = machine.trace_
            names = ("n_units", "seconds", "subproblem", "gain", "free_energy", "free_energy_gap")
            return {key: getattr(trace, key).tolist() for key in names}

        return self._job(name, compute)

    # -- judgements -------------------------------------------------------------------------------------------------
    def likelihood(self, name: str, rows: str = "test") -> Any:
        """Return the mean log-likelihood of rows, and three standard errors of log Z."""

        def compute() -> list[float]:
            machine = self.machine(name)
            rates = np.clip(self.bits.train.mean(axis=0), 1e-3, 1 - 1e-3)
            annealing = self.setting.annealing if rows == "test" else self.setting.chosen_by
            method = bl.AIS(**_options(annealing), base=rates)
            found = bl.log_likelihood(machine, getattr(self.bits, rows), method, seed=0)
            return [found.mean, 3 * found.inference.standard_error]

        return self._judged(name, rows, compute)

    def error(self, name: str) -> Any:
        """Return the test error of logistic regression on P(h = 1)."""

        def compute() -> float:
            from sklearn.linear_model import LogisticRegression

            machine = self.machine(name)
            train, test = (machine.hidden_probability(rows) for rows in (self.bits.train, self.bits.test))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a hundred iterations are what is compared
                classifier = LogisticRegression(max_iter=100).fit(train, self.bits.train_labels)
            return 1.0 - float(classifier.score(test, self.bits.test_labels))

        return self._judged(name, "error", compute)

    def gap(self, name: str) -> Any:
        """Return the gap between the mean free energies of validation and training rows, and what counts as chance."""

        def compute() -> list[float]:
            gap = FreeEnergyGap(bit_rows(self.bits.train), bit_rows(self.bits.validation))
            return [gap.of(self.machine(name)), gap.margin]

        return self._judged(name, "gap", compute)

    def interval(self, name: str, annealing: str) -> Any:
        """Return the test log-likelihood with a 99 % interval from both sides, and what the upper end rests on."""

        def compute() -> dict[str, Any]:
            machine = self.machine(name)
            rates = np.clip(self.bits.train.mean(axis=0), 1e-3, 1 - 1e-3)
            result = bl.infer(machine, bl.AIS(**_options(annealing), base=rates, reverse=True), seed=1)
            low, high = result.interval(0.99)
            score = float(-machine.free_energy(self.bits.test).mean())
            return {
                "mean": score - result.log_z, "interval": [score - high, score - low],
                "reverse": score - result.log_z_reverse, "reverse_start": result.reverse_start, "annealing": annealing,
            }  # fmt: skip

        return self._judged(name, "interval", compute)


class Unfinished(Exception):
    """A job that has used its minutes."""


def result_measure(weights: np.ndarray, n_visible: int, max_units: int) -> Any:
    """Return the measure in a vector of a fit that grows."""
    from beliefs.learning.boltzmann.infinite.measure import Measure

    return Measure.of_flat(weights, n_visible, max_units)


def _options(text: str) -> dict[str, Any]:
    """Return ``chains=100, temperatures=1000`` as a dict."""
    pairs = (part.split("=") for part in text.replace(" ", "").split(",") if part)
    return {key: int(value) if value.isdigit() else value for key, value in pairs}


def _short(found: Any) -> str:
    if isinstance(found, dict):
        found = {key: value[-1] if isinstance(value, list) else value for key, value in found.items()}
    return " ".join(str(found).split())[:160]
