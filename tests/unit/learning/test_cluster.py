"""Fits on a cluster of processes: the same weights as on threads, the same bytes for any workers, whatever happens."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.learning.shards import n_held

pytest.importorskip("distributed", reason="dask is not installed: pip install 'beliefs[cluster]'")
from dask_processes import Processes

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    running = Processes(tmp_path_factory.mktemp("cluster"))
    yield running
    running.close()


@pytest.fixture(autouse=True)
def many_shards(monkeypatch):
    monkeypatch.setattr("beliefs.learning.cluster._LEAST_WORK", 2**9)
    monkeypatch.setattr("beliefs.learning.cluster._GLANCE", 0.1)


@pytest.fixture(scope="module")
def pictures():
    rng = np.random.default_rng(0)
    labels = [(np.add.outer(np.arange(6), np.arange(7)) // (2 + k % 3)) % 2 for k in range(11)]
    return [y[..., None] + rng.normal(size=(*y.shape, 1)) for y in labels], labels


def fitted(pictures, **options):
    settings: dict[str, Any] = {"loss": "clique_logistic", "inference": "trw", "n_sweeps": 3, "max_iters": 6}
    return bl.GridCRF(**(settings | options)).fit(*pictures)


def held_by(client) -> list[int]:
    return sorted(client.run(n_held).values())


def test_one_worker_two_and_threads_agree(processes, pictures) -> None:
    here = fitted(pictures)
    processes.have(1)
    with bl.cluster(processes.client) as engine:
        one = fitted(pictures)
        n_shards = engine.n_sent
        assert held_by(processes.client) == [n_shards]
    assert n_shards > 4
    np.testing.assert_allclose(one.weights_, here.weights_, rtol=1e-9, atol=1e-11)
    assert held_by(processes.client) == [0]  # nothing is left behind

    processes.have(2)
    with bl.cluster(processes.client) as engine:
        two = fitted(pictures)
        assert engine.n_sent == n_shards  # each was sent once and stayed
        fewest, most = held_by(processes.client)
        assert most - fewest <= 2  # one for each list: the start of a fit has another
    assert two.weights_.tobytes() == one.weights_.tobytes()


@pytest.mark.parametrize("options", [{"optimizer": "adam(batch_size=3)"}, {"loss": "surrogate_likelihood"}], ids=str)
def test_other_losses_and_mini_batches(processes, pictures, options) -> None:
    processes.have(2)
    here = fitted(pictures, **options, max_iters=2)
    with bl.cluster(processes.client) as engine:
        there = fitted(pictures, **options, max_iters=2)
        assert engine.n_sent > 4
    np.testing.assert_allclose(there.weights_, here.weights_, rtol=1e-4, atol=1e-6)


def test_chains_and_margins(processes) -> None:
    processes.have(2)
    rng = np.random.default_rng(1)
    labels = [rng.integers(0, 3, size=n) for n in (5, 9, 4, 7, 6, 8)]
    inputs = [np.eye(3)[y] + rng.normal(size=(y.size, 3)) for y in labels]
    for make in (lambda: bl.ChainCRF(max_iters=5), lambda: bl.ChainSVM(optimizer="one_slack", max_iters=5)):
        here = make().fit(inputs, labels)
        with bl.cluster(processes.client) as engine:
            there = make().fit(inputs, labels)
            assert engine.n_sent > 0
        np.testing.assert_allclose(there.weights_, here.weights_, rtol=1e-6, atol=1e-8)


def test_a_killed_worker_costs_time_and_a_new_one_is_used(processes, pictures) -> None:
    processes.have(2)
    events: dict[str, int] = {}
    with bl.cluster(processes.client):
        calm = fitted(pictures)

    def happen(progress) -> None:
        if progress.iteration >= 1 and engine.n_sent > 4 and "killed" not in events:  # not in the start of the fit
            events["killed"] = engine.n_sent
            processes.kill(processes.workers[-1])
        elif "killed" in events and progress.iteration >= 3 and "joined" not in events:
            events["joined"] = engine.n_sent
            processes.add_worker()
            time.sleep(0.2)

    with bl.cluster(processes.client) as engine:
        stormy = fitted(pictures, callback=happen)
        assert engine.n_sent > events["joined"] > events["killed"]  # what was lost, and then moved, was sent again
        assert min(held_by(processes.client)) > 0
    assert stormy.weights_.tobytes() == calm.weights_.tobytes()


def test_questions_about_many_models(processes) -> None:
    processes.have(2)
    graphs = [bl.datasets.make_ising_grid(3, seed=k) for k in range(3)]
    with bl.cluster(processes.client) as engine:
        answers = engine.map(bl.infer, graphs)
    for graph, answer in zip(graphs, answers):
        assert answer.log_z == bl.infer(graph).log_z


def test_questions_about_many_rows(processes, monkeypatch) -> None:
    processes.have(2)
    monkeypatch.setattr("beliefs.inference.many._SHARE_OF_EXACT", 5)
    asia = bl.datasets.load_bn("asia")
    rows = np.where(np.random.default_rng(2).random((22, 8)) < 0.3, 0, -1)
    here = bl.infer_many(asia, rows)
    with bl.cluster(processes.client):
        there = bl.infer_many(asia, rows)
    np.testing.assert_allclose(there.log_z, here.log_z, rtol=1e-13)
    np.testing.assert_allclose(there.marginals, here.marginals, rtol=1e-12, atol=1e-15)


def test_expected_counts_of_rows_with_missing_cells(processes, monkeypatch) -> None:
    processes.have(2)
    monkeypatch.setattr("beliefs.learning.networks.distributed._ROWS", 16)
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 2, size=(200, 3)).astype(float)
    rows[rng.random(rows.shape) < 0.2] = np.nan

    def learned():
        return bl.BNLearner([("x0", "x1"), ("x1", "x2")], max_iters=5).fit(rows)

    here = learned()
    with bl.cluster(processes.client) as engine:
        there = learned()
        assert engine.n_sent > 0
    for name in ("x0", "x1", "x2"):
        np.testing.assert_allclose(there.model_.cpt(name), here.model_.cpt(name), rtol=1e-9)


def test_the_command_fits_on_a_cluster(processes, pictures, tmp_path, monkeypatch) -> None:
    from click.testing import CliRunner

    from beliefs.cli import commands

    processes.have(1)
    monkeypatch.chdir(tmp_path)
    inputs, labels = pictures
    np.savez("data.npz", X=np.array(inputs), Y=np.array(labels))
    command = ["fit", "data.npz", "--model", "grid", "--max-iters", "3", "--n-sweeps", "3", "-o"]
    for output, more in (("here.npz", []), ("there.npz", ["--cluster", processes.address])):
        done = CliRunner().invoke(commands, [*command, output, *more])
        assert done.exit_code == 0, done.output
    here, there = (np.load(name)["weights"] for name in ("here.npz", "there.npz"))
    np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-11)


def test_errors_are_those_of_the_loss(processes, pictures) -> None:
    processes.have(2)
    inputs, labels = pictures
    hidden = [np.where(np.arange(y.size).reshape(y.shape) == 3, -1, y) for y in labels]
    with bl.cluster(processes.client), pytest.raises(bl.ModelError, match="not defined with hidden variables"):
        fitted((inputs, hidden), loss="surrogate_likelihood")


def test_data_beyond_the_memory_of_workers_is_refused(processes, pictures, monkeypatch) -> None:
    processes.have(2)
    monkeypatch.setattr("beliefs.learning.cluster._COPIES", 1e7)
    with (
        bl.cluster(processes.client) as engine,
        pytest.raises(bl.BudgetError, match="the share of tcp://.* in the instances needs"),
    ):
        fitted(pictures)
    assert engine.n_sent == 0


def test_a_dead_scheduler_leaves_the_checkpoint(pictures, tmp_path) -> None:
    whole = fitted(pictures)
    running = Processes(tmp_path)
    running.add_worker()
    file = tmp_path / "fit.npz"

    def happen(progress) -> None:
        if progress.iteration == 3:
            running.kill(running.scheduler)

    try:
        with (
            pytest.raises(bl.BeliefsError, match="scheduler of the cluster does not answer"),
            bl.cluster(running.client),
        ):
            fitted(pictures, callback=happen, checkpoint=file)
    finally:
        running.close()
    resumed = fitted(pictures, checkpoint=file)
    assert resumed.result_.n_iters == whole.result_.n_iters
    np.testing.assert_allclose(resumed.weights_, whole.weights_, rtol=1e-6, atol=1e-8)
