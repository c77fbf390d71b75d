"""The experiments run, write what they promise, and judge by quantities that are checked here."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.base import Problem, Task
from beliefs.inference.messages.trw import TRW
from families import grid_pairs

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"


@pytest.fixture
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A file of the experiments, which import each other by bare names."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module(request.param)


def of(name: str) -> Any:
    return pytest.mark.parametrize("module", [name], indirect=True, ids=[name])


def run(script: str, *options: str) -> str:
    done = subprocess.run([sys.executable, EXPERIMENTS / script, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- the scripts -----------------------------------------------------------------------------------------------------
def test_quick_run_writes_a_figure_and_valid_bounds(tmp_path: Path) -> None:
    said = run("ising_bounds.py", "--quick", "--output", str(tmp_path))
    assert "What differs" in said
    assert (tmp_path / "figures" / "ising_bounds.png").stat().st_size < 300_000
    found = json.loads((tmp_path / "results" / "ising_bounds.json").read_text())
    for panel in found["panels"].values():
        energies = panel["curves"].pop("TRW free energy")["bound"]
        assert min(energies) < panel["truth"]
        for curve in panel["curves"].values():
            assert min(curve["bound"]) >= panel["truth"] - 1e-4  # six digits are kept


def test_the_step_of_perturbation_has_an_optimum(tmp_path: Path) -> None:
    run("perturbation_step.py", "--quick", "--output", str(tmp_path))
    assert (tmp_path / "figures" / "perturbation_step.png").stat().st_size < 300_000
    found = json.loads((tmp_path / "results" / "perturbation_step.json").read_text())
    assert [claim["holds"] for claim in found["claims"][:2]] == [True, True]
    for curves in found["relative errors"]["TRW"].values():
        for errors in curves.values():
            assert 0 < int(np.argmin(errors)) < len(errors) - 1
            assert 10 * min(errors) < min(errors[0], errors[-1])


@pytest.mark.parametrize("script", ["diagnostic_networks.py", "pedigree_bounds.py"])
def test_absent_data_is_one_line(script: str, tmp_path: Path) -> None:
    said = run(script, "--data", str(tmp_path), "--output", str(tmp_path))
    assert said.startswith("Skipped: ")
    assert said.count("\n") == 1


# -- the tree-reweighted free energy ---------------------------------------------------------------------------------
@of("trw_energy")
def test_energy_of_sums_is_that_of_the_library(module: ModuleType) -> None:
    problem = Problem(bl.datasets.make_ising_grid(4, field=1.0, coupling=1.0, seed=1))
    method = TRW(rho=module.spanning_tree_rho(problem))
    state = method.init(problem)
    while state.n_steps < 200 and method.step(state) > 1e-13:
        pass
    assert module.trw_energy(state) == pytest.approx(state.assessment.energy, abs=1e-9)


@of("trw_energy")
def test_energy_is_exact_where_sums_are_leaves_of_a_tree_of_maxima(module: ModuleType) -> None:
    """Contracting the maxima leaves a star: every edge to a leaf is in every tree."""
    rng = np.random.default_rng(0)
    edges = np.array([[0, 1], [1, 2], [0, 3], [1, 4], [2, 5], [2, 6]])
    graph = bl.FactorGraph.pairwise(rng.normal(size=(7, 3)), edges, rng.normal(size=(6, 3, 3)))
    problem = Problem(graph, Task.MARGINAL_MAP, query=np.arange(3))
    np.testing.assert_allclose(module.spanning_tree_rho(problem), 1.0)
    truth = bl.marginal_map(graph, [0, 1, 2], "enumeration").log_value
    assert module.trw_energies(problem, 10)[-1] == pytest.approx(truth, abs=1e-9)


@of("trw_energy")
def test_counting_numbers_add_up_to_the_edges_of_a_tree(module: ModuleType) -> None:
    graph = bl.datasets.make_ising_grid(3, 4, seed=0)
    query = np.array([0, 1, 5, 10])  # 0-1-5 are joined, 10 is on its own
    rho = module.spanning_tree_rho(Problem(graph, Task.MARGINAL_MAP, query=query))[12:]
    inside = np.isin(np.array(grid_pairs(3, 4)), query).all(axis=1)
    assert rho[~inside].sum() == pytest.approx(8)  # a spanning tree of the 8 sums and the contracted maxima
    assert rho[inside].sum() == pytest.approx(2)
    assert ((rho > 0) & (rho <= 1 + 1e-12)).all()


# -- curves ----------------------------------------------------------------------------------------------------------
@of("curves")
def test_curves_keep_the_present_the_best_and_the_latest(module: ModuleType) -> None:
    curve = module.Curve("m")
    for seconds, bound, decoding in ((0.1, 5.0, -math.inf), (0.2, 3.0, 1.0), (0.3, 4.0, 0.5)):
        curve.record(seconds, bound, decoding)
    assert (curve.bound, curve.best, curve.decoding) == ([5.0, 3.0, 4.0], [5.0, 3.0, 3.0], [-math.inf, 1.0, 0.5])
    assert [curve.best_after(k) for k in (0, 1, 9)] == [5.0, 3.0, 3.0]
    assert curve.plain()["decoding"] == [None, 1.0, 0.5]


@of("curves")
def test_every_method_is_between_its_decodings_and_its_bounds(module: ModuleType) -> None:
    problem = module.maximising(bl.datasets.make_ising_grid(3, field=1.0, coupling=1.0, seed=2), 0.5, seed=0)
    truth = bl.marginal_map(problem.graph, [int(v) for v in problem.query], "enumeration").log_value
    for label, curve in module.compare(problem, module.roster((0.1, 0.5)), 5).items():
        assert len(curve.bound) in (1, 6), label
        assert len(curve.decoding) == len(curve.seconds) == len(curve.bound), label
        assert min(curve.bound) >= truth - 1e-9, label
        assert max(curve.decoding) <= truth + 1e-9, label


@of("curves")
def test_shares_of_max_nodes_are_nested(module: ModuleType) -> None:
    graph = bl.datasets.make_ising_grid(4, seed=0)
    problems = [module.maximising(graph, share, seed=3) for share in (0.0, 0.25, 0.5, 1.0)]
    assert [p.task for p in problems] == [Task.INFER, Task.MARGINAL_MAP, Task.MARGINAL_MAP, Task.MAXIMIZE]
    assert [p.query.size for p in problems] == [0, 4, 8, 0]
    assert set(problems[1].query) < set(problems[2].query)


# -- learning --------------------------------------------------------------------------------------------------------
def test_the_chain_study_runs_and_the_right_model_needs_no_special_loss(tmp_path: Path) -> None:
    run("misspecified_chain.py", "--quick", "--output", str(tmp_path))
    found = json.loads((tmp_path / "results" / "misspecified_chain.json").read_text())
    assert found["claims"][0]["holds"]
    errors = found["mean test error"]
    assert max(abs(errors["likelihood"][0][-1] - other[0][-1]) for other in errors.values()) < 0.01
    assert min(other[1][-1] - other[0][-1] for other in errors.values()) > 0.02  # a shift makes all worse
    for figure in ("misspecified_errors", "misspecified_marginals"):
        assert (tmp_path / "figures" / f"{figure}.png").stat().st_size < 300_000


@of("denoising")
def test_denoising_is_skipped_without_its_photographs(module: ModuleType, tmp_path: Path) -> None:
    said = run("denoising.py", "--data", str(tmp_path), "--output", str(tmp_path))
    assert said.startswith("Skipped: ") and said.count("\n") == 1
    assert [row[0] for row in module.ROWS if row[0] in module.MARGINAL] == list(module.MARGINAL)
