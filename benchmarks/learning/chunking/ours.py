"""Our side of the chunking benchmark, in a process of its own."""

from __future__ import annotations

import time
from typing import Any

import beliefs as bl
from benchmarks.jobs import Answer, Report, serve
from benchmarks.learning.chunking import data

PERIOD, DELTA = 10, 1e-5  # CRFsuite's rule to stop


def train(request: Answer, report: Report) -> None:
    """Train on the sentences and tag those held out."""

    def mark(progress: Any) -> bool:
        marks.append((time.perf_counter(), time.process_time(), n * progress.loss))
        return len(marks) > PERIOD + 1 and marks[-PERIOD - 1][2] - marks[-1][2] < DELTA * marks[-1][2]

    start = time.perf_counter()
    sentences, held_out = (data.sentences(part, request["limit"]) for part in ("train", "test"))
    inputs = [data.attributes(sentence) for sentence in sentences]
    labels = [data.tags(sentence) for sentence in sentences]
    extracting, n = time.perf_counter() - start, sum(map(len, labels))
    options = {"all_transitions": False, "n_jobs": request["threads"], "tol": 0.0, "l2": request["c2"] / n}
    marks: list[tuple[float, float, float]] = []
    bl.ChainCRF(max_iters=1, **options).fit(inputs[:99], labels[:99])  # kernels come from the cache
    crf = bl.ChainCRF(max_iters=request["iterations"], callback=mark, **options)
    start = time.perf_counter()
    crf.fit(inputs, labels)
    seconds = time.perf_counter() - start
    held = [data.attributes(sentence) for sentence in held_out]
    crf.predict(held[:5], "map")
    tagging = time.perf_counter()
    answers = [found.tolist() for found in crf.predict(held, "map")]
    report(
        n_tokens=n,
        n_weights=int(crf.weights_.size),
        extracting=extracting,
        read=marks[0][0] - start,
        marks=marks[1:],
        evaluations=crf.result_.n_evaluations,
        seconds=seconds,
        tagging=time.perf_counter() - tagging,
        f1=data.f1([data.tags(sentence) for sentence in held_out], answers),
    )


if __name__ == "__main__":
    serve({"train": train})
