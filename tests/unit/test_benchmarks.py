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

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A file of the benchmarks, which import each other by bare names."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module(request.param)


def of(name: str) -> Any:
    return pytest.mark.parametrize("module", [name], indirect=True, ids=[name])


# -- scores ----------------------------------------------------------------------------------------------------------
@of("uai_scores")
def test_error_of_log_z_is_in_decimal_digits_and_signed(module: ModuleType) -> None:
    assert module.log10_error(math.log(1000.0), math.log(10.0)) == pytest.approx(2.0)
    assert module.log10_error(math.log(10.0), math.log(1000.0)) == pytest.approx(-2.0)
    assert module.log10_error(-math.inf, -math.inf) == 0.0
    assert module.log10_error(-math.inf, 0.0) == -math.inf


@of("uai_scores")
def test_hellinger_distance_of_known_distributions(module: ModuleType) -> None:
    assert module.hellinger([1, 0], [0, 1]) == pytest.approx(1.0)
    assert module.hellinger([0.2, 0.8], [0.2, 0.8]) == 0.0
    assert module.hellinger([0.5, 0.5], [1, 0]) == pytest.approx(math.sqrt(1 - math.sqrt(0.5)))
    with pytest.raises(ValueError, match="2 and 3 states"):
        module.hellinger([0.5, 0.5], [0.5, 0.5, 0.0])


@of("uai_scores")
def test_mean_distance_leaves_out_observed_variables(module: ModuleType) -> None:
    found, reference = [[1, 0], [0.5, 0.5], [0, 1]], [[0, 1], [0.5, 0.5], [1, 0]]
    assert module.mean_hellinger(found, reference) == pytest.approx(2 / 3)
    assert module.mean_hellinger(found, reference, [True, False, False]) == pytest.approx(1 / 2)
    assert module.mean_hellinger(found, reference, [True] * 3) == 0.0
    with pytest.raises(ValueError, match="3 marginals, 2 in the reference"):
        module.mean_hellinger(found, reference[:2])


@of("uai_scores")
def test_errors_below_the_printed_digits_are_none(module: ModuleType) -> None:
    assert module.up_to_digits(-4e-5, 5e-5) == 0.0
    assert module.up_to_digits(-6e-5, 5e-5) == -6e-5


@of("uai")
def test_methods_are_split_at_commas_between_them_only(module: ModuleType) -> None:
    assert module._split("bp(damping=0.2, schedule=flooding), trw") == ["bp(damping=0.2, schedule=flooding)", "trw"]


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
@of("message_cases")
@pytest.mark.parametrize(
    ("states", "tied", "ns"), [(2, False, 2.5), (8, False, 17.0), (21, False, 89.6), (21, True, 21.1)]
)
def test_limit_of_a_message(module: ModuleType, states: int, tied: bool, ns: float) -> None:
    assert module.limit_ns(states, tied, False, 24.0, 41.8) == pytest.approx(ns, abs=0.05)


@of("message_tables")
def test_ratio_is_carried_over_through_the_reference(module: ModuleType) -> None:
    cases = importlib.import_module("message_cases")
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
