"""Peers' sides of tables of rows: pyAgrum, pgmpy and pomegranate learn from them, pyAgrum also answers questions."""

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


def pomegranate(request: Answer, report: Report) -> None:
    """Fit all tables by maximum likelihood; the array is handed over as it is."""
    torch: Any = import_module("torch")
    networks: Any = import_module("pomegranate.bayesian_network")
    torch.set_num_threads(1)
    found = load_arrays(request["rows"])
    number = {str(name): v for v, name in enumerate(found["names"])}
    parents: list[list[int]] = [[] for _ in number]
    for u, v in found["edges"]:
        parents[number[str(v)]].append(number[str(u)])
    start = time.perf_counter()
    networks.BayesianNetwork(structure=tuple(map(tuple, parents))).fit(torch.from_numpy(found["X"]))
    report(version=metadata.version("pomegranate"), counting=time.perf_counter() - start)


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


def many(request: Answer, report: Report) -> None:
    """Ask for posteriors row by row, as many rows as the cap of seconds holds."""
    gum: Any = import_module("pyagrum")
    rows = load_arrays(request["rows"])["X"]
    network = gum.loadBN(request["network"])
    names = [network.variable(v).name() for v in range(network.size())]
    engine = gum.LazyPropagation(network)
    wanted = request["target"] or list(range(len(names)))
    if request["target"]:
        engine.eraseAllTargets()
        for v in wanted:
            engine.addTarget(v)
    first = request["target"][0] if request["target"] else int((rows[0] < 0).argmax())
    found, done, start = [], 0, time.process_time()
    for row in rows:
        engine.setEvidence({names[v]: int(row[v]) for v in (row >= 0).nonzero()[0]})
        engine.makeInference()
        answers = {v: engine.posterior(v).toarray() for v in wanted}
        found.append(answers[first].tolist())
        done += 1
        if time.process_time() - start > request["cap"]:
            break
    seconds = (time.process_time() - start) / done
    report(version=gum.__version__, seconds=seconds, rows=done, posteriors={str(first): found})


if __name__ == "__main__":
    serve({"many": many, "pgmpy": pgmpy, "pomegranate": pomegranate, "pyagrum": pyagrum})
