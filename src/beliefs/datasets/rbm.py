r"""Random restricted Boltzmann machines as factor graphs."""

from __future__ import annotations

import numpy as np

from beliefs.datasets.arguments import check_count, check_room, check_scale, generator
from beliefs.model.graph import FactorGraph
from beliefs.model.rbm import RBM

__all__ = ["make_rbm"]


def make_rbm(
    n_visible: int = 8,
    n_hidden: int = 4,
    *,
    weight: float = 0.5,
    visible_bias: float = 0.1,
    hidden_bias: float = 0.1,
    seed: int | np.random.Generator = 0,
) -> FactorGraph:
    r"""Draw a restricted Boltzmann machine over binary units ``v0, v1, ...`` and ``h0, h1, ...``.

    :math:`p(v, h) \propto \exp(v^T W h + v^T b + h^T c)` with :math:`v, h \in \{0, 1\}` ([ping2016] section 2.1.4),
    :math:`W_{ij} \sim N(0, \text{weight}^2)` and the biases Gaussian at their own scales. Variables are the visible,
    then the hidden units; edges run over the visible units first, so the tables of the edges in order are ``W``
    row by row. Treewidth is the smaller of the two layers.

    Examples
    --------
    >>> make_rbm(8, 4)
    FactorGraph(12 variables, 44 factors, 152 cells)
    """
    n, m = check_count("n_visible", n_visible), check_count("n_hidden", n_hidden, 0)
    check_room(2 * (n + m) + 4 * n * m)
    rng = generator(seed)
    visible = check_scale("visible_bias", visible_bias) * rng.standard_normal(n)
    hidden = check_scale("hidden_bias", hidden_bias) * rng.standard_normal(m)
    weights = check_scale("weight", weight) * rng.standard_normal((n, m))
    return RBM(weights, visible, hidden).to_factor_graph()
