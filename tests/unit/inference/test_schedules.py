"""Schedules of messages: the same fixed points, orders as given, threads without a trace."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.inference.base import Problem, Task
from beliefs.inference.messages.bp import BP
from beliefs.inference.messages.schedule import make_schedule
from families import FAMILIES, family, grid_pairs

FORESTS = [name for name in FAMILIES if reference.is_forest(FAMILIES[name]())]


@pytest.mark.parametrize("schedule", ["flooding", "sequential", "color", "chains", "residual"])
@pytest.mark.parametrize("name", ["grid", "higher_order", "complete", "hard_zeros", "parity", "mixed_cardinalities"])
def test_all_schedules_have_the_same_fixed_point(name: str, schedule: str) -> None:
    truth = bl.infer(family(name), "bp", tol=1e-12)
    other = bl.infer(family(name), BP(schedule=schedule, damping=0.1), tol=1e-12)
    np.testing.assert_allclose(other.mu_var, truth.mu_var, rtol=0, atol=1e-8)
    assert other.log_z == pytest.approx(truth.log_z, abs=1e-8)


@pytest.mark.parametrize("schedule", ["flooding", "sequential", "color", "chains", "residual"])
@pytest.mark.parametrize("name", FORESTS)
def test_every_schedule_reaches_the_truth_on_forests(name: str, schedule: str) -> None:
    result = bl.infer(family(name), BP(schedule=schedule), tol=1e-13)
    joint = reference.joint_table(family(name))
    assert result.log_z == pytest.approx(reference.log_z(joint), rel=1e-11, abs=1e-11)
    np.testing.assert_allclose(result.mu_var, reference.mu_var(joint), rtol=0, atol=1e-10)


def test_the_order_is_recorded_and_the_users_order_is_kept() -> None:
    graph = family("grid")
    pairs = np.arange(graph.n_vars, graph.n_factors)
    mine = np.random.default_rng(0).permutation(pairs)
    schedule = make_schedule(graph.layout, "sequential", mine)
    np.testing.assert_array_equal(schedule.passes[0].factors, mine)
    np.testing.assert_array_equal(schedule.passes[1].factors, mine[::-1])
    one = bl.infer(graph, BP(order=mine), tol=1e-12)
    assert one.log_z == pytest.approx(bl.infer(graph, "bp", tol=1e-12).log_z, abs=1e-9)
    for order, complaint in (
        (pairs[1:], "leaves out factor 12"),
        ([*pairs, pairs[0]], "twice"),
        ([99], "factors 0..28"),
        ("abc", "list of factor indices"),
        ([[1]], "list of factor indices"),
    ):
        with pytest.raises(bl.ModelError, match=complaint):
            bl.infer(graph, BP(order=order))
    with pytest.raises(bl.ModelError, match="order goes with"):
        bl.infer(graph, BP(order=pairs, schedule="color"))


def test_classes_of_a_color_schedule_share_no_variable() -> None:
    for name in ("grid", "higher_order", "star", "repeated_scopes"):
        layout = family(name).layout
        walk = make_schedule(layout, "color").passes[0]
        for bounds in walk.groups:
            touched = np.concatenate([layout.scope(int(f)) for f in walk.factors[bounds[0] : bounds[-1]]])
            assert np.unique(touched).size == touched.size


def test_strips_run_side_by_side_share_no_variable_and_every_factor_is_swept_once() -> None:
    size = 160
    layout = bl.FactorGraph.pairwise(np.zeros((size * size, 2)), grid_pairs(size, size), np.zeros((2, 2))).layout
    for walk in make_schedule(layout, "sequential").passes:
        assert np.unique(walk.factors).size == walk.factors.size == len(grid_pairs(size, size))
        ends = np.concatenate([bounds[[0, -1]] for bounds in walk.groups])
        assert sorted(ends)[0] == 0 and sorted(ends)[-1] == walk.factors.size and max(len(b) for b in walk.groups) > 2
        for bounds in walk.groups:
            owner = np.full(layout.n_vars, -1)
            for chunk, (a, b) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
                touched = np.concatenate([layout.scope_vars[layout.scope_ptr[walk.factors[a:b]] + s] for s in (0, 1)])
                assert np.isin(owner[touched], (-1, chunk)).all()
                owner[touched] = chunk


@pytest.mark.parametrize("schedule", ["sequential", "color", "flooding"])
@pytest.mark.parametrize("method", ["bp", "trw"])
def test_threads_do_not_change_a_byte(method: str, schedule: str) -> None:
    graph = bl.datasets.make_ising_grid(230, seed=3, coupling=0.4)
    text = f"{method}(schedule={schedule})"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        runs = [bl.infer(graph, text, max_iters=3, threads=n) for n in (1, 2, 5)]
        best = [bl.BP(schedule=schedule).init(Problem(graph, Task.MAXIMIZE, threads=n)) for n in (1, 2)]
    assert len({r.mu.tobytes() for r in runs}) == 1 and len({r.log_z for r in runs}) == 1
    for state in best:
        state.iterate()
    assert best[0].logs.messages.tobytes() == best[1].logs.messages.tobytes()


def test_residual_scheduling_sends_where_something_changes() -> None:
    """A field at one end of a long chain: the queue follows it down the chain in one iteration."""
    n = 200
    fields = np.zeros((n, 2))
    fields[0, 1] = 3.0
    graph = bl.FactorGraph.pairwise(fields, [(v, v + 1) for v in range(n - 1)], np.eye(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        queue, flood = (bl.infer(graph, BP(schedule=s), max_iters=1) for s in ("residual", "flooding"))
    truth = bl.infer(graph, "junction_tree")
    assert np.abs(queue.mu_var - truth.mu_var).max() < 1e-9 < np.abs(flood.mu_var - truth.mu_var).max()


def test_the_old_name_of_a_schedule_is_understood_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="called color_or_tree"):
        old = bl.BP(schedule="even")
    assert old == bl.BP(schedule="color_or_tree") and repr(old) == "bp(schedule=color_or_tree)"
    grid, chain = family("grid").layout, family("chain").layout
    assert make_schedule(grid, "color_or_tree") is make_schedule(grid, "color")
    assert make_schedule(chain, "color_or_tree") is make_schedule(chain, "tree")
