"""Our side of the max-margin benchmark, in a process of its own."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from beliefs.learning.chains.likelihood import ChainLikelihood
from beliefs.learning.chains.margin import ChainMargin
from beliefs.learning.chains.template import ChainTemplate
from beliefs.learning.chains.tokens import DenseTokens
from beliefs.learning.fit import fit
from beliefs.learning.instances import Instance
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.learning.parallel import executor_of
from beliefs.model.features import FactorType, LogLinearTemplate, Rows
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


def to_planes(request: Answer, report: Report) -> None:
    """Time ``one_slack`` on digits, one vertex each, until the gap is a thousandth of the objective."""
    X, Y = data.digits(request["digits"])
    alone = Layout.build(np.array([10]), np.array([0, 1]), np.array([0]), np.array([0]))
    instances = [Instance(alone, (Rows(1, x[None]),), np.array([y])) for x, y in zip(X, Y, strict=True)]
    template = LogLinearTemplate([FactorType("digits", 10, X.shape[1])])
    loss = MaxMargin(template=template, l2=0.5 / (request["digits_c"] * len(X)))
    fit(loss, instances, optimizer="one_slack", max_iters=2)
    loss.forget()
    wall, processor, result = clocked(lambda: fit(loss, instances, optimizer="one_slack", tol=request["excess"]))
    scale = request["digits_c"] * len(X)
    report(
        wall=wall, processor=processor, words=len(X), passes=result.n_evaluations,
        objective=scale * result.loss, gap=scale * result.gap,
    )  # fmt: skip


def threads(request: Answer, report: Report) -> None:
    """Time evaluations, ``one_slack`` and ``cccp`` on words with one thread and with two, by the wall clock.

    Products of matrices that stay in a core's cache, without Python between them, say what the machine has to give.
    """
    one, two = (works(request, n) for n in (1, 2))
    best = {name: [np.inf, np.inf] for name in one}
    for turn in range(6):  # in alternation: what slows the machine for a moment slows both
        for side, runs in enumerate((one, two)):
            for name, run in runs.items():
                wall = clocked(run)[0]
                best[name][side] = min(best[name][side], wall) if turn else np.inf
    report(seconds=best)


def works(request: Answer, n_threads: int) -> dict[str, Callable[[], Any]]:
    """Return each kind of work, to be done on so many threads."""
    loss, instances = problem(None, request["limit"], request["c"], n_threads)
    weights = np.random.default_rng(0).normal(size=loss.n_weights)
    hidden = [replace(i, labels=np.where(np.arange(i.labels.size) % 3, i.labels, -1)) for i in instances]
    hidden = [instance for instance in hidden if instance.n_labelled]
    latent = replace(loss, eps_h=0.0)
    block, table, executor = np.ones((256, PIXELS)), np.ones((PIXELS, STATES)), executor_of(n_threads)

    def products(begin: int, end: int) -> None:
        for _ in range(begin, end):
            block @ table  # what comes out is not kept

    return {
        "matrix products alone": lambda: executor.chunks(products, 4000),
        "an evaluation": lambda: [loss.evaluate(weights, instances) for _ in range(5)],
        "one_slack": lambda: fit(loss, instances, optimizer="one_slack", max_iters=10, tol=0.0),
        "cccp": lambda: fit(latent, hidden, 0.1 * weights, optimizer="cccp(inner_iters=100)", max_iters=2, tol=0.0),
    }


def hidden(request: Answer, report: Report) -> None:
    """Time evaluations with three labels of ten hidden: of the marginal machine and of the likelihood, in turn."""
    loss, instances = problem(None, request["limit"], request["c"])
    rng = np.random.default_rng(0)
    partly = [replace(i, labels=np.where(rng.random(i.labels.size) < 0.3, -1, i.labels)) for i in instances[:2000]]
    partly = [instance for instance in partly if instance.n_labelled]
    sides = {"margin": loss, "likelihood": ChainLikelihood(template=loss.template, l2=loss.l2, threads=1)}
    fitted = fit(loss, instances[:700], optimizer="one_slack", max_iters=30).weights
    found = {}
    for name, weights in {"zero": 0.0 * fitted, "random": rng.normal(size=fitted.size), "fitted": fitted}.items():
        best = dict.fromkeys(sides, np.inf)
        for turn in range(8):
            for side, asked in sides.items():
                processor = clocked(lambda asked=asked, weights=weights: asked.evaluate(weights, partly))[1]
                best[side] = min(best[side], processor) if turn else np.inf
        found[name] = [best["margin"], best["likelihood"]]
    report(seconds=found, words=len(partly))


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
    serve(
        {"pass": one_pass, "gap": to_a_gap, "planes": to_planes, "threads": threads, "hidden": hidden, "memory": memory}
    )
