"""In which order messages are sent.

A schedule is a list of passes; an iteration runs them all once. A pass is a list of factors, the axis of each that is
left out (none as a rule), and the groups of chunks that may run side by side because they share no variable.

=================  ==================================================================================================
``flooding``       all messages at once, from those of the iteration before
``sequential``     factors in the order of their variables, forward, then backward. Large models are cut into strips of
                   neighbouring variables; factors inside strips go first, strip by strip, those between strips after
                   them
``forward``        the same order without strips, forward only: every message once an iteration, as papers on learning
                   do
``color``          classes of factors that share no variable, class by class, forward, then backward
``color_or_tree``  ``tree`` on forests, else ``color``: no part of a graph is ahead of the others, so that a few sweeps
                   leave no seams, and strong couplings seldom make messages swing; what estimators use
``tree``           breadth first: from the leaves to the roots, then back. Exact on forests
``chains``         only towards later variables, then only towards earlier ones: with counting numbers from a mixture
                   of chains along which the variables' numbers grow (0.5 on a grid) this is coordinate descent on the
                   tree-reweighted bound [kolmogorov2006], [meltzer2009]
``residual``       the message that would change most first [elidan2006]; not a list of passes but a queue
=================  ==================================================================================================

The order is part of the answer of a truncated run: :attr:`Schedule.passes` records it exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.parallel import in_chunks
from beliefs.kernels.messages.traversal import factor_classes, factor_traversal
from beliefs.model.layout import Layout
from beliefs.model.pieces import pieces
from beliefs.typing import Ints

if TYPE_CHECKING:
    from beliefs.inference.messages.pairwise_edges import PairwisePlan

__all__ = [
    "SCHEDULES",
    "Derived",
    "Pass",
    "Schedule",
    "factors_breadth_first",
    "is_forest",
    "make_schedule",
    "variables_breadth_first",
]

SCHEDULES = ("auto", "flooding", "sequential", "forward", "color", "color_or_tree", "tree", "chains", "residual")

_STRIP = 256  # least variables of a strip
_WORK = 50_000  # least cells of a strip
_CHUNKS = 16  # most chunks that run side by side


@dataclass(frozen=True, eq=False)
class Pass:
    """One walk over factors; ``groups`` holds bounds into ``factors``, chunk by chunk, group after group.

    ``skip`` has the axis that each factor leaves out, or is empty. A walk the other way round keeps the forward list
    and makes its own only when it is asked for.
    """

    forward: Ints
    skip: Ints
    groups: tuple[Ints, ...]
    reverse: bool = False

    @cached_property
    def factors(self) -> Ints:
        """The factors in the order in which they send."""
        return self.forward[::-1].copy() if self.reverse else self.forward

    @property
    def size(self) -> int:
        """How many factors send."""
        return int(self.forward.size)

    def piece(self, begin: int, end: int) -> tuple[Ints, Ints]:
        """Return factors ``begin:end`` and the axes that they leave out."""
        if end - begin == self.size:
            return self.factors, self.skip
        return self.factors[begin:end], self.skip[begin:end]

    def backward(self) -> Pass:
        """The same walk the other way round."""
        turned = tuple(self.size - bounds[::-1] for bounds in self.groups[::-1])
        return Pass(self.forward, self.skip[::-1].copy(), turned, not self.reverse)


@dataclass(eq=False)
class Derived:
    """What tiers have derived from an order, so that a plan is made once."""

    pairwise: PairwisePlan | None = None


@dataclass(frozen=True, eq=False)
class Schedule:
    """What an iteration does; ``straight`` if every pass is the first one or its reverse, with nothing left out."""

    name: str
    passes: tuple[Pass, ...]
    forest: bool
    derived: Derived = field(default_factory=Derived, repr=False)

    @property
    def straight(self) -> bool:
        """Whether the passes are one order of whole factors, forward, or forward and backward."""
        return self.name in ("sequential", "forward", "color", "tree")


def is_forest(layout: Layout) -> bool:
    """Whether the factor graph has no loop."""
    if layout.n_edges >= layout.n_vars + layout.n_factors:  # a forest has fewer edges than nodes
        return False
    return layout.plan(_factor_traversal)[1]


def factors_breadth_first(layout: Layout) -> Ints:
    """Return all factors breadth first, part by part."""
    return layout.plan(_factor_traversal)[0]


def variables_breadth_first(layout: Layout) -> Ints:
    """Return all variables in the order in which :func:`factors_breadth_first` meets them; those in no factor last."""
    return layout.plan(_variable_traversal)


def make_schedule(layout: Layout, name: str, order: Any = None) -> Schedule:
    """Return the schedule of that name, kept on the layout; ``order`` lists factors for a sequential one."""
    if order is not None:
        if name not in ("auto", "sequential", "forward"):
            raise ModelError(f"order goes with schedule='sequential' or 'forward', found schedule={name!r}")
        walk = _plain(_user_order(layout, order))
        return _forward(layout, walk) if name == "forward" else _forward_backward(layout, "sequential", walk)
    if name == "auto":
        name = "tree" if is_forest(layout) else "sequential"
    if name == "color_or_tree":
        name = "tree" if is_forest(layout) else "color"
    makers = {
        "flooding": _flooding, "sequential": _sequential, "forward": _one_way, "color": _color,
        "tree": _tree, "chains": _chains, "residual": _residual,
    }  # fmt: skip
    return layout.plan(makers[name])


def _factor_traversal(layout: Layout) -> tuple[Ints, bool]:
    """Return all factors breadth first, and whether the graph is a forest."""
    order = np.empty(layout.n_factors, np.int64)
    forest = factor_traversal(
        layout.scope_ptr, layout.scope_vars, layout.var_ptr, layout.var_edges, layout.edge_factor, order
    )
    return order, bool(forest)


def _variable_traversal(layout: Layout) -> Ints:
    order = factors_breadth_first(layout)
    found, met, n_met = np.empty(layout.n_vars, np.int64), np.zeros(layout.n_vars, np.bool_), 0
    for piece in pieces(order.size):
        starts, arity = layout.scope_ptr[order[piece]], layout.arity[order[piece]]
        place = np.repeat(starts - np.cumsum(arity) + arity, arity) + np.arange(arity.sum())
        variables = layout.scope_vars[place]
        variables = variables[~met[variables]]
        new = variables[np.sort(np.unique(variables, return_index=True)[1])]
        met[new], found[n_met : n_met + new.size] = True, new
        n_met += new.size
    found[n_met:] = np.flatnonzero(~met)
    return found


def _coupling(layout: Layout) -> Ints:
    """Return the factors of two or more variables; the others send the same message always."""
    return np.flatnonzero(layout.arity >= 2)


def _reach(layout: Layout, factors: Ints) -> tuple[Ints, Ints]:
    """Return the lowest and the highest variable of each of these factors."""
    if not factors.size:
        return factors, factors
    starts = layout.scope_ptr[:-1][layout.arity > 0]
    rank = np.cumsum(layout.arity > 0) - 1
    low, high = np.minimum.reduceat(layout.scope_vars, starts), np.maximum.reduceat(layout.scope_vars, starts)
    return low[rank[factors]], high[rank[factors]]


def _plain(factors: Ints, groups: tuple[Ints, ...] | None = None) -> Pass:
    """A pass of whole factors; without groups, one after the other."""
    factors = np.ascontiguousarray(factors, np.int64)
    whole = (np.array([0, factors.size], np.int64),)
    return Pass(factors, np.zeros(0, np.int64), whole if groups is None else groups)


def _forward_backward(layout: Layout, name: str, forward: Pass) -> Schedule:
    return Schedule(name, (forward, forward.backward()), is_forest(layout))


def _forward(layout: Layout, walk: Pass) -> Schedule:
    return Schedule("forward", (walk,), is_forest(layout))


def _one_way(layout: Layout) -> Schedule:
    return _forward(layout, _in_order(layout))


def _in_order(layout: Layout) -> Pass:
    """All coupling factors by lowest, then highest variable."""
    factors = _coupling(layout)
    low, high = _reach(layout, factors)
    return _plain(factors[np.lexsort((high, low))])


def _flooding(layout: Layout) -> Schedule:
    factors = _coupling(layout)
    return Schedule("flooding", (_plain(factors, (in_chunks(factors.size, _CHUNKS),)),), is_forest(layout))


def _sequential(layout: Layout) -> Schedule:
    """Sort by lowest, then highest variable, inside strips and then between them."""
    factors = _coupling(layout)
    low, high = _reach(layout, factors)
    n_strips = max(1, min(_CHUNKS, layout.n_vars // _STRIP, int(layout.factor_size.sum()) // _WORK))
    strip = low * n_strips // max(layout.n_vars, 1)
    between = strip != high * n_strips // max(layout.n_vars, 1)
    strip = np.where(between, n_strips, strip)
    order = np.lexsort((high, low, strip))
    ends = np.searchsorted(strip[order], np.arange(n_strips + 2))
    groups = (ends[:-1], ends[-2:]) if n_strips > 1 else (ends[[0, -1]],)
    return _forward_backward(layout, "sequential", _plain(factors[order], groups))


def _color(layout: Layout) -> Schedule:
    factors = _coupling(layout)
    colour = np.empty(layout.n_factors, np.int64)
    factor_classes(layout.scope_ptr, layout.scope_vars, layout.n_vars, colour)
    low, high = _reach(layout, factors)
    order = np.lexsort((high, low, colour[factors]))
    ends = np.searchsorted(colour[factors][order], np.unique(np.append(colour[factors], -1)), side="right")
    groups = tuple(a + in_chunks(b - a, _CHUNKS) for a, b in zip(ends[:-1], ends[1:], strict=True))
    return _forward_backward(layout, "color", _plain(factors[order], groups or None))


def _tree(layout: Layout) -> Schedule:
    order = factors_breadth_first(layout)
    down = order[layout.arity[order] >= 2]
    return _forward_backward(layout, "tree", _plain(down[::-1]))


def _chains(layout: Layout) -> Schedule:
    """Forward: by lowest variable, leaving out the message to it; backward: by highest variable, likewise."""
    factors = _coupling(layout)
    low, high = _reach(layout, factors)
    up, down = np.lexsort((high, low)), np.lexsort((low, high))[::-1]
    passes = [
        Pass(factors[order], _axis(layout, factors, first)[order], (np.array([0, factors.size]),))
        for order, first in ((up, low), (down, high))
    ]
    return Schedule("chains", tuple(passes), is_forest(layout))


def _axis(layout: Layout, factors: Ints, variables: Ints) -> Ints:
    """Return at which axis of each factor its variable stands."""
    wanted = np.full(layout.n_factors, -1, np.int64)
    wanted[factors] = variables
    edges = np.flatnonzero(layout.scope_vars == wanted[layout.edge_factor])
    return np.asarray(edges - layout.scope_ptr[layout.edge_factor[edges]], np.int64)


def _residual(layout: Layout) -> Schedule:
    return Schedule("residual", (_plain(_coupling(layout)),), is_forest(layout))


def _user_order(layout: Layout, order: Any) -> Ints:
    """Check that a list of factors names each factor of two or more variables once; others are dropped."""
    try:
        listed: Ints = np.asarray(order)
    except ValueError:
        raise ModelError("order must be a list of factor indices") from None
    if listed.ndim != 1 or listed.dtype.kind not in "iu":
        raise ModelError("order must be a list of factor indices")
    if listed.size and not (0 <= listed.min() and listed.max() < layout.n_factors):
        raise ModelError(f"order names factor {listed.max() if listed.min() >= 0 else listed.min()}; "
                         f"the model has factors 0..{layout.n_factors - 1}")  # fmt: skip
    missing = np.setdiff1d(_coupling(layout), listed)
    if missing.size:
        raise ModelError(f"order leaves out factor {missing[0]}, whose messages would never be sent")
    listed = listed.astype(np.int64)
    listed = np.asarray(listed[layout.arity[listed] >= 2], np.int64)
    if listed.size > np.unique(listed).size:
        raise ModelError("order names a factor twice")
    return listed
