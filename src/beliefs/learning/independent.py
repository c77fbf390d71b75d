r"""The independent model: each variable predicted by itself, from the features of its own factors.

.. math:: L = \sum_i \Bigl[ \log \sum_k e^{s_i(k)} - s_i(\hat x_i) \Bigr],
   \qquad s_i = \sum_{f:\, \text{scope } \{i\}} \theta_f

This is logistic regression, variable by variable ([domke2013] section 8), and convex. The weights of all other factors
have no gradient and stay at zero, so its solution is where fits of models with edges begin. Hidden variables drop out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.base import Method
from beliefs.learning.data import InParts, read_once
from beliefs.learning.fit import fit, optimizer_of
from beliefs.learning.instances import Instance
from beliefs.learning.joined import Joiner
from beliefs.learning.losses.base import InstanceLoss, Loss
from beliefs.learning.result import FitResult
from beliefs.model.features import LogLinearTemplate, Rows, Template
from beliefs.model.layout import Layout
from beliefs.typing import Floats

__all__ = ["Independent", "fit_independent"]


def fit_independent(
    template: Template, instances: Iterable[Instance], *, l2: float = 1e-4, threads: int | None = 1, **options: Any
) -> FitResult:
    """Fit the model without edges; its weights, zero for all factors of two or more variables, start other fits.

    Parameters
    ----------
    l2 : float
        The ridge; 1e-4 as in the source.
    options
        Those of :func:`~beliefs.learning.fit.fit`.
    """
    loss = Independent(template=template, l2=l2, threads=threads)
    if isinstance(template, LogLinearTemplate):
        if isinstance(instances, list | tuple):
            instances = [_alone(template, i) for i in _joined(loss, instances, options.get("optimizer", "lbfgs"))]
        elif not read_once(instances):
            kind = _PartsAlone if isinstance(instances, InParts) else _Alone
            instances = kind(template, instances)
    return fit(loss, instances, **options)


def _joined(loss: Independent, instances: Sequence[Instance], optimizer: Any) -> Iterable[Instance]:
    """Return small instances joined, where no optimiser draws single ones: layouts are then made for many at once."""
    joiner = Joiner.of(loss)
    return instances if joiner is None or optimizer_of(optimizer).takes_estimates else joiner.units(instances)


@dataclass(frozen=True, kw_only=True)
class Independent(Loss):
    """Logistic loss of each labelled variable under its own factors alone."""

    name: ClassVar[str] = "independent"
    hidden: ClassVar[bool] = True

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """No inference."""
        return ()

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return loss and gradient by one softmax a variable."""
        lay = instance.layout
        cells, _, states = lay.unary_cells
        scores = np.bincount(states, theta[cells], lay.n_states)
        first = lay.state_ptr[:-1]
        scores -= np.repeat(np.maximum.reduceat(scores, first), lay.card)
        weights = np.exp(scores)
        totals = np.add.reduceat(weights, first)
        seen = np.flatnonzero(instance.labelled)
        counts = np.ones(lay.n_vars) if instance.label_weights is None else instance.label_weights
        value = float(counts[seen] @ (np.log(totals[seen]) - scores[first[seen] + instance.labels[seen]]))
        grad = weights / np.repeat(totals, lay.card)
        grad[first[seen] + instance.labels[seen]] -= 1.0
        grad *= np.repeat(np.where(instance.labelled, counts, 0.0), lay.card)
        pulled: Floats = np.bincount(cells, grad[states], lay.n_cells).astype(np.float64)
        return InstanceLoss(value, pulled)


# -- without the edges, so that their features are not multiplied in vain --------------------------------------------
@dataclass(frozen=True, eq=False)
class _Alone:
    """Instances without their edges, made one by one."""

    template: LogLinearTemplate
    instances: Any

    def __iter__(self) -> Iterator[Instance]:
        return (_alone(self.template, i) for i in self.instances)

    def __len__(self) -> int:
        return len(self.instances)

    @property
    def n_labelled(self) -> float | None:
        """The labelled variables, if that is known."""
        return getattr(self.instances, "n_labelled", None)

    @property
    def largest_bytes(self) -> tuple[int, int]:
        """What the largest instance and the largest part take, with their edges."""
        found: tuple[int, int] = getattr(self.instances, "largest_bytes", (0, 0))
        return found


class _PartsAlone(_Alone, InParts):
    """Such instances in parts."""

    @property
    def sizes(self) -> Sequence[int]:
        """How many instances each part has."""
        sizes: Sequence[int] = self.instances.sizes
        return sizes

    def part(self, number: int) -> list[Instance]:
        """Load a part."""
        return [_alone(self.template, i) for i in self.instances.part(number)]


def _alone(template: LogLinearTemplate, instance: Instance) -> Instance:
    """Return an instance with the factors of one variable only; as it is where types mix kinds of factors."""
    lay, inputs = instance.layout, instance.inputs
    arity, cells = lay.arity, template.cell_counts([inputs])[0]
    if cells.sum() != lay.n_cells:
        return instance
    kind = np.searchsorted(np.cumsum(cells), lay.cell_ptr, side="right")
    single = np.bincount(kind, arity == 1, cells.size)
    if ((single > 0) & (single < np.bincount(kind, minlength=cells.size))).any():
        return instance
    kept = [rows if alone else Rows(0) for rows, alone in zip(inputs, single > 0, strict=True)]
    own = arity == 1
    scope = lay.scope_vars[lay.scope_ptr[:-1][own]]
    _, starts = np.unique(lay.cell_ptr[own], return_inverse=True)
    sizes = lay.factor_size[own]
    first = np.zeros(starts.max(initial=-1) + 2, np.int64)
    first[starts + 1] = sizes
    layout = Layout.build(lay.card, np.arange(scope.size + 1), scope, np.cumsum(first)[starts])
    return replace(instance, layout=layout, inputs=tuple(kept))
