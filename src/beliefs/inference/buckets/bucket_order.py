r"""Which elimination order suits a mini-bucket tree: the one whose bound is smaller before any step is taken.

An order of small width is best where the i-bound comes near to the width. With a small i-bound buckets are split
anyway, and then what counts is into how many parts: a variable with many *later* neighbours divides its temperature
among many replicas. An order in which every variable has few later neighbours (a degeneracy order [matula1983]) is much
better there: on a grid two later neighbours instead of up to four.

So two orders are tried, each with one pass of uniform weights, and the better bound decides. Cost: a second partition
and two passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beliefs.inference.base import Problem
from beliefs.inference.buckets.bucket_run import BucketRun, uniform_weights
from beliefs.inference.buckets.bucket_tree import BucketTree, bucket_tree
from beliefs.inference.chosen_order import chosen_order
from beliefs.inference.orders import Order, degeneracy_plan
from beliefs.typing import Floats

__all__ = ["few_later_neighbours", "ordered_tree"]


def ordered_tree(
    problem: Problem, order: str | Sequence[Any], ibound: int | None, tau: Floats, method: str
) -> BucketTree:
    """Return the tree of a given order; for ``"auto"``, the better of two orders by their first bounds."""
    chosen = chosen_order(problem, order)
    tree = bucket_tree(problem, chosen, ibound, method)
    if not (isinstance(order, str) and order == "auto") or not tree.buckets.split:
        return tree
    other = bucket_tree(problem, few_later_neighbours(problem), ibound, method)
    bounds = [BucketRun(problem, plan, tau, uniform_weights(plan, tau)).forward() for plan in (tree, other)]
    return other if bounds[1] < bounds[0] else tree


def few_later_neighbours(problem: Problem) -> Order:
    """Return a degeneracy order, sum variables before max variables, kept on the layout."""
    layout = problem.graph.layout
    stage = np.where(layout.observed | (np.diff(layout.var_ptr) == 0), -1, 0)
    if 0 < problem.query.size:
        stage[problem.query] = np.where(stage[problem.query] < 0, -1, 1)
    scopes = layout.card, layout.scope_ptr, layout.scope_vars
    return layout.plan(("degeneracy", stage.tobytes()), lambda: degeneracy_plan(*scopes, stage))
