"""Peers' sides of learning tables from rows: pyAgrum and pgmpy, from a frame in memory and from a file."""

from __future__ import annotations

import time
from importlib import import_module, metadata
from typing import Any

from benchmarks.jobs import Answer, Report, load_arrays, serve


def frame(request: Answer) -> tuple[Any, list[tuple[str, str]], dict[str, list[int]]]:
    """Return the rows as a frame of integers, the arcs and the states."""
    pandas: Any = import_module("pandas")
    found = load_arrays(request["rows"])
    names = [str(name) for name in found["names"]]
    arcs = [(str(u), str(v)) for u, v in found["edges"]]
    return pandas.DataFrame(found["X"], columns=names), arcs, {
        name: list(range(int(card))) for name, card in zip(names, found["card"], strict=True)
    }  # fmt: skip


def pgmpy(request: Answer, report: Report) -> None:
    """Fit all tables by maximum likelihood."""
    models: Any = import_module("pgmpy.models")
    estimators: Any = import_module("pgmpy.estimators")
    rows, arcs, states = frame(request)
    model = models.DiscreteBayesianNetwork(arcs)
    model.add_nodes_from(states)
    start = time.perf_counter()
    estimator = estimators.MaximumLikelihoodEstimator(model, rows, state_names=states)
    estimator.get_parameters(n_jobs=1)
    report(version=metadata.version("pgmpy"), counting=time.perf_counter() - start)


def pyagrum(request: Answer, report: Report) -> None:
    """Fit all tables; with missing cells, by EM for a number of iterations."""
    gum: Any = import_module("pyagrum")
    rows, arcs, states = frame(request)
    template = gum.BayesNet()
    for name, labels in states.items():
        template.add(gum.RangeVariable(name, name, 0, len(labels) - 1))
    for u, v in arcs:
        template.addArc(u, v)
    rows.replace(-1, "?").to_csv(request["csv"], index=False)
    start = time.perf_counter()
    learner = gum.BNLearner(request["csv"], template, ["?"])
    learner.setNumberOfThreads(1)
    learner.useSmoothingPrior(1)
    if request["iterations"]:
        learner.useEM(1e-30)
        learner.EMsetMaxIter(request["iterations"])
    loaded = time.perf_counter()
    learner.learnParameters(template.dag())
    ended = time.perf_counter()
    report(version=gum.__version__, loading=loaded - start, counting=ended - loaded)


if __name__ == "__main__":
    serve({"pgmpy": pgmpy, "pyagrum": pyagrum})
