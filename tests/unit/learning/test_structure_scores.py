"""Scores of structures against their formulas, and trees against all trees."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from math import lgamma, log

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import beliefs as bl
from beliefs.errors import ModelError
from beliefs.learning.networks.structure import Structure
from beliefs.learning.networks.tan_em import pairs_given_target
from beliefs.learning.networks.tree_em import expected_pairs
from beliefs.learning.networks.trees import SEARCHES, mutual_information, spanning_tree
from beliefs.learning.networks.trees import _of_pairs as of_pairs
from beliefs.model.rows.reading import read_rows


def rows_of(n=300, seed=0):
    """Five variables of two to four states that depend on each other."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 3, n)
    second = np.where(rng.random(n) < 0.7, first % 2, rng.integers(0, 2, n))
    third = (first + second + (rng.random(n) < 0.3)) % 4
    fourth = np.where(rng.random(n) < 0.6, third > 1, rng.random(n) < 0.5).astype(int)
    return np.stack([first, second, third, fourth, rng.integers(0, 3, n)], axis=1)


def by_hand(rows, parents, score, ess=10.0):
    """The formulas, cell by cell."""
    card = rows.max(axis=0) + 1
    total = 0.0
    for v, above in parents.items():
        columns: dict[tuple[int, ...], np.ndarray] = {}
        r = int(card[v])
        for row in rows:
            columns.setdefault(tuple(row[above]), np.zeros(r))[row[v]] += 1
        q = int(np.prod(card[above]))
        for counts in columns.values():
            n = counts.sum()
            if score in ("bdeu", "k2"):
                a = ess / (q * r) if score == "bdeu" else 1.0
                total += lgamma(r * a) - lgamma(r * a + n) + sum(lgamma(a + k) - lgamma(a) for k in counts)
            else:
                total += sum(k * log(k / n) for k in counts if k > 0)
        free = q * (r - 1)
        total -= {"aic": free, "bic": 0.5 * log(len(rows)) * free}.get(score, 0.0)
    return total


@pytest.mark.parametrize("score", ["log_likelihood", "aic", "bic", "bdeu", "k2"])
def test_scores_are_their_formulas(score):
    rows = rows_of()
    parents = {0: [], 1: [0], 2: [0, 1], 3: [2], 4: []}
    arcs = [(f"x{u}", f"x{v}") for v, above in parents.items() for u in above]
    assert bl.structure_score(arcs, rows, score) == pytest.approx(by_hand(rows, parents, score), abs=1e-9)
    assert bl.structure_score({f"x{v}": [f"x{u}" for u in above] for v, above in parents.items()}, rows, score) == (
        pytest.approx(by_hand(rows, parents, score), abs=1e-9)
    )


@pytest.mark.parametrize("score", ["log_likelihood", "aic", "bic", "bdeu(ess=3)"])
def test_equivalent_networks_score_alike(score):
    rows = rows_of()
    chains = [[("x0", "x1"), ("x1", "x2")], [("x1", "x0"), ("x1", "x2")], [("x2", "x1"), ("x1", "x0")]]
    found = [bl.structure_score(chain, rows, score) for chain in chains]
    assert found == pytest.approx([found[0]] * 3, abs=1e-9)
    collider = bl.structure_score([("x0", "x1"), ("x2", "x1")], rows, score)
    assert abs(collider - found[0]) > 1e-3


def test_scores_count_weights_and_refuse_missing_cells():
    rows = rows_of(50)
    twice = bl.structure_score([("x0", "x1")], np.concatenate([rows, rows]))
    assert bl.structure_score([("x0", "x1")], rows, sample_weight=np.full(50, 2.0)) == pytest.approx(twice)
    rows[3, 1] = -1
    with pytest.raises(ModelError, match="'x1', row 3: a score needs complete rows"):
        bl.structure_score([("x0", "x1")], rows)
    with pytest.raises(ModelError, match="known: bic, aic, bdeu, k2, log_likelihood"):
        bl.structure_score([("x0", "x1")], rows, "bict")


