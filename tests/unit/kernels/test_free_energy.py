"""The free energy of beliefs: its value on trees, its gradient, and its two forms."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from beliefs.kernels.messages.free_energy import NodeArrays, free_energy_counted, free_energy_literal
from families import family
from learning_reference import slope

KERNELS = [free_energy_literal, free_energy_counted]


def energy(kernel, graph, rho, mu_var, mu_factor):
    lay = graph.layout
    bars = NodeArrays(np.empty(lay.n_states), np.empty(int(lay.table_ptr[-1])))
    terms = NodeArrays(np.empty(lay.n_vars), np.empty(lay.n_factors))
    beliefs = NodeArrays(mu_var, mu_factor)
    kernel(lay.scopes, lay.table_ptr, graph.theta, rho, beliefs, np.empty(lay.n_states), bars, terms)
    return float(sum(term.sum() for term in terms)), *bars


def exact(graph):
    joint = reference.joint_table(graph)
    tables = [reference.marginal(joint, graph.layout.scope(f)).ravel() for f in range(graph.n_factors)]
    return reference.mu_var(joint), np.concatenate(tables)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["tree", "higher_order_tree", "hard_zeros_tree"])
def test_exact_beliefs_of_trees_give_log_z(kernel, name):
    graph = family(name)
    assert reference.is_forest(graph)
    value = energy(kernel, graph, np.ones(graph.n_factors), *exact(graph))[0]
    assert value == pytest.approx(reference.log_z(reference.joint_table(graph)), abs=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["grid", "higher_order", "mixed_cardinalities"])
def test_gradient(kernel, name):
    graph, rng = family(name), np.random.default_rng(0)
    rho = rng.uniform(0.3, 1.0, graph.n_factors)
    at = rng.uniform(0.1, 1.0, graph.layout.n_states + int(graph.layout.table_ptr[-1]))
    n = graph.layout.n_states
    _, bar_var, bar_factor = energy(kernel, graph, rho, at[:n].copy(), at[n:].copy())
    direction = rng.standard_normal(at.size)
    found = slope(lambda m: energy(kernel, graph, rho, m[:n].copy(), m[n:].copy())[0], at, direction)
    assert abs(found - np.concatenate([bar_var, bar_factor]) @ direction) < 1e-7 * max(1.0, abs(found))


def test_forms_agree_where_beliefs_do():
    graph = family("grid")
    rho = np.random.default_rng(0).uniform(0.3, 1.0, graph.n_factors)
    literal, counted = (energy(kernel, graph, rho, *exact(graph))[0] for kernel in KERNELS)
    assert literal == pytest.approx(counted, abs=1e-10)
