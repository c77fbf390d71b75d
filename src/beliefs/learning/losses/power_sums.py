r"""Power sums with two temperatures, exact: value and gradient.

.. math:: \varepsilon_y \log \sum_y \exp \frac{1}{\varepsilon_y}
          \Bigl( \varepsilon_h \log \sum_h \exp \frac{\theta(y, h)}{\varepsilon_h} \Bigr)

with the maximum at temperature 0. The hidden variables h stand innermost and are eliminated first; the gradient is the
expectation of the statistics under :math:`p(y)\, p(h \mid y)` at these temperatures ([ping2016] Eq. 4.7).

=====================  ===============================================================================================
no factor of two       each variable by itself, in closed form: so are hidden variables between outputs that are given
equal temperatures     the order does not matter: messages on forests, else a junction tree, of theta / eps; at 0 a best
                       state
different ones         elimination along an order in which hidden variables come first, usually wider
=====================  ===============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from beliefs.inference.base import Bound, observed_point_masses, zero_probability
from beliefs.inference.exact.elimination import Elimination
from beliefs.inference.portfolio.auto import exact_method
from beliefs.inference.run import Answer, answer, best_states
from beliefs.learning.instances import Instance
from beliefs.model.graph import FactorGraph
from beliefs.typing import Bools, Ints

__all__ = ["exact_power_sum", "given_outputs", "lifted", "one_temperature", "point_answer", "rescaled"]


def one_temperature(graph: FactorGraph, inner: Bools, eps_y: float, eps_h: float) -> float | None:
    """Return the temperature that all unobserved variables have in common; None if there are two.

    ``inner (n_vars,)`` says which are hidden.
    """
    free = ~graph.layout.observed
    if eps_y == eps_h or not (inner & free).any():
        return eps_y
    return eps_h if not (free & ~inner).any() else None


def exact_power_sum(graph: FactorGraph, inner: Bools, eps_y: float, eps_h: float) -> Answer:
    """Return the power sum and its gradient; ``inner (n_vars,)`` are the variables of temperature ``eps_h``."""
    eps = one_temperature(graph, inner, eps_y, eps_h)
    if graph.layout.arity.max(initial=0) < 2 and eps is not None:
        return _one_by_one(graph, eps)
    if eps is None:
        tau, stages = np.where(inner, eps_h, eps_y), np.where(inner, 0, 1)
        found = answer(graph, Elimination(tau=tau, stages=stages))
        return replace(found, bound=Bound.EXACT, lower=found.log_z, upper=found.log_z)
    if eps == 0:
        return point_answer(graph, best_states(graph, exact_method(graph.layout), max_iters=1)[0])
    scaled = graph if eps == 1 else graph.with_theta(graph.theta / eps)
    return rescaled(answer(scaled, exact_method(graph.layout), max_iters=1), eps)


def _one_by_one(graph: FactorGraph, eps: float) -> Answer:
    """Return the power sum of variables that share no factor."""
    lay, unary = graph.layout, graph.layout.unary_cells
    scores = np.bincount(unary.states, graph.theta[unary.cells], lay.n_states)
    first, free = lay.state_ptr[:-1], ~lay.observed
    top = np.maximum.reduceat(scores, first) if first.size else np.zeros(0)
    value = float(graph.theta[lay.constants].sum())
    if value == -np.inf or (top[free] == -np.inf).any():
        raise zero_probability(graph)
    if eps == 0:
        place = np.where(scores == np.repeat(top, lay.card), np.arange(scores.size), scores.size)
        p = (np.arange(scores.size) == np.repeat(np.minimum.reduceat(place, first), lay.card)).astype(np.float64)
        value += float(top[free].sum())
    else:
        p = np.exp((scores - np.repeat(top, lay.card)) / eps)
        total = np.add.reduceat(p, first)
        p /= np.repeat(total, lay.card)
        value += float((top + eps * np.log(total))[free].sum())
    mu_var, mu_factor = observed_point_masses(graph), np.ones(int(lay.table_ptr[-1]))
    states = np.repeat(free, lay.card)
    mu_var[states] = p[states]
    mu_factor[unary.table_cells] = p[unary.states]
    return Answer(lay, value, Bound.EXACT, mu_var, mu_factor, True, None, value, value)


def rescaled(found: Answer, eps: float) -> Answer:
    """Return the answer for a model from that for ``theta / eps`` at temperature 1."""
    if eps == 1:
        return found
    return replace(found, log_z=eps * found.log_z, lower=eps * found.lower, upper=eps * found.upper)


def point_answer(graph: FactorGraph, state: Ints, upper: float | None = None, converged: bool = True) -> Answer:
    """Return the answer that a single state ``(n_vars,)`` is: its score, exact, or a lower bound below ``upper``."""
    lay, rows = graph.layout, np.asarray(state, np.int64)
    picked = Instance(lay, None, rows).label_cells
    mu_factor, mu_var = np.zeros(int(lay.table_ptr[-1])), observed_point_masses(graph)
    mu_factor[lay.table_ptr[:-1] + picked - lay.cell_ptr] = 1.0
    free = np.flatnonzero(~lay.observed)
    mu_var[lay.state_ptr[free] + rows[free]] = 1.0
    score = float(graph.theta[picked].sum())
    bound, high = (Bound.EXACT, score) if upper is None else (Bound.LOWER, max(score, upper))
    return Answer(lay, score, bound, mu_var, mu_factor, converged, None, score, high)


def given_outputs(graph: FactorGraph, outputs: Ints, labelled: Bools, solve: Callable[[FactorGraph], Answer]) -> Answer:
    """Return the answer where the labelled variables have the states ``outputs``, as one of the whole graph.

    ``solve`` answers for the hidden variables, given a graph in which the others are observed.
    """
    if labelled.all():
        return point_answer(graph, outputs)
    seen = np.flatnonzero(labelled)
    given = graph.condition(dict(zip(seen.tolist(), outputs[seen].tolist(), strict=True)))
    return lifted(graph, given, solve(given))


def lifted(graph: FactorGraph, given: FactorGraph, found: Answer) -> Answer:
    """Return an answer for a conditioned graph as one of the graph that it came from."""
    lay, old = given.layout, graph.layout
    assert given.parent_cells is not None
    factor = np.repeat(np.arange(lay.n_factors), lay.factor_size)
    tables = np.zeros(int(old.table_ptr[-1]))
    at = given.parent_cells[lay.table_cells()] + (old.table_ptr[:-1] - old.cell_ptr)[factor]
    tables[at] = found.mu_factor
    return replace(found, layout=old, mu_factor=tables, warm_state=None)
