"""Rows of evidence at the command line: a table in, a table out."""

from __future__ import annotations

from typing import Any

import click

from beliefs.cli.joint import rows_of
from beliefs.cli.names import load_graph, parse_query
from beliefs.cli.options import Request
from beliefs.cli.table import show_facts
from beliefs.errors import FormatError
from beliefs.inference.base import Task
from beliefs.inference.many import ManyOptions, infer_many, maximize_many
from beliefs.io.files import check_place, plain_name, write_bytes

__all__ = ["answer_rows", "evidence_file_option"]

evidence_file_option = click.option(
    "--evidence-file",
    metavar="ROWS.csv",
    help="A question for each row of a table; columns are variables, empty cells unknown. The answer is a table, too.",
)


def answer_rows(request: Request, task: Task, path: str, targets: str | None = None) -> None:
    """Ask a question for each row of a file, and print or write the answers as CSV."""
    if request.as_json or request.trace_every is not None:
        raise click.UsageError("answers about rows are comma-separated values; leave out --json and --trace-every")
    if request.output is not None:
        if not plain_name(request.output).endswith(".csv"):
            raise FormatError("answers about rows are written to a file that ends in .csv", request.output)
        check_place(request.output)
    graph = load_graph(request.model, request.evidence)
    if targets is not None and request.variables is not None:
        raise click.UsageError("--targets and --variables exclude each other; the answer has the targets")
    named = request.variables if targets is None else targets
    wanted: Any = None if named is None else parse_query(graph, named)
    rows, _ = rows_of(graph, path)
    given = request.options
    options: Any = {name: given.get(name) for name in ManyOptions.__annotations__}
    if task is Task.INFER:
        table = infer_many(graph, rows, request.method, targets=wanted, **options).to_frame()
    else:
        table = maximize_many(graph, rows, request.method, **options).to_frame()
        if wanted is not None:
            table = table[["log_score", *(graph.naming.name(v) for v in wanted)]]
    text = table.to_csv(index=False)
    if request.output is None:
        click.echo(text, nl=False)
    else:
        write_bytes(request.output, text.encode())
        show_facts([("rows", str(len(table))), ("written", request.output)])
