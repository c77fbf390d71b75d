"""Many questions while an engine is around: shares of the rows are asked by it, and the answers are those of one."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.engine import Engine, engaged, engine_around

ASIA = bl.datasets.load_bn("asia")


class Elsewhere(Engine):
    """An engine whose tasks travel as bytes, and are run with none around."""

    def __init__(self) -> None:
        self.n_tasks = 0

    def hold(self, items: Any, sizes: Any) -> None:
        raise AssertionError("questions hold nothing")

    def total(self, job: Any, argument: Any, items: Any) -> Any:
        raise AssertionError("questions add nothing up")

    def map(self, task: Callable[[Any], Any], entries: Iterable[Any]) -> list[Any]:
        found = []
        for entry in entries:
            self.n_tasks += 1
            work, given = pickle.loads(pickle.dumps((task, entry)))
            with engaged(None):  # type: ignore[arg-type]
                assert engine_around() is None
                found.append(pickle.loads(pickle.dumps(work(given))))
        return found


@pytest.fixture(autouse=True)
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beliefs.inference.many._SHARE", 3)
    monkeypatch.setattr("beliefs.inference.many._SHARE_OF_EXACT", 3)


def rows(n: int = 10) -> np.ndarray:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (n, ASIA.n_vars))
    codes[rng.random(codes.shape) < 0.6] = -1
    return codes


@pytest.mark.parametrize("method", ["auto", "bp", "mean_field"])
def test_marginals_of_shares_are_those_of_all_rows(method: str) -> None:
    soft = {"xray": np.random.default_rng(1).random((10, 2))}
    codes = rows()
    codes[:, ASIA.index("xray")] = -1
    codes[4, [ASIA.index("either"), ASIA.index("lung")]] = 1 - np.arange(2)  # lung without either cannot be
    codes[4] = np.where(np.isin(np.arange(8), [ASIA.index("either"), ASIA.index("lung")]), codes[4], -1)
    here = quietly(lambda: bl.infer_many(ASIA, codes, method, likelihoods=soft, targets=["lung", "tub"]))
    engine = Elsewhere()
    with engaged(engine):
        there = quietly(lambda: bl.infer_many(ASIA, codes, method, likelihoods=soft, targets=["lung", "tub"]))
    assert engine.n_tasks == 4 and there.bound == here.bound and str(there.method) == str(here.method)
    for name in ("log_z", "log_lower", "log_upper", "marginals"):
        differ = 1e-14 if method == "auto" else 0.0  # exact rows choose a plan by how many they are
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=10 * differ, atol=differ)
    np.testing.assert_array_equal(there.converged, here.converged)
    np.testing.assert_array_equal(there.targets, here.targets)


def quietly(ask: Callable[[], Any]) -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ask()


def test_best_states_of_shares_are_those_of_all_rows() -> None:
    here, engine = quietly(lambda: bl.maximize_many(ASIA, rows())), Elsewhere()
    with engaged(engine):
        there = quietly(lambda: bl.maximize_many(ASIA, rows()))
    assert engine.n_tasks == 4
    np.testing.assert_array_equal(there.assignment, here.assignment)
    np.testing.assert_allclose(there.log_score, here.log_score, rtol=1e-14)


def test_rows_are_named_as_they_came_and_few_stay_here() -> None:
    engine = Elsewhere()
    impossible = [{}, {}, {}, {}, {"lung": "yes", "either": "no"}]
    with engaged(engine), pytest.warns(bl.DataWarning, match="row 4 has probability zero"):
        bl.infer_many(ASIA, impossible)
    assert engine.n_tasks == 2
    with engaged(engine), pytest.raises(bl.ModelError, match="row 3"):
        bl.infer_many(ASIA, [{}, {}, {}, {"lung": "maybe"}])
    with engaged(engine):
        bl.infer_many(ASIA, [{}, {}])
    assert engine.n_tasks == 2


def test_the_labels_of_a_frame_stay() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"smoke": ["yes", "no"] * 3}, index=list("abcdef"))
    with engaged(Elsewhere()):
        assert list(bl.infer_many(ASIA, frame).to_frame().index) == list("abcdef")