# -- trees ----------------------------------------------------------------------------------------------------------
def all_trees(n):
    """Every labelled tree, as edges."""
    edges = list(combinations(range(n), 2))
    for chosen in combinations(edges, n - 1):
        parent = list(range(n))

        def find(v, parent=parent):
            while parent[v] != v:
                v = parent[v]
            return v

        for u, v in chosen:
            parent[find(u)] = find(v)
        if len({find(v) for v in range(n)}) == 1:
            yield chosen


def likelihood_of_forest(rows, edges, score="log_likelihood"):
    """The score of a forest, by directing its edges away from the smallest vertex of each part."""
    arcs, waiting, seen = [], list(edges), set()
    for root in range(rows.shape[1]):
        reached = [root] if root not in seen else []
        while reached:
            u = reached.pop()
            seen.add(u)
            for edge in [e for e in waiting if u in e]:
                waiting.remove(edge)
                v = edge[0] if edge[1] == u else edge[1]
                arcs.append((f"x{u}", f"x{v}"))
                reached.append(v)
    return bl.structure_score(arcs, rows, score)


def test_chow_liu_is_the_best_tree():
    rows = rows_of()
    best = max(likelihood_of_forest(rows, tree) for tree in all_trees(5))
    learner = bl.BNLearner("chow_liu", estimate="mle").fit(rows)
    assert len(learner.model_.edges) == 4
    assert bl.structure_score(learner.model_, rows, "log_likelihood") == pytest.approx(best)
    independent = bl.structure_score([], rows, "log_likelihood")
    assert learner.result_.tree_weight * len(rows) == pytest.approx(best - independent)


def test_forest_is_the_forest_of_largest_bic():
    rows = rows_of()
    edges = list(combinations(range(5), 2))
    forests = {subset for tree in all_trees(5) for k in range(5) for subset in combinations(tree, k)}
    best = max(likelihood_of_forest(rows, forest, "bic") for forest in forests)
    learner = bl.BNLearner("forest").fit(rows)
    assert bl.structure_score(learner.model_, rows, "bic") == pytest.approx(best)
    assert 0 < len(learner.model_.edges) < 4 and len(edges) == 10


def test_tan_is_the_best_tree_below_the_class():
    rows = rows_of()
    best = -np.inf
    for tree in all_trees(4):
        star = [("x4", f"x{v}") for v in range(4)]
        arcs = directed(tree)
        best = max(best, bl.structure_score(star + arcs, rows, "log_likelihood"))
    learner = bl.BNLearner("tan", target="x4").fit(rows)
    assert bl.structure_score(learner.model_, rows, "log_likelihood") == pytest.approx(best)
    naive = bl.BNLearner("naive_bayes", target="x4").fit(rows)
    assert set(naive.model_.edges) == {("x4", f"x{v}") for v in range(4)}


def directed(tree):
    arcs, reached, waiting = [], [0], list(tree)
    while reached:
        u = reached.pop()
        for edge in [e for e in waiting if u in e]:
            waiting.remove(edge)
            v = edge[0] if edge[1] == u else edge[1]
            arcs.append((f"x{u}", f"x{v}"))
            reached.append(v)
    return arcs


@pytest.mark.parametrize("binary", [True, False])
def test_mutual_information_is_its_definition(binary):
    rows = rows_of(80) % 2 if binary else rows_of(80)
    rows[:, 4] = 0 if binary else rows[:, 4]
    weights = np.random.default_rng(1).integers(1, 4, 80).astype(float)
    found = mutual_information(read_rows(rows, weights=weights))
    many = np.repeat(rows, weights.astype(int), axis=0)
    for u, v in combinations(range(5), 2):
        joint = np.histogram2d(many[:, u], many[:, v], bins=(np.arange(-0.5, 4), np.arange(-0.5, 4)))[0] / len(many)
        expected = joint / np.maximum(joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True), 1e-300)
        information = (joint * np.log(np.where(joint > 0, expected, 1.0))).sum()
        assert found[u, v] == pytest.approx(information, abs=1e-12) == pytest.approx(found[v, u], abs=1e-12)


