"""One pass of learning over images: seconds, messages a second, where the time goes, and memory.

    python -m benchmarks.learning.image_pass [--images 20] [--quick] [--json FILE] [--markdown FILE] [--from FILE]

The gradient of the clique logistic loss through ten sweeps of TRW, over noisy black and white images of 200 x 150
pixels (one table for horizontal, one for vertical edges). Time outside kernels and matrix products is found by wrapping
every kernel that a module of the library calls and the two products of the template; the memory that a fit states is
held against what is allocated at the peak.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import beliefs as bl
from beliefs.inference.messages import buffer_pool
from beliefs.kernels._jit import kernels
from beliefs.learning.gradients.truncated import Truncated
from beliefs.learning.instances import Instance
from beliefs.learning.losses.marginal import CliqueLogistic, UnivariateLogistic
from beliefs.model.features import LogLinearTemplate
from benchmarks.clock import least
from benchmarks.frame import Options, Result, Run, Suite
from benchmarks.tables import table

HEIGHT, WIDTH, SWEEPS = 150, 200, 10
REPEATS = 3
FIGURES = (
    "images", "pixels", "sweeps", "seconds a pass", "messages a second, there and back", "ns a message, there and back",
    "share outside kernels and products", "seconds a pass, two threads",
)  # fmt: skip


def images(n: int, height: int, width: int, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return noisy images and labels: smooth random fields cut at their mean."""
    rng = np.random.default_rng(seed)
    labels = []
    for _ in range(n):
        spectrum = np.fft.rfft2(rng.standard_normal((height, width)))
        y, x = np.meshgrid(np.fft.fftfreq(height), np.fft.rfftfreq(width), indexing="ij")
        field = np.fft.irfft2(spectrum / (0.02 + np.hypot(x, y)) ** 2, s=(height, width))
        labels.append(bl.datasets.black_and_white(field))
    return [bl.datasets.make_noisy(y, seed=k) for k, y in enumerate(labels)], labels


def prepared(n: int, height: int, width: int, threads: int) -> tuple[CliqueLogistic, np.ndarray, list[Instance]]:
    """Return the loss, weights that a short fit has found, and the instances."""
    X, Y = images(n, height, width)
    crf = bl.GridCRF(n_sweeps=SWEEPS, max_iters=3).fit(X[:2], Y[:2])
    instances = [crf._example(example, *parts(crf)) for example in examples(X, Y)]
    through = Truncated(method=bl.TRW(), n_sweeps=SWEEPS)
    loss = CliqueLogistic(template=crf.template_, through=through, l2=1e-3, threads=threads)
    return loss, crf.weights_, instances


def examples(X: list[np.ndarray], Y: list[np.ndarray]) -> Any:
    from beliefs.learning.estimators.examples import Examples

    return Examples(X, Y, None)


def parts(crf: Any) -> tuple[Any, None]:
    from beliefs.learning.estimators.labels import Classes

    return Classes(crf.classes_), None


class Stopwatch:
    """Adds up the seconds spent in some functions, the outermost only."""

    def __init__(self) -> None:
        self.seconds, self._inside = 0.0, False

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            if self._inside:
                return function(*args, **options)
            self._inside, start = True, time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                self.seconds += time.perf_counter() - start
                self._inside = False

        return wrapped


def watched(run: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of a run, and those of them spent in kernels and matrix products."""
    watch, known, undo = Stopwatch(), {id(k) for k in kernels()}, []
    for name, module in list(sys.modules.items()):
        if name.startswith("beliefs.") and not name.startswith("beliefs.kernels"):
            for key, value in list(vars(module).items()):
                if id(value) in known:
                    undo.append((module, key, value))
                    setattr(module, key, watch.timed(value))
    for owner, key in (
        (LogLinearTemplate, "theta"),
        (LogLinearTemplate, "add_pullback"),
        (UnivariateLogistic, "kernel"),
    ):
        undo.append((owner, key, vars(owner)[key]))
        timed = watch.timed(getattr(owner, key))
        setattr(owner, key, staticmethod(timed) if key == "kernel" else timed)
    try:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start, watch.seconds
    finally:
        for place, key, value in undo:
            setattr(place, key, value)


def memory(height: int, width: int) -> dict[str, float]:
    """Return bytes stated for copies of messages, and allocated at the peak of one evaluation, by number of sweeps."""
    found = {}
    for sweeps in (SWEEPS, 4 * SWEEPS):
        loss, weights, instances = prepared(1, height, width, 1)
        through = Truncated(method=bl.TRW(), n_sweeps=sweeps)
        loss = CliqueLogistic(template=loss.template, through=through)
        loss.value_and_grad(weights, instances)
        buffer_pool._kept.clear()  # memory that is used again would not be seen
        tracemalloc.start()
        loss.value_and_grad(weights, instances)
        found[f"{sweeps} sweeps, peak"] = float(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        found[f"{sweeps} sweeps, stated"] = float(through.n_bytes(instances[0].layout))
    more = found[f"{4 * SWEEPS} sweeps, peak"] - found[f"{SWEEPS} sweeps, peak"]
    stated = found[f"{4 * SWEEPS} sweeps, stated"] - found[f"{SWEEPS} sweeps, stated"]
    return found | {"bytes a sweep, allocated": more / (3 * SWEEPS), "bytes a sweep, stated": stated / (3 * SWEEPS)}


def speed(n: int, height: int, width: int) -> Result:
    """Return seconds of a pass, by message and by where they go."""
    loss, weights, instances = prepared(n, height, width, 1)
    two = CliqueLogistic(template=loss.template, through=loss.through, threads=2)
    edges = sum(int((np.diff(i.layout.scope_ptr) == 2).sum()) for i in instances)
    messages = 2 * edges * 2 * SWEEPS  # both directions, forward and backward
    loss.value_and_grad(weights, instances[:1])
    alone = least(lambda: loss.value_and_grad(weights, instances), REPEATS)
    total, inside = watched(lambda: loss.value_and_grad(weights, instances))
    return {
        "images": n,
        "pixels": height * width,
        "sweeps": SWEEPS,
        "seconds a pass": alone,
        "messages a second, there and back": messages / alone,
        "ns a message, there and back": 1e9 * alone / messages,
        "share outside kernels and products": 1 - inside / total,
        "seconds a pass, two threads": least(lambda: two.value_and_grad(weights, instances), REPEATS),
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add how many images."""
    parser.add_argument("--images", type=int, default=20)


def measure(run: Run) -> None:
    """Measure time and memory."""
    shape = (30, 40) if run.options.quick else (HEIGHT, WIDTH)
    if "time" in run.options.parts:
        run.result |= speed(2 if run.options.quick else run.options.images, *shape)
    if "memory" in run.options.parts:
        run.result["memory"] = memory(*shape)


def page(result: Result, options: Options) -> str:
    """Return the measurements as one table."""
    rows = [[name, f"{result[name]:.4g}"] for name in FIGURES if name in result]
    rows += [[f"memory, {name}", f"{value / 1e6:.2f} MB"] for name, value in result.get("memory", {}).items()]
    return table(["a pass over images", ""], rows)


SUITE = Suite(
    "learning.image_pass",
    __doc__,
    measure,
    page,
    parts=("time", "memory"),
    quick="two small images",
    add_options=add_options,
)

if __name__ == "__main__":
    SUITE.main()
