"""The only loop: when it stops, what it calls that, what it records."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.driver import Limits, Progress, Status, Trace, Value, run


class Counter:
    """A loop whose residuals are given and whose value is the number of steps taken."""

    def __init__(self, residuals: Iterator[float] | Callable[[int], float]) -> None:
        self.residuals, self.steps, self.valued = residuals, 0, 0

    def step(self) -> float:
        self.steps += 1
        return self.residuals(self.steps) if callable(self.residuals) else next(self.residuals)

    def value(self) -> Value:
        self.valued += 1
        return Value(float(self.steps))


def halving(k: int) -> float:
    return 2.0**-k


def test_it_stops_at_the_first_residual_within_tol() -> None:
    loop = Counter(halving)
    done = run(loop.step, loop.value, Limits(tol=2.0**-5))
    assert done.status is Status.CONVERGED and done.n_iters == loop.steps == 5
    assert done.trace.iteration.tolist() == [5] and done.trace.residual.tolist() == [2.0**-5] and loop.valued == 1


def test_a_tolerance_of_zero_asks_for_a_fixed_point() -> None:
    loop = Counter(iter([1.0, 0.0, 1.0]))
    assert run(loop.step, loop.value, Limits(tol=0.0)).n_iters == 2


def test_it_stops_after_max_iters() -> None:
    loop = Counter(halving)
    done = run(loop.step, loop.value, Limits(tol=0.0, max_iters=7))
    assert done.status is Status.MAX_ITERS and done.n_iters == 7


def test_zero_iterations_still_have_a_value() -> None:
    loop = Counter(halving)
    done = run(loop.step, loop.value, Limits(max_iters=0))
    assert done.status is Status.MAX_ITERS and done.n_iters == loop.steps == 0
    assert done.trace.iteration.tolist() == [0] and done.trace.log_z.tolist() == [0.0]
    assert done.trace.residual.tolist() == [math.inf]


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_residual_that_is_not_finite_is_divergence(bad: float) -> None:
    loop = Counter(iter([1.0, bad, 1.0]))
    done = run(loop.step, loop.value, Limits(tol=0.0))
    assert done.status is Status.DIVERGED and done.n_iters == 2 and not np.isnan(done.trace.residual).any()


@pytest.mark.parametrize("residual", [lambda k: 0.3, lambda k: 0.3 + 0.1 * (-1) ** k, lambda k: 1.0 / (100 + k)])
def test_a_residual_that_does_not_shrink_is_an_oscillation(residual: Callable[[int], float]) -> None:
    loop = Counter(residual)
    assert run(loop.step, loop.value, Limits(tol=1e-9, max_iters=50)).status is Status.OSCILLATING


def test_a_method_whose_value_never_falls_does_not_oscillate() -> None:
    for may, status in ((lambda: True, Status.OSCILLATING), (lambda: False, Status.MAX_ITERS)):
        loop = Counter(lambda k: 0.3)
        assert run(loop.step, loop.value, Limits(max_iters=50), fixed_point=may).status is status


@pytest.mark.parametrize("residual", [halving, lambda k: 0.9**k])
def test_a_residual_that_shrinks_is_none(residual: Callable[[int], float]) -> None:
    loop = Counter(residual)
    assert run(loop.step, loop.value, Limits(tol=0.0, max_iters=50)).status is Status.MAX_ITERS


def test_too_few_steps_are_not_called_an_oscillation() -> None:
    loop = Counter(lambda k: 0.3)
    assert run(loop.step, loop.value, Limits(max_iters=19)).status is Status.MAX_ITERS
    loop = Counter(lambda k: 0.3)
    assert run(loop.step, loop.value, Limits(max_iters=20)).status is Status.OSCILLATING


def test_the_clock_starts_at_the_call_of_the_door() -> None:
    loop = Counter(halving)
    done = run(loop.step, loop.value, Limits(time_limit=5.0, started=time.perf_counter() - 6.0))
    assert done.status is Status.TIME_LIMIT and done.n_iters == 0 and done.seconds >= 6.0


def test_time_runs_out_between_steps() -> None:
    def slow(k: int) -> float:
        time.sleep(0.02)
        return 1.0

    loop = Counter(slow)
    done = run(loop.step, loop.value, Limits(time_limit=0.05, max_iters=10**6))
    assert done.status is Status.TIME_LIMIT and 1 <= done.n_iters <= 4


def test_any_callback_that_returns_true_stops() -> None:
    seen: list[Progress] = []
    loop = Counter(halving)
    limits = Limits(tol=0.0, callbacks=(lambda now: now.iteration == 4, seen.append))
    done = run(loop.step, loop.value, limits)
    assert done.status is Status.STOPPED and [p.iteration for p in seen] == [1, 2, 3, 4]
    assert [p.residual for p in seen] == [0.5, 0.25, 0.125, 0.0625]


def test_truth_is_not_enough_it_must_be_true() -> None:
    loop = Counter(halving)
    assert run(loop.step, loop.value, Limits(tol=1e-3, callbacks=(lambda now: 1,))).status is Status.CONVERGED


def test_convergence_comes_before_a_stop() -> None:
    loop = Counter(iter([0.0]))
    assert run(loop.step, loop.value, Limits(callbacks=(lambda now: True,))).status is Status.CONVERGED


@pytest.mark.parametrize(
    "every, free, rows",
    [
        (None, False, [7]),
        (None, True, [1, 2, 3, 4, 5, 6, 7]),
        (3, False, [3, 6, 7]),
        (3, True, [3, 6, 7]),
        (7, False, [7]),
    ],
)
def test_rows_are_recorded_where_the_value_was_computed(every: int | None, free: bool, rows: list[int]) -> None:
    loop = Counter(halving)
    seen: list[Progress] = []
    limits = Limits(tol=0.0, max_iters=7, trace_every=every, callbacks=(seen.append,))
    done = run(loop.step, loop.value, limits, value_is_free=free)
    assert done.trace.iteration.tolist() == rows and done.trace.log_z.tolist() == rows and loop.valued == len(rows)
    assert len(done.trace) == len(rows) and (np.diff(done.trace.seconds) >= 0).all()
    shown = [p.iteration for p in seen if p.value is not None]
    assert shown == [r for r in rows if every is not None and r % every == 0 or free and every is None]


def test_unknown_bounds_are_infinite() -> None:
    trace = Trace.of([(1, 0.1, 0.5, Value(2.0)), (2, 0.2, 0.1, Value(2.5, 2.0, 3.0))])
    assert trace.lower.tolist() == [-math.inf, 2.0] and trace.upper.tolist() == [math.inf, 3.0]
    assert trace.iteration.dtype == np.int64 and len(Trace.of([])) == 0


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tol": -1e-9}, "tol must be a number of at least 0, found -1e-09"),
        ({"tol": math.nan}, "tol must be a number of at least 0, found nan"),
        ({"tol": "1"}, "tol must be a number of at least 0, found '1'"),
        ({"max_iters": -1}, "max_iters must be an integer of at least 0, found -1"),
        ({"max_iters": 1.0}, "max_iters must be an integer of at least 0, found 1.0"),
        ({"time_limit": -1}, "time_limit must be a number of at least 0, found -1"),
        ({"time_limit": np.zeros(2)}, "time_limit must be a number of at least 0, found array"),
        ({"trace_every": 0}, "trace_every must be an integer of at least 1, found 0"),
        ({"trace_every": True}, "trace_every must be None or an integer of at least 1, found True"),
    ],
)
def test_limits_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        Limits(**options)


def test_every_status_says_what_to_try() -> None:
    for status in Status:
        assert str(status) == status.name and len(status.advice.split()) >= 4
    assert "damping" in Status.OSCILLATING.advice and "max_iters" in Status.MAX_ITERS.advice


class TestVerification:
    def test_a_small_residual_counts_when_verified(self) -> None:
        residuals, truths, asked = iter([1.0, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9]), iter([0.5, 0.1, 0.0]), []

        def verify() -> float:
            asked.append(next(truths))
            return asked[-1]

        done = run(lambda: next(residuals), lambda: Value(0.0), Limits(tol=1e-8), verify=verify)
        assert done.status is Status.CONVERGED
        assert asked == [0.5, 0.1, 0.0]
        assert done.n_iters == 5  # asked after steps 2, 3 and 5: each refusal doubles the wait

    def test_it_is_asked_at_the_end_if_it_was_not_due(self) -> None:
        truths = iter([1.0, 1.0, 0.0])
        done = run(lambda: 0.0, lambda: Value(0.0), Limits(max_iters=3), verify=lambda: next(truths))
        assert done.status is Status.CONVERGED
        assert done.n_iters == 3

    def test_a_large_residual_asks_nothing(self) -> None:
        def verify() -> float:
            raise AssertionError

        assert run(lambda: 1.0, lambda: Value(0.0), Limits(max_iters=4), verify=verify).status is Status.MAX_ITERS
