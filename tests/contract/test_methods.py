"""Every method meets every family at every door, against the oracle, with and without evidence.

A method added to ``METHODS`` is tested here without a further line: what it must satisfy is read off its own row (its
tasks, whether it iterates, the word "exact" in its guarantee) and off the bounds that its results claim.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import beliefs as bl
import reference
from beliefs.inference import Bound, Method, Task
from families import FAMILIES, evidence, family, oracle

PRESETS: tuple[Method, ...] = (
    *(cls() for cls in bl.METHODS if cls.general),
    bl.JunctionTree(order="min_fill", restarts=0),
    bl.Elimination(order="min_degree"),
    bl.BP(damping=0.4),
    bl.Gibbs(chains=3, burn_in=20, schedule="sequential"),
    bl.BP(schedule="residual"),
    bl.MeanField(restarts=2),
    bl.MeanField(schedule="color"),
    bl.MeanField(structure="tree"),
    bl.MeanField(structure="tree", restarts=1, schedule="color"),
    bl.TRW(schedule="chains"),
    bl.TRW(rho="optimized", rho_steps=3),
    bl.TRW(rho="sampled", damping=0.2, damp="probability", schedule="flooding"),
    bl.MiniBucket(ibound=1),
    bl.MiniBucket(ibound=2, partition="content", order="unconstrained"),
    bl.WMB(ibound=1),
    bl.IJGP(ibound=1),
    bl.GBP(regions="bethe", damping=0.2, schedule="levels"),
    bl.ConvexGBP(regions="cvm"),
    bl.GDD(ibound=1),
    bl.GDD(solver="lbfgs"),
    bl.WMB(ibound=2, backtrack=False, smoothing=0.0, step_size=0.3),
)
OBSERVED = (0, 2, 99)  # how many variables have evidence; 99 stands for all
SLACK = 1e-9  # relative: what rounding may take from a bound or an exact value


def able(task: Task) -> list[Any]:
    return [pytest.param(m, id=repr(m)) for m in PRESETS if task in m.tasks]


every_family = pytest.mark.parametrize("name", list(FAMILIES))
every_evidence = pytest.mark.parametrize("observed", OBSERVED)


def ask(door: Callable[..., Any], *args: Any, method: Method, **options: Any) -> Any:
    """Call a door and check that it warns exactly when a fixed-point method stopped short."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = door(*args, method=method, **options)
    short = method.fixed_point and result.status not in (bl.Status.CONVERGED, bl.Status.STOPPED)
    assert [w.category for w in caught] == [bl.ConvergenceWarning] * short
    return result


def close(value: float, truth: float, slack: float = SLACK) -> bool:
    return abs(value - truth) <= slack * max(1.0, abs(truth))


def must_be_exact(method: Method, name: str) -> bool:
    if getattr(method, "damping", 0) or getattr(method, "schedule", "auto") not in ("auto", "tree"):
        return False
    return method.guarantee.startswith("exact") and (
        "forest" not in method.guarantee or reference.is_forest(family(name))
    )


def conditioned(name: str, observed: int) -> bl.FactorGraph:
    return family(name).condition(evidence(name, observed))


