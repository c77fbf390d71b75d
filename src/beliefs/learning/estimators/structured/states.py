r"""The state spaces of an estimator's variables: labels, hidden vertices, and hidden substates of labels.

=====================  =============================================================================================
a vertex               its variables
=====================  =============================================================================================
an output              one of K labels
declared hidden        one of ``n_hidden`` states (K if that is not said); its label is never known
with ``substates``     an output y of K labels, and a hidden z of :math:`\sum_k m_k` substates, of which label k owns
                       :math:`m_k`; features, edges and cliques are those of z
=====================  =============================================================================================

An output and its substates are joined by a table that is not learned,

.. math:: \theta(y, z) = 0 \text{ where } y = \operatorname{group}(z), \qquad -\infty \text{ elsewhere,}

so labels stay variables of their own, which a loss may observe, weigh and take at another temperature than what is
hidden, and every method answers about them as about any others. Cost: :math:`K \sum_k m_k` cells for all vertices.

Hidden vertices share the weights of outputs, or have *weights of their own* (``own``): every type of factors is then
divided by which of its variables are hidden. Variables are the vertices of an input in order, then the substates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.estimators.inputs import FactorSpec, LazyFeatures, ParsedInput
from beliefs.learning.instances import HIDDEN, Instance
from beliefs.model.features import FactorType, LogLinearTemplate, Rows, Template
from beliefs.model.layout import Layout
from beliefs.options import MANY, check_integer, check_option
from beliefs.typing import Bools, Floats, Ints

__all__ = [
    "Outputs",
    "StateSpaces",
    "WithConstants",
    "check_substates",
    "check_unlabelled",
    "checked_hidden",
    "substates_of",
]

_TIES = "substates"


@dataclass(frozen=True, eq=False)
class Outputs:
    """The shape of an input's vertices, and which of them are declared hidden (None: none)."""

    shape: tuple[int, ...]
    hidden: Bools | None = None

    @property
    def n_vars(self) -> int:
        """How many vertices there are."""
        return math.prod(self.shape)

    @property
    def visible(self) -> Ints:
        """The vertices that are outputs."""
        return np.arange(self.n_vars) if self.hidden is None else np.flatnonzero(~self.hidden)

    def masked(self, values: np.ndarray, nothing: Any = HIDDEN) -> np.ndarray:
        """Return values of the vertices in their shape, ``nothing`` in the place of hidden ones."""
        if self.hidden is not None:
            values = np.where(self.hidden, nothing, values)
        return values.reshape(self.shape)


