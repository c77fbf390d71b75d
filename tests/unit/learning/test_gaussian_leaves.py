"""Gaussian leaves: mixtures against scikit-learn, Gaussian chains against Baum-Welch, rows against the density."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

import beliefs as bl
from beliefs.errors import ModelError
from beliefs.learning.networks.gaussian import expected_statistics, log_densities, maximised, statistics


def points(n=240, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, n)
    return np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]])[z] + rng.normal(size=(n, 2)) * [1.0, 0.6] + 2.0, z


def class_of(weights):
    return bl.BayesianNetwork.from_cpts([bl.Variable("z", len(weights))], {"z": ([], weights)})


def mixture(covariance="full", **options: Any) -> bl.BNLearner:
    start: dict[str, Any] = {
        "means": points()[0][:3],
        "covariances": np.array([np.eye(2) * (1.0 if covariance == "tied" else k) for k in (1.0, 2.0, 3.0)]),
    }
    leaf = bl.GaussianLeaf(("u", "v"), "z", covariance, 1e-12, **start)
    return bl.BNLearner(
        class_of([0.5, 0.3, 0.2]), estimate="mle", hidden=["z"], leaves={"x": leaf}, start="model", tol=0.0, **options
    )


@pytest.mark.parametrize("covariance", ["full", "diagonal", "tied"])
def test_a_mixture_is_scikit_learns_from_the_same_start(covariance):
    x, _ = points()
    learner = mixture(covariance, max_iters=8).fit(x)
    kind = {"diagonal": "diag"}.get(covariance, covariance)
    precisions: Any = np.array([np.eye(2) / (1.0 if covariance == "tied" else k) for k in (1.0, 2.0, 3.0)])
    precisions = {"full": precisions, "diagonal": np.diagonal(precisions, axis1=1, axis2=2), "tied": np.eye(2)}
    theirs = GaussianMixture(
        3, covariance_type=kind, reg_covar=0.0, tol=1e-300, max_iter=8, weights_init=[0.5, 0.3, 0.2],
        means_init=x[:3], precisions_init=precisions[covariance],
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its iterations are limited
        theirs.fit(x)
    leaf = learner.leaves_["x"]
    assert learner.model_.cpt("z") == pytest.approx(theirs.weights_, abs=1e-8)
    assert leaf.means == pytest.approx(theirs.means_, abs=1e-8)
    expected = [np.diag(c) for c in theirs.covariances_] if covariance == "diagonal" else theirs.covariances_
    assert leaf.covariances == pytest.approx(np.broadcast_to(expected, (3, 2, 2)), abs=1e-8)
    assert learner.score_samples(x) == pytest.approx(theirs.score_samples(x), abs=1e-8)
    assert learner.predict_proba(x, "z") == pytest.approx(theirs.predict_proba(x), abs=1e-8)
    assert learner.predict(x)[:, 0].tolist() == theirs.predict(x).tolist()
    assert learner.result_.log_likelihood == pytest.approx(theirs.score(x), abs=1e-8)
    assert learner.result_.n_parameters == theirs._n_parameters()
    assert np.diff(learner.result_.trace.loss).max() <= 1e-12


def test_large_means_cost_no_digits():
    x, _ = points()
    near, far = (mixture(max_iters=3).set_params(leaves={
        "x": bl.GaussianLeaf(("u", "v"), "z", means=x[:3] + shift, covariances=[np.eye(2)] * 3)
    }).fit(x + shift) for shift in (0.0, 1e6))  # fmt: skip
    assert far.leaves_["x"].covariances == pytest.approx(near.leaves_["x"].covariances, rel=1e-8)


def gaussian_baum_welch(initial, transition, means, variances, rows, n_iters):
    for _ in range(n_iters):
        first, pairs = np.zeros_like(initial), np.zeros_like(transition)
        n_k, sums, squares = (np.zeros_like(initial) for _ in range(3))
        for row in rows:
            emission = np.exp(-0.5 * (row[:, None] - means) ** 2 / variances) / np.sqrt(2 * np.pi * variances)
            n = len(row)
            forward, backward = np.zeros((n, len(initial))), np.ones((n, len(initial)))
            forward[0] = initial * emission[0]
            for t in range(1, n):
                forward[t] = (forward[t - 1] @ transition) * emission[t]
            for t in range(n - 2, -1, -1):
                backward[t] = transition @ (emission[t + 1] * backward[t + 1])
            z = forward[-1].sum()
            posterior = forward * backward / z
            first += posterior[0]
            n_k, sums, squares = n_k + posterior.sum(0), sums + row @ posterior, squares + row**2 @ posterior
            for t in range(n - 1):
                pairs += np.outer(forward[t], emission[t + 1] * backward[t + 1]) * transition / z
        initial, transition = first / first.sum(), pairs / pairs.sum(axis=1, keepdims=True)
        means = sums / n_k
        variances = squares / n_k - means**2
    return initial, transition, means, variances


def test_a_gaussian_hidden_chain_is_baum_welch():
    rng, n, k = np.random.default_rng(1), 5, 2
    initial, transition = np.array([0.6, 0.4]), np.array([[0.8, 0.2], [0.3, 0.7]])
    rows = rng.normal(size=(30, n)) + 3.0 * (rng.random((30, n)) < 0.5)
    names = [f"z{t}" for t in range(n)]
    cpts: dict[str, Any] = {"z0": ([], initial)}
    cpts |= {f"z{t}": ([f"z{t - 1}"], transition) for t in range(1, n)}
    chain = bl.BayesianNetwork.from_cpts([bl.Variable(name, k) for name in names], cpts)
    start: dict[str, Any] = {"means": [[0.0], [2.0]], "covariances": [[[1.0]], [[2.0]]]}
    leaves = {f"y{t}": bl.GaussianLeaf(f"x{t}", f"z{t}", "full", 1e-9, **start) for t in range(n)}
    learner = bl.BNLearner(
        chain, estimate="mle", hidden=names, leaves=leaves, tied=[names[1:], list(leaves)], start="model", max_iters=6,
        tol=0.0,
    ).fit(rows)  # fmt: skip
    expected = gaussian_baum_welch(initial, transition, np.array([0.0, 2.0]), np.array([1.0, 2.0]), rows, 6)
    assert learner.model_.cpt("z0") == pytest.approx(expected[0], abs=1e-10)
    assert learner.model_.cpt("z3") == pytest.approx(expected[1], abs=1e-10)
    for t in (0, 4):
        assert learner.leaves_[f"y{t}"].means[:, 0] == pytest.approx(expected[2], abs=1e-10)
        assert learner.leaves_[f"y{t}"].covariances[:, 0, 0] == pytest.approx(expected[3], abs=1e-10)


def two_parents(n=300, seed=2):
    """A leaf of two parents that are seen here and there, one of single numbers, and one without parents."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 2, n), rng.integers(0, 3, n)
    frame = pd.DataFrame({"a": a, "b": b, "c": (a + b) % 2}).astype("Int64")
    frame["u"], frame["v"] = a + 2.0 * b + rng.normal(size=n), b - a + rng.normal(size=n)
    frame["w"] = rng.normal(size=n) + 2 * (frame["c"] == 1).to_numpy(bool)
    frame["free"] = rng.normal(7.0, 2.0, n)
    holes = rng.random((n, 3)) < 0.3
    for k, name in enumerate("abc"):
        frame.loc[holes[:, k], name] = pd.NA
    frame.loc[5:9, ["u", "v"]] = np.nan
    frame.loc[7:11, "w"] = np.nan
    leaves = {
        "x": bl.GaussianLeaf(["u", "v"], ["a", "b"]),
        "y": bl.GaussianLeaf("w", ["c"], "diagonal"),
        "f": bl.GaussianLeaf("free"),
    }
    return frame, leaves


