r"""Likelihood weighting: draw every variable given those before it, and weigh the draw by what was left out.

.. math::
    x_v \sim q(x_v \mid x_{<v}) \propto \prod_{f \in P_v} e^{\theta_f(x_f)}, \qquad
    w(x) = \frac{e^{\theta(x)}}{q(x)}
         = \prod_v \Big( \sum_{x_v} \prod_{f \in P_v} e^{\theta_f} \Big) \prod_{f \notin \cup P} e^{\theta_f(x_f)}

====================  ===========================================================================
:math:`P_v`           the factors that draw v: its conditional table, in a Bayesian network
:math:`w`             the weight; of a network, the likelihood of the evidence given its parents
====================  ===========================================================================

[fung1989, shachter1989]. In a Bayesian network variables are drawn in the order of its arcs, each from its own table,
and evidence (soft evidence too) weighs the draw. Other models have no such tables: there a variable, in the order of
indices, is drawn by all factors whose other variables are drawn already, and their sums are the weights; that is
sequential importance sampling, of the same law.

The mean of the weights is an unbiased estimate of Z, and weighted averages of draws approach the marginals, whatever
the model: draws are independent, hard zeros cost draws but no correctness. So ``log_z`` is an ESTIMATE with a standard
error by the delta method. It fails by few draws having most of the weight, as unlikely evidence below the drawn
variables makes them: ``effective_sample_size``, the squared sum of weights over the sum of squares [kong1994], is then
near 1, and the standard error knows only the weights that were seen.

Cost of a draw: edges x states. Random numbers follow from the seed alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from beliefs.driver import Value
from beliefs.errors import UnsupportedError
from beliefs.inference.base import (
    Bound,
    Derivative,
    Guarantee,
    Marginals,
    Method,
    Problem,
    Task,
    observed_point_masses,
)
from beliefs.inference.budget import over_budget
from beliefs.inference.result import InferenceResult
from beliefs.inference.search.feasible import feasible_state
from beliefs.model.graph import FactorGraph
from beliefs.options import MANY, check_integer
from beliefs.typing import Floats, Ints

__all__ = ["LikelihoodWeighting", "WeightedResult"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WeightedResult(InferenceResult):
    """Answer to ``infer`` by weighted draws.

    Attributes
    ----------
    n_samples : int
        Draws.
    effective_sample_size : float
        As many draws of equal weight would say as much; 0 where no draw had a weight.
    standard_error : float
        Of ``log_z``; it knows only the weights that were seen. inf without any.
    """

    n_samples: int
    effective_sample_size: float
    standard_error: float

    def _worth(self) -> list[tuple[str, str]]:
        drawn = f"as good as {self.effective_sample_size:.0f} of {self.n_samples} draws"
        return [*super()._worth(), ("standard error", f"{self.standard_error:.2g} of log Z, {drawn}")]


@dataclass(frozen=True)
class Proposal:
    """How one variable is drawn, and which factors weigh besides once it is."""

    variable: int
    factors: tuple[int, ...]


@dataclass(eq=False)
class Sums:
    """Weighted counts so far, all relative to ``exp(log_scale)``."""

    var: Floats
    cells: Floats
    log_scale: float = -math.inf
    weights: float = 0.0
    squares: float = 0.0
    n: int = 0

    def add(self, log_weights: Floats) -> Floats:
        """Count the draws, and return their weights on the present scale."""
        self.n += log_weights.size
        top = float(log_weights.max())
        if top > self.log_scale:
            shrink = math.exp(self.log_scale - top) if self.weights > 0 else 0.0
            self.var *= shrink
            self.cells *= shrink
            self.weights *= shrink
            self.squares *= shrink**2
            self.log_scale = top
        relative = np.exp(log_weights - self.log_scale) if self.log_scale > -math.inf else np.zeros(log_weights.size)
        self.weights += float(relative.sum())
        self.squares += float((relative**2).sum())
        return relative

    @property
    def log_z(self) -> float:
        """Log of the mean weight."""
        return self.log_scale + math.log(self.weights / self.n) if self.weights > 0 else -math.inf

    @property
    def effective_sample_size(self) -> float:
        """The squared sum of weights over the sum of squares."""
        return self.weights**2 / self.squares if self.squares > 0 else 0.0

    @property
    def standard_error(self) -> float:
        """Of log Z, by the delta method."""
        if self.n < 2 or self.weights == 0:
            return math.inf
        return math.sqrt(max(0.0, self.n * self.squares / self.weights**2 - 1) / (self.n - 1))


@dataclass(eq=False)
class Draws:
    """The state of a run."""

    problem: Problem
    plan: tuple[Proposal, ...]
    others: tuple[int, ...]
    rng: np.random.Generator
    sums: Sums
    mu_var: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, kw_only=True, repr=False)
class LikelihoodWeighting(Method):
    """Likelihood weighting: independent weighted draws.

    A step of ``infer`` is ``samples`` draws. With the default ``tol`` of 0 all ``max_iters`` steps are done; else it
    stops when no marginal changes by more in a step.

    Parameters
    ----------
    samples : int
        Draws in a step.

    Examples
    --------
    >>> import beliefs as bl
    >>> bn = bl.datasets.load_bn("asia")
    >>> result = bl.infer(bn.condition({"dysp": "yes"}), "likelihood_weighting")
    >>> result.marginal("bronc").round(2), result.effective_sample_size > 5_000
    (array([0.83, 0.17]), True)
    """

    samples: int = 1000

    name: ClassVar[str] = "likelihood_weighting"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER,)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.ESTIMATE, "with a standard error and an effective sample size")
    derivative: ClassVar[Derivative] = Derivative.NONE
    deterministic: ClassVar[bool] = False
    ends_by_itself: ClassVar[bool] = False
    cost: ClassVar[str] = "edges x states a draw"
    reference: ClassVar[str] = "fung1989, shachter1989"
    iterative: ClassVar[bool] = True
    default_tol: ClassVar[float] = 0.0
    default_max_iters: ClassVar[int] = 20

    def __post_init__(self) -> None:
        check_integer("samples", self.samples, 1, MANY)
        object.__setattr__(self, "samples", int(self.samples))

    def init(self, problem: Problem, warm: Any = None) -> Draws:
        """Decide what draws each variable, and allocate the sums."""
        layout = problem.graph.layout
        widest = int(layout.card.max(initial=1))
        needed = 8 * (self.samples * (layout.n_vars + 6 * widest + 6) + 2 * layout.n_states)
        needed += 8 * int(layout.table_ptr[-1])
        if needed > problem.max_bytes:
            raise over_budget(f"{self.name} needs", needed, problem.max_bytes, "Raise max_bytes, or lower samples")
        plan, others = proposals(problem.graph)
        sums = Sums(np.zeros(layout.n_states), np.zeros(int(layout.table_ptr[-1])))
        rng = np.random.default_rng(problem.seed)
        return Draws(problem, plan, others, rng, sums, observed_point_masses(problem.graph))

    def step(self, state: Draws) -> float:
        """Draw, weigh and count."""
        graph = state.problem.graph
        layout, started = graph.layout, state.sums.weights > 0
        states = np.tile(np.maximum(graph.evidence_states, 0)[:, None], self.samples)
        log_weights = np.zeros(self.samples)
        for proposal in state.plan:
            _draw(graph, proposal, states, log_weights, state.rng.random(self.samples))
        for f in state.others:
            log_weights += graph.theta[layout.cell_ptr[f] + _cells(graph, f, states)]
        weights = state.sums.add(log_weights)
        for v in np.flatnonzero(~layout.observed):
            a, b = layout.state_ptr[v], layout.state_ptr[v + 1]
            state.sums.var[a:b] += np.bincount(states[v], weights, b - a)
        for f in range(layout.n_factors):
            a, b = layout.table_ptr[f], layout.table_ptr[f + 1]
            state.sums.cells[a:b] += np.bincount(_cells(graph, f, states), weights, b - a)
        before, state.mu_var = state.mu_var, _averages(state)
        return max(float(np.abs(state.mu_var - before).max(initial=0.0)), 1.0 / state.sums.n) if started else 1.0

    def value(self, state: Draws) -> Value:
        """Return the estimate of log Z."""
        return Value(state.sums.log_z)

    def finish(self, state: Draws) -> Marginals:
        """Return weighted averages; of one feasible state where no draw had a weight."""
        sums, graph = state.sums, state.problem.graph
        if sums.weights == 0:
            _count_one_state(state)
        layout = graph.layout
        totals = np.add.reduceat(sums.cells, layout.table_ptr[:-1]) if layout.n_factors else np.zeros(0)
        tables = sums.cells / np.repeat(totals, layout.factor_size)
        extras = {
            "n_samples": sums.n,
            "effective_sample_size": sums.effective_sample_size,
            "standard_error": sums.standard_error,
        }
        return Marginals(sums.log_z, Bound.ESTIMATE, _averages(state), tables, kind=WeightedResult, extras=extras)


def proposals(graph: FactorGraph) -> tuple[tuple[Proposal, ...], tuple[int, ...]]:
    """Return how variables are drawn, one after the other, and the factors that draw none and weigh all."""
    layout = graph.layout
    own: dict[int, list[int]] = {int(v): [] for v in np.flatnonzero(~layout.observed)}
    order = list(own)
    if graph.children is not None:
        for f, v in enumerate(graph.children.tolist()):
            if v in own and v in layout.scope(f):
                own[v].append(f)
        order = _by_arcs(graph, own)
    else:
        for f in range(layout.n_factors):
            if layout.scope(f).size:
                own[int(layout.scope(f).max())].append(f)
    drawing = {f for factors in own.values() for f in factors}
    others = tuple(f for f in range(layout.n_factors) if f not in drawing)
    return tuple(Proposal(v, tuple(own[v])) for v in order), others


def _by_arcs(graph: FactorGraph, own: dict[int, list[int]]) -> list[int]:
    """Return the variables, parents before children."""
    order: list[int] = []
    done: set[int] = set()
    for root in own:
        path = [root]
        while path:
            v = path[-1]
            parents = {int(u) for f in own[v] for u in graph.layout.scope(f)} - {v}
            missing = sorted(parents - done)
            path.extend(missing)
            if not missing:
                path.pop()
                if v not in done:
                    done.add(v)
                    order.append(v)
    return order


def _draw(graph: FactorGraph, proposal: Proposal, states: Ints, log_weights: Floats, uniform: Floats) -> None:
    """Draw one variable of all samples, and multiply their weights by the normalisers."""
    v, layout = proposal.variable, graph.layout
    card = int(layout.card[v])
    logits = np.zeros((states.shape[1], card))
    states[v] = 0
    for f in proposal.factors:
        cells = layout.cell_ptr[f] + _cells(graph, f, states)
        logits += graph.theta[cells[:, None] + _stride(graph, f, v) * np.arange(card)]
    top = logits.max(axis=1)
    possible = top > -np.inf
    chances = np.exp(logits - np.where(possible, top, 0.0)[:, None])
    ends = np.cumsum(chances, axis=1)
    total = ends[:, -1]
    last = card - 1 - np.argmax(chances[:, ::-1] > 0, axis=1)  # rounding must not lead to a state of no weight
    states[v] = np.minimum((ends <= (uniform * total)[:, None]).sum(axis=1), last)
    if proposal.factors:
        log_weights += np.where(possible, top + np.log(np.where(possible, total, 1.0)), -np.inf)
    else:
        log_weights += math.log(card)


def _cells(graph: FactorGraph, f: int, states: Ints) -> Ints:
    """Return the cell of a factor's table that each sample picks."""
    cell = np.zeros(states.shape[1], np.int64)
    for u in graph.layout.scope(f):
        cell = cell * graph.layout.card[u] + states[u]
    return cell


