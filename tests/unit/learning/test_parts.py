"""Data that is not in memory: folders of archives, dask's bags and arrays, and what is read ahead."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import beliefs as bl
from beliefs.cli import commands
from beliefs.learning.data import InParts, mean_labels
from beliefs.learning.estimators.parts import parts_of
from beliefs.learning.optimizers.batches import Batches

OPTIONS: dict[str, Any] = {"n_sweeps": 3, "max_iters": 3, "optimizer": "adam(step=0.05, batch_size=3)", "seed": 4}


def images(n: int = 11) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Pictures of several sizes, so that their numbers of labels differ, some of them hidden."""
    rng = np.random.default_rng(0)
    Y = [(rng.random((5 + k % 3, 6)) < 0.4).astype(np.int64) for k in range(n)]
    X = [y[..., None] + rng.normal(size=(*y.shape, 2)) for y in Y]
    Y[2][0, :3] = -1
    return X, Y


X, Y = images()


def write(folder: Path, sizes: Sequence[int]) -> Path:
    """Write the pictures to files of so many each, and return the folder."""
    begin = 0
    for number, size in enumerate(sizes):
        part = range(begin, begin + size)
        arrays = {f"X_{k - begin}": X[k] for k in part} | {f"Y_{k - begin}": Y[k] for k in part}
        np.savez(folder / f"part{number:02d}.npz", allow_pickle=False, **arrays)
        begin += size
    return folder


