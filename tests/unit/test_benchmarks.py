"""The yardsticks themselves: scores of the competitions, reference loops, limits, and ratios that are carried over."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from families import grid_pairs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the benchmarks, which are found from the root folder."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module(f"benchmarks.{request.param}")


def of(name: str) -> Any:
    return pytest.mark.parametrize("module", [name], indirect=True, ids=[name])


# -- scores ----------------------------------------------------------------------------------------------------------
@of("uai.scores")
def test_error_of_log_z_is_signed(module: ModuleType) -> None:
    assert module.log_error(3.0, 1.0) == 2.0
    assert module.log_error(1.0, 3.0) == -2.0
    assert module.log_error(-math.inf, -math.inf) == 0.0
    assert module.log_error(-math.inf, 0.0) == -math.inf


@of("uai.scores")
def test_hellinger_distance_of_known_distributions(module: ModuleType) -> None:
    assert module.hellinger([1, 0], [0, 1]) == pytest.approx(1.0)
    assert module.hellinger([0.2, 0.8], [0.2, 0.8]) == 0.0
    assert module.hellinger([0.5, 0.5], [1, 0]) == pytest.approx(math.sqrt(1 - math.sqrt(0.5)))
    with pytest.raises(ValueError, match="2 and 3 states"):
        module.hellinger([0.5, 0.5], [0.5, 0.5, 0.0])


@of("uai.scores")
def test_mean_distance_leaves_out_observed_variables(module: ModuleType) -> None:
    found, reference = [[1, 0], [0.5, 0.5], [0, 1]], [[0, 1], [0.5, 0.5], [1, 0]]
    assert module.mean_hellinger(found, reference) == pytest.approx(2 / 3)
    assert module.mean_hellinger(found, reference, [True, False, False]) == pytest.approx(1 / 2)
    assert module.mean_hellinger(found, reference, [True] * 3) == 0.0
    with pytest.raises(ValueError, match="3 marginals, 2 in the reference"):
        module.mean_hellinger(found, reference[:2])


@of("uai.scores")
def test_errors_below_the_printed_digits_are_none(module: ModuleType) -> None:
    assert module.up_to_digits(-4e-5, 5e-5) == 0.0
    assert module.up_to_digits(-6e-5, 5e-5) == -6e-5


@of("uai.scores")
def test_trivial_estimate_takes_factors_for_independent(module: ModuleType) -> None:
    """Right for factors that share no variable; a query takes the mean over its states instead of the sum."""
    tables: list[Any] = [[1.0, 3.0], [[1.0, 2.0, 3.0], [0.0, 5.0, 1.0]]]
    logs = [np.log(np.maximum(t, 1e-300)) for t in tables]
    found = module.independent_log_z([2, 2, 3, 4], [False, False, False, True], logs)
    assert found == pytest.approx(math.log(4.0 * 12.0))
    found = module.independent_log_z([2, 2, 3, 4], [False, False, False, True], logs, query=[0, 2])
    assert found == pytest.approx(math.log(2.0 * 4.0))
    assert module.independent_log_z([2], [False], [[-math.inf, -math.inf]]) == -math.inf


@of("uai.scores")
def test_scores_run_from_the_trivial_answer_to_the_right_one(module: ModuleType) -> None:
    assert [module.score("PR", e, 10.0) for e in (0.0, -2.5, 10.0, 11.0, None)] == [100.0, 75.0, 0.0, 0.0, 0.0]
    assert module.score("PR", 0.5, 0.0) == 50.0  # a trivial answer that is right by chance
    assert module.score("MAR", 0.005, 0.0) == 50.0
    assert [module.score("MMAP", e, -4.0) for e in (-1.0, 0.0, 1.0)] == [75.0, 100.0, 100.0]  # above is no error
    assert module.score("PR", 0.0, None) == 100.0  # Z = 0 was proved, the trivial solver is infinitely far


@of("uai.scores")
def test_an_interval_that_excludes_the_reference_is_found(module: ModuleType) -> None:
    assert not module.outside(1.0, 2.0, 1.5, 0.0)
    assert not module.outside(1.0, 2.0, 2.04, 0.05)
    assert module.outside(1.0, 2.0, 2.06, 0.05)
    assert module.outside(1.0, 2.0, 0.9, 0.05)
    assert module.outside(-1e9, 2.0, -math.inf, 0.05)
    assert not module.outside(-math.inf, math.inf, -math.inf, 0.0)


@of("uai.tables")
def test_tables_count_targets_wrong_sides_and_late_answers(module: ModuleType) -> None:
    about = {"n_vars": 3, "width": 2, "tasks": ["PR"], "log_z": "1.0", "trivial": {"PR": 10.0}}
    right = {"status": "CONVERGED", "bound": "EXACT", "value": 1.0, "lower": 1.0, "upper": 1.0, "seconds": 1.0}
    wrong = {"status": "TIME_LIMIT", "bound": "ESTIMATE", "value": 6.0, "lower": 5.0, "upper": 7.0, "seconds": 30.0}
    runs = {
        "s/A/a": right | {"errors": {"PR": 0.0}, "wrong_side": []},
        "s/B/b": wrong | {"errors": {"PR": 5.0}, "wrong_side": ["reference"]},
        "s/B/c": {"failed": "crashed: IndexError: oh", "seconds": 0.1},
    }
    problems = dict.fromkeys(runs, about)
    result = {"limit": 20.0, "versions": {"beliefs": "1"}, "date": "today"}
    result |= {"problems": {"infer": problems}, "runs": {"infer": {"auto": runs}}}
    text = module.page(result, "PR", "infer", ["auto", "never"])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert "- ln Z within 0.1 of the reference: 1 of 3 (33 %)." in text
    method = dict(zip(rows[0], next(row for row in rows if row[0] == "`auto`"), strict=True))
    assert [method[name] for name in ("exact", "failed", "wrong side", "late", "score")] == ["1", "1", "1", "1", "50.0"]
    assert ["s/B", "2", "25.0", "5"] in rows
    assert next(row for row in rows if row[0] == "s/B/c")[4] == "crashed index"
    assert "never" not in text


@of("uai.run")
def test_methods_are_split_at_commas_between_them_only(module: ModuleType) -> None:
    assert module._split("bp(damping=0.2, schedule=flooding), trw") == ["bp(damping=0.2, schedule=flooding)", "trw"]


# -- the frame -------------------------------------------------------------------------------------------------------
SUITES = ("boltzmann.ais", "boltzmann.conditional", "boltzmann.epoch", "boltzmann.matrix_bp",
          "bounds.run", "calls.run", "exact.run", "first_answer",
          "learning.calls", "learning.chunking.run", "learning.image_pass", "learning.margin.run",
          "learning.truncated.run", "limits", "many", "messages.run", "regions.run",
          "rows.fields", "uai.run")  # fmt: skip
STORED = {
    "bounds.run": "bounds", "calls.run": "calls", "exact.run": "exact", "learning.calls": "calls_learning",
    "learning.chunking.run": "chunking", "learning.cluster_pass": "cluster_pass", "learning.margin.run": "margin",
    "learning.truncated.run": "truncated",
    "many": "many", "messages.run": "messages", "regions.run": "regions", "rows.networks": "rows_networks",
}  # fmt: skip


@pytest.mark.parametrize("module", SUITES, indirect=True)
def test_suites_have_the_same_options(module: ModuleType) -> None:
    options = module.SUITE.parsed(["--quick", "--json", "a.json", "--markdown", "b.inc"])
    assert (options.quick, options.only, options.stored, options.markdown) == (True, None, None, Path("b.inc"))
    chosen = module.SUITE.parts[:1] or ("Grids",)
    assert module.SUITE.parsed(["--only", ",".join(chosen)]).only == list(chosen)


@of("bounds.run")
def test_unknown_parts_are_refused(module: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        module.SUITE.parsed(["--only", "passes,nothing"])
    assert "unknown nothing; known are passes, sweeps, memory, curves" in capsys.readouterr().err


@pytest.mark.parametrize("module", STORED, indirect=True)
def test_stored_results_give_the_published_tables(module: ModuleType, tmp_path: Path) -> None:
    name = STORED[module.__name__.removeprefix("benchmarks.")]
    stored, made = ROOT / "benchmarks" / "results" / f"{name}.json", tmp_path / "made.inc"
    assert module.SUITE.run(["--from", str(stored), "--markdown", str(made)]) == 0
    assert made.read_text() == (ROOT / "docs" / "_tables" / f"{name}.inc").read_text()


@of("frame")
def test_a_run_is_written_shown_and_shown_again(module: ModuleType, tmp_path: Path) -> None:
    def measure(run: Any) -> None:
        run.result["found"] = list(run.options.parts)
        run.note("nothing was left out")

    def pages(result: Any, options: Any) -> dict[str, str]:
        return {f"{name}.inc": f"{name}: {len(result['notes'])}" for name in result["found"]}

    suite = module.Suite("of.nothing", None, measure, pages, parts=("one", "two"), has_failed=lambda result: True)
    stored, first, again = tmp_path / "new" / "of.json", tmp_path / "first", tmp_path / "again"
    assert suite.run(["--only", "two", "--json", str(stored), "--markdown", str(first)]) == 1
    assert suite.run(["--from", str(stored), "--markdown", str(again)]) == 1
    assert {path.name: path.read_text() for path in first.iterdir()} == {"two.inc": "two: 1\n"}
    assert (again / "two.inc").read_text() == (first / "two.inc").read_text()
    assert suite.parsed([]).json.name == "of_nothing.json"


@of("jobs")
def test_a_failed_process_says_why(module: ModuleType, tmp_path: Path) -> None:
    answer = module.ask("benchmarks.messages.peers", {"task": "nothing"}, tmp_path)
    assert answer == {"failed": "KeyError: 'nothing'"}


@of("exact.ours")
def test_parts_of_exact_inference_are_seen(module: ModuleType) -> None:
    with module.split() as seconds:
        bl.infer(bl.datasets.make_ising_grid(4, seed=0), "junction_tree")
    assert set(seconds) == set(module.PARTS)
    assert all(seconds[name] > 0 for name in ("plan", "symbolic", "factor copy", "collect", "distribute", "read off"))


# -- two checkouts ---------------------------------------------------------------------------------------------------
@of("compare")
def test_a_row_is_measured_until_it_is_at_rest(module: ModuleType) -> None:
    def figures(before: float, after: float, digest: str = "a") -> Any:
        return {"before": {"seconds": before, "digest": "a"}, "after": {"seconds": after, "digest": digest}}

    row = module.Row("bp")
    for before, after in ((2.0, 2.1), (1.5, 2.0), (1.0, 1.9), (1.0, 1.0), (3.0, 1.0), (1.0, 1.01)):
        assert not row.is_done
        row.add(figures(before, after))
    assert row.is_done
    assert (row.least, row.ratio, row.answers) == ({"before": 1.0, "after": 1.0}, 1.0, "same")
    row.add(figures(1.0, 0.9))
    for _ in range(module.CLOSELY):  # a row that differs is looked at for longer
        assert not row.is_done
        row.add(figures(1.0, 0.9))
    assert row.is_done
    row.add(figures(1.0, 0.9, "b"))
    assert row.answers == "vary"


@of("compare")
def test_comparisons_name_the_worst_rows_and_answers_that_differ(module: ModuleType) -> None:
    rows = [module.Row("bp"), module.Row("trw"), module.Row("compiling", most=1), module.Row("none")]
    for row, after, digest in zip(rows[:2], (0.5, 4.0), "ab", strict=True):
        row.add({"before": {"seconds": 1.0, "digest": "a"}, "after": {"seconds": after, "digest": digest}})
    rows[2].add({tree: {"seconds": 1.0, "signatures": 7} for tree in module.TREES})
    rows[3].add({"before": {"seconds": 1.0}, "after": {"failed": "KeyError: 'none'"}})
    assert [row.is_done for row in rows] == [False, False, True, True]
    text = module.page({"rows": [row.entry() for row in rows], "rounds": 1, "notes": ["left"]}, None)
    assert "Geometric mean of 3 ratios: 1.260, after 1 rounds." in text
    assert "The worst: trw 4.000, compiling 1.000, bp 0.500." in text
    assert "Answers that differ: trw." in text
    assert "- left" in text


@of("compare_calls")
def test_answers_have_digests_of_their_bytes(module: ModuleType) -> None:
    a, b = (bl.infer(bl.datasets.make_ising_grid(3, seed=seed), "junction_tree") for seed in (0, 1))
    assert module.digest(a) == module.digest(bl.infer(a.graph, "junction_tree")) != module.digest(b)
    assert module.digest([np.zeros(2), np.ones(2)]) != module.digest([np.zeros(2), np.zeros(2)])


@of("compare")
def test_a_quick_comparison_has_rows_of_every_kind(module: ModuleType) -> None:
    every = module.chosen(module.SUITE.parsed(["--before", "."]))
    quick = module.chosen(module.SUITE.parsed(["--before", ".", "--quick"]))
    assert set(quick) < set(every)
    assert {cls.__name__ for cls in (bl.GridCRF, bl.ChainCRF, bl.GraphCRF)} <= {name.split(".")[0] for name in quick}
    for cls in (cls for cls in bl.METHODS if cls.general):
        assert any(name.startswith(repr(cls())) for name in quick), cls


# -- the reference loops ---------------------------------------------------------------------------------------------
def grid(states: int, tied: bool) -> tuple[Any, Any, Any]:
    rng, edges = np.random.default_rng(states), np.array(grid_pairs(3, 4))
    shape = (states, states) if tied else (len(edges), states, states)
    return rng.normal(size=(12, states)), edges, 0.7 * rng.normal(size=shape)


@of("reference_kernel")
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("states", [2, 3])
def test_reference_loops_have_the_fixed_points_of_the_methods(module: ModuleType, states: int, tied: bool) -> None:
    arrays = grid(states, tied)
    graph, loops = bl.FactorGraph.pairwise(*arrays), module.Reference(*arrays)
    for _ in range(200):
        loops.bp()
        loops.trw(0.5)
        loops.mean_field()
    for name, found in (
        ("bp", loops.bp_marginals()),
        ("trw(rho=grid)", loops.trw_marginals(0.5)),
        ("mean_field", loops.mu),
    ):
        expected = bl.infer(graph, name, tol=1e-12).mu_var
        np.testing.assert_allclose(found.ravel(), expected, rtol=0, atol=1e-8, err_msg=name)


@of("reference_kernel")
@pytest.mark.parametrize("states", [2, 3])
def test_reference_sampler_follows_its_potentials(module: ModuleType, states: int) -> None:
    """A chain in which each vertex is forced by the one before it, through tables read along either axis."""
    unary, edges = np.zeros((4, states)), np.array([[0, 1], [2, 1], [2, 3]])
    unary[0, 1] = 320.0
    tables = np.zeros((3, states, states))
    for e, strength in enumerate((160.0, 80.0, 40.0)):
        for x in range(states):
            tables[e, x, (x + 1) % states] = strength
    loops = module.Reference(unary, edges, tables)
    for _ in range(3):
        loops.gibbs()
    np.testing.assert_array_equal(loops.state, [1, 2 % states, 1, 2 % states])


# -- limits and ratios -----------------------------------------------------------------------------------------------
@of("messages.cases")
@pytest.mark.parametrize(
    ("states", "tied", "ns"), [(2, False, 2.5), (8, False, 17.0), (21, False, 89.6), (21, True, 21.1)]
)
def test_limit_of_a_message(module: ModuleType, states: int, tied: bool, ns: float) -> None:
    assert module.limit_ns(states, tied, False, 24.0, 41.8) == pytest.approx(ns, abs=0.05)


@of("messages.tables")
def test_ratio_is_carried_over_through_the_reference(module: ModuleType) -> None:
    cases = importlib.import_module("benchmarks.messages.cases")
    case, rule = cases.Grid(300, 2), cases.RULES[0]
    then = 1e6 * cases.PLAIN[300, 2]["bp"] / case.n_messages  # ns a message on the machine of then
    for slower in (1.0, 3.0):  # a machine three times slower hurts both alike
        measured = {"rules": {rule.name: {"reference": {"ns": slower * then}, "1 thread": {"ns": slower * then / 4}}}}
        expected = 4 * cases.LIBDAI[300, 2]["bp"] / cases.PLAIN[300, 2]["bp"]
        assert module.libdai_ratio(case, measured, rule) == pytest.approx(expected)
    gibbs = next(r for r in cases.RULES if r.loop == "gibbs")
    measured["rules"][gibbs.name] = {"reference": {"ns": 50.0}, "1 thread": {"ns": 100.0}}
    sweep = 100.0 * 300**2 / 1e6  # no loop of then: the factor of the others stands in
    assert module.libdai_ratio(case, measured, gibbs) == pytest.approx(3.0 * cases.LIBDAI[300, 2]["gibbs"] / sweep)
