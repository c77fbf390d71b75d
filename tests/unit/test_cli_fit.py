"""Learning from the shell: files in, a model out, predictions out; errors in one line, and no half-written file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import beliefs as bl
from beliefs.cli import commands
from beliefs.cli.data import read_data

QUICK = ["--n-sweeps", "2", "--max-iters", "5"]


def images(n: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    Y = np.repeat(rng.integers(0, 2, (n, 4, 3)), 2, axis=2)
    return Y + 0.7 * rng.normal(size=Y.shape), Y


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    X, Y = images()
    np.savez("data.npz", X=X, Y=Y)
    np.savez("inputs.npz", X=X)
    return tmp_path


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(commands, list(arguments))
    assert result.exit_code == code, result.output
    return result


def test_fit_and_predict_are_those_of_the_library(folder: Path) -> None:
    X, Y = images()
    told = json.loads(
        run("fit", "data.npz", "--model", "grid", "-o", "model.npz", *QUICK, "--l2", "0.01", "--json").stdout
    )
    crf = bl.GridCRF(n_sweeps=2, max_iters=5, l2=0.01).fit(list(X), list(Y))
    found = bl.GridCRF.load("model.npz")
    assert found.weights_.tobytes() == crf.weights_.tobytes()
    assert told["loss"] == crf.result_.loss
    assert told["accuracy"] == crf.score(X, Y)
    assert (told["model"], told["n_weights"], told["n_states"], told["n_instances"]) == ("GridCRF", 12, 2, 4)
    text = run("predict", "model.npz", "data.npz", "-o", "p.npz", "--marginals").stdout
    assert f"accuracy     {told['accuracy']:.6g}" in text
    with np.load("p.npz") as predicted:
        assert np.array_equal(predicted["Y"], np.stack(crf.predict(X)))
        assert predicted["marginals"].tobytes() == np.stack(crf.predict_marginals(X)).tobytes()
    assert "accuracy" not in run("predict", "model.npz", "inputs.npz", "-o", "p.npz", "--decode", "mean").stdout
    with np.load("p.npz") as predicted:
        assert np.array_equal(predicted["Y"], np.stack(crf.predict(X, "mean")))


def test_instances_of_different_sizes(folder: Path) -> None:
    X, Y = images()
    np.savez("mixed.npz", X_0=X[0], Y_0=Y[0], X_1=X[1][:3], Y_1=Y[1][:3])
    run(
        "fit",
        "mixed.npz",
        "--model",
        "grid",
        "-o",
        "model.npz",
        *QUICK,
        "-O",
        "connectivity=8",
        "-O",
        "intercept=False",
    )
    crf = bl.GridCRF(n_sweeps=2, max_iters=5, connectivity=8, intercept=False).fit([X[0], X[1][:3]], [Y[0], Y[1][:3]])
    assert bl.GridCRF.load("model.npz").weights_.tobytes() == crf.weights_.tobytes()
    run("predict", "model.npz", "mixed.npz", "-o", "p.npz")
    with np.load("p.npz") as predicted:
        assert sorted(predicted.files) == ["Y_0", "Y_1"]
        assert np.array_equal(predicted["Y_1"], crf.predict([X[1][:3]])[0])


def test_graphs_in_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    edges = np.array([[0, 1], [1, 2]])
    X, Y, values = rng.normal(size=(3, 3, 2)), np.tile([0, 1, 0], (3, 1)), rng.normal(size=(3, 2, 1))
    np.savez("shared.npz", X=X, Y=Y, edges=edges, edge_features=values)
    each: dict[str, Any] = {f"edges_{k}": edges for k in range(3)}
    each |= {f"{n}_{k}": a[k] for n, a in (("X", X), ("Y", Y), ("edge_features", values)) for k in range(3)}
    np.savez("each.npz", **each)
    crf = bl.GraphCRF(loss="likelihood", max_iters=5).fit([(x, edges, v) for x, v in zip(X, values, strict=True)], Y)
    for name in ("shared.npz", "each.npz"):
        run("fit", name, "--model", "graph", "-o", "model.npz", "--loss", "likelihood", "--max-iters", "5")
        assert bl.GraphCRF.load("model.npz").weights_.tobytes() == crf.weights_.tobytes()
    run("predict", "model.npz", "shared.npz", "-o", "p.npz", "--decode", "map")
    with np.load("p.npz") as predicted:
        assert predicted["Y"].shape == (3, 3)


def test_chains_in_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    Y = np.tile([0, 1, 1, 0], (3, 1))
    X = rng.normal(size=(3, 4, 2))
    np.savez("chains.npz", X=X, Y=Y)
    run("fit", "chains.npz", "--model", "chain", "-o", "model.npz", "--max-iters", "5")
    crf = bl.ChainCRF(max_iters=5).fit(list(X), list(Y))
    assert bl.ChainCRF.load("model.npz").weights_.tobytes() == crf.weights_.tobytes()
    run("predict", "model.npz", "chains.npz", "-o", "p.npz")
    with np.load("p.npz") as predicted:
        assert np.array_equal(predicted["Y"], np.stack(crf.predict(list(X))))


def test_edge_features_of_grids_in_files(folder: Path) -> None:
    X, Y = images()
    rng = np.random.default_rng(1)
    horizontal, vertical = rng.normal(size=(4, 4, 5, 2)), rng.normal(size=(4, 3, 6, 2))
    np.savez("edges.npz", X=X, Y=Y, horizontal=horizontal, vertical=vertical)
    inputs = read_data("edges.npz", "grid").inputs
    assert [a.shape for a in inputs[1]] == [(4, 6), (4, 5, 2), (3, 6, 2)]
    assert np.array_equal(inputs[1][2], vertical[1])
    run("fit", "edges.npz", "--model", "grid", "-o", "model.npz", *QUICK)
    assert bl.GridCRF.load("model.npz").weights_.size == 4 + 2 * 8


def save(name: str, **arrays: Any) -> None:
    np.savez(name, **arrays)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["data.npz", "--model", "grid"], "Missing option '--output'"),
        (["data.npz", "-o", "m.npz"], "Missing option '--model'"),
        (["data.npz", "--model", "gird", "-o", "m.npz"], "'gird' is not one of"),
        (["none.npz", "--model", "grid", "-o", "m.npz"], "none.npz: no such file"),
        (["bad.npz", "--model", "grid", "-o", "m.npz"], "bad.npz: not an .npz archive of plain arrays"),
        (["pickled.npz", "--model", "grid", "-o", "m.npz"], "pickled.npz: not an .npz archive of plain arrays"),
        (["inputs.npz", "--model", "grid", "-o", "m.npz"], "inputs.npz: there are no labels Y to fit to"),
        (["other.npz", "--model", "grid", "-o", "m.npz"], "other.npz: instances come as one array X, or as X_0, X_1"),
        (["gap.npz", "--model", "grid", "-o", "m.npz"], "gap.npz: X_1 is missing, and there is X_2"),
        (["short.npz", "--model", "grid", "-o", "m.npz"], "short.npz: Y has 3 instances, X has 4"),
        (["less.npz", "--model", "grid", "-o", "m.npz"], "less.npz: Y_1 is missing"),
        (["more.npz", "--model", "grid", "-o", "m.npz"], "'edges' is unknown for --model grid; known are X, Y, horiz"),
        (["nan.npz", "--model", "grid", "-o", "m.npz"], "instance 1: features of pixels hold nan in row 0, feature 0"),
        (["data.npz", "--model", "grid", "-o", "m.txt"], "m.txt: the file to write must end in .npz"),
        (["data.npz", "--model", "grid", "-o", "no/m.npz"], "no/m.npz: the folder no does not exist"),
        (["data.npz", "--model", "grid", "-o", "m.npz", "--loss", "clique_logistik"], "did you mean 'clique_logistic'"),
        (["data.npz", "--model", "grid", "-o", "m.npz", "--inference", "x"], "no method 'x'"),
        (["data.npz", "--model", "grid", "-o", "m.npz", "--n-sweeps", "-1"], "n_sweeps must be an integer of at least"),
        (["data.npz", "--model", "grid", "-o", "m.npz", "-O", "conectivity=8"], "did you mean 'connectivity'"),
        (["data.npz", "--model", "grid", "-o", "m.npz", "-O", "connectivity"], "--option is written NAME=VALUE"),
        (["data.npz", "--model", "grid", "-o", "m.npz", "-O", "connectivity=5"], "connectivity must be 4 or 8"),
        (["data.npz", "--model", "grid", "-o", "m.npz", "-O", "n_jobs=2"], "n_jobs is not an option of the model here"),
        (["data.npz", "--model", "grid", "-o", "m.npz", "-O", "callback=3"], "callback is not an option of the model"),
        (["data.npz", "--model", "grid", "-o", "m.npz", "--l2", "1", "-O", "l2=2"], "l2 is given twice"),
        (["data.npz", "--model", "grid", "-o", "./data.npz"], "data.npz: that file is read or kept by this very"),
        (["data.npz", "--model", "grid", "-o", "m.npz", "--checkpoint", "m.npz"], "m.npz: that file is read or kept"),
        (
            ["array.npz", "--model", "grid", "-o", "m.npz"],
            "array.npz: not an .npz archive of plain arrays; numpy.savez",
        ),
    ],
)
def test_what_is_wrong_is_one_line(folder: Path, arguments: list[str], said: str) -> None:
    X, Y = images()
    Path("bad.npz").write_bytes(b"rubbish")
    np.save("array.npy", X)
    os.rename("array.npy", "array.npz")
    np.savez("pickled.npz", X=np.array([{}], dtype=object), allow_pickle=True)
    save("other.npz", A=X)
    save("gap.npz", X_0=X[0], X_2=X[0], Y_0=Y[0], Y_2=Y[0])
    save("short.npz", X=X, Y=Y[:3])
    save("less.npz", X_0=X[0], X_1=X[1], Y_0=Y[0])
    save("more.npz", X=X, Y=Y, edges=Y)
    save("nan.npz", X=np.where(np.arange(4)[:, None, None] == 1, np.nan, X), Y=Y)
    before = sorted(os.listdir())
    result = run("fit", *arguments, code=2)
    lines = result.stderr.strip().splitlines()
    assert lines[-1].startswith("beliefs: error: ")
    assert said in lines[-1]
    assert len(lines) == 1
    assert sorted(os.listdir()) == before
    assert np.array_equal(np.load("data.npz")["X"], X)


def test_predicting_with_what_is_no_model(folder: Path) -> None:
    assert (
        "data.npz: the file holds no fitted estimator"
        in run("predict", "data.npz", "data.npz", "-o", "p.npz", code=2).stderr
    )
    run("fit", "data.npz", "--model", "grid", "-o", "model.npz", *QUICK)
    np.savez("wide.npz", X=np.zeros((1, 3, 3, 5)))
    said = run("predict", "model.npz", "wide.npz", "-o", "p.npz", code=2).stderr
    assert "instance 0: pixels have 5 features, those of the fitted model 1" in said
    assert not Path("p.npz").exists()


def test_a_class_that_never_occurs_is_one_line(folder: Path) -> None:
    result = run("fit", "data.npz", "--model", "grid", "-o", "model.npz", *QUICK, "--n-states", "3")
    assert result.stderr.splitlines() == [
        "beliefs: warning: class 2 never occurs among the labels; nothing is learned about it but to avoid it"
    ]


# A fit that would go on for ever, and says when it has begun.
ENDLESS = """
import sys
import beliefs.learning.estimators.fitting as fitting
fit = fitting.fit
def announced(loss, instances, weights, **options):
    stop, first = options.pop("callback"), []
    def callback(now):
        if not first:
            first.append(1)
            print("stepping", file=sys.stderr, flush=True)
        return stop(now)
    return fit(loss, instances, weights, callback=callback, **options | {"optimizer": "adam", "max_iters": 10**9})