@dataclass(frozen=True)
class StateSpaces:
    """How many states there are, and what follows for types of factors, layouts and answers.

    Parameters
    ----------
    n_states : int
        Labels.
    declared : bool
        Whether inputs may declare vertices hidden.
    n_hidden : int, optional
        States of vertices that are declared hidden; None: as many as labels.
    own : bool
        Whether these have weights of their own.
    substates : tuple of int, optional
        Hidden states of each label.
    """

    n_states: int
    declared: bool = False
    n_hidden: int | None = None
    own: bool = False
    substates: tuple[int, ...] | None = None

    @property
    def latent(self) -> bool:
        """Whether some variables are hidden by their kind."""
        return self.declared or self.substates is not None

    @property
    def most(self) -> int:
        """States of the variable that has most."""
        return max(self.n_scored, self.n_unlabelled if self.declared else 0)

    @property
    def n_unlabelled(self) -> int:
        """States of a vertex that is declared hidden."""
        return self.n_states if self.n_hidden is None else self.n_hidden

    @property
    def n_scored(self) -> int:
        """States that have weights: of an output its labels, or all substates."""
        return self.n_states if self.substates is None else sum(self.substates)

    @cached_property
    def groups(self) -> Ints:
        """The label of each substate, ``(n_scored,)``."""
        return np.repeat(np.arange(self.n_states), 1 if self.substates is None else self.substates)

    @cached_property
    def ties(self) -> Floats:
        """The table of a label and its substates, ``(n_states * n_scored,)``."""
        return np.where(np.arange(self.n_states)[:, None] == self.groups, 0.0, -np.inf).ravel()

    # -- types of factors -----------------------------------------------------------------------------------------
    def _patterns(self, kind: FactorSpec) -> list[tuple[bool, ...]]:
        """Return which variables of a factor may be hidden, one entry for each type that this one is divided into."""
        return list(product((False, True), repeat=kind.arity)) if self.own else [(False,) * kind.arity]

    def types(self, kinds: Sequence[FactorSpec]) -> list[FactorType]:
        """Return the types of factors of a log-linear template, those of an input divided where weights are apart."""
        return [
            FactorType(
                _called(kind.name, pattern),
                math.prod([self.n_unlabelled if h else self.n_scored for h in pattern]),
                kind.width,
            )
            for kind in kinds
            for pattern in self._patterns(kind)
        ]

    def axes(self, kinds: Sequence[FactorSpec], labels: Sequence[str]) -> list[tuple[list[str], ...]]:
        """Return the names of the states along each axis of each type."""
        scored = list(labels)
        if self.substates is not None:
            scored = [f"{label}/{s}" for label, m in zip(labels, self.substates, strict=True) for s in range(m)]
        hidden = [f"hidden {k}" for k in range(self.n_unlabelled)]
        return [tuple(hidden if h else scored for h in pattern) for kind in kinds for pattern in self._patterns(kind)]

    def with_ties(self, template: Template) -> Template:
        """Return a template for the factors of inputs with the table of substates after them."""
        if self.substates is None:
            return template
        if isinstance(template, LogLinearTemplate):
            return LogLinearTemplate([*template.types, FactorType(_TIES, self.ties.size, 1, tuple(self.ties.tolist()))])
        return WithConstants(template, self.ties)

    def touching_hidden(self, kinds: Sequence[FactorSpec], template: Template, data: Iterable[Instance]) -> Bools:
        """Return which weights ``(n_weights,)`` touch hidden variables; all where none does, or it cannot be said.

        The weights of substates and those that hidden vertices have of their own, if there are any; else those of all
        types of factors with a variable that has no label.
        """
        if not isinstance(template, LogLinearTemplate):
            return np.ones(template.n_weights, np.bool_)
        n = len(template.types)
        used, unlabelled = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for instance in data:
            counts = [rows.n_factors for rows in instance.inputs]
            of = np.repeat(np.arange(n), counts)
            used += counts
            unlabelled += np.bincount(of[instance.label_cells < 0], minlength=n)
        latent = np.zeros(n, np.bool_)
        if self.own or self.substates is not None:
            of_kinds = [self.substates is not None or any(p) for kind in kinds for p in self._patterns(kind)]
            latent[: len(of_kinds)] = of_kinds
        touched = latent & (used > 0) if latent.any() else unlabelled > 0
        weights = np.repeat(touched, [kind.n_weights for kind in template.types])
        return weights if weights.any() else np.ones(template.n_weights, np.bool_)

    # -- inputs ---------------------------------------------------------------------------------------------------
    def inputs(self, parsed: ParsedInput) -> Any:
        """Return what the template takes of an input."""
        given, hidden = parsed.inputs, parsed.hidden
        if not (isinstance(given, tuple) and all(isinstance(rows, Rows) for rows in given)):
            return given
        if self.own:
            given = tuple(
                _chosen(rows, at)
                for rows, kind, scope in zip(given, parsed.kinds, parsed.scopes(), strict=True)
                for at in self._divided(kind, scope, hidden)
            )
        return given if self.substates is None else (*given, Rows(_n_visible(parsed)))

    def _divided(self, kind: FactorSpec, scope: Ints, hidden: Bools | None) -> Iterator[Ints]:
        """Yield which factors of a type are of each pattern."""
        of = np.zeros(scope.shape, np.bool_) if hidden is None or not self.own else hidden[scope]
        for pattern in self._patterns(kind):
            yield np.flatnonzero((of == pattern).all(axis=1))

    def labels(self, codes: Ints, parsed: ParsedInput) -> Ints:
        """Return the labels of all variables, those of substates hidden."""
        if self.substates is None:
            return codes
        return np.concatenate([codes, np.full(_n_visible(parsed), HIDDEN)])

    def of_vertices(self, values: Floats, parsed: ParsedInput) -> Floats:
        """Return numbers of the vertices as numbers of all variables, 0 for substates."""
        return values if self.substates is None else np.concatenate([values, np.zeros(_n_visible(parsed))])

    def of_states(self, values: Floats, parsed: ParsedInput, layout: Layout) -> Floats:
        """Return numbers of the vertices' labels ``(n, K)`` as numbers of all states ``(n_states,)``, else 0."""
        out = np.zeros(layout.n_states)
        visible = Outputs(parsed.shape, parsed.hidden).visible
        out[layout.state_ptr[visible][:, None] + np.arange(self.n_states)] = values[visible]
        return out

    def layout(self, parsed: ParsedInput) -> Layout:
        """Return the structure of an input: factors type after type, those that tie substates to labels last."""
        n = parsed.n_vars
        hidden = np.zeros(n, np.bool_) if parsed.hidden is None else parsed.hidden
        card, place = np.where(hidden, self.n_unlabelled, self.n_states), np.arange(n)
        pieces: list[tuple[Ints, bool]] = []
        if self.substates is not None:
            visible = np.flatnonzero(~hidden)
            place[visible] = n + np.arange(visible.size)
            card = np.concatenate([card, np.full(visible.size, self.n_scored)])
        for scope, kind in zip(parsed.scopes(), parsed.kinds, strict=True):
            pieces += [(place[scope[at]], kind.tied) for at in self._divided(kind, scope, hidden)]
        if self.substates is not None:
            pieces.append((np.stack([visible, place[visible]], axis=1), True))
        starts, at = [], 0
        for scope, tied in pieces:
            sizes = card[scope].prod(axis=1)
            starts.append(np.full(len(scope), at) if tied else at + np.cumsum(sizes) - sizes)
            at += int(sizes[0] if tied else sizes.sum()) if len(scope) else 0
        arity = np.repeat([scope.shape[1] for scope, _ in pieces], [len(scope) for scope, _ in pieces])
        return Layout.build(
            card,
            np.concatenate([[0], np.cumsum(arity)]).astype(np.int64),
            np.concatenate([np.zeros(0, np.int64), *(scope.ravel() for scope, _ in pieces)]),
            np.concatenate([np.zeros(0, np.int64), *starts]),
        )

    # -- answers --------------------------------------------------------------------------------------------------
    def label_marginals(self, mu_var: Floats, outputs: Outputs) -> Floats:
        """Return the marginals of the labels, ``(n, n_states)``; those of hidden vertices are 0."""
        n, k = outputs.n_vars, self.n_states
        if outputs.hidden is None:
            return mu_var[: n * k].reshape(n, k)
        out = np.zeros((n, k))
        sizes = np.where(outputs.hidden, self.n_unlabelled, k)
        first = (np.cumsum(sizes) - sizes)[~outputs.hidden]
        out[~outputs.hidden] = mu_var[first[:, None] + np.arange(k)]
        return out

    def latent_states(self, states: Ints, outputs: Outputs) -> Ints:
        """Return the hidden states in a joint state of all variables: of hidden vertices, and substates by label."""
        n, found = outputs.n_vars, np.full(outputs.n_vars, HIDDEN)
        if outputs.hidden is not None:
            found[outputs.hidden] = states[:n][outputs.hidden]
        if self.substates is not None:
            first = np.cumsum(self.substates) - self.substates
            found[outputs.visible] = states[n:] - first[self.groups[states[n:]]]
        return found.reshape(outputs.shape)


