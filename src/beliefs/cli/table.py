"""Tables and facts for people: drawn with rich on a terminal, aligned text elsewhere."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import click

__all__ = ["Table", "on_terminal", "show_facts", "show_table", "width"]

_GAP = "  "


@dataclass(frozen=True)
class Table:
    """Columns and rows of text; ``right`` holds the columns that align to the right."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: frozenset[int] = frozenset()

    def text(self) -> str:
        """Return the table as aligned lines.

        Examples
        --------
        >>> print(Table(("name", "n"), [("a", "10"), ("bcd", "2")], frozenset({1})).text())
        name   n
        a     10
        bcd    2
        """
        lines = [self.columns, *self.rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.columns))]
        return "\n".join(_GAP.join(self._aligned(line, widths)).rstrip() for line in lines)

    def _aligned(self, line: tuple[str, ...], widths: Sequence[int]) -> list[str]:
        return [word.rjust(w) if k in self.right else word.ljust(w) for k, (word, w) in enumerate(zip(line, widths))]


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def width() -> int:
    """Columns of the terminal, or of a page where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def show_table(table: Table) -> None:
    """Print an empty line and a table on standard output."""
    if not on_terminal():
        click.echo(f"\n{table.text()}")
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for k, name in enumerate(table.columns):
        drawn.add_column(Text(name), justify="right" if k in table.right else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(Text, row))  # as Text, brackets in names are not taken for markup
    Console().print(drawn)


def show_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print pairs of a word and what there is to say about it, one a line."""
    widest = max((len(word) for word, _ in facts), default=0)
    for word, text in facts:
        click.echo(f"{click.style(word.ljust(widest), bold=True)}{_GAP}{text}")
