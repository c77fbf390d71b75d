"""Pieces of a page: text, tables and pictures become HTML that needs nothing from outside.

The HTML is also well-formed XML, so that it can be parsed and tested. A plain str is text and is escaped wherever it
is put; :class:`Markup` is HTML already.
"""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from beliefs.display.html import Markup, as_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Markup",
    "Section",
    "beside",
    "code",
    "drawing_style",
    "number",
    "page",
    "paragraph",
    "picture",
    "seconds",
    "significant",
    "table",
]


@dataclass(frozen=True)
class Section:
    """One part of the report: what was found, in a sentence, and how that looks."""

    title: str
    finding: str
    body: Markup

    @property
    def anchor(self) -> str:
        """The name by which the page links to it."""
        return "".join(c if c.isalnum() else "-" for c in self.title.lower())


# -- text ---------------------------------------------------------------------------------------------------------
def paragraph(*parts: str) -> Markup:
    """Return a paragraph; parts are joined without a space."""
    return Markup(f"<p>{''.join(map(as_html, parts))}</p>\n")


def code(text: str) -> Markup:
    """Return text set as code: in its line, or as a block if it has several lines."""
    return Markup(f"<pre>{escape(text)}</pre>\n" if "\n" in text else f"<code>{escape(text)}</code>")


def number(value: float, digits: int = 4) -> str:
    """Return a number with so many decimals and a true minus sign; one that rounds to zero has no sign."""
    shown = f"{value:.{digits}f}"
    return shown.removeprefix("-") if float(shown) == 0 else shown.replace("-", "\u2212")


def significant(value: float, digits: int = 2) -> str:
    """Return a number with so many significant digits: 0.0012, 3.4, 1,200,000; 3.1e-15 where it is tiny."""
    if value == 0 or not abs(value) < float("inf"):
        return f"{value:g}"
    if abs(value) < 1e-5:
        return f"{value:.{digits - 1}e}".replace("-", "\u2212")
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - int(f"{rounded:e}".split("e")[1]))
    return f"{rounded:,.{decimals}f}".replace("-", "\u2212")


def seconds(value: float) -> Markup:
    """Return a duration with its unit, marked as the part of the report that changes from run to run."""
    unit, factor = ("s", 1.0) if value >= 1 else ("ms", 1e3)
    return Markup(f'<span class="timing">{significant(factor * value)}\u00a0{unit}</span>')


# -- tables and pictures ------------------------------------------------------------------------------------------
def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Iterable[int] = (), marked: Iterable[int] = ()
) -> Markup:
    """Return a table; columns in ``numeric`` are set flush right, rows in ``marked`` stand out."""
    flush, stressed = frozenset(numeric), frozenset(marked)

    def row(cells: Sequence[str], tag: str) -> str:
        style = [' class="number"' if k in flush else "" for k in range(len(cells))]
        return "".join(f"<{tag}{s}>{as_html(cell)}</{tag}>" for s, cell in zip(style, cells, strict=True))

    starts = ("<tr>", '<tr class="marked">')
    body = "\n".join(f"{starts[k in stressed]}{row(cells, 'td')}</tr>" for k, cells in enumerate(rows))
    top = f"<thead><tr>{row(head, 'th')}</tr></thead>\n" if any(head) else ""
    return Markup(f'<div class="table"><table>\n{top}<tbody>\n{body}\n</tbody></table></div>\n')


def picture(drawn: Figure | Axes, alt: str, caption: str, *, pixels: int = 1000) -> Markup:
    """Return a figure as a vector image inside the page, at most ``pixels`` wide; narrow screens scroll wide ones."""
    from matplotlib.figure import Figure

    figure = drawn if isinstance(drawn, Figure) else drawn.get_figure(root=True)
    assert figure is not None
    data = io.BytesIO()
    figure.savefig(data, format="svg", metadata={"Date": None, "Creator": None})
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)  # where it is one of pyplot's, which keeps them
    source = base64.b64encode(data.getvalue()).decode()
    width, height = figure.get_size_inches()
    size = f'width="{pixels}" height="{pixels * height / width:.0f}"'
    least = min(pixels, max(320, int(0.64 * pixels)))
    image = f'<img src="data:image/svg+xml;base64,{source}" alt="{escape(alt)}" {size} style="min-width: {least}px" />'
    return Markup(f'<figure><div class="scroll">{image}</div><figcaption>{as_html(caption)}</figcaption></figure>\n')


def beside(*parts: Markup) -> Markup:
    """Return parts side by side where the page is wide enough."""
    return Markup(f'<div class="beside">{"".join(f"<div>{part}</div>" for part in parts)}</div>\n')


@contextmanager
def drawing_style() -> Iterator[None]:
    """Draw in one style, whatever the user's own is, and with the same bytes every time."""
    import matplotlib.style

    own = {"font.size": 8.5, "svg.fonttype": "path", "svg.hashsalt": "beliefs", "axes.labelcolor": "#1c2733"}
    with matplotlib.style.context(["default", own]):
        yield


# -- the page -----------------------------------------------------------------------------------------------------
def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the whole page: title, findings as a table of contents, sections."""
    style = resources.files("beliefs.report").joinpath("style.css").read_text()
    contents = "\n".join(
        f'<li><a href="#{s.anchor}">{escape(s.title)}</a> <span>{as_html(s.finding)}</span></li>' for s in sections
    )
    bodies = "\n".join(map(_section, sections))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p>{as_html(lead)}</p>
<nav><ol>
{contents}
</ol></nav>
</header>
<main>
{bodies}
</main>
</body>
</html>
"""


def _section(section: Section) -> str:
    return (
        f'<section id="{section.anchor}">\n<h2>{escape(section.title)}</h2>\n'
        f'<p class="finding">{as_html(section.finding)}</p>\n{section.body}</section>'
    )
