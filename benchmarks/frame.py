"""The frame of every suite: one command line, one heading, processes that are asked, JSON and Markdown.

    python -m benchmarks.NAME [--quick] [--only NAMES] [--json FILE] [--markdown FILE] [--from FILE] [--data FOLDER]

A :class:`Suite` says what it measures and how that is shown; the rest is the same for all. Commands are run from the
root folder of the repository, because that is how Python finds the package ``benchmarks``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.jobs import Answer, ask

Result = dict[str, Any]
Options = argparse.Namespace

LOCAL = Path(__file__).parent / "results" / "local"
BUSY = 0.5  # load before a run beyond which the machine is called busy


def say(text: str) -> None:
    """Show progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def names(text: str) -> list[str]:
    """Split names at their commas."""
    return text.split(",")


def heading() -> Result:
    """Return what every set of measurements begins with."""
    described = machine.description()
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": described,
        "busy": (described["load_before"] or 0.0) > BUSY,
        "versions": machine.versions(),
        "notes": [],
    }


def write(path: Path, text: str) -> None:
    """Write a file whole, so that a run that is stopped leaves the old one; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text)
    part.replace(path)


def write_json(path: Path, result: Result) -> None:
    """Write measurements."""
    write(path, json.dumps(result, indent=1, default=float) + "\n")


@dataclass
class Run:
    """A set of measurements while it is made: what was asked for, a folder for files, and what was found."""

    options: Options
    folder: Path
    result: Result = field(default_factory=heading)

    def note(self, text: str) -> None:
        """Record why something was left out."""
        self.result["notes"].append(text)
        say(text)

    def ask(self, module: str, request: Answer, what: str, peer: bool = False) -> Answer:
        """Ask a process of its own, a peer's in the interpreter that has it; a failure is a note about ``what``."""
        answer = self.quietly(module, request, peer)
        if "failed" in answer:
            self.note(f"{what}: {answer['failed']}")
        self.result["notes"] += [f"{what}: {text}" for text in answer.pop("notes", [])]
        return answer

    def quietly(self, module: str, request: Answer, peer: bool = False) -> Answer:
        """Ask a process of its own; the caller looks for ``"failed"`` in the answer."""
        return ask(module, request, self.folder, self.options.peers_python if peer else sys.executable)


@dataclass(frozen=True)
class Suite:
    """A subject that is measured.

    Attributes
    ----------
    name : str
        Of its module below ``benchmarks``, and of its file below ``results/local``.
    about : str or None
        What ``--help`` says: the docstring of its module.
    measure : callable
        Adds measurements to ``run.result``.
    page : callable
        Makes Markdown of a result and of the options; a mapping is several pages, by the names of their files.
    parts : tuple of str
        What ``--only`` may name; empty where any text will do. ``options.parts`` are those to be measured.
    quick_parts : tuple of str
        The parts of a quick run, where they are not all.
    quick : str
        What ``--quick`` says about itself.
    has_peers : bool
        Whether there are the options ``--no-peers`` and ``--peers-python``.
    add_options : callable
        Adds options of its own to the parser.
    settle : callable
        Completes the options; what it returns, if anything, is an error of usage.
    missing : callable
        Returns why nothing can be measured here, empty where it can.
    has_failed : callable
        Whether the process should end with an error because of a result.
    """

    name: str
    about: str | None
    measure: Callable[[Run], None]
    page: Callable[[Result, Options], str | Mapping[str, str]]
    parts: tuple[str, ...] = ()
    quick_parts: tuple[str, ...] = ()
    quick: str = "small models"
    has_peers: bool = False
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    settle: Callable[[Options], str | None] = lambda options: None
    missing: Callable[[], str] = lambda: ""
    has_failed: Callable[[Result], bool] = lambda result: False

    def main(self, arguments: list[str] | None = None) -> None:
        """Run the command: measure or load, then print and write."""
        code = self.run(sys.argv[1:] if arguments is None else arguments)
        if code:
            raise SystemExit(code)

    def run(self, arguments: list[str]) -> int:
        """Measure or load, then print and write; return the exit code."""
        options = self.parsed(arguments)
        if options.stored is not None:
            result: Result = json.loads(options.stored.read_text())
        else:
            reason = self.missing()
            if reason:
                print(f"{reason}; nothing measured")
                return 0
            result = self.measured(options)
        self.show(result, options)
        return int(self.has_failed(result))

    def parsed(self, arguments: list[str]) -> Options:
        """Read the command line."""
        parser = argparse.ArgumentParser(
            prog=f"python -m benchmarks.{self.name}",
            description=self.about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        known = f": {', '.join(self.parts)}" if 0 < len(self.parts) < 12 else ""
        parser.add_argument("--quick", action="store_true", help=self.quick)
        parser.add_argument("--only", type=names, metavar="NAMES", help=f"only these, with commas between{known}")
        parser.add_argument("--data", metavar="FOLDER", help="data sets; the environment's BELIEFS_DATA otherwise")
        parser.add_argument("--json", type=Path, metavar="FILE", help="where the measurements go")
        parser.add_argument("--markdown", type=Path, metavar="FILE", help="where the tables go, besides the terminal")
        parser.add_argument("--from", dest="stored", type=Path, metavar="FILE", help="measure nothing, show this JSON")
        if self.has_peers:
            parser.add_argument("--no-peers", action="store_true", help="ours alone")
            parser.add_argument("--peers-python", default=sys.executable, metavar="FILE", help="which has the peers")
        self.add_options(parser)
        options = parser.parse_args(arguments)
        unknown = sorted(set(options.only or ()) - set(self.parts)) if self.parts else []
        if unknown:
            parser.error(f"unknown {', '.join(unknown)}; known are {', '.join(self.parts)}")
        options.parts = options.only or (options.quick and self.quick_parts) or self.parts
        options.json = options.json or LOCAL / f"{self.name.replace('.', '_')}{'_quick' * options.quick}.json"
        if options.data is not None:
            os.environ["BELIEFS_DATA"] = options.data
        wrong = self.settle(options)
        if wrong:
            parser.error(wrong)
        return options

    def measured(self, options: Options) -> Result:
        """Measure, and write what was found."""
        started = time.time()
        with tempfile.TemporaryDirectory() as folder:
            run = Run(options, Path(folder))
            self.measure(run)
        run.result["seconds"] = time.time() - started
        write_json(options.json, run.result)
        say(f"measured in {run.result['seconds']:.0f} s; wrote {options.json}")
        return run.result

    def show(self, result: Result, options: Options) -> None:
        """Print the pages, and write them where a file or a folder was named."""
        found = self.page(result, options)
        for name, text in found.items() if isinstance(found, Mapping) else [("", found)]:
            whole = text if text.endswith("\n") else f"{text}\n"
            print(whole)
            if options.markdown is not None:
                write(options.markdown / name if name else options.markdown, whole)
