"""The interval of a running question, drawn on a terminal: numbers, and lower and upper bound against time.

Two lines of dots, eight a character, with the estimate between them; what lies outside has been ruled out. Bounds move
fast at first and slowly later, so the time axis is logarithmic; the vertical range follows the interval as it shrinks,
and the two lines carry their numbers.
Everything here is text of a given width, so that it can be tested without a terminal.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import groupby

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from beliefs.driver import Progress, Value

__all__ = ["IntervalView", "plot"]

_HEIGHT = 9  # lines of the plot
_WIDTH = (24, 90)  # columns of the whole drawing, at least and at most
_MARGIN = 1.5  # times the present interval that is shown above and below it at most
_DECADES = 3.0  # of time that are shown at most
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))  # of a braille character, by column, from below
_BRAILLE = 0x2800
_UPPER, _LOWER, _ESTIMATE = range(3)
_STYLES = ("bold cyan", "bold green", "yellow")
_LETTERS = "^v-"  # for terminals without dots


@dataclass(eq=False)
class IntervalView:
    """What is drawn; ``record`` is the driver's callback.

    Parameters
    ----------
    task, method, what : str
        The question, what runs, and the name of the number between the bounds.
    limit : float
        The time limit in seconds, inf without one.
    """

    task: str
    method: str
    what: str
    limit: float = math.inf
    started: float = field(default_factory=time.perf_counter)
    last: Progress | None = None
    ended: float | None = None
    seconds: list[float] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def record(self, now: Progress) -> None:
        """Take in one step."""
        self.last = now
        if now.value is not None:
            self.seconds.append(now.seconds)
            self.values.append(now.value)

    @property
    def drawn(self) -> bool:
        """Whether there is an interval to draw."""
        return any(math.isfinite(v.lower) or math.isfinite(v.upper) for v in self.values[-1:])

    @property
    def elapsed(self) -> float:
        """Seconds so far."""
        return (time.perf_counter() if self.ended is None else self.ended) - self.started

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines for a console."""
        width = max(_WIDTH[0], min(options.max_width - 1, _WIDTH[1]))
        elapsed = self.elapsed
        yield self._headline(width, elapsed)
        if not self.drawn:
            return
        now = self.values[-1]
        yield self._numbers(now, width, options.ascii_only)
        if math.isfinite(now.log_z) and elapsed > 0:
            yield from plot(list(self.seconds), list(self.values), elapsed, width, options.ascii_only)

    def _headline(self, width: int, elapsed: float) -> Text:
        """Who works, and for how long."""
        stage = (self.last.stage if self.last else "") or self.method
        clock = f"{elapsed:.1f} s" if self.limit == math.inf else f"{elapsed:.1f} of {self.limit:g} s"
        left = f"{self.task} with {stage}"
        if self.last is not None and not self.last.stage:
            left += f": step {self.last.iteration}, residual {self.last.residual:.2e}"
            if self.last.value is not None and not self.drawn:
                left += f", log Z {self.last.value.log_z:.8g}"
        left = left if len(left) + len(clock) + 2 <= width else left[: max(0, width - len(clock) - 5)] + "..."
        return Text(left, "bold", end="").append(clock.rjust(width - len(left)) + "\n", "not bold dim")

    def _numbers(self, now: Value, width: int, ascii_only: bool) -> Text:
        """Return ``lower <= what <= upper``, and the gap to a few digits."""
        gap = now.upper - now.lower
        sign = "<=" if ascii_only else "≤"
        text = Text(no_wrap=True, overflow="ellipsis")
        if math.isfinite(now.lower):
            text.append(in_digits(now.lower, gap), _STYLES[_LOWER]).append(f" {sign} ")
        text.append(self.what)
        if now.lower < now.log_z < now.upper:
            text.append(f" {'~' if ascii_only else '≈'} ").append(in_digits(now.log_z, gap), _STYLES[_ESTIMATE])
        if math.isfinite(now.upper):
            text.append(f" {sign} ").append(in_digits(now.upper, gap), _STYLES[_UPPER])
        shown = f"gap {gap:.3g}" if math.isfinite(gap) else "gap unknown"
        return text.append(shown.rjust(max(len(shown) + 2, width - len(text))))


def in_digits(value: float, gap: float) -> str:
    """Return a bound with as many digits as the gap makes sense of.

    Examples
    --------
    >>> in_digits(-1234.56789, 0.05), in_digits(-1234.56789, 300.0), in_digits(2.5e12, 1e9)
    ('-1234.5679', '-1234.6', '2.5e+12')
    """
    if not math.isfinite(gap) or gap <= 0 or abs(value) >= 1e9:
        return f"{value:.9g}"
    return f"{value:.{min(max(2 - math.floor(math.log10(gap)), 1), 10)}f}"


def plot(seconds: list[float], values: list[Value], elapsed: float, width: int, ascii_only: bool = False) -> list[Text]:
    """Return the band between lower and upper bound, one column a stretch of time, and the axis below.

    Parameters
    ----------
    seconds, values : list
        The rows of a trace; the last value must be finite.
    elapsed : float
        The right end of the time axis.
    """
    now, gap = values[-1], values[-1].upper - values[-1].lower
    labels = [in_digits(v, gap) if math.isfinite(v) else "" for v in (now.upper, now.lower)]
    columns = width - max(map(len, labels)) - 2
    bottom, top = _range(values)
    scale = 4 * _HEIGHT / (top - bottom)
    first = _first(seconds, values, elapsed)
    moments = [first * (elapsed / first) ** ((c + 1) / (2 * columns)) for c in range(2 * columns)]
    canvas = _Canvas(columns)
    heights = [_heights(_at(seconds, values, moment), bottom, scale) for moment in moments]
    for kind, which in ((_UPPER, 2), (_LOWER, 0), (_ESTIMATE, 1)):
        _draw(canvas, kind, [None if h is None else h[which] for h in heights])
    lines = canvas.lines(ascii_only)
    _label(lines, labels, heights[-1])
    return [*lines, _axis(first, elapsed, columns)]


