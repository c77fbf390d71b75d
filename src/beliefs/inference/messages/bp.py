r"""Belief propagation: sum-, max- and mixed-product; on trees exact, on graphs with loops an estimate.

Messages and beliefs, Eqs. (1.20)-(1.25) [gelfand2014], [kschischang2001]:

.. math::
    m_{v \to f}(x_v) &= \prod_{g \ni v,\, g \ne f} m_{g \to v}(x_v), \qquad
    m_{f \to v}(x_v) = \sum_{x_{f \setminus v}} e^{\theta_f(x_f)} \prod_{u \in f,\, u \ne v} m_{u \to f}(x_u) \\
    b_v &\propto \prod_{f \ni v} m_{f \to v}, \qquad b_f \propto e^{\theta_f} \prod_{v \in f} m_{v \to f}

and the Bethe value :math:`\log Z \approx \sum_f \langle b_f, \theta_f\rangle + H(b_f) + \sum_v (1 - d_v) H(b_v)`, whose
stationary points are the fixed points of the messages [yedidia2005]. ``maximize`` takes maxima in the place of sums,
``marginal_map`` sums over its sum variables and then maximises (mixed-product [liu2013]).

With the tree schedule a forest is exact after the first iteration (leaves to roots and back). With loops there is no
guarantee of convergence or accuracy: the value is an ESTIMATE, the status says whether it settled, and damping often
helps. An assignment is decoded from the beliefs variable by variable, improved by local search, and comes with its real
score. A message that is zero everywhere proves Z = 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from beliefs.inference.base import Bound, Guarantee, Problem, Task
from beliefs.inference.messages.propagation import MessagePassing, MessageWarmStart
from beliefs.inference.messages.rho import Reweighting
from beliefs.model.layout import Layout

__all__ = ["BP"]


@dataclass(frozen=True, kw_only=True, repr=False)
class BP(MessagePassing):
    """Loopy belief propagation; for the options see :class:`MessagePassing`.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> r = bl.infer(g, "bp")
    >>> r.bound.name, round(float(np.exp(r.log_z)), 9)
    ('EXACT', 10.0)
    """

    name: ClassVar[str] = "bp"
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.ESTIMATE, on_forests=Bound.EXACT)
    price: ClassVar[float] = 2.0
    variants: ClassVar[Mapping[Task, tuple[str, ...]]] = {
        Task.INFER: (
            "",
            "schedule=flooding",
            "schedule=color",
            "schedule=chains",
            "schedule=residual",
            "damp=probability, damping=0.1",
        ),
        Task.MAXIMIZE: ("",),
    }
    reference: ClassVar[str] = "pearl1988, kschischang2001, yedidia2005"

    def counting_numbers(self, problem: Problem, warm: MessageWarmStart | None) -> Reweighting:
        """Return ones: no bound follows from them."""
        return problem.graph.layout.plan(_ones)


def _ones(layout: Layout) -> Reweighting:
    return Reweighting(np.ones(layout.n_factors), None, "belief propagation")
