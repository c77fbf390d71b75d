"""What was run: versions, machine, seconds."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import beliefs
from beliefs.datasets import load_bn, make_ising_grid
from beliefs.inference.budget import available_bytes, readable_bytes
from beliefs.inference.doors import infer, marginal_map, maximize
from beliefs.report.bounds import METHODS
from beliefs.report.digits import compile_digits
from beliefs.report.learning import compile_learning
from beliefs.report.page import Markup, Section, paragraph, seconds, table
from beliefs.report.tables import compile_tables

__all__ = ["run_section", "warm_up"]


def warm_up() -> float:
    """Ask small models what the report will ask, so that no measured time includes compiling; return the seconds."""
    started = time.perf_counter()
    asia = load_bn("asia").condition({"xray": "yes"})
    for method in ("junction_tree", "elimination", "bp"):
        infer(asia, method)
    maximize(asia)
    marginal_map(asia, ["lung"])
    for method in METHODS:  # on a grid that is wider than the i-bounds among them
        infer(make_ising_grid(11, coupling=0.1), method, trace_every=1)
    compile_tables()
    compile_learning()
    compile_digits()
    return time.perf_counter() - started


def run_section(timings: Sequence[tuple[str, float]], warm_seconds: float) -> Section:
    """Say what ran where, and how long each of the other sections took."""
    total = warm_seconds + sum(spent for _, spent in timings)
    rows = [
        ("beliefs", beliefs.__version__),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("libraries", ", ".join(f"{name} {_version(name)}" for name in ("numpy", "scipy", "numba", "matplotlib"))),
        ("system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        ("processor", f"{_processor()}, {os.cpu_count()} logical cores"),
        ("memory available", Markup(f'<span class="timing">{readable_bytes(available_bytes())}</span>')),
    ]
    spent = [("loading or compiling the kernels", seconds(warm_seconds))]
    spent += [(title, seconds(took)) for title, took in timings]
    return Section(
        "What was run",
        Markup(
            f"Every number on this page was computed by beliefs {beliefs.__version__} in one run of {seconds(total)}."
        ),
        Markup(
            table(("", ""), rows)
            + paragraph(
                "Everything but the timings is the same in every run: random models have fixed seeds. Kernels are "
                "compiled on their first use on a machine and kept on disk; that time is listed apart."
            )
            + table(("part", "time"), spent, numeric=(1,))
        ),
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(unknown)"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
