"""The drawing of a running interval: read back as text, without a terminal."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

import beliefs as bl
from beliefs.driver import Progress, Value
from beliefs.inference.show.live import IntervalView, in_digits, plot
from beliefs.inference.show.progress import reporter

WIDTH = 60
BRAILLE = range(0x2801, 0x2900)


def drawn(view: IntervalView, width: int = WIDTH + 1, encoding: str = "utf-8") -> list[str]:
    page = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=page, width=width, color_system=None, legacy_windows=False).print(view)
    page.seek(0)
    return page.read().splitlines()


def view(*rows: tuple[float, float, float, float], limit: float = 60.0, stage: str = "trw") -> IntervalView:
    """A view after the rows ``(seconds, lower, value, upper)``, one second after the last."""
    shown = IntervalView("infer", "auto", "log Z", limit, started=100.0, ended=101.0 + (rows[-1][0] if rows else 0))
    for k, (seconds, lower, value, upper) in enumerate(rows):
        shown.record(Progress(k + 1, seconds, 0.5, Value(value, lower, upper), stage))
    return shown


CLOSING = ((0.1, -20.0, 1.0, 30.0), (1.0, -5.0, 1.0, 10.0), (9.0, 0.0, 1.0, 2.0))


def test_numbers_and_clock() -> None:
    lines = drawn(view(*CLOSING))
    assert lines[0].split() == "infer with trw 10.0 of 60 s".split()
    assert lines[1].split() == "0.00 ≤ log Z ≈ 1.00 ≤ 2.00 gap 2".split()
    assert all(len(line) <= WIDTH for line in lines) and len(lines) == 12
    assert lines[-1].split() == ["0.1", "s", "1", "s", "10", "s"]


def test_the_lines_close_in_from_both_sides() -> None:
    columns = [
        [row for row, line in enumerate(drawn(view(*CLOSING))[2:-1]) if c < len(line) and ord(line[c]) in BRAILLE]
        for c in (40, WIDTH - 7)
    ]
    then, now = columns
    assert min(now) > min(then or [-1]) and max(now) < max(then or [9]) and len(now) == 3


def test_the_ends_carry_their_numbers() -> None:
    lines = drawn(view(*CLOSING))
    upper, lower = (next(k for k, line in enumerate(lines) if k > 1 and line.endswith(n)) for n in ("2.00", "0.00"))
    assert upper < lower


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ((1.0, -3.0, 1.0, math.inf), "-3 ≤ log Z ≈ 1 gap unknown"),
        ((1.0, -math.inf, 1.0, 4.0), "log Z ≈ 1 ≤ 4 gap unknown"),
        ((1.0, 2.5, 2.5, 2.5), "2.5 ≤ log Z ≤ 2.5 gap 0"),
        ((1.0, -math.inf, -math.inf, 4.0), "log Z ≤ 4 gap unknown"),
    ],
)
def test_one_end_or_none_may_be_open(row: tuple[float, float, float, float], told: str) -> None:
    lines = drawn(view(row))
    assert lines[1].split() == told.split()


def test_without_an_interval_there_is_one_line() -> None:
    assert len(drawn(view())) == 1
    assert len(drawn(view((1.0, -math.inf, 3.0, math.inf), stage=""))) == 1
    assert "step 1, residual 5.00e-01, log Z 3" in drawn(view((1.0, -math.inf, 3.0, math.inf), stage=""), 100)[0]


def test_a_narrow_terminal_and_one_without_the_letters() -> None:
    assert all(len(line) <= 24 for line in drawn(view(*CLOSING), 10))
    assert len(drawn(view(*CLOSING, stage="mean_field(structure=tree, restarts=4)"), 30)[0]) <= 30
    text = "\n".join(drawn(view(*CLOSING), encoding="ascii"))
    assert text.isascii() and "^" in text and "v" in text and "<=" in text


@pytest.mark.parametrize("elapsed", [1e-4, 0.01, 1.0, 99.7, 12345.0])
def test_any_time_scale(elapsed: float) -> None:
    lines = plot([elapsed / 2], [Value(0.0, -1.0, 1.0)], elapsed, WIDTH)
    assert len(lines) == 10 and all(len(line.plain) <= WIDTH for line in lines)


def test_digits_follow_the_gap() -> None:
    assert in_digits(1234.5678, 0.001) == "1234.56780" and in_digits(-1e300, 1e299) == "-1e+300"


def test_a_terminal_gets_the_drawing_and_the_rest_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    page = io.StringIO()
    grid = bl.datasets.make_ising_grid(40, seed=0)
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", page)
        bl.infer(grid, progress=True, max_iters=6)
        assert page.getvalue() in ("", "\n")
        patch.setenv("FORCE_COLOR", "1")
        patch.setenv("TERM", "xterm")
        bl.infer(grid, progress=True, max_iters=6)
    assert "≤ log Z ≈" in page.getvalue() and "infer with" in page.getvalue()


def test_exact_methods_keep_one_line() -> None:
    with reporter(bl.JunctionTree(), bl.inference.Task.INFER) as report:
        assert report is not None
        report(Progress(1, 0.1, 0.0, Value(1.0, 1.0, 1.0)))
