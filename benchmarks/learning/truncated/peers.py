"""The same truncated TRW written with torch autograd, in a process of its own, from the same arrays. Needs torch.

What a user would write: log domain, float64, every colour class of edges (which share no vertex) at once, messages of a
class as one array; autograd keeps what it needs for the way back.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.jobs import Answer, Report, load_arrays, serve


def passed(case: Any, unary: Any, tables: list[Any], n_passes: int) -> Any:
    """Return the log beliefs after passes over the classes, in turn forwards and backwards."""
    import torch

    rho, states = float(case["rho"]), unary.shape[1]
    ends = [torch.from_numpy(case[f"ends{c}"]) for c in range(len(tables))]
    messages = [torch.full((2, e.shape[1], states), -np.log(states), dtype=torch.float64) for e in ends]
    beta = unary
    for e, m in zip(ends, messages, strict=True):
        beta = beta.index_add(0, e.reshape(-1), rho * m.reshape(-1, states))
    for t in range(n_passes):
        for c in range(len(ends)) if t % 2 == 0 else range(len(ends) - 1, -1, -1):
            cavity = beta[ends[c]] - messages[c]
            to_u = torch.logsumexp(tables[c] + cavity[1][:, None, :], 2)
            to_v = torch.logsumexp(tables[c] + cavity[0][:, :, None], 1)
            new = torch.log_softmax(torch.stack([to_u, to_v]), 2)
            beta = beta.index_add(0, ends[c].reshape(-1), rho * (new - messages[c]).reshape(-1, states))
            messages[c] = new
    return beta


def sweeps(request: Answer, report: Report) -> None:
    """Measure seconds a pass: forward alone, and forward and backward; and keep the gradient to compare."""
    import torch

    torch.set_num_threads(1)
    case = load_arrays(request["case"])
    n, best = request["passes"], [np.inf, np.inf]
    n_classes = sum(name.startswith("ends") for name in case)
    for _ in range(request["rounds"]):
        unary = torch.tensor(case["unary"], requires_grad=True)
        given = [torch.tensor(case[f"tables{c}"], requires_grad=True) for c in range(n_classes)]
        start = time.process_time()
        beta = passed(case, unary, [table / float(case["rho"]) for table in given], n)
        loss = (torch.softmax(beta, 1) * torch.from_numpy(case["bar"])).sum()
        forward = time.process_time()
        loss.backward()
        best = [min(best[0], (forward - start) / n), min(best[1], (time.process_time() - start) / n)]
        report(version=torch.__version__, passes=n, forward=best[0], whole=best[1])
    np.savez(request["gradient"], unary=unary.grad, **{f"tables{c}": given[c].grad for c in range(n_classes)})


if __name__ == "__main__":
    serve({"sweeps": sweeps})