class Parts(InParts):
    """Numbers in parts, which says how often each was loaded."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes, self.loaded = sizes, [0] * len(sizes)
        self.threads: set[str] = set()

    @property
    def sizes(self) -> Sequence[int]:
        return self._sizes

    def part(self, number: int) -> list[Any]:
        self.loaded[number] += 1
        self.threads.add(threading.current_thread().name)
        begin = sum(self._sizes[:number])
        return list(range(begin, begin + self._sizes[number]))


def order_of(data: Any, size: int, seed: int = 3, n_pass: int = 0, position: int = 0) -> list[Any]:
    batches, found = Batches(data, size, seed, n_pass, position), []
    while not batches.over:
        found.append(batches.take())
    batches.close()
    return found


# -- the order --------------------------------------------------------------------------------------------------------
def test_parts_of_one_come_in_the_order_of_a_list() -> None:
    assert order_of(Parts([1] * 10), 4, n_pass=2) == order_of(list(range(10)), 4, n_pass=2)


def test_a_pass_loads_every_part_once_and_can_be_entered_anywhere() -> None:
    parts = Parts([3, 1, 4, 2])
    whole = order_of(parts, 3)
    flat: list[int] = sum(whole, [])
    assert parts.loaded == [1, 1, 1, 1] and sorted(flat) == list(range(10)) and flat != sorted(flat)
    assert [len(batch) for batch in whole] == [3, 3, 3, 1] and whole != order_of(parts, 3, n_pass=1)
    for position in (3, 6, 9):
        again = Parts([3, 1, 4, 2])
        assert order_of(again, 3, position=position) == whole[position // 3 :] and sum(again.loaded) < 4


def test_a_thread_reads_one_batch_ahead_and_no_more() -> None:
    parts = Parts([2] * 6)
    batches = Batches(parts, 2, seed=0)  # type: ignore[arg-type]
    for taken in range(1, 5):
        batches.take()
        assert not batches.over and sum(parts.loaded) == taken + 1
    batches.close()
    assert len(parts.threads) == 1 and threading.current_thread().name not in parts.threads


def test_what_fails_while_it_is_read_is_raised_by_the_fit() -> None:
    def pairs() -> Any:
        yield X[0], Y[0]
        yield X[1], Y[1]
        calls.append(1)
        if len(calls) > 1:
            raise OSError("the disk is gone")
        yield X[3], Y[3]

    calls: list[int] = []
    with pytest.raises(OSError, match="the disk is gone"):
        bl.GridCRF(n_sweeps=2, init="zeros", optimizer="sgd(batch_size=1)", max_iters=3).fit(pairs)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("beliefs-reading")]


# -- the same weights -------------------------------------------------------------------------------------------------
def test_a_folder_of_single_instances_gives_the_bytes_of_the_list(tmp_path: Path) -> None:
    wanted = bl.GridCRF(**OPTIONS).fit(X, Y)
    found = bl.GridCRF(**OPTIONS).fit(write(tmp_path, [1] * 11))
    np.testing.assert_array_equal(found.weights_, wanted.weights_)
    assert found.result_.loss == pytest.approx(wanted.result_.loss, rel=1e-12)


def test_larger_files_give_the_bytes_of_the_list_in_their_order(tmp_path: Path) -> None:
    """One pass over files of several instances is one over pairs in the order in which parts are drawn."""
    sizes = [4, 2, 5]
    order: list[int] = sum(order_of(Parts(sizes), 3, seed=4), [])
    options = OPTIONS | {"max_iters": 1, "init": "zeros"}
    wanted = bl.GridCRF(**options).fit(lambda: ((X[k], Y[k]) for k in order))
    found = bl.GridCRF(**options).fit(str(write(tmp_path, sizes)))
    np.testing.assert_array_equal(found.weights_, wanted.weights_)


def test_bags_and_arrays_of_dask_give_the_bytes_of_the_list() -> None:
    bag, array = pytest.importorskip("dask.bag"), pytest.importorskip("dask.array")
    wanted = bl.GridCRF(**OPTIONS).fit(X, Y).weights_
    pairs = bag.from_sequence(list(zip(X, Y, strict=True)), partition_size=1)
    np.testing.assert_array_equal(bl.GridCRF(**OPTIONS).fit(pairs).weights_, wanted)
    two = bag.from_sequence(X, partition_size=1), bag.from_sequence(Y, partition_size=1)
    np.testing.assert_array_equal(bl.GridCRF(**OPTIONS).fit(*two).weights_, wanted)
    same = [k for k in range(11) if k % 3 == 0]
    stack = np.stack([X[k] for k in same]), np.stack([Y[k] for k in same])
    wanted = bl.GridCRF(**OPTIONS).fit(list(stack[0]), list(stack[1])).weights_
    cut = array.from_array(stack[0], chunks=(1, 3, 3, 2)), array.from_array(stack[1], chunks=(2, 5, 6))
    np.testing.assert_array_equal(bl.GridCRF(**OPTIONS).fit(*cut).weights_, wanted)


def test_pairs_in_the_order_of_a_list_give_its_bytes() -> None:
    """All labels are known beforehand, so that sizes that differ weigh as they do in a list."""
    options = OPTIONS | {"max_iters": 1, "init": "zeros"}
    order = np.random.default_rng([4, 0]).permutation(11)
    wanted = bl.GridCRF(**options).fit(X, Y)
    found = bl.GridCRF(**options).fit(lambda: ((X[k], Y[k]) for k in order))
    np.testing.assert_array_equal(found.weights_, wanted.weights_)


def test_words_by_batches_from_files_agree_with_the_list(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    tags = [rng.integers(0, 3, 4 + k % 2) for k in range(7)]
    words = [np.eye(3)[y] + rng.normal(size=(y.size, 3)) for y in tags]
    for k, (x, y) in enumerate(zip(words, tags, strict=True)):
        np.savez(tmp_path / f"{k}.npz", X_0=x, Y_0=y)
    options: dict[str, Any] = {"optimizer": "sgd(step=0.2, batch_size=2)", "max_iters": 4}
    wanted = bl.ChainCRF(**options).fit(words, tags)
    np.testing.assert_array_equal(bl.ChainCRF(**options).fit(tmp_path).weights_, wanted.weights_)


def test_all_instances_at_once_agree_to_rounding(tmp_path: Path) -> None:
    wanted = bl.GridCRF(n_sweeps=3, max_iters=20).fit(X, Y)
    found = bl.GridCRF(n_sweeps=3, max_iters=20).fit(write(tmp_path, [6, 5]))
    np.testing.assert_allclose(found.weights_, wanted.weights_, atol=1e-9)


def test_an_interrupted_fit_goes_on_within_a_pass(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder, [4, 2, 5])
    wanted = bl.GridCRF(**OPTIONS).fit(folder)
    options = OPTIONS | {
        "checkpoint": tmp_path / "fit.npz",
        "init": bl.GridCRF(**OPTIONS | {"max_iters": 0}).fit(folder).weights_,
    }
    bl.GridCRF(**options, callback=lambda now: now.step >= 5).fit(folder)
    found = bl.GridCRF(**options).fit(folder)
    np.testing.assert_array_equal(found.weights_, wanted.weights_)


def test_the_command_fits_to_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder, [4, 7])
    options = ["--n-sweeps", "3", "--optimizer", "adam(step=0.05, batch_size=3)", "--max-iters", "3", "--seed", "4"]
    output = str(tmp_path / "model.npz")
    done = CliRunner().invoke(commands, ["fit", str(folder), "--model", "grid", "-o", output, *options])
    assert done.exit_code == 0, done.output
    wanted = bl.GridCRF(**OPTIONS).fit(folder)
    np.testing.assert_array_equal(bl.GridCRF.load(output).weights_, wanted.weights_)


# -- what is refused --------------------------------------------------------------------------------------------------
def test_mini_batches_that_do_not_fit_are_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    one = max(x.nbytes + x[..., 0].nbytes + y.nbytes for x, y in zip(X, Y, strict=True))  # with the constant
    evaluated: list[int] = []
    options = OPTIONS | {"callback": lambda now: evaluated.append(now.step), "init": "zeros"}
    monkeypatch.setattr("beliefs.learning.optimizers.stochastic.default_budget", lambda: 6 * 3 * one - 1)
    with pytest.raises(bl.BudgetError, match="mini-batches of 3 instances, .* Give a smaller batch_size"):
        bl.GridCRF(**options).fit(lambda: zip(X, Y, strict=True))
    assert not evaluated
    bl.GridCRF(**options).fit(X, Y)  # these are in memory already
    monkeypatch.setattr("beliefs.learning.optimizers.stochastic.default_budget", lambda: 6 * 3 * one)
    bl.GridCRF(**options).fit(lambda: zip(X, Y, strict=True))


def test_few_instances_are_in_memory() -> None:
    """Inputs that are alive while mini-batches are read: those of six batches at most, however many there are."""
    made: list[weakref.ref[np.ndarray]] = []
    most = n_pass = 0

    def pairs() -> Any:
        nonlocal most, n_pass
        n_pass += 1
        for k in range(60):
            x = X[k % 11].copy()
            made.append(weakref.ref(x))
            if k % 6 == 0 and n_pass <= 3:  # not the objective at the end, where small ones are joined
                gc.collect()
                most = max(most, sum(one() is not None for one in made))
            yield x, Y[k % 11]

    gc.freeze()  # a collection looks at what this test made, not at all that the process holds
    try:
        bl.GridCRF(n_sweeps=1, init="zeros", max_iters=2, optimizer="sgd(batch_size=2)", intercept=False).fit(pairs)
    finally:
        gc.unfreeze()
    assert 2 <= most <= 2 * 6 + 2


def test_bad_parts_are_told_in_one_line(tmp_path: Path) -> None:
    bag, array = pytest.importorskip("dask.bag"), pytest.importorskip("dask.array")
    crf = bl.GridCRF(**OPTIONS)
    empty = tmp_path / "empty"
    empty.mkdir()
    for given, message in (
        ((tmp_path / "nowhere",), "no such folder"),
        ((empty,), "no .npz file"),
        ((array.zeros((3, 4, 4)),), "the array Y of labels is missing"),
        ((array.zeros((3, 4, 4)), [1, 2, 3]), "Y must be divided alike; found list"),
        ((array.zeros((3, 4, 4)), array.zeros((2, 4, 4), int)), "X has 3 instances and Y has 2"),
        ((bag.from_sequence(X), bag.from_sequence(Y, npartitions=2)), "X has 11 partitions and Y has 2"),
        ((bag.from_sequence(X, npartitions=2),), "instance 0: expected a pair"),
    ):
        with pytest.raises(bl.BeliefsError, match=message) as caught:
            crf.fit(*given)
        assert len(str(caught.value).splitlines()) == 1
    np.savez(empty / "a.npz", X_0=X[0])
    with pytest.raises(bl.FormatError, match="no labels Y"):
        crf.fit(empty)
    with pytest.raises(bl.ModelError, match="sample_weight has 2 entries"):
        crf.fit(bag.from_sequence(list(zip(X, Y, strict=True))), sample_weight=[1.0, 2.0])


def test_a_part_that_changes_between_passes_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [6, 5])

    def shorten(now: Any) -> None:
        np.savez(tmp_path / "part00.npz", X_0=X[0], Y_0=Y[0])
        np.savez(tmp_path / "part01.npz", X_0=X[0], Y_0=Y[0])

    with pytest.raises(bl.ModelError, match="instances in part ., and now there are 1"):
        bl.GridCRF(**OPTIONS | {"init": "zeros"}, callback=shorten).fit(tmp_path)


def test_a_mean_of_labels_is_known_where_data_was_read() -> None:
    assert mean_labels([1, 2]) == 1.0 and mean_labels(iter([1])) is None and mean_labels([]) is None
    assert parts_of([1], None, bl.GridCRF) is None and parts_of(lambda: [], None, bl.GridCRF) is None
