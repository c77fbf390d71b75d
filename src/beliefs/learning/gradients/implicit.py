r"""Gradients by implicit differentiation: one sparse linear system at the fixed point of message passing.

Converged beliefs solve :math:`\mu(\theta) = \arg\max_{B\mu = d}\, \theta \cdot \mu + \tilde H(\mu)`, Eq. (22)
[domke2013], so with :math:`D = \nabla^2 \tilde H`, for :math:`q = dQ/d\mu` (Eq. (29), as a system instead of inverses),

.. math::
    \begin{bmatrix} D & B^\top \\ B & 0 \end{bmatrix} \begin{bmatrix} s \\ t \end{bmatrix} =
    \begin{bmatrix} q \\ 0 \end{bmatrix}, \qquad \frac{dL}{d\theta} = -s,

    D(x_c) = -\rho_c / \mu(x_c), \qquad D(x_i) = -\Bigl(1 - \sum_{c \ni i} \rho_c\Bigr) / \mu(x_i).

D may have zeros (at the corners of a grid with :math:`\rho = 1/2`) and positive entries, so it is not inverted. Rows of
B: one normalisation for each variable; for each factor all states of its first variable, and all but one of every
other, which follows from the rest (the likeliest: the others would nearly depend on it). So B has full row rank, and
the system is regular wherever D is definite on its null space, always for tree-reweighted message passing. Unknowns are
scaled by :math:`\sqrt\mu`, which makes D constant and leaves small beliefs harmless; cells of belief zero stay zero and
are left out.

Mean field is refused: its beliefs are products, a set that no linear constraints describe, and the formula does not
apply. Cost: one factorisation of a matrix with as many rows as beliefs and constraints, the price of a sparse solve on
the graph (memory grows faster than the graph, as for all planar or worse structures), or MINRES iterations instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from beliefs.errors import UnsupportedError
from beliefs.inference.base import Derivative, Method
from beliefs.inference.run import Answer, answer
from beliefs.learning.gradients.base import Beliefs, Gradient
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.options import check_integer, check_option, is_number, is_word
from beliefs.typing import Floats, Ints

__all__ = ["Implicit"]

_LEAST = 1e-290  # a smaller belief is zero
_RESIDUAL = 1e-7  # of the linear system, relative: beyond that the matrix is singular


@dataclass(frozen=True, kw_only=True)
class Implicit(Gradient):
    """The gradient by a linear solve at converged beliefs.

    Parameters
    ----------
    method : MessagePassing
        bp, trw or fractional_bp; UnsupportedError for others.
    solver : {"direct", "minres"}
        Sparse LU, or iterations that need no more memory than the matrix.
    tol, max_iters
        When inference stops; errors in the beliefs become errors of the gradient.

    Examples
    --------
    >>> import beliefs as bl
    >>> grid = bl.datasets.make_ising_grid(4, seed=0)
    >>> beliefs = Implicit(method=bl.TRW()).run(grid)
    >>> abs(float(beliefs.pullback(bar_var=beliefs.mu_var).sum())) < 1e-9
    True
    """

    method: Method
    solver: Literal["direct", "minres"] = "direct"
    tol: float = 1e-13
    max_iters: int = 10_000

    name: ClassVar[str] = "implicit"

    def __post_init__(self) -> None:
        check_option(is_word(self.solver, ("direct", "minres")), "solver", "'direct' or 'minres'", self.solver)
        check_option(is_number(self.tol) and self.tol >= 0, "tol", "a number >= 0", self.tol)
        check_integer("max_iters", self.max_iters, 1)
        if self.method.derivative is Derivative.MARGINALS:
            raise UnsupportedError(
                "implicit differentiation needs beliefs under linear constraints, and those of mean field are "
                "products of marginals; use truncated, convergence or perturbation"
            )
        if self.method.derivative is not Derivative.MESSAGES:
            raise UnsupportedError(
                f"implicit differentiation is for bp, trw and fractional_bp, not {self.method!r}; use exact for exact "
                "methods and perturbation for others"
            )

    def run(self, graph: FactorGraph, warm: Any = None) -> Beliefs:
        """Run message passing to its fixed point."""
        found = answer(graph, self.method, tol=self.tol, max_iters=self.max_iters, warm=warm)
        return ImplicitBeliefs(self, graph.layout, found)


class ImplicitBeliefs(Beliefs):
    """Beliefs at a fixed point of message passing."""

    def __init__(self, way: Implicit, layout: Layout, found: Answer) -> None:
        self.way, self.layout, self.found = way, layout, found
        self.mu_var, self.rho = found.mu_var, found.rho
        self.converged, self.warm_state, self.log_z = found.converged, found.warm_state, found.log_z

    @property
    def mu_factor(self) -> Floats:
        """Every factor's own table."""
        return self.found.mu_factor

    def _pulled(self, bar_var: Floats, bar_factor: Floats | None) -> Floats:
        lay, n = self.layout, self.layout.n_states
        beliefs = np.concatenate([self.mu_var, self.mu_factor])
        bar = np.concatenate([bar_var, np.zeros(int(lay.table_ptr[-1])) if bar_factor is None else bar_factor])
        assert self.rho is not None
        unknown = _unknowns(lay, beliefs)
        root = np.sqrt(beliefs[unknown])
        diagonal, constraints = _system(lay, beliefs, self.rho, unknown)
        answer = np.zeros(beliefs.size)
        if unknown.size:
            answer[unknown] = -root * _solved(self.way.solver, diagonal, constraints, root * bar[unknown])
        return lay.in_cells(_tables(lay, answer[:n], answer[n:]))


