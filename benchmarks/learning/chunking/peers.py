"""CRFsuite's side of the chunking benchmark, by python-crfsuite: one thread, L-BFGS, ``c2`` times the squared norm."""

from __future__ import annotations

import tempfile
import time
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from benchmarks.jobs import Answer, Report, serve
from benchmarks.learning.chunking import data


def train(request: Answer, report: Report) -> None:
    """Train on the sentences and tag those held out."""
    pycrfsuite: Any = import_module("pycrfsuite")

    class Watched(pycrfsuite.Trainer):  # type: ignore[misc]
        """Notes wall clock, processor time and loss when an iteration has been logged."""

        def message(self, message: str) -> None:
            """Hear a line of the log."""
            super().message(message)
            last = self.logparser.last_iteration or {}
            if "time" in last and last["num"] > len(marks):
                marks.append((time.perf_counter(), time.process_time(), float(last["loss"])))

    train, test = (data.sentences(part, request["limit"]) for part in ("train", "test"))
    inputs = [data.attributes(sentence) for sentence in train]
    start = time.perf_counter()
    trainer = Watched(algorithm="lbfgs", verbose=False)
    for x, sentence in zip(inputs, train, strict=True):
        trainer.append(x, data.tags(sentence))
    report(version=metadata.version("python-crfsuite"), read=time.perf_counter() - start)
    trainer.set_params({"c1": 0.0, "c2": request["c2"], "max_iterations": request["iterations"]})
    marks: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        start = time.perf_counter()
        trainer.train(path)
        seconds = time.perf_counter() - start
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        held = [data.attributes(sentence) for sentence in test]
        start = time.perf_counter()
        answers = [tagger.tag(x) for x in held]
        tagging = time.perf_counter() - start
        tagger.close()
    report(
        n_weights=trainer.logparser.featgen_num_features,
        marks=marks,
        evaluations=1 + sum(int(row["linesearch_trials"]) for row in trainer.logparser.iterations),
        seconds=seconds,
        tagging=tagging,
        f1=data.f1([data.tags(sentence) for sentence in test], answers),
    )


if __name__ == "__main__":
    serve({"train": train})
