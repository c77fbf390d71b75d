"""The demonstration: one page, self-contained, with pictures of what the library does.

``python -m beliefs.report --output report/index.html`` writes it; :func:`write_report` does so from Python. A section
is a function that returns a :class:`Section`; to add one, write a file and name it in ``SECTIONS``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from beliefs.io.files import write_bytes
from beliefs.plot.canvas import require_matplotlib
from beliefs.report.alarm import alarm_section
from beliefs.report.bounds import bounds_section
from beliefs.report.cost import cost_section
from beliefs.report.digits import digits_section
from beliefs.report.grid import grid_section
from beliefs.report.learning import learning_section
from beliefs.report.methods import methods_section
from beliefs.report.page import Section, drawing_style, page
from beliefs.report.run import run_section, warm_up
from beliefs.report.tables import tables_section

__all__ = ["SECTIONS", "Section", "build_report", "write_report"]

SECTIONS: tuple[Callable[[], Section], ...] = (
    alarm_section,
    grid_section,
    bounds_section,
    tables_section,
    learning_section,
    digits_section,
    cost_section,
    methods_section,
)
"""What the report shows, in this order, after the section that says what was run."""

_TITLE = "beliefs: what it does, in one run"
_LEAD = (
    "beliefs is a library for discrete graphical models: Bayesian networks, Markov random fields, factor graphs. It "
    "answers four questions about a model, says of every number how far to trust it, and learns models from data. This "
    "page shows all three."
)


def build_report(
    sections: Sequence[Callable[[], Section]] = SECTIONS, progress: Callable[[str], object] | None = None
) -> str:
    """Run all sections and return the page as HTML; ``progress`` is told what is done next."""
    require_matplotlib()
    tell = progress or (lambda text: None)
    tell("loading or compiling the kernels")
    warm_seconds = warm_up()
    done: list[Section] = []
    timings: list[tuple[str, float]] = []
    with drawing_style():
        for make in sections:
            tell(make.__name__.replace("_", " "))
            started = time.perf_counter()
            done.append(make())
            timings.append((done[-1].title, time.perf_counter() - started))
    return page(_TITLE, _LEAD, [run_section(timings, warm_seconds), *done])


def write_report(path: str | os.PathLike[str], progress: Callable[[str], object] | None = None) -> Path:
    """Write the report to a file, whole or not at all, and return its path; missing folders are made."""
    target = Path(path).absolute()
    text = build_report(progress=progress)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(target, text.encode())
    return target