@every_evidence
@every_family
@pytest.mark.parametrize("method", able(Task.INFER))
class TestInfer:
    def test_log_z_and_its_bounds_hold_at_every_recorded_step(self, method: Method, name: str, observed: int) -> None:
        result = ask(bl.infer, conditioned(name, observed), method=method, trace_every=1)
        truth = reference.log_z(oracle(name, observed))
        room = SLACK * max(1.0, abs(truth))
        assert result.log_lower - room <= truth <= result.log_upper + room
        assert (result.trace.lower - room <= truth).all() and (truth <= result.trace.upper + room).all()
        if result.bound is Bound.EXACT:
            assert result.log_z == result.log_lower == result.log_upper
        if result.bound is Bound.UPPER:
            assert result.log_z >= truth - room
        if result.bound is Bound.LOWER:
            assert result.log_z <= truth + room
        if must_be_exact(method, name):
            assert result.bound is Bound.EXACT and result.status is bl.Status.CONVERGED
        assert result.trace.iteration[-1] == result.n_iters and result.trace.log_z[-1] == result.log_z
        for column in ("iteration", "seconds", "residual", "log_z", "lower", "upper"):
            assert not np.isnan(getattr(result.trace, column)).any()

    def test_marginals_are_distributions_and_exact_where_claimed(
        self, method: Method, name: str, observed: int
    ) -> None:
        graph = conditioned(name, observed)
        result = ask(bl.infer, graph, method=method)
        joint = oracle(name, observed)
        for flat in (result.mu_var, result.mu_factor, result.mu):
            assert not np.isnan(flat).any() and (flat >= 0).all()
        for v in range(graph.n_vars):
            assert close(result.marginal(v).sum(), 1.0, 1e-12)
        for f in range(graph.n_factors):
            assert close(result.factor_marginal(f).sum(), 1.0, 1e-12)
        for v, x in graph.evidence.items():
            assert result.marginal(v).tolist() == np.eye(int(graph.layout.card[v]))[x].tolist()
        if result.bound is Bound.EXACT:
            assert close(result.log_z, reference.log_z(joint))
            np.testing.assert_allclose(result.mu_var, reference.mu_var(joint), rtol=0, atol=1e-9)
            np.testing.assert_allclose(result.mu, reference.mu(graph, joint), rtol=0, atol=1e-9)

    def test_marginals_agree_across_factors(self, method: Method, name: str, observed: int) -> None:
        """Promised by exact methods, and by fixed-point methods once they have converged."""
        graph = conditioned(name, observed)
        result = ask(bl.infer, graph, method=method, tol=1e-12)
        if not (result.bound is Bound.EXACT or (method.fixed_point and result.converged)):
            pytest.skip("no promise: neither exact nor converged")
        for f in range(graph.n_factors):
            table = result.factor_marginal(f)
            for axis, v in enumerate(graph.layout.scope(f)):
                rest = tuple(a for a in range(table.ndim) if a != axis)
                np.testing.assert_allclose(table.sum(axis=rest), result.marginal(int(v)), rtol=0, atol=1e-9)

    def test_same_question_same_bytes_and_the_model_is_left_alone(
        self, method: Method, name: str, observed: int
    ) -> None:
        graph = conditioned(name, observed)
        before = (graph.theta.tobytes(), graph.layout.scope_vars.tobytes(), graph.layout.card.tobytes())
        first = ask(bl.infer, graph, method=method, seed=3, threads=1)
        again = ask(bl.infer, graph, method=method, seed=3, threads=2)
        assert first.log_z == again.log_z and first.n_iters == again.n_iters
        assert first.mu_var.tobytes() == again.mu_var.tobytes() and first.mu.tobytes() == again.mu.tobytes()
        assert before == (graph.theta.tobytes(), graph.layout.scope_vars.tobytes(), graph.layout.card.tobytes())
        assert not graph.theta.flags.writeable

    def test_warm_start_from_the_answer_stops_at_once(self, method: Method, name: str, observed: int) -> None:
        graph = conditioned(name, observed)
        first = ask(bl.infer, graph, method=method)
        if not first.converged:
            pytest.skip("there is no answer to start from")
        again = ask(bl.infer, graph, method=method, init=first)
        assert again.n_iters <= 1 and again.status is bl.Status.CONVERGED and again.bound is first.bound
        assert close(again.log_z, first.log_z, 1e-6)
        if method.residual_of == "bound" and first.bound is not Bound.EXACT:
            return  # what has settled is the bound; its marginals may still move
        np.testing.assert_allclose(again.mu_var, first.mu_var, rtol=0, atol=1e-6)


