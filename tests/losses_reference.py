"""Oracles for losses: conditionals from the joint table, finite differences, and models under other names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import reference
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import Loss
from beliefs.model import FactorGraph
from beliefs.model.features import DifferentiableTemplate
from beliefs.model.layout import Layout
from families import random_model

TEMPLATE = DifferentiableTemplate(0, lambda w, x: np.zeros(0), lambda w, x, g: np.zeros(0))
"""A template that says nothing: for losses that are asked for their part in theta only."""

SMOOTH = [
    "single_variable", "chain", "tree", "higher_order", "higher_order_tree", "disconnected", "mixed_cardinalities",
    "single_states", "constants", "repeated_scopes", "tied_tables", "isolated_variables", "no_factors", "uniform",
]  # fmt: skip
"""Families without hard zeros, of every kind."""

STEP = 1e-5  # of central differences: truncation and rounding errors are both about 1e-10


def labelled(graph: FactorGraph, seed: int = 0, hidden: Iterable[int] = (), **more: object) -> Instance:
    """An instance on the graph's layout with random labels, -1 for the hidden variables."""
    labels = np.random.default_rng(seed).integers(graph.layout.card)
    labels[list(hidden)] = -1
    return Instance(graph.layout, None, labels, **more)  # type: ignore[arg-type]


def finite_differences(loss: Loss, theta: np.ndarray, instance: Instance) -> np.ndarray:
    """The gradient of a loss in theta by central differences, cell by cell."""
    grad = np.empty(theta.size)
    for k in range(theta.size):
        ends = []
        for step in (STEP, -STEP):
            moved = np.array(theta)
            moved[k] += step
            ends.append(loss.part(moved, instance).value)
        grad[k] = (ends[0] - ends[1]) / (2.0 * STEP)
    return grad


def check_gradient(loss: Loss, theta: np.ndarray, instance: Instance, tol: float = 1e-7) -> None:
    grad = loss.part(np.array(theta), instance).grad_theta
    np.testing.assert_allclose(grad, finite_differences(loss, theta, instance), rtol=0, atol=tol)


def log_conditional(graph: FactorGraph, labels: Sequence[int], part: Iterable[int]) -> float:
    """``log p(x_part | all other labels)`` from the joint table."""
    joint, free = reference.joint_table(graph), set(part)
    here = tuple(slice(None) if v in free else int(x) for v, x in enumerate(labels))
    return float(joint[tuple(int(x) for x in labels)]) - reference.log_z(np.asarray(joint[here]))


def composite(graph: FactorGraph, labels: Sequence[int], parts: Iterable[Iterable[int]]) -> float:
    """The negative composite log-likelihood of the labels."""
    return -sum(log_conditional(graph, labels, part) for part in parts)


def induced(graph: FactorGraph, labels: np.ndarray) -> tuple[FactorGraph, np.ndarray, list[int]]:
    """The model of the labelled variables and the factors among them, their labels, and which variables they are."""
    seen = [v for v in range(graph.n_vars) if labels[v] >= 0]
    number = {v: i for i, v in enumerate(seen)}
    tables = []
    for f in range(graph.n_factors):
        scope = [int(v) for v in graph.layout.scope(f)]
        if all(v in number for v in scope):
            tables.append(([number[v] for v in scope], graph.theta[graph.layout.cells(f)]))
    return FactorGraph.from_tables(graph.layout.card[seen], tables, log=True), labels[seen], seen


def population_gradient(loss: Loss, graph: FactorGraph) -> np.ndarray:
    """The expected gradient in theta when labels come from the model itself."""
    p = reference.probabilities(reference.joint_table(graph))
    total = np.zeros(graph.layout.n_cells)
    for x in reference.joint_states(graph.layout.card):
        total += p[x] * loss.part(np.array(graph.theta), Instance(graph.layout, None, np.array(x))).grad_theta
    return total


def renamed(graph: FactorGraph, labels: np.ndarray, seed: int) -> tuple[FactorGraph, np.ndarray, np.ndarray]:
    """The same model with variables, states, factors and axes in another order.

    Returns the graph, its labels (-1 stays), and the old cell of each new cell. Tied tables become separate ones.
    """
    rng, lay = np.random.default_rng(seed), graph.layout
    new_index = rng.permutation(graph.n_vars)
    new_state = [rng.permutation(int(k)) for k in lay.card]
    card, moved = np.empty(graph.n_vars, np.int64), np.full(graph.n_vars, -1)
    card[new_index] = lay.card
    for v, x in enumerate(labels):
        moved[new_index[v]] = new_state[v][x] if x >= 0 else -1
    scopes, cells = [], []
    for f in rng.permutation(graph.n_factors):
        scope, axes = lay.scope(f), rng.permutation(lay.scope(f).size)
        old = np.arange(lay.n_cells)[lay.cells(f)].reshape(lay.shape(f))
        turned = np.empty_like(old)
        turned[np.ix_(*(new_state[v] for v in scope))] = old
        scopes.append([int(new_index[scope[a]]) for a in axes])
        cells.append(turned.transpose(axes).ravel())
    source = np.concatenate(cells)
    ends = np.cumsum([len(s) for s in scopes])
    layout = Layout.build(card, np.concatenate([[0], ends]), np.array([v for s in scopes for v in s], np.int64))
    return FactorGraph.build(layout, graph.theta[source]), moved, source


