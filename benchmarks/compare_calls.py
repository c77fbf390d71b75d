"""The calls that two checkouts are compared by; run as a process, it times those that it is asked for.

    python -P benchmarks/compare_calls.py SECONDS NAME ...      # a line of JSON a call, on standard output

Only the public interface is used, so that modules may move between the two; which checkout is imported is a matter of
``PYTHONPATH``. Nothing of this package is imported either: it may be another one there.

Every call is made once, to load what it needs and to take the digest of its answer; then it is repeated for about so
many seconds, and the least processor time counts. A first line says whether kernels that are interpreted in a young
process could be told to be compiled: what a call costs must not depend on the calls before it.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

Library = Any
Call = Callable[[], Any]
Make = Callable[[Library], Any]

FEW, MANY = 3, 2000  # calls at least and at most
SHOWN = (
    "log_z", "log_lower", "log_upper", "log_score", "log_value", "mu_var", "assignment", "samples", "theta", "weights_",
)  # fmt: skip
ITERATED = {"max_iters": 20}


# -- models -----------------------------------------------------------------------------------------------------------
def network(name: str) -> Make:
    """Return a maker of a bundled network."""
    return lambda bl: bl.datasets.load_bn(name)


def grid(side: int, states: int = 2) -> Make:
    """Return a maker of a random pairwise grid, fields and couplings 0.3 N(0, 1)."""

    def make(bl: Library) -> Any:
        rng = np.random.default_rng(states)
        edges = np.ascontiguousarray(bl.datasets.grid_edges(side, side), np.int64)
        unary, pairs = rng.normal(size=(side * side, states)), rng.normal(size=(len(edges), states, states))
        return bl.FactorGraph.pairwise(0.3 * unary, edges, 0.3 * pairs)

    return make


def triples(n: int) -> Make:
    """Return a maker of a model with factors of one to three variables."""
    return lambda bl: bl.datasets.make_random_factor_graph(n, n, seed=0)


# -- questions --------------------------------------------------------------------------------------------------------
def ask(door: str, model: Make, *arguments: Any, **options: Any) -> Callable[[Library], Call]:
    """Return a maker of a call whose plan is kept: the same model every time."""
    return lambda bl: partial(getattr(bl, door), model(bl), *arguments, threads=1, **options)


def ask_anew(model: Make, *arguments: Any) -> Callable[[Library], Call]:
    """Return a maker of a call that builds the model and plans."""

    def made(bl: Library) -> Call:
        graph = model(bl)
        graph = getattr(graph, "graph", graph)  # a network has one
        lay, theta = graph.layout, np.array(graph.theta)

        def call() -> Any:
            fresh = bl.Layout.build(lay.card, lay.scope_ptr, lay.scope_vars)
            return bl.infer(bl.FactorGraph.build(fresh, theta), *arguments, threads=1)

        return call

    return made


def ask_given_evidence(bl: Library) -> Call:
    """Return a call with new evidence on a kept plan."""
    network = bl.datasets.load_bn("andes")
    rows = iter([{0: 0, 1: 0}, {0: 1, 1: 0}] * MANY)
    first = {0: 0, 1: 1}
    bl.infer(network.condition(first), threads=1)
    return lambda: bl.infer(network.condition(next(rows, first)), "junction_tree", threads=1)


# -- learning ---------------------------------------------------------------------------------------------------------
def images(n: int, side: int) -> tuple[list[Any], list[Any]]:
    """Return noisy pictures of blocks, and the blocks."""
    rng = np.random.default_rng(side)
    labels = [np.kron(rng.integers(2, size=(side // 5, side // 5)), np.ones((5, 5), np.int64)) for _ in range(n)]
    return [np.stack([y, 1 - y], -1) + rng.normal(size=(*y.shape, 2)) for y in labels], labels


def sentences(n: int, length: int) -> tuple[list[Any], list[Any]]:
    """Return noisy features of labels that stay for a while, five kinds."""
    rng = np.random.default_rng(length)
    labels = [np.repeat(rng.integers(5, size=length // 3 + 1), 3)[:length] for _ in range(n)]
    return [np.eye(5)[y] + rng.normal(size=(length, 5)) for y in labels], labels


def rings(n: int, size: int = 10) -> tuple[list[Any], list[Any]]:
    """Return rings with a chord each, three features a vertex, and labels that come in pairs."""
    rng = np.random.default_rng(size)
    ring = [(v, (v + 1) % size) for v in range(size)]
    labels = [np.repeat(rng.integers(2, size=size // 2), 2) for _ in range(n)]
    chords = [(int(a), int(a) + size // 2) for a in rng.integers(size // 2, size=n)]
    X = [(y[:, None] + rng.normal(size=(size, 3)), np.array([*ring, c])) for y, c in zip(labels, chords, strict=True)]
    return X, labels


def fit(name: str, data: tuple[list[Any], list[Any]], **options: Any) -> Callable[[Library], Call]:
    """Return a maker of a fit of a few iterations."""
    return lambda bl: partial(getattr(bl, name)(max_iters=5, **options).fit, *data)


def predict(name: str, data: tuple[list[Any], list[Any]], **options: Any) -> Callable[[Library], Call]:
    """Return a maker of a prediction after such a fit."""
    return lambda bl: partial(getattr(bl, name)(max_iters=5, **options).fit(*data).predict, data[0])


def rows() -> dict[str, Callable[[Library], Call]]:
    """Return all calls by name; those of a small model end in ``small``."""
    found: dict[str, Callable[[Library], Call]] = {
        "enumeration, small": ask("infer", grid(3), "enumeration"),
        "enumeration, 4x4": ask("infer", grid(4), "enumeration"),
        "elimination, asia, small": ask("infer", network("asia"), "elimination"),
        "elimination, 10x10": ask("infer", grid(10), "elimination"),
        "junction_tree, asia, small": ask("infer", network("asia"), "junction_tree"),
        "junction_tree, alarm, small": ask("infer", network("alarm"), "junction_tree"),
        "junction_tree, alarm, plan new, small": ask_anew(network("alarm"), "junction_tree"),
        "junction_tree, andes": ask("infer", network("andes"), "junction_tree"),
        "junction_tree, andes, new evidence": ask_given_evidence,
        "junction_tree, 12x12": ask("infer", grid(12), "junction_tree"),
        "junction_tree, maximize alarm, small": ask("maximize", network("alarm"), "junction_tree"),
        "junction_tree, sample alarm": ask("sample", network("alarm"), 1000, "junction_tree", seed=0),
        "marginal_map, asia, small": ask("marginal_map", network("asia"), [0, 1], "junction_tree"),
    }
    for text, large in (("bp", 100), ("trw", 100), ("fractional_bp", 100), ("mean_field", 100)):
        found[f"{text}, 5x5, small"] = ask("infer", grid(5), text)
        found[f"{text}, {large}x{large}"] = ask("infer", grid(large), text)
    regions = (
        ("ijgp", ITERATED, 20),
        ("gbp", ITERATED, 20),
        ("double_loop", ITERATED, 10),
        ("convex_gbp", ITERATED, 20),
    )
    for text, options, large in (("wmb", ITERATED, 20), ("gdd", ITERATED, 40), ("mini_bucket", {}, 30), *regions):
        found[f"{text}, 5x5, small"] = ask("infer", grid(5), text, **options)
        found[f"{text}, {large}x{large}"] = ask("infer", grid(large), text, **options)
    found |= {
        "bp, 50x50, K=8": ask("infer", grid(50, 8), "bp"),
        "bp, 60x60, plan new": ask_anew(grid(60), "bp"),
        "bp, any arity": ask("infer", triples(300), "bp"),
        "bp, maximize 60x60": ask("maximize", grid(60), "bp"),
        "gdd, maximize 40x40": ask("maximize", grid(40), "gdd", **ITERATED),
        "local_search, 5x5, small": ask("maximize", grid(5), "local_search", seed=0),
        "local_search, 20x20": ask("maximize", grid(20), "local_search", seed=0, max_iters=5),
        "gibbs, 5x5, small": ask("sample", grid(5), 10, "gibbs(burn_in=50)", seed=0),
        "likelihood_weighting, alarm, small": ask("infer", network("alarm"), "likelihood_weighting", seed=0),
        "gibbs, 60x60": ask("sample", grid(60), 10, "gibbs(burn_in=50)", seed=0),
        "auto, alarm, small": ask("infer", network("alarm")),
        "GridCRF.fit, small": fit("GridCRF", images(2, 10)),
        "GridCRF.fit, 50x50": fit("GridCRF", images(2, 50)),
        "GridCRF.predict, 50x50": predict("GridCRF", images(2, 50)),
        "ChainCRF.fit, small": fit("ChainCRF", sentences(5, 10)),
        "ChainCRF.fit, 200 of 30": fit("ChainCRF", sentences(200, 30)),
        "ChainCRF.predict, 200 of 30": predict("ChainCRF", sentences(200, 30)),
        "GraphCRF.fit, small": fit("GraphCRF", rings(5)),
        "GraphCRF.fit, 200 rings": fit("GraphCRF", rings(200)),
        "GraphCRF.predict, 200 rings": predict("GraphCRF", rings(200)),
    }
    return found


# -- timing -----------------------------------------------------------------------------------------------------------
def parts(answer: Any) -> Iterator[Any]:
    """Yield the arrays of an answer: a result's, an estimator's weights, predictions."""
    if isinstance(answer, list | tuple):
        for item in answer:
            yield from parts(item)
    elif isinstance(answer, np.ndarray):
        yield answer
    else:
        yield from (np.asarray(getattr(answer, name)) for name in SHOWN if hasattr(answer, name))


def digest(answer: Any) -> str:
    """Return a short text that is the same for the same bytes."""
    found = hashlib.sha256()
    for array in parts(answer):
        found.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def least(call: Call, seconds: float) -> float:
    """Return the least processor time of a call that is repeated for so many seconds."""
    spent: list[float] = []
    while len(spent) < FEW or (sum(spent) < seconds and len(spent) < MANY):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return min(spent)


def compile_always() -> bool:
    """Ask for compiled kernels from now on; return whether the library, wherever it has them, can do so."""
    classes = [getattr(module, "Twofold", None) for module in list(sys.modules.values())]
    found = [cls for cls in classes if hasattr(cls, "always_compiled")]
    for cls in found:
        cls.always_compiled = True  # type: ignore[union-attr]
    return bool(found)


def main(arguments: list[str]) -> None:
    """Time the calls of these names; one that fails says why."""
    import beliefs as bl

    warnings.simplefilter("ignore")
    bl.infer(bl.datasets.load_bn("asia"))  # modules are imported when they are needed
    print(json.dumps({"compiled": compile_always()}), flush=True)
    known, seconds = rows(), float(arguments[0])
    for name in arguments[1:]:
        found: dict[str, Any] = {"name": name}
        try:
            call = known[name](bl)
            found["digest"] = digest(call())
            found["seconds"] = least(call, seconds)
        except Exception as error:
            found["failed"] = f"{type(error).__name__}: {error}"[:200]
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
