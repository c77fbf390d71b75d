"""What a method predicts to need is what it takes, within a fifth: measured in a process of its own.

The prediction is that of the BudgetError under a budget of one byte. With just so much memory the question is asked
again, after a small model has loaded the kernels, and the peak of the process is compared with where it began. A row in
``CASES`` is a task, a method, a small and a large model, and options; the large one makes the method's own memory, tens
of megabytes, more than that of the interpreter.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

CASES = {
    "enumeration": ("infer", "enumeration", "complete(8)", "complete(20)", {}),
    "elimination": ("infer", "elimination", "complete(12)", "complete(23)", {}),
    "elimination of maxima": ("maximize", "elimination", "complete(16)", "complete(23)", {}),
    "junction_tree": ("infer", "junction_tree", "grid(8, 2)", "grid(20, 2)", {}),
    "mini_bucket": ("infer", "mini_bucket(ibound=15)", "grid(18, 2)", "grid(40, 2)", {}),
    "wmb": ("infer", "wmb(ibound=15)", "grid(18, 2)", "grid(40, 2)", {"max_iters": 2}),
    "wmb of small clusters": ("infer", "wmb(ibound=3)", "grid(12, 2)", "grid(200, 2)", {"max_iters": 2}),
    "gdd": ("infer", "gdd", "grid(12, 2)", "grid(300, 2)", {"max_iters": 3}),
    "gdd of many states": ("infer", "gdd", "grid(12, 8)", "grid(150, 8)", {"max_iters": 3}),
    "gdd with an i-bound": ("infer", "gdd(ibound=13)", "grid(15, 2)", "grid(40, 2)", {"max_iters": 2}),
    "gdd by quasi-Newton steps": ("infer", "gdd(solver=lbfgs)", "grid(12, 2)", "grid(150, 2)", {"max_iters": 15}),
    "gibbs": ("infer", "gibbs", "grid(12, 2)", "grid(300, 2)", {"max_iters": 3}),
    "gdd of maxima": ("maximize", "gdd", "grid(12, 2)", "grid(300, 2)", {"max_iters": 3}),
    "bp of maxima": ("maximize", "bp", "grid(12, 2)", "grid(400, 2)", {"max_iters": 2}),
    "trw of maxima": ("maximize", "trw", "grid(12, 2)", "grid(300, 2)", {"max_iters": 2}),
    "structured mean field": ("infer", "mean_field(structure=tree)", "grid(12, 2)", "grid(400, 2)", {"max_iters": 2}),
    "local_search": ("maximize", "local_search", "grid(12, 2)", "grid(250, 2)", {"max_iters": 2}),
    "local_search of many states": ("maximize", "local_search", "grid(12, 8)", "grid(100, 8)", {"max_iters": 2}),
    "gibbs of many states": ("infer", "gibbs", "grid(12, 8)", "grid(200, 8)", {"max_iters": 3}),
    "fractional_bp": ("infer", "fractional_bp", "grid(12, 2)", "grid(400, 2)", {"max_iters": 3}),
    "restarts of mean field": ("infer", "mean_field(restarts=3)", "grid(12, 8)", "grid(250, 8)", {"max_iters": 3}),
    "likelihood_weighting": ("infer", "likelihood_weighting", "network(20)", "network(6000)", {}),
    "samples of a tree": ("sample", "junction_tree", "grid(8, 2)", "grid(19, 2)", {"n": 10}),
    "ijgp": ("infer", "ijgp(ibound=8)", "grid(12, 2)", "grid(60, 2)", {"max_iters": 3}),
    "ijgp of large tables": ("infer", "ijgp(ibound=14)", "grid(12, 2)", "grid(25, 2)", {"max_iters": 3}),
    "ijgp of small tables": ("infer", "ijgp(ibound=3)", "grid(12, 2)", "grid(120, 2)", {"max_iters": 3}),
    "gbp": ("infer", "gbp", "grid(12, 2)", "grid(120, 2)", {"max_iters": 3}),
    "gbp of factors": ("infer", "gbp", "wide(50)", "wide(8000)", {"max_iters": 3}),
    "double_loop": ("infer", "double_loop", "grid(12, 2)", "grid(100, 2)", {"max_iters": 3}),
    "convex_gbp": ("infer", "convex_gbp", "grid(12, 4)", "grid(70, 4)", {"max_iters": 3}),
    "ais": ("infer", "ais(temperatures=50)", "machine(20, 10)", "machine(2500, 2200)", {}),
    "gibbs of a machine": ("infer", "gibbs", "machine(20, 10)", "machine(2500, 2200)", {"max_iters": 12}),  # burnt in
    "bp of a machine": ("infer", "bp", "machine(20, 10)", "machine(2500, 2200)", {"max_iters": 5}),
    "bp of maxima of a machine": ("maximize", "bp", "machine(20, 10)", "machine(2500, 2200)", {"max_iters": 5}),
    "mean field of a machine": ("infer", "mean_field", "machine(20, 10)", "machine(2500, 2200)", {"max_iters": 5}),
    "mean field of two layers": ("infer", "mean_field", "layers(20, 10)", "layers(600, 400)", {"max_iters": 3}),
    "mean field of triples of states": ("infer", "mean_field", "complete(20, 3)", "complete(700, 3)", {"max_iters": 3}),
    "mean field of a star": ("infer", "mean_field", "star(50)", "star(200000)", {"max_iters": 3}),
    "mean field of factors": ("infer", "mean_field", "wide(50)", "wide(60000)", {"max_iters": 3}),
    "trees in two layers": (
        "infer",
        "mean_field(structure=tree)",
        "layers(20, 10)",
        "layers(600, 400)",
        {"max_iters": 3},
    ),
    "trees of factors": ("infer", "mean_field(structure=tree)", "wide(50)", "wide(60000)", {"max_iters": 3}),
    "bp of a star": ("infer", "bp", "star(50)", "star(100000)", {"max_iters": 3}),
    "bp of a chain": ("infer", "bp", "chain(50)", "chain(150000)", {"max_iters": 3}),
    "bp of maxima of a chain": ("maximize", "bp", "chain(50)", "chain(150000)", {"max_iters": 3}),
    "bp of a dense graph": ("infer", "bp", "complete(20, 2, 0.1)", "complete(700, 2, 0.1)", {"max_iters": 3}),
    "bp of a dense graph beyond products": ("infer", "bp", "complete(20)", "complete(700)", {"max_iters": 3}),
    "bp of 21 states": ("infer", "bp", "grid(8, 21)", "grid(70, 21)", {"max_iters": 3}),
    "trw of two layers": ("infer", "trw", "layers(200, 110)", "layers(600, 400)", {"max_iters": 3}),
    "trw of a star": ("infer", "trw", "star(50)", "star(100000)", {"max_iters": 3}),
    "trw of maxima of a chain": ("maximize", "trw", "chain(50)", "chain(150000)", {"max_iters": 3}),
    "moves on maxima of bp": ("maximize", "bp", "grid(12, 2)", "grid(300, 2)", {"max_iters": 10, "tol": 0.0}),
    "gibbs of two layers": ("infer", "gibbs", "layers(20, 10)", "layers(600, 400)", {"max_iters": 2}),
    "gdd of two layers": ("infer", "gdd", "layers(20, 10)", "layers(600, 400)", {"max_iters": 2}),
    "gdd of 21 states": ("infer", "gdd", "grid(8, 21)", "grid(70, 21)", {"max_iters": 2}),
    "junction_tree of a chain": ("infer", "junction_tree", "chain(50)", "chain(100000)", {}),
    "elimination of a star": ("infer", "elimination", "star(50)", "star(100000)", {}),
    "trw of a machine": ("infer", "trw", "machine(200, 110)", "machine(600, 400)", {"max_iters": 3}),
    "gdd of maxima of a machine": ("maximize", "gdd", "machine(20, 10)", "machine(400, 200)", {"max_iters": 2}),
    "marginal MAP by bp": ("marginal_map", "bp", "grid(12, 2)", "grid(200, 2)", {"max_iters": 2}),
    "marginal MAP by trw": ("marginal_map", "trw", "grid(12, 2)", "grid(200, 2)", {"max_iters": 2}),
    "marginal MAP by wmb": ("marginal_map", "wmb(ibound=5)", "grid(12, 2)", "grid(150, 2)", {"max_iters": 2}),
    "marginal MAP by bp, bounded": ("marginal_map", "bp", "layers(100, 60)", "layers(400, 200)", {"max_iters": 3}),
    "marginal MAP by gdd, bounded": ("marginal_map", "gdd", "layers(100, 60)", "layers(400, 200)", {"max_iters": 3}),
    "marginal MAP by wmb, bounded": ("marginal_map", "wmb", "layers(100, 60)", "layers(400, 200)", {"max_iters": 3}),
    "marginal MAP by gdd": ("marginal_map", "gdd", "grid(12, 2)", "grid(200, 2)", {"max_iters": 2}),
    "mini_bucket of maxima": ("maximize", "mini_bucket", "layers(100, 60)", "layers(400, 200)", {}),
    "wmb between plan and tables": ("infer", "wmb(ibound=8)", "grid(15, 2)", "grid(150, 2)", {"max_iters": 3}),
    "wmb of maxima": ("maximize", "wmb(ibound=8)", "layers(30, 20)", "layers(300, 200)", {"max_iters": 3}),
    "wmb of five states": ("infer", "wmb(ibound=4)", "grid(8, 5)", "grid(70, 5)", {"max_iters": 3}),
    "ijgp of maxima": ("maximize", "ijgp(ibound=8)", "grid(12, 2)", "grid(100, 2)", {"max_iters": 3}),
    "ijgp of a chain": ("infer", "ijgp(ibound=8)", "chain(50)", "chain(60000)", {"max_iters": 3}),
    "gbp of a chain": ("infer", "gbp", "chain(50)", "chain(60000)", {"max_iters": 3}),
    "double_loop of factors": ("infer", "double_loop", "wide(50)", "wide(8000)", {"max_iters": 3}),
    "convex_gbp of two states": ("infer", "convex_gbp", "grid(12, 2)", "grid(120, 2)", {"max_iters": 3}),
    "convex_gbp of ten states": ("infer", "convex_gbp", "grid(8, 10)", "grid(40, 10)", {"max_iters": 3}),
    "samples of a chain": ("sample", "junction_tree", "chain(50)", "chain(60000)", {"n": 200}),
    "samples by gibbs": ("sample", "gibbs", "grid(12, 2)", "grid(150, 2)", {"n": 1000}),
    "local_search of a star": ("maximize", "local_search", "star(50)", "star(100000)", {"max_iters": 60}),
    "local_search of a chain": ("maximize", "local_search", "chain(50)", "chain(100000)", {"max_iters": 60}),
    "local_search of two layers": ("maximize", "local_search", "layers(20, 10)", "layers(600, 400)", {"max_iters": 60}),
    "local_search of a dense graph": (
        "maximize",
        "local_search",
        "complete(20, 3)",
        "complete(400, 3)",
        {"max_iters": 60},
    ),
    "local_search of a query": ("marginal_map", "local_search", "grid(12, 2)", "grid(200, 2)", {"max_iters": 60}),
    "local_search of factors": ("marginal_map", "local_search", "wide(50)", "wide(8000)", {"max_iters": 60}),
    "second order": ("infer", "mean_field(order=2)", "machine(20, 10)", "machine(2500, 2200)", {"max_iters": 5}),
}
QUICK = ("mini_bucket",)
SHARE = 0.2

PROBE = """
import ctypes, gc, re, sys, warnings
import numpy as np
import beliefs as bl
from beliefs.kernels._jit import Twofold

