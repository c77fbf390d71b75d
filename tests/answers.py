"""Answers of every method to every question on every family, and of every loss, as plain numbers.

Run as a program it prints them as JSON, so that one process can be held to another: with the compiler on and off.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.inference import Task
from beliefs.learning.losses import LOSSES, make_loss
from families import FAMILIES, MACHINE_METHODS, MACHINES, evidence, family
from learning_reference import identity, labelled

Numbers = dict[str, list[float]]

N_ITERS = 3  # of iterative methods: enough to send messages that follow from messages
LEARNED = ("grid", "higher_order", "tied_tables")
PLAIN = {"composite_likelihood": "composite_likelihood(components=acyclic)"}  # the default is for grids
DOORS: dict[Task, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    Task.INFER: (bl.infer, ()),
    Task.MAXIMIZE: (bl.maximize, ()),
    Task.MARGINAL_MAP: (bl.marginal_map, ([0],)),
    Task.SAMPLE: (bl.sample, (3,)),
}


def plain(result: Any) -> list[float]:
    """The numbers of a result: values first, then marginals or draws; of a decoding its value and bounds alone."""
    if isinstance(result, bl.InferenceResult):
        return [result.log_z, result.log_lower, result.log_upper, *result.mu_var, *result.mu]
    if isinstance(result, bl.SampleResult):
        return [float(x) for x in result.samples.ravel()]
    value = result.log_score if isinstance(result, bl.MapResult) else result.log_value
    return [value, result.log_upper]


def of_methods() -> Numbers:
    """What every method answers on every family, with evidence on one variable where there are more."""
    found: Numbers = {}
    for name in FAMILIES:
        graph = family(name).condition(evidence(name, 1) if family(name).n_vars > 3 else {})
        for cls in (cls for cls in bl.METHODS if cls.general):
            for task in cls.tasks:
                door, args = DOORS[task]
                query = ([int(np.flatnonzero(~graph.layout.observed)[0])],) if task is Task.MARGINAL_MAP else args
                found[f"{cls.name} {task.value} {name}"] = plain(door(graph, *query, method=cls(), max_iters=N_ITERS))
    return found


def of_machines() -> Numbers:
    """What the forms for Boltzmann machines answer."""
    found: Numbers = {}
    for name, make in MACHINES.items():
        for text in MACHINE_METHODS:
            if name != "fractional" or not text.startswith(("bp", "mean_field")):
                result = bl.infer(make(), text, max_iters=2)
                found[f"{text} {name}"] = [result.log_z, *result.mu_var, *result.pairs.ravel()]
        found[f"sample {name}"] = plain(bl.sample(make(), 3, "gibbs(burn_in=2)"))
    return found


def of_losses() -> Numbers:
    """Every loss and its gradient where the weights are the log potentials."""
    found: Numbers = {}
    for name in LEARNED:
        graph = family(name)
        for cls in LOSSES:
            parts: dict[str, Any] = {"template": identity(graph.layout.n_cells), "method": bl.TRW(), "n_sweeps": 2}
            loss = make_loss(PLAIN.get(cls.name, cls.name), **parts)
            if name == "grid" or cls.name != "patch_pseudo_likelihood":
                value, grad = loss.value_and_grad(graph.theta, [labelled(graph)])
                found[f"{cls.name} {name}"] = [value, *grad]
    return found


def answers() -> Numbers:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        return {**of_methods(), **of_machines(), **of_losses()}


if __name__ == "__main__":
    print(json.dumps(answers()))
