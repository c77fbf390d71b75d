"""Disjoint sets: ``leader[v]`` is a member of the set of ``v``, and points to itself if it represents the set.

Two sets become one where one representative's leader is set to the other.
"""

from __future__ import annotations

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Ints

__all__ = ["find"]


@twofold_kernel
def find(leader: Ints, v: int) -> int:
    """Return the representative of the set of ``v``, halving the path to it.

    Equivalent to ``while leader[v] != v: v = leader[v]``. ``leader (n,)`` changes, what it represents does not.
    Cost: nearly constant, averaged over many calls.
    """
    while leader[v] != v:
        leader[v] = leader[leader[v]]
        v = leader[v]
    return v
