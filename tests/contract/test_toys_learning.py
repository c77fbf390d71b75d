"""Additions from outside: a loss, an estimator, data that is no list and a format are each one class and one row.

They are put into the written tuples and must then be found by name, on the command line, in help, warm-up, files and
tables, and work with every optimiser, without a change anywhere else.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import ArrayLike

import beliefs as bl
from beliefs.cli import group
from beliefs.cli.warmup import jobs
from beliefs.cli.warmup_learning import learning_jobs
from beliefs.io import formats
from beliefs.learning import fit
from beliefs.learning.batches import Batch, BatchLoss, Share, Total
from beliefs.learning.data import Data
from beliefs.learning.estimators import registry as estimators
from beliefs.learning.estimators.base import DataForm, Estimator
from beliefs.learning.estimators.examples import Examples
from beliefs.learning.estimators.labels import Tally, label_array
from beliefs.learning.instances import Instance
from beliefs.learning.losses import registry as losses
from beliefs.learning.losses.base import InstanceLoss, Loss
from beliefs.learning.parallel import Executor
from beliefs.learning.schedules import Doubling

DOCS = Path(__file__).parents[2] / "docs"
EDGES = np.array([(0, 1), (1, 2)])


def pairs(n: int = 12) -> tuple[list[Any], list[np.ndarray]]:
    rng = np.random.default_rng(0)
    Y = [rng.integers(0, 2, 3) for _ in range(n)]
    return [(y[:, None] + 0.3 * rng.normal(size=(3, 1)), EDGES) for y in Y], Y


# -- a loss -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Nearest(Loss):
    """Half the squared distance of the potentials from ``scale`` times the labels' statistics."""

    scale: float = 1.0

    name: ClassVar[str] = "nearest"

    def part(self, theta: np.ndarray, instance: Instance) -> InstanceLoss:
        error = theta - self.scale * instance.statistics
        return InstanceLoss(0.5 * float(error @ error), error)


@pytest.fixture
def with_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "LOSSES", (*losses.LOSSES, Nearest))


@pytest.mark.usefixtures("with_nearest")
def test_a_loss_is_found_by_its_name() -> None:
    X, Y = pairs()
    crf = bl.GraphCRF(loss="nearest(scale=4)", l2=1e-6).fit(X, Y)
    assert isinstance(crf.loss_, Nearest) and crf.loss_.scale == 4.0
    assert crf.score(X, Y) > 0.8
    same = bl.GraphCRF(loss="nearest(scale=4)", l2=1e-6, n_jobs=2).fit(X, Y)
    assert same.weights_.tobytes() == crf.weights_.tobytes()
    assert bl.GraphCRF(init="nearest", max_iters=2).fit(X, Y).result_.n_iters <= 2
    with pytest.raises(bl.ModelError, match="did you mean 'nearest'"):
        bl.GraphCRF(loss="nerest").fit(X, Y)


@pytest.mark.usefixtures("with_nearest")
def test_a_loss_is_found_by_the_command_line_and_warm_up() -> None:
    shown = CliRunner().invoke(group.commands, ["fit", "--help"]).output
    assert all(loss.name in shown for loss in losses.LOSSES) and "nearest" in shown
    assert "the loss nearest" in [name for name, _ in learning_jobs((2,))]


def test_the_guide_has_every_loss_and_estimator() -> None:
    guide = (DOCS / "learning.md").read_text()
    assert [cls.name for cls in losses.LOSSES if f"`{cls.name}`" not in guide] == []
    assert [row.class_name for row in estimators.ESTIMATORS if f"| `{row.class_name}` |" not in guide] == []


# -- data that is no list, with a loss of its own -----------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Table(Data):
    """Rows of features and one label each."""

    rows: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_labelled(self) -> float:
        return float(len(self.rows))

    def take(self, numbers: np.ndarray) -> Table:
        return Table(self.rows[numbers], self.labels[numbers])

    def fingerprint(self) -> dict[str, str]:
        return {"rows": f"{self.rows.shape}, {zlib.crc32(self.rows.tobytes() + self.labels.tobytes()):08x}"}


@dataclass(frozen=True, eq=False)
class Slices(Batch):
    """A table in units of seven rows."""

    table: Table
    n_states: int

    def add_to(self, total: Total, weights: np.ndarray, executor: Executor) -> None:
        for share in executor.windows(lambda begin: self.share(weights, begin), range(0, len(self.table), 7)):
            total.add(share)

    def share(self, weights: np.ndarray, begin: int) -> Share:
        rows, labels = self.table.rows[begin : begin + 7], self.table.labels[begin : begin + 7]
        scores = rows @ weights.reshape(self.n_states, -1).T
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        at = np.arange(len(rows)), labels
        value = -float(np.log(p[at]).sum())
        p[at] -= 1.0
        return Share(value, (p.T @ rows).ravel(), float(len(rows)), len(rows))


