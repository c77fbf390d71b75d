"""Networks from complete rows: tables, priors, posteriors, files and the manners of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import CategoricalNB

import beliefs as bl
from beliefs.errors import BudgetError, DataWarning, FormatError, ModelError
from beliefs.learning.networks.priors import NetworkPrior

ARCS = [("a", "c"), ("b", "c"), ("c", "d")]


def frame(n=400, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 2, n), rng.integers(0, 3, n)
    c = (a + b + rng.integers(0, 2, n)) % 3
    d = np.where(rng.random(n) < 0.8, c > 0, c == 0).astype(int)
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d})


def counted(rows, child, parents, cards):
    """Counts by their definition, axes (parents..., child)."""
    found = np.zeros([cards[v] for v in [*parents, child]])
    for row in rows.to_dict("records"):
        found[tuple(row[v] for v in [*parents, child])] += 1
    return found


CARDS = {"a": 2, "b": 3, "c": 3, "d": 2}
FAMILIES = {"a": [], "b": [], "c": ["a", "b"], "d": ["c"]}


def test_counts_and_maximum_likelihood_are_relative_frequencies():
    rows = frame()
    learner = bl.BNLearner(ARCS, estimate="mle").fit(rows)
    for child, parents in FAMILIES.items():
        expected = counted(rows, child, parents, CARDS)
        assert (learner.counts_[child] == expected).all()
        assert learner.model_.cpt(child) == pytest.approx(expected / expected.sum(axis=-1, keepdims=True))
    assert learner.result_.n_parameters == 1 + 2 + 6 * 2 + 3
    assert learner.result_.bound is bl.Bound.EXACT and learner.result_.converged


@pytest.mark.parametrize(
    ("prior", "alpha"),
    [
        ("bdeu(ess=6)", lambda size: 6 / size),
        ("k2", lambda size: 1.0),
        ("laplace", lambda size: 1.0),
        ("dirichlet(alpha=0.5)", lambda size: 0.5),
    ],
)
def test_posterior_mean_adds_imaginary_rows(prior, alpha):
    rows = frame(30)
    learner = bl.BNLearner(ARCS, prior=prior).fit(rows)
    for child, parents in FAMILIES.items():
        expected = counted(rows, child, parents, CARDS)
        expected += alpha(expected.size)
        assert learner.model_.cpt(child) == pytest.approx(expected / expected.sum(axis=-1, keepdims=True))


def test_mode_takes_one_off_and_is_refused_below_one():
    rows = frame(50)
    found = bl.BNLearner(ARCS, prior="dirichlet(alpha=3)", estimate="map").fit(rows).model_.cpt("d")
    expected = counted(rows, "d", ["c"], CARDS) + 2
    assert found == pytest.approx(expected / expected.sum(axis=-1, keepdims=True))
    with pytest.raises(ModelError, match="at least 1, found 0.5.*'mean'"):
        bl.BNLearner(ARCS, prior="dirichlet(alpha=0.5)", estimate="map").fit(rows)


def test_a_network_as_prior_gives_its_family_marginals():
    given = bl.BNLearner([("d", "c"), ("c", "a")]).fit(frame(60)).model_  # other arcs than those to be learned
    rows = frame(20, seed=1)
    learner = bl.BNLearner(ARCS, prior=NetworkPrior(given, 7.0), states=dict(given_states(given))).fit(rows)
    asked = bl.infer(given, "enumeration")
    for child, parents in FAMILIES.items():
        expected = counted(rows, child, parents, CARDS) + 7.0 * asked.marginal([*parents, child])
        assert learner.model_.cpt(child) == pytest.approx(expected / expected.sum(axis=-1, keepdims=True))


def given_states(network):
    return {v.name: v.states for v in network.variables}


def test_unseen_parents_are_uniform_with_one_warning():
    rows = pd.DataFrame({"a": pd.Categorical(["x", "x"], ["x", "y", "z"]), "b": ["u", "v"]})
    with pytest.warns(DataWarning, match="2 columns of tables never occur.*'b' given a=y") as caught:
        learner = bl.BNLearner([("a", "b")], estimate="mle").fit(rows)
    assert len(caught) == 1 and learner.result_.n_uniform == 2
    assert learner.model_.cpt("b").tolist() == [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]


def test_tied_tables_share_counts_and_fixed_ones_stay():
    rows = pd.DataFrame({"x": [0, 1, 1, 0, 1], "y": [0, 0, 1, 1, 1], "z": [1, 1, 0, 0, 1]})
    learner = bl.BNLearner([("x", "y"), ("y", "z")], estimate="mle", tied=[("y", "z")]).fit(rows)
    pooled = counted(rows, "y", ["x"], dict.fromkeys("xyz", 2)) + counted(rows, "z", ["y"], dict.fromkeys("xyz", 2))
    expected = pooled / pooled.sum(axis=-1, keepdims=True)
    assert learner.model_.cpt("y") == pytest.approx(expected) and learner.model_.cpt("z") == pytest.approx(expected)
    held = bl.BNLearner(learner.model_, fixed=["x"]).fit(rows[:2])
    assert held.model_.cpt("x") == pytest.approx(learner.model_.cpt("x"))
    assert held.model_.cpt("y") != pytest.approx(expected)
    with pytest.raises(ModelError, match="one shape"):
        bl.BNLearner([("x", "y")], tied=[("x", "y")]).fit(rows)


def test_credible_intervals_hold_the_posterior():
    learner = bl.BNLearner(ARCS, prior="k2").fit(frame(40))
    low, high = learner.credible_interval("d", 0.9)
    drawn = np.array([network.cpt("d") for network in learner.sample_networks(800, seed=3)])
    assert ((low < drawn) & (drawn < high)).mean(axis=0) == pytest.approx(0.9, abs=0.04)
    assert drawn.mean(axis=0) == pytest.approx(learner.model_.cpt("d"), abs=0.02)
    with pytest.raises(ModelError, match="needs a prior"):
        bl.BNLearner(ARCS, estimate="mle").fit(frame(40)).credible_interval("d")


def test_chunks_threads_weights_and_partial_fits_count_alike(tmp_path):
    rows = frame(3000)
    network = bl.BNLearner(ARCS).fit(rows).model_
    whole = bl.BNLearner(network).fit(rows)
    frame_chunks = [rows[:7], rows[7:1500], rows[1500:]]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    others = [
        bl.BNLearner(network).fit(iter(frame_chunks)),
        bl.BNLearner(network, n_jobs=2).fit(rows),
        bl.BNLearner(network).fit(tmp_path / "rows.csv"),
        bl.BNLearner(network).fit(rows.to_numpy()),
        bl.BNLearner(network).fit(rows.drop_duplicates(), rows.value_counts(sort=False).sort_index().loc[
            pd.MultiIndex.from_frame(rows.drop_duplicates())].to_numpy()),
    ]  # fmt: skip
    partial = bl.BNLearner(network)
    for chunk in frame_chunks:
        partial.partial_fit(chunk)
    for other in [*others, partial]:
        assert other.model_.probabilities.tobytes() == whole.model_.probabilities.tobytes()
        assert all((other.counts_[v] == whole.counts_[v]).all() for v in CARDS)
    by_states = bl.BNLearner(ARCS, states={v: [str(k) for k in range(card)] for v, card in CARDS.items()})
    assert (by_states.partial_fit(rows).counts_["c"] == whole.counts_["c"]).all()


def test_partitions_stay_where_they_are(monkeypatch):
    array = pytest.importorskip("dask.array")
    rows = frame(300).to_numpy().copy()
    network = bl.BNLearner(ARCS).fit(frame(300)).model_
    rows[5, 2] = -1
    whole = bl.BNLearner(network, start="model", max_iters=2).fit(rows)
    data = array.from_array(rows, chunks=(70, 2))
    monkeypatch.setattr(type(data), "compute", None)  # the rows are never asked for
    found = bl.BNLearner(network, start="model", max_iters=2).fit(data)
    assert found.model_.probabilities == pytest.approx(whole.model_.probabilities, abs=1e-12)
    assert (found.counts_["a"] == whole.counts_["a"]).all()


def test_parquet_files_are_read_in_batches(tmp_path):
    pytest.importorskip("pyarrow")
    rows = frame(200).astype(str).astype("category")
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=60)
    found, whole = bl.BNLearner(ARCS).fit(tmp_path / "rows.parquet"), bl.BNLearner(ARCS).fit(rows)
    assert (found.counts_["c"] == whole.counts_["c"]).all()
    (tmp_path / "bad.parquet").write_text("no table")
    with pytest.raises(FormatError, match="not a table of rows"):
        bl.BNLearner(ARCS).fit(tmp_path / "bad.parquet")


def test_lines_with_more_cells_than_names_are_refused(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2,3\n4,5,6\n")
    with pytest.raises(FormatError, match="more cells than the first has names"):
        bl.BNLearner([]).fit(tmp_path / "rows.csv")


def test_families_with_more_cells_than_rows_are_counted_sparsely():
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 12, (50, 5))
    arcs = [(f"x{k}", "x4") for k in range(4)]
    learner = bl.BNLearner(arcs).fit(rows)
    counts: Any = learner.counts_["x4"]
    card = [learner.model_.variables[v].card for v in range(5)]
    assert counts.nnz == len(np.unique(rows, axis=0)) and counts.shape == (np.prod(card[:4]), card[4])
    at: Any = np.ravel_multi_index(rows[:, :4].T, card[:4])
    assert all(counts[r, x] >= 1 for r, x in zip(at, rows[:, 4], strict=True))
    assert np.asarray(learner.model_.cpt("x4").reshape(counts.shape)[at[0]]).sum() == pytest.approx(1)
    dense = bl.structure_score(arcs, np.tile(rows, (5000, 1)), "log_likelihood") / 5000
    assert bl.structure_score(arcs, rows, "log_likelihood") == pytest.approx(dense)


def test_scores_of_rows_and_samples():
    rows = frame()
    learner = bl.BNLearner(ARCS).fit(rows)
    scores = learner.score_samples(rows)
    assert scores[:5] == pytest.approx([learner.model_.log_score(row) for row in rows.to_numpy()[:5]])
    assert learner.score(rows) == pytest.approx(scores.mean()) == pytest.approx(learner.result_.log_likelihood)
    assert bl.log_likelihood(learner.model_, rows).per_row == pytest.approx(scores)
    drawn = learner.sample(4000, seed=1)
    assert (drawn[:, 0] == 1).mean() == pytest.approx(learner.model_.cpt("a")[1], abs=0.03)


def test_predict_fills_missing_cells_by_their_likeliest_states():
    rows = frame().astype("Int64")
    learner = bl.BNLearner(ARCS).fit(rows)
    asked = rows[:6].copy()
    asked.loc[0, "d"] = asked.loc[1, "c"] = asked.loc[1, "a"] = pd.NA
    filled = learner.predict(asked)
    for row, found in zip(asked.to_dict("records"), filled.to_dict("records"), strict=True):
        evidence = {v: str(x) for v, x in row.items() if not pd.isna(x)}
        best = bl.infer(learner.model_.condition(evidence), "enumeration").mpm()
        assert [found[v] for v in CARDS] == [str(x) for x in best]
    assert (learner.predict(np.array([[0, 1, 2, -1]]))[0, :3] == [0, 1, 2]).all()


def test_learners_are_saved_cloned_and_searched(tmp_path):
    rows = frame(120)
    learner = bl.BNLearner(ARCS, prior="k2").fit(rows)
    learner.save(tmp_path / "learner.npz")
    again = bl.BNLearner.load(tmp_path / "learner.npz")
    assert again.score(rows) == learner.score(rows) and again.prior == "k2"
    assert again.partial_fit(rows[:10]).counts_["d"].sum() == 130
    with pytest.raises(FormatError, match="no fitted BNLearner"):
        np.savez(tmp_path / "other.npz", a=np.zeros(1))
        bl.BNLearner.load(tmp_path / "other.npz")
    assert not hasattr(clone(learner), "model_")
    search = GridSearchCV(
        bl.BNLearner(ARCS, states={v: [str(k) for k in range(card)] for v, card in CARDS.items()}),
        {"prior": ["bdeu(ess=1)", "bdeu(ess=1000)"]},
        cv=3,
    ).fit(rows)
    assert search.best_params_ == {"prior": "bdeu(ess=1)"}


def test_continuous_columns_are_refused_or_binned():
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({"u": rng.normal(size=200), "v": rng.integers(0, 2, 200)})
    with pytest.raises(ModelError, match="'u', row 0: .* continuous; bin the column"):
        bl.BNLearner([("u", "v")]).fit(rows)
    learner = bl.BNLearner([("u", "v")], bins=4).fit(rows)
    assert learner.counts_["u"].tolist() == [50, 50, 50, 50]
    assert len(learner.score_samples(pd.DataFrame({"u": [-99.0, np.nan], "v": [0, 1]}))) == 2
    assert learner.model_.variables[0].states[0].startswith("[-inf, ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure": [("a", "c"), ("c", "a")]}, "cycle"),
        ({"structure": [("a", "nobody")]}, "no variable 'nobody'"),
        ({"structure": "chow_lou"}, "did you mean 'chow_liu'"),
        ({"structure": 7}, "structure must be a network"),
        ({"structure": "tan"}, "needs target"),
        ({"structure": ARCS, "prior": "bdeu(ess=0)"}, "ess must be a number above 0"),
        ({"structure": ARCS, "prior": 3}, "prior must be"),
        ({"structure": ARCS, "estimate": "best"}, "estimate must be one of mle, map, mean"),
        ({"structure": ARCS, "fixed": ["a"]}, "given network"),
        ({"structure": ARCS, "start": "model"}, "given network"),
        ({"structure": ARCS, "n_restarts": 0}, "n_restarts"),
        ({"structure": ARCS, "tied": 3}, "tied must be a list of groups of variables, found 3"),
        ({"structure": ARCS, "fixed": "ab"}, "fixed must be a list of variables, found 'ab'"),
        ({"structure": ARCS, "states": "ab"}, "states must be a mapping of columns to states, found 'ab'"),
        ({"structure": ARCS, "max_bytes": "1 GB"}, "max_bytes must be None or a number of at least 0, found '1 GB'"),
        ({"structure": ARCS, "max_iters": 1.5}, "max_iters must be None or an integer"),
        ({"structure": ARCS, "tol": np.nan}, "tol must be None or a number of at least 0, found nan"),
        ({"structure": ARCS, "callback": 3}, "callback must be a function, found 3"),
        ({"structure": ARCS, "progress": "yes"}, "progress must be True or False, found 'yes'"),
        ({"structure": [*ARCS, ("h", "a")]}, "no variable 'h'"),
    ],
)
def test_bad_options_are_refused_and_nothing_is_fitted(options, message):
    learner = bl.BNLearner(**options)
    with pytest.raises(ModelError, match=message):
        learner.fit(frame(20))
    assert not hasattr(learner, "model_")


def test_what_is_no_table_is_refused():
    for learner in (bl.BNLearner("chow_liu"), bl.MRFLearner("chow_liu")):
        with pytest.raises(
            ModelError, match=r"rows must be a table, a list of rows or columns by name, found NoneType"
        ):
            learner.fit(None)
    with pytest.raises(ModelError, match=r"holds words, not states 0, 1, .*data frame"):
        bl.BNClassifier().fit(np.array([["a", "b"], ["b", "a"]]), [0, 1])


def test_states_of_features_that_the_fit_does_not_see_are_named():
    seen, later = np.array([[0, 0], [0, 1], [0, 0]] * 5), np.array([[1, 1], [0, 0]])
    with pytest.raises(ModelError, match="column 'x0', row 0: expected states 0..0, found 1"):
        bl.BNClassifier("naive_bayes").fit(seen, seen[:, 1]).predict(later)
    named = bl.BNClassifier("naive_bayes", states={"x0": [0, 1]}).fit(seen, seen[:, 1])
    frame = bl.BNClassifier("naive_bayes").fit(
        pd.DataFrame({"x0": pd.Categorical(seen[:, 0], [0, 1]), "x1": pd.Categorical(seen[:, 1])}), seen[:, 1]
    )
    assert named.model_.states("x0") == ("0", "1")
    np.testing.assert_array_equal(named.model_.cpt("x0"), frame.model_.cpt("x0"))
    assert named.predict(later).tolist() == [1, 0]
    with pytest.raises(ModelError, match="states must be a mapping of columns to states, found 3"):
        bl.BNClassifier(states=3).fit(seen, seen[:, 1])


def test_states_are_texts_and_at_least_one():
    rows = np.array([[0, 1], [1, 0]] * 3)
    for learner in (bl.BNLearner, bl.MRFLearner):
        assert learner("chow_liu", states={"x0": [0, 1, 2]}).fit(rows).model_.states("x0") == ("0", "1", "2")
        with pytest.raises(ModelError, match="states of 'x0' must be a list of at least one, found"):
            learner("chow_liu", states={"x0": []}).fit(rows)


def test_naive_bayes_is_that_of_scikit_learn():
    """Laplace's prior is its ``alpha=1``, which counts classes too; scikit-learn's own prior of classes does not."""
    rng = np.random.default_rng(0)
    rows, classes = rng.integers(0, 3, (80, 5)), rng.integers(0, 3, 80)
    rows[:, 0] = (rows[:, 0] + classes) % 3
    smooth = (np.bincount(classes) + 1) / (80 + 3)
    theirs = CategoricalNB(alpha=1.0, class_prior=smooth).fit(rows, classes)
    ours = bl.BNClassifier("naive_bayes", prior="laplace(alpha=1)").fit(rows, classes)
    np.testing.assert_allclose(ours.predict_proba(rows), theirs.predict_proba(rows), rtol=1e-12)


def test_no_posterior_is_above_one():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (300, 40))
    rows[:, ::2] |= rows[:, :1]
    classifier = bl.BNClassifier("naive_bayes", prior="laplace").fit(rows, rows[:, 0])
    assert classifier.predict_proba(rows).max() <= 1.0


def test_a_family_over_the_budget_is_predicted():
    with pytest.raises(BudgetError, match="'c' is the largest"):
        bl.BNLearner(ARCS, max_bytes=100).fit(frame(20))


def test_rows_of_dicts_and_absent_columns():
    """Rows may be dicts; what a fitted learner is asked about may lack columns, which are unknown cells."""
    frame = bl.sample(bl.datasets.load_bn("asia"), 300, seed=1).to_frame()
    learner = bl.BNLearner("chow_liu").fit(frame)
    records = [{name: str(x) for name, x in row.items()} for row in frame.to_dict("records")]
    assert bl.BNLearner("chow_liu").fit(records).model_.edges == learner.model_.edges
    assert bl.BNLearner("chow_liu").fit([row for _, row in frame.iterrows()]).model_.edges == learner.model_.edges
    assert bl.BNLearner("chow_liu").fit(iter(records)).model_.edges == learner.model_.edges
    np.testing.assert_array_equal(learner.score_samples(iter(records)), learner.score_samples(frame))
    with pytest.raises(bl.ModelError, match="two columns have the same name"):
        bl.BNLearner("chow_liu").fit([{"1": "a", 1: "b", "c": "d"}] * 2)
    blank = frame.assign(bronc=None)
    absent = frame.drop(columns=["bronc"])
    assert (learner.predict(absent)["bronc"] == learner.predict(blank)["bronc"]).all()
    assert list(learner.predict(absent)) == [*absent, "bronc"]
    np.testing.assert_array_equal(learner.predict_proba(absent, "bronc"), learner.predict_proba(blank, "bronc"))
    np.testing.assert_array_equal(learner.score_samples(absent), learner.score_samples(blank))
    assert learner.predict([{"smoke": "yes"}]).shape == (1, 8)
    with pytest.raises(bl.ModelError, match="no variable 'bronk' for this column; leave it out; did you mean 'bronc'"):
        learner.predict(absent.rename(columns={"smoke": "bronk"}))
    with pytest.raises(bl.ModelError, match="variable 'bronc' has no column; name it in hidden if it is never seen"):
        bl.BNLearner(learner.model_).fit(absent)
    with pytest.raises(bl.ModelError, match=r"found SampleResult; give its to_frame\(\)"):
        bl.BNLearner("chow_liu").fit(bl.sample(learner.model_, 3))
