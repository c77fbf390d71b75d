r"""Mean field: the best distribution in which variables, or whole trees of them, are independent.

For any distribution q, :math:`\log Z \ge E_q\,\theta(x) + H(q)` [jordan1999]. For products
:math:`q = \prod_v \mu_v` the right side is (Eqs. (10)-(12) [domke2013])

.. math::
    \sum_f \sum_{x_f} \theta_f(x_f) \prod_{v \in f} \mu_v(x_v) - \sum_v \sum_{x_v} \mu_v(x_v) \log \mu_v(x_v),

and its maximum over one marginal, the others fixed, is (Eq. (30), with the products put right)

.. math::
    \mu_v(x_v) \propto e^{a(x_v)}, \qquad
    a(x_v) = \sum_{f \ni v} \sum_{x_{f \setminus v}} \theta_f(x_f) \prod_{u \in f \setminus v} \mu_u(x_u).

=================  =================================================
:math:`\mu_v`      ``mu``, one run of states per variable
:math:`a(x_v)`     ``a`` in the kernels, ``-inf`` where forbidden
=================  =================================================

A step updates all variables once: in raster order, forward in one step and backward in the next, or colour by colour.
Variables are updated one at a time (those of one colour share no factor, so their order does not matter), hence the
bound never falls, and it is certified at every iterate, the start included. It is exact where no factor joins
variables. The answer is a local optimum: it depends on the start, uniform unless there are ``restarts``. With trees
(``structure="tree"``) see :mod:`beliefs.inference.variational.structured`.

Hard zeros: q must not touch a forbidden cell, so the start is a state of positive weight, found by search, for the
variables of factors with zeros; a state gains weight only if no forbidden cell gets any. If the search finds no such
state and no proof that there is none, the bound is ``-inf``.

Restarts run side by side: a step updates every run once, the answer is that of the best run so far, the residual the
largest of all runs. Cost of a step and run: cells times arity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from beliefs.driver import Value
from beliefs.errors import ModelError, UnsupportedError
from beliefs.inference.base import Bound, Derivative, Guarantee, Marginals, Method, Problem, Task, Unions
from beliefs.inference.budget import over_budget
from beliefs.inference.rounding import certified
from beliefs.inference.search.feasible import EFFORT, feasible_state, hard_factors
from beliefs.inference.search.icm import icm
from beliefs.inference.variational.field import Field, Run, uniform
from beliefs.inference.variational.naive import naive_field
from beliefs.inference.variational.structured import ForestField
from beliefs.model.graph import FactorGraph
from beliefs.options import MANY, check_integer, check_option, is_word
from beliefs.typing import Bools, Floats, Ints

__all__ = ["MeanField"]

_SEARCH = 3.0  # seconds that the search for a state of positive weight may take
_TRIES = 8  # possible states drawn beside the first; the start is the best of them


@dataclass(frozen=True, eq=False)
class MeanFieldWarmStart:
    """What a warm start needs: the marginals ``(runs, n_states)``, and whether the next sweep goes forward."""

    mu: Floats
    forward: bool


@dataclass(eq=False)
class MeanFieldState:
    """The family of distributions, its runs, and where the schedule stands."""

    field: Field
    runs: list[Run]
    threads: int
    forward: bool
    change: float = 0.0
    moved: bool = False
    best: tuple[Run, float] | None = None
    """The best run and its bound at the present iterate, once found."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MeanField(Method):
    """Mean field by coordinate ascent, naive or structured; a lower bound at every iterate.

    Parameters
    ----------
    structure : {"none", "tree"}
        Independent variables, or independent induced trees.
    restarts : int
        Further runs from random marginals, beside the one from the uniform start.
    schedule : {"sequential", "color"}
        One variable (tree) after the other, forward and backward in turn; or colour classes, which threads share.
    order : {1, 2}
        2: the Thouless-Anderson-Palmer equations of a restricted Boltzmann machine, an estimate instead of a bound.

    Examples
    --------
    >>> import beliefs as bl
    >>> g = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
    >>> r = bl.infer(g, "mean_field")
    >>> r.bound.name, bool(r.log_z <= np.log(10)), round(r.log_z, 3)
    ('LOWER', True, 2.299)
    """

    structure: Literal["none", "tree"] = "none"
    restarts: int = 0
    schedule: Literal["sequential", "color"] = "sequential"
    order: int = 1

    name: ClassVar[str] = "mean_field"
    tasks: ClassVar[tuple[Task, ...]] = (Task.INFER,)
    guarantee: ClassVar[Guarantee] = Guarantee(Bound.LOWER, "(order=2: estimate)", also=(Bound.ESTIMATE,))
    derivative: ClassVar[Derivative] = Derivative.MARGINALS
    price: ClassVar[float] = 4.0
    warm_startable: ClassVar[bool] = True
    warm_kind: ClassVar[type] = MeanFieldWarmStart
    variants: ClassVar[Mapping[Task, tuple[str, ...]]] = {
        Task.INFER: (
            "",
            "schedule=color",
            "structure=tree",
        ),
    }
    cost: ClassVar[str] = "cells x arity a sweep"
    reference: ClassVar[str] = "jordan1999, saul1996"
    iterative: ClassVar[bool] = True
    value_is_free: ClassVar[bool] = False

    @property
    def on_unions(self) -> Unions:
        """Marginals of one part know nothing of another's; trees are chosen, and restarts judged, for the whole."""
        return Unions.PARTS if self.structure == "none" and not self.restarts else Unions.NOTHING

    def __post_init__(self) -> None:
        check_option(is_word(self.structure, ("none", "tree")), "structure", "none or tree", self.structure)
        check_integer("restarts", self.restarts, 0, MANY)
        check_option(is_word(self.schedule, ("sequential", "color")), "schedule", "sequential or color", self.schedule)

        check_integer("order", self.order, 1, 2)
        if self.order == 2 and (self.structure, self.restarts, self.schedule) != ("none", 0, "sequential"):
            raise ModelError("order=2 has no structure, restarts or schedule; leave them out, or take order=1")

    @property
    def needs_machine(self) -> bool:
        """Whether the second order is asked for."""
        return self.order == 2

    def init(self, problem: Problem, warm: MeanFieldWarmStart | None = None) -> MeanFieldState:
        """Choose updates, check the budget, and start: from ``warm`` marginals, uniform ones, or a possible state."""
        if self.needs_machine:
            raise UnsupportedError(f"{self} is for restricted Boltzmann machines; take mean_field for other models")
        graph = problem.graph
        zeros = graph.theta.min(initial=0.0) == -np.inf
        hard = hard_factors(graph) if zeros else np.zeros(graph.n_factors, np.bool_)
        kind = ForestField if self.structure == "tree" else naive_field(graph.layout, hard)
        needed = kind.n_bytes(graph.layout, hard, self.restarts + 1)
        if needed > problem.max_bytes:
            advice = "Raise max_bytes or observe more variables"
            raise over_budget(f"{self} needs", needed, problem.max_bytes, advice, " for marginals and tables")
        field = kind(graph, hard, self.schedule)
        runs = [_started(field, problem.seed, r, warm) for r in range(self.restarts + 1)]
        return MeanFieldState(field, runs, problem.threads, warm is None or warm.forward)

    def step(self, state: MeanFieldState) -> float:
        """Update all marginals of all runs once.

        The residual is the largest change in this sweep or the one before: forward and backward sweeps converge in
        turn, and an answer is one that both leave alone.
        """
        change = 0.0
        for run in state.runs:
            if run.feasible:
                change = max(change, state.field.sweep(run, forward=state.forward, threads=state.threads))
        residual, state.change = max(change, state.change), change
        state.forward, state.moved, state.best = not state.forward, True, None
        return residual

    def value(self, state: MeanFieldState) -> Value:
        """Return the best run's bound, certified; on both sides where the family contains the model."""
        return _valued(state, *_best(state))

    def finish(self, state: MeanFieldState) -> Marginals:
        """Return the best run's marginals and bound."""
        run, log_z = _best(state)
        value = _valued(state, run, log_z)
        bound = Bound.EXACT if value.lower == value.upper else Bound.LOWER
        return Marginals(value.log_z, bound, run.mu, partial(state.field.tables, run), value.lower, value.upper)

    def start_seconds(self, problem: Problem) -> float:
        """Allow for a search for a state of positive weight, where there are hard zeros."""
        return _SEARCH if problem.graph.theta.min(initial=0.0) == -np.inf else 0.0

    def warm_state(self, state: MeanFieldState) -> MeanFieldWarmStart:
        """Return the marginals of all runs."""
        return MeanFieldWarmStart(np.stack([run.mu for run in state.runs]), state.forward)


