"""Tables of a network from rows: counting, EM and trees, beside NumPy, pyAgrum, pgmpy and pomegranate.

    python -m benchmarks.rows.networks [--quick] [--only NAMES] [--json FILE] [--markdown FILE] [--from FILE]
                                       [--no-peers] [--peers-python FILE] [--data FOLDER]

``counting``: all families of alarm (37 variables), 1e6 rows drawn from it; ``wide``: of a random network of 100. Beside
NumPy's ``bincount`` a family on columns of bytes, and, with loading counted for all, peers. Ours reads an array of
64-bit integers, and so does pomegranate; pyAgrum reads a CSV file, as it always does, pgmpy has a frame in memory.
``em``: an iteration with a tenth of the cells missing, beside ``condition`` and ``infer`` row by row (a sample of rows,
scaled up) and pyAgrum (two runs with different numbers of iterations, their difference). ``chow_liu``: the 60,000 x 784
digits, binarised, beside one matrix product of that size.
Everything on one thread but where it says two.
"""

from __future__ import annotations

import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.datasets.home import data_home
from beliefs.inference.parallel import one_thread_of_blas
from beliefs.inference.rows.sweep import RowSweep
from beliefs.learning.networks.counts import count
from beliefs.learning.networks.structure import Structure
from beliefs.learning.networks.trees import mutual_information, spanning_tree
from beliefs.learning.parallel import executor_of
from beliefs.model.rows.reading import read_rows
from benchmarks.clock import least
from benchmarks.frame import Options, Result, Run, Suite
from benchmarks.tables import table

PARTS = ("counting", "wide", "em", "chow_liu")
PEERS = ("pyagrum", "pgmpy", "pomegranate")
MISSING, ASKED = 0.1, 100  # share of cells; rows that are asked one by one
FEW, MANY = 2, 4  # iterations of EM of the peer


def by_bincount(codes: np.ndarray, layout: Any) -> None:
    """Count all families with NumPy."""
    for v in range(layout.n_vars):
        index = np.zeros(codes.shape[1], np.int64)
        for u in layout.scope(v):
            index = index * layout.card[u] + codes[u]
        np.bincount(index, minlength=int(layout.factor_size[v]))


def write_rows(network: bl.BayesianNetwork, rows: np.ndarray, path: Path) -> str:
    """Write what peers read."""
    names = [variable.name for variable in network.variables]
    np.savez(path, X=rows, names=names, edges=network.edges, card=network.graph.layout.card)
    return str(path)


def random_network(n: int = 100, seed: int = 5) -> bl.BayesianNetwork:
    """Return a network in which a variable has 2 to 4 states and up to 3 parents among the ten before it."""
    rng = np.random.default_rng(seed)
    card = rng.integers(2, 5, n)
    cpts = {}
    for v in range(n):
        above = sorted(
            rng.choice(np.arange(max(0, v - 10), v), min(v, int(rng.integers(0, 4))), replace=False).tolist()
        )
        table = rng.dirichlet(np.ones(card[v]), [int(card[u]) for u in above])
        cpts[f"v{v}"] = ([f"v{u}" for u in above], table)
    return bl.BayesianNetwork.from_cpts([bl.Variable(f"v{v}", int(k)) for v, k in enumerate(card)], cpts)


def wide(run: Run, network: bl.BayesianNetwork) -> None:
    """Measure the same on a hundred variables."""
    counting(run, random_network(), "wide")


def counting(run: Run, network: bl.BayesianNetwork, name: str = "counting") -> None:
    """Measure reading, counting, memory, and peers."""
    n = 20_000 if run.options.quick else 1_000_000
    rows, layout = network.sample(n, 1), network.graph.layout
    structure = Structure(network.graph.naming, layout)
    codes = read_rows(rows, network.graph.naming)
    found: Result = {
        "rows": n,
        "read": least(lambda: read_rows(rows, network.graph.naming), 3),
        "count": least(lambda: count(structure, codes, executor_of(1)), 5),
        "count, two threads": least(lambda: count(structure, codes, executor_of(2)), 5),
        "bincount": least(lambda: by_bincount(codes.codes, layout), 3),
        "fit": least(lambda: bl.BNLearner(network).fit(rows), 3),
    }
    tracemalloc.start()
    bl.BNLearner(network).fit(rows)
    found["peak bytes a cell"] = tracemalloc.get_traced_memory()[1] / rows.size
    tracemalloc.stop()
    if not run.options.no_peers:
        request = {"rows": write_rows(network, rows, run.folder / "rows.npz"), "csv": str(run.folder / "rows.csv")}
        for peer in PEERS:
            found[peer] = run.ask("benchmarks.rows.peers", {"task": peer, "iterations": 0, **request}, peer, peer=True)
    run.result[name] = found


