"""A walk through every door with every mix of arrays that users can bring about, to see what gets compiled.

Run as a program it prints, as JSON, the kernels that have more than one signature: each one is seconds of compilation
that a user would wait for twice. Signatures that differ only in Numba's literal types count as one.
"""

from __future__ import annotations

import json
import re
import warnings
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.cli.warmup_learning import learning_jobs
from beliefs.kernels._jit import Twofold, kernels
from beliefs.learning import Instance
from beliefs.learning.losses import LOSSES, make_loss
from families import MACHINE_METHODS, MACHINES, evidence, family, sprinkler
from learning_reference import identity

FAMILIES = ["grid", "higher_order", "tied_tables", "isolated_variables", "hard_zeros", "huge_range", "no_factors"]
QUESTIONS: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (bl.infer, ()),
    (bl.maximize, ()),
    (bl.marginal_map, ([0],)),
    (bl.sample, (3,)),
)


def variants(name: str) -> list[bl.FactorGraph]:
    """One model with its arrays made in every way there is."""
    graph = family(name)
    return [
        graph,
        graph.condition(evidence(name, 1)),
        graph.with_theta(np.array(graph.theta)),
        graph.with_theta(list(graph.theta)),
        graph.condition({}).condition({}),
        graph.with_likelihood({0: np.ones(int(graph.layout.card[0]))}),
        family("single_variable").union(graph),
    ]


def ask_everything(graph: bl.FactorGraph) -> None:
    for cls in bl.METHODS:
        for door, args in QUESTIONS:
            if cls.general and bl.inference.Task(door.__name__) in cls.tasks:
                result = door(graph, *args, method=cls())
                door(graph, *args, method=cls(), init=result, seed=np.int64(3), threads=1)
    bl.infer(graph).marginal([0, graph.n_vars - 1])
    graph.log_scores(np.zeros((2, graph.n_vars), np.int32)[:, ::-1])


def tour() -> None:
    """Ask everything of everything."""
    for name in FAMILIES:
        for graph in variants(name):
            ask_everything(graph)
        n = family(name).n_vars
        bl.infer(family(name), bl.Elimination(order=np.arange(n)[::-1], tau=[0.5] * n))  # type: ignore[arg-type]
        bl.infer(family(name), bl.Elimination(order=list(range(n)), tau=np.ones(n, np.float32)))
        bl.infer(family(name), bl.JunctionTree(order="min_fill", restarts=2))
    network = sprinkler()
    network.sample(5, seed=np.random.default_rng(1))
    for cls in (cls for cls in bl.methods(task="infer") if cls.general):
        bl.infer(network.condition({"Cloudy": 0}), cls(), targets=["Rain"])
    for machine in (MACHINES[name]() for name in ("rbm", "no_hidden", "fractional")):  # of one type
        for text in MACHINE_METHODS:
            if isinstance(machine, bl.RBM) or not text.startswith(("bp", "mean_field")):
                bl.log_likelihood(machine, np.eye(machine.n_visible, dtype=bool), text, gradient=True, max_iters=2)
        bl.sample(machine, 3, "gibbs(burn_in=2)")


def learn() -> None:
    """Fit with every loss to graphs whose arrays are made in every way, and do what ``warmup`` does."""
    for name in ("grid", "higher_order", "tied_tables"):
        for graph in (g for g in variants(name) if not g.evidence):
            labels = np.zeros((2, graph.n_vars), np.int64)
            labels[1, -1] = -1
            for cls in LOSSES:
                loss = make_loss(cls.name, template=identity(graph.theta.size), method=bl.TRW(), n_sweeps=2)
                instances = [Instance(graph.layout, None, row) for row in labels[: 2 if cls.hidden else 1]]
                loss.value_and_grad(graph.theta, instances)
    for _, job in learning_jobs((2, 3, 4, 6, 9)):
        job()


def plain(signature: object) -> str:
    """A signature without literal types, and with one spelling of each array type."""
    text = re.sub(r"Literal\[int\]\(-?\d+\)", "int64", str(signature))
    text = re.sub(r"Literal\[bool\]\(\w+\)", "bool", text)
    text = re.sub(r"Array\((\w+), (\d), '(\w)', False, aligned=True\)", r"array(\1, \2d, \3)", text)
    several = r"((?:readonly )?array\([^)]*\)) x (\d+)"  # fields of a structure that are all alike
    return re.sub(several, lambda found: ", ".join([found[1]] * int(found[2])), text)


GENERIC = ("beliefs.kernels.losses.frank_wolfe.note_step", "beliefs.kernels.losses.chain_blocks.step_by_batches")


def repeated() -> dict[str, list[str]]:
    """The kernels with several signatures, and these.

    Layers of machines are of two types, single and double, with the primitives that they call, and so are tables of
    rows, with one byte a cell and two. ``GENERIC`` kernels are parts of others, made for each of these.
    """
    found = {}
    for k in kernels():
        name, texts = f"{k.py_func.__module__}.{k.py_func.__name__}", [plain(s) for s in k.signatures]
        if name in GENERIC:
            continue
        if ".boltzmann." in name or ".primitives." in name:
            texts = [text.replace("float32", "float64") for text in texts]
        if ".rows." in name:
            texts = [text.replace("uint16", "uint8") for text in texts]
        found[name] = sorted(set(texts))
    return {name: signatures for name, signatures in found.items() if len(signatures) > 1}


if __name__ == "__main__":
    Twofold.always_compiled = True
    warnings.simplefilter("ignore", bl.ConvergenceWarning)
    tour()
    learn()
    called = sum(bool(k.signatures) for k in kernels())
    print(json.dumps({"called": called, "repeated": repeated()}))
