"""Small problems that lie beside this file, with answers from the literature or from enumeration.

``answers.json`` has a row a question: the file, where its numbers come from, the evidence, log Z, the best log score,
the value of a marginal MAP query, and all marginals to twelve digits. They were computed once, from the joint table and
by counting, and are not renewed when the library changes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beliefs as bl

HERE = Path(__file__).parent
ROWS = json.loads((HERE / "answers.json").read_text())
EXACT = ["enumeration", "elimination", "junction_tree"]
BOUNDS = ["trw", "mean_field", "wmb(ibound=2)", "mini_bucket(ibound=2)", "gdd"]

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['file']} {len(row['evidence'])} observed")


def model(row: dict[str, Any]) -> bl.FactorGraph:
    found: Any = bl.read(HERE / row["file"])
    return found.to_factor_graph().condition(dict(row["evidence"]))


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-12, abs=1e-12)


def test_every_file_is_asked_about() -> None:
    kept = {path.name for path in HERE.iterdir() if path.is_file() and path.suffix not in (".py", ".json")}
    assert kept == {row["file"] for row in ROWS}


@each_row
@pytest.mark.parametrize("method", [*EXACT, "auto"])
def test_exact_answers(method: str, row: dict[str, Any]) -> None:
    graph = model(row)
    found = bl.infer(graph, method)
    assert found.bound is bl.Bound.EXACT and found.log_z == near(row["log_z"])
    np.testing.assert_allclose(found.mu_var, np.concatenate(row["marginals"]), rtol=0, atol=1e-11)
    best = bl.maximize(graph, method)
    assert best.gap == 0 and best.log_score == near(row["maximum"])
    query = bl.marginal_map(graph, row["query"], method)
    assert query.gap == 0 and query.log_value == near(row["marginal_map"])


@each_row
@pytest.mark.parametrize("method", BOUNDS)
@pytest.mark.filterwarnings("ignore::beliefs.errors.ConvergenceWarning")
def test_bounds_hold(method: str, row: dict[str, Any]) -> None:
    found = bl.infer(model(row), method)
    assert found.log_lower <= row["log_z"] + 1e-9 and found.log_upper >= row["log_z"] - 1e-9
    assert found.log_lower > -np.inf or found.log_upper < np.inf
