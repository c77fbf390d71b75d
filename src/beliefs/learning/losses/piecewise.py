r"""Piecewise training: every factor and every variable normalised on its own.

.. math:: L(\theta) = \sum_c \log \sum_{x_c} e^{\theta_c(x_c)} + \sum_i \log \sum_{x_i} e^{\theta_i(x_i)}
          - \theta \cdot f(\hat x), \qquad
          \frac{dL}{d\theta_c} = \mathrm{softmax}(\theta_c) - [\hat x_c]

[sutton2005]. The sum of the pieces' log Z is at least the log Z of the model, so the loss is an upper bound on the
negative log-likelihood. Convex, no inference. Not consistent: pieces that overlap count the same evidence twice
([domke2013] section 4.1.5). The piece of a variable is the sum of its tables of one variable; where it has none, it is
the constant :math:`\log K_i`, so that without factors of two variables the loss is the likelihood.

Hidden variables: pieces whose labels are all known are kept, the others left out.

Cost: two exponentials per cell of the distinct tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.inference.base import Method
from beliefs.kernels.losses.pseudo_likelihood import softmax_tables
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import InstanceLoss, Loss
from beliefs.learning.losses.label_scores import label_score
from beliefs.learning.losses.pseudo_likelihood import add_conditionals
from beliefs.model.layout import Layout, frozen_ints
from beliefs.typing import Floats, Ints

__all__ = ["Piecewise"]


@dataclass(frozen=True, eq=False)
class Tables:
    """The distinct tables of factors that are not of one variable; ``of_factor`` is -1 for those that are."""

    starts: Ints
    sizes: Ints
    of_factor: Ints

    @classmethod
    def of(cls, layout: Layout) -> Tables:
        """Return the tables, kept with the layout."""
        return layout.plan(cls._plan)

    @classmethod
    def _plan(cls, layout: Layout) -> Tables:
        wide = np.flatnonzero(layout.arity != 1)
        starts, first, rank = np.unique(layout.cell_ptr[wide], return_index=True, return_inverse=True)
        of_factor = np.full(layout.n_factors, -1, np.int64)
        of_factor[wide] = rank
        sizes = layout.factor_size[wide[first]]
        return cls(frozen_ints(starts, "tables"), frozen_ints(sizes, "tables"), frozen_ints(of_factor, "tables"))


@dataclass(frozen=True, kw_only=True)
class Piecewise(Loss):
    """The sum over factors and variables, each on its own, of the negative log-probability of their labels.

    Examples
    --------
    >>> from beliefs.model.features import FactorType, LogLinearTemplate, Rows
    >>> layout = Layout.build([2, 2], [0, 2], [0, 1])
    >>> pair = Instance(layout, (Rows(1),), np.array([1, 1]))
    >>> loss = Piecewise(template=LogLinearTemplate([FactorType("pair", 4)]))
    >>> value, grad = loss.value_and_grad(np.array([0.0, 0.0, 0.0, np.log(2.0)]), [pair])
    >>> round(float(np.exp(-2.0 * value)), 6), grad  # 2/5 for the pair, 1/2 for each of the two variables
    (0.1, array([ 0.1,  0.1,  0.1, -0.3]))
    """

    name: ClassVar[str] = "piecewise"
    hidden: ClassVar[bool] = True
    by_variable: ClassVar[bool] = False

    @property
    def runs(self) -> tuple[Method, ...] | None:
        """No inference."""
        return ()

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return value and gradient."""
        graph = instance.graph(theta)
        label_score(graph, instance)
        tables, cells, grad = Tables.of(graph.layout), instance.label_cells, np.zeros(graph.layout.n_cells)
        value = add_conditionals(graph, instance, grad, widest=1)
        known = (cells >= 0) & (tables.of_factor >= 0)
        counts = np.bincount(tables.of_factor[known], minlength=tables.starts.size).astype(np.float64)
        value += softmax_tables(tables.starts, tables.sizes, counts, graph.theta, grad)
        value -= float(graph.theta[cells[known]].sum())
        return InstanceLoss(value, grad - np.bincount(cells[known], minlength=grad.size))