def test_the_root_of_a_tree_may_be_chosen_and_held_out_rows_are_scored():
    rows = rows_of()
    learners = [bl.BNLearner("chow_liu", root=root, estimate="mle").fit(rows) for root in ("x0", "x2")]
    assert learners[1].model_.parents("x2") == ()
    assert learners[0].score(rows) == pytest.approx(learners[1].score(rows))
    assert all(u != v for u, v in pairwise(learners[0].model_.edges))


# -- the classifier -------------------------------------------------------------------------------------------------
@parametrize_with_checks([bl.BNClassifier()])
def test_classifier_has_the_manners_of_scikit_learn(estimator, check):
    check(estimator)


def test_naive_bayes_is_categorical_naive_bayes():
    from sklearn.naive_bayes import CategoricalNB

    rows = rows_of()
    X, y = rows[:, :4], np.array(["no", "maybe", "yes"])[rows[:, 4]]
    ours = bl.BNClassifier("naive_bayes", prior="laplace").fit(X, y)
    theirs = CategoricalNB(alpha=1.0, class_prior=ours.model_.cpt("y")).fit(X, y)
    assert ours.predict_proba(X) == pytest.approx(theirs.predict_proba(X))
    assert (ours.predict(X) == theirs.predict(X)).all() and ours.classes_.tolist() == ["maybe", "no", "yes"]


def test_classifier_takes_frames_with_words_and_holes():
    import pandas as pd

    rows = rows_of()
    X = pd.DataFrame({"u": np.array(["p", "q", "r"])[rows[:, 0]], "v": rows[:, 2]})
    found = bl.BNClassifier("tan").fit(X, rows[:, 1])
    asked = X[:4].copy()
    asked.loc[0, "u"] = None
    posterior = found.predict_proba(asked)
    first = bl.infer(found.model_.condition({"v": str(asked.loc[0, "v"])})).marginal("y")
    assert posterior[0] == pytest.approx(first) and posterior.shape == (4, 2)


def test_a_tree_from_rows_with_holes_is_chosen_by_em():
    rng = np.random.default_rng(8)
    n, card = 5, [2, 3, 2, 2, 3]
    network = bl.BNLearner(
        [("x0", "x1"), ("x1", "x2"), ("x1", "x3"), ("x3", "x4")], states={f"x{v}": range(k) for v, k in enumerate(card)}
    ).fit(rng.integers(0, card, (20, n))).model_  # fmt: skip
    rows = network.sample(80, seed=1)
    rows[rng.random(rows.shape) < 0.35] = -1
    weights = rng.random(len(rows)) + 0.5
    table = read_rows(rows, network.graph.naming, weights=weights)
    found, log_likelihood = expected_pairs(
        Structure(network.graph.naming, network.graph.layout), np.array(network.probabilities), table
    )
    expected, total = np.zeros_like(found), 0.0
    start = network.graph.layout.state_ptr
    for row, weight in zip(rows, weights, strict=True):
        states = np.array(list(product(*(range(k) if x < 0 else [x] for x, k in zip(row, card, strict=True)))))
        p = np.exp([network.log_score(x) for x in states])
        total += weight * np.log(p.sum())
        for x, share in zip(states, weight * p / p.sum(), strict=True):
            expected[np.ix_(start[:-1] + x, start[:-1] + x)] += share
    assert found == pytest.approx(expected, abs=1e-9) and log_likelihood == pytest.approx(total)
    # a tree learned from holes is about as good as one from the whole rows
    truth = bl.BNLearner([("x0", "x1"), ("x1", "x2"), ("x2", "x3")], "dirichlet(alpha=0.3)").fit(
        rng.integers(0, 2, (12, 4))
    ).model_  # fmt: skip
    seen = truth.sample(3000, seed=2)
    holed = np.where(rng.random(seen.shape) < 0.3, -1, seen)
    by_em, whole = bl.BNLearner("chow_liu").fit(holed), bl.BNLearner("chow_liu").fit(seen)
    assert by_em.result_.tree_weight == pytest.approx(whole.result_.tree_weight, rel=0.1)
    assert by_em.score(seen) == pytest.approx(whole.score(seen), abs=0.02)


