"""Which regions a method takes: a word, or a region graph of the user's own; and in which order messages are sent."""

from __future__ import annotations

import numpy as np

from beliefs.cycles.cores import faces, star
from beliefs.cycles.ears import partially_tree_robust
from beliefs.errors import ModelError
from beliefs.inference.base import Problem
from beliefs.inference.clusters.region_graph import RegionGraph
from beliefs.inference.clusters.region_order import depth_first, top_down
from beliefs.inference.regions.plan import RegionPlan, check_plan, region_plan
from beliefs.model.graph import FactorGraph
from beliefs.model.layout import Layout
from beliefs.options import check_option
from beliefs.typing import Ints

__all__ = ["REGIONS", "SCHEDULES", "check_regions", "chosen_plan", "message_order"]

REGIONS = ("auto", "bethe", "cvm", "faces", "star", "loops")
SCHEDULES = ("auto", "depth_first", "two_way", "levels")
_MOST_PATHS = 50  # messages for an edge, at most, that going depth first may send in a sweep


def check_regions(regions: object) -> None:
    """Refuse what is neither a word nor a RegionGraph."""
    known = isinstance(regions, RegionGraph) or (isinstance(regions, str) and regions in REGIONS)
    check_option(known, "regions", f"one of {', '.join(REGIONS)} or a RegionGraph", regions)


def chosen_plan(problem: Problem, regions: str | RegionGraph, method: str, dual: bool = False) -> RegionPlan:
    """Return the plan of the regions, for messages or dual block descent; it is kept on the layout.

    Raises
    ------
    ModelError
        For regions of another layout, and for loops where a factor has more than two variables.
    BudgetError
        If their tables do not fit.
    """
    layout = problem.graph.layout
    if isinstance(regions, RegionGraph):
        if not regions.layout.equals(layout):
            raise ModelError("the regions are those of a model with other factors or evidence; make them for this one")
        chosen = regions
    else:
        chosen = layout.keep((chosen_plan, regions), lambda: _made(problem.graph, regions))
    plan = layout.keep((chosen_plan, id(chosen)), lambda: region_plan(problem, chosen, method, dual))
    check_plan(problem, plan, method, dual)
    return plan


def _made(graph: FactorGraph, word: str) -> RegionGraph:
    layout: Layout = graph.layout
    if word == "bethe":
        return RegionGraph.bethe(graph)
    if word == "cvm" or (word == "auto" and not layout.is_pairwise):
        return RegionGraph.cvm(graph, [])
    cycles = faces(graph) if word == "faces" else star(graph) if word == "star" else partially_tree_robust(graph)
    return RegionGraph.loops(graph, cycles)


def message_order(regions: RegionGraph, schedule: str) -> Ints:
    """Return the edges in the order of one sweep.

    ``depth_first``: from each outer region to each of its children, and at once on from there to the bottom.
    ``levels``: all messages of parents before those of their children. ``two_way``: the same, and backwards.
    """
    edges, n_regions = regions.edges, regions.n_regions
    place = np.empty(n_regions, np.int64)
    place[top_down(n_regions, edges)] = np.arange(n_regions)
    levels = np.argsort(place[edges[:, 0]], kind="stable")
    if schedule == "levels":
        return levels
    if schedule == "two_way":
        return np.concatenate([levels, levels[::-1]])
    order = depth_first(n_regions, edges, _MOST_PATHS * edges.shape[0])
    return levels if order is None else order
