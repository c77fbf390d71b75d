"""The line that a fit shows: what it says, how long is left, where it is written; and Ctrl-C with it."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest
import rich.console

from beliefs.driver import Limits
from beliefs.learning.fit import fit
from beliefs.learning.optimizers import LBFGS, Adam
from beliefs.learning.progress import line, seconds_left
from beliefs.learning.result import FitProgress
from small_crf import TEMPLATE, Enumerated, chains

LOSS = Enumerated(template=TEMPLATE, l2=0.01)
DATA = chains(6)


def at(iteration: int, seconds: float, **more: Any) -> FitProgress:
    given: dict[str, Any] = {"loss": 0.5, "grad_norm": 1e-3, "validation": math.inf, "weights": np.zeros(1)} | more
    return FitProgress(iteration=iteration, step=iteration, seconds=seconds, **given)


def test_the_line_says_what_is_known() -> None:
    now = at(7, 3.0, loss=0.123456789, grad_norm=2.5e-4)
    assert line(LBFGS(), now, math.inf) == "fit with lbfgs: iteration 7, loss 0.123457, gradient 2.5e-04"
    assert line(Adam(step=0.1), at(1, 1.0), 42.4).endswith("gradient 1.0e-03, at most 42 s left")
    text = line(LBFGS(), at(1, 1.0, validation=0.25, n_diverged=3), 7200.0)
    assert text.endswith("validation 0.25, 3 diverged, at most 2.0 h left")
    assert "at most 10 min left" in line(LBFGS(), now, 600.0)


def test_the_time_left_is_the_shorter_of_clock_and_pace() -> None:
    slow, fast = Limits(max_iters=100), Limits(max_iters=100, time_limit=20.0)
    first, now = at(10, 5.0), at(20, 10.0)  # half a second an iteration, 80 to go
    assert seconds_left(first, now, slow) == pytest.approx(40.0)
    assert seconds_left(first, now, fast) == pytest.approx(10.0)
    assert seconds_left(first, first, slow) == math.inf and seconds_left(first, first, fast) == 15.0
    assert seconds_left(first, at(100, 50.0), slow) == 0.0


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal on which everything that rich writes is kept."""
    written = io.StringIO()
    console = rich.console.Console

    def terminal(stderr: bool) -> rich.console.Console:
        assert stderr  # standard output is the caller's
        return console(file=written, force_terminal=True, width=200)

    monkeypatch.setattr(rich.console, "Console", terminal)
    return written


@pytest.mark.parametrize("optimizer", ["lbfgs", "adam(batch_size=2)"])
def test_a_terminal_shows_the_line_and_is_left_clean(optimizer: str, screen: io.StringIO) -> None:
    fit(LOSS, DATA, optimizer=optimizer, max_iters=5, progress=True)
    text = screen.getvalue()
    assert f"fit with {optimizer}: iteration" in text and ", gradient " in text and "left" in text
    assert text.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))  # the line erased, the cursor back


def test_without_a_terminal_nothing_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    fit(LOSS, DATA, progress=True)
    shown, quiet = capfd.readouterr(), fit(LOSS, DATA)
    assert shown.out == "" and "\x1b" not in shown.err and quiet.converged


def test_an_interrupt_takes_the_line_away_first(screen: io.StringIO) -> None:
    def callback(now: FitProgress) -> None:
        if now.iteration == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(LOSS, DATA, progress=True, callback=callback)
    assert screen.getvalue().rstrip().endswith(("\x1b[2K", "\x1b[?25h"))
