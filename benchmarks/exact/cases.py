"""The models measured: published Bayesian networks and Ising grids, as plain arrays that every library gets alike."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import beliefs as bl
from beliefs.datasets import data_home
from benchmarks.jobs import load_arrays

NETWORKS = (
    "alarm", "hailfinder", "insurance", "win95pts", "andes", "pigs", "water", "mildew", "munin", "munin1", "link",
    "diabetes",
)  # fmt: skip
GRIDS = ("grid10", "grid12", "grid14", "grid16")
NAMES = (*NETWORKS, *GRIDS)
QUICK = ("alarm", "hailfinder", "insurance", "win95pts", "andes", "pigs", "water", "grid10")

UAI_FILES = ("asia", "sachs", "alarm", "insurance", "win95pts", "hailfinder", "grid10", "pigs", "mildew", "diabetes")
BIF_FILES = ("alarm", "hailfinder", "pigs", "water", "link", "munin1", "munin", "mildew", "diabetes")
QUICK_FILES = ("asia", "alarm", "insurance", "hailfinder", "pigs")

N_EVIDENCE = 3  # observed variables
N_ROWS = 3  # different observations of them


@dataclass(frozen=True)
class Case:
    """A model as arrays: factor ``f`` has scope ``scope_vars[scope_ptr[f]:scope_ptr[f+1]]``, last variable fastest.

    ``values`` are potentials (for a network, probabilities, the child last). ``evidence_rows[i]`` are states of
    ``evidence_vars``, each row of positive probability because it is part of a sample of the model.
    """

    name: str
    directed: bool
    card: NDArray[np.int64]
    scope_ptr: NDArray[np.int64]
    scope_vars: NDArray[np.int64]
    values: NDArray[np.float64]
    evidence_vars: NDArray[np.int64]
    evidence_rows: NDArray[np.int64]

    def save(self, path: Path) -> None:
        """Write the arrays for the processes that measure."""
        np.savez(path, **vars(self))

    def log_values(self) -> NDArray[np.float64]:
        """Return the values as logs, ``-inf`` for zero."""
        with np.errstate(divide="ignore"):
            return np.log(self.values)

    @classmethod
    def load(cls, path: Path | str) -> Case:
        """Read what :meth:`save` wrote."""
        arrays = load_arrays(path)
        return cls(**{**arrays, "name": str(arrays["name"]), "directed": bool(arrays["directed"])})


def make(name: str) -> Case:
    """Load a network or draw a grid; FileNotFoundError if its file is not on this machine."""
    if name in GRIDS:
        side = int(name.removeprefix("grid"))
        graph = bl.datasets.make_ising_grid(side, seed=0)
        samples = bl.sample(graph, 200, "junction_tree", seed=1).samples
        candidates, values = np.array([0, graph.n_vars // 2, graph.n_vars - 1]), np.exp(graph.theta)
    else:
        bn = bl.datasets.load_bn(name)
        graph, values, samples = bn.graph, bn.probabilities, bn.sample(200, seed=1)
        candidates = _leaves(graph)
    layout = graph.layout
    seen, rows = _evidence(samples, candidates)
    return Case(name, name not in GRIDS, layout.card, layout.scope_ptr, layout.scope_vars, values, seen, rows)


def _leaves(graph: bl.FactorGraph) -> NDArray[np.int64]:
    """Return the variables that are nobody's parent."""
    parents = np.delete(graph.layout.scope_vars, graph.layout.scope_ptr[1:] - 1)
    return np.setdiff1d(np.arange(graph.n_vars), parents)


def _evidence(samples: NDArray[np.int64], candidates: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose variables that vary, spread over the model, and rows of their states that differ."""
    varied = candidates[(samples[:, candidates] != samples[0, candidates]).any(axis=0)]
    chosen = varied[np.unique(np.linspace(0, varied.size - 1, N_EVIDENCE).astype(np.int64))]
    _, first = np.unique(samples[:, chosen], axis=0, return_index=True)
    return chosen, samples[np.sort(first)[:N_ROWS]][:, chosen]


def bif_text(name: str) -> bytes:
    """Return the published file of a network, unpacked; FileNotFoundError if it is not on this machine."""
    bundled = resources.files("beliefs.datasets").joinpath("data", f"{name}.bif.gz")
    if bundled.is_file():
        return gzip.decompress(bundled.read_bytes())
    return gzip.decompress((data_home() / "bn" / f"{name}.bif.gz").read_bytes())


def uai_text(name: str) -> bytes:
    """Return a model as a UAI file in plain decimals, which every reader understands (pgmpy's knows no exponents)."""
    case = make(name)
    scopes = np.split(case.scope_vars, case.scope_ptr[1:-1])
    sizes = [int(np.prod(case.card[scope])) for scope in scopes]
    tables = np.split(case.values, np.cumsum(sizes)[:-1])
    lines = ["BAYES" if case.directed else "MARKOV", str(case.card.size), _joined(case.card), str(len(scopes))]
    lines += [f"{scope.size} {_joined(scope)}" for scope in scopes]
    for size, table in zip(sizes, tables, strict=True):
        lines += ["", str(size), " ".join(np.format_float_positional(x, trim="0") for x in table)]
    return ("\n".join(lines) + "\n").encode()


def _joined(numbers: NDArray[np.int64]) -> str:
    return " ".join(map(str, numbers.tolist()))