@dataclass(frozen=True, kw_only=True)
class SoftmaxLoss(BatchLoss):
    n_states: int
    width: int

    name: ClassVar[str] = "softmax"

    @property
    def n_weights(self) -> int:
        return self.n_states * self.width

    def batches(self, data: Any) -> Iterable[Batch]:
        return (Slices(data, self.n_states),)


def table(n: int = 60) -> Table:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, n)
    return Table(np.eye(3)[labels] + 0.4 * rng.normal(size=(n, 3)), labels)


@pytest.mark.parametrize("optimizer", ["lbfgs", "adam(step=0.1, batch_size=16)", "sgd(step=0.5, batch_size=10)"])
def test_arrays_are_fitted_without_an_object_a_row(optimizer: str, tmp_path: Path) -> None:
    data, held_out = table().take(np.arange(45)), table().take(np.arange(45, 60))
    found = []
    for threads in (1, 3):
        loss = SoftmaxLoss(n_states=3, width=3, l2=1e-3, threads=threads)
        options: dict[str, Any] = {"optimizer": optimizer, "validation": held_out, "patience": 50}
        found.append(fit(loss, data, max_iters=20, checkpoint=tmp_path / f"{threads}.npz", **options))
    assert found[0].weights.tobytes() == found[1].weights.tobytes()
    guess = (data.rows @ found[0].weights.reshape(3, 3).T).argmax(axis=1)
    assert (guess == data.labels).mean() > 0.8 and np.isfinite(found[0].validation)
    assert found[0].loss < np.log(3.0)
    with pytest.raises(bl.ModelError, match="is of another fit: rows is"):
        fit(loss, held_out, max_iters=30, checkpoint=tmp_path / "3.npz", optimizer=optimizer)


def test_arrays_are_fitted_in_stages() -> None:
    results = Doubling(start=8, max_iters=4).fit(SoftmaxLoss(n_states=3, width=3), table())
    assert len(results) == 4 and results[-1].loss < np.log(3.0)


# -- an estimator -------------------------------------------------------------------------------------------------
@dataclass(kw_only=True, eq=False, repr=False)
class Softmax(Estimator[SoftmaxLoss]):
    """One label for each row of numbers."""

    data_form: ClassVar[DataForm] = DataForm("`(D,)`", "a number")
    _learned_names: ClassVar[tuple[str, ...]] = ("width_",)

    @classmethod
    def tiny_data(cls) -> tuple[list[Any], list[Any]]:
        return [np.array([1.0, 0.0]), np.array([0.0, 1.0])], [0, 1]

    def _data(self, X: Any, Y: Any, sample_weight: ArrayLike | None) -> Table:
        tally, rows, labels = Tally(self.n_states), [], []
        for example in Examples(X, Y, sample_weight):
            rows.append(example.x)
            labels.append(label_array(example.y, (), example.name))
            tally.add(labels[-1], example.name)
        classes = tally.classes()
        self.classes_, self.n_states_, self.width_ = classes.names, len(classes.names), len(rows[0])
        self.class_counts_ = np.array([tally.counts.get(k, 0) for k in classes.names.tolist()])
        return Table(np.array(rows), np.concatenate(labels))

    def _loss(self) -> SoftmaxLoss:
        return SoftmaxLoss(n_states=self.n_states_, width=self.width_, l2=self.l2, threads=self._threads)

    def predict(self, X: Any) -> list[np.ndarray]:
        scores = np.array(X) @ self.weights_.reshape(self.n_states_, -1).T
        return [self._named(np.array(k)) for k in scores.argmax(axis=1)]


@pytest.fixture
def with_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    row = estimators.EstimatorRow("softmax", "Softmax", __name__)
    monkeypatch.setattr(estimators, "ESTIMATORS", (*estimators.ESTIMATORS, row))


@pytest.mark.usefixtures("with_softmax")
def test_an_estimator_is_found_in_files(tmp_path: Path) -> None:
    data = table()
    model = Softmax(n_jobs=2, validation=0.2, seed=3).fit(list(data.rows), data.labels.tolist())
    assert model.score(list(data.rows), data.labels.tolist()) > 0.8
    model.save(tmp_path / "model.npz")
    for found in (estimators.load_estimator(tmp_path / "model.npz"), Softmax.load(tmp_path / "model.npz")):
        assert isinstance(found, Softmax) and found.weights_.tobytes() == model.weights_.tobytes()
        assert found.predict(list(data.rows)) == model.predict(list(data.rows))
    with pytest.raises(bl.FormatError, match="the file holds a Softmax, expected GraphCRF"):
        bl.GraphCRF.load(tmp_path / "model.npz")


