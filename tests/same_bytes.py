"""Does the same question have the same answer to the last bit, wherever memory lies and however many threads work?

Run as a program it prints, as JSON, the kernels whose calls depend on where their arrays lie (see ``replay``), and the
questions and fits whose answers changed when they were asked again with the heap disturbed and another number of
threads. ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` say for which instruction set. With the word ``plain`` loops that
have a plain and a SIMD version take the plain one (in a cache of its own), which must not change what calls do.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import beliefs as bl
import beliefs.inference.dual.state
import beliefs.inference.messages.propagation
from beliefs.cli.warmup import jobs
from beliefs.cli.warmup_learning import learning_jobs
from beliefs.driver import Trace
from beliefs.inference.text import parse_method
from beliefs.learning import Instance
from beliefs.learning.estimators.structured.chain import ChainCRF
from beliefs.learning.estimators.structured.chain_svm import ChainSVM
from beliefs.learning.estimators.structured.graph import GraphCRF
from beliefs.learning.estimators.structured.grid import GridCRF
from beliefs.learning.losses import LOSSES, make_loss
from families import MACHINE_METHODS, family, grid_pairs, random_model, unary
from learning_reference import identity
from replay import plain_loops, recorded, unstable

TIMES = 6
OPTIONS = (
    "bp(damping=0.2)", "bp(schedule=residual)", "bp(schedule=color)", "mean_field(structure=tree)",
    "mean_field(schedule=color)", "wmb(ibound=2)", "gdd(ibound=2)", "gdd(solver=lbfgs)", "mini_bucket(ibound=2)",
)  # fmt: skip
DOORS = ((bl.infer, ()), (bl.maximize, ()), (bl.marginal_map, ([0, 2],)), (bl.sample, (3,)))
WIDE = (4, 5, 8, 17, 36)  # states: SIMD takes 4, 8 or 16 at a time, and the rest is done apart


def wide_models() -> Iterator[bl.FactorGraph]:
    """Models with many states, or many neighbours; so small that what differs lies close together."""
    for k in WIDE:
        yield random_model([k] * 2, [(0,), (1,), (0, 1)], seed=1)
        yield random_model([k] * 4, unary(4) + grid_pairs(2, 2), seed=1)
        yield random_model([k, 2, k, 3, 2], [(0, 1, 2), (2, 3, 4), (0, 4), (1, 3)], seed=1)
        yield random_model([2, k, 3, k, 2], [(0, 1, 2), (2, 3, 4), (0, 4), (1, 3), (2, 1)], seed=1)
        for hub in (0, k):
            spokes = [(v, hub) for v in range(k + 1) if v != hub]
            yield random_model([2] * (k + 1), unary(k + 1) + spokes + [(1, 2), (2, 3), (1, 3)], seed=1)


def ask_wide() -> None:
    for graph in wide_models():
        for method in ("bp", "trw", "mean_field", "junction_tree", "wmb(ibound=1)", "gdd", *OPTIONS):
            bl.infer(graph, method, max_iters=12)
        for method in ("bp", "gdd"):
            bl.maximize(graph, method, max_iters=6)


def replayed() -> dict[str, Any]:
    """Everything that is compiled ahead, and wide models; then the calls of all kernels again, laid elsewhere."""
    with recorded() as calls:
        for _, job in jobs():
            job()
        for _, job in learning_jobs((5, 17)):
            job()
        ask_wide()
    outcomes = dict(call.outcome() for some in calls.values() for call in some)
    return {"outcomes": outcomes, "unstable": unstable(calls)}


def digest(value: Any) -> str:
    """A digest of all numbers in an answer but those that a clock gave."""
    return hashlib.sha256(b"".join(_numbers(value))).hexdigest()


def _numbers(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield value.tobytes()
    elif isinstance(value, float | int | str | bool):
        yield repr(value).encode()
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, Trace):
        yield from _numbers([getattr(value, name) for name in Trace.columns if name != "seconds"])
    elif dataclasses.is_dataclass(value):
        for name in (f.name for f in dataclasses.fields(value)):
            if name not in ("graph", "method", "seconds", "state", "pruned", "joint"):
                yield from _numbers(getattr(value, name))


def disturb(rng: np.random.Generator, held: list[np.ndarray]) -> None:
    """Leave holes of odd sizes in the heap, others each time."""
    fresh = [np.empty(n, np.uint8) for n in rng.integers(1, 3000, 80)]
    held[:] = [array for array in held + fresh if rng.random() < 0.4]


def questions() -> Iterator[tuple[str, Callable[[int], Any]]]:
    """Each method at each door, with and without options, as functions of the number of threads."""
    models = {
        "two states": family("grid"),
        "mixed states": family("higher_order"),
        "five states": random_model([5] * 6, unary(6) + grid_pairs(2, 3), seed=1),
        "a hub": random_model([4] * 9, unary(9) + [(0, v) for v in range(1, 9)] + [(1, 2), (2, 3)], seed=1),
    }
    for name, graph in models.items():
        for method in (*(cls.name for cls in bl.METHODS if cls.general), *OPTIONS):
            for door, args in DOORS:
                if bl.inference.Task(door.__name__) in parse_method(method, bl.METHODS).tasks:
                    yield f"{door.__name__}, {method}, {name}", _asked(door, graph, args, method)
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):  # more rows than a piece of them has
        machine = bl.RBM((0.3 * rng.normal(size=(9, 13))).astype(dtype))
        for method in (*MACHINE_METHODS, "gibbs(chains=300)", "ais(chains=300, temperatures=5, reverse=True)"):
            yield f"infer, {method}, {machine}", _asked(bl.infer, machine, (), method)


def _asked(door: Any, graph: Any, args: tuple[Any, ...], method: str) -> Callable[[int], Any]:
    return lambda threads: door(graph, *args, method=method, seed=3, threads=threads, max_iters=12)


def fits() -> Iterator[tuple[str, Callable[[int], Any]]]:
    """Each loss and each estimator, as functions of the number of threads."""
    for k in (3, 5):
        graph = random_model([k] * 4, unary(4) + grid_pairs(2, 2), seed=1)
        labels = np.arange(8).reshape(2, 4) % k
        labels[1, -1] = -1
        for cls in LOSSES:
            yield f"the loss {cls.name}, {k} states", _valued(cls.name, graph, labels[: 2 if cls.hidden else 1])
    rng = np.random.default_rng(0)
    chains = [rng.normal(size=(n, 3)) for n in (4, 6, 5)], [np.arange(n) % 5 for n in (4, 6, 5)]
    pictures = [rng.normal(size=(4, 5, 2)) for _ in range(3)], [rng.integers(0, 3, (4, 5)) for _ in range(3)]
    edges = np.array([(0, 1), (1, 2), (0, 2)])
    graphs = [(rng.normal(size=(4, 2)), edges) for _ in range(3)], [np.arange(4) % 4 for _ in range(3)]
    for cls, (X, Y) in ((ChainCRF, chains), (GridCRF, pictures), (GraphCRF, graphs)):
        yield f"the fit of {cls.__name__}", _fitted(cls, X, Y)
    partly = [np.where(np.arange(y.size) % 3 == 1, -1, y) for y in chains[1]]
    yield "the fit of ChainSVM with hidden labels", _fitted(ChainSVM, chains[0], partly)


def _valued(name: str, graph: bl.FactorGraph, labels: np.ndarray) -> Callable[[int], Any]:
    def valued(_: int) -> tuple[float, np.ndarray]:  # a new loss each time: some go on where they were
        loss = make_loss(name, template=identity(graph.theta.size), method=bl.TRW(), n_sweeps=2)
        return loss.value_and_grad(graph.theta, [Instance(graph.layout, None, row) for row in labels])

    return valued


def _fitted(cls: Any, X: list[Any], Y: list[Any]) -> Callable[[int], Any]:
    return lambda threads: cls(max_iters=4, n_jobs=threads).fit(X, Y).weights_


def repeated() -> dict[str, Any]:
    """Ask everything several times with one thread and with two, the heap disturbed in between."""
    beliefs.inference.dual.state._WORTH_THREADS = 0  # small models are shared out, too
    beliefs.inference.messages.propagation._WORTH_THREADS = 0
    rng, held = np.random.default_rng(0), list[np.ndarray]()
    answers: dict[str, list[str]] = {}
    for name, ask in (*questions(), *fits()):
        for turn in range(TIMES):
            disturb(rng, held)
            answers.setdefault(name, []).append(digest(ask(1 + turn % 2)))
    changed = [name for name, found in answers.items() if len(set(found)) > 1]
    return {"answers": {name: found[0] for name, found in answers.items()}, "changed": changed}


if __name__ == "__main__":
    warnings.simplefilter("ignore", bl.ConvergenceWarning)
    if "plain" in sys.argv:
        plain_loops()
    print(json.dumps(replayed() | repeated()))
