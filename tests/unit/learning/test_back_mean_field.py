"""Gradients through mean field equal finite differences of the very beliefs that ``infer`` returns."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.variational.mean_field import MeanField
from beliefs.inference.variational.naive import BinaryField, NaiveField, PairwiseField
from beliefs.learning.gradients.base import Beliefs
from beliefs.learning.gradients.mean_field import converge_mean_field, run_mean_field
from families import evidence, family, grid_pairs, random_model, unary

STEP = 1e-5
BOTH = pytest.mark.parametrize("schedule", ["sequential", "color"])
NAMES = [
    "chain", "tree", "grid", "complete", "star", "higher_order", "hard_zeros", "disconnected", "mixed_cardinalities",
    "single_states", "constants", "repeated_scopes", "tied_tables", "isolated_variables", "no_factors",
]  # fmt: skip


def potts(n_states: int, *, tied: bool = False) -> bl.FactorGraph:
    """A 3 x 3 grid of variables with so many states."""
    rng = np.random.default_rng(n_states)
    tables = rng.normal(size=(n_states, n_states) if tied else (12, n_states, n_states))
    return bl.FactorGraph.pairwise(rng.normal(size=(9, n_states)), grid_pairs(3, 3), tables)


def bars(graph: bl.FactorGraph, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A random loss, linear in all beliefs."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=graph.layout.n_states), rng.normal(size=int(graph.layout.table_ptr[-1]))


def truncated_loss(
    graph: bl.FactorGraph, method: MeanField, n: int, bar: tuple[np.ndarray, np.ndarray], tol: float = 0.0
) -> float:
    result = bl.infer(graph, method, max_iters=n, tol=tol, threads=1)
    return float(result.mu_var @ bar[0] + result.mu_factor @ bar[1])


def check_slopes(beliefs: Beliefs, loss: object, graph: bl.FactorGraph, bar: tuple[np.ndarray, np.ndarray]) -> None:
    """Central differences along random directions, extrapolated once, are good to about 1e-10."""
    grad = beliefs.pullback(*bar)
    assert grad.shape == graph.theta.shape and np.isfinite(grad).all()
    assert not grad[graph.theta == -np.inf].any()
    rng = np.random.default_rng(1)
    for _ in range(4):
        d = rng.normal(size=graph.layout.n_cells)
        value = {h: loss(graph.with_theta(graph.theta + h * STEP * d)) for h in (-20, -10, 10, 20)}  # type: ignore[operator]
        slope = (8 * (value[10] - value[-10]) - (value[20] - value[-20])) / (120 * STEP)
        assert grad @ d == pytest.approx(slope, rel=1e-7, abs=1e-7)


@BOTH
@pytest.mark.parametrize("n_sweeps", [0, 1, 3, 7])
@pytest.mark.parametrize("name", NAMES)
def test_truncated_gradients_are_finite_differences(name: str, n_sweeps: int, schedule: str) -> None:
    graph, method = family(name), MeanField(schedule=schedule)  # type: ignore[arg-type]
    graph = graph.condition(evidence(name, 1)) if name == "mixed_cardinalities" else graph
    bar = bars(graph)
    beliefs = run_mean_field(method, n_sweeps, graph, None)
    expected = bl.infer(graph, method, max_iters=n_sweeps, tol=0.0)
    np.testing.assert_allclose(beliefs.mu_var, expected.mu_var, rtol=0, atol=1e-14)
    np.testing.assert_allclose(beliefs.mu_factor, expected.mu_factor, rtol=0, atol=1e-14)
    check_slopes(beliefs, lambda g: truncated_loss(g, method, n_sweeps, bar), graph, bar)


@BOTH
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n_states", [2, 3, 4, 5, 8, 11])
def test_pairs_of_any_cardinality(n_states: int, tied: bool, schedule: str) -> None:
    graph, method = potts(n_states, tied=tied), MeanField(schedule=schedule)  # type: ignore[arg-type]
    bar = bars(graph)
    for n_sweeps in (1, 2, 19):
        beliefs = run_mean_field(method, n_sweeps, graph, None)
        check_slopes(beliefs, lambda g, n=n_sweeps: truncated_loss(g, method, n, bar), graph, bar)  # type: ignore[misc]


@BOTH
@pytest.mark.parametrize("n_states", [2, 3, 6])
def test_pairs_equal_general_factors(n_states: int, schedule: str) -> None:
    """A table of ones over three variables changes nothing but the kernels that are used."""
    graph, bar = potts(n_states), bars(potts(n_states))
    general = graph.with_factors([((0, 4, 8), np.zeros((n_states,) * 3))])
    method = MeanField(schedule="sequential")
    ways = [run_mean_field(method, 9, g, None) for g in (graph, general)]
    assert type(ways[0].field) is (BinaryField if n_states == 2 else PairwiseField)  # type: ignore[attr-defined]
    assert type(ways[1].field) is NaiveField  # type: ignore[attr-defined]
    plain, other = ways[0].pullback(*bar), ways[1].pullback(bar[0], np.append(bar[1], np.zeros(n_states**3)))
    np.testing.assert_allclose(plain, other[: plain.size], rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["grid", "chain", "higher_order", "hard_zeros"])
def test_checkpoints_change_no_digit(name: str) -> None:
    graph, bar = family(name), bars(family(name))
    whole = run_mean_field(MeanField(), 23, graph, None).pullback(*bar)
    for checkpoints in (1, 2, 3, 5, 9, 22, 40):
        beliefs = run_mean_field(MeanField(), 23, graph, checkpoints)
        assert len(beliefs.recording.spine) <= checkpoints  # type: ignore[attr-defined]
        np.testing.assert_allclose(beliefs.pullback(*bar), whole, rtol=1e-12, atol=1e-14)


def test_a_pullback_can_be_repeated() -> None:
    graph = potts(3)
    beliefs = run_mean_field(MeanField(), 4, graph, None)
    first, other = bars(graph), bars(graph, 1)
    once, third = beliefs.pullback(*first), beliefs.pullback(first[0] + other[0], first[1] + other[1])
    np.testing.assert_array_equal(beliefs.pullback(*first), once)
    np.testing.assert_allclose(once + beliefs.pullback(*other), third, rtol=1e-12, atol=1e-13)


@BOTH
@pytest.mark.parametrize("name", [n for n in NAMES if n != "hard_zeros"])
def test_at_convergence(name: str, schedule: str) -> None:
    """The same as very many sweeps undone one by one, and as finite differences of converged beliefs."""
    graph, method = family(name), MeanField(schedule=schedule)  # type: ignore[arg-type]
    bar = bars(graph)
    beliefs = converge_mean_field(method, graph, 1e-14, 1e-14, 5000, None)
    grad = beliefs.pullback(*bar)
    assert beliefs.converged
    np.testing.assert_allclose(run_mean_field(method, 400, graph, None).pullback(*bar), grad, rtol=1e-9, atol=1e-9)
    check_slopes(beliefs, lambda g: truncated_loss(g, method, 2000, bar, 1e-15), graph, bar)


def test_a_warm_start_saves_sweeps_and_changes_nothing() -> None:
    graph = family("grid")
    cold = converge_mean_field(MeanField(), graph, 1e-13, 1e-13, 5000, None)
    warm = converge_mean_field(MeanField(), graph, 1e-13, 1e-13, 2, cold.warm_state)
    assert warm.converged
    np.testing.assert_allclose(warm.mu_var, cold.mu_var, rtol=0, atol=1e-12)


def test_what_stops_short_says_so() -> None:
    graph = family("grid")
    assert not converge_mean_field(MeanField(), graph, 1e-14, 1e-14, 3, None).converged
    beliefs = converge_mean_field(MeanField(), graph, 1.0, 0.0, 3, None)
    assert beliefs.converged
    beliefs.pullback(*bars(graph))
    assert not beliefs.converged


def test_sums_of_gradients_vanish() -> None:
    """Adding a constant to a table changes no belief, so the gradient in it sums to zero."""
    graph = random_model([2, 3, 4, 2], [*unary(4), (0, 1), (1, 2, 3), (3, 0)], seed=5)
    grad = run_mean_field(MeanField(), 3, graph, None).pullback(*bars(graph))
    for f in range(graph.n_factors):
        assert grad[graph.layout.cells(f)].sum() == pytest.approx(0, abs=1e-13)


def test_the_bound_is_that_of_infer() -> None:
    graph = family("higher_order")
    assert run_mean_field(MeanField(), 5, graph, None).log_z == pytest.approx(  # type: ignore[attr-defined]
        bl.infer(graph, MeanField(), max_iters=5, tol=0.0).log_z
    )


@pytest.mark.parametrize(
    ("method", "message"),
    [(MeanField(structure="tree"), "naive mean field"), (MeanField(restarts=2), "restarts=0")],
)
def test_other_mean_fields_are_refused(method: MeanField, message: str) -> None:
    with pytest.raises(bl.UnsupportedError, match=message):
        run_mean_field(method, 3, family("grid"), None)
    with pytest.raises(bl.UnsupportedError, match=message):
        converge_mean_field(method, family("grid"), 1e-9, 1e-9, 10, None)


@pytest.mark.parametrize(("n_sweeps", "checkpoints"), [(-1, None), (2.5, None), (3, 0), (3, "all")])
def test_bad_options(n_sweeps: object, checkpoints: object) -> None:
    with pytest.raises(bl.ModelError, match="must be"):
        run_mean_field(MeanField(), n_sweeps, family("grid"), checkpoints)  # type: ignore[arg-type]
