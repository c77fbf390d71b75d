"""The free energy of the beliefs of a graph, term by term, so that each part of a union has its own."""

from __future__ import annotations

import numpy as np

from beliefs.inference.run import Answer
from beliefs.kernels.messages.free_energy import NodeArrays, free_energy_counted, free_energy_literal
from beliefs.learning.gradients.base import Beliefs
from beliefs.model.graph import FactorGraph
from beliefs.typing import Floats

__all__ = ["free_energy"]


def free_energy(
    form: str, graph: FactorGraph, beliefs: Beliefs | Answer, bar_var: Floats, bar_factor: Floats
) -> tuple[Floats, Floats]:
    """Return the terms of the free energy of beliefs, by variable and by factor, and write its gradient in them."""
    lay = graph.layout
    rho = np.zeros(lay.n_factors) if beliefs.rho is None else np.array(beliefs.rho)
    kernel = free_energy_literal if form == "literal" else free_energy_counted
    terms = NodeArrays(np.empty(lay.n_vars), np.empty(lay.n_factors))
    mu = NodeArrays(np.array(beliefs.mu_var), np.array(beliefs.mu_factor))
    bar, scratch = NodeArrays(bar_var, bar_factor), np.empty(lay.n_states)
    kernel(lay.scopes, lay.table_ptr, graph.theta, rho, mu, scratch, bar, terms)
    return terms.variables, terms.factors
