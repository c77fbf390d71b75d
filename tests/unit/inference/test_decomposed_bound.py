"""The decomposed bound: its definition, the truth below it for any messages, and where it is exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from beliefs.inference.messages.rho import Reweighting, choose_rho
from beliefs.kernels.messages.decomposed_bound import decomposed_bound
from beliefs.kernels.messages.structures import Reweighted
from beliefs.model import FactorGraph
from families import FAMILIES, family, oracle, random_model
from strategies import examples, factor_graphs

LOOPS = ["grid", "complete", "higher_order", "parity", "disconnected", "mixed_cardinalities", "repeated_scopes"]


class Messages:
    """Log messages of every edge in plain NumPy, with the accumulators ``beta`` that belong to them."""

    def __init__(self, graph: FactorGraph, weights: Reweighting) -> None:
        self.graph, self.layout, self.weights = graph, graph.layout, weights
        self.ptr = np.concatenate([[0], np.cumsum(self.layout.card[self.layout.scope_vars])])
        self.flat = np.zeros(self.ptr[-1])

    def of(self, e: int) -> np.ndarray:
        return self.flat[self.ptr[e] : self.ptr[e + 1]]

    def beta(self) -> np.ndarray:
        beta = np.zeros(self.layout.n_states)
        for v, x in self.graph.evidence.items():
            beta[self.states(v)] = np.where(np.arange(self.layout.card[v]) == x, 0.0, -np.inf)
        for e, v in enumerate(self.layout.scope_vars):
            beta[self.states(v)] += self.weights.rho[self.layout.edge_factor[e]] * self.of(e)
        return beta

    def states(self, v: int) -> slice:
        return slice(self.layout.state_ptr[v], self.layout.state_ptr[v + 1])

    def incoming(self, f: int) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
        """``theta / rho`` of a factor, and along each axis ``beta - message`` (-inf where beta is) and ``beta``."""
        beta, shape = self.beta(), self.layout.shape(f)
        table = self.graph.theta[self.layout.cells(f)].reshape(shape) / self.weights.rho[f]
        cavities, betas = [], []
        for a, v in enumerate(self.layout.scope(f)):
            b, m = beta[self.states(v)], self.of(self.layout.scope_ptr[f] + a)
            cavities.append(np.where(np.isneginf(b), b, b - np.where(np.isneginf(m), 0.0, m)))
            betas.append(b)
        return table, cavities, betas

    def updated(self, f: int, j: int, tau: np.ndarray) -> np.ndarray:
        """The unnormalised new message to axis ``j`` of a factor: summed, then maximised over the other axes."""
        table, cavities, _ = self.incoming(f)
        for a, cavity in enumerate(cavities):
            if a != j:
                table = table + cavity.reshape([-1 if b == a else 1 for b in range(table.ndim)])
        scope = self.layout.scope(f)
        summed = tuple(a for a, v in enumerate(scope) if a != j and tau[v] == 1)
        table = np.expand_dims(reference.log_sum_exp(table, summed), summed) if summed else table
        return table.max(axis=tuple(a for a in range(table.ndim) if a != j))

    def sweep(self, tau: np.ndarray) -> float:
        """Update every message in turn; return the largest change."""
        change = 0.0
        for e in range(self.layout.n_edges):
            f = int(self.layout.edge_factor[e])
            new = self.updated(f, e - int(self.layout.scope_ptr[f]), tau)
            new = new - reference.log_sum_exp(new)
            change = max(change, float(np.abs(np.exp(new) - np.exp(self.of(e))).max()))
            self.of(e)[:] = new
        return change

    def bound(self, tau: np.ndarray) -> float:
        layout = self.layout
        assert self.weights.parent is not None
        model = Reweighted(self.graph.theta, self.weights.rho, layout.message_ptr)
        temperatures = np.array(tau, np.float64)
        return decomposed_bound(layout.scopes, model, temperatures, self.weights.parent, self.flat, self.beta())

    def bound_by_definition(self, tau: np.ndarray) -> float:
        """The formula for finite messages, term by term."""
        assert self.weights.parent is not None
        root, beta, total = self.weights.root(self.layout), self.beta(), 0.0
        for v in range(self.layout.n_vars):
            b = beta[self.states(v)]
            total += root[v] * (float(reference.log_sum_exp(b)) if tau[v] == 1 else b.max())
        for f in range(self.layout.n_factors):
            if not self.layout.shape(f):
                total += float(self.graph.theta[self.layout.cells(f)][0])
        for e, share in enumerate(self.weights.parent):
            if share > 0:
                f = int(self.layout.edge_factor[e])
                gain = self.updated(f, e - int(self.layout.scope_ptr[f]), tau) - self.of(e)
                total += share * gain.max()
        return float(total)


def temperatures(graph: FactorGraph) -> list[np.ndarray]:
    """All summed, all maximised, and two mixtures."""
    rng = np.random.default_rng(0)
    n = graph.n_vars
    return [np.ones(n), np.zeros(n), (np.arange(n) % 2).astype(float), (rng.random(n) < 0.5).astype(float)]


def truth(joint: np.ndarray, tau: np.ndarray) -> float:
    """Log Z, the best score, or the best marginal score."""
    query = [int(v) for v in np.flatnonzero(tau == 0)]
    return float(reference.query_values(joint, query).max())


def at_least(value: float, bound: float) -> bool:
    """Whether a bound holds up to rounding."""
    return bound >= value - 1e-10 * max(1.0, abs(value))


# -- the truth is below -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("rho", [None, "sampled", 0.05])
def test_any_messages_bound_the_truth(name: str, rho: str | float | None) -> None:
    graph, joint = family(name), oracle(name)
    weights = choose_rho(graph.layout, rho)
    messages = Messages(graph, weights)
    rng = np.random.default_rng(1)
    for scale in (0.0, 0.5, 3.0):
        messages.flat[:] = scale * rng.normal(size=messages.flat.size)
        for tau in temperatures(graph):
            found = messages.bound(tau)
            assert at_least(truth(joint, tau), found)
            assert found == pytest.approx(messages.bound_by_definition(tau), rel=1e-12)


@given(factor_graphs(), st.integers(0, 2**16), st.sampled_from([None, "sampled"]))
@examples(60)
def test_any_messages_bound_the_truth_on_drawn_graphs(graph: FactorGraph, seed: int, rho: str | None) -> None:
    rng = np.random.default_rng(seed)
    messages = Messages(graph, choose_rho(graph.layout, rho, seed))
    messages.flat[:] = rng.normal(size=messages.flat.size)
    tau = (rng.random(graph.n_vars) < 0.5).astype(float)
    assert at_least(truth(reference.joint_table(graph), tau), messages.bound(tau))


@pytest.mark.parametrize("name", FAMILIES)
def test_every_iterate_bounds_the_truth(name: str) -> None:
    graph = family(name)
    for observed in (0, 2):
        joint = oracle(name, observed)
        given_evidence = graph.condition(
            {v: int(x) for v, x in enumerate(_best(joint)) if v >= graph.n_vars - observed}
        )
        for tau in temperatures(graph)[: 4 if observed == 0 else 1]:
            messages = Messages(given_evidence, choose_rho(given_evidence.layout))
            for _ in range(4):
                messages.sweep(tau)
                found = messages.bound(tau)
                assert at_least(truth(joint, tau), found)
                assert found < math.inf


def _best(joint: np.ndarray) -> tuple[int, ...]:
    return tuple(int(x) for x in np.unravel_index(int(joint.argmax()), joint.shape))


@pytest.mark.parametrize("seed", range(30))
def test_flow_certificates_bound_the_truth(seed: int) -> None:
    """Orientations found by flows are mixtures of rooted forests: no messages take the bound below the truth."""
    rng = np.random.default_rng(seed)
    edges = [tuple(int(v) for v in rng.choice(4, 2, replace=False)) for _ in range(7)]
    graph = random_model([2, 3, 2, 2], [*edges, (0,)], seed=seed, scale=2.0)
    shares = rng.dirichlet(np.ones(12))
    mixture = sum(w * choose_rho(graph.layout, "sampled", k).rho for k, w in enumerate(shares))
    weights = choose_rho(graph.layout, mixture)
    messages, joint = Messages(graph, weights), reference.joint_table(graph)
    for tau in temperatures(graph):
        messages.flat[:] = rng.normal(size=messages.flat.size)
        for _ in range(3):
            assert at_least(truth(joint, tau), messages.bound(tau))
            messages.sweep(tau)


@pytest.mark.parametrize("seed", range(10))
def test_peeled_certificates_of_larger_factors_bound_the_truth(seed: int) -> None:
    scopes = [(0, 1, 2), (2, 3, 4), (4, 5, 0), (1, 3, 5), (5, 6), (6, 1)]
    graph = random_model([2, 3, 2, 2, 3, 2, 2], scopes, seed=seed, scale=2.0)
    rng = np.random.default_rng(seed)
    joint = reference.joint_table(graph)
    for rho in (0.3, [0.5, 0.5, 0.5, 0.25, 0.25, 0.25], [2 / 3, 2 / 3, 2 / 3, 0.1, 0.1, 0.1]):
        messages = Messages(graph, choose_rho(graph.layout, rho))
        for tau in temperatures(graph):
            messages.flat[:] = rng.normal(size=messages.flat.size)
            for _ in range(3):
                assert at_least(truth(joint, tau), messages.bound(tau))
                messages.sweep(tau)


def test_a_cyclic_orientation_would_claim_too_little() -> None:
    """Two edges between the same variables, each hanging from another one: no variable is a child twice, yet false."""
    attract = 3.0 * np.eye(2)
    graph = FactorGraph.from_tables([2, 2], [((0, 1), attract), ((0, 1), attract)], log=True)
    log_z = reference.log_z(reference.joint_table(graph))
    false = Reweighting(np.ones(2), np.array([1.0, 0.0, 0.0, 1.0]), "a directed cycle")
    assert (false.root(graph.layout) == 0).all()
    assert Messages(graph, false).bound(np.ones(2)) < log_z - 0.5
    assert at_least(log_z, Messages(graph, choose_rho(graph.layout, 0.5)).bound(np.ones(2)))


# -- exact where it must be ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in FAMILIES if reference.is_forest(family(name))])
def test_exact_on_forests_once_messages_have_arrived(name: str) -> None:
    graph, joint = family(name), oracle(name)
    messages = Messages(graph, choose_rho(graph.layout))
    for tau in (np.ones(graph.n_vars), np.zeros(graph.n_vars)):
        messages.flat[:] = 0.0
        for _ in range(graph.n_factors):
            messages.sweep(tau)
        assert messages.bound(tau) == pytest.approx(truth(joint, tau), rel=1e-11)


@pytest.mark.parametrize("name", ["star", "tree"])
def test_exact_for_summed_leaves_below_a_maximised_tree(name: str) -> None:
    graph = family(name)
    tau = np.array([float(d == 1) for d in degrees(graph)])
    messages = Messages(graph, choose_rho(graph.layout))
    for _ in range(graph.n_factors):
        messages.sweep(tau)
    assert messages.bound(tau) == pytest.approx(truth(oracle(name), tau), rel=1e-11)


def degrees(graph: FactorGraph) -> np.ndarray:
    layout = graph.layout
    pairs = (np.diff(layout.scope_ptr) > 1)[layout.edge_factor]
    return np.bincount(layout.scope_vars[pairs], minlength=layout.n_vars)


@pytest.mark.parametrize("name", LOOPS)
def test_at_a_fixed_point_it_is_the_tree_reweighted_value(name: str) -> None:
    graph = family(name)
    tau = np.ones(graph.n_vars)
    messages = Messages(graph, choose_rho(graph.layout))
    while messages.sweep(tau) > 1e-13:
        pass
    assert messages.bound(tau) == pytest.approx(tree_reweighted_value(messages), rel=1e-10)


def tree_reweighted_value(messages: Messages) -> float:
    """``<theta, mu> + sum_i H_i - sum_c rho_c I_c`` at the beliefs of the messages."""
    layout, beta, value = messages.layout, messages.beta(), 0.0
    mu = [
        np.exp(beta[messages.states(v)] - reference.log_sum_exp(beta[messages.states(v)])) for v in range(layout.n_vars)
    ]
    value += sum(entropy(m) for m in mu)
    for f in range(layout.n_factors):
        table, cavities, _ = messages.incoming(f)
        for a, cavity in enumerate(cavities):
            table = table + cavity.reshape([-1 if b == a else 1 for b in range(table.ndim)])
        belief = np.exp(table - reference.log_sum_exp(table))
        theta = messages.graph.theta[layout.cells(f)].reshape(belief.shape)
        value += float((belief * np.where(belief > 0, theta, 0.0)).sum())
        value -= messages.weights.rho[f] * (sum(entropy(mu[v]) for v in layout.scope(f)) - entropy(belief))
    return value


def entropy(p: np.ndarray) -> float:
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())


# -- hard zeros ---------------------------------------------------------------------------------------------------


def test_contradicted_constraints_prove_that_nothing_is_possible() -> None:
    differ = np.where(np.eye(2) > 0, -np.inf, 0.0)
    graph = FactorGraph.from_tables(
        [2, 2, 2], [((0, 1), differ), ((1, 2), differ), ((0,), [0.0, -np.inf]), ((2,), [-np.inf, 0.0])], log=True
    )
    messages = Messages(graph, choose_rho(graph.layout))
    messages.flat[:] = 0.0
    assert math.isfinite(messages.bound(np.ones(3)))
    messages.of(4)[:] = [0.0, -np.inf]
    messages.of(5)[:] = [-np.inf, 0.0]
    messages.of(0)[:] = [0.0, -np.inf]  # to variable 0, against variables 1 = 1 (from 0) and 1 = 0 (from 2)
    messages.of(1)[:] = [-np.inf, 0.0]
    messages.of(2)[:] = [0.0, -np.inf]
    assert messages.bound(np.ones(3)) == -math.inf


def test_a_zero_that_the_factor_does_not_confirm_is_no_bound() -> None:
    graph = random_model([2, 2, 2], [(0, 1), (1, 2), (2, 0), (0,)], seed=0)
    messages = Messages(graph, choose_rho(graph.layout))
    messages.of(0)[1] = -np.inf
    for tau in temperatures(graph):
        assert messages.bound(tau) == math.inf


def test_impossible_constants_and_empty_tables() -> None:
    constant = FactorGraph.from_tables([2], [((), np.array(-np.inf)), ((0,), [0.0, 0.0])], log=True)
    assert Messages(constant, choose_rho(constant.layout)).bound(np.ones(1)) == -math.inf
    empty = FactorGraph.from_tables([2, 2], [((0, 1), np.full((2, 2), -np.inf))], log=True)
    assert Messages(empty, choose_rho(empty.layout)).bound(np.ones(2)) == -math.inf
