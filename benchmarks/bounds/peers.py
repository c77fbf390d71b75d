"""pyGMs' side of weighted mini-bucket, in a process of its own, from the same arrays. Needs numpy and pygms."""

from __future__ import annotations

import time
from importlib import metadata

import numpy as np

from benchmarks.jobs import Answer, Report, load_arrays, serve
from benchmarks.messages.peers import build

REPEATS = 2


def passes(request: Answer, report: Report) -> None:
    """Measure a forward pass with matching and a backward pass; its ``iBound`` counts the variables of a cluster."""
    from pygms.wmb import WMB

    case = load_arrays(request["case"])
    tree = WMB(build(case), elimOrder=case["order"].tolist(), iBound=request["ibound"] + 1)
    nodes = [node for bucket in tree.buckets for node in bucket]
    report(version=metadata.version("pygms"), clusters=len(nodes), largest=max(len(node.clique) for node in nodes))
    report(cells=float(sum(2.0 ** len(node.clique) for node in nodes)))
    up, down = np.inf, np.inf
    for _ in range(REPEATS):
        start = time.perf_counter()
        tree.msgForward(0.5, 0.1)
        up = min(up, time.perf_counter() - start)
        start = time.perf_counter()
        tree.msgBackward()
        down = min(down, time.perf_counter() - start)
        report(up=up, down=down)


if __name__ == "__main__":
    serve({"passes": passes})
