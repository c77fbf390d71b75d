r"""What annealed importance sampling found: weights, what they are worth, and an interval from both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.base import Bound
from beliefs.inference.result import InferenceResult
from beliefs.inference.rounding import widened
from beliefs.options import check_option, is_number
from beliefs.typing import Floats

__all__ = ["AISResult", "Weights"]

_RANKS = (10**9, 10, 4, 2)  # the smallest weight, and those a tenth, a quarter and half of the way up


@dataclass(frozen=True, eq=False)
class Weights:
    """Log weights of independent chains, ``(chains,)`` float64, whose mean weight is Z over that of the base.

    Those of chains that went back have the mean of the base's Z over Z; their log Z is ``log_z_base - log_mean``.
    """

    log_weights: Floats
    log_z_base: float

    @cached_property
    def log_mean(self) -> float:
        """Log of the mean weight."""
        return float(np.logaddexp.reduce(self.log_weights) - np.log(self.log_weights.size))

    @property
    def log_z(self) -> float:
        """The estimate of chains that went forward."""
        return self.log_z_base + self.log_mean

    @property
    def log_z_reverse(self) -> float:
        """The estimate of chains that went back."""
        return self.log_z_base - self.log_mean

    @cached_property
    def relative(self) -> Floats:
        """Weights over their mean."""
        weights: Floats = np.exp(self.log_weights - self.log_mean)
        return weights

    @property
    def effective_sample_size(self) -> float:
        """As many chains of equal weight would say as much: the squared sum of weights over the sum of squares."""
        return float(self.relative.sum() ** 2 / (self.relative**2).sum())

    @property
    def standard_error(self) -> float:
        """Of log Z, by the delta method; inf for a single chain."""
        n = self.log_weights.size
        return float(self.relative.std(ddof=1) / math.sqrt(n)) if n > 1 else math.inf


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AISResult(InferenceResult):
    """Answer to ``infer`` by annealed importance sampling; what ends in ``_reverse`` is None unless that was asked for.

    Attributes
    ----------
    log_weights : ndarray (chains,)
        Of the chains, in float64: log of an unbiased estimate of Z over the base's, each.
    standard_error : float
        Of ``log_z``; it knows only the weights that were seen.
    effective_sample_size : float
        From 1 to the number of chains; with few, the standard error means little.
    log_z_base : float
        Log Z of the base, which is known.
    log_z_reverse, log_weights_reverse, standard_error_reverse, effective_sample_size_reverse
        The same of the chains that went back.
    reverse_start : str
        ``"exact"``: independent samples of the machine; ``"gibbs"``: ends of Markov chains, with which the upper end of
        the interval is only as good as they are; empty where nothing went back.
    rounding : float
        How wrong arithmetic may have made log weights and log Z of the base; hardly anything but for huge weights.
    """

    of_log_z: ClassVar[tuple[str, ...]] = ("log_z_base", "log_z_reverse")

    log_weights: Floats
    standard_error: float
    effective_sample_size: float
    log_z_base: float
    log_z_reverse: float | None
    log_weights_reverse: Floats | None
    standard_error_reverse: float | None
    effective_sample_size_reverse: float | None
    reverse_start: str
    rounding: float

    @staticmethod
    def fields_of(forward: Weights, reverse: Weights | None, reverse_start: str, rounding: float) -> dict[str, Any]:
        """Return the fields that this result has besides."""
        return {
            "log_weights": forward.log_weights,
            "standard_error": forward.standard_error,
            "effective_sample_size": forward.effective_sample_size,
            "log_z_base": forward.log_z_base,
            "log_z_reverse": None if reverse is None else reverse.log_z_reverse,
            "log_weights_reverse": None if reverse is None else reverse.log_weights,
            "standard_error_reverse": None if reverse is None else reverse.standard_error,
            "effective_sample_size_reverse": None if reverse is None else reverse.effective_sample_size,
            "reverse_start": reverse_start,
            "rounding": rounding,
        }

    def interval(self, confidence: float = 0.99) -> tuple[float, float]:
        r"""Return ends between which log Z lies with this probability, whatever the variance of the weights.

        By Markov's inequality a weight is more than :math:`1/p` times its expectation with probability p at most. So is
        their mean; and since chains are independent, the k-th smallest of R weights is with the probability that a
        binomial of R and p has :math:`R - k + 1` successes or more. The mean and a few k, fixed beforehand, share the
        failures that are allowed, and the best of their ends is taken. Forward chains give the lower end and reverse
        ones the upper, each with half of the failures; without reverse chains the upper end is inf. The upper end
        relies on exact samples, see ``reverse_start``. Both ends are moved by ``rounding``, and where they cross, so
        that one of them failed, they are exchanged.
        """
        fine = is_number(confidence) and 0 < confidence < 1
        check_option(fine, "confidence", "a number between 0 and 1", confidence)
        share = (1.0 - confidence) * (1.0 if self.log_z_reverse is None else 0.5)
        upper = math.inf
        if self.log_weights_reverse is not None:
            upper = self.log_z_base - _surely_below(self.log_weights_reverse, share)
        ends = sorted((self.log_z_base + _surely_below(self.log_weights, share), upper))
        return widened(ends[0], self.rounding, Bound.LOWER), widened(ends[1], self.rounding, Bound.UPPER)


def _surely_below(log_weights: Floats, failure: float) -> float:
    """Return a number below the log of the expected weight, but for this probability of failure."""
    from scipy.special import betaincinv  # takes as long to load as the rest of the library

    n = log_weights.size
    ranks = sorted({max(1, n // part) for part in _RANKS}) if n > 1 else []
    share = failure / (1 + len(ranks))
    ends = [float(np.logaddexp.reduce(log_weights) - np.log(n)) + math.log(share)]
    rising = np.sort(log_weights)
    ends += [float(rising[k - 1] + np.log(betaincinv(n - k + 1, k, share))) for k in ranks]
    return max(ends)
