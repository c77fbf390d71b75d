r"""What the tables say of a question one by one, at the price of reading them once.

With temperatures :math:`\tau_v` of 1 for variables that are summed and 0 for those that are maximised, Gibbs'
inequality for the uniform distribution from below and every table at its largest cell from above give

.. math::
    \sum_f \frac{1}{N_f} \sum_{x_f} \theta_f(x_f) + \sum_v \tau_v \log K_v \;\le\; \Phi_\tau
    \;\le\; \sum_f \max_{x_f} \theta_f(x_f) + \sum_v \tau_v \log K_v,

where :math:`N_f` is the number of cells of a factor, and observed variables do not count. Hard zeros make the lower end
-inf; :math:`\log Z` is then above the score of any state of positive weight that is found, which may take a search.
Everything else is better, and nothing as quick: these ends are for questions whose time is over.
"""

from __future__ import annotations

import numpy as np

from beliefs.driver import Value
from beliefs.inference.base import Bound
from beliefs.inference.rounding import magnitude, rounding_error, widened
from beliefs.inference.search.feasible import feasible_state
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["local_interval", "score_of_a_state"]

_EACH = 4  # roundings of a term besides those of sums: a division, a logarithm and its product
_EFFORT = 3_000_000  # cells read to find a state; some hundredths of a second


def local_interval(graph: FactorGraph, tau: Floats | None = None) -> Value:
    """Return an interval, each end moved by its rounding error; ``tau (n_vars,)`` are temperatures of 0 and 1, None: 1.

    Examples
    --------
    >>> found = local_interval(FactorGraph.from_tables([2, 2], [((0, 1), [[1, 4], [4, 1]])]))
    >>> round(float(np.exp(found.lower)), 6), round(float(np.exp(found.upper)), 6)  # around 10
    (8.0, 16.0)
    """
    layout = graph.layout
    logs = np.where(layout.observed, 0.0, np.log(layout.card))
    states = float((logs if tau is None else tau * logs).sum())
    lower = upper = states
    if layout.n_factors:
        tables = graph.theta[layout.table_cells()]
        lower += float((np.add.reduceat(tables, layout.table_ptr[:-1]) / layout.factor_size).sum())
        upper += float(np.maximum.reduceat(tables, layout.table_ptr[:-1]).sum())
    n_terms = int(layout.factor_size.max(initial=0)) + layout.n_factors + layout.n_vars + _EACH
    error = rounding_error(magnitude(graph) + states, n_terms)
    lower, upper = widened(lower, error, Bound.LOWER), widened(upper, error, Bound.UPPER)
    return Value(upper, lower, upper, error)


def score_of_a_state(graph: FactorGraph, seed: int) -> float:
    """Return a lower bound of log Z from a state of positive weight; -inf where a short search finds none.

    Examples
    --------
    >>> g = FactorGraph.from_tables([2, 2], [((0, 1), [[0, 1], [0, 0]])])
    >>> abs(score_of_a_state(g, seed=0)) < 1e-9
    True
    """
    layout = graph.layout
    state = feasible_state(graph, seed, _EFFORT)
    if state is None:
        return -np.inf
    alone = float(np.log(layout.card[layout.isolated]).sum())
    error = rounding_error(magnitude(graph) + alone, layout.n_factors + layout.n_vars + _EACH)
    return widened(float(graph.log_score(state)) + alone, error, Bound.LOWER)
