"""The experiments run, write what they promise, and judge by quantities that are checked here."""

from __future__ import annotations

import argparse
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


def of(*names: str) -> Any:
    return pytest.mark.parametrize("module", names, indirect=True, ids=names)


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


def test_the_mixture_falls_and_is_learned_back(tmp_path: Path) -> None:
    run("mixture.py", "--quick", "--output", str(tmp_path))
    assert (tmp_path / "figures" / "mixture.png").stat().st_size < 300_000
    found = json.loads((tmp_path / "results" / "mixture.json").read_text())
    assert [claim["holds"] for claim in found["claims"][:2]] == [True, True]
    assert found["learned"]["means"] == pytest.approx([-2.0, 1.0, 4.0], abs=0.5)


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
    assert list(module.ROWS) == list(module.PRINTED)
    assert set(module.MARGINAL) | set(module.SHOWN) < set(module.ROWS)


@of("horses", "street_scenes")
def test_tables_of_pictures_are_skipped_without_them(module: ModuleType, tmp_path: Path) -> None:
    said = run(f"{module.__name__}.py", "--data", str(tmp_path), "--output", str(tmp_path))
    assert said.startswith("Skipped: ") and said.count("\n") == 1
    names = [cell.name for cell in module.cells()]
    assert len(set(names)) == len(names)


