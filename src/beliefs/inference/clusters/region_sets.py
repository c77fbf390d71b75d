"""Sets of variables ordered by inclusion: maximal ones, intersections, who covers whom, counting numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np

from beliefs.deadline import check_time
from beliefs.typing import Floats

__all__ = ["Edges", "Region", "closed", "counting_numbers", "covering", "holders", "maximal", "supersets"]

Region = tuple[int, ...]
Edges = Sequence[tuple[int, int]]


def maximal(regions: Sequence[Region]) -> list[Region]:
    """Return the non-empty regions that no other contains, in their order; of equal ones the first."""
    sets = [frozenset(region) for region in regions]
    around = holders(regions)
    found = []
    for k, region in enumerate(regions):
        if not region:
            continue
        check_time()
        rarest = min((around[v] for v in region), key=len)
        if not any(sets[k] < sets[j] or (sets[k] == sets[j] and j < k) for j in rarest if j != k):
            found.append(region)
    return found


def closed(regions: Sequence[Region], most: float = inf) -> list[Region] | None:
    """Return the regions and all non-empty intersections, larger first, these by their sorted variables.

    None: they are more than ``most``.
    """
    known = {frozenset(region) for region in regions}
    holders: dict[int, list[frozenset[int]]] = {}
    for region in regions:
        for v in region:
            holders.setdefault(v, []).append(frozenset(region))
    inner: set[frozenset[int]] = set()
    todo = list(known)
    while todo:
        check_time()
        one = todo.pop()
        if len(known) > most:
            return None
        near = {other for v in one for other in holders[v]}
        for common in {one & other for other in near} - known:
            known.add(common)
            inner.add(common)
            todo.append(common)
            for v in common:
                holders[v].append(common)
    return [*regions, *sorted((tuple(sorted(region)) for region in inner), key=lambda s: (-len(s), s))]


def covering(regions: Sequence[Region]) -> list[tuple[int, int]]:
    """Return (parent, child): a parent strictly contains its child, with no region in between."""
    sets = [frozenset(region) for region in regions]
    edges = []
    for child, above in enumerate(supersets(regions)):
        edges += [(p, child) for p in above if not any(sets[q] < sets[p] for q in above)]
    return edges


def supersets(regions: Sequence[Region]) -> Iterator[list[int]]:
    """Yield for each region those that strictly contain it."""
    sets = [frozenset(region) for region in regions]
    around = holders(regions)
    for region, own in zip(regions, sets, strict=True):
        check_time()
        rarest = min((around[v] for v in region), key=len)
        yield [k for k in rarest if own < sets[k]]


def counting_numbers(regions: Sequence[Region]) -> Floats:
    """Return one minus the sum over all regions that strictly contain it, from the top down."""
    above = list(supersets(regions))
    counting = np.zeros(len(regions))
    for k in sorted(range(len(regions)), key=lambda k: -len(regions[k])):
        counting[k] = 1.0 - counting[above[k]].sum()
    return counting


def holders(regions: Sequence[Region]) -> dict[int, list[int]]:
    """Return the regions with each variable."""
    found: dict[int, list[int]] = {}
    for k, region in enumerate(regions):
        for v in region:
            found.setdefault(v, []).append(k)
    return found
