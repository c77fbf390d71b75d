r"""Criteria for choosing regions, predicates with a witness where they fail [yedidia2005, welling2005, gelfand2014].

====================  ==============================================================================================
connected             the regions with a variable hang together, for every variable
totally_connected     the same for every set inside an outer region
balanced              the counting numbers of the regions with a variable add up to 1
totally_balanced      the same for every set inside an outer region
unity                 all counting numbers add up to 1
maxent_normal         no beliefs that agree have a larger Kikuchi entropy than uniform ones
non_singular          with constant factors, uniform beliefs are the only fixed point
tree_robust           the entropy is exact for every distribution over a spanning tree (loops only)
====================  ==============================================================================================

The regions around a set are those around the smallest intersection of regions that contains it, so the two total
criteria look at intersections only. Loops are non-singular if and only if they can be peeled (Theorem C.3). In general,
negative counting numbers that positive ones above them can pay for make the entropy concave [heskes2006], which a
linear program decides; and regions of one variable below outer ones are fine if they are balanced, as relative
entropies add up. The entropy of two joint states of equal probability refutes. What these do not decide is None, and so
are searches that grow beyond a fixed number of sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from beliefs.cycles.pairs import Edge, PairGraph, edge_set
from beliefs.cycles.predicates import not_peeled, tree_robust, unique_edges
from beliefs.inference.clusters.concave_entropy import is_concave
from beliefs.inference.clusters.region_sets import Region, closed
from beliefs.model.layout import Layout
from beliefs.typing import Bools, Floats, Ints

__all__ = ["Criteria", "criteria"]

_CLOSE = 1e-9  # counting numbers that are given may be sums of fractions
_MOST_SETS = 20_000  # intersections that are looked at


class Criteria(Mapping[str, bool | None]):
    """The names of the criteria with True, False or None (undecided); ``witness[name]`` for what is False."""

    def __init__(self, holds: dict[str, bool | None], witness: dict[str, Any]) -> None:
        self._holds, self.witness = holds, witness

    def __getitem__(self, name: str) -> bool | None:
        return self._holds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._holds)

    def __len__(self) -> int:
        return len(self._holds)

    def __repr__(self) -> str:
        return f"Criteria({', '.join(f'{name}={value}' for name, value in self._holds.items())})"


def criteria(layout: Layout, scopes: Sequence[Region], counting: Floats, edges: Ints, is_loop: Bools) -> Criteria:
    """Judge a region graph by all criteria; see the module."""
    hidden = np.flatnonzero(~layout.observed).tolist()
    judge = _Judge(layout, [frozenset(scope) for scope in scopes], scopes, counting, edges, is_loop)
    singles = [frozenset([v]) for v in hidden]
    sets = judge.intersections()
    judge.say("connected", judge.first(singles, judge.hangs_together))
    judge.say("totally_connected", judge.first(sets, judge.hangs_together))
    judge.say("balanced", judge.first(singles, judge.adds_up))
    judge.say("totally_balanced", judge.first(sets, judge.adds_up))
    total = float(counting.sum())
    judge.say("unity", (abs(total - 1.0) < _CLOSE, total))
    judge.entropies()
    judge.trees()
    return Criteria(judge.holds, judge.witness)


Verdict = tuple[bool | None, Any]


class _Judge:
    """A region graph, and what has been found out about it."""

    def __init__(
        self, layout: Layout, sets: list[frozenset[int]], scopes: Sequence[Region], counting: Floats, edges: Ints,
        is_loop: Bools,
    ) -> None:  # fmt: skip
        self.layout, self.sets, self.scopes, self.counting = layout, sets, scopes, counting
        self.edges, self.is_loop = edges, is_loop
        self.holds: dict[str, bool | None] = {}
        self.witness: dict[str, Any] = {}
        self.children: list[list[int]] = [[] for _ in scopes]
        for parent, child in edges.tolist():
            self.children[parent].append(child)
        self.around: dict[int, list[int]] = {}
        for r, scope in enumerate(scopes):
            for v in scope:
                self.around.setdefault(v, []).append(r)

    def say(self, name: str, verdict: Verdict) -> None:
        """Note whether a criterion holds, and the witness if it does not."""
        self.holds[name] = verdict[0]
        if verdict[0] is False:
            self.witness[name] = verdict[1]

    # -- connectedness and balance ----------------------------------------------------------------------------------
    def intersections(self) -> list[frozenset[int]] | None:
        """Return all regions and intersections of regions as sets; None if they are too many."""
        distinct = list(dict.fromkeys(tuple(sorted(s)) for s in self.sets))
        found = closed(distinct, _MOST_SETS)
        return None if found is None else [frozenset(s) for s in found]

    def regions_with(self, inside: frozenset[int]) -> list[int]:
        """Return the regions that contain a set."""
        rarest = min((self.around.get(v, []) for v in inside), key=len)
        return [r for r in rarest if inside <= self.sets[r]]

    def first(self, sets: list[frozenset[int]] | None, holds: Any) -> Verdict:
        """Return whether a predicate of a set's regions holds for all sets, and the first for which it does not."""
        if sets is None:
            return None, None
        bad = next((s for s in sets if not holds(self.regions_with(s))), None)
        return bad is None, None if bad is None else tuple(sorted(bad))

    def hangs_together(self, regions: list[int]) -> bool:
        """Whether regions are connected among themselves."""
        inside, joined = set(regions), {r: r for r in regions}

        def root(r: int) -> int:
            while joined[r] != r:
                joined[r] = r = joined[joined[r]]
            return r

        for r in regions:
            for child in self.children[r]:
                if child in inside:
                    joined[root(r)] = root(child)
        return len({root(r) for r in regions}) == 1

    def adds_up(self, regions: list[int]) -> bool:
        """Whether counting numbers add up to one."""
        return abs(float(self.counting[regions].sum()) - 1.0) < _CLOSE

    # -- entropies --------------------------------------------------------------------------------------------------
    def entropies(self) -> None:
        """Decide whether uniform beliefs are the only maximum, or the only fixed point."""
        loops = [scope for scope, loop in zip(self.scopes, self.is_loop, strict=True) if loop]
        left = not_peeled([edge_set(loop) for loop in loops])
        if left:
            singular: Verdict = (False, tuple(loops[k] for k in left))
        elif self.structured() or self.singles_below() or self.concave():
            singular = (True, None)
        else:
            singular = (None, None)
        shown = self.two_states()
        if shown is not None:
            self.say("maxent_normal", (False, shown))
            self.say("non_singular", (False, shown) if singular[0] is not False else singular)
            return
        self.say("maxent_normal", (True, None) if singular[0] or self.concave() else (None, None))
        self.say("non_singular", singular)

    def structured(self) -> bool:
        """Whether all regions are loops, edges and vertices with the counting numbers of loop regions."""
        small = all(loop or len(scope) < 3 for scope, loop in zip(self.scopes, self.is_loop, strict=True))
        return small and bool(self.is_loop.any()) and self.holds["balanced"] is True

    def singles_below(self) -> bool:
        """Whether all but outer regions are single variables, and balanced."""
        inner = np.unique(self.edges[:, 1]).tolist()
        tops = np.delete(self.counting, inner)
        return (
            all(len(self.scopes[r]) == 1 for r in inner) and bool((tops > 0).all()) and self.holds["balanced"] is True
        )

    def concave(self) -> bool:
        """Whether positive counting numbers can pay for negative ones below them."""
        if not hasattr(self, "_concave"):
            self._concave = is_concave(self.counting, self.edges)
        return self._concave

    def two_states(self) -> Region | None:
        """Return variables whose two joint states of equal probability have more entropy than uniform beliefs."""
        several = [v for v in self.around if self.layout.card[v] > 1]
        reached = [r for r, scope in enumerate(self.scopes) if any(self.layout.card[v] > 1 for v in scope)]
        uniform = sum(float(self.counting[self.around[v]].sum()) * np.log(self.layout.card[v]) for v in several)
        paired = float(self.counting[reached].sum()) * np.log(2.0)
        return tuple(sorted(several)) if paired > uniform + _CLOSE else None

    # -- trees ------------------------------------------------------------------------------------------------------
    def trees(self) -> None:
        """Decide whether loops are tree-robust; the witness is a spanning tree on which the entropy is wrong."""
        if any(not loop and len(scope) > 2 for scope, loop in zip(self.scopes, self.is_loop, strict=True)):
            self.say("tree_robust", (None, None))
            return
        pairs = PairGraph.of_layout(self.layout)
        loops = [scope for scope, loop in zip(self.scopes, self.is_loop, strict=True) if loop]
        sets = [edge_set(loop) for loop in loops]
        robust, subset = tree_robust(loops, sets)
        if robust is False or len(loops) != pairs.rank:
            unique = unique_edges([sets[k] for k in subset])
            self.say("tree_robust", (False, _spanning_tree(pairs, unique)))
        else:
            self.say("tree_robust", (robust, None))


def _spanning_tree(pairs: PairGraph, first: list[Edge]) -> tuple[Edge, ...]:
    """Return a spanning tree, or forest, that contains the edges of a forest."""
    joined = list(range(pairs.n_vars))

    def root(v: int) -> int:
        while joined[v] != v:
            joined[v] = v = joined[joined[v]]
        return v

    tree = []
    for u, v in [*first, *map(tuple, pairs.edges.tolist())]:
        if root(u) != root(v):
            joined[root(u)] = root(v)
            tree.append((u, v))
    return tuple(sorted(tree))
