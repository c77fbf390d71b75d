"""Many rows of evidence about one network: ``infer_many`` beside pyAgrum's lazy propagation, row by row.

    python -m benchmarks.many [--quick] [--only NAMES] [--json FILE] [--markdown FILE] [--from FILE]
                              [--no-peers] [--peers-python FILE] [--data FOLDER]

A tenth of the variables, three at least, is observed: the ``same`` ones in every row, ``varying`` ones, or the same
with ``one`` target. Ours is a call with all rows, the first of its kind for the structure, so that plans are counted;
``again`` is the next call. pyAgrum has its network compiled for the targets, gets the evidence of each row and is asked
for all posteriors, or for the one; of slow networks it is given as many rows as half a minute holds. All in processor
time on one thread; ``threads`` is the gain of a second thread by the clock, which means something on a quiet machine.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np

import beliefs as bl
from benchmarks.clock import least
from benchmarks.frame import Options, Result, Run, Suite
from benchmarks.tables import table

NETWORKS = ("asia", "alarm", "hailfinder", "andes", "munin")
KINDS = ("same", "varying", "one")
ROWS, FEW = 1000, 50
CAP = 30.0  # seconds of the peer


def evidence_rows(network: bl.BayesianNetwork, kind: str, n: int) -> np.ndarray:
    """Return states of some variables drawn from the network, -1 for the others."""
    rng, drawn = np.random.default_rng(0), network.sample(n, 1)
    n_vars = drawn.shape[1]
    count = max(3, n_vars // 10)
    fixed, rows = rng.choice(n_vars, count, replace=False), np.full_like(drawn, -1)
    for row, states in zip(rows, drawn, strict=True):
        seen = rng.choice(n_vars, count, replace=False) if kind == "varying" else fixed
        row[seen] = states[seen]
    return rows


def measure(run: Run) -> None:
    """Measure all kinds of rows on the networks that were asked for."""
    bl.infer_many(bl.datasets.load_bn("cancer"), [{}, {"Smoker": 0}], threads=1)  # loads the kernels
    for name in run.options.parts:
        network = bl.datasets.load_bn(name)
        file = run.folder / f"{name}.bif"
        bl.write(network, file)
        for kind in KINDS:
            run.result.setdefault("cells", {})[f"{name} {kind}"] = cell(run, name, file, kind)


def cell(run: Run, name: str, file: Path, kind: str) -> Result:
    """Measure one kind of rows on one network."""
    network = bl.datasets.load_bn(name)  # without plans
    rows = evidence_rows(network, kind, FEW if run.options.quick else ROWS)
    target = int(np.flatnonzero(rows[0] < 0)[0])
    targets = [target] if kind == "one" else None

    def ours(threads: int = 1) -> Any:
        return bl.infer_many(network, rows, targets=targets, threads=threads)

    first = least(ours, 1, time.process_time)
    repeats = 3 if first < 2.0 else 1
    found: Result = {
        "rows": len(rows),
        "first": first / len(rows),
        "again": least(ours, repeats, time.process_time) / len(rows),
        "threads": least(ours, repeats) / least(lambda: ours(2), repeats),
    }
    if not run.options.no_peers:
        np.savez(run.folder / "many.npz", X=rows)
        request = {"task": "many", "rows": str(run.folder / "many.npz"), "network": str(file), "cap": CAP}
        found["pyagrum"] = run.ask("benchmarks.rows.peers", request | {"target": targets}, "pyagrum", peer=True)
        if "seconds" in found["pyagrum"]:
            mine = ours().marginal(target)[: found["pyagrum"]["rows"]]
            found["difference"] = float(np.abs(mine - np.array(found["pyagrum"]["posteriors"].pop(str(target)))).max())
            del found["pyagrum"]["posteriors"]
    return found


def page(result: Result, options: Options) -> str:
    """Return the measurements as a table, and the geometric mean of the ratios."""
    rows, ratios = [], []
    for what, c in result["cells"].items():
        peer = c.get("pyagrum", {})
        shown = ["", "", ""]
        if "seconds" in peer:
            ratios.append(peer["seconds"] / c["first"])
            again = peer["seconds"] / c["again"]
            shown = [f"{1e6 * peer['seconds']:.0f} µs", f"{ratios[-1]:.1f}x", f"{again:.1f}x"]
        rows.append([what, f"{1e6 * c['first']:.1f} µs", f"{1e6 * c['again']:.1f} µs", *shown, f"{c['threads']:.2f}x"])
    head = ["network, rows", "ours, a row", "again", "pyAgrum, a row", "times", "times, again", "two threads"]
    text = f"{table(head, rows)}\n"
    if ratios:
        mean = math.exp(float(np.mean(np.log(ratios))))
        text += f"\nGeometric mean of {len(ratios)} ratios, plans counted: {mean:.0f}x; least: {min(ratios):.1f}x.\n"
    return text


SUITE = Suite(
    "many", __doc__, measure, page, NETWORKS, quick_parts=("asia", "alarm"), quick="two networks, few rows",
    has_peers=True,
)  # fmt: skip

if __name__ == "__main__":
    SUITE.main()
