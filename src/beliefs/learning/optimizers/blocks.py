r"""The dual of a structured SVM, block by block: what it is made of, and how blocks of any linear template move.

With :math:`\theta_i = J_i w` linear in the weights, and a loss that is a maximum of planes,
:math:`L_i = \max_y \ell_y + s_y \cdot \theta_i`,

.. math:: \min_w \frac1n \sum_i a_i L_i + \lambda \lVert w \rVert^2 = \max_{\alpha} D(\alpha), \qquad
   D = \frac1n \sum_i a_i \ell_i - \lambda \lVert w \rVert^2, \qquad w = -\frac{1}{2 \lambda n} \sum_i a_i J_i^\top s_i

with :math:`(s_i, \ell_i)` a mixture of the planes of instance i. A block's state is its mixture: as many numbers as
``theta`` has cells, never as many as there are weights. Every D is a lower bound on every value of the objective.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.base import Bound
from beliefs.inference.budget import default_budget, over_budget
from beliefs.kernels.losses.frank_wolfe import N_NUMBERS, DualArrays, update_block
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import InstanceLoss, Loss
from beliefs.learning.parallel import executor_of
from beliefs.typing import Floats, Ints

__all__ = ["Blocks", "Dual", "InstanceBlocks"]

_OFF_PLANE = 1e-6  # relative: a value further than this from its plane is that of another kind of loss


@dataclass(frozen=True, eq=False)
class Dual:
    """A point of the dual: arrays that kernels change, and the scale of the problem."""

    arrays: DualArrays
    n_labels: float
    l2: float

    @classmethod
    def start(cls, n_weights: int, n_cells: int, n_blocks: int, n_labels: float, l2: float) -> Dual:
        """Return the point at which every block is at its labels, so that all weights are 0."""
        needed = 8.0 * (n_cells + n_blocks + 3 * n_weights)
        if needed > default_budget():
            raise over_budget(
                "bcfw needs", needed, default_budget(), "Use fewer instances, or optimizer=\"one_slack\" or \"sgd\"",
                f" for {n_cells:.3g} cells of {n_blocks} instances",
            )  # fmt: skip
        sizes = (n_weights, n_weights, n_cells, n_blocks, N_NUMBERS)
        return cls(DualArrays(*(np.zeros(size) for size in sizes)), n_labels, l2)

    def filled(self, memory: dict[str, np.ndarray]) -> Dual:
        """Return the point that a checkpoint holds."""
        arrays = []
        for name, here in zip(DualArrays._fields, self.arrays, strict=True):
            there = np.array(memory[name], np.float64)
            if there.shape != here.shape:
                raise ModelError(f"the checkpoint holds {there.size} {name} of the dual, this fit has {here.size}")
            arrays.append(there)
        return Dual(DualArrays(*arrays), self.n_labels, self.l2)

    @property
    def memory(self) -> dict[str, np.ndarray]:
        """The arrays themselves, by name; they change with later steps, always by whole ones."""
        return dict(zip(DualArrays._fields, self.arrays, strict=True))

    @property
    def step(self) -> int:
        """Steps made."""
        return int(self.arrays.numbers[0])

    @property
    def n_pass(self) -> int:
        """Passes finished."""
        return int(self.arrays.numbers[1])

    @property
    def position(self) -> int:
        """Blocks of the present pass that are done."""
        return int(self.arrays.numbers[2])

    @property
    def is_certified(self) -> bool:
        """Whether all planes so far were minorants, so that the dual value is a lower bound."""
        return not self.arrays.numbers[7]

    @property
    def loss(self) -> float:
        """The mean over the present pass, at the weights of each time, of the loss per label, without the ridge."""
        losses, labels = self.arrays.numbers[5:7]
        return float(losses / labels) if labels else np.inf

    def end_pass(self) -> None:
        """Begin the next pass."""
        self.arrays.numbers[[1, 2, 5, 6, 8]] = (self.n_pass + 1.0, 0.0, 0.0, 0.0, 0.0)

    def averaged(self) -> Floats:
        """Return the mean of the weights after all steps, step j with weight j."""
        k = max(1, self.step)
        return self.arrays.weights - 2.0 / (k * (k + 1.0)) * self.arrays.lag

    def lower(self) -> float:
        """Return the larger of the dual values of the last point and of the average of all."""
        w, average, numbers = self.arrays.weights, self.averaged(), self.arrays.numbers
        last = numbers[3] / self.n_labels - self.l2 * float(w @ w)
        mean = numbers[4] / self.n_labels - self.l2 * float(average @ average)
        return float(max(last, mean))


class Blocks(ABC):
    """Labelled data, one block an instance, and how the dual moves along them.

    Attributes
    ----------
    n_blocks, n_cells, n_weights : int
        Instances, cells of all of them, and weights in the form in which the dual holds them.
    """

    n_blocks: int
    n_cells: int
    n_weights: int

    @abstractmethod
    def advance(self, dual: Dual, numbers: Ints, batch_size: int) -> int:
        """Move along some of the blocks with these numbers, the first ones; return how many.

        ``batch_size`` neighbours are solved at the same weights, then moved one after the other, each by an exact line
        search from where the one before has left the weights: the dual never decreases.
        """

    def template_weights(self, weights: Floats) -> Floats:
        """Return weights in the order of the template."""
        return weights.copy()


class InstanceBlocks(Blocks):
    """Instances of any template that is linear in its weights, solved by their loss one by one, a batch on threads."""

    def __init__(self, loss: Loss, instances: Sequence[Instance], n_labels: float) -> None:
        self.loss, self.instances = loss, instances
        for instance in instances:
            loss.check(instance)
        sizes = [instance.layout.n_cells for instance in instances]
        self.ptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        self.n_blocks, self.n_cells, self.n_weights = len(sizes), int(self.ptr[-1]), loss.template.n_weights
        self.scale = 1.0 / (2.0 * loss.l2 * n_labels)
        self._executor = executor_of(loss.threads)

    def advance(self, dual: Dual, numbers: Ints, batch_size: int) -> int:
        """Solve one batch and move along its blocks."""
        chosen = numbers[:batch_size].tolist()
        weights = dual.arrays.weights
        if len(chosen) == 1:
            found = [self._solved(weights, self.instances[chosen[0]])]
        else:
            found = self._executor.map(lambda i: self._solved(weights, self.instances[i]), chosen)
        for block, part in zip(chosen, found, strict=True):
            self._move(dual, block, part)
        return len(chosen)

    def _solved(self, weights: Floats, instance: Instance) -> InstanceLoss:
        theta = self.loss.template.theta(weights, instance.inputs)
        part = self.loss.part(theta, instance)
        if part.bound in (Bound.EXACT, None) and part.converged:
            off = abs(part.value - part.delta - float(part.grad_theta @ theta))
            if not off <= _OFF_PLANE * (1.0 + abs(part.value) + float(np.abs(part.grad_theta) @ np.abs(theta))):
                raise ModelError(
                    f"bcfw needs a loss that is a maximum of planes, which {self.loss.name} is not; "
                    'use optimizer="lbfgs" or "sgd"'
                )
        return part

    def _move(self, dual: Dual, block: int, part: InstanceLoss) -> None:
        instance, begin, end = self.instances[block], int(self.ptr[block]), int(self.ptr[block + 1])
        plane, template, pulled = np.array(part.grad_theta), self.loss.template, np.zeros(self.n_weights)
        template.add_pullback(dual.arrays.weights, instance.inputs, plane - dual.arrays.cells[begin:end], pulled)
        a = instance.weight
        facts: Any = (part.delta, a * self.scale, a, a * part.value, instance.n_counted)
        facts = np.array([*facts, not part.minorant, not part.converged], np.float64)
        update_block(dual.arrays, block, begin, plane, pulled, facts)