@dataclass(frozen=True, eq=False)
class WithConstants(Template):
    """A template whose log potentials are followed by a table that is not learned."""

    base: Template
    table: Floats

    @property
    def n_weights(self) -> int:  # type: ignore[override]
        """Those of the template."""
        return self.base.n_weights

    def theta(self, weights: Floats, inputs: Any) -> Floats:
        """Return the potentials of the template, and the table."""
        return np.concatenate([self.base.theta(weights, inputs), self.table])

    def add_pullback(self, weights: Floats, inputs: Any, grad_theta: Floats, out: Floats) -> None:
        """Go back through the template; the table has no weights."""
        self.base.add_pullback(weights, inputs, grad_theta[: -self.table.size], out)


def substates_of(given: Any, n_states: int) -> tuple[int, ...] | None:
    """Return how many substates each label has, from one number for all or one for each."""
    if given is None:
        return None
    counts = [int(given)] * n_states if np.ndim(given) == 0 else [int(m) for m in given]
    if len(counts) != n_states:
        raise ModelError(f"substates has {len(counts)} entries for {n_states} labels; give one for each, or one number")
    return tuple(counts)


def check_substates(given: Any) -> None:
    """Raise unless it is None, a number of at least 1 or a list of such."""
    several = isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim > 0)
    check_option(not several or len(given) > 0, "substates", "a number, or one for each label", given)
    for m in given if several else [given]:
        check_integer("substates", m, 1, MANY, none=not several)


def check_unlabelled(labels: np.ndarray, hidden: Bools | None, name: str) -> None:
    """Raise for a vertex that is declared hidden and has a label."""
    if hidden is None:
        return
    for v in np.flatnonzero(hidden).tolist():
        if labels[v] is not None and labels[v] != HIDDEN:
            raise ModelError(
                f"{name}: vertex {v} is declared hidden and has the label {labels[v]}; give it {HIDDEN}, or leave it "
                "out of hidden"
            )


def checked_hidden(given: Any, n: int, name: str) -> Bools | None:
    """Return which vertices an input declares hidden; None where it declares none."""
    if given is None:
        return None
    mask = np.asarray(given)
    if mask.dtype != np.bool_ or mask.shape != (n,):
        raise ModelError(
            f"{name}: hidden must be {n} times True or False, one a vertex, found {mask.dtype} of shape {mask.shape}"
        )
    if n and mask.all():
        raise ModelError(f"{name}: every vertex is declared hidden, so that no output is left; leave it out")
    return mask if mask.any() else None


def _called(name: str, pattern: tuple[bool, ...]) -> str:
    if not any(pattern):
        return name
    ends = "-".join("hidden" if h else "label" for h in pattern)
    return f"hidden {name}" if len(pattern) == 1 else f"{name} ({ends})"


def _chosen(rows: Rows, at: Ints) -> Rows:
    """Return some factors of a type."""
    values = rows.values
    if values is None or at.size == rows.n_factors:
        return Rows(int(at.size), values)
    if callable(values):
        return Rows(int(at.size), LazyFeatures((int(at.size), values.shape[1]), lambda: values()[at]))
    return Rows(int(at.size), values[at])


def _n_visible(parsed: ParsedInput) -> int:
    return parsed.n_vars if parsed.hidden is None else int((~parsed.hidden).sum())
