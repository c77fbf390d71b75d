"""The peers of the max-margin benchmark: CRFsuite's passive-aggressive learner, LIBLINEAR by scikit-learn, dlib."""

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


class Digits:
    """A multiclass machine as dlib asks for it: weights of one label after the other; costs are 0 and 1."""

    be_verbose = False
    max_cache_size = 0

    def __init__(self, dlib: Any, X: np.ndarray, Y: np.ndarray, c: float, epsilon: float) -> None:
        self.dlib, self.X, self.Y, self.n_labels = dlib, X, Y, int(Y.max()) + 1
        self.C, self.epsilon, self.n_searches = c * len(X), epsilon, 0
        self.num_samples, self.num_dimensions = len(X), self.n_labels * X.shape[1]

    def make_psi(self, x: np.ndarray, label: int) -> Any:
        """Return the statistics of a row with a label."""
        psi = self.dlib.vector([0.0] * self.num_dimensions)
        for j, value in enumerate(x.tolist(), label * len(x)):
            psi[j] = value
        return psi

    def get_truth_joint_feature_vector(self, at: int) -> Any:
        """Return the statistics of a row with its label."""
        return self.make_psi(self.X[at], int(self.Y[at]))

    def separation_oracle(self, at: int, weights: Any) -> tuple[float, Any]:
        """Return cost and statistics of the worst label."""
        self.n_searches += 1
        scores = np.array(weights).reshape(self.n_labels, -1) @ self.X[at] + (np.arange(self.n_labels) != self.Y[at])
        worst = int(np.argmax(scores))
        return float(worst != self.Y[at]), self.make_psi(self.X[at], worst)

    def objective(self, weights: np.ndarray) -> float:
        """Return half the squared norm plus C times the sum of the losses."""
        scores = self.X @ weights.reshape(self.n_labels, -1).T
        worst = (scores + (np.arange(self.n_labels) != self.Y[:, None])).max(axis=1)
        own = scores[np.arange(len(self.Y)), self.Y]
        return 0.5 * float(weights @ weights) + self.C / len(self.Y) * float((worst - own).sum())


def to_planes(request: Answer, report: Report) -> None:
    """Time dlib's cutting planes, with oracles in Python, until its gap is a thousandth of the objective."""
    dlib: Any = import_module("dlib")
    X, Y = data.digits(request["digits"])
    problem = Digits(dlib, X, Y, request["digits_c"], request["excess"] * request["digits_risk"])
    wall, processor = time.perf_counter(), time.process_time()
    weights = np.array(dlib.solve_structural_svm_problem(problem))
    report(
        version=metadata.version("dlib-bin"),
        wall=time.perf_counter() - wall,
        processor=time.process_time() - processor,
        words=len(X),
        passes=problem.n_searches // len(X),
        objective=problem.objective(weights),
    )


if __name__ == "__main__":
    serve({"pass": one_pass, "gap": to_a_gap, "planes": to_planes})
