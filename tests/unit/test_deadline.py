"""The clock and the flags of time limits, by a clock of the test's own."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from beliefs import deadline
from beliefs.deadline import OutOfTime, check_time, compiling, limited, now, regardless, stop_flag, time_left
from beliefs.kernels._interpreted import interpreted


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def perf_counter(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(deadline, "time", clock)
    monkeypatch.setattr(deadline, "_compilation", deadline._Compilation())
    monkeypatch.setattr(deadline, "_LONGEST", 0.01)  # a watch that sleeps longer does not see this clock jump
    return clock


def raised(flag: np.ndarray) -> bool:
    """Whether the watch raises a flag within a minute of real time."""
    return any(flag[0] or threading.Event().wait(0.01) for _ in range(6000)) and bool(flag[0])


def test_without_a_limit_no_flag_is_ever_raised(clock: Clock) -> None:
    assert stop_flag()[0] == 0 and time_left() == math.inf
    with limited(math.inf) as unlimited:
        clock.seconds += 1e9
        check_time()
        assert unlimited.flag[0] == 0 and time_left() == math.inf


def test_steps_end_at_the_limit_and_all_else_after_a_grace(clock: Clock) -> None:
    with limited(10.0) as limit:
        assert (limit.soft, limit.hard) == (110.0, 111.5) and time_left() == 11.5
        with limit.stepping():
            assert time_left() == 10.0
        clock.seconds = 110.5
        with limit.stepping():
            assert raised(stop_flag())
            with pytest.raises(OutOfTime):
                check_time()
        check_time()  # the answer may still be collected
        clock.seconds = 112.0
        assert raised(stop_flag())
    check_time()  # outside nothing is left of it


def test_a_question_within_another_has_no_more_time_than_that(clock: Clock) -> None:
    with limited(10.0) as outer:
        with outer.stepping(), limited(100.0) as inner:
            assert inner.soft == inner.hard == outer.soft and stop_flag() is inner.flag
        with limited(1.0, grace=False) as inner:
            assert inner.soft == inner.hard == 101.0
        assert stop_flag() is outer.flag
        clock.seconds = 200.0
        with limited(1.0), pytest.raises(OutOfTime):  # at once, before any watch has looked at the clock
            check_time()


def test_what_must_be_done_has_time_of_its_own(clock: Clock) -> None:
    with limited(1.0) as outer:
        clock.seconds += 5.0
        with regardless(2.0) as inner:
            assert inner.soft == inner.hard == 107.0 and time_left() == 2.0
            check_time()
        assert time_left() < 0 and stop_flag() is outer.flag


def test_the_clock_stands_still_while_a_kernel_is_interpreted(clock: Clock) -> None:
    """Without compiled code on disk planners are interpreted, for as long as compiling would take."""
    kernel = SimpleNamespace(py_func=passing)
    with limited(1.0) as limit:
        assert interpreted(kernel)(clock, 30.0) == 7
        assert limit.soft - now() == pytest.approx(1.0)
        with pytest.raises(ZeroDivisionError):
            interpreted(kernel)(clock, 0.0)
        assert deadline._compilation._depth == {}


def passing(clock: Clock, seconds: float) -> float:
    clock.seconds += seconds
    return 7 / (seconds > 0)


def test_the_clock_stands_still_while_something_is_compiled(clock: Clock) -> None:
    began = now()
    clock.seconds += 1.0
    compiling(True)
    compiling(True)  # a kernel that calls another
    clock.seconds += 30.0
    compiling(False)
    clock.seconds += 30.0
    compiling(False)
    clock.seconds += 2.0
    assert now() - began == pytest.approx(3.0)


def test_the_clock_stands_still_for_all_threads_and_once(clock: Clock) -> None:
    began, may_end = now(), threading.Event()

    def compile_until_told() -> None:
        compiling(True)
        may_end.wait(60)
        compiling(False)

    both = [threading.Thread(target=compile_until_told) for _ in range(2)]
    for thread in both:
        thread.start()
    while len(deadline._compilation._depth) < 2:
        may_end.wait(0.001)
    clock.seconds += 10.0
    assert now() == began
    may_end.set()
    for thread in both:
        thread.join()
    clock.seconds += 3.0
    assert now() - began == 3.0


def test_an_interrupted_compilation_does_not_stop_the_clock_for_ever(clock: Clock) -> None:
    began = now()
    compiling(True)  # Ctrl-C comes before the compiler can say that it has ended
    clock.seconds += 5.0
    assert now() == began  # whoever asks for the time is not compiling any more
    clock.seconds += 5.0
    assert now() - began == 5.0


def test_flags_can_be_read_by_compiled_code() -> None:
    with limited(1.0) as limit:
        for flag in (stop_flag(), limit.flag):
            assert flag.dtype == np.int64 and flag.shape == (1,) and flag.flags.writeable and flag.flags.c_contiguous
