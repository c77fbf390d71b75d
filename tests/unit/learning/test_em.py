"""EM for networks against enumeration, counting and Baum-Welch."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.driver import Status
from beliefs.errors import ConvergenceWarning, ModelError
from beliefs.learning.networks.em import NetworkLikelihood, random_tables
from beliefs.learning.networks.fitting import gathered, missing_rows
from beliefs.learning.networks.structure import Structure
from beliefs.learning.parallel import executor_of
from beliefs.model.rows.reading import read_rows

ARCS = [("x0", "x2"), ("x1", "x2"), ("x2", "x3")]


def holed_rows(n=60, share=0.25, seed=0):
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 2, n), rng.integers(0, 3, n)
    third = (first + second + (rng.random(n) < 0.2)) % 2
    rows = np.stack([first, second, third, third ^ (rng.random(n) < 0.2)], axis=1)
    rows[0], rows[1] = [0, 2, 1, 1], [1, 1, 0, 0]  # all states are seen
    rows[2:][rng.random((n - 2, 4)) < share] = -1
    return rows


def expected_counts(model, rows, weights=None):
    """Sum over rows of posterior family marginals, by enumerating what is missing."""
    layout, counts, log_likelihood = model.graph.layout, np.zeros(model.graph.layout.n_cells), 0.0
    for s, row in enumerate(rows):
        spaces = [range(int(layout.card[v])) if x < 0 else [int(x)] for v, x in enumerate(row)]
        states = np.array(list(product(*spaces)))
        p = np.exp([model.log_score(x) for x in states])
        w = 1.0 if weights is None else weights[s]
        log_likelihood += w * np.log(p.sum())
        for x, share in zip(states, w * p / p.sum(), strict=True):
            for v in range(model.n_vars):
                counts[layout.cells(v)][np.ravel_multi_index(x[layout.scope(v)], layout.shape(v))] += share
    return counts, log_likelihood


@pytest.mark.parametrize("weighted", [False, True])
def test_an_iteration_is_expected_counts_then_counting(weighted):
    rows = holed_rows()
    start = bl.BNLearner(ARCS).fit(rows[:2]).model_
    weights = np.random.default_rng(1).random(len(rows)) if weighted else None
    learner = bl.BNLearner(start, prior="bdeu(ess=4)", start="model", max_iters=1).fit(rows, weights)
    counts, before = expected_counts(start, rows, weights)
    layout = start.graph.layout
    for v in range(4):
        table = counts[layout.cells(v)].reshape(layout.shape(v))
        table = table + 4 / table.size
        assert learner.model_.cpt(v) == pytest.approx(table / table.sum(axis=-1, keepdims=True), abs=1e-12)
    total = len(rows) if weights is None else weights.sum()
    after, log_likelihood = expected_counts(learner.model_, rows, weights)
    assert learner.result_.log_likelihood == pytest.approx(log_likelihood / total)
    assert np.concatenate([learner.counts_[f"x{v}"].ravel() for v in range(4)]) == pytest.approx(after)
    assert before / total < learner.result_.log_likelihood  # a weak prior


def posteriors(model, rows):
    """Of each row the joint states that agree with it, by enumeration, as probabilities."""
    card = model.graph.layout.card
    for row in rows:
        states = list(product(*(range(int(card[v])) if x < 0 else [int(x)] for v, x in enumerate(row))))
        p = np.exp([model.log_score(np.array(x)) for x in states])
        yield p / p.sum()


def test_the_gap_of_jensens_bound_is_the_divergence_of_the_posteriors():
    """P26: at other tables the likelihood is above the bound of an E-step by KL(old || new); there, they touch."""
    rows = holed_rows()
    rng = np.random.default_rng(3)
    network = bl.BNLearner(ARCS).fit(rows).model_
    structure = Structure(network.graph.naming, network.graph.layout)
    loss = NetworkLikelihood(bl.BNLearner(network, estimate="mle")._estimate(structure))
    found = gathered(structure, [read_rows(rows, network.graph.naming)], executor_of(1))
    data = missing_rows(loss, found, None, executor_of(1))
    old, new = (random_tables(loss.estimate, rng.random(loss.n_cells), seed) for seed in (1, 2))
    at_old, expected = loss.log_likelihood(old, data)
    entropy = at_old - expected @ np.log(old)  # the bound touches at the tables of its E-step

    def gap(tables):
        return loss.log_likelihood(tables, data)[0] - (expected @ np.log(tables) + entropy)

    pairs = zip(*(posteriors(structure.network(tables), rows) for tables in (old, new)), strict=True)
    by_hand = [float(q @ np.log(q)) for q in posteriors(structure.network(old), rows)]
    assert entropy == pytest.approx(-sum(by_hand), abs=1e-9)
    divergence = sum(float(q @ np.log(q / p)) for q, p in pairs)
    assert divergence > 1.0 and gap(new) == pytest.approx(divergence, abs=1e-9)
    assert gap(old) == pytest.approx(0.0, abs=1e-9)
    assert gap(loss.maximised(expected)) > 0.0  # so the likelihood rises by more than the bound


@pytest.mark.parametrize(("estimate", "prior"), [("mle", None), ("map", "dirichlet(alpha=2)"), ("mean", "bdeu(ess=8)")])
def test_the_objective_never_falls(estimate, prior):
    """P25."""
    rows = holed_rows(share=0.5)
    learner = bl.BNLearner([*ARCS, ("h", "x0"), ("h", "x3")], prior, estimate, hidden={"h": 3}, max_iters=60, tol=0.0)
    learner.fit(rows)
    loss = learner.result_.trace.loss
    assert len(loss) == 61 and np.diff(loss).max() <= 1e-12
    assert -loss[-1] == pytest.approx(learner.result_.objective)
    if estimate == "mle":
        assert learner.result_.objective == pytest.approx(learner.result_.log_likelihood)
        assert learner.score(rows) == pytest.approx(learner.result_.log_likelihood)


def test_where_nothing_is_missing_em_is_counting():
    rows = holed_rows(share=0.0)
    alone = rows.copy()
    alone[5, 3] = -1  # the families of x0, x1 and x2 are complete
    counted = bl.BNLearner(ARCS).fit(rows)
    by_em = bl.BNLearner(ARCS).fit(alone)
    for name in ("x0", "x1", "x2"):
        assert by_em.model_.cpt(name) == pytest.approx(counted.model_.cpt(name), abs=1e-12)
    assert by_em.result_.n_iters > 0 and counted.result_.n_iters == 0


def baum_welch(initial, transition, emission, rows, n_iters):
    """Forward-backward and counting, for hidden chains with one transition and one emission table."""
    for _ in range(n_iters):
        first, pairs, seen = np.zeros_like(initial), np.zeros_like(transition), np.zeros_like(emission)
        for row in rows:
            n = len(row)
            forward, backward = np.zeros((n, len(initial))), np.ones((n, len(initial)))
            forward[0] = initial * emission[:, row[0]]
            for t in range(1, n):
                forward[t] = (forward[t - 1] @ transition) * emission[:, row[t]]
            for t in range(n - 2, -1, -1):
                backward[t] = transition @ (emission[:, row[t + 1]] * backward[t + 1])
            z = forward[-1].sum()
            posterior = forward * backward / z
            first += posterior[0]
            for t in range(n):
                seen[:, row[t]] += posterior[t]
            for t in range(n - 1):
                pairs += np.outer(forward[t], emission[:, row[t + 1]] * backward[t + 1]) * transition / z
        initial, transition = first / first.sum(), pairs / pairs.sum(axis=1, keepdims=True)
        emission = seen / seen.sum(axis=1, keepdims=True)
    return initial, transition, emission


def test_a_tied_hidden_chain_is_baum_welch():
    rng = np.random.default_rng(2)
    n, k, m = 7, 3, 4
    initial, transition = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), k)
    emission, rows = rng.dirichlet(np.ones(m), k), rng.integers(0, m, (40, n))
    hidden = [f"z{t}" for t in range(n)]
    variables = [bl.Variable(name, k) for name in hidden] + [bl.Variable(f"y{t}", m) for t in range(n)]
    cpts: dict[str, tuple[list[str], np.ndarray]] = {"z0": ([], initial)}
    cpts |= {f"z{t}": ([f"z{t - 1}"], transition) for t in range(1, n)}
    cpts |= {f"y{t}": ([f"z{t}"], emission) for t in range(n)}
    chain = bl.BayesianNetwork.from_cpts(variables, cpts)
    learner = bl.BNLearner(
        chain, estimate="mle", hidden=hidden, start="model", max_iters=6, tol=0.0,
        tied=[hidden[1:], [f"y{t}" for t in range(n)]],
    ).fit(rows)  # fmt: skip
    expected = baum_welch(initial, transition, emission, rows, 6)
    assert learner.model_.cpt("z0") == pytest.approx(expected[0], abs=1e-10)
    assert learner.model_.cpt("z3") == pytest.approx(expected[1], abs=1e-10)
    assert learner.model_.cpt("y5") == pytest.approx(expected[2], abs=1e-10)


def test_restarts_seeds_and_threads():
    rows = holed_rows(300, 0.4)
    options: dict[str, Any] = {"hidden": {"h": 2}, "max_iters": 15, "tol": 0.0, "n_restarts": 3}
    structure = [("h", f"x{v}") for v in range(4)]
    one, two = (bl.BNLearner(structure, n_jobs=k, **options).fit(rows) for k in (1, 2))
    assert one.model_.probabilities.tobytes() == two.model_.probabilities.tobytes()
    assert len(one.result_.restarts) == 3 and len(set(one.result_.restarts)) == 3
    assert one.result_.objective == one.result_.restarts.max()
    posterior = one.predict_proba(rows, "h")
    assert posterior.shape == (300, 2) and posterior.sum(axis=1) == pytest.approx(1)
    assert one.predict(rows).min() >= 0 and one.predict(rows).shape == (300, 5)


def test_checkpoints_go_on_where_a_run_stopped(tmp_path):
    rows = holed_rows(share=0.5)
    structure = [("h", f"x{v}") for v in range(4)]
    options: dict[str, Any] = {"hidden": {"h": 2}, "tol": 0.0}
    whole = bl.BNLearner(structure, max_iters=12, **options).fit(rows)
    path = tmp_path / "em.npz"
    bl.BNLearner(structure, max_iters=5, checkpoint=path, **options).fit(rows)
    resumed = bl.BNLearner(structure, max_iters=12, checkpoint=path, **options).fit(rows)
    assert resumed.model_.probabilities.tobytes() == whole.model_.probabilities.tobytes()
    assert len(resumed.result_.trace) == len(whole.result_.trace)
    with pytest.raises(ModelError, match="another fit: cells"):
        bl.BNLearner(structure, checkpoint=path, **options).fit(holed_rows(share=0.5, seed=3))
    with pytest.raises(ModelError, match="n_restarts=2"):
        bl.BNLearner(structure, checkpoint=path, n_restarts=2, **options).fit(rows)


def test_stopping_and_not_converging():
    rows = holed_rows(share=0.5)
    structure = [("h", f"x{v}") for v in range(4)]
    stopped = bl.BNLearner(structure, hidden={"h": 2}, callback=lambda now: now.iteration == 3).fit(rows)
    assert stopped.result_.status is Status.STOPPED and stopped.result_.n_iters == 3
    short = bl.BNLearner(structure, hidden={"h": 2}, max_iters=2).fit(rows)
    assert short.result_.status is Status.MAX_ITERS
    converged = bl.BNLearner(structure, hidden={"h": 2}, tol=1e-3).fit(rows)
    assert converged.result_.converged and "rose by less than tol" in converged.result_.reason


def test_an_impossible_start_names_the_row():
    a, b = bl.Variable("a", ["no", "yes"]), bl.Variable("b", 2)
    start = bl.BayesianNetwork.from_cpts([a, b], {"a": ([], [1.0, 0.0]), "b": (["a"], [[0.5, 0.5]] * 2)})
    with pytest.raises(ModelError, match="the row a=yes is impossible under the tables to start from"):
        bl.BNLearner(start, start="model").fit([[1, -1], [0, 1]])


def test_rows_without_weight_do_not_count_even_if_impossible():
    a, b = bl.Variable("a", 2), bl.Variable("b", 2)
    start = bl.BayesianNetwork.from_cpts([a, b], {"a": ([], [1.0, 0.0]), "b": (["a"], [[0.5, 0.5]] * 2)})
    rows, weights = [[1, -1], [0, 1], [-1, 0]], [0.0, 1.0, 1.0]
    learner = bl.BNLearner(start, "k2", start="model", max_iters=1).fit(rows, weights)
    assert np.isfinite(learner.result_.log_likelihood) and learner.counts_["a"].sum() == pytest.approx(2.0)


def test_chunks_keep_only_incomplete_rows():
    rows = holed_rows(200)
    given = bl.BNLearner(ARCS).fit(rows[:2]).model_
    whole = bl.BNLearner(given, start="model", max_iters=3).fit(rows)
    chunked = bl.BNLearner(given, start="model", max_iters=3).fit(iter([rows[:50], rows[50:]]))
    assert chunked.model_.probabilities == pytest.approx(whole.model_.probabilities, abs=1e-12)


def test_convergence_warning_is_for_limits_nobody_asked_for(monkeypatch):
    monkeypatch.setattr("beliefs.learning.networks.em.EM.default_max_iters", 1)
    with pytest.warns(ConvergenceWarning, match="em"):
        bl.BNLearner([("h", f"x{v}") for v in range(4)], hidden={"h": 2}).fit(holed_rows(share=0.5))


def test_stepwise_em_counts_complete_rows_and_steps_to_where_em_goes():
    rng = np.random.default_rng(4)
    h = rng.integers(0, 2, 6000)
    rows = (rng.random((6000, 5)) < np.where(h[:, None], 0.85, 0.15)).astype(int)
    structure, hidden = [("h", f"x{v}") for v in range(5)], {"h": 2}
    states = {f"x{v}": "01" for v in range(5)} | {"h": "01"}
    whole = bl.BNLearner(structure, hidden=hidden, seed=1).fit(rows)
    stream = bl.BNLearner(structure, hidden=hidden, states=states, seed=1)
    sizes, scores = [], []
    for _ in range(2):
        for batch in np.array_split(rows, 40):
            stream.partial_fit(batch)
            sizes.append(stream.result_.reason.split("size ")[1].split(";")[0])
            scores.append(stream.result_.log_likelihood)
    assert sizes[:3] == ["1", f"{2**-0.7:.3g}", f"{3**-0.7:.3g}"]
    assert stream.score(rows) == pytest.approx(whole.score(rows), abs=2e-3) and scores[0] < scores[-1] - 0.1
    assert stream.counts_["h"].sum() == pytest.approx(12000)
    first = bl.BNLearner(structure, hidden=hidden, states=states, seed=1).partial_fit(rows[:150])
    assert first.result_.n_iters == 1 and first.result_.status is Status.MAX_ITERS  # one E-step, one M-step
    one = bl.BNLearner(structure, hidden=hidden, seed=1, max_iters=1).fit(rows[:150])
    assert first.model_.cpt("x2") == pytest.approx(one.model_.cpt("x2"), abs=1e-12)
    after = bl.BNLearner(ARCS).fit(holed_rows(share=0.0))
    before = {name: table.copy() for name, table in after.counts_.items()}
    after.partial_fit(holed_rows(share=0.0))
    assert all((after.counts_[name] == 2 * before[name]).all() for name in before)
    with pytest.raises(ModelError, match="step_power must be above 0.5"):
        bl.BNLearner(structure, hidden=hidden, step_power=0.5).fit(rows)


def test_groups_over_the_budget_are_approximated_and_say_so():
    rng = np.random.default_rng(5)
    n = 9  # a hidden grid with an observed child each
    names = [f"h{k}" for k in range(n)]
    arcs = [(f"h{k}", f"h{k + 1}") for k in range(n) if k % 3 < 2] + [(f"h{k}", f"h{k + 3}") for k in range(n - 3)]
    arcs += [(f"h{k}", f"x{k}") for k in range(n)]
    rows = (rng.random((20, n)) < np.where(rng.random(20) < 0.5, 0.8, 0.3)[:, None]).astype(int)
    options: dict[str, Any] = {"hidden": dict.fromkeys(names, 2), "max_iters": 2, "tol": 0.0}
    exact = bl.BNLearner(arcs, **options).fit(rows)
    loose = bl.BNLearner(arcs, max_bytes=6000, **options).fit(rows)
    assert exact.result_.bound is bl.Bound.EXACT and loose.result_.bound is bl.Bound.ESTIMATE
    assert loose.result_.log_likelihood == pytest.approx(exact.result_.log_likelihood, abs=0.05)
    assert loose.model_.cpt("x4") == pytest.approx(exact.model_.cpt("x4"), abs=0.05)
