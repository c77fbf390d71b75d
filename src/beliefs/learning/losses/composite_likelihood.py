r"""Composite likelihood: sets of variables predicted from the labels of all others.

.. math:: L(\theta) = -\sum_c \log p(\hat x_{A_c} \mid \hat x_{-A_c}), \qquad
          p(x_A \mid \hat x_{-A}) \propto
          \exp \sum_{f \cap A \ne \emptyset} \theta_f(x_{f \cap A}, \hat x_{f \setminus A})

[lindsay1988], Eq. (4.26) [gelfand2014]. The gradient of a term is the conditional expectation of the statistics minus
those of the labels. Each term is a small conditional random field with its neighbours clamped, and exact inference
inside costs little where the set is a chain, a tree or of small width. Sets of one variable give the pseudo-likelihood,
one set of all variables the likelihood; in between the estimator gains efficiency for more work. Convex, and consistent
if every variable is in some set.

A variable in several sets is counted as often: the loss per variable of criss-cross chains is twice that of rows, which
matters beside a ridge. At the border of a grid sliding windows cover a pixel less often than inside.

Hidden variables: the model is restricted to the labelled variables and the factors among them, as for the
pseudo-likelihood.

Cost: the cells of the factors that touch each set, and exact inference on their union: one sweep of messages if it is a
forest, else a junction tree, exponential in the width of the widest set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from beliefs.inference.base import Method
from beliefs.inference.portfolio.auto import exact_method
from beliefs.inference.run import answer
from beliefs.learning.instances import Instance, Slot
from beliefs.learning.joined import Joined
from beliefs.learning.losses.base import InstanceLoss, Loss, Needs
from beliefs.learning.losses.components import COMPONENTS, checked, choose, grid_shape
from beliefs.learning.losses.label_scores import label_score
from beliefs.learning.losses.pseudo_likelihood import conditional_part
from beliefs.learning.losses.unrolled import Unrolled
from beliefs.options import MANY, check_integer, check_option
from beliefs.typing import Floats, Ints

__all__ = ["CompositeLikelihood", "PatchPseudoLikelihood"]

Sets: TypeAlias = Sequence[Sequence[int] | Ints]


@dataclass(frozen=True, kw_only=True)
class CompositeLikelihood(Loss):
    """The sum over sets of variables of the negative log-probability of their labels given all others.

    Parameters
    ----------
    components : str, list of lists, or callable
        A choice of :mod:`beliefs.learning.losses.components`, the sets themselves (the same for all instances), or a
        function that is given an :class:`Instance` and returns its sets. ``"auto"``: ``"rows_and_columns"`` where the
        factors are those of a grid, else ``"acyclic"``, which on a tree is the likelihood.
    size : int
        Rows of a stripe, or pixels on the side of a block.
    step : int, optional
        From one block to the next; None: 1 (sliding).

    Examples
    --------
    >>> import numpy as np
    >>> from beliefs.model.features import FactorType, LogLinearTemplate, Rows
    >>> from beliefs.model.layout import Layout
    >>> layout = Layout.build([2, 2], [0, 2], [0, 1])
    >>> pair = Instance(layout, (Rows(1),), np.array([1, 1]))
    >>> template = LogLinearTemplate([FactorType("pair", 4)])
    >>> loss = CompositeLikelihood(template=template, components=[[0, 1]])  # the likelihood
    >>> value, grad = loss.value_and_grad(np.array([0.0, 0.0, 0.0, np.log(2.0)]), [pair])
    >>> round(float(np.exp(-2.0 * value)), 6), grad.round(6)
    (0.4, array([ 0.1,  0.1,  0.1, -0.3]))
    """

    components: str | Sets | Callable[[Instance], Sets] = "auto"
    size: int = 2
    step: int | None = None

    of_grids: ClassVar[str] = "rows_and_columns"
    of_others: ClassVar[str] = "acyclic"

    name: ClassVar[str] = "composite_likelihood"
    hidden: ClassVar[bool] = True
    by_variable: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs.EXACT

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = self.components
        if isinstance(chosen, str):
            words = ("auto", *COMPONENTS)
            check_option(chosen in words, "components", f"one of {', '.join(words)}, or sets", chosen)
        elif not callable(chosen):
            check_option(isinstance(chosen, Sequence), "components", "a word, a list of lists or a function", chosen)
        check_integer("size", self.size, 1, MANY)
        check_integer("step", self.step, 1, MANY, none=True)
        whole = self.step is None or self.step <= self.size
        check_option(whole, "step", "None or an integer from 1 to size, else pixels would be left out", self.step)

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """Exact inference alone."""
        return ()

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return value and gradient, by one exact inference on all components side by side."""
        graph = instance.graph(theta)
        if self.components == "variables":
            return conditional_part(graph, instance)
        label_score(graph, instance)
        unrolled = self._unrolled(instance)
        found = answer(unrolled.graph(graph, instance), exact_method(unrolled.layout), max_iters=1)
        score = float(graph.theta[instance.label_cells[unrolled.slices.factor]].sum())
        return InstanceLoss(found.log_z - score, unrolled.gradient(found.mu, instance))

    def _unrolled(self, instance: Instance) -> Unrolled:
        """Return the union: kept with the layout where instances share it, else with the instance."""
        key = (CompositeLikelihood._unroll, self.name, self.components, self.size, self.step)
        if isinstance(self.components, str) and instance.n_labelled == instance.labels.size:
            return instance.layout.keep(key, lambda: self._unroll(instance))
        slot = Slot[tuple[tuple[object, ...], Unrolled]]("components", self.name)
        held = instance.memory.get(slot)
        if held is None or not _same(held[0], key):
            held = instance.memory.put(slot, (key, self._unroll(instance)))
        return held[1]

    def _unroll(self, instance: Instance) -> Unrolled:
        return Unrolled.build(instance.layout, self._sets(instance), instance.labelled)

    def _sets(self, instance: Instance) -> list[Ints]:
        """Return the sets of an instance; of several joined ones, those of each."""
        if isinstance(instance, Joined):
            parts = zip(instance.parts, instance.first_vars.tolist(), strict=False)
            return [first + sets for part, first in parts for sets in self._sets(part)]
        layout, chosen = instance.layout, self.components
        if chosen == "auto":
            chosen = self.of_grids if min(grid_shape(layout) or (0,)) > 1 else self.of_others
        if isinstance(chosen, str):
            return choose(layout, chosen, self.size, 1 if self.step is None else self.step, instance.name)
        return checked(chosen(instance) if callable(chosen) else chosen, layout, instance.name)


def _same(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    """Whether two choices are the same: words and numbers by value, lists and functions by identity."""
    return all(x is y or (isinstance(x, str | int) and x == y) for x, y in zip(a, b, strict=True))


@dataclass(frozen=True, kw_only=True)
class PatchPseudoLikelihood(CompositeLikelihood):
    """Pseudo-likelihood of patches: on grids sliding windows of ``size`` x ``size`` pixels.

    Parameters as for :class:`CompositeLikelihood`, but ``"auto"`` is ``"blocks"`` where the factors are those of a
    grid, else ``"factors"``. On grids ``size=1`` is the pseudo-likelihood. Exact inference inside a window costs about
    ``K ** (size + 1)`` per pixel of it.
    """

    name: ClassVar[str] = "patch_pseudo_likelihood"
    of_grids: ClassVar[str] = "blocks"
    of_others: ClassVar[str] = "factors"
