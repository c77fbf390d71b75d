"""The peers' side of a case, in a process of its own, from the same arrays. Needs numpy and the peer, not beliefs.

pyAgrum: LazyPropagation for networks, Shafer-Shenoy for grids, one thread; all posteriors. New evidence changes the
states of observed nodes in the same inference object, which keeps its junction tree.
pgmpy: variable elimination, one query a variable. (Its belief propagation is slower on all of these, and one query for
all variables at once forms their joint table.) It keeps no plan, so new evidence is the same work again.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clock import best_of, give_up_after
from benchmarks.jobs import Answer, Report, load_arrays, serve

PACKAGES = {"pyagrum": "pyAgrum", "pgmpy": "pgmpy"}
SUFFICES = 0.4  # of the cap: a peer that needs more for all marginals is not asked again with evidence

Arrays = dict[str, Any]


class PyAgrum:
    """All posteriors by pyAgrum."""

    def __init__(self) -> None:
        import pyagrum

        self.gum = pyagrum
        pyagrum.setNumberOfThreads(1)

    def build(self, case: Arrays) -> Any:
        """Return its model of the arrays."""
        return self._network(case) if case["directed"] else self._field(case)

    def _network(self, case: Arrays) -> Any:
        bn = self.gum.BayesNet()
        for v, k in enumerate(case["card"].tolist()):
            bn.add(self.gum.RangeVariable(f"v{v}", "", 0, k - 1))
        for scope, table in zip(case["scopes"], case["tables"], strict=True):
            child, parents = scope[-1], scope[:-1]
            for parent in parents:
                bn.addArc(f"v{parent}", f"v{child}")
            # its first variable is fastest, and that is the child; then the parents in the order of their arcs
            axes = [*reversed(range(len(parents))), len(parents)]
            bn.cpt(f"v{child}").fillWith(table.transpose(axes).ravel().tolist())
        return bn

    def _field(self, case: Arrays) -> Any:
        field = self.gum.MarkovRandomField()
        for v, k in enumerate(case["card"].tolist()):
            field.add(self.gum.RangeVariable(f"v{v}", "", 0, k - 1))
        for scope, table in zip(case["scopes"], case["tables"], strict=True):
            factor = field.addFactor([f"v{v}" for v in scope])
            own = [int(name[1:]) for name in factor.names]  # it sorts them; the first is fastest
            factor.fillWith(table.transpose([scope.index(v) for v in reversed(own)]).ravel().tolist())
        return field

    def engine(self, model: Any, case: Arrays) -> Any:
        """Return a fresh inference object."""
        made = self.gum.LazyPropagation(model) if case["directed"] else self.gum.ShaferShenoyMRFInference(model)
        made.setNumberOfThreads(1)
        return made

    def posteriors(self, engine: Any, case: Arrays) -> list[Any]:
        """Infer and read all posteriors."""
        engine.makeInference()
        return [engine.posterior(f"v{v}") for v in range(case["card"].size)]

    def observe(self, engine: Any, evidence: dict[int, int]) -> None:
        """Set the states of the observed nodes, adding or changing."""
        for v, x in evidence.items():
            (engine.chgEvidence if engine.hasEvidence(f"v{v}") else engine.addEvidence)(f"v{v}", x)

    def vector(self, posteriors: list[Any]) -> Any:
        """Return the marginals end to end."""
        return np.concatenate([p.toarray() for p in posteriors])

    def size(self, engine: Any, case: Arrays) -> Answer:
        """Return the cells of its own junction tree."""
        tree = engine.junctionTree()
        cliques = ([int(v) for v in tree.clique(node)] for node in tree.nodes())
        return {"cells": float(sum(math.prod(int(case["card"][v]) for v in clique) for clique in cliques))}

    def read(self, path: Path) -> Any:
        """Read a file."""
        if path.suffix == ".uai" and path.read_text(errors="replace").lstrip().startswith("MARKOV"):
            field = self.gum.MarkovRandomField()
            field.loadUAI(str(path))
            return field
        return self.gum.loadBN(str(path))


class Pgmpy:
    """All posteriors by pgmpy."""

    def __init__(self) -> None:
        warnings.simplefilter("ignore")
        from pgmpy import factors, inference, models, readwrite

        self.factors, self.inference, self.models, self.readwrite = factors.discrete, inference, models, readwrite

    def build(self, case: Arrays) -> Any:
        """Return its model of the arrays."""
        names, card = [f"v{v}" for v in range(case["card"].size)], case["card"].tolist()
        model = self.models.DiscreteBayesianNetwork() if case["directed"] else self.models.DiscreteMarkovNetwork()
        model.add_nodes_from(names)
        for scope, table in zip(case["scopes"], case["tables"], strict=True):
            head, child = [names[v] for v in scope[:-1]], names[scope[-1]]
            if case["directed"]:
                model.add_edges_from([(parent, child) for parent in head])
                columns = table.reshape(-1, table.shape[-1]).T
                shape = [card[v] for v in scope[:-1]]
                model.add_cpds(self.factors.TabularCPD(child, card[scope[-1]], columns, head or None, shape or None))
            else:
                model.add_edges_from([(head[0], child)] if head else [])
                model.add_factors(self.factors.DiscreteFactor([*head, child], table.shape, table))
        return model

    def engine(self, model: Any, case: Arrays) -> Any:
        """Return a fresh inference object, and the evidence it will be given."""
        return {"engine": self.inference.VariableElimination(model), "evidence": {}}

    def posteriors(self, engine: Any, case: Arrays) -> list[Any]:
        """Ask for one variable after the other; an observed one is known."""
        seen = engine["evidence"]
        asked = []
        for v, k in enumerate(case["card"].tolist()):
            if f"v{v}" in seen:
                asked.append(np.eye(k)[seen[f"v{v}"]])
            else:
                found = engine["engine"].query([f"v{v}"], evidence=seen or None, show_progress=False).values
                asked.append(found / found.sum())  # of a Markov network it returns weights
        return asked

    def observe(self, engine: Any, evidence: dict[int, int]) -> None:
        """Keep the evidence for the queries."""
        engine["evidence"] = {f"v{v}": x for v, x in evidence.items()}

    def vector(self, posteriors: list[Any]) -> Any:
        """Return the marginals end to end."""
        return np.concatenate([np.asarray(p).ravel() for p in posteriors])

    def size(self, engine: Any, case: Arrays) -> Answer:
        """Return nothing: it has no plan to ask."""
        return {}

    def read(self, path: Path) -> Any:
        """Read a file."""
        reader = self.readwrite.UAIReader if path.suffix == ".uai" else self.readwrite.BIFReader
        return reader(str(path)).get_model()


PEERS: dict[str, Callable[[], Any]] = {"pyagrum": PyAgrum, "pgmpy": Pgmpy}


def load(path: str) -> Arrays:
    """Read the arrays of a case, cut into scopes and tables."""
    case = load_arrays(path)
    case["directed"] = bool(case["directed"])
    scopes = [scope.tolist() for scope in np.split(case["scope_vars"], case["scope_ptr"][1:-1])]
    shapes = [tuple(case["card"][scope].tolist()) for scope in scopes]
    flat = np.split(case["values"], np.cumsum([math.prod(shape) for shape in shapes])[:-1])
    case["scopes"], case["tables"] = scopes, [t.reshape(shape) for t, shape in zip(flat, shapes, strict=True)]
    return case


def exact(request: Answer, report: Report) -> None:
    """Measure one case: all marginals with planning, then new evidence on what the peer keeps."""
    peer, case, cap = PEERS[request["peer"]](), load(request["case"]), float(request["cap"])
    model, out = peer.build(case), {}
    limit_memory(request["memory"])
    touch(request["touch"])
    engines: list[Any] = []

    def all_marginals(_: Any) -> Any:
        engines[:] = [peer.engine(model, case)]
        return peer.posteriors(engines[0], case)

    timing, posteriors = best_of(all_marginals, cap=cap)
    out["prior"] = peer.vector(posteriors)
    np.savez(request["out"], **out)
    report(marginals=timing, **peer.size(engines[0], case))
    if timing["best"] > SUFFICES * cap:
        return
    out["evidence"] = _new_evidence(peer, model, case, cap, report)
    np.savez(request["out"], **out)


def _new_evidence(peer: Any, model: Any, case: Arrays, cap: float, report: Report) -> Any:
    seen, n_rows = case["evidence_vars"].tolist(), len(case["evidence_rows"])
    rows = [dict(zip(seen, row.tolist(), strict=True)) for row in case["evidence_rows"]]
    engine = peer.engine(model, case)

    def again(row: dict[int, int]) -> Any:
        peer.observe(engine, row)
        return peer.posteriors(engine, case)

    give_up_after(cap)
    again(rows[0])  # plans
    timing, _ = best_of(again, lambda k: rows[(k + 1) % n_rows], cap=cap)
    report(evidence=timing)
    return peer.vector(again(rows[1 % n_rows]))


def read(request: Answer, report: Report) -> None:
    """Measure reading one file."""
    peer, path = PEERS[request["peer"]](), Path(request["path"])
    report(read=best_of(lambda _: peer.read(path), cap=float(request["cap"]))[0])


def version(request: Answer, report: Report) -> None:
    """Say which version is here, or fail."""
    PEERS[request["peer"]]()
    report(version=metadata.version(PACKAGES[request["peer"]]))


def touch(n_bytes: int) -> None:
    """Write to that much memory and give it back: a virtual machine's first touch of a page is not the peer's fault."""
    np.empty(max(1, n_bytes // 8)).fill(1.0)


def limit_memory(n_bytes: int) -> None:
    """Refuse more than this, so that a failed plan ends in an error and not in the whole machine's trouble."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))


if __name__ == "__main__":
    serve({"exact": exact, "read": read, "version": version})