fitting.fit = announced
from beliefs.cli import main
main()
"""


def test_ctrl_c_writes_the_model_so_far_whole(folder: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(Path(bl.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, "fit", "data.npz", "--model", "grid", "-o", "model.npz", "--n-sweeps", "2"],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline() == "stepping\n"
    process.send_signal(signal.SIGINT)
    text, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "STOPPED" in text
    assert "stopping after this step" in errors
    assert sorted(p.name for p in folder.iterdir()) == ["data.npz", "inputs.npz", "model.npz"]
    assert bl.GridCRF.load("model.npz").weights_.size == 12


def test_machines_with_a_margin(folder: Path) -> None:
    X, Y = images()
    told = json.loads(
        run("fit", "data.npz", "--model", "grid_svm", "-o", "m.npz", "--C", "0.1", "--max-iters", "5", "--json").stdout
    )
    svm = bl.GridSVM(C=0.1, max_iters=5).fit(list(X), list(Y))
    assert told["objective"] == svm.objective_
    assert told["accuracy"] == svm.score(X, Y)
    run("predict", "m.npz", "data.npz", "-o", "p.npz")
    with np.load("p.npz") as predicted:
        assert np.array_equal(predicted["Y"], np.stack(svm.predict(X)))
    assert (
        "GridSVM has no option --l2; it has --C"
        in run("fit", "data.npz", "--model", "grid_svm", "-o", "m.npz", "--l2", "1", code=2).stderr
    )


def test_hidden_vertices_of_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    hidden = np.array([False, True, False])
    X, Y = rng.normal(size=(5, 3, 1)), np.where(hidden, -1, rng.integers(0, 2, (5, 3)))
    edges = np.array([(0, 1), (1, 2)])
    np.savez("graphs.npz", X=X, Y=Y, edges=edges, hidden=hidden)
    run("fit", "graphs.npz", "--model", "graph_svm", "-o", "m.npz", "-O", "n_hidden_states=3", "--max-iters", "2",
        "--eps-h", "0")  # fmt: skip
    run("predict", "m.npz", "graphs.npz", "-o", "p.npz")
    with np.load("p.npz") as predicted:
        assert ((predicted["Y"] == -1) == hidden).all()
    inputs = [{"unary": x, "edges": edges, "hidden": hidden} for x in X]
    svm = bl.GraphSVM(n_hidden_states=3, eps_h=0.0, max_iters=2).fit(inputs, list(Y))
    assert bl.GraphSVM.load("m.npz").weights_.tobytes() == svm.weights_.tobytes()


def test_costs_in_files(folder: Path) -> None:
    """The same weights as by the library; who has no costs, and who cannot take them, says so in a line."""
    rng = np.random.default_rng(4)
    Y = [rng.integers(0, 3, n) for n in (4, 6, 3)]
    X = [np.eye(3)[y] + rng.normal(size=(y.size, 3)) for y in Y]
    costs = [rng.random((y.size, 3)) * (np.arange(3) != y[:, None]) for y in Y]
    named = {f"{name}_{k}": a for name, some in (("X", X), ("Y", Y), ("costs", costs)) for k, a in enumerate(some)}
    np.savez("costly.npz", **named)
    run("fit", "costly.npz", "-m", "chain_svm", "-o", "svm.npz", "--C", "0.3")
    svm = bl.ChainSVM(C=0.3).fit(X, Y, costs=costs)
    found = bl.ChainSVM.load("svm.npz")
    assert found.weights_.tobytes() == svm.weights_.tobytes()
    assert found.weights_.tobytes() != bl.ChainSVM(C=0.3).fit(X, Y).weights_.tobytes()
    assert (found.objective_, found.gap_) == (svm.objective_, svm.gap_)
    run("predict", "svm.npz", "costly.npz", "-o", "out.npz")
    said = run("fit", "costly.npz", "-m", "chain", "-o", "crf.npz", code=2).output
    assert "the array 'costs_0' is unknown for --model chain" in said
    np.savez("costly.npz", **(named | {"costs_1": costs[1][:2]}))
    said = run("fit", "costly.npz", "-m", "chain_svm", "-o", "svm.npz", code=2).output
    assert "instance 1: costs must have shape (6, 3), found (2, 3)" in said
    os.mkdir("parts")
    np.savez("parts/a.npz", **named)
    said = run("fit", "parts", "-m", "chain_svm", "-o", "svm.npz", "-O", "optimizer=sgd", code=2).output
    assert "costs are taken from a single file" in said
