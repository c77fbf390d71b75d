r"""Weights to start with: those of weighted mini-bucket with uniform weights, lifted to a floor.

A variable's temperature is shared out evenly between the clusters that have a later variable too (factor graph), or
between its replicas (mini-buckets); a variable without any gets it in its own separator (Appendix A.1.2 [ping2016],
with the rule for the last variables that is missing there). Then :math:`w \leftarrow (1 - K_i \epsilon / \tau_i) w +
\epsilon`, where :math:`K_i` terms contain the variable.

These weights leave nearly nothing to most terms: the bound is nearly a maximum of many equal functions, and block
updates get stuck in its kinks. Measured on strongly coupled models, spreading a fifth evenly over all terms at first
(weight updates take it away again where it does not help) gains far more than it costs.
"""

from __future__ import annotations

import numpy as np

from beliefs.inference.clusters.junction_graph import JunctionGraph
from beliefs.typing import Floats, Ints

__all__ = ["initial_weights", "least_weights"]

_SPREAD = 0.2


def least_weights(graph: JunctionGraph, tau: Floats, floor: float) -> Floats:
    """Return the floor of each variable's weights, ``(n_vars,)``; at most half of an even share."""
    n_terms = _n_terms(graph, tau.size)
    least: Floats = np.minimum(floor, 0.5 * tau / np.maximum(n_terms, 1))
    return least


def initial_weights(graph: JunctionGraph, tau: Floats, least: Floats, spread: float | None) -> tuple[Floats, Floats]:
    """Return the weights of the clusters' axes and of the separators' axes.

    ``spread`` is the share of each temperature that is divided evenly; None takes 0.2, or 0 if no variable is split.
    """
    n, axis_var, sep_var = tau.size, graph.clusters.var, graph.separators.var
    shares = np.bincount(axis_var[graph.own], minlength=n)
    weight = np.where(graph.own, tau[axis_var] / np.maximum(shares, 1)[axis_var], 0.0)
    alone = graph.node >= 0
    sep_weight = np.zeros(sep_var.size)
    at = graph.separators.ptr[graph.node[alone]]
    sep_weight[at] = np.where(shares[alone] == 0, tau[alone], 0.0)
    n_terms = _n_terms(graph, n)
    if spread is None:
        spread = _SPREAD if (shares > 1).any() else 0.0
    even = np.maximum(least, spread * tau / np.maximum(n_terms, 1))
    kept = 1.0 - n_terms * even / np.where(tau > 0, tau, 1.0)
    weight = kept[axis_var] * weight + even[axis_var]
    sep_weight = kept[sep_var] * sep_weight + even[sep_var]
    return weight, sep_weight


def _n_terms(graph: JunctionGraph, n_vars: int) -> Ints:
    """Return how many terms contain each variable."""
    of_clusters, of_separators = graph.clusters.var, graph.separators.var
    return np.bincount(of_clusters, minlength=n_vars) + np.bincount(of_separators, minlength=n_vars)