def test_rows_are_scored_and_filled_by_their_density():
    rows, leaves = two_parents()
    learner = bl.BNLearner([("a", "c")], leaves=leaves, max_iters=5).fit(rows)
    states = np.array([(a, b, c) for a in range(2) for b in range(3) for c in range(2)])
    prior = np.array([learner.model_.log_score(x) for x in states])
    scores, filled = learner.score_samples(rows), learner.predict(rows)
    for s in (0, 1, 2, 5, 8, 10, 40, 41):
        row, logs = rows.iloc[s], prior.copy()
        for k, state in enumerate(states):
            known = all(pd.isna(row[v]) or row[v] == x for v, x in zip("abc", state, strict=True))
            logs[k] += 0.0 if known else -np.inf
            for leaf in learner.leaves_.values():
                x = row[list(leaf.columns)].to_numpy(float)
                at = tuple(state["abc".index(p)] for p in leaf.parents)
                if not np.isnan(x).any():
                    logs[k] += multivariate_normal(leaf.means[at], leaf.covariances[at]).logpdf(x)
        assert scores[s] == pytest.approx(logsumexp(logs), abs=1e-9)
        posterior = np.exp(logs - logsumexp(logs))
        best = [np.bincount(states[:, v], posterior).argmax() for v in range(3)]
        assert [int(filled.loc[s, v]) for v in "abc"] == best
    assert learner.result_.log_likelihood == pytest.approx(scores.mean())
    assert np.diff(learner.result_.trace.loss).max() <= 1e-12
    free = learner.leaves_["f"]
    assert free.means == pytest.approx([rows["free"].mean()]) and free.covariances.shape == (1, 1)
    assert list(filled.columns) == list(rows.columns)


