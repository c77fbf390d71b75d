"""The command ``methods``: what each method answers, promises and costs."""

from __future__ import annotations

import click

from beliefs.cli.options import json_flag
from beliefs.cli.table import Table, on_terminal, show_table, width
from beliefs.display.documents import json_text
from beliefs.inference.base import Task
from beliefs.inference.registry import methods

__all__ = ["methods_command"]

_WIDE = 120  # columns of a terminal on which all of the table can be read


@click.command("methods")
@click.option("--task", type=click.Choice([t.value for t in Task]), help="Methods that answer this question.")
@click.option("--guarantee", metavar="WORD", help="Methods that give this: exact, upper, lower, estimate.")
@json_flag
def methods_command(task: str | None, guarantee: str | None, as_json: bool) -> None:
    """List the methods: what each answers, promises and costs."""
    columns = ("method", "answers", "guarantee", "cost", "reference")
    rows = methods(task, guarantee).cells()
    if as_json:
        click.echo(json_text({"methods": [dict(zip(columns, row, strict=True)) for row in rows]}), nl=False)
    else:
        shown = 4 if on_terminal() and width() < _WIDE else 5  # keys of references are long words
        show_table(Table(columns[:shown], [row[:shown] for row in rows]))
