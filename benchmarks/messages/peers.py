"""pyGMs' side, in a process of its own, from the same arrays. Needs numpy and pygms, not beliefs.

Its functions return after a number of iterations, so that the time of one is a difference of two calls. They also
compute the value of log Z in each iteration; there is no way to leave that out.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np

from benchmarks.clock import least
from benchmarks.jobs import Answer, Report, load_arrays, serve

ITERATIONS = (1, 3)
REPEATS = 3


def build(case: Any) -> Any:
    """Return its model of ``unary``, ``edges`` and ``tables``."""
    import pygms as gm

    n_vars, n_states = case["unary"].shape
    variables = [gm.Var(v, n_states) for v in range(n_vars)]
    factors = [gm.Factor([variables[v]], np.exp(row)) for v, row in enumerate(case["unary"])]
    for (u, v), table in zip(case["edges"].tolist(), case["tables"], strict=True):
        factors.append(gm.Factor([variables[u], variables[v]], np.exp(table)))  # scopes are sorted: u < v
    return gm.GraphModel(factors)


def one_iteration(run: Any, model: Any) -> float:
    """Return the seconds of one iteration."""
    few, many = (least(lambda n=n: run(model, maxIter=n), REPEATS) for n in ITERATIONS)
    return (many - few) / (ITERATIONS[1] - ITERATIONS[0])


def sweeps(request: Answer, report: Report) -> None:
    """Measure belief propagation and mean field, nanoseconds a message and a vertex."""
    from pygms import messagepass

    case = load_arrays(request["case"])
    model = build(case)
    report(
        version=metadata.version("pygms"),
        bp=1e9 * one_iteration(messagepass.LBP, model) / (2 * len(case["edges"])),
        mean_field=1e9 * one_iteration(messagepass.NMF, model) / len(case["unary"]),
    )


if __name__ == "__main__":
    serve({"sweeps": sweeps})
