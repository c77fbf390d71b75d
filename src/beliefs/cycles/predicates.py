r"""What a set of cycles is: a basis, fundamental, exact on a tree, or robust on all of them.

With :math:`\rho = |E| - |V| + k` for k components, and a set B of simple cycles [gelfand2014]:

===============  ====================================================================================================
basis            :math:`\rho` cycles, independent as vectors of edges over GF(2)
fundamental      a basis with an order in which each cycle has an edge that none before it has
tree-exact       such an order exists in which that edge is not in the tree T: the entropy of loop regions is then
                 exact on every distribution over T
tree-robust      tree-exact for every spanning tree
===============  ====================================================================================================

The first two orders are found by *peeling*: take away a cycle with an edge that no other remaining one has (and that is
not in T). Greedy is enough, since taking cycles away only makes more edges unique. A basis is tree-robust if and only
if, for every non-empty subset S, the edges in exactly one cycle of S contain a cycle. Three things shorten that search:
sets of cycles without a common edge are judged apart; independent cycles with every edge in at most two of them are
robust, as what is left of S is then its sum over GF(2); and triangles around one vertex are robust. What remains takes
2^n subsets for n cycles, and beyond :data:`MOST_CYCLES` it is not decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from beliefs.cycles.pairs import Cycle, Edge, EdgeSet, PairGraph, checked_cycles, edge_set
from beliefs.errors import BudgetError, ModelError
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.typing import VariableRef

__all__ = [
    "MOST_CYCLES",
    "independent",
    "is_basis",
    "is_fundamental",
    "is_tree_exact",
    "is_tree_robust",
    "not_peeled",
    "tree_robust",
    "unique_edges",
]

MOST_CYCLES = 16  # cycles that hang together: 65,536 subsets


def is_basis(model: Model, cycles: Iterable[Sequence[VariableRef]]) -> bool:
    """Whether the cycles are a basis of the cycle space."""
    pairs, sets = _edge_sets(model, cycles)
    return len(sets) == pairs.rank and independent(sets)


def is_fundamental(model: Model, cycles: Iterable[Sequence[VariableRef]]) -> bool:
    """Whether the cycles are a basis that can be peeled."""
    pairs, sets = _edge_sets(model, cycles)
    return len(sets) == pairs.rank and not not_peeled(sets)


def is_tree_exact(model: Model, cycles: Iterable[Sequence[VariableRef]], tree: Iterable[Sequence[VariableRef]]) -> bool:
    """Whether the cycles can be peeled by edges outside a spanning tree (a forest, of a graph that is not connected).

    Parameters
    ----------
    tree : sequence of pairs
        The edges of the tree.
    """
    pairs, sets = _edge_sets(model, cycles)
    return not not_peeled(sets, _tree_edges(model, pairs, tree))


def is_tree_robust(model: Model, cycles: Iterable[Sequence[VariableRef]]) -> bool:
    """Whether the cycles are tree-exact for every spanning tree.

    Raises
    ------
    BudgetError
        If more than 16 cycles hang together and none of the short ways decides.
    """
    given = checked_cycles(model, cycles)
    decided, _ = tree_robust(given, [edge_set(c) for c in given])
    if decided is None:
        raise BudgetError(f"whether {len(given)} cycles are tree-robust takes too many subsets; ask for fewer")
    return decided


def not_peeled(sets: Sequence[EdgeSet], tree: EdgeSet = frozenset()) -> list[int]:
    """Return the cycles that are left when no more can be peeled; none: all were."""
    holders: dict[Edge, set[int]] = {}
    for c, edges in enumerate(sets):
        for e in edges - tree:
            holders.setdefault(e, set()).add(c)
    ready = [e for e, held in holders.items() if len(held) == 1]
    left = set(range(len(sets)))
    while ready:
        held = holders[ready.pop()]
        if len(held) != 1:
            continue
        c = next(iter(held))
        left.discard(c)
        for e in sets[c] - tree:
            holders[e].discard(c)
            if len(holders[e]) == 1:
                ready.append(e)
    return sorted(left)


def independent(sets: Sequence[EdgeSet]) -> bool:
    """Whether edge sets are independent over GF(2): what can be peeled is, and the rest is eliminated."""
    pivots: dict[int, int] = {}
    number: dict[Edge, int] = {}
    for c in not_peeled(sets):
        row = sum(1 << number.setdefault(e, len(number)) for e in sets[c])
        while row:
            top = row.bit_length() - 1
            if top not in pivots:
                pivots[top] = row
                break
            row ^= pivots[top]
        if not row:
            return False
    return True


def tree_robust(cycles: Sequence[Cycle], sets: Sequence[EdgeSet]) -> tuple[bool | None, list[int]]:
    """Return whether cycles are tree-robust, and a subset that shows they are not; None where it was not decided."""
    open_question = False
    for group in _groups(sets):
        decided, witness = _group_robust([cycles[c] for c in group], [sets[c] for c in group])
        if decided is False:
            return False, [group[k] for k in witness]
        open_question |= decided is None
    return (None if open_question else True), []


def _group_robust(cycles: list[Cycle], sets: list[EdgeSet]) -> tuple[bool | None, list[int]]:
    left = not_peeled(sets)
    if left:  # every edge of these is in two or more of them
        return False, left
    if max(Counter(e for edges in sets for e in edges).values()) <= 2:
        return True, []
    if all(len(c) == 3 for c in cycles) and set.intersection(*map(set, cycles)):
        return True, []
    if len(cycles) > MOST_CYCLES:
        return None, []
    for subset in range(1, 1 << len(cycles)):
        chosen = [k for k in range(len(cycles)) if subset >> k & 1]
        if _is_forest(unique_edges([sets[k] for k in chosen])):
            return False, chosen
    return True, []


def unique_edges(sets: Iterable[EdgeSet]) -> list[Edge]:
    """Return the edges in exactly one of some cycles."""
    count = Counter(e for edges in sets for e in edges)
    return [e for e, times in count.items() if times == 1]


def _groups(sets: Sequence[EdgeSet]) -> list[list[int]]:
    """Return the cycles that hang together by common edges."""
    holders: dict[Edge, list[int]] = {}
    for c, edges in enumerate(sets):
        for e in edges:
            holders.setdefault(e, []).append(c)
    found, seen = [], [False] * len(sets)
    for first in range(len(sets)):
        if seen[first]:
            continue
        seen[first], group = True, [first]
        for c in group:  # grows while it is walked
            for other in (o for e in sets[c] for o in holders[e]):
                if not seen[other]:
                    seen[other] = True
                    group.append(other)
        found.append(sorted(group))
    return found


def _is_forest(edges: Iterable[Edge]) -> bool:
    parent: dict[int, int] = {}

    def root(v: int) -> int:
        while parent.setdefault(v, v) != v:
            parent[v] = v = parent[parent[v]]
        return v

    for u, v in edges:
        a, b = root(u), root(v)
        if a == b:
            return False
        parent[a] = b
    return True


def _edge_sets(model: Model, cycles: Iterable[Sequence[VariableRef]]) -> tuple[PairGraph, list[EdgeSet]]:
    return PairGraph.of(model), [edge_set(c) for c in checked_cycles(model, cycles)]


def _tree_edges(model: Model, pairs: PairGraph, tree: Iterable[Sequence[VariableRef]]) -> EdgeSet:
    """Return the edges of a spanning tree, checked."""
    graph = as_factor_graph(model)
    found: list[Edge] = []
    for given in tree:
        ends = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
        if len(ends) != 2:
            raise ModelError(f"a tree is a list of pairs of variables, found {given!r} in it")
        u, v = sorted(graph.index(end) for end in ends)
        if (u, v) not in pairs.number:
            raise ModelError(f"the tree is not in the graph: no factor joins {_named(graph, u)} and {_named(graph, v)}")
        found.append((u, v))
    if len(found) != pairs.n_edges - pairs.rank or not _is_forest(found):
        expected = pairs.n_edges - pairs.rank
        raise ModelError(f"a spanning tree of this graph has {expected} edges and no cycle, found {len(found)} edges")
    return frozenset(found)


def _named(graph: FactorGraph, v: int) -> str:
    return graph.naming.name(v)
