"""Every way to fit a field: what it finds, what it says, what it refuses, and how it is kept."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import beliefs as bl
from beliefs.errors import FormatError, ModelError

STATES = np.array(list(product((0, 1), repeat=4)))
RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
CONVEX = ("pseudo_likelihood", "composite_likelihood", "minimum_probability_flow")


def truth():
    rng = np.random.default_rng(0)
    return bl.FactorGraph.pairwise(0.4 * rng.normal(size=(4, 2)), RING, 0.6 * rng.normal(size=(4, 2, 2)))


def law_of(graph):
    logs = np.array([graph.log_score(x) for x in STATES])
    return np.exp(logs - np.logaddexp.reduce(logs))


def divergence(p, q):
    return float(p @ np.log(p / q))


def rows_of(n, seed=1):
    return STATES[np.random.default_rng(seed).choice(16, p=law_of(truth()), size=n)]


def test_all_methods_find_the_truth_in_the_population():
    """Rows in the proportions of the truth: who is consistent, and that surrogates are not."""
    field, p = truth(), law_of(truth())
    for method in ("ipf", "likelihood", *CONVEX):
        learner = bl.MRFLearner(field, method=method, tol=1e-7).fit(STATES, sample_weight=p)
        assert divergence(p, law_of(learner.model_)) < 1e-10, method
        assert learner.method_ == method and learner.result_.bound is bl.Bound.EXACT
    surrogate = bl.MRFLearner(field, inference="trw").fit(STATES, sample_weight=p)
    assert divergence(p, law_of(surrogate.model_)) > 1e-5
    for method in ("stochastic_likelihood", "contrastive_divergence"):
        learner = bl.MRFLearner(field, method=method, max_iters=300, seed=1).fit(STATES, sample_weight=p)
        assert divergence(p, law_of(learner.model_)) < 0.01
        assert learner.result_.reason == "300 updates were made"


def test_errors_fall_as_one_over_the_rows():
    """The divergence from the truth times the rows is about half the number of free weights, whatever the rows."""
    p, free = law_of(truth()), bl.MRFLearner(truth()).fit(rows_of(500)).result_.n_parameters
    for method in CONVEX:
        scaled = [
            n * np.mean([divergence(p, law_of(bl.MRFLearner(truth(), method=method).fit(rows_of(n, s)).model_))
                         for s in range(6)])
            for n in (1000, 16000)
        ]  # fmt: skip
        assert all(0.2 * free < s < 1.2 * free for s in scaled)


def test_hidden_variables_by_gradient_and_by_em():
    """P25: the objective of EM never rises; gradient and EM have the same stationary points."""
    rows = rows_of(400)
    rows[:, 3] = -1
    star = bl.FactorGraph.pairwise(np.zeros((4, 2)), [(0, 3), (1, 3), (2, 3)], np.zeros((3, 2, 2)))
    fits = {m: bl.MRFLearner(star, method=m, l2=1e-3, tol=1e-6, seed=2).fit(rows) for m in ("likelihood", "em")}
    assert np.diff(fits["em"].result_.trace.loss).max() < 1e-12
    assert fits["em"].result_.objective == pytest.approx(fits["likelihood"].result_.objective, abs=1e-8)
    assert fits["em"].result_.log_likelihood == pytest.approx(fits["em"].score(rows), abs=1e-12)
    several = bl.MRFLearner(star, l2=1e-3, n_restarts=3).fit(rows).result_
    assert several.restarts.size == 3 and several.objective == several.restarts.max()
    filled = fits["em"].predict(rows)
    assert (filled[:, :3] == rows[:, :3]).all() and (filled[:, 3] >= 0).all()
    flow = bl.MRFLearner(star, method="minimum_probability_flow", l2=1e-3, seed=2).fit(rows)
    assert flow.score(rows) > fits["em"].score(rows) - 0.01
    with pytest.raises(ModelError, match="composite_likelihood needs complete rows"):
        bl.MRFLearner(star, method="composite_likelihood").fit(rows)


def test_auto_says_what_it_took_and_why():
    dense = [(u, v) for v in range(40) for u in range(v)]
    rows = np.random.default_rng(3).integers(0, 2, (2000, 40))
    learner = bl.MRFLearner(dense, l2=0.01, max_bytes=1e6, max_iters=3, tol=1e-2).fit(rows)
    assert learner.method_ == "pseudo_likelihood" and "exact inference does not fit" in learner.result_.reason
    assert learner.result_.bound is bl.Bound.LOWER
    assert "has no chord" in bl.MRFLearner(truth()).fit(rows_of(500)).result_.reason
    few = rows_of(500)
    few = few[~((few[:, 0] == 1) & (few[:, 1] == 1))]
    for method in CONVEX:
        with pytest.raises(ModelError, match=r"x0=1, x1=1 never occurs, so the maximum is at infinity; set l2"):
            bl.MRFLearner(truth(), method=method).fit(few)


def test_identifiable_weights():
    """K - 1 a vertex, then the edges' in the model's order, and the same distribution."""
    rows = rows_of(2000)
    tables = bl.MRFLearner(truth(), tol=1e-8).fit(rows)
    for method in ("likelihood", "ipf"):
        learner = bl.MRFLearner(truth(), method=method, form="identifiable", tol=1e-8).fit(rows)
        assert law_of(learner.model_) == pytest.approx(law_of(tables.model_), abs=1e-7)
        logs = dict(zip(map(tuple, STATES.tolist()), np.log(law_of(learner.model_)), strict=True))
        zero = logs[0, 0, 0, 0]
        expected = [logs[tuple(x)] - zero for x in np.eye(4, dtype=int).tolist()]
        for edge in RING:
            both = np.isin(np.arange(4), edge).astype(int)
            expected.append(logs[tuple(both.tolist())] - zero - sum(expected[v] for v in edge))
        assert learner.weights_ == pytest.approx(expected, abs=1e-6)
    lasso = bl.MRFLearner(truth(), form="identifiable", l1=0.05).fit(rows)
    assert lasso.weights_.size == 8 and (lasso.weights_ == 0.0).any()
    with pytest.raises(ModelError, match=r"pairwise fields, found a factor of \(x0, x1, x2\)"):
        bl.MRFLearner([("x0", "x1", "x2")], form="identifiable").fit(rows)


def test_counts_files_and_frames(tmp_path):
    frame = pd.DataFrame(np.array(["no", "yes"])[rows_of(300)], columns=list("abcd"))
    scopes = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    learner = bl.MRFLearner(scopes, method="pseudo_likelihood").fit(frame)
    assert learner.counts_["a", "b"] == pytest.approx(pd.crosstab(frame["a"], frame["b"]).to_numpy())
    path = tmp_path / "field.npz"
    learner.save(path)
    again = bl.MRFLearner.load(path)
    assert (again.model_.theta == learner.model_.theta).all() and again.method_ == "pseudo_likelihood"
    assert (again.score_samples(frame) == learner.score_samples(frame)).all()
    assert (again.counts_["c", "d"] == learner.counts_["c", "d"]).all()
    holes = frame.head(20).copy()
    holes.loc[3, "b"] = None
    filled = again.predict(holes)
    assert list(filled.columns) == list("abcd") and filled.loc[3, "b"] in ("no", "yes")
    assert again.sample(5, seed=1).shape == (5, 4)
    with pytest.raises(FormatError, match="holds no fitted BNLearner"):
        bl.BNLearner.load(path)


def test_learners_are_scikit_learns():
    rows, learner = rows_of(200), bl.MRFLearner(truth(), method="pseudo_likelihood", l2=0.1)
    assert clone(learner).get_params()["l2"] == 0.1
    found = GridSearchCV(learner, {"l2": [1e-4, 10.0]}, cv=2).fit(rows)
    assert found.best_params_ == {"l2": 1e-4}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inference": "gibbs"}, "gives estimates, which a likelihood cannot use"),
        ({"method": "pseudo_likelihood", "ess": 1.0}, "imaginary rows"),
        ({"method": "em", "l1": 0.1}, "em has no l1"),
        ({"method": "ipf", "optimizer": "adam"}, "an optimizer of its own"),
        ({"method": "stochastic_likelihood", "optimizer": "lbfgs"}, "gives estimates"),
        ({"form": "magic"}, "form must be tables or identifiable"),
        ({"chains": 0}, "chains"),
    ],
)
def test_what_cannot_be_is_refused_before_work(options, message):
    learner = bl.MRFLearner(truth(), **options)
    with pytest.raises(ModelError, match=message):
        learner.fit(rows_of(100))
    assert not hasattr(learner, "model_")