@every_evidence
@every_family
@pytest.mark.parametrize("method", able(Task.MAXIMIZE))
def test_maximize_returns_a_real_score_and_a_true_bound(method: Method, name: str, observed: int) -> None:
    graph = conditioned(name, observed)
    result = ask(bl.maximize, graph, method=method, trace_every=1)
    again = ask(bl.maximize, graph, method=method)
    joint = oracle(name, observed)
    optimum = reference.maximum(joint)
    room = SLACK * max(1.0, abs(optimum))
    row = tuple(int(x) for x in result.assignment)
    assert result.assignment.dtype == np.int64 and result.assignment.shape == (graph.n_vars,)
    assert close(result.log_score, float(joint[row]), 1e-12)
    assert result.log_score <= optimum + room and result.log_upper >= optimum - room
    assert result.gap >= 0 and (result.trace.upper >= optimum - room).all()
    assert result.assignment.tobytes() == again.assignment.tobytes()
    if result.gap == 0:
        assert close(result.log_score, optimum)
    if must_be_exact(method, name):
        assert result.gap == 0 and result.converged
    isolated = np.flatnonzero((np.diff(graph.layout.var_ptr) == 0) & ~graph.layout.observed)
    assert (result.assignment[isolated] == 0).all()


def queries(graph: bl.FactorGraph) -> list[list[int]]:
    hidden = [int(v) for v in np.flatnonzero(~graph.layout.observed)]
    return [[], hidden, hidden[::-2], hidden[1:3], hidden[:1]]


@every_evidence
@every_family
@pytest.mark.parametrize("method", able(Task.MARGINAL_MAP))
def test_marginal_map_bounds_its_optimum(method: Method, name: str, observed: int) -> None:
    graph = conditioned(name, observed)
    joint = oracle(name, observed)
    for query in queries(graph):
        result = ask(bl.marginal_map, graph, query, method=method, trace_every=1)
        here = joint[tuple(graph.evidence.get(v, slice(None)) for v in range(graph.n_vars))]
        place = {v: axis for axis, v in enumerate(v for v in range(graph.n_vars) if v not in graph.evidence)}
        values = reference.query_values(here, [place[v] for v in query])
        optimum = float(values.max())
        room = SLACK * max(1.0, abs(optimum))
        attained = float(values[tuple(int(x) for x in result.assignment)])
        assert result.query == tuple(query) and result.assignment.shape == (len(query),)
        assert result.log_lower - room <= attained and optimum <= result.log_upper + room and result.gap >= 0
        assert (result.trace.upper >= optimum - room).all()
        if result.value_bound is Bound.EXACT:
            assert close(result.log_value, attained)
        if result.gap == 0 or ("forest" not in method.guarantee and must_be_exact(method, name)):
            assert close(attained, optimum) and result.value_bound is Bound.EXACT


@every_evidence
@every_family
@pytest.mark.parametrize("method", able(Task.SAMPLE))
def test_samples_are_possible_agree_with_the_evidence_and_repeat(method: Method, name: str, observed: int) -> None:
    graph = conditioned(name, observed)
    result = ask(bl.sample, graph, 60, method=method, seed=5)
    again = ask(bl.sample, graph, 60, method=method, seed=5)
    assert result.samples.shape == (60, graph.n_vars) and result.samples.dtype == np.int64 and len(result) == 60
    assert (graph.log_scores(result.samples) > -np.inf).all()
    assert result.samples.tobytes() == again.samples.tobytes()
    if (graph.layout.card[~graph.layout.observed] > 1).any() and len(set(map(bytes, result.samples))) > 1:
        assert ask(bl.sample, graph, 60, method=method, seed=6).samples.tobytes() != result.samples.tobytes()
    assert ask(bl.sample, graph, 0, method=method).samples.shape == (0, graph.n_vars)


DOORS: dict[Task, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    Task.INFER: (bl.infer, ()),
    Task.MAXIMIZE: (bl.maximize, ()),
    Task.MARGINAL_MAP: (bl.marginal_map, ([0],)),
    Task.SAMPLE: (bl.sample, (1,)),
}


@pytest.mark.parametrize(
    "cls, task",
    [pytest.param(c, t, id=f"{c.name}-{t.value}") for c in bl.METHODS for t in Task if t not in c.tasks],
)
def test_a_method_refuses_a_question_it_does_not_answer(cls: type[Method], task: Task) -> None:
    door, args = DOORS[task]
    with pytest.raises(
        bl.UnsupportedError, match=f"{cls.name} does not answer {task.value}; use one of .*junction_tree"
    ):
        door(family("chain"), *args, method=cls())