# -- learning with hidden variables ----------------------------------------------------------------------------------
def in_process(module: ModuleType, monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """Run an experiment quickly, and return what it has written."""
    monkeypatch.setattr(sys, "argv", [module.__name__, "--quick", "--output", str(folder)])
    assert module.main() == 0
    assert (folder / "figures" / f"{module.__name__}.png").stat().st_size < 300_000
    found: dict[str, Any] = json.loads((folder / "results" / f"{module.__name__}.json").read_text())
    return found


@of("hidden_models")
@pytest.mark.parametrize("reading", ["hidden", "all"])
def test_the_true_weights_give_the_true_posterior(module: ModuleType, reading: str) -> None:
    """Features are right if the tables the data come from, written as weights, give the model's own marginals."""
    shape = module.chain(6, reading)
    drawn: dict[str, Any] = {"sigma_h": 0.5, "sigma_xy": 2.0 if reading == "all" else 0.0}
    model = bl.datasets.make_hidden_chain(6, seed=3, **drawn)
    trial = module.simulated(shape, 3, 2, 1, sigma_h=0.5)
    vertex = np.zeros((module.K, shape.template.types[0].width))
    edge = np.zeros((module.K**2, len(shape.edges)))
    for f, factor in enumerate(model.factors):
        log, scope = model.theta[model.layout.cells(f)], [int(v) for v in model.layout.scope(f)]
        if len(scope) == 1 and scope[0] >= 6:
            vertex[:, scope[0] - 6] = log
        elif len(scope) == 2 and scope[0] >= 6:
            edge[:, scope[0] - 6] = log
        elif len(scope) == 2 and scope[0] in shape.inputs:
            at = 6 + module.K * list(shape.inputs).index(scope[0])
            vertex[:, at : at + module.K] = log.reshape(module.K, module.K).T
        assert factor is not None
    weights = np.concatenate([vertex.ravel(), edge.ravel()])
    instance = trial.train[0]
    mine = bl.infer(instance.graph(shape.template.theta(weights, instance.inputs)), "junction_tree").mu_var
    given = model.condition({f"x{k}": int(trial.x[0, k]) for k in range(6)})
    np.testing.assert_allclose(mine, bl.infer(given, "junction_tree").mu_var[6 * module.K :], atol=1e-9)
    assert (instance.labels[shape.hidden] == -1).all() and (instance.labels[~shape.hidden] >= 0).all()


@of("modlat")
def test_the_gradient_of_the_dissimilarity(module: ModuleType) -> None:
    models = importlib.import_module("hidden_models")
    shape = models.chain(8)
    study = module.Study(shape, models.simulated(shape, 0, 2, 1).examples)
    w, states = shape.start(0), np.arange(16) % models.K
    hidden = np.flatnonzero(study.hidden)

    def dissimilarity(v: np.ndarray) -> float:
        p = study.marginals(v)[hidden]
        wrong = 1 - p[np.arange(hidden.size), states[hidden]]
        return float(module.SHARE * (wrong - module.BETA * (1 - (p**2).sum(axis=1))).sum())

    direction = np.random.default_rng(0).normal(size=w.size)
    slope = (dissimilarity(w + 1e-5 * direction) - dissimilarity(w - 1e-5 * direction)) / 2e-5
    assert study.slope(w, states) @ direction == pytest.approx(slope, rel=1e-6)


@of("hidden_chain")
def test_the_tables_of_hidden_chains(module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = in_process(module, monkeypatch, tmp_path)["accuracy"]
    assert set(found["chain, CCCP, 0.1"]) == set(module.LEARNERS)
    assert all(0 <= x <= 100 for row in found.values() for values in row.values() for x in values)
    printed = np.array([row for name, row in module.PRINTED.items() if name.startswith("chain, CCCP")])
    np.testing.assert_allclose(printed.mean(axis=0), [72.02, 70.67, 71.28, 68.58, 69.37], atol=0.006)  # as printed


@of("hidden_curves")
def test_the_curves_of_hidden_chains(module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = in_process(module, monkeypatch, tmp_path)
    assert all(max(curve["likelihood"]) < 0 for curve in found["mean over trials"].values())
    assert module.settled(np.array([[0.5, 0.3, 0.2, *[0.195] * 12]])) == 3
    assert module.roughness(np.array([[0.9, 0.9, 0.1, 0.2, 0.1]])) == pytest.approx(10)


@of("hidden_sizes")
def test_errors_by_sample_size(module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = in_process(module, monkeypatch, tmp_path)
    assert all(np.shape(errors) == (2, 1) and 0 < np.min(errors) for errors in found["test error"].values())


@of("missing_labels")
def test_missing_labels(module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert np.unique(module.truth()).tolist() == [0, 1, 2, 3, 4] and module.truth().shape == (20, 40)
    found = in_process(module, monkeypatch, tmp_path)["scores"]
    assert all(np.shape(scores) == (2, 1, 4) for scores in found.values())


def test_missing_labels_in_rows() -> None:
    lines = run("missing_labels_rows.py", "--quick").splitlines()
    assert len(lines) == 6 and lines[0].startswith("0% hidden: MSSVM ") and " +- " in lines[-1]


@of("structured_data")
def test_the_windows_of_a_snake(module: ModuleType) -> None:
    red, blue = (255, 0, 0), (0, 0, 255)
    picture = np.array([[red, blue], [blue, blue]], np.uint8)
    found = module.windows(picture).reshape(2, 2, 9, 5)
    assert (found.sum(axis=3) == 1).all()
    assert np.argwhere(found[0, 0, :, 0]).ravel().tolist() == [4]  # itself
    assert np.argwhere(found[1, 1, :, 0]).ravel().tolist() == [0]  # up and left
    ((_, edges, features),) = module.snake_graphs([picture], ends=True)
    assert [e.tolist() for e in edges] == [[[0, 1], [2, 3]], [[0, 2], [1, 3]]]
    np.testing.assert_array_equal(features[0][0], found[0].reshape(-1))


@of("pystruct_pages")
def test_words_are_cut_at_hidden_letters(module: ModuleType, tmp_path: Path) -> None:
    x = np.arange(6.0)[:, None]
    runs = module.visible_runs(module.Words([x, x[:2]], [np.array([-1, 3, 4, -1, -1, 5]), np.array([-1, -1])]))
    assert [y.tolist() for y in runs.y] == [[3, 4], [5]]
    assert [part.ravel().tolist() for part in runs.x] == [[1, 2], [5]]
    for script in ("pystruct_pages.py", "street_patches.py"):
        assert run(script, "--data", str(tmp_path), "--output", str(tmp_path)).startswith("Skipped: ")


@of("patches")
def test_patches_of_a_plain_picture(module: ModuleType) -> None:
    picture = np.zeros((*module.SIZE, 3), np.uint8)
    picture[:, 160:, 0] = 255
    colour, texture = module._colour(picture), module._texture(picture.mean(axis=2))
    assert colour.shape == (23, 31, 48) and texture.shape == (23, 31, 128)
    np.testing.assert_allclose(colour.sum(axis=2), 3)
    assert colour[0, 0, 0] == 1 and colour[0, -1, 15] == 1 and colour[0, 15, 0] == 0.5  # black, red, half of each
    assert texture[0, 0].max() == 0 and texture[0, 15].max() == pytest.approx(0.2)  # an edge points one way
    classes = np.zeros(module.SIZE, np.int64)
    classes[:, :30] = 3
    assert module._middles(classes)[0, :4].tolist() == [3, 3, 0, 0]
    frames = [("b", 90), ("a", 900), ("a", 30), ("a", 1000), ("b", 950)]
    found = [module.Scene(picture, texture, colour, module._middles(classes), frame) for frame in frames]
    assert found[0].labels([3])[0, :3].tolist() == [0, 0, -1]
    assert module.shots(found).tolist() == [2, 1, 0, 1, 3]  # two pictures of "a" are three seconds apart
    assert module._frame("CamVid/test/Seq05VD_f00450.png") == ("Seq05VD", 450)


@of("trials")
def test_trials_are_kept(module: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    assert module.Kept(path).of("one", lambda: 1.5) == 1.5
    assert module.Kept(path).of("one", lambda: pytest.fail("computed again")) == 1.5
    for quick, kept in ((True, None), (False, EXPERIMENTS / "local" / "b.trials.json")):
        assert module.Kept.of_study("b", argparse.Namespace(quick=quick)).path == kept
    assert module.paired([3, 5], [1, 1]) == (3.0, 1.0)
    assert module.shown((-1.25, 0.5)) in ("-1.2 +- 0.5", "-1.3 +- 0.5")


@of("paper")
def test_the_size_of_a_study_is_asked_for(module: ModuleType) -> None:
    options = [
        argparse.Namespace(quick=quick, full=full) for quick, full in ((True, False), (False, False), (False, True))
    ]
    found = [module.sized(one, 1, 2, 3) for one in options]
    assert found == [(1, "_quick"), (2, ""), (3, "_full")]


@of("growing_machines")
def test_points_of_growing_machines_are_jobs(module: ModuleType, tmp_path: Path) -> None:
    bits_of, trials = importlib.import_module("image_bits"), importlib.import_module("trials")
    Jobs, Setting = module.Jobs, module.Setting
    rng = np.random.default_rng(0)
    prototypes = np.where(rng.random((3, 9)) < 0.5, 0.05, 0.95)
    labels = rng.integers(3, size=120)
    rows = (rng.random((120, 9)) < prototypes[labels]).astype(np.uint8)
    bits = bits_of.Bits("MNIST", rows[:60], rows[60:90], rows[90:], labels[:60], labels[90:])
    setting = Setting((2, 3), (0.1,), (20,), (0.1, 0.05), (0.2,), 2, 2, (2, 1), *2 * ("chains=20, temperatures=20",))

    def jobs(*wanted: str) -> Any:
        kept = trials.Kept(tmp_path / "kept.json")
        return Jobs(bits, setting, tmp_path / "machines", kept, lambda name: any(text in name for text in wanted))

    blank = module.study(jobs())
    assert set(blank["curves"]["CD"]["likelihood"]) == {None} and "best" not in blank
    some = module.study(jobs("fw", "choice", "/2"))
    assert None not in some["curves"]["FW"]["likelihood"]
    assert [value is None for value in some["curves"]["CD"]["likelihood"]] == [False, True]
    whole = module.study(jobs(""))
    assert whole["curves"]["FW"]["likelihood"] == some["curves"]["FW"]["likelihood"]  # not run again
    low, high = whole["best"]["interval"]
    best = jobs().machine(whole["best"]["name"])
    assert low <= bl.log_likelihood(best, bits.test).mean <= high
    assert all(claim.ours for claim in module.judged("MNIST", whole, setting))
    assert not list((tmp_path / "machines").glob("*checkpoint*"))


@of("triplets")
def test_ten_triplets_are_better_than_none_and_than_all(module: ModuleType) -> None:
    found = {n: np.array([module.errors(0.5, "lexicographic", n, seed) for seed in range(2)]) for n in (0, 10, 20)}
    assert all((trials[:, 2] == 1.0).all() for trials in found.values())
    assert found[10][:, 0].mean() < found[0][:, 0].mean() < found[20][:, 0].mean()


@of("cycle_bases")
def test_faces_are_ahead_and_figures_share_their_models(module: ModuleType) -> None:
    found = module.faces_or_pattern(0.3, 0)
    assert found["faces"][1] < 0.1 * min(found["BP"][1], found["tiled"][1]) and found["faces"][3] == 1.0
    assert module.key("3.15", "0.7", 2) == module.key("3.16", "0.7", 2) != module.key("3.15", "0.5", 2)
    quick, ordinary, full = (module.studies(size) for size in ("quick", "ordinary", "full"))
    assert quick.keys() == ordinary.keys() == full.keys()
    assert all(set(ordinary[name][0]) <= set(full[name][0]) for name in full)  # a full run goes on from a smaller
    assert all(quick[name][1] <= ordinary[name][1] <= full[name][1] for name in full)


# -- fields from rows ------------------------------------------------------------------------------------------------
@of("field_methods")
def test_laws_draws_and_slopes_of_fields(module: ModuleType) -> None:
    p = module.law(module.field(module.RING, 1.0, 3))
    rows = module.drawn(p, 40_000, 0)
    found = np.bincount(rows @ 2 ** np.arange(6)[::-1], minlength=64) / len(rows)
    assert p.sum() == pytest.approx(1.0) and np.abs(found - p).max() < 0.01
    assert module.divergence(p, p) == 0.0 < module.divergence(p, np.full(64, 1 / 64))
    assert module.slope((10, 100, 1000), [0.3, 0.03, 0.003]) == pytest.approx(-1.0)


# -- marginal losses -------------------------------------------------------------------------------------------------
@of("denoising")
def test_denoising_judges_what_was_run(module: ModuleType) -> None:
    """Cells come one by one: each claim is made when those that it needs are there."""
    found: Any = {row: dict.fromkeys(module.EXPONENTS) for row in module.ROWS}
    assert module.judged(found) == []
    for row, test in (("independent", 0.42), ("surrogate likelihood", 0.15), ("clique logistic", 0.13)):
        found[row][1.25] = {"train": test, "test": test}
    assert [claim.holds for claim in module.judged(found)] == [True, True, True]
    found["pseudo-likelihood"][1.25] = found["piecewise"][1.25] = {"train": 0.2, "test": 0.14}
    found["univariate logistic"][1.25] = {"train": 0.16, "test": 0.16}
    assert [claim.holds for claim in module.judged(found)] == [True, False, False, True]


@of("timing_study")
def test_curves_of_the_timing_study_are_judged(module: ModuleType) -> None:
    entry = {"seconds": [0.0, 1.0, 2.5], "risk": [1.0, 0.6, 0.5], "end": 0.5, "status": "STOPPED", "error": 0.1}
    assert [module.reached(entry, level) for level in (2.0, 0.6, 0.55, 0.4)] == [0.0, 1.0, 2.5, math.inf]
    found = dict.fromkeys(module.ways(), entry)
    assert len(found) == 12 and module.judged({}) == []
    slow = {
        f"truncated {n}": entry | {"seconds": [0.0, n / 10, n / 4], "risk": [1.0, 0.6, 0.5 - n / 999]}
        for n in (5, 10, 20, 40)
    }
    loose = {f"{way} 1e-2": entry | {"end": 0.7, "status": "OSCILLATING"} for way in module.WAYS}
    tight = {f"{way} 1e-5": entry | {"seconds": [0.0, 20.0, 30.0]} for way in module.WAYS}
    assert [claim.holds for claim in module.judged(found | slow | loose | tight)] == [True] * 5
    rising = slow | {"truncated 5": entry | {"risk": [1.0, 0.5, 0.6]}}
    assert [claim.holds for claim in module.judged(found | rising | tight)][:2] == [False, False]
