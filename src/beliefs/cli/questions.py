"""The commands that ask: infer, maximize, marginal-map, sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from beliefs.cli.documents import Answer, csv_text, document
from beliefs.cli.files import answer_kind, write_answer
from beliefs.cli.many import answer_rows, evidence_file_option
from beliefs.cli.names import load_graph, parse_query
from beliefs.cli.options import Request, question
from beliefs.cli.shown import facts, show_answer
from beliefs.cli.stopping import Stoppable
from beliefs.cli.table import show_facts
from beliefs.display.documents import json_text
from beliefs.errors import ModelError
from beliefs.inference.base import Task
from beliefs.inference.door_options import Options
from beliefs.inference.doors import infer, marginal_map, maximize, sample
from beliefs.model.graph import FactorGraph

__all__ = ["infer_command", "marginal_map_command", "maximize_command", "sample_command"]

Door = Callable[[Options], Answer]


@click.command("infer")
@question
@click.option("--targets", metavar="NAME,...", help="Only these marginals are needed; the rest may be pruned.")
@evidence_file_option
def infer_command(request: Request, targets: str | None, evidence_file: str | None) -> None:
    """Compute log Z and the marginals of MODEL."""
    if evidence_file is not None:
        return answer_rows(request, Task.INFER, evidence_file, targets)
    kind = _kind(Task.INFER, request)
    if targets is not None and kind in ("MAR", "npz"):
        raise click.UsageError(f"a .{kind} file holds the marginals of all variables; leave out --targets")
    graph = load_graph(request.model, request.evidence)
    wanted = None if targets is None else parse_query(graph, targets)
    shown = _shown(graph, request, wanted, "among the targets")
    _ask(request, shown, kind, lambda options: infer(graph, request.method, targets=wanted, **options))


@click.command("maximize")
@question
@evidence_file_option
def maximize_command(request: Request, evidence_file: str | None) -> None:
    """Find the joint state of MODEL with the largest score."""
    if evidence_file is not None:
        return answer_rows(request, Task.MAXIMIZE, evidence_file)
    kind = _kind(Task.MAXIMIZE, request)
    graph = load_graph(request.model, request.evidence)
    _ask(request, _shown(graph, request), kind, lambda options: maximize(graph, request.method, **options))


@click.command("marginal-map")
@question
@click.option("--query", "-q", required=True, metavar="FILE|NAME,...", help="Variables to maximise over.")
def marginal_map_command(request: Request, query: str) -> None:
    """Find the best states of some variables, averaging over the others."""
    kind = _kind(Task.MARGINAL_MAP, request)
    graph = load_graph(request.model, request.evidence)
    asked = parse_query(graph, query)
    shown = _shown(graph, request, asked, "in the query")
    _ask(request, shown, kind, lambda options: marginal_map(graph, asked, request.method, **options))


@click.command("sample")
@question
@click.option("-n", "--n", "count", type=int, default=10, show_default=True, help="How many samples to draw.")
def sample_command(request: Request, count: int) -> None:
    """Draw joint states of MODEL."""
    kind = _kind(Task.SAMPLE, request)
    graph = load_graph(request.model, request.evidence)
    _ask(request, _shown(graph, request), kind, lambda options: sample(graph, count, request.method, **options))


def _kind(task: Task, request: Request) -> str | None:
    """Return the kind of file to write; what cannot be told is refused before any work."""
    if request.as_json and request.as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    return None if request.output is None else answer_kind(task, request.output)


def _shown(graph: FactorGraph, request: Request, known: Sequence[int] | None = None, place: str = "") -> Sequence[int]:
    """Return the variables to tell about; ``known`` are those that the answer will hold, by default all."""
    if known is None:
        known = range(graph.n_vars)
    if request.variables is None:
        return known
    shown = parse_query(graph, request.variables)
    for v in set(shown).difference(known):
        raise ModelError(f"--variables: variable {graph.naming.name(v)!r} is not {place}")
    return shown


def _ask(request: Request, shown: Sequence[int], kind: str | None, door: Door) -> None:
    """Ask, tell the answer whole, and exit with the code of an interruption if there was one."""

    def asked(stop: Any) -> Answer:
        return door({**request.options, "callback": stop})

    run = Stoppable(asked)
    result = run.run()
    if kind is not None:
        assert request.output is not None
        write_answer(result, request.output, kind, request.model, shown)
    if request.as_json:
        click.echo(json_text(document(result, request.model, shown)), nl=False)
    elif request.as_csv:
        click.echo(csv_text(result, shown), nl=False)
    elif kind is not None:
        show_facts([*facts(result), ("written", str(request.output))])
    else:
        show_answer(result, shown, request.limit)
    if run.received:
        raise click.exceptions.Exit(run.exit_code)
