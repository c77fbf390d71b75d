"""What a method is: options, three verbs, and a written promise.

A method is a frozen dataclass. ``init`` allocates and checks the budget, ``step`` does one iteration (exact methods
take exactly one), ``finish`` returns raw arrays. It owns no loop, no clock, no print and no file. The words of its
promises are in :mod:`beliefs.inference.promises`.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from beliefs.driver import Status, Value
from beliefs.errors import ZeroProbabilityError
from beliefs.inference.promises import Bound, Derivative, Guarantee, Task, Unions
from beliefs.model.clamped_rbm import AskedModel
from beliefs.model.graph import FactorGraph, as_factor_graph
from beliefs.model.layout import Layout
from beliefs.options import Suggesting
from beliefs.typing import Floats, Ints

__all__ = [
    "Bound",
    "Decoding",
    "Derivative",
    "Guarantee",
    "Marginals",
    "Method",
    "Problem",
    "Samples",
    "Tables",
    "Task",
    "Unions",
    "check_possible",
    "WarmStages",
    "zero_probability",
]

Tables: TypeAlias = Floats | Callable[[], Floats]

_CALL = 3e3  # cells of work for any step, however small the model


_NO_QUERY = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Problem:
    """One question about one model, checked by the door.

    Attributes
    ----------
    model : FactorGraph, BoltzmannMachine or ClampedRBM
        Machines are handed on as they are, for the methods that know their layers; all others ask for ``graph``.
    query : ndarray
        The maximised variables of marginal MAP, sorted; empty for the other tasks.
    targets : ndarray or None
        Variables whose marginals are wanted; None means all.
    held : float
        Bytes that a factor graph takes which is made for this question; ``max_bytes`` is for all.
    aside : float
        Bytes beside ``max_bytes`` for the value of a query's states.
    values_states : bool
        Whether the value of a query's states is asked for; who knows it better asks for the states alone.
    """

    model: AskedModel
    task: Task = Task.INFER
    query: Ints = field(default_factory=lambda: _NO_QUERY)
    targets: Ints | None = None
    n_samples: int = 0
    max_bytes: int = 2**62
    held: float = 0.0
    aside: float = 0.0
    seed: int = 0
    threads: int = 1
    time_limit: float = math.inf
    values_states: bool = True
    plans: dict[Any, Any] = field(default_factory=dict, init=False)  # a method's own, for choosing and for running
    claimed: float = field(default=0.0, init=False)  # bytes of ``max_bytes`` that the method has said it needs

    def __post_init__(self) -> None:
        if isinstance(self.model, FactorGraph):
            self.__dict__["graph"] = self.model  # nothing to be made, so nothing to be asked for

    def claim(self, needed: float) -> None:
        """Say how much of ``max_bytes`` a method takes, which the values of a query may not."""
        self.__dict__["claimed"] = needed

    @property
    def bytes_for_values(self) -> int:
        """What the value of a query's states may take: what was set aside, and what the method does not need."""
        return int(self.aside + max(0.0, self.max_bytes - self.claimed))

    @cached_property
    def graph(self) -> FactorGraph:
        """The model as a factor graph, made when it is first asked for."""
        return as_factor_graph(self.model)

    @cached_property
    def tau(self) -> Floats:
        """Temperature of each variable, ``(n_vars,)``: 1 sums, 0 maximises."""
        tau = np.full(self.graph.n_vars, 0.0 if self.task is Task.MAXIMIZE else 1.0)
        tau[self.query] = 0.0
        return tau


@dataclass(frozen=True, eq=False)
class Marginals:
    """Raw answer to ``infer``.

    ``tables`` are all factors' own marginals, one after the other, or a function that makes them, since many questions
    end with variables. ``joint`` answers for sets of variables inside what a method keeps besides (regions), None for
    others. ``estimated``: marginals are estimates even where the value is exact, for two bounds that meet say nothing
    of them. ``rho``: counting numbers of the factors' entropies, where the value is made of such. Methods that have
    more to say name the class of their result in ``kind``, and its fields in ``extras``.
    """

    log_z: float
    bound: Bound
    mu_var: Floats
    tables: Tables
    lower: float = -math.inf
    upper: float = math.inf
    joint: Callable[[tuple[int, ...]], Floats | None] | None = None
    estimated: bool = False
    rho: Floats | None = None
    kind: type | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mu_factor(self) -> Floats:
        """The factors' marginals."""
        return self.tables() if callable(self.tables) else self.tables


@dataclass(frozen=True, eq=False)
class Decoding:
    """Raw answer to ``maximize`` and ``marginal_map``.

    ``assignment`` covers all variables for ``maximize`` and the query for ``marginal_map``; ``log_value`` is its score
    or Q-value with its bound; ``upper`` bounds the optimum.
    """

    assignment: Ints
    log_value: float
    bound: Bound
    lower: float = -math.inf
    upper: float = math.inf


