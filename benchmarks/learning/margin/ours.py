"""Our side of the max-margin benchmark, in a process of its own."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np

from beliefs.learning.chains.margin import ChainMargin
from beliefs.learning.chains.template import ChainTemplate
from beliefs.learning.chains.tokens import DenseTokens
from beliefs.learning.fit import fit
from beliefs.learning.instances import Instance
from beliefs.model.layout import Layout
from benchmarks.jobs import Answer, Report, serve
from benchmarks.learning.margin import data

STATES, PIXELS = 26, 128


def problem(fold: int | None, limit: int | None, c: float, threads: int = 1) -> tuple[ChainMargin, list[Instance]]:
    """Return the loss and the instances: a table of transitions, no intercept, Hamming costs."""
    X, Y = data.words(fold, limit)
    layouts: dict[int, Layout] = {}
    instances = [Instance(layout(len(y), layouts), DenseTokens(x), y) for x, y in zip(X, Y, strict=True)]
    template = ChainTemplate(STATES, PIXELS)
    return ChainMargin(template=template, l2=0.5 / (c * sum(map(len, Y))), threads=threads), instances


def layout(n: int, known: dict[int, Layout]) -> Layout:
    """Return the layout of a chain of n letters, one for all of the same length."""
    if n not in known:
        scopes = [[t] for t in range(n)] + [[t, t + 1] for t in range(n - 1)]
        cells = [STATES * t for t in range(n)] + [n * STATES] * (n - 1)
        ptr = np.concatenate([[0], np.cumsum([len(scope) for scope in scopes])])
        known[n] = Layout.build(np.full(n, STATES), ptr, np.concatenate(scopes), np.array(cells))
    return known[n]


def clocked(run: Any) -> tuple[float, float, Any]:
    """Return wall clock, processor time and what was returned."""
    wall, processor = time.perf_counter(), time.process_time()
    found = run()
    return time.perf_counter() - wall, time.process_time() - processor, found


def one_pass(request: Answer, report: Report) -> None:
    """Time a pass of Frank-Wolfe: the difference of two numbers of passes, divided."""
    loss, instances = problem(None, request["limit"], request["c"])
    few, many = request["iterations"]

    def passes(n: int) -> Any:
        return fit(loss, instances, optimizer="bcfw(gap_every=1000000)", max_iters=n, tol=0.0)

    passes(1)
    short, long = clocked(lambda: passes(few)), clocked(lambda: passes(many))
    report(
        wall=(long[0] - short[0]) / (many - few),
        processor=(long[1] - short[1]) / (many - few),
        words=len(instances),
        objective=long[2].loss * request["c"] * sum(i.labels.size for i in instances),
    )


def to_a_gap(request: Answer, report: Report) -> None:
    """Time a fit of one fold until the gap is a share of the objective."""
    loss, instances = problem(data.FOLD, request["limit"], request["c"])
    fit(loss, instances, optimizer="bcfw", max_iters=1)
    loss.forget()
    wall, processor, result = clocked(lambda: fit(loss, instances, optimizer="bcfw", tol=request["gap"]))
    scale = request["c"] * sum(i.labels.size for i in instances)
    report(
        wall=wall, processor=processor, words=len(instances), passes=result.n_iters,
        objective=scale * result.loss, gap=scale * result.gap,
    )  # fmt: skip


def memory(request: Answer, report: Report) -> None:
    """Compare what the dual takes with the cells of all instances, and with weights for each instance."""
    loss, instances = problem(None, request["limit"], request["c"])
    loss.evaluate(np.zeros(loss.n_weights), instances)  # the union is laid out
    fit(loss, instances[:2], optimizer="bcfw", max_iters=1)
    tracemalloc.start()
    fit(loss, instances, optimizer="bcfw", max_iters=2, tol=0.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    cells = sum(i.layout.n_cells for i in instances)
    report(cells=8 * cells, weights=8 * loss.n_weights * len(instances), peak=peak, words=len(instances))


if __name__ == "__main__":
    serve({"pass": one_pass, "gap": to_a_gap, "memory": memory})
