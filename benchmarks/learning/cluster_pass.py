"""One gradient over images by threads, by one worker process and by two; and what that predicts for many machines.

    python -m benchmarks.learning.cluster_pass [--quick] [--json FILE] [--markdown FILE] [--from FILE]

The gradient of the clique logistic loss through sweeps of TRW over noisy images. Workers are processes of one thread
on the loopback. The prediction is a simulation of steps: each worker takes the measured seconds an image, with a random
slowness, and the client sends weights and receives sums one after the other at the measured seconds a worker.
"""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.learning.data import hand_out
from benchmarks.clock import least
from benchmarks.frame import Options, Result, Run, Suite
from benchmarks.learning.image_pass import prepared
from benchmarks.tables import table

REPEATS = 3


def measure(run: Run) -> None:
    from distributed import Client, LocalCluster

    n, height, width = (16, 40, 50) if run.options.quick else (64, 75, 100)
    loss, weights, instances = prepared(n, height, width, 1)
    found: dict[str, Any] = {"images": n, "pixels": height * width, "weights": int(weights.size)}

    def one() -> Any:
        return loss.evaluate(weights, instances)

    one()
    found["threads"] = least(one, REPEATS)
    for workers in (1, 2):
        with (
            LocalCluster(workers, threads_per_worker=1, processes=True, dashboard_address=None) as local,
            Client(local, set_as_default=False) as client,
            bl.cluster(client) as engine,
        ):
            began = time.perf_counter()
            hand_out(instances)
            one()
            found[f"first, {workers}"] = time.perf_counter() - began
            found[f"{workers} workers"] = least(one, REPEATS)
            found["bytes an image"] = engine.bytes_sent / n
            found["n_sent"] = engine.n_sent
            if workers == 1:
                few = least(lambda: loss.evaluate(weights, instances[:1]), 5)
                found["seconds a task"] = max(few - found["threads"] / n, 1e-4)
    run.result["pass"] = found
    run.result["predicted"] = [predicted(found, 1_000_000, machines) for machines in (1, 10, 100)]


def predicted(found: Result, images: int, machines: int, steps: int = 50, threads: int = 16) -> Result:
    """Simulate steps on machines of some threads, each step as slow as its slowest machine."""
    rng = np.random.default_rng(0)
    an_image = found["threads"] / found["images"]
    work = images / machines / threads * an_image * (1.0 + 0.05 * np.abs(rng.normal(size=(steps, machines))))
    sent = found["seconds a task"] * np.arange(1, machines + 1)  # the client hands tasks out one after the other
    step = (work + sent).max(axis=1) + machines * 2e-4  # and adds up sums
    ideal = images * an_image / (machines * threads)
    return {"machines": machines, "seconds a step": float(step.mean()), "efficiency": float(ideal / step.mean())}


def page(result: Result, options: Options) -> str:
    found = result["pass"]
    rows = [["one thread", f"{found['threads']:.3f}", "1.00"]]
    for workers in (1, 2):
        seconds = found[f"{workers} workers"]
        rows.append([f"{workers} worker{'s' * (workers > 1)}", f"{seconds:.3f}", f"{found['threads'] / seconds:.2f}"])
    first = table([f"{found['images']} images of {found['pixels']} pixels", "seconds a gradient", "speed"], rows)
    more = [[str(p["machines"]), f"{p['seconds a step']:.1f}", f"{p['efficiency']:.2f}"] for p in result["predicted"]]
    return first + "\n\n" + table(["machines of 16 threads, 1e6 images", "seconds a step", "efficiency"], more)


def missing() -> str:
    return "" if importlib.util.find_spec("distributed") else "dask is not installed"


SUITE = Suite("learning.cluster_pass", __doc__, measure, page, missing=missing)

if __name__ == "__main__":
    SUITE.main()