def _unknowns(layout: Layout, beliefs: Floats) -> Ints:
    """Return which beliefs can move: states of variables in factors, cells of factors of several, none of them zero."""
    of_var = np.repeat(layout.degree > 0, layout.card)
    of_factor = np.repeat(layout.arity > 1, layout.factor_size)
    moving = np.concatenate([of_var, of_factor]) & (beliefs > _LEAST)
    for _, cells, states in _incidences(layout):  # a cell is zero where one of its states is
        moving[layout.n_states + cells[~moving[states]]] = False
    return np.flatnonzero(moving)


def _incidences(layout: Layout) -> list[tuple[Ints, Ints, Ints]]:
    """Return, for each axis in turn, the edges that are their factors' axis of that number, in factors of several.

    With each edge go the cells of its factor's table and the state in ``mu_var`` that each of them has on that axis,
    as three arrays of equal length.
    """
    arity, parts = layout.arity, []
    steps = layout.edge_stride
    for axis in range(int(arity.max(initial=0))):
        factor = np.flatnonzero((arity > axis) & (arity > 1))
        edge, size = layout.scope_ptr[factor] + axis, layout.factor_size[factor]
        variable = layout.scope_vars[edge]
        within = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
        digit = within // np.repeat(steps[edge], size) % np.repeat(layout.card[variable], size)
        parts.append(
            (
                np.repeat(edge, size),
                np.repeat(layout.table_ptr[factor], size) + within,
                np.repeat(layout.state_ptr[variable], size) + digit,
            )
        )
    return parts


def _system(layout: Layout, beliefs: Floats, rho: Floats, unknown: Ints) -> tuple[Floats, Any]:
    """Return the scaled diagonal of D, and the scaled matrix B, a sparse one of full row rank."""
    from scipy.sparse import coo_array

    joined = np.where(layout.arity > 1, rho, 0.0)
    counting = 1.0 - np.bincount(layout.scope_vars, joined[layout.edge_factor], layout.n_vars)
    diagonal = -np.concatenate([np.repeat(counting, layout.card), np.repeat(joined, layout.factor_size)])[unknown]
    column = np.full(beliefs.size, -1)
    column[unknown] = np.arange(unknown.size)
    entries = [np.concatenate(part) for part in zip(*_entries(layout, np.sqrt(beliefs), column), strict=True)]
    used, row = np.unique(entries[0], return_inverse=True)
    return diagonal, coo_array((entries[2], (row, entries[1])), (used.size, unknown.size))


def _entries(layout: Layout, root: Floats, column: Ints) -> list[tuple[Ints, Ints, Floats]]:
    """Return rows, columns and values of B, part by part; ``root`` has the square roots of all beliefs.

    Row numbers have gaps: the variables, then the states of every edge. The row of a state at an edge is divided by the
    root of the state's belief, so that its entries are at most one.
    """
    lay, n = layout, layout.n_states
    owner = np.repeat(np.arange(lay.n_vars), lay.card)
    free = np.flatnonzero(column[:n] >= 0)
    parts = [(owner[free], column[free], root[free])]
    by_belief = free[np.argsort(root[free], kind="stable")]
    likeliest = np.full(lay.n_vars, -1)
    likeliest[owner[by_belief]] = by_belief
    edge_card = lay.card[lay.scope_vars]
    edge_start = lay.n_vars + np.cumsum(edge_card) - edge_card - lay.state_ptr[lay.scope_vars]
    for axis, (edge, cells, states) in enumerate(_incidences(lay)):
        follows = (states == likeliest[lay.scope_vars[edge]]) & (axis > 0)
        kept = np.flatnonzero((column[n + cells] >= 0) & ~follows)
        cell, state, row = n + cells[kept], states[kept], edge_start[edge[kept]] + states[kept]
        parts.append((row, column[cell], root[cell] / root[state]))
        once, first = np.unique(row, return_index=True)
        parts.append((once, column[state[first]], np.full(once.size, -1.0)))
    return parts


def _solved(solver: str, diagonal: Floats, constraints: Any, right: Floats) -> Floats:
    """Solve the system of both; raise UnsupportedError if it is singular."""
    from scipy.sparse import block_array, diags_array
    from scipy.sparse.linalg import minres, splu

    matrix = block_array([[diags_array(diagonal), constraints.T], [constraints, None]], format="csc")
    full = np.concatenate([right, np.zeros(constraints.shape[0])])
    size = float(np.linalg.norm(full))
    if solver == "minres":
        answer = minres(matrix, full, rtol=1e-13, maxiter=20 * full.size)[0]
    else:
        try:
            factors = splu(matrix)
        except RuntimeError:
            raise _singular() from None
        answer = factors.solve(full)
        answer += factors.solve(full - matrix @ answer)
    if not np.linalg.norm(matrix @ answer - full) <= _RESIDUAL * size:
        raise _singular()
    found: Floats = answer[: right.size]
    return found


def _singular() -> UnsupportedError:
    return UnsupportedError(
        "the equations of implicit differentiation are singular: these beliefs are not a regular optimum of their free "
        "energy. Use trw, whose free energy is concave, or truncated gradients"
    )


def _tables(layout: Layout, of_var: Floats, of_factor: Floats) -> Floats:
    """Return gradients in all tables: a factor of one variable has its variable's."""
    alone = np.flatnonzero(layout.arity == 1)
    owner = layout.scope_vars[layout.scope_ptr[alone]]
    card = layout.card[owner]
    within = np.arange(int(card.sum())) - np.repeat(np.cumsum(card) - card, card)
    of_factor[np.repeat(layout.table_ptr[alone], card) + within] = of_var[
        np.repeat(layout.state_ptr[owner], card) + within
    ]
    return of_factor
