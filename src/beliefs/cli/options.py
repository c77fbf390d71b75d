"""Arguments that several commands share, and the dataclass that carries them.

The doors' keywords are flags of the same name; a flag that is not given leaves the method's own default.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, TypeVar

import click

from beliefs.inference.door_options import Options

__all__ = [
    "MOST_BYTES",
    "Request",
    "byte_count",
    "evidence_option",
    "json_flag",
    "limit_option",
    "max_bytes_option",
    "model_argument",
    "question",
]

F = TypeVar("F", bound=Callable[..., Any])

MOST_BYTES = 2**62  # sums of a few such numbers are still 64-bit integers

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_BYTES = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([kmgt]?i?)b?\s*", re.IGNORECASE)
_SHOWN = 40  # characters of a wrong value that are shown


def byte_count(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return the bytes meant by ``2GB``, ``500MB``, ``1.5GiB`` or ``1e9``."""
    if text is None:
        return None
    match = _BYTES.fullmatch(text)
    unit = _UNITS.get(match.group(2).lower()) if match else None
    if match is None or unit is None:
        raise click.BadParameter(
            f"{_short(text)} is not a number of bytes such as 2GB, 500MB or 1.5GiB", context, parameter
        )
    count = float(match.group(1)) * unit
    if count > MOST_BYTES:
        raise click.BadParameter(f"{_short(text)} is more than any machine has", context, parameter)
    return int(count)


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


max_bytes_option = click.option(
    "--max-bytes", callback=byte_count, metavar="BYTES", help="Memory to use at most, such as 2GB."
)
model_argument = click.argument("model")
evidence_option = click.option(
    "--evidence",
    "-e",
    multiple=True,
    metavar="FILE|NAME=STATE,...",
    help="Observed states: a UAI evidence file, or pairs. May be given several times.",
)
json_flag = click.option("--json", "as_json", is_flag=True, help="Print one JSON object; infinities are null.")
limit_option = click.option(
    "--limit", type=click.IntRange(min=0), default=40, show_default=True, help="Rows to show to people; 0 shows all."
)

_ASKING = (
    model_argument,
    evidence_option,
    click.option(
        "--method", "-m", default="auto", show_default=True, metavar="METHOD", help='Such as "bp(damping=0.3)".'
    ),
)
_KEYWORDS = (
    click.option("--tol", type=float, help="Residual at which to stop."),
    click.option("--max-iters", type=int, metavar="N", help="Steps after which to stop."),
    click.option("--time-limit", type=float, metavar="SECONDS", help="Seconds after which to stop."),
    max_bytes_option,
    click.option("--seed", type=int, help="Seed of all random choices."),
    click.option("--threads", type=int, help="Threads to use; all by default."),
    click.option("--trace-every", type=int, metavar="N", help="Steps between recorded values."),
    click.option("--progress/--no-progress", default=None, help="Show progress; by default on a terminal."),
)
_TELLING = (
    click.option("--variables", metavar="NAME,...", help="Show these variables only."),
    limit_option,
    json_flag,
    click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values."),
    click.option(
        "--output", "-o", metavar="FILE", help="Write the answer to a file, such as answer.json; its suffix says how."
    ),
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked about which model, and how to tell the answer."""

    model: str
    evidence: tuple[str, ...]
    method: str
    tol: float | None
    max_iters: int | None
    time_limit: float | None
    max_bytes: int | None
    seed: int | None
    threads: int | None
    trace_every: int | None
    progress: bool | None
    variables: str | None
    limit: int
    as_json: bool
    as_csv: bool
    output: str | None

    @property
    def options(self) -> Options:
        """The doors' keywords."""
        return {
            "tol": self.tol,
            "max_iters": self.max_iters,
            "time_limit": self.time_limit,
            "max_bytes": self.max_bytes,
            "seed": self.seed,
            "threads": self.threads,
            "trace_every": self.trace_every,
            "progress": sys.stderr.isatty() if self.progress is None else self.progress,
        }


def question(function: F) -> Callable[..., Any]:
    """Give a command the arguments of a question, collected in a :class:`Request`."""
    names = [f.name for f in fields(Request)]

    @wraps(function)
    def collected(**values: Any) -> Any:
        return function(Request(**{name: values.pop(name) for name in names}), **values)

    decorated: Callable[..., Any] = collected
    for option in reversed((*_ASKING, *_KEYWORDS, *_TELLING)):
        decorated = option(decorated)
    return decorated