def check_renaming(make: Callable[[FactorGraph], Loss], graph: FactorGraph, labels: np.ndarray) -> None:
    """A loss must not depend on how variables, states and factors are numbered."""
    part = make(graph).part(np.array(graph.theta), Instance(graph.layout, None, labels))
    other, moved, source = renamed(graph, labels, seed=3)
    again = make(other).part(np.array(other.theta), Instance(other.layout, None, moved))
    assert abs(again.value - part.value) < 1e-10 * max(1.0, abs(part.value))
    pulled = np.bincount(source, again.grad_theta, graph.layout.n_cells)
    np.testing.assert_allclose(pulled, part.grad_theta, rtol=0, atol=1e-10)


def square() -> FactorGraph:
    """Four variables in a loop, with unary tables: small enough to write out a transition matrix."""
    return random_model([2, 3, 2, 2], [(0,), (1,), (2,), (3,), (0, 1), (1, 2), (3, 2), (0, 3)], seed=31)


# -- margins ----------------------------------------------------------------------------------------------------
def possible(graph: FactorGraph, seed: int = 0) -> np.ndarray:
    """Labels that no hard zero excludes."""
    joint = reference.joint_table(graph).ravel()
    allowed = np.flatnonzero(joint > -np.inf)
    at = np.random.default_rng(seed).choice(allowed)
    return np.array(np.unravel_index(at, tuple(graph.layout.card)), np.int64)


def cost_table(graph: FactorGraph, labels: np.ndarray, costs: Sequence[np.ndarray] | str) -> np.ndarray:
    """What every joint state costs: tables by variable added up over those with a label, or a word."""
    delta = np.zeros(tuple(graph.layout.card))
    index = np.indices(delta.shape)
    seen = [v for v in range(graph.n_vars) if labels[v] >= 0]
    wrong = np.array([index[v] != labels[v] for v in seen])
    if isinstance(costs, str):
        return {"none": 0.0 * delta, "hamming": wrong.sum(0).astype(float), "zero_one": wrong.any(0).astype(float)}[
            costs
        ]
    return delta + sum(costs[v][index[v]] for v in seen)


def annealed(graph: FactorGraph, delta: Any, labels: np.ndarray, eps_y: float, eps_h: float) -> tuple:
    """The power sum of scores and costs, hidden variables innermost, and its belief over all joint states."""
    hidden = [v for v in range(graph.n_vars) if labels[v] < 0]
    tau = [eps_h if labels[v] < 0 else eps_y for v in range(graph.n_vars)]
    order = hidden + [v for v in range(graph.n_vars) if labels[v] >= 0]
    return reference.power_sum(reference.joint_table(graph) + delta, order, tau)


def expected_statistics(graph: FactorGraph, belief: np.ndarray) -> np.ndarray:
    """What a belief over all joint states expects of the cells of theta; tied cells hold sums."""
    total = np.zeros(graph.layout.n_cells)
    for f in range(graph.n_factors):
        scope = [int(v) for v in graph.layout.scope(f)]
        summed = belief.sum(axis=tuple(v for v in range(graph.n_vars) if v not in scope))
        kept = sorted(scope)
        total[graph.layout.cells(f)] += summed.transpose([kept.index(v) for v in scope]).ravel()
    return total


def margin(
    graph: FactorGraph, labels: np.ndarray, costs: Sequence[np.ndarray] | str, eps_y: float, eps_h: float
) -> tuple[float, np.ndarray, float]:
    """The max-margin loss with two temperatures by enumeration: value, gradient, expected cost."""
    delta = cost_table(graph, labels, costs)
    free, belief = annealed(graph, delta, labels, eps_y, eps_h)
    fixed = cost_table(graph, labels, "zero_one")
    given, belief_given = annealed(graph, np.where(fixed > 0, -np.inf, 0.0), labels, 0.0, eps_h)
    grad = expected_statistics(graph, belief) - expected_statistics(graph, belief_given)
    return free - given, grad, float((belief * delta).sum())


def slack(graph: FactorGraph, labels: np.ndarray) -> tuple[float, np.ndarray, float]:
    """The loss with slack rescaling and Hamming costs by enumeration: value, gradient, cost."""
    delta = cost_table(graph, labels, "hamming")
    joint = reference.joint_table(graph)
    with np.errstate(invalid="ignore"):
        values = np.where(delta > 0, delta * (1.0 + joint - joint[tuple(labels)]), 0.0)
    at = np.unravel_index(int(values.argmax()), values.shape)
    worst = np.zeros(values.shape)
    worst[at] += 1.0
    worst[tuple(labels)] -= 1.0
    return float(values[at]), float(delta[at]) * expected_statistics(graph, worst), float(delta[at])


def min_entropy(graph: FactorGraph, labels: np.ndarray, order: float) -> float:
    """The loss of max-margin min-entropy models with Hamming costs by enumeration."""
    joint, delta = reference.joint_table(graph), cost_table(graph, labels, "hamming")
    hidden = tuple(v for v in range(graph.n_vars) if labels[v] < 0)
    if order == 1.0:
        total = np.exp(joint).sum(axis=hidden, keepdims=True)
        p = np.exp(joint) / np.where(total > 0, total, 1.0)
        mean = np.where(p > 0, p * np.where(joint == -np.inf, 0.0, joint), 0.0)
        value = np.where(joint.max(axis=hidden) == -np.inf, -np.inf, mean.sum(axis=hidden)) if hidden else joint
    else:
        sums = [reference.log_sum_exp(a * joint, hidden) if hidden else a * joint for a in (order, 1.0)]
        with np.errstate(invalid="ignore"):
            value = (sums[0] - sums[1]) / (order - 1.0)
        value = np.where(np.isnan(value), -np.inf, value)
    value = value + (delta.max(axis=hidden) if hidden else delta)
    return float(value.max() - value[tuple(k for k in labels if k >= 0)])
