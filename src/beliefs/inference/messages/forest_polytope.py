r"""Whether given counting numbers are a mixture of forests, with a certificate or a reason.

In a forest, the factors inside a set :math:`S` of variables join at most :math:`|S| - 1` of them, so a mixture obeys

.. math:: \sum_c \rho_c \, (|c \cap S| - 1)_+ \le |S| - 1 \quad \text{for every } S.

For pairwise models these inequalities are the *forest polytope*: nothing else is needed [edmonds1970]. They are tested
in two steps, see :mod:`beliefs.kernels.messages.orientation`: variables whose factors weigh at most 1 are peeled off,
in linear time and for any arity; what stays, the core, is oriented by flows (if factors have at most two variables in
it, and up to 5,000 variables) or tested for each connected part as a whole, which is necessary and no proof.

The certificate is ``parent (n_edges,)``, the share with which factor ``c`` hangs from each of its variables, for the
bound of :mod:`beliefs.kernels.messages.decomposed_bound`. What was peeled off is oriented without a cycle, which is
enough for any arity: eliminating these variables one by one, by Hölder's inequality, leaves the bracket of each factor
as a table over its variables in the core. There, an orientation that gives no variable more than 1 is a mixture of
rooted forests, again by Edmonds' theorem. Other shares would certify nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beliefs.errors import ModelError
from beliefs.kernels.messages.orientation import forest_orientation, peel
from beliefs.kernels.messages.spanning import component_leaders
from beliefs.model.layout import Layout, frozen_ints, offsets
from beliefs.typing import Bools, Floats, Ints

__all__ = ["MAX_EXACT", "TOLERANCE", "certified", "components"]

MAX_EXACT = 5_000
TOLERANCE = 1e-9  # sums of counting numbers that the user rounded
ROUNDING = 1e-12


def certified(layout: Layout, rho: Floats, name: Callable[[int], str]) -> tuple[Floats, Floats | None]:
    """Return counting numbers and their certificate ``parent``; None if they are only known not to be impossible.

    Numbers that exceed the polytope by less than 1e-9, as rounded ones may, are scaled back into it. Impossible ones
    raise a ModelError that names a set of variables whose factors weigh too much.
    """
    peeled, parent, excess = _peeled(layout, rho)
    core = np.flatnonzero(~peeled)
    if core.size:
        inner = _factors_inside(layout, ~peeled)
        if core.size > MAX_EXACT or inner.max() > 2:
            _check_parts(layout, rho, ~peeled, name)
            return rho, None
        excess += _oriented(layout, rho, core, inner == 2, parent, name)
    if excess > ROUNDING:
        joins = layout.arity > 1
        rho = np.where(joins, rho * (1.0 - excess), rho)
        parent = np.where(joins[layout.edge_factor], parent * (1.0 - excess), parent)
    return rho, parent


def components(n_vars: int, scope_ptr: Ints, scope_vars: Ints) -> Ints:
    """Return a variable that stands for each variable's connected component, ``(n_vars,)``; read-only arrays."""
    leader = np.empty(n_vars, np.int64)
    component_leaders(scope_ptr, scope_vars, leader)
    return leader


def _peeled(layout: Layout, rho: Floats) -> tuple[Bools, Floats, float]:
    parent, peeled = np.zeros(layout.n_edges), np.zeros(layout.n_vars, np.bool_)
    excess = peel(
        layout.scope_ptr,
        layout.scope_vars,
        layout.var_ptr,
        layout.var_edges,
        layout.edge_factor,
        rho,
        ROUNDING,
        parent,
        peeled,
    )
    single = layout.arity == 1
    parent[layout.scope_ptr[:-1][single]] = rho[single]
    return peeled, parent, excess


def _factors_inside(layout: Layout, inside: Bools) -> Ints:
    """Return how many variables of each factor are in a set, ``(n_factors,)``."""
    return np.bincount(layout.edge_factor[inside[layout.scope_vars]], minlength=layout.n_factors)


def _oriented(
    layout: Layout, rho: Floats, core: Ints, pair: Bools, parent: Floats, name: Callable[[int], str]
) -> float:
    """Orient the factors that have two variables in ``core`` and write ``parent``; return the excess."""
    inside = np.zeros(layout.n_vars, np.bool_)
    inside[core] = True
    edges = np.flatnonzero(inside[layout.scope_vars] & pair[layout.edge_factor]).reshape(-1, 2)
    place = np.full(layout.n_vars, -1, np.int64)
    place[core] = np.arange(core.size)
    ends = place[layout.scope_vars[edges]].ravel()
    halves = np.argsort(ends, kind="stable")
    half_ptr = offsets(np.bincount(ends, minlength=core.size))
    share, heavy = np.empty(ends.size), np.zeros(core.size, np.bool_)
    excess = forest_orientation(half_ptr, halves, ends, rho[pair], TOLERANCE, share, heavy)
    if excess > TOLERANCE:
        raise _violation(layout, rho, core[heavy], name)
    parent[edges] = share.reshape(-1, 2)[:, ::-1]  # what goes into one end hangs from the other
    return excess


def _check_parts(layout: Layout, rho: Floats, inside: Bools, name: Callable[[int], str]) -> None:
    """Test every connected part of the variables ``inside`` as a whole."""
    kept = inside[layout.scope_vars]
    scope_ptr = frozen_ints(offsets(kept)[layout.scope_ptr], "scope offsets")
    scope_vars = frozen_ints(layout.scope_vars[kept], "scopes")
    part = components(layout.n_vars, scope_ptr, scope_vars)
    arity = np.diff(scope_ptr)
    some = arity > 0
    weight = np.bincount(part[scope_vars[scope_ptr[:-1][some]]], (rho * (arity - 1))[some], layout.n_vars)
    size = np.bincount(part, inside, layout.n_vars)
    heavy = np.flatnonzero(weight > np.maximum(size - 1, 0) * (1 + ROUNDING) + TOLERANCE)
    if heavy.size:
        raise _violation(layout, rho, np.flatnonzero((part == heavy[0]) & inside), name)


def _violation(layout: Layout, rho: Floats, variables: Ints, name: Callable[[int], str]) -> ModelError:
    """Return the error for a set of variables whose factors weigh more than its size less one."""
    inside = np.zeros(layout.n_vars, np.bool_)
    inside[variables] = True
    joined = _factors_inside(layout, inside) - 1
    heavy = np.flatnonzero(joined > 0)
    weight = float((rho * joined)[heavy].sum())
    shown = ", ".join(repr(name(int(v))) for v in variables[:4]) + (", ..." if variables.size > 4 else "")
    what = "sum to" if joined.max() == 1 else "sum, each times the number of these variables less one, to"
    return ModelError(
        f"rho is not a mixture of forests: the {heavy.size} factors among the {variables.size} variables {shown} "
        f"{what} {weight:.10g}, but at most {variables.size - 1} is possible"
    )
