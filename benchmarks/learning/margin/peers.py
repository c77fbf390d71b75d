"""The peers of the max-margin benchmark: CRFsuite's passive-aggressive learner, and LIBLINEAR by scikit-learn."""

from __future__ import annotations

import tempfile
import time
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.jobs import Answer, Report, serve
from benchmarks.learning.margin import data


def one_pass(request: Answer, report: Report) -> None:
    """Time a pass of CRFsuite's ``pa``: the difference of two numbers of iterations, divided."""
    pycrfsuite: Any = import_module("pycrfsuite")
    X, Y = data.words(None, request["limit"])
    trainer = pycrfsuite.Trainer(algorithm="pa", verbose=False)
    for x, y in zip(X, Y, strict=True):
        trainer.append([[f"p{j}" for j in np.flatnonzero(row)] for row in x], [str(label) for label in y])

    def trained(n: int) -> tuple[float, float]:
        trainer.set_params({"max_iterations": n, "epsilon": 0.0})
        with tempfile.TemporaryDirectory() as folder:
            wall, processor = time.perf_counter(), time.process_time()
            trainer.train(str(Path(folder) / "model"))
            return time.perf_counter() - wall, time.process_time() - processor

    few, many = request["iterations"]
    short, long = trained(few), trained(many)
    report(
        version=metadata.version("python-crfsuite"),
        wall=(long[0] - short[0]) / (many - few),
        processor=(long[1] - short[1]) / (many - few),
        words=len(X),
    )


def to_a_gap(request: Answer, report: Report) -> None:
    """Time LIBLINEAR's Crammer-Singer machine on the letters of the fold, to its own tolerance."""
    svm: Any = import_module("sklearn.svm")
    X, Y = data.words(data.FOLD, request["limit"])
    model = svm.LinearSVC(C=request["c"], multi_class="crammer_singer", fit_intercept=False, max_iter=100_000)
    x, y = np.concatenate(X), np.concatenate(Y)
    wall, processor = time.perf_counter(), time.process_time()
    model.fit(x, y)
    report(
        version=metadata.version("scikit-learn"),
        wall=time.perf_counter() - wall,
        processor=time.process_time() - processor,
        words=len(X),
    )


if __name__ == "__main__":
    serve({"pass": one_pass, "gap": to_a_gap})
