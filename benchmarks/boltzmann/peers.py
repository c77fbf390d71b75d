"""Peers' sides of Boltzmann machines: epochs of rbms, learnergy and plain PyTorch, and an annealing step of rbms.

All on one thread, in float32, on rows of random bits; the least of some rounds, in time and in processor time.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from importlib import import_module, metadata
from typing import Any

from benchmarks.jobs import Answer, Report, serve

CLOCKS = {"time": time.perf_counter, "processor": time.process_time}


def least(work: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Return the least seconds of some rounds after one that counts for nothing, by clock."""
    work()
    taken: dict[str, list[float]] = {name: [] for name in CLOCKS}
    for _ in range(rounds):
        begin = {name: now() for name, now in CLOCKS.items()}
        work()
        for name, now in CLOCKS.items():
            taken[name].append(now() - begin[name])
    return {name: min(values) for name, values in taken.items()}


def bits(request: Answer) -> tuple[Any, Any]:
    """Return PyTorch on one thread, and rows of random bits."""
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return torch, torch.bernoulli(torch.full((request["rows"], request["visible"]), 0.5))


def plain(request: Answer, report: Report) -> None:
    """Persistent contrastive divergence written down in PyTorch: five products, two draws and an update in place."""
    torch, rows = bits(request)
    n, m, batch, rate = request["visible"], request["hidden"], request["batch"], 0.01
    weights, b, a = 0.01 * torch.randn(n, m), torch.zeros(n), torch.zeros(m)
    hidden = torch.bernoulli(torch.full((batch, m), 0.5))

    def epoch() -> None:
        nonlocal hidden
        for v in rows[torch.randperm(len(rows))].split(batch):
            p = torch.sigmoid(v @ weights + a)
            chain = torch.bernoulli(torch.sigmoid(hidden[: len(v)] @ weights.T + b))
            q = torch.sigmoid(chain @ weights + a)
            hidden = torch.bernoulli(q)
            weights.add_(v.T @ p, alpha=rate / len(v)).sub_(chain.T @ q, alpha=rate / len(v))
            b.add_((v - chain).mean(0), alpha=rate)
            a.add_((p - q).mean(0), alpha=rate)

    report(version=torch.__version__, epoch=least(epoch, request["rounds"]))


def rbms(request: Answer, report: Report) -> None:
    """Epochs of ``fit_batch_pcd`` with plain gradients, and temperatures of ``compute_partition_function_ais``."""
    torch, rows = bits(request)
    machine: Any = import_module("rbms.bernoulli_bernoulli.classes").BBRBM
    fit_batch: Any = import_module("rbms.training.pcd").fit_batch_pcd
    anneal: Any = import_module("rbms.partition_function.ais").compute_partition_function_ais
    n, m, batch = request["visible"], request["hidden"], request["batch"]
    params = machine(0.01 * torch.randn(n, m), torch.zeros(n), torch.zeros(m))
    params.init_grad()
    optimizer = torch.optim.SGD(params.parameters(), lr=0.01)
    state = {"chains": params.init_chains(batch)}
    ones = torch.ones(batch, 1)

    def epoch() -> None:
        for v in rows[torch.randperm(len(rows))].split(batch):
            state["chains"], _ = fit_batch((v, ones[: len(v)]), state["chains"], params, 1, 1.0, centered=False)
            optimizer.step()

    found: dict[str, Any] = {"epoch": least(epoch, request["rounds"])}
    short, long = (least(lambda k=k: anneal(request["chains"], k, params), 3) for k in (4, 12))  # type: ignore[misc]
    found["annealing"] = {clock: (long[clock] - short[clock]) / 8 for clock in CLOCKS}
    report(version=metadata.version("rbms"), **found)


def learnergy(request: Answer, report: Report) -> None:
    """Epochs of its RBM, which also computes errors and pseudo-likelihoods of every mini-batch."""
    torch, rows = bits(request)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        models: Any = import_module("learnergy.models.bernoulli")
        model = models.RBM(n_visible=request["visible"], n_hidden=request["hidden"], steps=1, learning_rate=0.01)
        data = torch.utils.data.TensorDataset(rows, torch.zeros(len(rows)))
        epoch = least(lambda: model.fit(data, batch_size=request["batch"], epochs=1), request["rounds"])
    report(version=metadata.version("learnergy"), epoch=epoch)


if __name__ == "__main__":
    serve({"torch": plain, "rbms": rbms, "learnergy": learnergy})
