"""The free energy of the beliefs of a graph, term by term, so that each part of a union has its own."""

from __future__ import annotations

import numpy as np

from beliefs.inference.run import Answer
from beliefs.kernels.messages.free_energy import free_energy_counted, free_energy_literal
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
    of_vars, of_factors = np.empty(lay.n_vars), np.empty(lay.n_factors)
    kernel(
        lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, lay.table_ptr, lay.state_ptr, graph.theta, rho,
        np.array(beliefs.mu_var), np.array(beliefs.mu_factor), np.empty(lay.n_states), bar_var, bar_factor, of_vars,
        of_factors,
    )  # fmt: skip
    return of_vars, of_factors
