"""Fitted models in files: nothing lost, nothing executed, nothing half written, and clear words for wrong files."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.learning.estimators.registry import estimator, load_estimator
from beliefs.learning.estimators.structured.crf import CRF
from beliefs.learning.estimators.structured.graph import GraphCRF
from beliefs.learning.estimators.structured.grid import GridCRF
from beliefs.model.features import DifferentiableTemplate

QUICK: dict[str, Any] = {"n_sweeps": 2, "max_iters": 3}


def images() -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(0)
    return [rng.random((4, 5, 3)) for _ in range(3)], [rng.integers(0, 2, (4, 5)) for _ in range(3)]


def graphs() -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(0)
    edges, types = np.array([[0, 1], [1, 2], [2, 3]]), np.array([0, 2, 0])
    return [(rng.normal(size=(4, 2)), edges, None, types) for _ in range(3)], [rng.integers(0, 2, 4) for _ in range(3)]


def same(a: CRF, b: CRF, X: list[Any]) -> bool:
    pairs = zip(a.predict_marginals(X), b.predict_marginals(X), strict=True)
    return all(p.tobytes() == q.tobytes() for p, q in pairs)


MODELS = [
    (GridCRF(**QUICK), images),
    (GridCRF(edge_features="difference_sobel", connectivity=8, **QUICK), images),
    (GridCRF(features="sinusoidal", loss="pseudo_likelihood", max_iters=3), images),
    (GridCRF(inference=bl.MeanField(), class_weight={0: 1.0, 1: 2.0}, **QUICK), images),
    (GridCRF(init=np.zeros(16), **QUICK), images),
    (GraphCRF(loss="likelihood", max_iters=3), graphs),
]


@pytest.mark.parametrize(("crf", "data"), MODELS)
def test_a_model_comes_back_whole(crf: CRF, data: Any, tmp_path: Path) -> None:
    X, Y = data()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beliefs.learning.estimators.labels.warnings.warn", lambda *_, **__: None)
        crf.fit(X, Y)
    crf.save(tmp_path / "model.npz")
    for found in (type(crf).load(tmp_path / "model.npz"), load_estimator(tmp_path / "model.npz")):
        assert type(found) is type(crf)
        assert found.weights_.tobytes() == crf.weights_.tobytes()
        assert same(found, crf, X)
        assert found.score(X, Y) == crf.score(X, Y)
        assert found.describe() == crf.describe()
        kept = {
            name: value for name, value in crf.get_params().items() if not isinstance(value, bl.Method | np.ndarray)
        }
        assert {name: found.get_params()[name] for name in kept} == kept
    assert list(tmp_path.iterdir()) == [tmp_path / "model.npz"]


def test_words_and_reproducible_bytes(tmp_path: Path) -> None:
    X, Y = images()
    named = [np.array(["müde", "wach"])[y] for y in Y]
    for name in ("a.npz", "b.npz"):
        GridCRF(**QUICK).fit(X, named).save(tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    found = GridCRF.load(tmp_path / "a.npz")
    assert found.classes_.tolist() == ["müde", "wach"]
    assert found.predict(X)[0].dtype.kind == "U"
    assert found.fit(X, named).predict(X)[0].shape == (4, 5)


def test_compression_by_name(tmp_path: Path) -> None:
    X, Y = images()
    crf = GridCRF(**QUICK).fit(X, Y)
    crf.save(tmp_path / "a.npz.xz")
    assert same(GridCRF.load(tmp_path / "a.npz.xz"), crf, X)


def squares(x: np.ndarray) -> np.ndarray:
    return x**2


def test_functions_are_given_again(tmp_path: Path) -> None:
    X, Y = images()
    crf = GridCRF(features=squares, callback=lambda now: None, **QUICK).fit(X, Y)
    crf.save(tmp_path / "a.npz")
    with pytest.raises(bl.FormatError, match="features of the GridCRF is a function, which no file holds; give it"):
        GridCRF.load(tmp_path / "a.npz")
    assert same(GridCRF.load(tmp_path / "a.npz", features=squares), crf, X)
    template = DifferentiableTemplate(4, lambda w, x: x[0] @ w.reshape(2, 2).T, lambda w, x, bar: bar)
    assert "template" in _header_of(_saved(GraphCRF(template=template), tmp_path))["needs"]


def _saved(crf: GraphCRF, folder: Path) -> Path:
    """A file of an estimator with this template, which need not be fitted for that."""
    fitted = GraphCRF(loss="likelihood", max_iters=0, init="zeros").fit([{"unary": np.ones((2, 1))}], [[0, 1]])
    fitted.template = crf.template
    fitted.save(folder / "t.npz")
    return folder / "t.npz"


def _header_of(path: Path) -> dict[str, Any]:
    with np.load(path) as archive:
        found: dict[str, Any] = json.loads(archive["header"].tobytes())
    return found


def changed(path: Path, arrays: dict[str, Any] | None = None, **fields: Any) -> Path:
    """The file with another header or other arrays."""
    with np.load(path) as archive:
        members = {name: archive[name] for name in archive.files}
    header = json.loads(members["header"].tobytes()) | fields
    members |= {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)} | (arrays or {})
    data = io.BytesIO()
    np.savez(data, **members)
    path.write_bytes(data.getvalue())
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "beliefs"}, "the file holds no fitted estimator; write one with its save"),
        ({"version": 2}, "unknown version 2; this release reads version 1"),
        ({"class": "GraphCRF"}, "the file holds a GraphCRF, expected GridCRF"),
        ({"params": 3}, "the field 'params' of the header is missing or of a wrong type"),
        ({"params": {"loss": "gibberish"}}, "the file does not make a GridCRF: no loss 'gibberish'"),
        ({"params": {"colour": 3}}, "the file does not make a GridCRF"),
        ({"params": {"l2": {"array": "nowhere"}}}, "the file does not make a GridCRF"),
        ({"kinds": []}, "expected 0 finite weights"),
        ({"kinds": [3]}, "the file does not make a GridCRF"),
        ({"state": {"fit": 3}}, "is no name of something learned"),
        ({"state": {"__dict__": {"mapping": []}}}, "is no name of something learned"),
        ({"state": {"weights_": 3}}, "is no name of something learned"),
        ({"arrays": {"weights": np.full(14, np.nan)}}, "finite weights"),
    ],
)
def test_a_wrong_file_is_one_line(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    GridCRF(**QUICK).fit(*images()).save(path)
    with pytest.raises(bl.FormatError, match=said) as caught:
        GridCRF.load(changed(path, **change))
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_file_sets_weights_and_options_that_change_answers_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    crf = GridCRF(n_jobs=2, l2=0.5, **QUICK).fit(*images())
    crf.save(path)
    params = _header_of(path)["params"]
    own = {"n_jobs", "checkpoint", "callback", "progress"}
    assert not own & params.keys() and params["l2"] == 0.5
    told = {"n_jobs": 1000, "checkpoint": str(tmp_path / "elsewhere.npz"), "progress": True, "callback": "print"}
    found = GridCRF.load(changed(path, params=params | told))
    assert (found.n_jobs, found.checkpoint, found.progress, found.callback) == (None, None, False, None)
    assert found.l2 == 0.5 and same(found, crf, images()[0])
    assert GridCRF.load(path, n_jobs=3).n_jobs == 3


def absurd(name: str, shape: tuple[int, ...]) -> bytes:
    """The member of an array that says it has another shape than its bytes."""
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(data, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return data.getvalue() + bytes(80)


@pytest.mark.parametrize("shape", [(10**15,), (2**62, 2**62), (-1,), (3, 5)])
def test_an_absurd_shape_is_one_line(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    GridCRF(**QUICK).fit(*images()).save(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("param init.npy", absurd("param init", shape))
    with pytest.raises(bl.FormatError, match="'param init'") as caught:
        GridCRF.load(path)
    assert "\n" not in str(caught.value)


def test_compressed_members_are_refused(tmp_path: Path) -> None:
    """Arrays of zeros could be a thousand times as long as the file."""
    path = tmp_path / "a.npz"
    np.savez_compressed(path, header=np.zeros(3, np.uint8), weights=np.zeros(10**6))
    with pytest.raises(bl.FormatError, match="compressed|more than there can be"):
        GridCRF.load(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with pytest.raises(bl.FormatError, match="no such file"):
        GridCRF.load(path)
    path.write_bytes(b"PK\x03\x04 rubbish")
    with pytest.raises(bl.FormatError, match="not an .npz archive"):
        GridCRF.load(path)
    np.savez(path, X=np.zeros(3))
    with pytest.raises(bl.FormatError, match="no fitted estimator"):
        load_estimator(path)
    np.savez(path, header=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(bl.FormatError, match="not an .npz archive"):
        load_estimator(path)
    with pytest.raises(bl.ModelError, match="no estimator 'gird'; did you mean 'grid'"):
        estimator("gird")


def test_what_was_there_stays_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crf = GridCRF(**QUICK).fit(*images())
    crf.save(tmp_path / "a.npz")
    before = (tmp_path / "a.npz").read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(bl.FormatError, match="No space left"):
        crf.save(tmp_path / "a.npz")
    assert (tmp_path / "a.npz").read_bytes() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "a.npz"]
