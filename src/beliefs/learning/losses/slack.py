r"""Slack rescaling: the cost multiplies the margin that a labelling violates.

.. math:: L(\theta) = \max_y \Delta(\hat y, y) \bigl(1 + \theta \cdot f(y) - \theta \cdot f(\hat y)\bigr), \qquad
          \frac{dL}{d\theta} = \Delta(\hat y, y^*) \bigl(f(y^*) - f(\hat y)\bigr)

([tsochantaridis2005] Eq. 6). At least 0, as the labels themselves cost nothing; convex; at least the cost of the best
state. The cost does not add up over variables, but for Hamming it takes few values: the best labelling for each number
of errors is found exactly (:mod:`beliefs.learning.losses.error_counts`), and the best of these products wins, the one
with fewest errors where several are equal [sarawagi2008]. Exact on forests. Hidden variables are maximised in both
scores, so at temperature 0 alone: no longer convex, and one search gives the labels' own hidden states as well, as
those of the best labelling without an error.
"""

from __future__ import annotations

import numpy as np

from beliefs.errors import UnsupportedError, ZeroProbabilityError
from beliefs.inference.base import Bound
from beliefs.inference.messages.schedule import is_forest
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import InstanceLoss
from beliefs.learning.losses.error_counts import count_errors
from beliefs.learning.losses.label_scores import label_score
from beliefs.typing import Floats

__all__ = ["check_slack", "slack_part"]


def check_slack(instance: Instance, costs: Floats, eps_h: float) -> None:
    """Raise for instances on which slack rescaling is not exact: loops, sums over hidden, costs other than Hamming."""
    reason, wrong = "", int((instance.layout.card[instance.labelled] - 1).sum())
    if instance.n_labelled < instance.labels.size and eps_h > 0:
        reason = f"variable {int(np.argmin(instance.labelled))} has no label, and it maximises what is hidden (eps_h=0)"
    elif not np.isin(costs, (0.0, 1.0)).all() or costs.sum() != wrong:
        reason = "it counts errors, so every wrong label must cost 1 (delta=hamming, no weights of labels)"
    elif not is_forest(instance.layout):
        reason = "the graph has a loop, and it is exact on forests only"
    if reason:
        raise UnsupportedError(f"{instance.name}: rescaling='slack' is refused: {reason}; use rescaling='margin'")


def slack_part(theta: Floats, instance: Instance) -> InstanceLoss:
    """Return value and gradient of one instance."""
    graph, whole = instance.graph(theta), instance.n_labelled == instance.labels.size
    counts = count_errors(graph, instance.labels, 0.0)
    score = label_score(graph, instance) if whole else float(counts.best[0])
    if score == -np.inf:
        raise ZeroProbabilityError(
            f"{instance.name}: hard zeros exclude the labels, whatever the hidden variables are; correct the labels or "
            "drop the hard zeros"
        )
    errors = np.arange(counts.best.size)
    with np.errstate(invalid="ignore"):
        values = np.where(counts.best > -np.inf, errors * (1.0 + counts.best - score), -np.inf)
    e = int(np.argmax(values))
    if not e:
        return InstanceLoss(0.0, np.zeros(theta.size), bound=Bound.EXACT, upper=0.0, minorant=whole)
    worst = Instance(instance.layout, None, counts.states(e))
    truth = instance if whole else Instance(instance.layout, None, counts.states(0))
    grad = float(e) * (worst.statistics - truth.statistics)
    value = float(e) * (1.0 + float((theta[worst.label_cells] - theta[truth.label_cells]).sum()))
    return InstanceLoss(value, grad, bound=Bound.EXACT, upper=value, minorant=whole, delta=float(e))
