r"""Costs of 0 and 1, which are no sum over variables: the free term from inference without costs.

With Q(y) the power sum of the hidden variables at ``eps_h`` and p the share of the labels,

.. math::
    \varepsilon_y > 0: \quad & A + 1 + \varepsilon_y \log(1 - p\,c), \qquad
        A = \varepsilon_y \log \sum_y e^{Q(y) / \varepsilon_y}, \quad
        p = e^{(Q(\hat y) - A) / \varepsilon_y}, \quad c = 1 - e^{-1 / \varepsilon_y} \\
    \varepsilon_y = 0: \quad & \max\bigl(Q(\hat y), \; 1 + \max_{y \ne \hat y} Q(y)\bigr)

The closed form loses digits as c comes near 1 where p does, so temperatures from 0 to 0.1 are refused. At 0 the second
best state is counted (:mod:`beliefs.learning.losses.error_counts`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from beliefs.inference.run import Answer
from beliefs.learning.instances import Instance
from beliefs.learning.losses.costs import MarginAnswer
from beliefs.learning.losses.error_counts import count_errors
from beliefs.learning.losses.power_sums import given_outputs
from beliefs.model.graph import FactorGraph

__all__ = ["COLDEST", "best_other", "soft"]

COLDEST = 0.1
"""The least temperature of outputs above 0."""


def soft(free: Answer, given: Answer, eps_y: float) -> MarginAnswer:
    """Return the free term with costs from that without (``free``) and from the power sum given the labels."""
    share, c = float(np.exp(min(given.log_z - free.log_z, 0.0) / eps_y)), -float(np.expm1(-1.0 / eps_y))
    of_all, of_labels = 1.0 / (1.0 - share * c), share * c / (1.0 - share * c)
    value = free.log_z + 1.0 + eps_y * float(np.log1p(-share * c))
    mixed = replace(
        free,
        log_z=value,
        mu_var=of_all * free.mu_var - of_labels * given.mu_var,
        mu_factor=of_all * free.mu_factor - of_labels * given.mu_factor,
        lower=value,
        upper=value,
    )
    return MarginAnswer.of(mixed, (1.0 - share) * of_all)


def best_other(
    graph: FactorGraph, instance: Instance, eps_h: float, solve: Callable[[FactorGraph], Answer]
) -> MarginAnswer:
    """Return the maximum with costs: the labels, or the best other labelling if that scores more with its cost."""
    found = count_errors(graph, instance.labels, eps_h, most=1)
    cost = float(found.best.size > 1 and found.best[1] + 1.0 > found.best[0])
    outputs = found.labelling(1) if cost else instance.labels
    at = given_outputs(graph, outputs, instance.labelled, solve)
    return MarginAnswer.of(replace(at, log_z=at.log_z + cost, lower=at.lower + cost, upper=at.upper + cost), cost)