def test_complete_rows_need_no_em_and_weights_are_copies():
    x, z = points(60)
    rows = {"z": z, "u": x[:, 0], "v": x[:, 1]}
    leaves = {"x": bl.GaussianLeaf(["u", "v"], "z")}
    learner = bl.BNLearner([], leaves=leaves, states={"z": "012"}).fit(rows)
    assert learner.result_.n_iters == 0 and learner.score(rows) == pytest.approx(learner.result_.log_likelihood)
    for k in range(3):
        assert learner.leaves_["x"].means[k] == pytest.approx(x[z == k].mean(axis=0))
        assert learner.leaves_["x"].covariances[k] == pytest.approx(np.cov(x[z == k].T, bias=True))
    holed = {**rows, "z": np.where(np.arange(60) % 3, z, -1)}
    counts = np.arange(60) % 4
    again = {name: np.repeat(column, counts) for name, column in holed.items()}
    start: dict[str, Any] = {"means": x[:3], "covariances": [np.eye(2)] * 3}
    options: dict[str, Any] = {"leaves": {"x": bl.GaussianLeaf(["u", "v"], "z", **start)}, "start": "model",
                               "max_iters": 4}  # fmt: skip
    weighted = bl.BNLearner(class_of([0.2, 0.3, 0.5]), **options).fit(holed, counts)
    repeated = bl.BNLearner(class_of([0.2, 0.3, 0.5]), **options).fit(again)
    assert weighted.leaves_["x"].means == pytest.approx(repeated.leaves_["x"].means, abs=1e-9)
    assert weighted.result_.log_likelihood == pytest.approx(repeated.result_.log_likelihood)


def test_the_floor_is_the_maximum_over_matrices_above_it():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, 3)) * [2.0, 0.1, 1.0] @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    sums = statistics(x, np.ones((40, 1)), False)
    found = maximised(sums, 3, "full", 0.3, sums[0])[0]
    mean, best = found[1:4], found[4:].reshape(3, 3)
    assert np.linalg.eigvalsh(best).min() == pytest.approx(0.3)

    def value(matrix):
        return multivariate_normal(mean, matrix).logpdf(x).sum()

    for _ in range(50):  # no other matrix above the floor is better
        other = best + 0.05 * (lambda a: a + a.T)(rng.normal(size=(3, 3)))
        values, vectors = np.linalg.eigh(other)
        assert value((vectors * np.maximum(values, 0.3)) @ vectors.T) <= value(best) + 1e-9


