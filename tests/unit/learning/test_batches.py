"""Batches, data and executors: what a fit asks of labelled data, whatever its form."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.base import Bound
from beliefs.learning import losses
from beliefs.learning.batches import RecentBatches, Share, Total
from beliefs.learning.data import can_choose, chosen, first_ones, n_labels, read_once
from beliefs.learning.optimizers.batches import Batches
from beliefs.learning.parallel import Threads, executor_of
from small_crf import TEMPLATE, Enumerated, chains


# -- sums ---------------------------------------------------------------------------------------------------------
def test_a_total_is_a_mean_over_labels_with_a_ridge() -> None:
    total, weights = Total(np.zeros(2)), np.array([1.0, 2.0])
    total.add(Share(3.0, np.array([1.0, 0.0]), 2.0, bound=Bound.EXACT))
    total.add(Share(1.0, np.array([0.0, 4.0]), 2.0, 3, 1, 2, Bound.UPPER))
    found = total.evaluation(weights, 0.1)
    assert found.value == 4.0 / 4.0 + 0.1 * 5.0
    np.testing.assert_array_equal(found.grad, [0.25 + 0.2, 1.0 + 0.4])
    assert (found.n_instances, found.n_diverged, found.n_not_converged, found.bound) == (4, 1, 2, Bound.UPPER)
    total.add(Share(0.0, np.zeros(2), 1.0, bound=Bound.LOWER))
    assert total.evaluation(weights, 0.0).bound is Bound.ESTIMATE
    total.overflowed = True
    assert total.evaluation(weights, 0.1).value == np.inf
    assert not total.evaluation(weights, 0.1).grad.any()
    with pytest.raises(bl.ModelError, match="no variable of any instance has a label"):
        Total(np.zeros(2)).evaluation(weights, 0.0)


def test_a_loss_takes_its_own_batches() -> None:
    data, loss, weights = chains(6), Enumerated(template=TEMPLATE, l2=0.1), np.full(TEMPLATE.n_weights, 0.1)
    (batch,) = loss.batches(data)
    value, grad = loss.value_and_grad(weights, batch)
    assert value == loss.evaluate(weights, data).value
    np.testing.assert_array_equal(grad, loss.evaluate(weights, iter(data)).grad)


def test_recent_batches_are_those_of_the_last_lists() -> None:
    recent, made = RecentBatches(), []
    lists = [[k] for k in range(6)]

    def asked(data: list[int]) -> int:
        recent.of(data, lambda: made.append(data) or ())  # type: ignore[func-returns-value]
        return len(made)

    assert [asked(data) for data in lists] == [1, 2, 3, 4, 5, 6] and len(recent) == 4
    assert [asked(data) for data in lists[2:]] == [6, 6, 6, 6]
    lists[3].append(7)  # it holds something else now
    assert asked(lists[3]) == 7 and len(recent) == 4
    assert asked([5]) == 8  # an equal list is not the same
    recent.clear()
    assert len(recent) == 0


# -- data ---------------------------------------------------------------------------------------------------------
def test_lists_can_be_chosen_from_and_streams_cannot() -> None:
    data = chains(5)
    assert can_choose(data) and can_choose(tuple(data)) and not can_choose(iter(data))
    assert read_once(iter(data)) and not read_once(data)
    assert chosen(data, np.array([3, 0])) == [data[3], data[0]]
    assert first_ones(data, 2) == data[:2] and first_ones(data, 9) == data
    assert n_labels(data) == sum(one.labels.size for one in data)


def test_a_pass_can_be_entered_anywhere() -> None:
    data = list(range(10))
    whole = Batches(data, 4, seed=1, n_pass=2)  # type: ignore[arg-type]
    batches = [whole.take(), whole.take(), whole.take()]
    assert whole.over and [len(batch) for batch in batches] == [4, 4, 2] and sorted(sum(batches, [])) == data
    within = Batches(data, 4, seed=1, n_pass=2, position=8)  # type: ignore[arg-type]
    assert within.take() == batches[2] and within.over and within.take() is None
    streamed = Batches(iter(data), 4, seed=1, position=3)  # type: ignore[arg-type]
    assert [streamed.take(), streamed.take()] == [[3, 4, 5, 6], [7, 8, 9]] and streamed.over
    with pytest.raises(bl.ModelError, match="no instances to learn from in a further pass"):
        Batches(iter(()), 4, seed=1, n_pass=1)


# -- executors ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_answers_come_in_order(threads: int) -> None:
    executor = Threads(threads)
    assert executor.map(lambda k: k * k, range(50)) == [k * k for k in range(50)]
    assert list(executor.windows(lambda k: k * k, range(50))) == [k * k for k in range(50)]
    out = np.zeros(20)

    def task(begin: int, end: int) -> None:
        out[begin:end] += np.arange(begin, end)

    executor.chunks(task, 20)
    np.testing.assert_array_equal(out, np.arange(20))
    assert executor_of(threads) == executor and executor_of(None).n_workers >= 1


def test_an_entry_is_never_beside_itself() -> None:
    class Entry:
        def __init__(self) -> None:
            self.lock, self.turns = threading.Lock(), 0

        def turn(self) -> int:
            assert self.lock.acquire(blocking=False), "two threads at one entry"
            self.turns += 1
            self.lock.release()
            return self.turns

    one, other = Entry(), Entry()
    assert list(Threads(4).windows(Entry.turn, [one, one, other, one, other])) == [1, 2, 1, 3, 2]


def test_windows_read_little_ahead() -> None:
    taken = 0

    def source() -> Iterator[int]:
        nonlocal taken
        for k in range(100):
            taken += 1
            yield k

    answers: Any = Threads(2).windows(lambda k: k, source())
    assert next(answers) == 0 and taken <= 2 * 4 + 1
    answers.close()


def test_the_old_name_of_an_instances_loss_stays_for_a_release() -> None:
    with pytest.warns(DeprecationWarning, match="Part is called InstanceLoss now"):
        assert losses.Part is losses.InstanceLoss
    with pytest.raises(AttributeError, match="has no attribute 'Parts'"):
        losses.Parts  # noqa: B018


# -- the executor -----------------------------------------------------------------------------------------------------
def test_answers_come_in_order_and_an_entry_is_never_beside_itself() -> None:
    under_way, often = set[int](), [object() for _ in range(3)] * 7

    def task(entry: object) -> int:
        assert id(entry) not in under_way, "the same entry twice at a time"
        under_way.add(id(entry))
        time.sleep(0.001)
        under_way.discard(id(entry))
        return id(entry)

    assert list(Threads(2).windows(task, often)) == [id(entry) for entry in often]
    assert Threads(2).map(lambda n: sum(Threads(2).map(abs, [n, -n])), [1, 2, 3]) == [2, 4, 6], "work within work"


def test_nothing_goes_on_behind_an_error() -> None:
    finished = []

    def task(n: int) -> int:
        if n == 1:
            raise ValueError("the second")
        time.sleep(0.01)
        finished.append(n)
        return n

    with pytest.raises(ValueError, match="the second"):
        list(Threads(2).windows(task, range(100)))
    count = len(finished)
    time.sleep(0.03)
    assert len(finished) == count < 20
