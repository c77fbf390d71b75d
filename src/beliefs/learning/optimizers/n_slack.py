r"""Cutting planes of each instance: as many slacks as instances.

.. math:: R(w) \;\ge\; \sum_i \max_t\, (a_{it} \cdot w + b_{it}) + \lambda \lVert w \rVert^2, \qquad
   a_{it} \in \partial r_i(w_t), \quad \sum_i r_i = r

The model of :mod:`beliefs.learning.optimizers.bundle` with planes of single instances ([tsochantaridis2005],
[joachims2009] Algorithm 1): a maximum for each instead of one for all, so it is much closer to the risk and takes far
fewer evaluations; its quadratic program has as many variables as planes of all instances, and is solved one instance
after the other (:mod:`beliefs.kernels.optimizers.simplex_blocks`), no more precisely than the gap asks for. A plane is
added where it is above the others of its instance.

Guarantee: as of ``one_slack``: ``gap`` is at least the excess of the best weights, at every iterate, or inf. Cost: one
evaluation an iteration, instance by instance. Memory: planes are kept in the weights, 8 bytes for each weight of each
plane of each instance: some ten times instances x weights; beyond the memory at hand the fit is refused (use ``bcfw``,
whose memory is in cells of theta, or ``one_slack``). Failure: many weights and many instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.budget import default_budget, over_budget
from beliefs.kernels.optimizers.simplex_blocks import BlockPlanes, room_for, sweep_blocks
from beliefs.learning.batches import Share, Total
from beliefs.learning.fit_loss import Evaluation
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import Loss
from beliefs.learning.optimizers.bundle import Bundle, Model
from beliefs.learning.optimizers.objective import Objective
from beliefs.learning.optimizers.planes import rounding
from beliefs.learning.parallel import executor_of
from beliefs.typing import Floats

__all__ = ["NSlack"]

_TOL = 1e-12  # of a block's program
_SWEEPS = 500  # a solution, at most
_HIGHER = 1e-10  # relative: how far above the others a plane must be
_EXPECTED = 4  # planes an instance, for the first look at memory


@dataclass(frozen=True, kw_only=True, repr=False)
class NSlack(Bundle):
    """Cutting planes of every instance: few evaluations, much memory.

    Parameters
    ----------
    step : float in (0, 1]
        How far to go from the centre to the minimiser of the planes; 1 is plain cutting planes.
    inertia : float in [0, 1)
        The share of the centre that stays when it follows the best weights.
    keep : int
        Solutions without a part in which a plane stays.

    Examples
    --------
    >>> NSlack(keep=5)
    n_slack(keep=5)
    """

    step: float = 1.0
    inertia: float = 0.0
    keep: int = 10

    name: ClassVar[str] = "n_slack"

    def check(self, objective: Objective) -> None:
        """Refuse, besides what other bundle methods do, what is no list of instances, and what memory cannot hold."""
        super().check(objective)
        data: Any = objective.data
        if not isinstance(objective.loss, Loss) or not isinstance(data, list | tuple) or not len(data):
            raise ModelError("n_slack needs a loss of instances and a list of them; use one_slack")
        if not all(isinstance(instance, Instance) for instance in data):
            raise ModelError("n_slack needs a list of instances; use one_slack")
        needed = 8.0 * _EXPECTED * len(data) * objective.start.size
        if needed > default_budget():
            what = f" for planes of {len(data)} instances in {objective.start.size} weights"
            raise over_budget("n_slack needs", needed, default_budget(), "Use bcfw or one_slack", what)

    def model(self, objective: Objective, arrays: dict[str, np.ndarray] | None) -> Model:
        """Return the planes of the instances."""
        return _Single(objective, arrays)


class _Single(Model):
    """Some planes of each instance, in their order: ``owner (P,)`` says whose each is."""

    def __init__(self, objective: Objective, arrays: dict[str, np.ndarray] | None) -> None:
        self.objective, self.n = objective, len(objective.data)  # type: ignore[arg-type]
        d = objective.start.size
        self.slopes, self.offsets, self.alpha = np.zeros((0, d)), np.zeros(0), np.zeros(0)
        self.owner, self.idle = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if arrays is not None:
            self.slopes, self.offsets, self.alpha = arrays["slopes"], arrays["offsets"], arrays["alpha"]
            self.owner, self.idle = arrays["owner"], arrays["idle"]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all planes and the dual solution."""
        return {name: getattr(self, name) for name in ("slopes", "offsets", "alpha", "owner", "idle")}

    # -- planes ---------------------------------------------------------------------------------------------------
    def look(self, weights: Floats) -> Evaluation:
        """Evaluate every instance on its own, side by side."""
        objective, loss = self.objective, self.objective.loss
        objective.n_evaluations += 1
        total, shares = Total(np.zeros(weights.size)), list[Share]()
        with np.errstate(over="ignore", invalid="ignore"):
            for share in loss.shares(weights, objective.data, executor_of(loss.threads)):
                total.add(share)
                shares.append(share)
        self.weights, self.shares, self.n_labelled = weights, shares, total.n_labelled
        return total.evaluation(weights, objective.l2)

    def cut(self) -> None:
        """Add the planes that are above the others of their instance."""
        w, old = self.weights, self.offsets.size
        slopes = np.array([share.grad for share in self.shares])
        slopes /= self.n_labelled
        if not self.objective.all_free:
            slopes[:, ~self.objective.free] = 0.0
        values = np.array([share.value for share in self.shares]) / self.n_labelled
        first = not old
        known = np.full(self.n, -np.inf)
        if not first:
            np.maximum.at(known, self.owner, self.slopes @ w + self.offsets)
        higher = np.flatnonzero(values > known + _HIGHER * np.abs(values)) if not first else np.arange(self.n)
        self._needs(old + higher.size)
        norms = [np.einsum("ij,ij->i", some, some).max(initial=0.0) for some in (slopes, self.slopes)]
        offsets = values - slopes @ w - rounding(values, float(np.sqrt(max(norms))), w)
        owner = np.concatenate([self.owner, higher])
        order = np.argsort(owner, kind="stable")
        together, place = np.empty((owner.size, w.size)), np.empty(owner.size, np.int64)
        place[order] = np.arange(owner.size)
        together[place[:old]], together[place[old:]], self.slopes = self.slopes, slopes[higher], together
        self.offsets = np.concatenate([self.offsets, offsets[higher]])[order]
        self.alpha = np.concatenate([self.alpha, np.full(higher.size, 1.0 if first else 0.0)])[order]
        self.idle = np.concatenate([self.idle, np.zeros(higher.size, np.int64)])[order]
        self.owner = owner[order]

    def _needs(self, planes: int) -> None:
        needed = 8.0 * planes * self.objective.start.size
        if needed > default_budget():
            raise over_budget(
                "n_slack needs", needed, default_budget(), "Use bcfw or one_slack", f" for {planes} planes"
            )

    def drop(self, idle: int) -> None:
        """Let go of planes that have been idle for longer."""
        stay = self.idle <= idle
        if not stay.all():
            for name in ("slopes", "offsets", "alpha", "owner", "idle"):
                setattr(self, name, getattr(self, name)[stay])

    # -- the dual -------------------------------------------------------------------------------------------------
    def solve(self, precision: float) -> None:
        """Sweep over the instances until what is left to gain is within the precision."""
        counts = np.bincount(self.owner, minlength=self.n)
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        widest = int(counts.max())
        gram = np.zeros((self.offsets.size, widest))
        for i in np.flatnonzero(counts > 1):
            own = self.slopes[ptr[i] : ptr[i + 1]]
            gram[ptr[i] : ptr[i + 1], : len(own)] = own @ own.T
        planes = BlockPlanes(ptr, self.slopes, self.offsets, gram)
        alpha, room = self.alpha.copy(), room_for(widest)
        total = alpha @ self.slopes
        for _ in range(_SWEEPS):
            if sweep_blocks(planes, self.objective.l2, _TOL, room, alpha, total) <= precision:
                break
        self.alpha, self.idle = alpha, np.where(alpha > 0, 0, self.idle + 1)

    def minimiser(self) -> tuple[Floats, float]:
        """Return the weights of the dual solution and the dual value there."""
        l2, total = self.objective.l2, self.alpha @ self.slopes
        return -total / (2.0 * l2), float(self.offsets @ self.alpha - total @ total / (4.0 * l2))
