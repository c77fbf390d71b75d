"""Tables of rows from the shell: fit, score and predict."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import beliefs as bl
from beliefs.cli import commands


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    asia = bl.datasets.load_bn("asia")
    codes = asia.sample(400, 1)
    frame = pd.DataFrame({v.name: np.array(v.states)[codes[:, k]] for k, v in enumerate(asia.variables)})
    frame.to_csv("rows.csv", index=False)
    return frame


def asked(*words: str) -> dict[str, object]:
    result = CliRunner().invoke(commands, [*words, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def network(path: str) -> bl.BayesianNetwork:
    found = bl.read(path)
    assert isinstance(found, bl.BayesianNetwork)
    return found


def test_a_network_is_fitted_scored_and_fills_holes(rows: pd.DataFrame) -> None:
    asia = bl.datasets.load_bn("asia")
    learner = bl.BNLearner(asia, prior="k2").fit(rows)
    facts = asked("fit", "rows.csv", "--model", "bn", "--structure", "asia", "-o", "model.bif", "-O", "prior=k2")
    assert facts["log_likelihood"] == pytest.approx(learner.result_.log_likelihood)
    assert network("model.bif").probabilities == pytest.approx(learner.model_.probabilities)
    assert asked("score", "model.bif", "rows.csv")["mean log-likelihood"] == pytest.approx(learner.score(rows))
    rows.loc[3, "dysp"] = None
    rows.drop(columns="either").to_csv("holes.csv", index=False)
    found = asked("predict", "model.bif", "holes.csv", "-o", "filled.csv")
    assert found["filled"] == 401
    assert CliRunner().invoke(commands, ["predict", "model.bif", "holes.csv"]).stdout == Path("filled.csv").read_text()
    filled = pd.read_csv("filled.csv")
    expected = bl.BNLearner(learner.model_, hidden=["either"], start="model", max_iters=0)
    assert list(filled.columns) == [*rows.columns.drop("either"), "either"] and filled.notna().all(axis=None)
    expected.fit(rows.drop(columns="either"))
    assert (expected.predict(rows.drop(columns="either"))[filled.columns] == filled).all(axis=None)


def test_arcs_searches_and_fields(rows: pd.DataFrame) -> None:
    facts = asked("fit", "rows.csv", "-m", "bn", "--structure", "smoke>lung,smoke>bronc", "-o", "arcs.bif")
    assert set(network("arcs.bif").edges) == {("smoke", "lung"), ("smoke", "bronc")} and facts["n_iters"] == 0
    asked("fit", "rows.csv", "-m", "bn", "--structure", "chow_liu", "-o", "tree.bif")
    assert len(network("tree.bif").edges) == 7
    facts = asked("fit", "rows.csv", "-m", "mrf", "--structure", "smoke-lung,smoke-bronc", "-o", "field.npz")
    assert facts["log_likelihood"] == pytest.approx(asked("score", "field.npz", "rows.csv")["mean log-likelihood"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "rows.csv", "-m", "bn", "-o", "m.bif"], "--model bn needs --structure"),
        (["fit", "rows.csv", "-m", "bn", "--structure", "asia", "-o", "m.xyz"], "m.xyz"),
        (["fit", "none.csv", "-m", "bn", "--structure", "asia", "-o", "m.bif"], "none.csv: no such file"),
        (
            ["fit", "rows.csv", "-m", "bn", "--structure", "asia", "-o", "m.bif", "--C", "1"],
            "has no option --C",
        ),
        (
            ["fit", "rows.csv", "-m", "bn", "--structure", "chowliu", "-o", "m.bif"],
            "no file and no network of that name; did you mean 'chow_liu'?",
        ),
        (["fit", "rows.csv", "-m", "bn", "--structure", "a>b>c", "-o", "m.bif"], "parent>child"),
        (["fit", "rows.csv", "-m", "grid", "--structure", "asia", "-o", "m.npz"], "--structure is of bn and mrf"),
        (["score", "asia", "rows.npz"], "a table of rows is a .csv or .parquet file"),
        (["score", "cancer", "rows.csv"], "no variable 'asia' for this column"),
        (["predict", "asia", "rows.csv", "-o", "m.npz"], "ends in .csv"),
        (["predict", "asia", "rows.csv", "--json"], "--json tells of a file"),
        (["predict", "model.npz", "data.npz"], "Missing option '--output'"),
    ],
)
def test_errors_are_one_line(rows: pd.DataFrame, words: list[str], message: str) -> None:
    result = CliRunner().invoke(commands, words)
    assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1


def test_rows_of_evidence_are_answered_as_rows(rows: pd.DataFrame) -> None:
    evidence = pd.DataFrame({"xray": ["yes", "no", None], "smoke": [None, "yes", None]})
    evidence.to_csv("evidence.csv", index=False)
    words = ["infer", "asia", "--evidence-file", "evidence.csv", "--targets", "lung", "-e", "dysp=yes"]
    result = CliRunner().invoke(commands, words)
    assert result.exit_code == 0, result.stderr
    many = bl.infer_many(bl.datasets.load_bn("asia").condition({"dysp": "yes"}), evidence, targets=["lung"])
    shown = pd.read_csv(io.StringIO(result.stdout))
    assert list(shown.columns) == ["log_z", "lung=yes", "lung=no"]
    np.testing.assert_allclose(shown.to_numpy(), many.to_frame().to_numpy(), rtol=1e-12)
    assert CliRunner().invoke(commands, ["maximize", *words[1:4], "-o", "best.csv"]).exit_code == 0
    best = bl.maximize_many(bl.datasets.load_bn("asia"), evidence).to_frame()
    assert pd.read_csv("best.csv")["lung"].tolist() == best["lung"].tolist()
    evidence.assign(xray="maybe").to_csv("evidence.csv", index=False)
    refused = CliRunner().invoke(commands, words)
    assert refused.exit_code != 0 and "column 'xray', row 0: no state 'maybe'" in refused.stderr
