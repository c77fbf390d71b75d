"""Each kernel equals the NumPy lines that its docstring gives; and each is compiled once, whatever door calls it.

Arrays are passed as the package passes them (layouts and potentials read-only, state writeable), because another mix
would compile, and keep on disk, a variant that no user needs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beliefs as bl
import reference
from beliefs.kernels import layout as structure
from beliefs.kernels.messages import beliefs as free_energy
from beliefs.kernels.messages import log as messages
from beliefs.kernels.messages import traversal
from beliefs.kernels.messages.structures import LogSums, Reweighted, ScaledTables, Update
from beliefs.kernels.trees import marginals
from families import family
from strategies import examples, factor_graphs, possible_evidence, tied_graphs

pytestmark = pytest.mark.usefixtures("both_ways")

graphs = st.one_of(factor_graphs(), tied_graphs())


@pytest.mark.parametrize(
    "cache", ["warm", pytest.param("cold", marks=pytest.mark.long)]
)  # kernels called by kernels show their signatures only where they are compiled, and that takes a minute
def test_every_kernel_is_compiled_once(cache: str, tmp_path: Path) -> None:
    """In a fresh interpreter, where no test has called a kernel with arrays of its own.

    The cold run also checks every index against the bounds of its array.
    """
    tests = Path(reference.__file__).parent
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(tests), *sys.path]))
    if cache == "cold":
        environment |= {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_BOUNDSCHECK": "1"}
    done = subprocess.run(
        [sys.executable, str(tests / "tour.py")], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["repeated"] == {} and answer["called"] > 20


class TestLayout:
    @given(st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=6))
    @examples(80)
    def test_repeated_variable(self, scopes: list[list[int]]) -> None:
        ptr = np.concatenate([[0], np.cumsum([len(s) for s in scopes], dtype=np.int64)])
        flat = np.array([v for s in scopes for v in s], np.int64)
        for array in (ptr, flat):
            array.setflags(write=False)
        expected = next((f for f, s in enumerate(scopes) if len(set(s)) < len(s)), -1)
        assert structure.repeated_variable(ptr, flat, np.full(5, -1, np.int64)) == expected

    @given(data=st.data(), graph=graphs)
    @examples(80)
    def test_condition_scopes(self, data: st.DataObject, graph: bl.FactorGraph) -> None:
        lay = graph.layout
        mask = np.zeros(lay.n_vars, np.bool_)
        mask[list(data.draw(possible_evidence(graph)))] = True
        ptr, flat, starts = np.zeros(lay.n_factors + 1, np.int64), np.empty(lay.n_edges, np.int64), None
        starts = np.empty(lay.n_factors, np.int64)
        n_edges = structure.condition_scopes(
            lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, lay.n_cells, mask, ptr, flat, starts
        )
        kept = [[int(v) for v in lay.scope(f) if not mask[v]] for f in range(lay.n_factors)]
        assert [flat[a:b].tolist() for a, b in zip(ptr[:-1], ptr[1:], strict=True)] == kept
        assert n_edges == sum(map(len, kept))
        whole = [len(kept[f]) == lay.scope(f).size for f in range(lay.n_factors)]
        for f in range(lay.n_factors):
            for g in range(f):
                shared = whole[f] and whole[g] and lay.cell_ptr[f] == lay.cell_ptr[g]
                assert (starts[f] == starts[g]) == shared

    @given(data=st.data(), graph=graphs)
    @examples(80)
    def test_condition_cells(self, data: st.DataObject, graph: bl.FactorGraph) -> None:
        seen = data.draw(possible_evidence(graph))
        lay, part = graph.layout, graph.condition(seen).layout
        states = np.full(lay.n_vars, -1, np.int64)
        states[list(seen)] = list(seen.values())
        cells = np.full(part.n_cells, -9, np.int64)
        structure.condition_cells(lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, states, part.cell_ptr, cells)
        for f in range(lay.n_factors):
            index = tuple(int(states[v]) if states[v] >= 0 else slice(None) for v in lay.scope(f))
            expected = np.arange(lay.n_cells)[lay.cells(f)].reshape(lay.shape(f))[index]
            assert cells[part.cells(f)].tolist() == expected.ravel().tolist()

    @given(graph=graphs)
    @examples(60)
    def test_log_scores(self, graph: bl.FactorGraph) -> None:
        lay = graph.layout
        rows = np.array(reference.joint_states(lay.card)[:200], np.int64)
        out = np.empty(len(rows))
        structure.log_scores(lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, graph.theta, rows, out)
        np.testing.assert_allclose(out, [reference.log_score(graph, row) for row in rows], rtol=1e-12, atol=1e-12)

    def test_ancestral_samples(self) -> None:
        bn = bl.BayesianNetwork.from_factor_graph(family("bayesian_network"))
        lay = bn.graph.layout
        uniform = np.random.default_rng(0).random((300, 5))
        uniform[0], uniform[1] = 0.0, np.nextafter(1.0, 0.0)
        samples = np.zeros((300, 5), np.int64)
        structure.ancestral_samples(
            lay.card, lay.scope_ptr, lay.scope_vars, lay.cell_ptr, bn.probabilities, bn.order, uniform, samples
        )
        for row, u in zip(samples, uniform, strict=True):
            for v in bn.order:
                column = bn.cpt(int(v))[tuple(row[w] for w in lay.scope(int(v))[:-1])]
                drawn = int(np.searchsorted(np.cumsum(column), u[v] * column.sum(), side="right"))
                assert row[v] == min(drawn, int(np.flatnonzero(column)[-1])) and column[row[v]] > 0


class TestMarginals:
    @given(graph=factor_graphs())
    @examples(60)
    def test_factor_spans(self, graph: bl.FactorGraph) -> None:
        lay = graph.layout
        rng = np.random.default_rng(0)
        cells = [rng.permutation(np.arange(lay.n_cells)[lay.cells(f)]) for f in range(lay.n_factors)]
        source = np.concatenate([*cells, np.zeros(0)]).astype(np.int64)
        slot_ptr = np.array(lay.table_ptr)
        tables, tops = np.empty(lay.n_cells), np.empty(lay.n_factors)
        ranges = np.zeros(lay.n_factors)
        assert marginals.factor_spans(graph.theta, source, slot_ptr, tables, tops, ranges)
        for f in range(lay.n_factors):
            t = graph.theta[source[slot_ptr[f] : slot_ptr[f + 1]]]
            assert tops[f] == t.max() and ranges[f] == pytest.approx(t.max() - t[t > -np.inf].min())
            np.testing.assert_array_equal(tables[slot_ptr[f] : slot_ptr[f + 1]], t - t.max())

    def test_factor_spans_finds_a_factor_that_is_zero_everywhere(self) -> None:
        graph = bl.FactorGraph.from_tables([2, 2], [((0,), [1, 2]), ((1,), [0, 0])])
        arrays = np.arange(4), np.array([0, 2, 4]), np.empty(4), np.empty(2), np.zeros(2)
        assert not marginals.factor_spans(graph.theta, *arrays)

    @given(data=st.data(), graph=graphs)
    @examples(60)
    def test_variable_marginals(self, data: st.DataObject, graph: bl.FactorGraph) -> None:
        part = graph.condition(data.draw(possible_evidence(graph)))
        lay = part.layout
        joint = reference.joint_table(part)
        tables = [reference.marginal(joint, [int(v) for v in lay.scope(f)]).ravel() for f in range(lay.n_factors)]
        mu_factor = np.concatenate([3.0 * t for t in tables] or [np.zeros(0)])
        mu_var = np.full(lay.n_states, 7.0)
        marginals.variable_marginals(
            lay.scopes, lay.adjacency, lay.table_ptr, lay.observed, part.evidence_states, mu_factor, mu_var
        )
        np.testing.assert_allclose(mu_factor, np.concatenate(tables or [np.zeros(0)]), atol=1e-12)
        for v in range(lay.n_vars):
            run = mu_var[lay.state_ptr[v] : lay.state_ptr[v + 1]]
            seen = np.eye(run.size)[part.evidence_states[v]]
            np.testing.assert_allclose(run, seen if lay.observed[v] else reference.marginal(joint, [v]), atol=1e-12)


class TestMessages:
    @given(data=st.data(), graph=graphs)
    @examples(80)
    def test_factor_traversal(self, data: st.DataObject, graph: bl.FactorGraph) -> None:
        part = graph.condition(data.draw(possible_evidence(graph)))
        lay = part.layout
        order = np.empty(lay.n_factors, np.int64)
        forest = traversal.factor_traversal(
            lay.scope_ptr, lay.scope_vars, lay.var_ptr, lay.var_edges, lay.edge_factor, order
        )
        assert forest == reference.is_forest(part) and order.tolist() == breadth_first(part)

    @given(graph=graphs)
    @examples(60)
    def test_log_beliefs(self, graph: bl.FactorGraph) -> None:
        lay = graph.layout
        sent, ptr = random_messages(graph)
        finite, zeros = np.empty(lay.n_states), np.empty(lay.n_states, np.int64)
        messages.log_beliefs(lay.scopes, lay.message_ptr, np.ones(lay.n_factors), sent, finite, zeros)
        for v in range(lay.n_vars):
            into = [sent[ptr[e] : ptr[e + 1]] for e in np.flatnonzero(lay.scope_vars == v)]
            stacked = np.array(into).reshape(-1, int(lay.card[v]))
            span = slice(lay.state_ptr[v], lay.state_ptr[v + 1])
            np.testing.assert_allclose(finite[span], np.where(np.isneginf(stacked), 0, stacked).sum(0), atol=1e-12)
            assert zeros[span].tolist() == np.isneginf(stacked).sum(0).tolist()

    @pytest.mark.parametrize(
        "logs, k, expected",
        [([1.0, 2.0, 4.0], 1, 5.0), ([1.0, -np.inf, 4.0], 1, 5.0), ([1.0, -np.inf, 4.0], 0, -np.inf),
         ([-np.inf, -np.inf], 0, -np.inf), ([3.0], 0, 0.0), ([-np.inf], 0, 0.0)],
    )  # fmt: skip
    def test_cavity_takes_one_message_out_again(self, logs: list[float], k: int, expected: float) -> None:
        finite = float(sum(x for x in logs if x > -np.inf))
        assert messages.cavity(finite, sum(x == -np.inf for x in logs), logs[k]) == expected

    @pytest.mark.parametrize("damping", [0.0, 0.3])
    @given(graph=graphs)
    @examples(60)
    def test_sweep_log(self, damping: float, graph: bl.FactorGraph) -> None:
        lay = graph.layout
        sent, ptr = random_messages(graph)
        expected = [sent[ptr[e] : ptr[e + 1]].copy() for e in range(lay.n_edges)]
        several = np.flatnonzero(np.diff(lay.scope_ptr) >= 2)  # factors of one variable are sent once, elsewhere
        order = np.random.default_rng(1).permutation(several)
        alive = plain_sweep(graph, order, damping, expected)
        finite, zeros = np.zeros(lay.n_states), np.zeros(lay.n_states, np.int64)
        model, sums, summed = reweighted(graph), LogSums(sent, finite, zeros), np.ones(lay.n_vars, np.bool_)
        messages.log_beliefs(lay.scopes, model.message_ptr, model.rho, *sums)
        extent = np.array(messages.widest_scope(lay.card, lay.scope_ptr, lay.scope_vars))
        got = messages.sweep_log(
            lay.scopes, model, summed, ScaledTables(lay.cell_ptr, np.zeros(0), 1.0, 0.0),
            Update(damping, True, -np.inf, False), messages.scratch(extent), order, np.zeros(0, np.int64), sums, sent,
        )  # fmt: skip
        assert got == alive
        if alive:
            np.testing.assert_allclose(sent, np.concatenate([*expected, np.zeros(0)]), rtol=1e-9, atol=1e-9)
            again, count = np.empty(lay.n_states), np.empty(lay.n_states, np.int64)
            messages.log_beliefs(lay.scopes, model.message_ptr, model.rho, sent, again, count)
            np.testing.assert_allclose(finite, again, atol=1e-9)
            assert zeros.tolist() == count.tolist()

    @given(graph=factor_graphs(zeros=False))
    @examples(60)
    def test_factor_beliefs(self, graph: bl.FactorGraph) -> None:
        lay = graph.layout
        sent, ptr = random_messages(graph, zeros=False)
        finite, zeros = np.zeros(lay.n_states), np.zeros(lay.n_states, np.int64)
        model, sums = reweighted(graph), LogSums(sent, finite, zeros)
        messages.log_beliefs(lay.scopes, model.message_ptr, model.rho, *sums)
        mu_var = np.concatenate(
            [softmax(finite[a:b]) for a, b in zip(lay.state_ptr[:-1], lay.state_ptr[1:], strict=True)]
        )
        mu_factor = np.empty(int(lay.table_ptr[-1]))
        assert free_energy.factor_beliefs(lay.scopes, lay.table_ptr, model, sums, mu_factor)
        value, apart = free_energy.assess_factors(lay.scopes, lay.observed, model, sums, mu_var)
        expected, differ = 0.0, 0.0
        for f in range(lay.n_factors):
            table = graph.theta[lay.cells(f)].reshape(lay.shape(f)).copy()
            table += cavities(graph, f, [sent[ptr[e] : ptr[e + 1]] for e in range(lay.n_edges)])
            belief = softmax(table.ravel())
            np.testing.assert_allclose(mu_factor[lay.table_ptr[f] : lay.table_ptr[f + 1]], belief, atol=1e-12)
            expected += log_sum(table)
            for axis, v in enumerate(lay.scope(f)):
                summed = belief.reshape(lay.shape(f)).sum(axis=tuple(i for i in range(table.ndim) if i != axis))
                differ = max(differ, np.abs(summed - mu_var[lay.state_ptr[v] : lay.state_ptr[v + 1]]).max())
        for v in range(lay.n_vars):
            degree = int(lay.var_ptr[v + 1] - lay.var_ptr[v])
            expected += (1 - degree) * log_sum(finite[lay.state_ptr[v] : lay.state_ptr[v + 1]])
        assert value == pytest.approx(expected, rel=1e-10, abs=1e-9)
        assert apart == pytest.approx(differ, abs=1e-12)


def log_sum(logs: np.ndarray) -> float:
    return float(logs.max() + np.log(np.exp(logs - logs.max()).sum()))


def softmax(logs: np.ndarray) -> np.ndarray:
    p = np.exp(logs - logs.max())
    return p / p.sum()


def reweighted(graph: bl.FactorGraph) -> Reweighted:
    return Reweighted(graph.theta, np.ones(graph.n_factors), graph.layout.message_ptr)


def random_messages(graph: bl.FactorGraph, zeros: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Normalised log messages, some of them with hard zeros, and their offsets."""
    lay = graph.layout
    rng = np.random.default_rng(int(lay.n_edges))
    ptr = np.concatenate([[0], np.cumsum(lay.card[lay.scope_vars])]).astype(np.int64)
    rows = []
    for v in lay.scope_vars:
        weights = rng.random(int(lay.card[v])) + 0.01
        if zeros and weights.size > 1 and rng.random() < 0.3:
            weights[rng.integers(weights.size)] = 0.0
        with np.errstate(divide="ignore"):
            rows.append(np.log(weights / weights.sum()))
    return np.concatenate([*rows, np.zeros(0)]), ptr