@pytest.mark.usefixtures("with_softmax")
def test_an_estimator_is_found_by_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = table()
    np.savez("data.npz", X=data.rows, Y=data.labels)
    run = CliRunner()
    shown = run.invoke(group.commands, ["fit", "--help"], terminal_width=200).output
    assert "[grid|chain|graph|grid_svm|chain_svm|graph_svm|rbm|crbm|infinite_rbm|softmax" in shown
    words = ["fit", "data.npz", "--model", "softmax", "-o", "model.npz", "--l2", "0.01"]
    fitted = run.invoke(group.commands, words)
    assert (fitted.exit_code, fitted.stderr) == (0, "") and "Softmax" in fitted.output
    asked = run.invoke(group.commands, ["predict", "model.npz", "data.npz", "-o", "answers.npz"])
    assert asked.exit_code == 0, asked.output
    assert (np.load("answers.npz")["Y"] == data.labels).mean() > 0.8
    refused = run.invoke(group.commands, ["predict", "model.npz", "data.npz", "-o", "b.npz", "--decode", "map"])
    assert refused.exit_code == 2 and "Softmax has one way to predict; leave out --decode" in refused.stderr
    assert "the estimator softmax" in [name for name, _ in learning_jobs((2,))]
    assert "| `softmax` | `(D,)` | a number | |" in estimators.data_table()


def test_the_table_of_estimators_is_that_of_the_docs() -> None:
    assert estimators.data_table() in (DOCS / "command-line.md").read_text()


@pytest.mark.parametrize("row", estimators.ESTIMATORS, ids=lambda row: row.word)
def test_every_estimator_fits_its_tiny_data(row: estimators.EstimatorRow) -> None:
    cls: Any = row.load()
    assert estimators.word_of(cls) == row.word
    X, Y = cls.tiny_data()
    if not cls.labelled:
        assert len(cls(**cls._tiny).fit(X).transform(X)) == len(X)
        return
    model = cls(**getattr(cls, "_tiny", {"max_iters": 5})).fit(X, Y)
    assert [labels.shape for labels in model.predict(X)] == [y.shape for y in Y]


# -- a format -----------------------------------------------------------------------------------------------------
def loads(data: bytes) -> bl.FactorGraph:
    """Independent variables, a line of log potentials each."""
    lines = [np.array(line.split(), float) for line in data.decode().splitlines()]
    return bl.FactorGraph.from_tables([len(x) for x in lines], [((v,), x) for v, x in enumerate(lines)], log=True)


def dumps(model: Any) -> str:
    graph = model if isinstance(model, bl.FactorGraph) else model.to_factor_graph()
    return "".join(f"{' '.join(['0.0'] * int(k))}\n" for k in graph.layout.card)


@pytest.fixture
def with_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    row = formats.Format(title="lines", suffixes=(".Lines",), loads=loads, dumps=dumps, writes="sizes alone")
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, row))


@pytest.mark.usefixtures("with_lines")
def test_a_format_is_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "model.lines.gz"
    bl.write(bl.datasets.load_bn("asia"), path)
    again = bl.read(path)
    assert isinstance(again, bl.FactorGraph) and again.n_vars == 8
    converted = CliRunner().invoke(group.commands, ["convert", str(path), str(tmp_path / "model.uai")])
    assert (converted.exit_code, converted.output) == (0, "")
    with pytest.raises(bl.FormatError, match=r"known are .*\.erg, \.lines, plain"):
        bl.read(tmp_path / "model.none")


@pytest.mark.usefixtures("with_lines")
def test_a_format_is_found_in_help_warm_up_and_table() -> None:
    assert ".Lines" in group.help_text()
    names = [name for name, _ in zip((name for name, _ in jobs()), range(12), strict=False)]
    assert [form.title for form in formats.FORMATS if f"reading {form.title}" not in names] == []
    assert "| lines | `.Lines` | `FactorGraph` | sizes alone |" in formats.formats_table()


def test_the_help_and_the_docs_have_every_format() -> None:
    shown = CliRunner().invoke(group.commands, ["--help"]).output
    assert [s for form in formats.FORMATS for s in form.suffixes if s not in shown] == []
    assert formats.formats_table() in (DOCS / "formats.md").read_text()


@pytest.mark.parametrize("form", formats.FORMATS, ids=lambda form: form.title)
def test_every_format_reads_its_sample(form: formats.Format) -> None:
    sample = form.sample_of(bl.datasets.load_bn("asia"))
    form.check_beginning(sample)
    model: Any = form.loads(sample)
    assert model.n_vars in (2, 8)