def grid(n, k):
    rng, at = np.random.default_rng(0), np.arange(n * n).reshape(n, n)
    pairs = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    edges = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs])
    return bl.FactorGraph.pairwise(0.3 * rng.normal(size=(n * n, k)), edges, 0.3 * rng.normal(size=(len(edges), k, k)))

def joined(n, k, edges, scale=1.0):
    rng = np.random.default_rng(0)
    return bl.FactorGraph.pairwise(rng.normal(size=(n, k)), edges, scale * rng.normal(size=(len(edges), k, k)))

def complete(n, k=2, scale=1.0):
    return joined(n, k, np.stack(np.tril_indices(n, -1), axis=1), scale)

def star(n):
    return joined(n, 2, np.stack([np.zeros(n - 1, int), np.arange(1, n)], axis=1))

def chain(n):
    return joined(n, 2, np.stack([np.arange(n - 1), np.arange(1, n)], axis=1))

def layers(n, m):
    return machine(n, m).to_factor_graph()

def wide(n):
    rng, at = np.random.default_rng(1), np.arange(5) * 7
    tables = [(tuple(((i + at) % n).tolist()), rng.normal(size=32)) for i in range(n)]
    return bl.FactorGraph.from_tables([2] * n, tables, log=True)

def network(n):
    rng = np.random.default_rng(0)
    scopes = [(*rng.choice(np.arange(max(0, i - 10), i), min(i, 3), replace=False).tolist(), i) for i in range(n)]
    tables = [(scope, rng.dirichlet(np.ones(4), size=(4,) * (len(scope) - 1))) for scope in scopes]
    return bl.BayesianNetwork.from_factor_graph(bl.FactorGraph.from_tables([4] * n, tables))

