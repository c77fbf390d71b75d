"""What there is to say about an object: a title, facts, a table that is cut short, and perhaps a drawing.

Said once and read in two ways: :meth:`Description.text` on a terminal, :meth:`Description.html` in a notebook. Both are
bounded, however large the object: of a table the first rows are shown, of names and labels the first characters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from beliefs.display.html import Markup, as_html, bar, card, plain_table

__all__ = ["Chances", "Described", "Description", "shortened"]

MOST_ROWS = 12
"""Rows of a table that are shown."""

_MOST_STATES = 6  # of one variable
_MOST_LETTERS = 80  # of a cell


def shortened(text: str, most: int = _MOST_LETTERS) -> str:
    """Return a name in one line, and not much of one."""
    line = " ".join(text.split()) or text
    return line if len(line) <= most else f"{line[: most - 1]}\u2026"


@dataclass(frozen=True)
class Chances:
    """A cell of a table: states and their probabilities."""

    labels: Sequence[str]
    chances: Sequence[float]

    def _pairs(self) -> list[tuple[str, float]]:
        pairs = zip(self.labels, self.chances, strict=True)
        return [(shortened(label, 20), float(p)) for label, p in list(pairs)[:_MOST_STATES]]

    @property
    def _rest(self) -> str:
        left = len(self.labels) - _MOST_STATES
        return f"  ({left} more)" if left > 0 else ""

    def text(self) -> str:
        """Return them in one line."""
        return "  ".join(f"{label} {p:.4f}" for label, p in self._pairs()) + self._rest

    def html(self) -> Markup:
        """Return a line a state, with a bar as long as it is probable."""
        lines = [f"{bar(p)} {p:.4f} {as_html(label)}" for label, p in self._pairs()]
        return Markup("<br/>".join(lines) + as_html(self._rest))


Cell = str | Chances


@dataclass(frozen=True)
class Description:
    """An object in words.

    Attributes
    ----------
    title : str
    facts : sequence of (str, str)
        What is known, each by its name.
    caption : str
        What the table holds, and what its numbers are worth.
    head : sequence of str
        The columns; empty for a table without a head.
    rows : sequence of rows
        The first of them, see :data:`MOST_ROWS`.
    n_rows : int
        How many there are in all.
    drawing : Markup
        For notebooks only.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    caption: str = ""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()
    n_rows: int = 0
    drawing: Markup = field(default=Markup(""))

    @property
    def _more(self) -> str:
        left = self.n_rows - len(self.rows)
        return f"and {left} more" if left > 0 else ""

    def text(self) -> str:
        """Return the facts and the table as lines."""
        wide = max((len(name) for name, _ in self.facts), default=0)
        lines = [self.title, *(f"  {name.ljust(wide)}  {value}" for name, value in self.facts)]
        if self.rows:
            cells = [[c.text() if isinstance(c, Chances) else shortened(c) for c in row] for row in self.rows]
            table = [list(map(shortened, self.head)), *cells] if self.head else cells
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            lines += [f"  {self.caption}"] * bool(self.caption)
            lines += [
                "    " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table
            ]
            lines += [f"    {self._more}"] * bool(self._more)
        return "\n".join(lines)

    def html(self) -> Markup:
        """Return a block for a notebook: facts, drawing, table."""
        facts = plain_table((), [(name, shortened(value, 300)) for name, value in self.facts])
        rows = [[c.html() if isinstance(c, Chances) else shortened(c) for c in row] for row in self.rows]
        parts: list[str] = [facts, self.drawing]
        if rows:
            parts += [Markup(f"<div>{as_html(self.caption)}</div>")] * bool(self.caption)
            parts.append(plain_table(list(map(shortened, self.head)), rows))
            parts += [Markup(f"<div>{self._more}</div>")] * bool(self._more)
        return card(self.title, *parts)


class Described(ABC):
    """An object that notebooks show by its description."""

    __slots__ = ()

    @abstractmethod
    def _description(self) -> Description:
        """Say what there is to say."""

    def _repr_html_(self) -> str:
        """Return what a notebook shows: no script, no id, the reader's colours."""
        return str(self._description().html())