class _Canvas:
    """Dots of a few kinds, two a column and four a line; of several kinds in one place the first is seen."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.bits: dict[tuple[int, int], list[int]] = {}

    def dot(self, x: int, y: int, kind: int) -> None:
        """Set a dot, counted from the lower left."""
        bits = self.bits.setdefault((y // 4, x // 2), [0] * len(_STYLES))
        bits[kind] |= _DOTS[x % 2][y % 4]

    def lines(self, ascii_only: bool) -> list[Text]:
        """Return the canvas as text, the highest line first."""
        return [self._line(row, ascii_only) for row in reversed(range(_HEIGHT))]

    def _line(self, row: int, ascii_only: bool) -> Text:
        places = []
        for column in range(self.columns):
            bits = self.bits.get((row, column), [])
            kind = next((k for k, b in enumerate(bits) if b), -1)
            letter = " " if kind < 0 else _LETTERS[kind] if ascii_only else chr(_BRAILLE + bits[kind])
            places.append((kind, letter))
        line = Text(" ", no_wrap=True)
        for kind, run in groupby(places, key=lambda place: place[0]):
            line.append("".join(letter for _, letter in run), _STYLES[kind] if kind >= 0 else "")
        return line


def _draw(canvas: _Canvas, kind: int, heights: list[float | None]) -> None:
    """Draw a line of steps; a bound beyond the plot is not drawn, an estimate is dotted."""
    before: int | None = None
    for x, height in enumerate(heights):
        if height is None or not 0.0 <= height < 4 * _HEIGHT:
            before = None
            continue
        y = int(height)
        low, high = (y, y) if before is None else (min(y, before), max(y, before))
        for at in range(low, high + 1):
            if kind != _ESTIMATE or x % 4 < 2:
                canvas.dot(x, at, kind)
        before = y


def _first(seconds: list[float], values: list[Value], elapsed: float) -> float:
    """Return the left end of the time axis: the first bound, or a few decades ago."""
    known = (s for s, v in zip(seconds, values) if math.isfinite(v.lower) or math.isfinite(v.upper))
    return min(max(next(known, elapsed), elapsed / 10**_DECADES, 1e-3), 0.5 * elapsed)


def _axis(first: float, elapsed: float, columns: int) -> Text:
    """Return the line of times: powers of ten and the present."""
    places = [" "] * (columns + 1)

    def write(text: str, end: int) -> None:
        start = min(max(end - len(text), 0), columns + 1 - len(text))
        if start >= 0 and all(p == " " for p in places[max(start - 1, 0) : start + len(text) + 2]):
            places[start : start + len(text)] = text

    write(_seconds(elapsed), columns + 1)
    write(_seconds(first), 0)
    for power in range(math.ceil(math.log10(first)), math.ceil(math.log10(elapsed))):
        write(_seconds(10.0**power), 2 + round(columns * math.log(10.0**power / first) / math.log(elapsed / first)))
    return Text("".join(places), "dim", no_wrap=True)


def _seconds(value: float) -> str:
    return f"{value:.2g} s" if value < 99.5 else f"{value:.0f} s"


def _heights(at: Value | None, bottom: float, scale: float) -> list[float] | None:
    """Return lower bound, value and upper bound in dots above the bottom, as far as the plot goes."""
    if at is None:
        return None
    return [min(max((v - bottom) * scale, -1.0), 4.0 * _HEIGHT) for v in (at.lower, at.log_z, at.upper)]


def _at(seconds: list[float], values: list[Value], moment: float) -> Value | None:
    """Return what was known at a moment; nothing before either bound was."""
    row = bisect_right(seconds, moment) - 1
    if row < 0 or (values[row].lower == -math.inf and values[row].upper == math.inf):
        return None
    return values[row]


def _range(values: list[Value]) -> tuple[float, float]:
    """Return the ends of the vertical axis: the present interval, and the past as far as that stays readable."""
    now, gap = values[-1], values[-1].upper - values[-1].lower
    lowest = next((v.lower for v in values if math.isfinite(v.lower)), math.inf)
    highest = next((v.upper for v in values if math.isfinite(v.upper)), -math.inf)
    if not math.isfinite(gap):  # one end is open: the estimate stands in for it
        known = now.lower if math.isfinite(now.lower) else now.upper
        gap = 2.0 * abs(now.log_z - known)
    gap = max(gap, 1e-9 * max(1.0, abs(now.log_z)))
    ends = [now.log_z, *(v for v in (now.lower, now.upper) if math.isfinite(v))]
    bottom, top = min(ends), max(ends)
    below, above = min(bottom - lowest, _MARGIN * gap), min(highest - top, _MARGIN * gap)
    pad = 0.12 * gap
    return bottom - max(below, 0.0) - pad, top + max(above, 0.0) + pad


def _label(lines: list[Text], labels: list[str], ends: list[float] | None) -> None:
    """Write the two numbers at the right ends of the bounds, on lines of their own."""
    if ends is None:
        return
    rows = [_HEIGHT - 1 - min(max(int(e) // 4, 0), _HEIGHT - 1) for e in (ends[2], ends[0])]
    if rows[0] >= rows[1]:
        rows = [max(rows[1] - 1, 0), max(rows[1] - 1, 0) + 1]
    for row, label, style in zip(rows, labels, _STYLES):
        if label:
            lines[row].append(f" {label}", style)
