"""Checkpoints: a killed fit goes on to the same optimum, another fit's file is refused, nothing is half-written."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.learning.checkpoint import Checkpoint
from beliefs.learning.fit import fit
from beliefs.learning.result import FitProgress
from small_crf import TEMPLATE, Enumerated, chains

LOSS = Enumerated(template=TEMPLATE, l2=0.01)
DATA = chains(12)
OPTIMIZERS = [
    "lbfgs",
    "sgd(step=1.0, batch_size=5, momentum=0.5, average=True)",
    "adam(batch_size=5, average=True)",
    "one_slack",
]

SLOW_FIT = """
import sys, time
sys.path.insert(0, sys.argv[1])
from beliefs.learning.fit import fit
from small_crf import TEMPLATE, Enumerated, chains

class Slow(Enumerated):
    def evaluate(self, weights, instances):
        time.sleep(0.1)
        return super().evaluate(weights, instances)

print("begun", flush=True)
fit(Slow(template=TEMPLATE, l2=0.01), chains(12), optimizer=sys.argv[3], max_iters=40, tol=1e-9,
    checkpoint=sys.argv[2], checkpoint_every=0)
"""


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_killed_fit_goes_on_to_the_same_optimum(optimizer: str, tmp_path: Path) -> None:
    """SIGKILL in mid-fit, when a few checkpoints have been written one over the other."""
    path = tmp_path / "fit.npz"
    tests = str(Path(__file__).resolve().parents[2])
    process = subprocess.Popen([sys.executable, "-c", SLOW_FIT, tests, str(path), optimizer], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        first = _wait_for_change(path, 0)
        _wait_for_change(path, first)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    options: dict[str, Any] = {"optimizer": optimizer, "max_iters": 40, "tol": 1e-9}
    with np.load(path) as saved:
        done = len(saved["trace"])
    whole = fit(LOSS, DATA, **options)
    resumed = fit(LOSS, DATA, **options, checkpoint=path)
    assert done < len(whole.trace) and resumed.status is whole.status
    starts = optimizer in ("lbfgs", "one_slack")  # their traces begin with the start
    assert resumed.trace.iteration[done - 1] == done - int(starts) if done else True
    if optimizer == "lbfgs":
        np.testing.assert_allclose(resumed.weights, whole.weights, atol=1e-7)
    else:  # the very same updates
        assert (resumed.weights == whole.weights).all() and resumed.loss == whole.loss
        assert (resumed.trace.loss == whole.trace.loss).all()
    assert [p.name for p in tmp_path.iterdir()] == ["fit.npz"]


def _wait_for_change(path: Path, before: float) -> float:
    for _ in range(2000):
        if path.exists() and path.stat().st_mtime_ns != before:
            return path.stat().st_mtime_ns
        time.sleep(0.005)
    raise AssertionError("no checkpoint was written")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("step", [1, 4, 5])
def test_every_stop_is_a_place_to_go_on_from(optimizer: str, step: int, tmp_path: Path) -> None:
    """Within a pass and between passes; early stopping remembers its best."""
    held_out = chains(4, seed=1)
    options: dict[str, Any] = {"optimizer": optimizer, "max_iters": 6, "validation": held_out, "patience": 100}
    whole = fit(LOSS, DATA, **options)
    path = tmp_path / "fit.npz"
    stopped = fit(LOSS, DATA, **options, checkpoint=path, callback=lambda now: now.step == step)
    assert stopped.status is bl.Status.STOPPED
    resumed = fit(LOSS, DATA, **options, checkpoint=path)
    assert resumed.n_iters == whole.n_iters and len(resumed.trace) == len(whole.trace)
    assert (np.diff(resumed.trace.seconds) >= 0).all()
    assert resumed.validation == pytest.approx(whole.validation, abs=1e-12 if optimizer != "lbfgs" else 0.01)
    if optimizer != "lbfgs":
        assert (resumed.weights == whole.weights).all()


def test_a_finished_fit_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    first = fit(LOSS, DATA, checkpoint=path)
    again = fit(LOSS, DATA, np.ones(10), checkpoint=path)  # the file wins over the weights given
    assert again.converged and again.n_evaluations == 1 and (again.weights == first.weights).all()
    assert again.n_iters == first.n_iters and len(again.trace) == len(first.trace)


def test_more_iterations_may_be_asked_for_later(tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    for passes in (2, 2, 5):
        result = fit(LOSS, DATA, optimizer="adam", max_iters=passes, checkpoint=path)
        assert result.n_iters == passes and result.trace.iteration.tolist() == list(range(1, passes + 1))
    assert (result.weights == fit(LOSS, DATA, optimizer="adam", max_iters=5).weights).all()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_interrupt_writes_the_last_whole_point_first(optimizer: str, tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"

    def callback(now: FitProgress) -> None:
        if now.step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(LOSS, DATA, optimizer=optimizer, callback=callback, checkpoint=path, checkpoint_every=1e6)
    with np.load(path) as saved:
        assert np.isfinite(saved["weights"]).all() and saved["weights"].any()
    fit(LOSS, DATA, optimizer=optimizer, checkpoint=path, max_iters=5)


def test_an_error_before_the_first_point_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(bl.ModelError):
        fit(LOSS, [], checkpoint=tmp_path / "fit.npz")
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_are_written_as_often_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[float] = []
    monkeypatch.setattr(Checkpoint, "save", lambda self, saved: written.append(saved.point.iteration))
    result = fit(LOSS, DATA, checkpoint=tmp_path / "a.npz", checkpoint_every=0)
    assert written == [*range(result.n_iters + 1), result.n_iters]
    written.clear()
    fit(LOSS, DATA, checkpoint=tmp_path / "a.npz", checkpoint_every=1e6)
    assert written == [result.n_iters]


def test_a_kill_while_writing_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fit.npz"
    fit(LOSS, DATA, max_iters=2, checkpoint=path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("killed")))
    monkeypatch.setattr(os, "unlink", lambda *_: None)  # a kill does not tidy
    with pytest.warns(UserWarning, match="the checkpoint was not written: .*fit.npz: the file cannot be written"):
        assert fit(LOSS, DATA, checkpoint=path).converged
    monkeypatch.undo()
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 2
    assert fit(LOSS, DATA, checkpoint=path).converged and len(list(tmp_path.iterdir())) == 1


SHORTER = [replace(DATA[0], labels=1 - DATA[0].labels), *DATA[1:]]


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"loss": Enumerated(template=TEMPLATE, l2=0.02)}, "loss.l2 is 0.01 there and 0.02 here"),
        ({"instances": DATA[:-1]}, "number of instances is 12 there and 11 here"),
        ({"instances": SHORTER}, "labels is [0-9a-f]{8} there and [0-9a-f]{8} here"),
        ({"instances": (*DATA, DATA[0])}, "number of instances is 12 there and 13 here"),
        ({"optimizer": "adam"}, "optimizer is lbfgs there and adam here"),
        ({"seed": 3}, "seed is 0 there and 3 here"),
        ({"l1": 0.1}, "l1 is 0.0 there and 0.1 here"),
        ({"free": np.arange(10) < 9}, "free is True there and array [0-9a-f]{8} here"),
        ({"bounds": (-1, 1)}, "low is -inf there and -1.0 here"),
    ],
    ids=lambda a: a if isinstance(a, str) else "",
)
def test_another_fits_checkpoint_is_refused(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    options: dict[str, Any] = {"loss": LOSS, "instances": DATA, "max_iters": 1, "checkpoint": path}
    fit(**options)
    before = path.read_bytes()
    with pytest.raises(bl.ModelError, match=f"is of another fit: {message}; use another file") as caught:
        fit(**(options | changed))
    assert "\n" not in str(caught.value) and path.read_bytes() == before


def test_threads_and_limits_may_change(tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    fit(LOSS, DATA, max_iters=1, checkpoint=path)
    fit(replace(LOSS, threads=2), DATA, max_iters=2, tol=1e-3, time_limit=100, checkpoint=path, checkpoint_every=3)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 broken"])
def test_a_file_that_is_no_checkpoint_is_left_alone(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    path.write_bytes(content)
    with pytest.raises(bl.FormatError, match="not a checkpoint of a fit"):
        fit(LOSS, DATA, checkpoint=path)
    assert path.read_bytes() == content
    np.savez(path, weights=np.ones(3))
    with pytest.raises(bl.FormatError, match="not a checkpoint of a fit"):
        fit(LOSS, DATA, checkpoint=path)


def test_a_folder_that_does_not_exist_is_said_before_the_work(tmp_path: Path) -> None:
    loss = Enumerated(template=TEMPLATE)
    asked: list[int] = []
    with pytest.raises(bl.FormatError, match="no such folder"):
        fit(loss, DATA, checkpoint=tmp_path / "none" / "fit.npz", callback=lambda now: asked.append(now.iteration))
    assert asked == []


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["grid", "chain", "graph"])
def test_other_features_and_weights_are_another_fit(kind: str, dtype: Any, tmp_path: Path) -> None:
    """Same labels, same sizes: going on from there would be a fit to data that is not there any more."""
    rng = np.random.default_rng(0)
    shape = (3, 4) if kind == "grid" else (5,)
    Y = [rng.integers(2, size=shape) for _ in range(3)]
    F = [rng.normal(size=(*shape, 2)).astype(dtype) for _ in range(3)]
    edges = np.array([[0, 1], [1, 2]])
    cls: Any = {"grid": bl.GridCRF, "chain": bl.ChainCRF, "graph": bl.GraphCRF}[kind]

    def fitted(factor: float = 1.0, weight: Any = None, **options: Any) -> Any:
        X = [(factor * f, edges) if kind == "graph" else factor * f for f in F]
        crf = cls(max_iters=2, checkpoint=tmp_path / "fit.npz", loss="univariate_logistic", **options)
        return crf.fit(X, Y, weight)

    first = fitted()
    assert np.array_equal(fitted().weights_, first.weights_)
    with pytest.raises(bl.ModelError, match=r"of another fit: features is \w+ there and \w+ here"):
        fitted(2.0)
    with pytest.raises(bl.ModelError, match="of another fit: weights of instances and labels is"):
        fitted(weight=[1.0, 2.0, 1.0])
    with pytest.raises(bl.ModelError, match="of another fit: weights of instances and labels is"):
        fitted(class_weight={0: 2.0})


@pytest.mark.parametrize("shape", [(10**15,), (2**62, 2**62), (-1,), (2, 7), (3,)])
@pytest.mark.parametrize("member", ["weights", "trace"])
def test_an_absurd_shape_is_one_line(member: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "fit.npz"
    fit(LOSS, DATA, max_iters=2, checkpoint=path)
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(data, {"descr": "<f8", "fortran_order": False, "shape": shape})
    n_bytes = 8 * np.prod(shape) if 0 < max(shape) < 100 else 80
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            whole = io.BytesIO()
            np.lib.format.write_array(whole, array)
            file.writestr(f"{name}.npy", data.getvalue() + bytes(n_bytes) if name == member else whole.getvalue())
    if (member, shape) == ("trace", (2, 7)):
        fit(LOSS, DATA, max_iters=2, checkpoint=path)  # what a checkpoint may have
        return
    with pytest.raises(bl.FormatError) as caught:
        fit(LOSS, DATA, max_iters=2, checkpoint=path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)