@dataclass(frozen=True, eq=False)
class Samples:
    """Raw answer to ``sample``: ``samples (n, n_vars)`` and the bound of their law (EXACT: independent draws)."""

    samples: Ints
    bound: Bound


@dataclass(frozen=True, eq=False)
class WarmStages:
    """What a warm start needs: the methods that ran, and the warm state of each."""

    stages: tuple[tuple[Method, Any], ...]

    def of(self, method: Method) -> Any:
        """Return the warm state of a method like this, the same options first; None if none ran, or in another form."""
        alike = [
            (repr(m) != repr(method), i)
            for i, (m, state) in enumerate(self.stages)
            if m.name == method.name and isinstance(state, method.warm_kind)
        ]
        return self.stages[min(alike)[1]][1] if alike else None


@dataclass(frozen=True, kw_only=True)
class Method(metaclass=Suggesting):
    """Base of all methods; the class variables are its row in ``methods()``."""

    name: ClassVar[str]
    tasks: ClassVar[tuple[Task, ...]]
    guarantee: ClassVar[Guarantee]
    cost: ClassVar[str]
    reference: ClassVar[str]
    iterative: ClassVar[bool] = False
    value_is_free: ClassVar[bool] = True
    fixed_point: ClassVar[bool] = False
    """Whether stopping short of ``tol`` deserves a ConvergenceWarning (an anytime bound does not)."""

    residual_of: ClassVar[str] = "marginals"
    """What ``tol`` is compared with: the largest change of a marginal, or of a bound method its bound's, relative."""

    default_tol: ClassVar[float] = 1e-8
    default_max_iters: ClassVar[int] = 1000

    derivative: ClassVar[Derivative] = Derivative.DIFFERENCES
    """How its marginals are differentiated."""

    deterministic: ClassVar[bool] = True
    """Whether answers follow from the model alone; False: they are made of random draws, and have their noise."""

    has_marginals: ClassVar[bool] = True
    """Whether its answer to ``infer`` has marginals."""

    warm_startable: ClassVar[bool] = False
    """Whether a warm start saves anything."""

    warm_kind: ClassVar[type] = object
    """Of what type a warm start is, where forms of a method go on from different things."""

    ends_by_itself: ClassVar[bool] = True
    """Whether it has an end; False: it goes on for as long as it is let, and so may its start."""

    price: ClassVar[float] = 1.0
    """Cells of work for a cell of the model, a step; see :meth:`step_cells`."""

    mixed_price: ClassVar[float] = 1.0
    """Times as much where sums and maxima are mixed."""

    variants: ClassVar[Mapping[Task, tuple[str, ...]]] = {}
    """Options with kernels of their own, by question: what ``beliefs warmup`` compiles for every number of states."""

    general: ClassVar[bool] = True
    """Whether it takes every factor graph; False: restricted Boltzmann machines alone."""

    values_queries: ClassVar[bool] = False
    """Whether its marginal-MAP states are valued one by one, the other variables summed out, in memory of their own."""

    any_temperatures: ClassVar[bool] = False
    """Whether a field ``tau`` sets the temperatures of variables, and marginals are the gradient of the bound."""

    takes_turns: ClassVar[bool] = False
    """Whether it is several methods that share the work; the driver then asks :meth:`ended` and :meth:`at_work`."""

    @abstractmethod
    def init(self, problem: Problem, warm: Any = None) -> Any:
        """Plan, check the budget and allocate; ``warm`` is the ``state`` of an earlier result."""

    @abstractmethod
    def step(self, state: Any) -> float:
        """Do one iteration in place and return its residual."""

    def verify(self, state: Any) -> float:
        """Return how far the present iterate is from its goal, where a small residual alone does not tell; 0: it does.

        The driver asks before it says CONVERGED.
        """
        return 0.0

    def may_oscillate(self, state: Any) -> bool:
        """Whether a residual that does not shrink is an oscillation; where the value never falls it is patience."""
        return self.fixed_point

    @abstractmethod
    def value(self, state: Any) -> Value:
        """Return the point value and certified interval at the present iterate."""

    @abstractmethod
    def finish(self, state: Any) -> Marginals | Decoding | Samples:
        """Return the raw answer at the present iterate."""

    def warm_state(self, state: Any) -> Any:
        """Return what a warm start needs; None where a warm start would save nothing."""
        return None

    def kept(self, state: Any) -> Any:
        """Return :meth:`warm_state`, by its old name."""
        warnings.warn("Method.kept is called warm_state; the old name goes in 0.2", DeprecationWarning, stacklevel=2)
        return self.warm_state(state)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kept" in cls.__dict__ and "warm_state" not in cls.__dict__:
            warnings.warn(f"{cls.__name__}.kept is called warm_state", DeprecationWarning, stacklevel=2)
            cls.warm_state = cls.kept  # type: ignore[method-assign]

    def warm_from(self, earlier: WarmStages) -> Any:
        """Return what to start from, given what the methods of an earlier run have left."""
        return earlier.of(self)

    @property
    def needs_machine(self) -> bool:
        """Whether these options are for restricted Boltzmann machines alone."""
        return not self.general

    @property
    def lower(self) -> bool:
        """Whether these options bound sums from below, and give nothing else."""
        return False

    # -- what a method costs, and how it is used in learning ---------------------------------------------------------
    def step_cells(self, problem: Problem) -> float:
        """Predict the work of a step, counted in cells of plain tables."""
        price = self.price * (self.mixed_price if problem.task is Task.MARGINAL_MAP else 1.0)
        return price * float(problem.graph.layout.table_ptr[-1]) + _CALL

    def start_seconds(self, problem: Problem) -> float:
        """Predict the seconds that ``init`` may search, besides the work of some steps."""
        return 0.0

    def for_learning(self) -> Method:
        """Return the method that learning uses where this one is named: the options left open are chosen for it."""
        return self

    @property
    def on_unions(self) -> Unions:
        """What the answer for a disjoint union of models says of its parts."""
        return Unions.NOTHING

    def share_plans(self, union: Layout, parts: Sequence[Layout]) -> None:
        """Keep on the layout of a union what is chosen for its parts, where the choice for the whole may be another."""

    def irreversible(self) -> str:
        """Return why gradients cannot go back through updates with these options; empty where they can."""
        return ""

    # -- what methods of several, and those with fixed points, have to say besides -----------------------------------
    def for_iterations(self, max_iters: int | None) -> Method:
        """Return the method that takes as many iterations as the caller asked for, where it has limits of its own."""
        return self

    def ended(self, state: Any) -> Status | None:
        """Return the status to end with if there is nothing left to run, else None."""
        return None

    def at_work(self, state: Any) -> str:
        """Return the text of the method that took the last step."""
        return ""

    def ran(self, state: Any) -> tuple[Method, str]:
        """Return the method whose answer it is, and a sentence on what the others gave, if there are any."""
        return self, ""

    def calmer(self) -> Method | None:
        """Return a method with the same fixed points that reaches more of them, more slowly; None if there is none."""
        return None

    def __repr__(self) -> str:
        return written(self)