def machine(n, m):
    rng = np.random.default_rng(0)
    return bl.RBM(0.02 * rng.normal(size=(n, m)), 0.1 * rng.normal(size=n), 0.1 * rng.normal(size=m))

def status(key):
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(key)).split()[1])

def predicted(ask, graph, budget=1):
    try:
        ask(graph, method, max_bytes=budget, threads=1, **options)
    except bl.BudgetError as error:
        size = re.search(r"needs? ([\\d.]+) (B|kB|MB|GB)", str(error))
        if size is not None:
            return float(size[1]) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[size[2]]
        states = re.search(r"2\\^([\\d.]+) joint states of (\\d+) bytes", str(error))
        return 2.0 ** float(states[1]) * int(states[2])

warnings.simplefilter("ignore")
task, method, small, large, options = sys.argv[1], sys.argv[2], eval(sys.argv[3]), sys.argv[4], eval(sys.argv[5])
door, size = getattr(bl, task), [options.pop("n")] if "n" in options else []
every_second = lambda model: [list(range(0, model.n_vars, 2))] if task == "marginal_map" else size
Twofold.always_compiled = True  # else a small question leaves the compiler to the large one
ask = lambda model, method, **options: door(model, *every_second(model), method, **options)
ask(small, method, threads=1, **options)
needed = predicted(ask, eval(large))
if size:  # refused for the samples alone at first
    needed = predicted(ask, eval(large), int(1.01 * needed)) or needed
graph = eval(large)
gc.collect()
ctypes.CDLL(None).malloc_trim(0)  # what was freed would be used again, and not be counted
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
ask(graph, method, threads=1, max_bytes=int(1.01 * needed), **options)
print(needed, status("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks of memory are read from /proc")
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.long]) for n in CASES])
def test_memory_taken_is_the_memory_predicted(name: str) -> None:
    task, method, small, large, options = CASES[name]
    arguments = [task, method, small, large, repr(options)]
    done = subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, check=True)
    needed, used = map(float, done.stdout.split())
    assert (1 - SHARE) * needed <= used <= (1 + SHARE) * needed