def _best(state: MeanFieldState) -> tuple[Run, float]:
    """Return the run with the largest bound, the first of equals, and its bound; found once an iterate."""
    if state.best is None:
        values = [state.field.value(run) if run.feasible else -np.inf for run in state.runs]
        best = int(np.argmax(values))
        state.best = state.runs[best], values[best]
    return state.best


def _valued(state: MeanFieldState, run: Run, log_z: float) -> Value:
    if state.field.exact and state.moved and run.feasible:
        return Value(log_z, log_z, log_z)
    return certified(Value(log_z, log_z), state.field.rounding(run))


def _started(field: Field, seed: int, number: int, warm: MeanFieldWarmStart | None) -> Run:
    """Return run ``number``: from ``warm`` where that has such a run that is possible, else from a start of its own."""
    if warm is not None and number < len(warm.mu):
        run = field.begin(warm.mu[number])
        if field.refresh(run):
            return run
    graph, layout = field.graph, field.graph.layout
    mu = uniform(layout)
    if number > 0:
        mu = np.random.default_rng([seed, number]).exponential(size=layout.n_states)
        mu /= np.repeat(np.add.reduceat(mu, layout.state_ptr[:-1]), layout.card)
    if not field.hard.any():
        return field.begin(mu)
    state = _possible_state(graph, seed + number)
    if state is None:
        run = field.begin(uniform(layout))
        run.feasible = False
        return run
    point = np.zeros(layout.n_states)
    point[layout.state_ptr[:-1] + state] = 1.0
    return field.begin(np.where(np.repeat(_constrained(graph, field.hard), layout.card), point, mu))


def _possible_state(graph: FactorGraph, seed: int) -> Ints | None:
    """Return the best of a few states of positive weight, each improved by single moves; None if none is found."""
    first = feasible_state(graph, seed)
    if first is None:
        return None
    tries = min(_TRIES, 1 + 10**5 // graph.n_vars)
    seeds = np.random.SeedSequence(seed).generate_state(tries)
    found = [first, *(feasible_state(graph, int(other), EFFORT // 100) for other in seeds)]
    improved = [icm(graph, state) for state in found if state is not None]
    return max(improved, key=lambda pair: pair[1])[0]


def _constrained(graph: FactorGraph, hard: Bools) -> Bools:
    """Return which variables are in a factor with hard zeros."""
    layout = graph.layout
    result = np.zeros(layout.n_vars, np.bool_)
    result[layout.scope_vars[hard[layout.edge_factor]]] = True
    return result
