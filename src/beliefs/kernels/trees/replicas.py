"""Which clusters of a mini-bucket tree are replicas of one variable: they lie together."""

from __future__ import annotations

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.trees.blocks import Tree

__all__ = ["end_of_replicas"]


@twofold_kernel
def end_of_replicas(tree: Tree, c: int) -> int:
    """Return the first cluster after those that eliminate the variable of cluster ``c`` and follow it. Cost: these."""
    end, variable = c + 1, tree.axes_var[tree.axes_ptr[c]]
    while end < tree.block.size and tree.axes_var[tree.axes_ptr[end]] == variable:
        end += 1
    return end