def em(run: Run, network: bl.BayesianNetwork) -> None:
    """Measure an iteration of EM."""
    n = 500 if run.options.quick else 10_000
    rows = network.sample(n, 2)
    rows[np.random.default_rng(3).random(rows.shape) < MISSING] = -1
    layout = network.graph.layout
    codes = read_rows(rows, network.graph.naming)
    start = time.perf_counter()
    sweep = RowSweep(layout, codes)
    planned = time.perf_counter() - start

    def one_by_one() -> None:
        for row in rows[:ASKED]:
            bl.infer(network.condition({v: int(x) for v, x in enumerate(row) if x >= 0}))

    found: Result = {
        "rows": n,
        "plan": planned,
        "iteration": least(lambda: sweep.run(network.probabilities), 5),
        "row by row": least(one_by_one, 2) * n / ASKED,
    }
    if not run.options.no_peers:
        request = {"rows": write_rows(network, rows, run.folder / "rows.npz"), "csv": str(run.folder / "rows.csv")}
        asked = [
            run.ask("benchmarks.rows.peers", {"task": "pyagrum", "iterations": k, **request}, "pyagrum", peer=True)
            for k in (FEW, MANY)
        ]
        if all("counting" in answer for answer in asked):
            found["pyagrum"] = (asked[1]["counting"] - asked[0]["counting"]) / (MANY - FEW)
    run.result["em"] = found


def digits() -> np.ndarray:
    """Return the binarised digits, or bits of the same size where they are not there."""
    for path in Path(data_home()).glob("images/mnist/*train*images*") if os.environ.get("BELIEFS_DATA") else ():
        import gzip

        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return (np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 784) > 127).astype(np.int8)
    return (np.random.default_rng(4).random((60_000, 784)) < 0.3).astype(np.int8)


def chow_liu(run: Run, network: bl.BayesianNetwork) -> None:
    """Measure the tree of the digits beside one product."""
    rows = digits()[: 2000 if run.options.quick else None]
    dense = rows.astype(np.float32)
    codes = read_rows(rows)
    with one_thread_of_blas():
        run.result["chow_liu"] = {
            "shape": list(rows.shape),
            "product": least(lambda: dense.T @ dense, 2),
            "tree": least(lambda: spanning_tree(mutual_information(codes), 0), 2),
            "read": least(lambda: read_rows(rows), 2),
        }


def measure(run: Run) -> None:
    """Measure the parts that were asked for."""
    network = bl.datasets.load_bn("alarm")
    for part in run.options.parts:
        {"counting": counting, "wide": wide, "em": em, "chow_liu": chow_liu}[part](run, network)


def page(result: Result, options: Options) -> str:
    """Return the measurements as tables."""
    rows: list[list[str]] = []
    for name, title in (("counting", "alarm"), ("wide", "100 variables")):
        if name not in result:
            continue
        c = result[name]
        what = f"all families of {title}, {c['rows']:,} rows"
        rows.append(
            [f"{what}: counts", f"{c['count']:.3f} s", "bincount a family", f"{c['bincount'] / c['count']:.1f}x"]
        )
        threads = c["count"] / c["count, two threads"]
        rows.append(
            [f"{what}: counts, two threads", f"{c['count, two threads']:.3f} s", "one thread", f"{threads:.2f}x"]
        )
        for peer in PEERS:
            if "counting" in c.get(peer, {}):
                seconds = c[peer]["counting"] + c[peer].get("loading", 0.0)
                beside = f"{peer} {c[peer]['version']}, {seconds:.2f} s"
                rows.append([f"{what}: reading and tables", f"{c['fit']:.3f} s", beside, f"{seconds / c['fit']:.1f}x"])
        rows.append([f"{what}: peak memory", f"{c['peak bytes a cell']:.2f} bytes a cell", "", ""])
    if "em" in result:
        e = result["em"]
        what = f"EM iteration, alarm, {e['rows']:,} rows, a tenth missing"
        for name in ("row by row", "pyagrum"):
            if name in e:
                beside = f"{name}, {e[name]:.2f} s"
                rows.append([what, f"{1e3 * e['iteration']:.1f} ms", beside, f"{e[name] / e['iteration']:.0f}x"])
        rows.append([f"{what}: plans, once", f"{e['plan']:.2f} s", "", ""])
    if "chow_liu" in result:
        t = result["chow_liu"]
        rows.append(
            ["Chow-Liu, {} x {} bits".format(*t["shape"]), f"{t['tree']:.2f} s", f"one product, {t['product']:.2f} s",
             f"{t['tree'] / t['product']:.2f} of it"]
        )  # fmt: skip
    return f"{table(['work', 'ours', 'beside', ''], rows)}\n"


SUITE = Suite("rows.networks", __doc__, measure, page, PARTS, quick="few rows", has_peers=True)

if __name__ == "__main__":
    SUITE.main()
