"""Pseudo-likelihood of a dense Ising model beside scikit-learn's logistic regression, variable by variable.

    python -m benchmarks.rows.fields [--quick] [--json FILE] [--markdown FILE] [--from FILE]

100 binary variables, all joined, 1e5 rows by Gibbs sampling. Ours is one convex problem with symmetric couplings, from
an array of bytes to a fitted field; theirs is a regression a variable without a penalty, of which a few are run and
scaled up. Both to their default tolerances, which leave the errors beside them. One thread and, of ours, two.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from sklearn.linear_model import LogisticRegression

import beliefs as bl
from beliefs.inference.parallel import one_thread_of_blas
from benchmarks.frame import Options, Result, Run, Suite
from benchmarks.tables import table

ASKED = 5  # variables that are regressed
SWEEPS = 30
T = TypeVar("T")


def ising(n: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return couplings and rows of a dense Ising model of bits."""
    rng = np.random.default_rng(0)
    couplings = np.triu(0.15 * rng.normal(size=(n, n)), 1)
    couplings += couplings.T
    bias = 0.3 * rng.normal(size=n) - couplings.sum(axis=0) / 2
    rows = (rng.random((n_rows, n)) < 0.5).astype(np.float64)
    for _ in range(SWEEPS):
        for v in range(n):
            rows[:, v] = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-(rows @ couplings[v] + bias[v])))
    return couplings, rows.astype(np.int8)


def ours(rows: np.ndarray, threads: int = 1) -> bl.MRFLearner:
    """Return the fitted field."""
    n = rows.shape[1]
    edges = [(u, v) for v in range(n) for u in range(v)]
    return bl.MRFLearner(edges, method="pseudo_likelihood", n_jobs=threads).fit(rows)


def regressions(rows: np.ndarray) -> np.ndarray:
    """Return the couplings of the first few variables."""
    found = []
    for v in range(ASKED):
        others = np.delete(rows, v, axis=1).astype(np.float64)
        found.append(LogisticRegression(C=np.inf).fit(others, rows[:, v]).coef_[0])
    return np.array(found)


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds that work takes, and its result."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def peak_bytes(rows: np.ndarray) -> int:
    """Return the peak memory of a fit above the rows."""
    tracemalloc.start()
    ours(rows)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def measure(run: Run) -> None:
    """Measure both, and how far their couplings are from the truth."""
    n, n_rows = (20, 2000) if run.options.quick else (100, 100_000)
    truth, rows = ising(n, n_rows)
    wanted = np.array([np.delete(truth[v], v) for v in range(ASKED)])
    ours(rows[:2000])  # compiles
    with one_thread_of_blas():
        result, learner = timed(lambda: ours(rows))
        theirs, coefficients = timed(lambda: regressions(rows))
        two, _ = timed(lambda: ours(rows, 2))
    whole, half = peak_bytes(rows), peak_bytes(rows[: n_rows // 2])
    tables = learner.model_.theta.reshape(-1, 4)
    found = tables @ np.array([1.0, -1.0, -1.0, 1.0])
    upper = np.array([truth[u, v] for v in range(n) for u in range(v)])
    run.result["ising"] = {
        "shape": [n_rows, n],
        "ours": result,
        "ours, two threads": two,
        "scikit-learn": theirs * n / ASKED,
        "error": float(np.sqrt(((found - upper) ** 2).mean())),
        "error of scikit-learn": float(np.sqrt(((coefficients - wanted) ** 2).mean())),
        "iterations": learner.result_.n_iters,
        "peak bytes a cell": whole / rows.size,
        "bytes of a further cell": (whole - half) / (rows.size - rows[: n_rows // 2].size),
    }


def page(result: Result, options: Options) -> str:
    """Return the measurements as a table."""
    i = result["ising"]
    what = "pseudo-likelihood, dense Ising, {:,} rows x {}".format(*i["shape"])
    beside = f"scikit-learn a variable, {i['scikit-learn']:.1f} s"
    rows = [
        [what, f"{i['ours']:.1f} s", beside, f"{i['scikit-learn'] / i['ours']:.1f}x"],
        [f"{what}, two threads", f"{i['ours, two threads']:.1f} s", "one thread",
         f"{i['ours'] / i['ours, two threads']:.2f}x"],
        [f"{what}: error of a coupling", f"{i['error']:.4f}", f"{i['error of scikit-learn']:.4f}", ""],
        [f"{what}: peak memory", f"{i['peak bytes a cell']:.2f} bytes a cell",
         f"a further cell {i['bytes of a further cell']:.2f}", ""],
    ]  # fmt: skip
    return f"{table(['work', 'ours', 'beside', ''], rows)}\n"


SUITE = Suite("rows.fields", __doc__, measure, page, (), quick="few rows")

if __name__ == "__main__":
    SUITE.main()
