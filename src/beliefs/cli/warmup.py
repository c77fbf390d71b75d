"""The command ``warmup``: compile now what is usually asked, or a part, or all, so that no question waits for it.

Every door meets every method that answers it on small models (with and without loops, hard zeros and values that only
the log domain can hold), every reader meets a file of its format, and every loss an instance. The jobs are shared among
as many processes as there are cores. Compiled kernels are kept on disk. A part is a method, or one of `auto`, `files`,
`many` (rows of evidence), `machines` and `learning`. What is usual: files, all doors by `auto`, the methods and fits of
``_USUAL`` and :data:`beliefs.cli.warmup_learning.USUAL` with the options they have by default.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import click
import numpy as np

import beliefs.kernels
from beliefs.cli.first_use import no_explanation
from beliefs.cli.warmup_learning import learning_jobs, usual_learning_jobs
from beliefs.cli.warmup_workers import Job, done_in_turn, n_cores
from beliefs.cycles import partially_tree_robust
from beliefs.datasets import load_bn, make_ising_grid
from beliefs.errors import ConvergenceWarning, ModelError
from beliefs.inference.base import Method, Problem, Task
from beliefs.inference.doors import infer, marginal_map, maximize, sample
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.many import infer_many, maximize_many
from beliefs.inference.registry import methods
from beliefs.inference.search.flips import Flips
from beliefs.inference.search.query_search import QuerySearch
from beliefs.inference.search.query_value import QueryPlan
from beliefs.io import formats, uai
from beliefs.kernels._jit import Twofold, kernels
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.graph import FactorGraph, Model
from beliefs.model.rbm import RBM
from beliefs.model.rbm_batch import RBMBatch
from beliefs.options import suggestion

__all__ = ["jobs", "warmup_command"]

_GRIDS = (10, 91)  # orders of small and of large graphs are searched by different kernels

_STATES = (2, 3, 4, 6, 9)  # the kernels of their own: two, three, four, up to eight and more states
_LARGE = 18  # rows of a grid beyond which effective resistances are computed sparsely

_DOORS: dict[Task, Callable[[Model, str], object]] = {
    Task.INFER: lambda graph, method: infer(graph, method).mu,  # which is made when it is asked for
    Task.MAXIMIZE: lambda graph, method: maximize(graph, method),
    Task.MARGINAL_MAP: lambda graph, method: marginal_map(graph, [0], method),
    Task.SAMPLE: lambda graph, method: sample(graph, 2, method),
}


_USUAL = {"junction_tree": True, "bp": True, "trw": True, "mean_field": False}
"""Methods that are asked most, and whether for more than pairwise models."""

_TIGHT = 4000  # bytes: too few for exact inference on a grid of 36

_SMALL_DOORS: dict[Task, Callable[[Model, str], object]] = {
    Task.INFER: lambda graph, method: infer(graph, method, max_bytes=_TIGHT, max_iters=12),
    Task.MAXIMIZE: lambda graph, method: maximize(graph, method, max_bytes=_TIGHT, max_iters=6),
    Task.MARGINAL_MAP: lambda graph, method: marginal_map(graph, [0, 9, 20], method, max_bytes=_TIGHT, max_iters=6),
}


@click.command("warmup")
@click.argument("names", metavar="[PART]...", nargs=-1)
@click.option("--jobs", "n_jobs", type=click.IntRange(1), help="Processes that compile; as many as cores otherwise.")
def warmup_command(names: tuple[str, ...], n_jobs: int | None) -> None:
    """Compile kernels, so that questions start at once.

    Without a PART, what is usually asked: files, `auto`, junction_tree, bp, trw and, on pairwise models, mean_field,
    and fits of chains, grids, graphs and networks, all with default options. `all` compiles everything, which takes
    several times as long. A PART is a method (`beliefs methods`), `auto` (what it does where exact inference does not
    fit), `files`, `many` (rows of evidence), `machines` (questions about Boltzmann machines) or `learning`. Kernels are
    kept on disk, so this is needed once after an installation. Stopped by Ctrl-C, it goes on where it was the next
    time.
    """
    no_explanation()
    names = () if "all" in names else names or ("usual",)
    started = time.perf_counter()
    todo = list(jobs(*names))
    with click.progressbar(length=len(todo), label="compiling", item_show_func=_shown) as bar:
        for number in _done(todo, names, n_jobs or n_cores()):
            bar.update(1, todo[number][0])
    ready = sum(kernel.kept() for kernel in kernels())
    click.echo(f"{ready} kernels are compiled ({time.perf_counter() - started:.1f} s)")


def _done(todo: list[Job], names: tuple[str, ...], n_jobs: int) -> Iterator[int]:
    Twofold.always_compiled = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if n_jobs > 1:
            yield from done_in_turn(names, todo, n_jobs)
            return
        for number, (_, job) in enumerate(todo):
            job()
            yield number


def _shown(name: str | None) -> str | None:
    return name


def jobs(*names: str) -> Iterator[Job]:
    """Yield what there is to run for the parts of these names, or what is `usual`; all without any name.

    Each job comes with its own.
    """
    for module in pkgutil.walk_packages(beliefs.kernels.__path__, "beliefs.kernels."):
        importlib.import_module(module.name)
    parts = _parts()
    if names == ("usual",):
        parts["usual"] = partial(_usual_jobs, load_bn("asia"))
    for name in names:
        if name not in parts:
            raise ModelError(
                f"no part of the library is called {name!r}{suggestion(name, parts)}; see `beliefs methods`"
            )
    for name in names or parts:
        yield from parts[name]()


def _parts() -> dict[str, Callable[[], Iterator[Job]]]:
    network = load_bn("asia")
    return {
        "files": partial(_file_jobs, network),
        **{method.name: partial(_method_jobs, method, network) for method in methods()},
        "auto": _auto_jobs,
        "many": _rows,
        "machines": _machine_jobs,
        "learning": partial(learning_jobs, _STATES),
    }


def _usual_jobs(network: BayesianNetwork) -> Iterator[Job]:
    """Yield what is asked most, with the options that are there by default."""
    yield from _file_jobs(network)
    yield from _auto_jobs(usual=True)
    for method in methods():
        if method.name in _USUAL:
            yield from _method_jobs(method, network if _USUAL[method.name] else None, usual=True)
    yield from usual_learning_jobs()


def _method_jobs(method: type[Method], network: BayesianNetwork | None, *, usual: bool = False) -> Iterator[Job]:
    """Yield questions to a method: of every kind, and with the options that have kernels of their own.

    ``network`` None: on pairwise models alone. ``usual``: with the options that it has by default.
    """
    if method.general and network is not None:
        for name, graph in _models(network).items():
            for task in method.tasks:
                yield f"{task.value} with {method.name}, {name}", _asked(_DOORS[task], graph, method.name)
    for states in _STATES:
        for task, options in method.variants.items():
            for option in options[:1] if usual else options:
                text = f"{method.name}({option})" if option else method.name
                yield f"{task.value} with {text}, {states} states", _asked(_DOORS[task], _loop(states), text)
    yield from _FURTHER.get(method.name, tuple)()


def _auto_jobs(*, usual: bool = False) -> Iterator[Job]:
    """Yield what `auto` does where exact inference does not fit, and what a network is asked without a method.

    ``usual``: without the moves of long searches, and the estimate that comes last.
    """
    network, grid = load_bn("asia"), make_ising_grid(6, seed=0)
    for task in (Task.INFER, Task.MAXIMIZE, Task.MARGINAL_MAP):
        yield f"{task.value} with auto where exact does not fit", _asked(_SMALL_DOORS[task], grid, "auto")
    if not usual:
        yield "moves of a search", _moves(grid)
        for name, graph in _models(network).items():
            yield f"the last estimate of auto, {name}", _asked(_DOORS[Task.INFER], graph, "ijgp")
    yield "ancestral samples", lambda: network.sample(2, seed=0)


def _machine_jobs() -> Iterator[Job]:
    """Yield questions about Boltzmann machines, whose matrices are of either type."""
    for dtype in (np.float32, np.float64):
        machine = RBM(np.eye(3, 2, dtype=dtype))
        for text in (
            "enumeration",
            "mean_field",
            "mean_field(order=2)",
            "gibbs(temperatures=2)",
            "ais(temperatures=3)",
        ):
            yield f"infer with {text}, an RBM of {machine.dtype}", _asked(_DOORS[Task.INFER], machine, text)
        for text in ("bp", "bp(damping=0.1)"):
            yield f"infer with {text}, RBMs of {machine.dtype}", partial(_batch_asked, dtype, text)
        for text in ("mean_field", "mean_field(order=2)", "gibbs(burn_in=1)"):
            yield f"infer with {text}, RBMs of {machine.dtype}", partial(infer, _batch(dtype), text, max_iters=1)


def _batch(dtype: Any) -> RBMBatch:
    return RBMBatch(np.eye(3, 2, dtype=dtype), np.zeros((2, 3), dtype), np.zeros((2, 2), dtype))


def _batch_asked(dtype: Any, method: str) -> None:
    """Ask about machines together: sums, and the best visible states."""
    batch = _batch(dtype)
    infer(batch, method)
    maximize(batch, method)
    marginal_map(batch, range(3), method)
    infer(batch[0], method)
    marginal_map(batch[0], range(3), method)


def _asked(door: Callable[[Model, str], object], graph: Model, method: str) -> Callable[[], object]:
    return lambda: door(graph, method)


def _warm_starts() -> Iterator[Job]:
    for states in _STATES:
        yield f"a warm start, {states} states", _warm_start(_loop(states))


def _warm_start(graph: FactorGraph) -> Callable[[], object]:
    """Go on from messages of other potentials, which are looked at before they are used."""
    return lambda: infer(graph.with_theta(0.5 * graph.theta), "bp", init=infer(graph, "bp"))


def _resistances() -> Iterator[Job]:
    large = make_ising_grid(_LARGE, seed=0)
    yield "effective resistances", _asked(_DOORS[Task.INFER], large, "trw(rho=uniform)")


def _orders() -> Iterator[Job]:
    for size in _GRIDS:
        yield f"an order of {size * size} variables", _planned(make_ising_grid(size, seed=0))


def _rows() -> Iterator[Job]:
    rows = [{"x0": 0}, {"x0": 1}, {}]
    yield "rows of evidence", lambda: infer_many(_loop(2), rows)
    yield "the best states of rows", lambda: maximize_many(_loop(2), rows)


def _moves(graph: FactorGraph) -> Callable[[], object]:
    """Moves that a search on small models does not come to: regions of several variables, ranked single changes."""
    query = np.arange(0, graph.n_vars, 2)
    search = QuerySearch(Problem(graph, Task.MARGINAL_MAP, query=query))
    row = np.zeros(graph.n_vars, np.int64)

    def moved() -> object:
        search.near.draw(0, 3, 2.0**12)
        return Flips(graph, query, QueryPlan.of(graph.layout, query)).gains(row)

    return moved


def _ears() -> Iterator[Job]:
    """Yield the search for cycles beyond the faces of a grid, whose ears small graphs do not have."""
    rng = np.random.default_rng(0)
    n, chords = 16, [(0, 15), (1, 14), (3, 12)]
    across = [(4 * r + c, 4 * r + c + 1) for r in range(4) for c in range(3)]
    edges = [*across, *((v, v + 4) for v in range(n - 4)), *chords]
    graph = FactorGraph.pairwise(np.zeros((n, 2)), edges, rng.normal(size=(len(edges), 2, 2)))
    yield "cycles of a grid with long edges", lambda: partially_tree_robust(graph)


def _planned(graph: FactorGraph) -> Callable[[], object]:
    return lambda: JunctionTree().planned(Problem(graph))


def _loop(states: int) -> FactorGraph:
    rng = np.random.default_rng(0)
    edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
    return FactorGraph.pairwise(rng.normal(size=(4, states)), edges, rng.normal(size=(4, states, states)))


def _models(network: BayesianNetwork) -> dict[str, FactorGraph]:
    rng = np.random.default_rng(0)
    pairs = [((u, v), rng.normal(size=(2, 2))) for u, v in ((0, 1), (1, 2), (2, 3), (0, 3))]
    loop = FactorGraph.from_tables([2] * 4, pairs, log=True)
    return {
        "evidence and hard zeros": network.condition({"xray": "yes"}),
        "a loop": loop,
        "extreme values": loop.with_theta(1000.0 * loop.theta),
    }


def _file_jobs(network: BayesianNetwork) -> Iterator[Job]:
    texts: dict[str, tuple[Any, str | bytes]] = {
        "evidence": (uai.loads_evidence, "1 0 1"),
        "query": (uai.loads_query, "1 0"),
    }
    texts |= {form.title: (form.loads, form.sample_of(network)) for form in formats.FORMATS}
    for name, (loads, text) in texts.items():
        yield f"reading {name}", _read(loads, text)


def _read(loads: Callable[[Any], object], text: str | bytes) -> Callable[[], object]:
    return lambda: loads(text)


_FURTHER: dict[str, Callable[[], Iterable[Job]]] = {
    "bp": _warm_starts,
    "trw": _resistances,
    "junction_tree": _orders,
    "gbp": _ears,
}
"""Questions beside those that every method is asked."""
