"""Pieces of HTML: what every page and every notebook cell is made of.

The HTML is also well-formed XML, so that it can be parsed and tested. A plain str is text and is escaped wherever it
is put; :class:`Markup` is HTML already. Fragments for notebooks have no script, no style sheet and no id, so that any
number of them stand on one page; their colours are the reader's own (``currentColor``), light or dark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["Markup", "as_html", "bar", "card", "plain_table"]

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CELL = "padding:.1em .8em .1em 0;text-align:left;vertical-align:top;background:none"
_RULE = "border-bottom:1px solid;border-color:inherit"
_BAR = 60  # pixels of a bar that stands for one


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def as_html(text: str) -> str:
    """Return text with everything escaped that HTML or XML would read as their own."""
    return text if isinstance(text, Markup) else escape(_NOT_XML.sub("\ufffd", text))


def bar(share: float) -> Markup:
    """Return a bar whose length stands for a number between 0 and 1."""
    style = f"display:inline-block;height:.6em;width:{_BAR * share:.1f}px;background:currentColor;opacity:.45"
    return Markup(f'<span style="{style}"></span>')


def plain_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a table in the reader's own colours; without a head where ``head`` is empty."""
    top = "".join(f'<th style="{_CELL};{_RULE}">{as_html(word)}</th>' for word in head)
    lines = ["".join(f'<td style="{_CELL}">{as_html(cell)}</td>' for cell in row) for row in rows]
    body = "\n".join(f'<tr style="background:none">{line}</tr>' for line in lines)
    begin = f'<thead><tr style="background:none">{top}</tr></thead>' if head else ""
    style = "border-collapse:collapse;border:none;color:inherit;margin:.3em 0"
    return Markup(f'<table style="{style}">{begin}<tbody>\n{body}\n</tbody></table>\n') if lines else Markup("")


def card(title: str, *parts: str) -> Markup:
    """Return a titled block."""
    inside = "".join(map(as_html, parts))
    style = "color:inherit;font-size:.95em;overflow-x:auto"
    return Markup(f'<div class="beliefs" style="{style}"><strong>{as_html(title)}</strong>\n{inside}</div>')