def test_a_tree_below_a_target_from_rows_with_holes_is_chosen_by_em():
    """Expected counts given the target equal enumeration, the objective never falls, the tree is that of whole rows."""
    rng = np.random.default_rng(9)
    card = [2, 3, 2, 2, 3]
    arcs = [("x4", f"x{v}") for v in range(4)] + [("x0", "x1"), ("x1", "x2"), ("x1", "x3")]
    states = {f"x{v}": range(k) for v, k in enumerate(card)}
    truth = bl.BNLearner(arcs, "dirichlet(alpha=0.4)", states=states).fit(rng.integers(0, card, (12, 5))).model_
    whole = truth.sample(4000, seed=3)
    rows = np.where(rng.random(whole.shape) < 0.25, -1, whole)
    weights = rng.random(4000) + 0.5
    table = read_rows(rows, truth.graph.naming, weights=weights)
    rounds: list[list[np.ndarray]] = []

    def recorded(classes, best):
        def noted(found):
            rounds.append(found)
            return best(found)

        pairs, trace = pairs_given_target(classes, noted)
        assert (np.diff(trace) > -1e-9 * abs(trace[0])).all() and len(trace) > 2
        return pairs, trace

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beliefs.learning.networks.trees.pairs_given_target", recorded)
        found = SEARCHES[2]().of(truth.graph.naming, table, 4, 0)
    complete = SEARCHES[2]().of(truth.graph.naming, read_rows(whole, truth.graph.naming), 4, 0)
    assert [set(found.structure.parents(v)) for v in range(5)] == [set(complete.structure.parents(v)) for v in range(5)]
    assert found.weight == pytest.approx(complete.weight, rel=0.15)
    # one E-step by hand: the tables of round 0 give the counts of round 1
    imaginary = 1.0 / np.multiply.outer(*2 * [np.repeat(card[:4], card[:4])])
    start = np.concatenate([[0], np.cumsum(card[:4])])
    expected = np.zeros((3, start[-1], start[-1]))
    target = table.codes[4]
    known = np.array([weights[target == c].sum() for c in range(3)])
    prior = (known + 1 / 3) / (known.sum() + 1)
    weights_of = [count[:2, :2].sum() for count in rounds[0]]
    information = sum(w * of_pairs(count, np.array(card[:4])) for w, count in zip(weights_of, rounds[0], strict=True))
    above = spanning_tree(information, 0)
    tables = {}
    for c in range(3):
        counts = rounds[0][c]
        for v, u in enumerate(above):
            mine = slice(start[v], start[v + 1])
            own = counts[start[u] : start[u + 1], mine] if u >= 0 else np.diag(counts[mine, mine])[None]
            tables[c, v] = own / own.sum(axis=1, keepdims=True)
    for row, weight in zip(rows, weights, strict=True):
        ways = product(*(range(k) if x < 0 else [x] for x, k in zip(row, card, strict=True)))
        shares = {
            x: prior[x[4]] * np.prod([tables[x[4], v][x[u] if u >= 0 else 0, x[v]] for v, u in enumerate(above)])
            for x in ways
        }
        total = sum(shares.values())
        for x, share in shares.items():
            cells = start[:-1] + np.array(x[:4])
            expected[x[4]][np.ix_(cells, cells)] += weight * share / total
    assert np.array(rounds[1]) == pytest.approx(expected + imaginary, rel=1e-9, abs=1e-9)
    only_target = np.where(np.arange(5) == 4, rows, whole)
    alone = bl.BNLearner("tan", target="x4").fit(only_target)
    assert set(alone.model_.parents("x2")) == {"x1", "x4"} and (alone.predict(only_target) >= 0).all()
    assert bl.BNLearner("tan", target="x1").fit(rows[:50, :2]).model_.parents("x0") == ("x1",)
