r"""Counting numbers of tree-reweighted message passing: choices, checks and improvement.

A reweighting gives every factor a number :math:`\rho_c`, the probability that it is in a random forest of the factor
graph (a set of factors without a cycle). The tree-reweighted value is then an upper bound on log Z [wainwright2005].

=============  =======================================================================================================
``None``       the first of these that applies: 1 on forests, ``"grid"``, ``"uniform"`` for pairwise models of at most
               5,000 variables, ``"sampled"``
``"grid"``     0.5 on a 4-connected grid: half of the time all rows, half of the time all columns; 0.25 on an
               8-connected one, with the diagonals
``"uniform"``  uniform over the spanning trees of a pairwise model, by effective resistances
``"sampled"``  the average of random forests, any arity
a number       the same for every factor of two or more variables; checked
an array       one for each factor; checked; factors of one variable or none always have 1, whatever is given
=============  =======================================================================================================

Along with ``rho`` goes its certificate: how often each factor hangs from each of its variables in rooted forests. It
makes the bound of :mod:`beliefs.kernels.messages.decomposed_bound` hold at every iterate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.inference.messages.effective_resistance import spanning_tree_probabilities
from beliefs.inference.messages.forest_polytope import MAX_EXACT, TOLERANCE, certified, components
from beliefs.inference.messages.spanning_forests import joining_factors, maximum_forest, sampled_forests, whole_forest
from beliefs.model.layout import Layout
from beliefs.options import check_option, is_number
from beliefs.typing import Floats, Ints

__all__ = ["WORDS", "Reweighting", "RhoChoice", "check_range", "choose_rho", "improved", "join_rho"]

RhoChoice: TypeAlias = str | float | ArrayLike | None
_GRID_ORIGIN = {2: "0.5 on a 4-connected grid", 4: "0.25 on an 8-connected grid"}
WORDS = ("grid", "uniform", "sampled")
_RANGE = (1e-6, 1e6)


@dataclass(frozen=True, eq=False)
class Reweighting:
    r"""Counting numbers and what is known of them.

    Attributes
    ----------
    rho : ndarray (n_factors,)
        In (0, 1]; 1 for factors of one variable or none.
    parent : ndarray (n_edges,) or None
        :math:`a_{c,j} \ge 0`, the probability that factor ``c`` hangs from its variable ``j``; over the edges of a
        factor they sum to its ``rho``. None: no certificate, and the tree-reweighted value is no proved bound.
    origin : str
        Where they come from, a phrase for the user.
    """

    rho: Floats
    parent: Floats | None
    origin: str

    def root(self, layout: Layout) -> Floats:
        r"""Return the probability :math:`w_i = 1 - \sum_{c \ni i} (\rho_c - a_{c,i})` that a variable is a root."""
        if self.parent is None:
            raise ValueError("counting numbers without a certificate have no roots")
        child = self.rho[layout.edge_factor] - self.parent
        return np.asarray(1.0 - np.bincount(layout.scope_vars, child, layout.n_vars), np.float64)


def choose_rho(
    layout: Layout, rho: RhoChoice = None, seed: int = 0, name: Callable[[int], str] = "x{}".format
) -> Reweighting:
    """Return the counting numbers of a choice; see the table above.

    Parameters
    ----------
    seed : int
        Of the sampled forests.
    name : callable
        Gives a variable's name for messages.

    Raises
    ------
    ModelError
        If a word is unknown or does not fit the model, or given numbers are no mixture of forests. For pairwise models
        of at most 5,000 variables (and for all that peel off, see :mod:`.forest_polytope`) the check is exact and
        comes with a certificate; for others it is necessary only.
    """
    if rho is None or isinstance(rho, str):
        check_option(rho is None or rho in WORDS, "rho", f"one of {', '.join(WORDS)}, a number or an array", rho)
        return layout.plan(_chosen, rho, seed)
    return _given(layout, rho, name)


def join_rho(layout: Layout, parts: Sequence[Layout], rho: str | None = None) -> Reweighting:
    """Give a disjoint union the counting numbers of its parts, one after the other, and keep them on its layout.

    By itself a union has others where the choice depends on the whole: two grids side by side are no grid.
    """

    def chosen() -> Reweighting:
        found = [choose_rho(part, rho) for part in parts]
        parents = [one.parent for one in found if one.parent is not None]
        parent = np.concatenate(parents) if len(parents) == len(found) else None
        return Reweighting(np.concatenate([one.rho for one in found]), parent, "those of its parts")

    return layout.keep((_chosen, rho, 0), chosen)


def improved(layout: Layout, current: Reweighting, information: Floats, step: float) -> Reweighting:
    r"""Return ``(1 - step) * current + step * forest``, a step of conditional gradient on ``rho``.

    The tree-reweighted value has the derivative :math:`-I_c` in :math:`\rho_c`, where ``information`` (n_factors,) is
    the mutual information of the factors' beliefs at convergence, so the forest of greatest information is the best
    direction [wainwright2005]. Steps of ``2 / (k + 2)`` converge; every one of them keeps the bound.
    """
    check_option(0.0 <= step < 1.0, "step", "in [0, 1)", step)
    forest, hangs = maximum_forest(layout, information)
    joins = layout.arity > 1
    rho = np.where(joins, (1.0 - step) * current.rho + step * forest, 1.0)
    parent = None if current.parent is None else (1.0 - step) * current.parent + step * hangs
    origin = current.origin if current.origin.endswith(", improved") else f"{current.origin}, improved"
    return Reweighting(rho, parent, origin)


# -- built-in choices ---------------------------------------------------------------------------------------------


def _chosen(layout: Layout, word: str | None, seed: int) -> Reweighting:
    if word is None:
        word = _default(layout)
    if word == "forest":
        parent = whole_forest(layout)
        return Reweighting(np.ones(layout.n_factors), parent, "1 on a forest")
    if word == "grid":
        return _grid(layout)
    if word == "uniform":
        return _uniform(layout)
    numbers, parent, drawn = sampled_forests(layout, seed)
    return Reweighting(numbers, parent, f"the average of {drawn} random forests")


def _default(layout: Layout) -> str:
    if whole_forest(layout) is not None:
        return "forest"
    if layout.is_pairwise:
        if _grid_directions(layout) is not None:
            return "grid"
        if layout.n_vars <= MAX_EXACT:
            return "uniform"
    return "sampled"


def _pairs(layout: Layout) -> tuple[Ints, Ints]:
    """Return the factors of two variables and their edges ``(n, 2)``."""
    factors = joining_factors(layout)
    return factors, layout.scope_ptr[factors][:, None] + np.arange(2)


def _grid_directions(layout: Layout) -> int | None:
    """Return 2 or 4 if the pairs are exactly a grid with 4 or 8 neighbours, numbered row by row, at least 2 by 2."""
    u, v = layout.scope_vars[_pairs(layout)[1]].T
    low, step = np.minimum(u, v), np.abs(u - v)
    for columns, directions in ((int(step.max(initial=1)), 2), (int(step.max(initial=1)) - 1, 4)):
        rows, rest = divmod(layout.n_vars, columns) if columns >= 2 else (0, 0)
        if rest or rows < 2:
            continue
        first, last = low % columns == 0, low % columns == columns - 1
        kinds = [(step == 1) & ~last, step == columns, (step == columns + 1) & ~last, (step == columns - 1) & ~first]
        kind = np.select(kinds[:directions], range(directions), -1)
        n_edges = rows * (columns - 1) + (rows - 1) * columns + (directions - 2) * (rows - 1) * (columns - 1)
        if low.size == n_edges and (kind >= 0).all() and int(np.bincount(4 * low + kind).max()) == 1:
            return directions
    return None


def _grid(layout: Layout) -> Reweighting:
    """All lines of one direction, each direction equally often: an edge hangs from its lower end."""
    directions = _grid_directions(layout) if layout.is_pairwise else None
    if directions is None:
        raise ModelError("rho='grid' needs a pairwise model on a grid with 4 or 8 neighbours, numbered row by row")
    rho, parent = _only_single(layout)
    factors, edges = _pairs(layout)
    lower = layout.scope_vars[edges].argmin(axis=1)
    rho[factors] = 1.0 / directions
    parent[edges[np.arange(len(edges)), lower]] = 1.0 / directions
    return Reweighting(rho, parent, _GRID_ORIGIN[directions])


def _uniform(layout: Layout) -> Reweighting:
    if not layout.is_pairwise:
        raise ModelError("rho='uniform' needs a pairwise model; rho='sampled' takes factors of any arity")
    rho, parent = _only_single(layout)
    factors, edges = _pairs(layout)
    held = np.zeros(layout.n_vars, np.bool_)
    held[np.unique(components(layout.n_vars, layout.scope_ptr, layout.scope_vars), return_index=True)[1]] = True
    shares = spanning_tree_probabilities(layout.n_vars, layout.scope_vars[edges], held)
    rho[factors] = shares.sum(axis=1)
    parent[edges] = shares
    return Reweighting(rho, parent, "uniform over spanning trees")


def _only_single(layout: Layout) -> tuple[Floats, Floats]:
    """Return ``rho`` and ``parent`` of factors of one variable or none; zero for the others."""
    arity = layout.arity
    return (arity < 2).astype(np.float64), (arity[layout.edge_factor] == 1).astype(np.float64)


# -- given numbers ------------------------------------------------------------------------------------------------


def check_range(layout: Layout, rho: Floats) -> None:
    """Refuse given counting numbers of factors of several variables that potentials cannot be divided by."""
    coupling = rho[layout.arity > 1]
    if coupling.size and not (_RANGE[0] <= coupling.min() and coupling.max() <= _RANGE[1]):
        raise ModelError(f"rho must be between {_RANGE[0]:g} and {_RANGE[1]:g}: potentials are divided by it")


def _given(layout: Layout, rho: ArrayLike, name: Callable[[int], str]) -> Reweighting:
    numbers = _numbers(layout, rho)
    bad = np.flatnonzero(~((numbers > 0.0) & (numbers <= 1.0 + TOLERANCE)))
    if bad.size:
        raise ModelError(f"rho must be in (0, 1], found {numbers[bad[0]]:.10g} for factor {bad[0]}")
    check_range(layout, numbers)
    numbers = np.minimum(numbers, 1.0)
    numbers[layout.arity < 2] = 1.0
    numbers, parent = certified(layout, numbers, name)
    return Reweighting(numbers, parent, "given")


def _numbers(layout: Layout, rho: ArrayLike) -> Floats:
    """Return a fresh array ``(n_factors,)``."""
    if is_number(rho):
        return np.full(layout.n_factors, float(rho))  # type: ignore[arg-type]
    try:
        numbers = np.array(rho, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"rho must be one of {', '.join(WORDS)}, a number or an array, found {rho!r}") from None
    if numbers.shape != (layout.n_factors,) or isinstance(rho, bool):
        raise ModelError(f"rho must have one number for each of {layout.n_factors} factors, found {rho!r:.60}")
    return numbers
