r"""What rows leave open: credible intervals of a table's numbers, and networks drawn from the posterior.

Column by column the posterior is Dirichlet with :math:`a = N + \alpha`, so a single number is
:math:`\text{Beta}(a_k, \sum_j a_j - a_k)`, and a column is normalised Gamma draws.
"""

from __future__ import annotations

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.networks.estimates import Estimate
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.options import check_option, is_number
from beliefs.typing import Floats

__all__ = ["credible_interval", "posterior_networks"]


def credible_interval(estimate: Estimate, counts: Floats, v: int, level: float) -> tuple[Floats, Floats]:
    """Return the ends of the central interval that holds each number of a table with this probability."""
    from scipy.special import betaincinv

    check_option(is_number(level) and 0 < level < 1, "level", "between 0 and 1", level)
    layout = estimate.structure.layout
    posterior = _posterior(estimate, counts)[layout.cells(v)].reshape(layout.shape(v))
    rest = posterior.sum(axis=-1, keepdims=True) - posterior
    if not np.isnan(estimate.fixed[layout.cells(v)]).all() or layout.card[v] == 1:
        held = np.nan_to_num(estimate.fixed[layout.cells(v)], nan=1.0).reshape(layout.shape(v))
        return held, held.copy()
    tail = 0.5 * (1.0 - level)
    return betaincinv(posterior, rest, tail), betaincinv(posterior, rest, 1.0 - tail)


def posterior_networks(estimate: Estimate, counts: Floats, n: int, seed: int) -> list[BayesianNetwork]:
    """Draw networks: tables of the posterior, tied ones alike and fixed ones as they are."""
    layout, posterior = estimate.structure.layout, _posterior(estimate, counts)
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        drawn = rng.standard_gamma(posterior) + 1e-300
        for group in estimate.groups:
            for v in group[1:]:
                drawn[layout.cells(v)] = drawn[layout.cells(group[0])]
        for v in range(layout.n_vars):
            columns = drawn[layout.cells(v)].reshape(-1, int(layout.card[v]))
            columns /= columns.sum(axis=1, keepdims=True)
        held = ~np.isnan(estimate.fixed)
        drawn[held] = estimate.fixed[held]
        found.append(estimate.structure.network(drawn))
    return found


def _posterior(estimate: Estimate, counts: Floats) -> Floats:
    posterior: Floats = estimate.pooled(counts) + estimate.prior
    if not (posterior > 0.0).all():
        raise ModelError("the posterior needs a prior in every cell; use estimate='mean' or 'map' with a prior")
    return posterior