def _stride(graph: FactorGraph, f: int, v: int) -> int:
    scope = graph.layout.scope(f).tolist()
    return math.prod(int(graph.layout.card[u]) for u in scope[scope.index(v) + 1 :])


def _averages(state: Draws) -> Floats:
    """Return the marginals so far, point masses of what is observed; uniform before anything has a weight."""
    layout, sums = state.problem.graph.layout, state.sums
    mu = observed_point_masses(state.problem.graph)
    free = np.repeat(~layout.observed, layout.card)
    if sums.weights > 0:
        totals = np.add.reduceat(sums.var, layout.state_ptr[:-1])
        mu[free] = sums.var[free] / np.repeat(totals, layout.card)[free]
    else:
        mu[free] = 1.0 / np.repeat(layout.card, layout.card)[free]
    return mu


def _count_one_state(state: Draws) -> None:
    """Let one state of positive weight stand for the model, where no draw had any."""
    graph, sums = state.problem.graph, state.sums
    found = feasible_state(graph, state.problem.seed)
    if found is None:
        raise UnsupportedError(
            f"none of {sums.n} draws had a positive weight, and no state was found that has one; the hard zeros of "
            "this model call for an exact method"
        )
    layout = graph.layout
    column = np.asarray(found, np.int64)[:, None]
    for v in np.flatnonzero(~layout.observed):
        sums.var[layout.state_ptr[v] + found[v]] = 1.0
    score = 0.0  # of the factors alone: variables that targets left out have no state
    for f in range(layout.n_factors):
        cell = int(_cells(graph, f, column)[0])
        sums.cells[layout.table_ptr[f] + cell] = 1.0
        score += float(graph.theta[layout.cell_ptr[f] + cell])
    sums.n = max(sums.n, 1)
    sums.weights, sums.log_scale = float(sums.n), score
