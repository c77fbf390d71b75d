r"""A free power sum minus a power sum given the labels: what likelihoods and margins have in common.

.. math:: L(\theta) = F(\theta) - C(\theta), \qquad \frac{dL}{d\theta} = \mu_F(\theta) - \mu_C(\theta)

with F over all variables and C over the hidden ones, the labels as evidence. Without hidden variables C is the score of
the labels. Both are convex in theta where they are exact, so L is convex without hidden variables, and else a
difference of convex functions, which :mod:`beliefs.learning.optimizers.cccp` minimises by linearising C.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.base import Bound
from beliefs.inference.run import Answer
from beliefs.learning.batches import Batch
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import InstanceLoss, Loss
from beliefs.learning.losses.free_energy import free_energy
from beliefs.learning.losses.label_scores import label_scores
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["DifferenceLoss", "any_hidden", "energies", "impossible", "of_difference", "scattered"]

_SLACK = 1e-6  # of the free value: a loss below zero by less is rounding and tolerance


@dataclass(frozen=True, kw_only=True)
class DifferenceLoss(Loss):
    """What likelihoods and margins share: a free term, a term of the labels, and their gradients."""

    hidden: ClassVar[bool] = True
    by_variable: ClassVar[bool] = False
    clamps: ClassVar[bool] = True

    def free(self, graph: FactorGraph, instance: Instance) -> Answer:
        """Return the answer for the model as it is, with costs where the loss has some; over the model's cells."""
        raise NotImplementedError

    def clamped(self, graph: FactorGraph, instance: Instance) -> Answer:
        """Return the answer for the model with the labels as evidence."""
        raise NotImplementedError

    def expected_cost(self, free: Answer, instance: Instance) -> float:
        """Return the expected cost under the free answer, for losses with a margin."""
        return 0.0

    def is_plane(self, free: Answer) -> bool:
        """Whether the tangent of a free term is nowhere above the exact one."""
        return free.bound is Bound.EXACT

    @property
    def alternates(self) -> bool:
        """Both terms are convex."""
        return True

    def is_convex(self, data: Any) -> bool:
        """Whether nothing is hidden, as far as that can be seen without going through the data."""
        return not any_hidden(data)

    def is_maximum(self, data: Any) -> bool:
        """It is a difference of sums."""
        return False

    def free_batches(self, data: Any) -> Iterable[Batch] | None:
        """Return a list of instances laid out for the free term alone, if that is quicker than one by one."""
        return None

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return the free value minus that of the labels, and the difference of expectations."""
        whole = instance.graph(theta)
        free = self.free(whole, instance)
        if instance.n_labelled == instance.labels.size:
            clamped, scores = None, instance.by_part(label_scores(whole, instance))
            score, settled, worth, expected = float(scores.sum()), True, Bound.EXACT, instance.statistics
            least = score
        else:
            graph = instance.clamped(theta)
            clamped = self.clamped(graph, instance)
            score, settled, worth, least = clamped.log_z, clamped.converged, clamped.bound, clamped.lower
            expected = scattered(graph, clamped.mu, theta.size)
        bound, diverged = of_difference(free.bound, worth), impossible(free.log_z, score)
        if instance.n_parts > 1 and bound not in (Bound.EXACT, Bound.UPPER):  # any part may be below zero
            of_labels = scores if clamped is None else energies(graph, clamped, instance)
            diverged = diverged or impossible(energies(whole, free, instance), of_labels)
        return InstanceLoss(
            free.log_z - score,
            free.mu - expected,
            diverged,
            free.converged and settled,
            bound,
            upper=free.upper - least,
            minorant=clamped is None and self.is_plane(free),
            delta=self.expected_cost(free, instance),
        )


def any_hidden(data: Any) -> bool:
    """Whether some instance of a list has a hidden variable, or a stream says so of itself."""
    if not isinstance(data, list | tuple):
        return bool(getattr(data, "any_hidden", False))
    return any(instance.n_labelled < instance.labels.size for instance in data)


def scattered(graph: FactorGraph, mu: Floats, n_cells: int) -> Floats:
    """Return the expectations of a conditioned graph at the cells of the whole one."""
    assert graph.parent_cells is not None
    return np.bincount(graph.parent_cells, mu, n_cells).astype(np.float64, copy=False)


def energies(graph: FactorGraph, found: Answer, instance: Instance) -> Floats:
    """Return the free energy of each part of an instance: its log Z, to the tolerance of inference."""
    room = np.empty(graph.layout.n_states), np.empty(int(graph.layout.table_ptr[-1]))
    of_vars, of_factors = free_energy("counted", graph, found, *room)
    return instance.by_part(of_factors, of_vars)


def impossible(log_z: Floats | float, score: Floats | float) -> bool:
    """Whether a surrogate log-probability of the labels is positive beyond rounding and tolerance, of any part."""
    return bool(np.any(score - log_z > _SLACK * np.maximum(1.0, np.abs(score))))


def of_difference(free: Bound, clamped: Bound) -> Bound:
    """Return what ``A - A(z)`` is of the negative log-likelihood, given what its two terms are of theirs."""
    if free is Bound.EXACT and clamped is Bound.EXACT:
        return Bound.EXACT
    if free in (Bound.EXACT, Bound.UPPER) and clamped in (Bound.EXACT, Bound.LOWER):
        return Bound.UPPER
    if free in (Bound.EXACT, Bound.LOWER) and clamped in (Bound.EXACT, Bound.UPPER):
        return Bound.LOWER
    return Bound.ESTIMATE
