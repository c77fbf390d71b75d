"""One gradient over images by threads, by one worker process and by two; and what that predicts for many machines.

    python -m benchmarks.learning.cluster_pass [--quick] [--json FILE] [--markdown FILE] [--from FILE]

The gradient of the clique logistic loss through sweeps of TRW over noisy images. Workers are processes of one thread
on the loopback. The cost model (docs/scaling.md) is held against it: seconds of a gradient from those of an image and
of a task, bytes of an image from its pixels. The prediction is a simulation of steps: each machine takes the measured
seconds an image, slowed by what repeated gradients differ by; the client sends weights and adds up sums one after the
other, at the measured seconds a task and a sum.
"""

from __future__ import annotations

import importlib.util
import os
import time
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.learning.data import hand_out
from beliefs.learning.shards import layout_bytes, packed, unpacked
from benchmarks.clock import least
from benchmarks.frame import Options, Result, Run, Suite
from benchmarks.learning.image_pass import SWEEPS, prepared
from benchmarks.tables import table

REPEATS = 8
CORES = os.cpu_count() or 1
BUSY = "*Other programs were at work on this machine: seconds, and what follows from them, say little; bytes do.*"
LIMITS = {"1 workers": 1.1, "2 workers": 1.7}  # seconds of one worker over one thread at most; of one over two at least


def measure(run: Run) -> None:
    from distributed import Client, LocalCluster

    n, height, width = (16, 40, 50) if run.options.quick else (64, 75, 100)
    loss, weights, instances = prepared(n, height, width, 1)
    found: dict[str, Any] = {"images": n, "pixels": height * width, "weights": int(weights.size)}

    def one() -> Any:
        return loss.evaluate(weights, instances)

    one()
    found["threads"] = least(one, REPEATS)
    found["slowness"] = slowness(lambda: loss.evaluate(weights, instances[: n // 8]))
    found["seconds a sum"] = seconds_a_sum(loss)
    layout = sum(layout_bytes(instances).values())
    edges = (height - 1) * width + height * (width - 1)
    found["multiplications an image"] = 3 * 2 * SWEEPS * 2 * edges * 2 * 2
    for workers in (1, 2):
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as local,
            Client(local, set_as_default=False) as client,
            bl.cluster(client) as engine,
        ):
            assert len(client.nthreads()) == workers
            began = time.perf_counter()
            hand_out(instances)
            one()
            found[f"first, {workers}"] = time.perf_counter() - began
            found[f"{workers} workers"] = least(one, REPEATS)
            found["bytes an image"] = engine.bytes_sent / n
            own = 8 * height * width * (n_features(instances[0]) + 1)
            found["bytes of an image alone"], found["bytes of the layout"] = own, layout
            found["bytes an image, predicted"] = own + layout * engine.n_sent / n
            found["n_sent"] = engine.n_sent
            if workers == 1:
                few = least(lambda: loss.evaluate(weights, instances[:1]), 5)
                found["seconds a task"] = max(few - found["threads"] / n, 1e-4)
    for workers in (1, 2):
        share = found["threads"] / min(workers, CORES)
        found[f"{workers} workers, predicted"] = share + workers * (found["seconds a task"] + found["seconds a sum"])
    run.result["pass"] = found
    run.result["predicted"] = [predicted(found, 1_000_000, machines) for machines in (1, 10, 100)]


def slowness(run: Any, repeats: int = 7) -> float:
    """Return the standard deviation of repeated runs beside the best of them."""
    seconds = [least(run, 1) for _ in range(repeats)]
    return float(np.std(seconds) / min(seconds))


def seconds_a_sum(loss: Any) -> float:
    """Return what unpacking a worker's sum and adding it to another takes."""
    total = loss.total()
    data = packed({(0, 0): total})

    def many() -> None:
        for _ in range(100):
            unpacked(data)[0, 0].plus(total)

    return least(many, REPEATS) / 100


def n_features(instance: Any) -> int:
    """Return the features of a pixel."""
    return int(instance.inputs[0].values.shape[1])


def predicted(found: Result, images: int, machines: int, steps: int = 50, threads: int = 16) -> Result:
    """Simulate steps on machines of some threads, each step as slow as its slowest machine."""
    rng = np.random.default_rng(0)
    an_image = found["threads"] / found["images"]
    slow = 1.0 + found["slowness"] * np.abs(rng.normal(size=(steps, machines)))
    work = images / machines / threads * an_image * slow
    sent = found["seconds a task"] * np.arange(1, machines + 1)  # the client hands tasks out one after the other
    step = (work + sent).max(axis=1) + machines * found["seconds a sum"]
    ideal = images * an_image / (machines * threads)
    memory = 3.0 * (images / machines * found["bytes of an image alone"] + found["bytes of the layout"])
    return {"machines": machines, "seconds a step": float(step.mean()), "efficiency": float(ideal / step.mean()),
            "bytes a machine": memory}  # fmt: skip


def page(result: Result, options: Options) -> str:
    found = result["pass"]
    one, two = found["1 workers"], found["2 workers"]
    rows = [["one thread", f"{found['threads']:.3f}", "", "", ""]]
    rows.append(["1 worker", f"{one:.3f}", f"{found['1 workers, predicted']:.3f}",
                 f"{one / found['threads']:.2f} of one thread", f"{LIMITS['1 workers']:g} at most"])  # fmt: skip
    rows.append(["2 workers", f"{two:.3f}", f"{found['2 workers, predicted']:.3f}", f"{one / two:.2f} times one",
                 f"{LIMITS['2 workers']:g} at least"])  # fmt: skip
    head = [
        f"{found['images']} images of {found['pixels']} pixels",
        "seconds a gradient",
        "by the model",
        "",
        "asked for",
    ]
    billions = found["multiplications an image"] * found["images"] / found["threads"] / 1e9
    facts = [
        ["bytes sent an image, once", f"{found['bytes an image']:,.0f}", f"{found['bytes an image, predicted']:,.0f}"],
        ["milliseconds a task, scheduler and network", f"{1e3 * found['seconds a task']:.1f}", ""],
        ["milliseconds a sum, unpacked and added", f"{1e3 * found['seconds a sum']:.3f}", ""],
        ["deviation of repeated gradients", f"{100 * found['slowness']:.1f} %", ""],
        ["multiplications of messages, 1e9 a second", f"{billions:.2f}", ""],
    ]
    more = [
        [
            f"{p['machines']}",
            f"{p['seconds a step']:.2f}",
            f"{p['efficiency']:.2f}",
            f"{p['bytes a machine'] / 1e9:.1f}",
        ]
        for p in result["predicted"]
    ]
    last = ["machines of 16 threads, 1e6 images", "seconds a step", "efficiency", "GB a machine"]
    parts = [table(head, rows), table(["parameter", "measured", "by the model"], facts), table(last, more)]
    return "\n\n".join([BUSY] * bool(result.get("busy")) + parts)


def missing() -> str:
    return "" if importlib.util.find_spec("distributed") else "dask is not installed"


SUITE = Suite("learning.cluster_pass", __doc__, measure, page, missing=missing)

if __name__ == "__main__":
    SUITE.main()
