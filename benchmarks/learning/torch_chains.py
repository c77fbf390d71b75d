"""Chains inside networks: log Z, its gradient, and marginals of batches, beside torch-struct, in the same process.

    python -m benchmarks.learning.torch_chains [--quick] [--json FILE] [--markdown FILE] [--from FILE]

Batches of chains with a table an edge, ``(batch, length - 1, K, K)`` log potentials, double precision, two threads for
both. A gradient is that of the sum of log Z; of marginals, that of a random projection of them. Where torch-struct is
not installed ours is measured alone.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import beliefs as bl
from benchmarks.clock import least
from benchmarks.frame import Options, Result, Run, Suite
from benchmarks.tables import table

SIZES = ((32, 20, 8), (32, 50, 8), (8, 50, 20))  # batch, length, states
REPEATS = 3


def measure(run: Run) -> None:
    import torch

    torch.set_num_threads(2)
    peer = importlib.util.find_spec("torch_struct") is not None
    if not peer:
        run.note("torch-struct is not installed; ours alone")
    rows = run.result["rows"] = []
    for batch, length, states in SIZES[:2] if run.options.quick else SIZES:
        found = questions(batch, length, states, peer)
        times = {name: least(task, REPEATS) for name, task in found.items()}
        rows.append({"batch": batch, "length": length, "states": states, "seconds": times})


def questions(batch: int, length: int, states: int, peer: bool) -> dict[str, Callable[[], Any]]:
    """Return what is timed; both answers are compared first."""
    import torch

    from beliefs.torch import log_partition, marginals

    rng = np.random.default_rng(0)
    edges = [(k, k + 1) for k in range(length - 1)]
    tables = torch.tensor(rng.normal(size=(batch, length - 1, states, states)), requires_grad=True)
    along = torch.tensor(rng.normal(size=tables.shape))
    graph = bl.FactorGraph.from_tables(
        [states] * length, [(edge, np.zeros((states, states))) for edge in edges], log=True
    )

    def ours() -> Any:
        return log_partition(tables.reshape(batch, -1), graph.layout)

    def our_marginals() -> Any:
        return marginals(tables.reshape(batch, -1), graph.layout).mu.reshape(tables.shape)

    found: dict[str, Callable[[], Any]] = {
        "log Z and gradient, ours": lambda: torch.autograd.grad(ours().sum(), tables),
        "marginals, ours": our_marginals,
        "marginals and gradient, ours": lambda: torch.autograd.grad((our_marginals() * along).sum(), tables),
    }
    if not peer:
        return found
    import torch_struct

    def theirs() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # their tables are (state after, state before)
            return torch_struct.LinearChainCRF(tables.transpose(2, 3))

    def their_marginals() -> Any:
        return theirs().marginals.transpose(2, 3)

    assert torch.allclose(theirs().partition, ours())
    assert torch.allclose(their_marginals(), our_marginals())
    return found | {
        "log Z and gradient, torch-struct": lambda: torch.autograd.grad(theirs().partition.sum(), tables),
        "marginals, torch-struct": their_marginals,
        "marginals and gradient, torch-struct": lambda: torch.autograd.grad((their_marginals() * along).sum(), tables),
    }


def page(result: Result, options: Options) -> str:
    rows = []
    for row in result["rows"]:
        for what in ("log Z and gradient", "marginals", "marginals and gradient"):
            ours, theirs = (row["seconds"].get(f"{what}, {who}") for who in ("ours", "torch-struct"))
            size = f"{row['batch']} x {row['length']} x {row['states']}"
            ratio = "" if theirs is None else f"{theirs / ours:.1f}"
            rows.append([size, what, f"{1e3 * ours:.1f}", "" if theirs is None else f"{1e3 * theirs:.1f}", ratio])
    return table(["batch x length x states", "", "ours, ms", "torch-struct, ms", "ratio"], rows)


def missing() -> str:
    return "" if importlib.util.find_spec("torch") else "torch is not installed: make torch"


SUITE = Suite("learning.torch_chains", __doc__, measure, page, missing=missing)

if __name__ == "__main__":
    SUITE.main()