def correlated(n=90, seed=4, share=0.4):
    """Three correlated columns around two centres, with missing cells anywhere, some rows empty."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    x = np.array([[0.0, 0.0, 1.0], [3.0, -2.0, 0.0]])[z] + rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + 5.0
    x[rng.random(x.shape) < share] = np.nan
    return x, z


def density(row, mean, covariance):
    seen = ~np.isnan(row)
    if not seen.any():
        return 0.0
    return multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(row[seen])


@pytest.mark.parametrize("diagonal", [False, True])
def test_statistics_of_rows_in_part_are_those_of_their_conditional_normal(diagonal):
    """By the blocks of the inverse covariance, row by row: mean and covariance of what is missing."""
    rng = np.random.default_rng(5)
    x, _ = correlated(40)
    weights, means = rng.random((40, 2)), rng.normal(size=(2, 3))
    roots = rng.normal(size=(2, 3, 3))
    covariances = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(3)
    if diagonal:
        covariances = covariances * np.eye(3)
    expected = np.zeros((2, 13))
    for row, own in zip(x, weights, strict=True):
        m = np.isnan(row)
        for k in range(2):
            inverse, filled, more = np.linalg.inv(covariances[k]), row.copy(), np.zeros((3, 3))
            within = np.linalg.inv(inverse[np.ix_(m, m)])
            filled[m] = means[k][m] - within @ inverse[np.ix_(m, ~m)] @ (row - means[k])[~m]
            more[np.ix_(m, m)] = within
            second = np.outer(filled, filled) + more
            expected[k] += own[k] * np.concatenate(
                [[1.0], filled, (second * np.eye(3) if diagonal else second).ravel()]
            )
    found = expected_statistics(x, weights, means, covariances, diagonal)
    assert found == pytest.approx(expected, abs=1e-10)
    logs = [[density(row, means[k], covariances[k]) for k in range(2)] for row in x]
    assert log_densities(x, means, covariances, diagonal) == pytest.approx(np.array(logs), abs=1e-10)


@pytest.mark.parametrize("covariance", ["full", "diagonal", "tied"])
@pytest.mark.parametrize("hidden", [False, True])
def test_em_with_columns_in_part_is_a_maximum_of_the_density_of_what_is_there(covariance, hidden):
    """It never falls, and differences of the density of the seen numbers, by SciPy, vanish at its end."""
    x, z = correlated(160)
    leaf = bl.GaussianLeaf(("a", "b", "c"), "z", covariance)
    data = dict(zip("abc", x.T, strict=True)) | ({} if hidden else {"z": z})
    weights = np.random.default_rng(6).random(160) + 0.5
    learner = bl.BNLearner(
        class_of([0.5, 0.5]), estimate="mle", hidden=["z"] if hidden else (), leaves={"x": leaf}, tol=1e-14,
        max_iters=20000, seed=1,
    ).fit(data, sample_weight=weights)  # fmt: skip
    assert np.diff(learner.result_.trace.loss).max() <= 1e-10
    found, prior = learner.leaves_["x"], learner.model_.cpt("z")

    def value(means, covariances):
        logs = np.array([[density(row, means[k], covariances[k]) for k in range(2)] for row in x]) + np.log(prior)
        return float(weights @ (logsumexp(logs, axis=1) if hidden else logs[np.arange(len(z)), z])) / weights.sum()

    assert learner.result_.log_likelihood == pytest.approx(value(found.means, found.covariances), abs=1e-9)
    assert learner.score(data, sample_weight=weights) == pytest.approx(learner.result_.log_likelihood, abs=1e-9)
    step = 1e-4
    for k in range(2):
        for c in range(3):
            up, down = found.means.copy(), found.means.copy()
            up[k, c] += step
            down[k, c] -= step
            assert (value(up, found.covariances) - value(down, found.covariances)) / (2 * step) == pytest.approx(
                0, abs=1e-5
            )
    for c, d in [(0, 0), (1, 1), (0, 2), (1, 2)]:
        if c != d and covariance == "diagonal":
            continue
        move = np.zeros((2, 3, 3))
        move[:, c, d] = move[:, d, c] = step
        move[1] *= covariance == "tied"
        slope = value(found.means, found.covariances + move) - value(found.means, found.covariances - move)
        assert slope / (2 * step) == pytest.approx(0, abs=1e-5)


def test_samples_files_threads_and_random_starts(tmp_path):
    x, _ = points(600)
    learner = bl.BNLearner(
        [], estimate="mle", hidden={"z": 3}, leaves={"x": bl.GaussianLeaf(["x0", "x1"], "z")}, n_restarts=4, seed=1
    ).fit(x)
    truth = np.array([[2.0, 2.0], [6.0, 3.0], [3.0, 7.0]])
    found = learner.leaves_["x"].means
    assert found[np.argsort(found.sum(axis=1))] == pytest.approx(truth, abs=0.3)
    two = bl.BNLearner(**(learner.get_params() | {"n_jobs": 2})).fit(x)
    assert two.leaves_["x"].means.tobytes() == found.tobytes()
    drawn = learner.sample(4000, seed=5)
    assert np.stack([drawn["x0"], drawn["x1"]], axis=1)[drawn["z"] == 1].mean(axis=0) == pytest.approx(
        found[1], abs=0.2
    )
    assert np.isfinite(learner.score_samples(drawn)).all()
    learner.save(tmp_path / "leaves.npz")
    again = bl.BNLearner.load(tmp_path / "leaves.npz")
    assert again.score_samples(x).tobytes() == learner.score_samples(x).tobytes()
    assert again.leaves["x"].column_names == ("x0", "x1") and again.partial_fit(x[:50]).leaves_["x"].means.shape == (
        3,
        2,
    )


@pytest.mark.parametrize(
    ("leaves", "message"),
    [
        ({"x": 3}, "mapping of names to GaussianLeaf"),
        ({"x": bl.GaussianLeaf("u", "nobody")}, "no variable 'nobody'"),
        ({"x": bl.GaussianLeaf("nothing", "z")}, "needs a column 'nothing'"),
        ({"x": bl.GaussianLeaf("u", "z"), "y": bl.GaussianLeaf("u", "z")}, "'u' is in two leaves"),
        ({"z": bl.GaussianLeaf("u", "z")}, "'z' is a variable of the structure"),
        ({"x": bl.GaussianLeaf(["u", "empty"], "z")}, "no row has a number in column 'empty'"),
        ({"x": bl.GaussianLeaf("infinite", "z")}, "'infinite', row 0: expected a finite number"),
        ({"x": bl.GaussianLeaf("words", "z")}, "'words' of a leaf must hold numbers"),
        ({"x": bl.GaussianLeaf("empty", "z")}, "no row has the columns of the leaf 'x'"),
        ({"x": bl.GaussianLeaf("u", "z", means=[1.0])}, r"means of the leaf 'x' must be .* shape \(2, 1\)"),
        ({"x": bl.GaussianLeaf("u", "z", covariances=[[[-1.0]]] * 2)}, "positive definite"),
    ],
)
def test_bad_leaves_are_refused_in_one_line(leaves, message):
    rows = {"u": [0.5, 1.5, 2.5], "infinite": [np.inf, 0.0, 0.0], "words": ["a", "b", "c"],
            "empty": [np.nan] * 3}  # fmt: skip
    wanted = {c for leaf in leaves.values() for c in getattr(leaf, "column_names", ())}
    learner = bl.BNLearner([], hidden={"z": 2}, leaves=leaves)
    with pytest.raises(ModelError, match=message) as caught:
        learner.fit({name: values for name, values in rows.items() if name in wanted} or {"u": rows["u"]})
    assert "\n" not in str(caught.value) and not hasattr(learner, "model_")


def test_bad_specifications_are_refused():
    with pytest.raises(ModelError, match="covariance must be full, diagonal, tied"):
        bl.GaussianLeaf("u", "z", "round")
    with pytest.raises(ModelError, match="floor"):
        bl.GaussianLeaf("u", "z", floor=0.0)
    with pytest.raises(ModelError, match="needs columns"):
        bl.GaussianLeaf((), "z")


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_densities_of_a_fitted_leaf_are_the_normal_ones(covariance):
    x, _ = points()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        leaf = mixture(covariance, max_iters=3).fit(pd.DataFrame(x, columns=["u", "v"])).leaves_["x"]
    found = leaf.log_density(x[:9])
    for k, (mean, sigma) in enumerate(zip(leaf.means, leaf.covariances, strict=True)):
        np.testing.assert_allclose(found[:, k], multivariate_normal(mean, sigma).logpdf(x[:9]), rtol=1e-12)
    with pytest.raises(ModelError, match=r"rows of the leaf must have shape \(n, 2\), found \(2,\)"):
        leaf.log_density(x[0])
