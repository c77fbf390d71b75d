"""Gibbs sampling: the draws are those of the definition, whatever the tier, the threads or the way they are asked."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.inference.sampling import gibbs
from beliefs.inference.sampling.chains import starting_states
from beliefs.inference.sampling.sweeps import Pairs, Schedule, Sweeper
from beliefs.kernels.primitives.random import stream, uniform
from families import FAMILIES, evidence, family, grid_pairs, oracle, random_model, unary

KEY = np.uint64(2024)


def uniform_number(chain: int, sweep: int, v: int) -> float:
    key = np.uint64(stream(KEY, chain))  # from Python a compiled function returns plain integers
    return float(uniform(np.uint64(stream(key, sweep)), v))


def plain_sweep(joint: np.ndarray, order: np.ndarray, states: np.ndarray, sweep: int, sums: list[np.ndarray]) -> None:
    """One sweep by the definition, from the joint table; ``states (n_vars, n_chains)`` and ``sums`` change."""
    for c in range(states.shape[1]):
        for v in order:
            here = tuple(slice(None) if u == v else int(x) for u, x in enumerate(states[:, c]))
            p = reference.probabilities(joint[here])
            sums[v] += p
            states[v, c] = int((np.cumsum(p) <= uniform_number(c, sweep, int(v))).sum())


@pytest.mark.parametrize("schedule", ["color", "sequential"])
@pytest.mark.parametrize("observed", [0, 2])
@pytest.mark.parametrize("name", list(FAMILIES))
def test_sweeps_are_those_of_the_definition(name: str, observed: int, schedule: str) -> None:
    graph, joint = family(name).condition(evidence(name, observed)), oracle(name, observed)
    plan = Schedule.of(graph.layout, schedule)
    states = starting_states(graph, 3, seed=1)
    expected, plain = states.copy(), [np.zeros(int(k)) for k in graph.layout.card]
    for sweep in range(5, 8):
        plain_sweep(joint, plan.order, expected, sweep, plain)
    for pairs in {Pairs.of(graph.layout, plan), None}:
        ours, sums = states.copy(), np.zeros(graph.layout.n_states)
        sweeper = Sweeper(graph, plan, pairs, KEY, threads=1)
        sweeper.sweep(5, 1, True, ours, sums)
        sweeper.sweep(6, 2, True, ours, sums)
        np.testing.assert_array_equal(ours, expected)
        np.testing.assert_allclose(sums, np.concatenate(plain), rtol=0, atol=1e-11)


@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("scale", [0.5, 30.0, 1000.0])
@pytest.mark.parametrize("tied", [True, False])
def test_both_tiers_make_the_same_draws(k: int, scale: float, tied: bool) -> None:
    """Also with hard zeros, repeated edges and weights that underflow as products."""
    rng = np.random.default_rng(k)
    edges = np.array([*grid_pairs(6, 7), (3, 4), (0, 41)])
    edges[::2] = edges[::2, ::-1]
    tables = scale * rng.normal(size=(k, k) if tied else (len(edges), k, k))
    tables[..., 1:, 0] = -np.inf
    graph = bl.FactorGraph.pairwise(scale * rng.normal(size=(42, k)), edges, tables).condition({5: 0})
    plan = Schedule.of(graph.layout, "color")
    pairs = Pairs.of(graph.layout, plan)
    assert pairs is not None and pairs.source.size == (2 if tied else pairs.other.size)
    runs = []
    for tier in (pairs, None):
        states, sums = starting_states(graph, 5, seed=0), np.zeros(graph.layout.n_states)
        Sweeper(graph, plan, tier, KEY, 1).sweep(0, 30, True, states, sums)
        runs.append((states, sums))
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    np.testing.assert_allclose(runs[0][1], runs[1][1], rtol=0, atol=1e-10)


def test_mixed_cardinalities_and_higher_arity_are_not_pairwise() -> None:
    for name in ("mixed_cardinalities", "higher_order", "star"):
        plan = Schedule.of(family(name).layout, "color")
        assert Pairs.of(family(name).layout, plan) is None
    graph = family("star").condition({0: 1})  # the one variable of another cardinality is observed
    assert Pairs.of(graph.layout, Schedule.of(graph.layout, "color")) is not None


@pytest.mark.parametrize("k", [2, 3])
def test_threads_change_no_byte(k: int) -> None:
    rng = np.random.default_rng(0)
    edges = grid_pairs(90, 90)
    graph = bl.FactorGraph.pairwise(rng.normal(size=(8100, k)), edges, rng.normal(size=(len(edges), k, k)))
    method = bl.Gibbs(burn_in=3)
    assert 8100 * method.chains > 2 * 20_000  # large enough for threads to be used
    one, three = (bl.infer(graph, method, max_iters=2, threads=threads) for threads in (1, 3))
    assert one.mu_var.tobytes() == three.mu_var.tobytes() and one.mu.tobytes() == three.mu.tobytes()
    assert one.log_z == three.log_z
    samples = [bl.sample(graph, 9, method, threads=threads).samples for threads in (1, 2)]
    assert samples[0].tobytes() == samples[1].tobytes()


def test_factor_marginals_count_the_chains_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gibbs, "_BETWEEN_COUNTS", 10)
    graph = family("higher_order")
    result = bl.infer(graph, bl.Gibbs(chains=40, burn_in=0), max_iters=1, seed=3)
    states = result.state.states
    for f in range(graph.n_factors):
        scope = graph.layout.scope(f)
        if scope.size == 1:
            np.testing.assert_array_equal(result.factor_marginal(f), result.marginal(int(scope[0])))
        else:
            counts = np.zeros(graph.layout.shape(f))
            np.add.at(counts, tuple(states[scope]), 1 / 40)
            np.testing.assert_allclose(result.factor_marginal(f), counts, atol=1e-15)


@pytest.mark.parametrize("name", ["grid", "higher_order", "hard_zeros", "mixed_cardinalities", "no_factors", "parity"])
def test_the_lower_bound_sums_the_largest_colour_out(name: str) -> None:
    graph, joint = family(name), oracle(name)
    result = bl.infer(graph, bl.Gibbs(chains=4), max_iters=1)
    plan = Schedule.of(graph.layout, "color")
    free = {int(v) for v in plan.order[slice(*plan.largest)]}
    assert len(free) == np.diff(plan.blocks).max()
    sums = [
        reference.log_z(joint[tuple(slice(None) if v in free else int(x) for v, x in enumerate(row))])
        for row in result.state.states.T
    ]
    assert result.bound is bl.Bound.LOWER and result.log_upper == np.inf
    assert result.log_z == result.log_lower == pytest.approx(max(sums), rel=1e-12)


def test_the_lower_bound_never_falls() -> None:
    result = bl.infer(family("grid"), "gibbs", trace_every=1)
    assert (np.diff(result.trace.lower) >= 0).all() and result.trace.lower[-1] > result.trace.lower[0]


def test_marginals_come_near_the_truth() -> None:
    for name in ("grid", "higher_order", "tied_tables", "bayesian_network"):
        result = bl.infer(family(name), "gibbs", max_iters=400)
        np.testing.assert_allclose(result.mu_var, reference.mu_var(oracle(name)), rtol=0, atol=0.02)
        np.testing.assert_allclose(result.mu, reference.mu(family(name), oracle(name)), rtol=0, atol=0.06)


def test_a_warm_start_goes_on_where_the_run_stopped() -> None:
    graph = family("grid")
    whole = bl.infer(graph, "gibbs", max_iters=60)
    for n in (5, 25):  # while it burns in, and later
        part = bl.infer(graph, "gibbs", max_iters=n)
        again = bl.infer(graph, "gibbs", max_iters=60 - n, init=part)
        assert again.mu.tobytes() == whole.mu.tobytes() and again.mu_var.tobytes() == whole.mu_var.tobytes()
        assert bl.infer(graph, "gibbs", max_iters=n).mu.tobytes() == part.mu.tobytes()


def test_a_warm_start_with_other_potentials_keeps_only_the_states() -> None:
    graph = family("hard_zeros")
    first = bl.infer(graph, "gibbs")
    other = graph.with_theta(np.where(graph.theta > -np.inf, -graph.theta, -np.inf))
    again = bl.infer(other, "gibbs", init=first, max_iters=400)
    np.testing.assert_allclose(again.mu_var, reference.mu_var(reference.joint_table(other)), rtol=0, atol=0.05)
    x = int(first.state.states[0, 0])
    less = graph.theta.copy()
    less[graph.layout.cells(0)][x] = -np.inf  # where the first chain is now impossible
    assert bl.infer(graph.with_theta(less), "gibbs", init=first).marginal(0)[x] == 0.0
    samples = bl.sample(graph, 20, "gibbs", init=bl.sample(graph, 20, "gibbs"))
    assert len(samples) == 20 and (graph.log_scores(samples.samples) > -np.inf).all()


def test_samples_are_taken_from_the_chains_in_turn() -> None:
    graph = family("grid")
    many = bl.sample(graph, 10, bl.Gibbs(chains=3, burn_in=7, thin=5), seed=4).samples
    one = bl.sample(graph, 3, bl.Gibbs(chains=3, burn_in=12 + 5, thin=5), seed=4).samples
    np.testing.assert_array_equal(many[6:9], one)
    few = bl.sample(graph, 2, bl.Gibbs(chains=3, burn_in=7, thin=5), seed=4).samples
    np.testing.assert_array_equal(many[:2], few)


def test_sampling_that_is_stopped_returns_the_draws_so_far() -> None:
    graph = family("grid")
    method = bl.Gibbs(chains=2, burn_in=0, thin=1)
    whole, part = bl.sample(graph, 400, method), bl.sample(graph, 400, method, max_iters=30)
    assert whole.status is bl.Status.CONVERGED and whole.n_iters == 100 and len(whole) == 400
    assert part.status is not bl.Status.CONVERGED and len(part) == 120
    np.testing.assert_array_equal(part.samples, whole.samples[:120])
    assert len(bl.sample(graph, 7, method, max_iters=0)) == 0


def test_no_step_at_all_gives_the_shares_of_the_starts() -> None:
    result = bl.infer(family("hard_zeros"), "gibbs(chains=4)", max_iters=0)
    assert set(np.unique(result.mu_var * 4)) <= {0.0, 1.0, 2.0, 3.0, 4.0} and result.log_z > -np.inf
    assert result.factor_marginal(8).sum() == pytest.approx(1.0)


def test_burning_in_has_residual_one_and_an_average_never_counts_as_settled() -> None:
    result = bl.infer(family("parity"), bl.Gibbs(chains=5, burn_in=35), trace_every=1, max_iters=10)
    np.testing.assert_allclose(result.trace.residual, [1.0] * 4 + [1 / (5 * (10 * s + 5)) for s in range(1, 7)])
    loose = bl.infer(family("grid"), "gibbs", tol=0.01)
    assert loose.status is bl.Status.CONVERGED and 10 < loose.n_iters < 200


def test_options_are_checked_and_printed() -> None:
    for text in ("chains=0", "chains=2.5", "burn_in=-1", "thin=0", "schedule=raster"):
        with pytest.raises(bl.ModelError, match=f"{text.split('=')[0]} must be"):
            bl.infer(family("chain"), f"gibbs({text})")
    assert repr(bl.Gibbs(chains=3, schedule="sequential")) == "gibbs(chains=3, schedule=sequential)"


def test_the_budget_is_kept_by_the_plainer_tier_and_then_refused() -> None:
    graph = random_model([8] * 40, unary(40) + grid_pairs(5, 8), seed=0)
    plain = 40 * (12 * 8 + 48) + 32 * graph.layout.n_edges + 48 * 320 + 16 * graph.layout.n_cells
    wide, narrow = (bl.infer(graph, "gibbs", max_iters=5, max_bytes=b) for b in (10**9, plain))
    np.testing.assert_array_equal(wide.state.states, narrow.state.states)
    with pytest.raises(bl.BudgetError, match="gibbs needs .* for 8 chains; the limit is"):
        bl.infer(graph, "gibbs", max_bytes=plain - 1)


def test_no_start_and_no_proof_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beliefs.inference.sampling.chains.feasible_state", lambda *_: None)
    with pytest.raises(bl.UnsupportedError, match="gibbs found no state of positive weight .* no proof"):
        bl.sample(family("hard_zeros"), 3, "gibbs")
