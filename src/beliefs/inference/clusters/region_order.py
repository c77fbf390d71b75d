"""The order of regions from parents to children, as arrays: generations, all that is above, walks to the bottom."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beliefs.model.layout import offsets
from beliefs.model.scopes import within
from beliefs.typing import Floats, Ints

__all__ = ["above", "depth_first", "generations", "top_down"]


def _leaving(n_regions: int, edges: Ints) -> tuple[Ints, Ints]:
    """Return the edges by parent, in their order, as offsets and positions."""
    order = np.argsort(edges[:, 0], kind="stable")
    return offsets(np.bincount(edges[:, 0], minlength=n_regions)), order


def generations(n_regions: int, edges: Ints) -> Iterator[Ints]:
    """Yield the regions without parents, then those all of whose parents came before, and so on.

    Within a generation: by the place of the last parent, then by number.
    """
    ptr, order = _leaving(n_regions, edges)
    waiting = np.bincount(edges[:, 1], minlength=n_regions)
    now = np.flatnonzero(waiting == 0)
    while now.size:
        yield now
        below = edges[order[within(ptr[now], np.diff(ptr)[now])], 1]
        np.subtract.at(waiting, below, 1)
        done, last = np.unique(below[::-1], return_index=True)
        ready = waiting[done] == 0
        now = done[ready][np.lexsort((done[ready], -last[ready]))]


def top_down(n_regions: int, edges: Ints) -> Ints:
    """Return the regions, parents before children."""
    return np.concatenate([np.zeros(0, np.int64), *generations(n_regions, edges)])


def above(n_regions: int, edges: Ints) -> tuple[Ints, Ints]:
    """Return each region together with all above it, ascending, as offsets and regions.

    Cost: sorting what is returned, once a path between two generations.
    """
    start, length = np.zeros(n_regions, np.int64), np.zeros(n_regions, np.int64)
    found, n_found = [np.zeros(0, np.int64)], 0
    order = np.argsort(edges[:, 1], kind="stable")
    ptr = offsets(np.bincount(edges[:, 1], minlength=n_regions))
    parents = edges[order, 0]
    for regions in generations(n_regions, edges):
        n_parents = np.diff(ptr)[regions]
        up = parents[within(ptr[regions], n_parents)]
        child = np.repeat(regions, n_parents)
        known = np.concatenate(found) if len(found) > 1 else found[0]
        found = [known]
        pairs = np.repeat(child, length[up]) * n_regions + known[within(start[up], length[up])]
        pairs = np.sort(np.concatenate([pairs, regions * n_regions + regions]))
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        owner, own = np.divmod(pairs, n_regions)
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        start[owner[first]], length[owner[first]] = n_found + first, np.diff(first, append=own.size)
        n_found += own.size
        found.append(own)
    known = np.concatenate(found)
    return offsets(length), known[within(start, length)]


def depth_first(n_regions: int, edges: Ints, most: float) -> Ints | None:
    """Return the edges from each region without parents to each of its children, and at once on to the bottom.

    None where they are more than ``most``: an edge comes once a path that leads to it.
    """
    ptr, order = _leaving(n_regions, edges)
    walk: Floats = np.zeros(n_regions)  # edges of all walks from a region
    steps = list(generations(n_regions, edges))
    for regions in steps[::-1]:
        leaving = order[within(ptr[regions], np.diff(ptr)[regions])]
        owner = np.repeat(np.arange(regions.size), np.diff(ptr)[regions])
        walk[regions] = np.bincount(owner, 1.0 + walk[edges[leaving, 1]], regions.size)
    tops = steps[0] if steps else np.zeros(0, np.int64)
    if walk[tops].sum() > most:
        return None
    length = (1.0 + walk[edges[:, 1]]).astype(np.int64)
    found = np.zeros(int(walk[tops].sum()), np.int64)
    region, place = tops, offsets(walk[tops].astype(np.int64))[:-1]
    while region.size:
        counts = np.diff(ptr)[region]
        edge = order[within(ptr[region], counts)]
        run = offsets(length[edge])[:-1]
        first = offsets(counts)[:-1]
        base = np.repeat(run[first[counts > 0]], counts[counts > 0])
        place = np.repeat(place, counts) + run - base
        found[place] = edge
        region, place = edges[edge, 1], place + 1
    return found
