"""Cycles of pairwise models: bases to choose loop regions from, and what can be said about them.

A cycle is a tuple of variables in cyclic order; parallel factors are one edge. Builders return indices of variables,
each cycle with its smallest variable first and the smaller of that one's two neighbours second.

>>> import beliefs as bl
>>> grid = bl.datasets.make_ising_grid(3, seed=0)
>>> faces = bl.cycles.faces(grid)
>>> faces[0], bl.cycles.is_tree_robust(grid, faces)
((0, 1, 4, 3), True)
"""

from beliefs.cycles.cores import faces, star
from beliefs.cycles.ears import partially_tree_robust, random_fundamental
from beliefs.cycles.predicates import is_basis, is_fundamental, is_tree_exact, is_tree_robust

__all__ = [
    "faces",
    "is_basis",
    "is_fundamental",
    "is_tree_exact",
    "is_tree_robust",
    "partially_tree_robust",
    "random_fundamental",
    "star",
]
