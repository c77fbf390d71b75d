r"""Which elimination order suits a mini-bucket tree: the one whose bound is smaller before any step is taken.

An order of small width is best where the i-bound comes near to the width. With a small i-bound buckets are split
anyway, and then what counts is into how many parts: a variable with many *later* neighbours divides its temperature
among many replicas. An order in which every variable has few later neighbours (a degeneracy order [matula1983]) is much
better there: on a grid two later neighbours instead of up to four.

So two orders are tried, each with one pass of uniform weights, and the better bound decides. Cost: a second partition
and two passes. A second order that takes more memory than the first is not tried, unless both take little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beliefs.inference.base import Problem
from beliefs.inference.buckets.bucket_run import BucketRun, uniform_weights
from beliefs.inference.buckets.bucket_tree import BucketTree, bucket_tree, default_ibound, plan_bytes, predicted_bytes
from beliefs.inference.clusters.partition import partition
from beliefs.inference.orders.chosen import chosen_order
from beliefs.inference.orders.orders import Order
from beliefs.inference.orders.planned import degeneracy_of
from beliefs.typing import Floats

__all__ = ["few_later_neighbours", "ordered_tree"]

_LITTLE = 2.0**25  # bytes


def ordered_tree(
    problem: Problem, order: str | Sequence[Any], ibound: int | None, tau: Floats, method: str, n_arrays: int = 3
) -> BucketTree:
    """Return the tree of a given order; for ``"auto"``, the better of two orders by their first bounds."""
    chosen = chosen_order(problem, order)
    tree = bucket_tree(problem, chosen, ibound, method, n_arrays=n_arrays)
    if not (isinstance(order, str) and order == "auto") or not tree.buckets.split:
        return tree
    second = few_later_neighbours(problem)
    if not _affordable(problem, tree, second, ibound):
        return tree
    other = bucket_tree(problem, second, ibound, method, n_arrays=n_arrays)
    bounds = [BucketRun(problem, plan, tau, uniform_weights(plan, tau)).forward() for plan in (tree, other)]
    return other if bounds[1] < bounds[0] else tree


def _affordable(problem: Problem, tree: BucketTree, second: Order, ibound: int | None) -> bool:
    """Tell whether a second order takes no more memory than the first, or little, and fits beside its plan."""
    layout = problem.graph.layout
    buckets = layout.plan(partition, second, default_ibound(problem, second) if ibound is None else ibound)
    needed, most = predicted_bytes(buckets, layout), max(predicted_bytes(tree.buckets, layout), _LITTLE)
    return needed <= min(most, problem.max_bytes - plan_bytes(tree.buckets, layout))


def few_later_neighbours(problem: Problem) -> Order:
    """Return a degeneracy order, sum variables before max variables, kept on the layout."""
    layout = problem.graph.layout
    stage = np.where(layout.observed | (layout.degree == 0), -1, 0)
    if 0 < problem.query.size:
        stage[problem.query] = np.where(stage[problem.query] < 0, -1, 1)
    return layout.plan(degeneracy_of, stage)