def cavities(graph: bl.FactorGraph, f: int, sent: list[np.ndarray], skip: int = -1) -> np.ndarray:
    """Sum, over a factor's variables but ``skip``, of all other factors' messages, broadcast over its table."""
    lay = graph.layout
    total = np.zeros(lay.shape(f))
    for axis, v in enumerate(lay.scope(f)):
        if axis == skip:
            continue
        others = [e for e in np.flatnonzero(lay.scope_vars == v) if lay.edge_factor[e] != f]
        into = np.sum([sent[e] for e in others], axis=0) if others else np.zeros(int(lay.card[v]))
        total = total + into.reshape([-1 if a == axis else 1 for a in range(total.ndim)])
    return total


def plain_sweep(graph: bl.FactorGraph, order: np.ndarray, damping: float, sent: list[np.ndarray]) -> bool:
    """Eqs. (1.20)-(1.21) of the messages' module in NumPy, in place; False if a message is zero everywhere."""
    lay = graph.layout
    for f in order:
        sending = []
        for axis in range(int(lay.scope_ptr[f + 1] - lay.scope_ptr[f])):
            table = graph.theta[lay.cells(f)].reshape(lay.shape(f)) + cavities(graph, f, sent, axis)
            new = reference.log_sum_exp(table, tuple(a for a in range(table.ndim) if a != axis))
            if np.isneginf(new).all():
                return False
            sending.append(new - reference.log_sum_exp(new))
        for e, new in enumerate(sending, int(lay.scope_ptr[f])):
            both = np.isfinite(new) & np.isfinite(sent[e])
            mixed = (1 - damping) * np.where(both, new, 0) + damping * np.where(both, sent[e], 0)
            sent[e] = np.where(both, mixed, new)
            sent[e] = sent[e] - reference.log_sum_exp(sent[e])
    return True


def breadth_first(graph: bl.FactorGraph) -> list[int]:
    """Constants first, then each part's factors as a breadth-first search from its lowest variable meets them."""
    lay = graph.layout
    order = [f for f in range(lay.n_factors) if lay.scope(f).size == 0]
    seen: set[int] = set()
    for root in range(lay.n_vars):
        queue = deque([root] if root not in seen else [])
        seen.add(root)
        while queue:
            v = queue.popleft()
            for f in range(lay.n_factors):
                if v in lay.scope(f) and f not in order:
                    order.append(f)
                    for u in map(int, lay.scope(f)):
                        if u not in seen:
                            seen.add(u)
                            queue.append(u)
    return order