def written(options: Any) -> str:
    """Return a named dataclass of options as text: ``name(field=literal, ...)``, fields at their default left out."""
    shown = [f"{f.name}={_text(getattr(options, f.name))}" for f in fields(options) if not _is_default(options, f)]
    return f"{options.name}({', '.join(shown)})" if shown else str(options.name)


def _is_default(options: Any, f: Any) -> bool:
    value = getattr(options, f.name)
    return value is f.default or (not isinstance(value, np.ndarray) and bool(value == f.default))


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"<array {value.shape}>"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (tuple, list)):
        return f"<{len(value)} items>"
    return value if isinstance(value, str) else repr(value)


def claimed(value: Value) -> Bound:
    """Return what a point value is: the truth, one end of the certified interval, or nothing certain."""
    if value.lower == value.upper:
        return Bound.EXACT
    if value.log_z == value.upper:
        return Bound.UPPER
    return Bound.LOWER if value.log_z == value.lower else Bound.ESTIMATE


def zero_probability(graph: FactorGraph) -> ZeroProbabilityError:
    """Return the one error for Z = 0, naming the evidence if there is any."""
    if not graph.evidence:
        return ZeroProbabilityError("every assignment of this model has weight zero (Z = 0); check its hard zeros")
    shown = [f"{graph.naming.name(v)}={graph.naming.label(v, x)}" for v, x in list(graph.evidence.items())[:6]]
    more = ", ..." if len(graph.evidence) > 6 else ""
    return ZeroProbabilityError(f"the evidence has probability zero: {', '.join(shown)}{more}")


def check_possible(graph: FactorGraph) -> None:
    """Raise the error for Z = 0 where a table of one cell is zero: no search is needed to know it."""
    if (graph.theta[graph.layout.single_cells] == -math.inf).any():
        raise zero_probability(graph)


def observed_point_masses(graph: FactorGraph) -> Floats:
    """Return ``mu_var (n_states,)``, zero except for a 1 at each observed variable's state."""
    mu_var = np.zeros(graph.layout.n_states)
    seen = np.flatnonzero(graph.evidence_states >= 0)
    mu_var[graph.layout.state_ptr[seen] + graph.evidence_states[seen]] = 1.0
    return mu_var
