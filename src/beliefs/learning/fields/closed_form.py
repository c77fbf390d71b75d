r"""Decomposable fields in closed form: frequencies of cliques over frequencies of separators.

.. math:: \log p(x) = \sum_C \log \hat p(x_C) - \sum_S \log \hat p(x_S)

holds for the maximum-likelihood field when the scopes have a junction tree: the graph is chordal and every maximal
clique is the scope of a factor [lauritzen1988]. Scopes have one exactly if a spanning tree of largest total
intersection has the sum of the scopes' sizes less the number of variables [bernstein1981].

Guarantee: the maximum, exactly; cells that never occur have potential zero (``-inf``).
Failure: a field that is not decomposable, with a cycle or the clique whose table is missing.
"""

from __future__ import annotations

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.networks.structure import Structure
from beliefs.learning.networks.trees import spanning_tree
from beliefs.typing import Floats, Ints

__all__ = ["closed_form", "why_not_decomposable"]


def _maximal(structure: Structure) -> list[int]:
    """Return the factors whose scopes are in no other's, the first of equal ones."""
    layout = structure.layout
    scopes = [frozenset(layout.scope(f).tolist()) for f in range(layout.n_factors)]
    order = sorted(range(len(scopes)), key=lambda f: -len(scopes[f]))
    kept: list[int] = []
    holders: dict[int, list[int]] = {}
    for f in order:
        first = next(iter(scopes[f]), None)
        if first is not None and any(scopes[f] <= scopes[g] for g in holders.get(first, [])):
            continue
        kept.append(f)
        for v in scopes[f]:
            holders.setdefault(v, []).append(f)
    return sorted(kept)


def _junction_tree(structure: Structure) -> tuple[list[int], Ints] | None:
    """Return the maximal scopes and their parents in a junction tree, or None if they have none."""
    kept = _maximal(structure)
    member = np.zeros((len(kept), structure.n_vars))
    for k, f in enumerate(kept):
        member[k, structure.layout.scope(f)] = 1.0
    shared = member @ member.T
    parent = spanning_tree(shared, 0)
    weight = sum(shared[k, p] for k, p in enumerate(parent) if p >= 0)
    covered = (member.sum(axis=0) > 0).sum()
    return (kept, parent) if weight == member.sum() - covered else None


def why_not_decomposable(structure: Structure) -> str:
    """Return why there is no closed form, or nothing if there is one."""
    layout, naming = structure.layout, structure.naming
    if layout.tied:
        return "tables are tied"
    if _junction_tree(structure) is not None:
        return ""
    neighbours: list[set[int]] = [set() for _ in range(layout.n_vars)]
    for f in range(layout.n_factors):
        for v in layout.scope(f).tolist():
            neighbours[v] |= set(layout.scope(f).tolist()) - {v}
    cycle = _chordless_cycle(neighbours)
    if cycle:
        return f"the cycle {' - '.join(naming.name(v) for v in [*cycle, cycle[0]])} has no chord"
    clique = _missing_clique(structure, neighbours)
    return f"no factor has the scope ({', '.join(naming.name(v) for v in clique)}), which is a clique"


def _chordless_cycle(neighbours: list[set[int]]) -> list[int]:
    """Return a cycle of at least four vertices without a chord, or nothing."""
    for v, around in enumerate(neighbours):
        for a in sorted(around):
            for b in sorted(around):
                if a < b and b not in neighbours[a]:
                    blocked = (around | {v}) - {a, b}
                    path = _path(neighbours, a, b, blocked)
                    if path:
                        return [v, *path]
    return []


def _path(neighbours: list[set[int]], start: int, end: int, blocked: set[int]) -> list[int]:
    """Return a shortest path that avoids some vertices, which therefore has no chord."""
    before = {start: start}
    waiting = [start]
    for u in waiting:
        for w in sorted(neighbours[u] - blocked):
            if w not in before:
                before[w] = u
                waiting.append(w)
    if end not in before:
        return []
    path = [end]
    while path[-1] != start:
        path.append(before[path[-1]])
    return path


def _missing_clique(structure: Structure, neighbours: list[set[int]]) -> list[int]:
    """Return a maximal clique of a chordal graph that is no factor's scope (by maximum cardinality search)."""
    layout = structure.layout
    scopes = [set(layout.scope(f).tolist()) for f in range(layout.n_factors)]
    seen: list[int] = []
    while len(seen) < layout.n_vars:
        rest = [v for v in range(layout.n_vars) if v not in seen]
        v = max(rest, key=lambda u: len(neighbours[u] & set(seen)))
        clique = (neighbours[v] & set(seen)) | {v}
        if not any(clique <= scope for scope in scopes):
            return sorted(clique)
        seen.append(v)
    return seen


def closed_form(structure: Structure, frequencies: Floats) -> Floats:
    """Return the log potentials of the maximum-likelihood field: separators are taken off their child cliques."""
    reason = why_not_decomposable(structure)
    if reason:
        raise ModelError(f"the field has no closed form: {reason}; use method='ipf' or 'likelihood'")
    layout, theta = structure.layout, np.zeros(structure.layout.n_cells)
    found = _junction_tree(structure)
    assert found is not None
    kept, parent = found
    with np.errstate(divide="ignore"):
        for k, f in enumerate(kept):
            scope = layout.scope(f).tolist()
            joint = frequencies[layout.cells(f)].reshape(layout.shape(f))
            above = set(layout.scope(kept[parent[k]]).tolist()) if parent[k] >= 0 else set()
            axes = tuple(a for a, v in enumerate(scope) if v not in above)
            separator = joint.sum(axis=axes, keepdims=True) if parent[k] >= 0 else np.ones([1] * joint.ndim)
            logs = np.log(joint) - np.log(np.where(separator > 0, separator, 1.0))
            theta[layout.cells(f)] = logs.ravel()
    return theta
