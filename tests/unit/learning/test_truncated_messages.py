"""Back-propagation through message passing: finite differences, a second implementation, and closed forms."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import back_messages_reference
import beliefs as bl
import reference
from beliefs.inference.messages.propagation import MessagePassing
from beliefs.learning.gradients.base import Beliefs
from beliefs.learning.gradients.checkpoints import Recording
from beliefs.learning.gradients.forms import message_run
from beliefs.learning.gradients.message_run import sweep_spec
from beliefs.learning.gradients.pairwise_run import PairwiseRun
from beliefs.learning.gradients.truncated import MessageBeliefs, Truncated
from families import family, grid_pairs, random_model, unary

METHODS = [bl.BP(), bl.TRW(), bl.FractionalBP(rho=1.3), bl.BP(schedule="forward"), bl.TRW(schedule="color")]
SIDES = unary(9) + grid_pairs(3, 3)


def grid(states: int, scale: float = 0.7) -> bl.FactorGraph:
    return random_model([states] * 9, SIDES, seed=states, scale=scale)


def tied(states: int) -> bl.FactorGraph:
    rng = np.random.default_rng(states)
    return bl.FactorGraph.pairwise(rng.normal(size=(9, states)), grid_pairs(3, 3), rng.normal(size=(states, states)))


def uneven(states: int) -> bl.FactorGraph:
    """One table for all edges of a graph whose edges have different counting numbers under ``trw``."""
    rng, edges = np.random.default_rng(states), [(k, (k + 1) % 9) for k in range(9)] + [(0, 4), (2, 7), (0, 2)]
    return bl.FactorGraph.pairwise(rng.normal(size=(9, states)), edges, rng.normal(size=(states, states)))


def mixed() -> bl.FactorGraph:
    return random_model([2, 3, 2, 4, 2], [*unary(5), (0, 1), (1, 2), (2, 3, 0), (4, 3), (0, 4)], seed=7)


def weights(beliefs: Beliefs, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=beliefs.mu_var.size), rng.normal(size=beliefs.mu_factor.size)


def value(way: Truncated, graph: bl.FactorGraph, theta: np.ndarray) -> float:
    beliefs = way.run(graph.with_theta(theta))
    var, factor = weights(beliefs)
    return float(var @ beliefs.mu_var + factor @ beliefs.mu_factor)


def gradient(way: Truncated, graph: bl.FactorGraph) -> np.ndarray:
    beliefs = way.run(graph)
    return beliefs.pullback(*weights(beliefs))


def assert_is_derivative(way: Truncated, graph: bl.FactorGraph, tolerance: float = 1e-7, cells: int = 40) -> None:
    """Central differences along single cells, some if there are many."""
    found, step = gradient(way, graph), 1e-5
    rng = np.random.default_rng(1)
    finite = np.flatnonzero(graph.theta > -np.inf)
    for k in rng.permutation(finite)[:cells]:
        moved = np.zeros(graph.theta.size)
        moved[k] = step
        slope = (value(way, graph, graph.theta + moved) - value(way, graph, graph.theta - moved)) / (2 * step)
        assert found[k] == pytest.approx(slope, abs=tolerance)
    assert np.all(found[graph.theta == -np.inf] == 0.0)


@pytest.mark.parametrize("n_sweeps", [0, 1, 3, 7])
@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("states", [2, 3, 5, 8, 9, 13])
def test_gradient_is_that_of_the_truncated_beliefs(states: int, method: bl.Method, n_sweeps: int) -> None:
    cells = 40 if states < 8 else 12
    assert_is_derivative(Truncated(method=method, n_sweeps=n_sweeps), grid(states), cells=cells)


@pytest.mark.parametrize("n_sweeps", [0, 1, 3, 7])
@pytest.mark.parametrize("method", [bl.BP(), bl.TRW(), bl.FractionalBP(rho=0.7)], ids=repr)
@pytest.mark.parametrize(
    "graph", [mixed(), tied(2), tied(3), tied(9), uneven(3), family("hard_zeros")], ids=lambda g: f"{g.n_vars}"
)
def test_other_models(graph: bl.FactorGraph, method: bl.Method, n_sweeps: int) -> None:
    assert_is_derivative(Truncated(method=method, n_sweeps=n_sweeps), graph, cells=25)


@pytest.mark.parametrize(
    "graph", [grid(2), grid(3), tied(3), mixed(), family("higher_order")], ids=lambda g: f"{g.n_vars}"
)
def test_clamped_graphs(graph: bl.FactorGraph) -> None:
    clamped = graph.condition({0: 1, 1: 0, 4: 1})
    assert_is_derivative(Truncated(method=bl.TRW(), n_sweeps=3), clamped, cells=25)
    everything = graph.condition(dict.fromkeys(range(graph.n_vars), 0))
    assert not gradient(Truncated(method=bl.TRW()), everything).any()


@pytest.mark.parametrize("n_sweeps", [0, 1, 4])
@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("name", ["grid", "higher_order", "tied_tables", "hard_zeros", "isolated_variables", "parity"])
def test_beliefs_are_those_of_infer(name: str, method: bl.Method, n_sweeps: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        expected = bl.infer(family(name), method, max_iters=n_sweeps)
    found = Truncated(method=method, n_sweeps=n_sweeps).run(family(name))
    lay = family(name).layout
    assert np.allclose(found.mu_var, expected.mu_var, rtol=0, atol=1e-12)
    for f in range(lay.n_factors):
        of_factor = found.mu_factor[lay.table_ptr[f] : lay.table_ptr[f + 1]]
        assert np.allclose(of_factor, np.ravel(expected.factor_marginal(f)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("states", [2, 3, 4, 5, 8, 9, 21])
@pytest.mark.parametrize("method", [*METHODS, bl.TRW(rho=0.55)], ids=repr)
@pytest.mark.parametrize("make", [grid, tied, uneven])
def test_fast_and_general_forms_agree(make: Callable[[int], bl.FactorGraph], method: bl.Method, states: int) -> None:
    graph, found = make(states), []
    assert isinstance(method, MessagePassing)
    for fast in (True, False):
        run = message_run(graph, sweep_spec(method, graph), np.zeros(graph.layout.n_states), fast=fast)
        assert isinstance(run, PairwiseRun) == fast
        recording = Recording(run, 9, 9)
        last = recording.forward()
        run.beliefs()
        beliefs = MessageBeliefs(run, recording, last)
        found.append(np.concatenate([beliefs.mu_var, beliefs.mu_factor, beliefs.pullback(*weights(beliefs))]))
    assert np.allclose(found[0], found[1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", [*METHODS, bl.FractionalBP(rho=0.7)], ids=repr)
@pytest.mark.parametrize(
    "graph", [grid(2), grid(3), tied(5), mixed(), family("higher_order")], ids=lambda g: f"{g.n_vars}"
)
def test_second_implementation_agrees(graph: bl.FactorGraph, method: bl.Method) -> None:
    """Probabilities, one adjoint a message, no running sums: :mod:`back_messages_reference`."""
    assert isinstance(method, MessagePassing)
    lay, spec = graph.layout, sweep_spec(method, graph)
    found = Truncated(method=method, n_sweeps=3).run(graph)
    orders = [list(walk.factors) for _ in range(3) for walk in spec.schedule.passes]
    slow = back_messages_reference.Truncated(graph, spec.rho, orders)
    assert np.allclose(found.mu_var, np.concatenate(slow.mu_var), rtol=0, atol=1e-13)
    assert np.allclose(found.mu_factor, np.concatenate([t.ravel() for t in slow.mu_factor]), rtol=0, atol=1e-13)
    var, factor = weights(found)
    alone = np.repeat(np.diff(lay.scope_ptr) == 1, lay.factor_size)
    factor[alone] = 0.0
    parts = np.split(factor, lay.table_ptr[1:-1])
    of_factors = slow.back(
        np.split(var, lay.state_ptr[1:-1]), [part.reshape(lay.shape(f)) for f, part in enumerate(parts)]
    )
    expected = np.zeros(graph.theta.size)
    for f, of_factor in enumerate(of_factors):
        expected[lay.cells(f)] += of_factor.ravel()
    assert np.allclose(found.pullback(var, factor), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("states", [2, 3, 13])
def test_many_sweeps(states: int) -> None:
    """Products are made afresh now and then, forward and backward, at the same places whatever is held."""
    graph = grid(states, 1.5)
    found = gradient(Truncated(method=bl.TRW(), n_sweeps=40), graph)
    few = gradient(Truncated(method=bl.TRW(), n_sweeps=40, checkpoints=5), graph)
    assert few.tobytes() == found.tobytes()
    run: Any = message_run(graph, sweep_spec(bl.TRW(), graph), np.zeros(graph.layout.n_states), fast=False)
    recording = Recording(run, 80, 80)
    last = recording.forward()
    run.beliefs()
    beliefs = MessageBeliefs(run, recording, last)
    assert np.allclose(beliefs.pullback(*weights(beliefs)), found, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [10.0, 30.0, 60.0])
@pytest.mark.parametrize("states", [2, 3, 9])
def test_the_fast_form_bears_strong_couplings(states: int, scale: float) -> None:
    graph = grid(states, scale)
    found = []
    for fast in (True, False):
        run: Any = message_run(graph, sweep_spec(bl.TRW(), graph), np.zeros(graph.layout.n_states), fast=fast)
        recording = Recording(run, 6, 6)
        beliefs = MessageBeliefs(run, recording, recording.forward())
        run.beliefs()
        found.append(beliefs.pullback(*weights(beliefs)))
    assert np.allclose(found[0], found[1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["tree", "higher_order_tree"])
def test_trees_are_exact_after_one_iteration_and_so_is_their_gradient(name: str) -> None:
    graph = family(name)
    p = reference.probabilities(reference.joint_table(graph))
    states = np.indices(p.shape).reshape(p.ndim, -1)
    lay = graph.layout
    columns = []  # indicators of all cells, one row a joint state
    for f in range(lay.n_factors):
        place = np.ravel_multi_index([states[v] for v in lay.scope(f)], lay.shape(f))
        columns.append(np.arange(lay.factor_size[f])[None, :] == place[:, None])
    indicators = np.concatenate(columns, axis=1).astype(float)
    mean = p.ravel() @ indicators
    covariance = (indicators * p.ravel()[:, None]).T @ indicators - np.outer(mean, mean)
    beliefs = Truncated(method=bl.BP(), n_sweeps=1).run(graph)
    assert np.allclose(beliefs.mu_factor, mean, rtol=0, atol=1e-12)
    bar = np.random.default_rng(0).normal(size=mean.size)
    assert np.allclose(beliefs.pullback(None, bar), covariance @ bar, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "graph", [grid(2), grid(3), grid(5), tied(9), mixed()], ids=lambda g: f"{g.n_vars}-{g.theta.size}"
)
def test_checkpoints_change_no_byte(graph: bl.FactorGraph) -> None:
    whole = Truncated(method=bl.TRW(), n_sweeps=5)
    expected = gradient(whole, graph)
    for held in (1, 2, 3, 4, 7, 10, 99):
        way = Truncated(method=bl.TRW(), n_sweeps=5, checkpoints=held)
        beliefs = way.run(graph)
        bars = weights(beliefs)
        assert beliefs.pullback(*bars).tobytes() == expected.tobytes()
        assert beliefs.pullback(*bars).tobytes() == expected.tobytes()
        assert way.n_bytes(graph.layout) <= whole.n_bytes(graph.layout)


@pytest.mark.parametrize("graph", [grid(2), grid(3), mixed()], ids=lambda g: f"{g.n_vars}-{g.theta.size}")
def test_memory_is_what_was_said(graph: bl.FactorGraph) -> None:
    for held in (None, 3):
        way = Truncated(method=bl.TRW(), n_sweeps=4, checkpoints=held)
        beliefs = way.run(graph)
        assert isinstance(beliefs, MessageBeliefs)
        states = [state for _, state in beliefs.recording.spine] + [beliefs.last]
        copies = sum(state.messages.nbytes for state in states)
        assert way.n_bytes(graph.layout) == copies + beliefs.last.messages.nbytes  # and the present messages


@pytest.mark.parametrize("name", ["strong_couplings", "huge_range"])
def test_extreme_potentials(name: str) -> None:
    for method in METHODS:
        found = gradient(Truncated(method=method, n_sweeps=4), family(name))
        assert np.isfinite(found).all()


def test_proved_zero_is_an_error() -> None:
    impossible = bl.FactorGraph.from_tables([2, 2], [((0,), [1, 0]), ((0, 1), [[0, 0], [1, 1]])])
    with pytest.raises(bl.ZeroProbabilityError):
        Truncated(method=bl.BP(), n_sweeps=2).run(impossible)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (bl.BP(damping=0.1), "damping"),
        (bl.BP(schedule="flooding"), "flooding"),
        (bl.TRW(schedule="chains"), "chains"),
        (bl.BP(schedule="residual"), "residual"),
        (bl.TRW(rho="optimized"), "optimized"),
        (bl.Gibbs(), "way back"),
    ],
)
def test_what_cannot_be_walked_back_is_refused(method: bl.Method, said: str) -> None:
    with pytest.raises(bl.UnsupportedError, match=said):
        Truncated(method=method)


@pytest.mark.parametrize(("field", "bad"), [("n_sweeps", -1), ("n_sweeps", 1.5), ("checkpoints", 0)])
def test_options_out_of_range(field: str, bad: object) -> None:
    with pytest.raises(bl.ModelError, match=field):
        Truncated(method=bl.BP(), **{field: bad})  # type: ignore[arg-type]


@pytest.mark.parametrize("states", [2, 3, 9])
def test_states_are_handed_over_and_later_passes_leave_them_alone(states: int) -> None:
    graph = grid(states)
    run: Any = message_run(graph, sweep_spec(bl.TRW(), graph), np.zeros(graph.layout.n_states))
    held = []
    for t in range(6):
        now = run.tier.messages
        state = run.save(True)
        assert state.messages is now  # nothing is copied
        held.append((state, now.copy()))
        run.run_pass(t)
        assert not np.shares_memory(run.tier.messages, now)
    run.run_pass(6)  # nobody has these messages: they are written over
    alone = run.tier.messages
    run.run_pass(7)
    assert run.tier.messages is alone
    for state, before in held:
        np.testing.assert_array_equal(state.messages, before)
    last = run.tier.messages.copy()
    run.load(held[2][0])
    for t in range(2, 8):
        run.run_pass(t)
    np.testing.assert_array_equal(run.tier.messages, last)
    np.testing.assert_array_equal(held[2][0].messages, held[2][1])


@pytest.mark.parametrize("n_sweeps", [0, 1, 40])
@pytest.mark.parametrize("method", [*METHODS, bl.MeanField()], ids=repr)
def test_marginals_alone_are_to_the_byte_those_with_a_way_back(method: bl.Method, n_sweeps: int) -> None:
    way = Truncated(method=method, n_sweeps=n_sweeps)
    for graph in (grid(2), tied(3), mixed(), family("hard_zeros").condition({0: 0})):
        np.testing.assert_array_equal(way.marginals(graph), way.run(graph).mu_var)
