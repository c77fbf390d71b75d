"""Fields from rows: closed form, proportional fitting and likelihood give one distribution."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import beliefs as bl
from beliefs.errors import ModelError
from beliefs.learning.fields.closed_form import why_not_decomposable
from beliefs.learning.fields.likelihood import FieldLikelihood
from beliefs.learning.fields.statistics import FieldRows, field_over
from beliefs.model.naming import Naming

CHORDAL = [("x0", "x1", "x2"), ("x1", "x2", "x3"), ("x3", "x4"), ("x4",)]
LOOPY = [("x0", "x1"), ("x1", "x2"), ("x2", "x3"), ("x3", "x0"), ("x3", "x4")]


def rows_of(n=400, seed=0):
    """Rows in which every cell of every scope occurs."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 2, n), rng.integers(0, 3, n)
    third = (first + second + rng.integers(0, 2, n)) % 2
    fourth = np.where(rng.random(n) < 0.7, third, rng.integers(0, 2, n))
    return np.stack([first, second, third, fourth, (fourth + (rng.random(n) < 0.3)) % 2], axis=1)


def distribution(graph):
    """All probabilities, by enumeration."""
    log_z = bl.infer(graph, "enumeration").log_z
    states = product(*(range(int(k)) for k in graph.layout.card))
    return np.exp([graph.log_score(np.array(x)) - log_z for x in states])


def test_three_ways_to_one_distribution():
    """P23: whatever the way to the maximum, the distribution is one."""
    rows = rows_of()
    learners = [bl.MRFLearner(CHORDAL, method=m, tol=1e-7).fit(rows) for m in ("closed_form", "ipf", "likelihood")]
    found = [distribution(learner.model_) for learner in learners]
    assert found[1] == pytest.approx(found[0], abs=1e-9) and found[2] == pytest.approx(found[0], abs=1e-6)
    assert bl.infer(learners[0].model_).log_z == pytest.approx(0.0, abs=1e-12)
    values = [learner.result_.log_likelihood for learner in learners]
    assert values == pytest.approx([values[0]] * 3, abs=1e-9)
    assert learners[0].score(rows) == pytest.approx(values[0])
    assert bl.MRFLearner(CHORDAL).fit(rows).method_ == "closed_form"


def test_moments_match_at_the_maximum_of_a_loopy_field():
    """P23: marginals are the relative frequencies there, by gradient and by ipf."""
    rows = rows_of()
    learner = bl.MRFLearner(LOOPY).fit(rows)
    assert learner.method_ == "likelihood" and learner.result_.bound is bl.Bound.EXACT
    assert bl.infer(learner.model_).mu == pytest.approx(learner.frequencies_, abs=1e-4)
    by_ipf = bl.MRFLearner(LOOPY, method="ipf").fit(rows)
    assert bl.infer(by_ipf.model_).mu == pytest.approx(learner.frequencies_, abs=1e-7)
    assert np.diff(by_ipf.result_.trace.loss).max() <= 1e-12  # never falls
    counts = {(f"x{u}", f"x{v}"): 0.0 for u, v in ((0, 1),)}
    for row in rows:
        counts["x0", "x1"] += row[0] == 1 and row[1] == 2
    assert learner.frequencies_[5] == pytest.approx(counts["x0", "x1"] / len(rows))


def test_a_tree_is_the_chow_liu_network():
    rows = rows_of()
    field = bl.MRFLearner("chow_liu").fit(rows)
    network = bl.BNLearner("chow_liu", estimate="mle").fit(rows)
    assert field.score_samples(rows) == pytest.approx(network.score_samples(rows))
    assert field.result_.n_parameters == network.result_.n_parameters


def test_each_visit_of_ipf_matches_its_marginal_keeps_z_and_never_lowers_the_likelihood(monkeypatch):
    """P24: what the fit asks of inference shows the field before each visit."""
    asked, visits = FieldLikelihood.asked, []

    def noted(self, theta):
        found = asked(self, theta)
        visits.append((theta.copy(), found.log_z, found.mu))
        return found

    monkeypatch.setattr(FieldLikelihood, "asked", noted)
    learner = bl.MRFLearner(LOOPY, method="ipf", max_iters=3).fit(rows_of())
    layout, wanted = learner.model_.layout, learner.frequencies_
    assert len(visits) >= 3 * layout.n_factors
    sweep = [visits[1 + f : 3 + f] for f in range(layout.n_factors)]  # the first question is that of the start
    for f, ((_, _, before), (_, log_z, after)) in enumerate(sweep):
        cells = layout.cells(f)
        assert np.abs(before[cells] - wanted[cells]).max() > 1e-3
        assert after[cells] == pytest.approx(wanted[cells], abs=1e-14)
        assert log_z == pytest.approx(visits[0][1], abs=1e-12)
    values = [float(theta @ wanted) - log_z for theta, log_z, _ in visits]
    assert np.diff(values).min() > -1e-12 and values[-1] > values[0] + 0.1


def test_one_sweep_of_ipf_in_running_order_is_the_closed_form():
    """P24: where the scopes have a junction tree."""
    rows = rows_of()
    once = bl.MRFLearner(CHORDAL[:3], method="ipf", max_iters=1).fit(rows)
    assert distribution(once.model_) == pytest.approx(distribution(bl.MRFLearner(CHORDAL[:3]).fit(rows).model_))


def test_cells_that_never_occur():
    rows = rows_of()
    rows = rows[~((rows[:, 0] == 1) & (rows[:, 1] == 2))]
    with pytest.raises(ModelError, match="x0=1, x1=2 never occurs, so the maximum is at infinity; set l2 or ess"):
        bl.MRFLearner(LOOPY, method="likelihood").fit(rows)
    learner = bl.MRFLearner(LOOPY).fit(rows)
    assert learner.method_ == "ipf" and "at infinity" in learner.result_.reason
    assert bl.infer(learner.model_).mu == pytest.approx(learner.frequencies_, abs=1e-7)
    assert learner.score_samples([[1, 2, 0, 0, 0]])[0] == -np.inf
    smooth = bl.MRFLearner(LOOPY, ess=5.0).fit(rows)
    assert smooth.method_ == "likelihood" and smooth.score_samples([[1, 2, 0, 0, 0]])[0] > -np.inf


def test_penalties_shrink_and_are_relative_to_a_row():
    rows = rows_of()
    plain, ridge, lasso = (bl.MRFLearner(LOOPY, l2=l2, l1=l1).fit(rows) for l2, l1 in ((0, 0), (0.1, 0), (0, 0.05)))
    assert np.abs(ridge.model_.theta).max() < np.abs(plain.model_.theta).max()
    assert (lasso.model_.theta == 0.0).sum() > 4
    again = bl.MRFLearner(LOOPY, l2=0.1).fit(np.concatenate([rows, rows]))
    assert again.model_.theta == pytest.approx(ridge.model_.theta, abs=1e-6)


def test_given_marginals_need_no_rows():
    tables = np.tile([[0.5, -0.5], [-0.5, 0.5]], (3, 1, 1))
    target = bl.FactorGraph.pairwise(np.zeros((3, 2)), [(0, 1), (1, 2), (0, 2)], tables)
    asked = bl.infer(target)
    marginals = {tuple(target.layout.scope(f).tolist()): asked.factor_marginal(f) for f in range(target.n_factors)}
    learner = bl.MRFLearner(target, method="ipf").fit_marginals(marginals)
    assert distribution(learner.model_) == pytest.approx(distribution(target), abs=1e-7)
    marginals[0, 1] = np.array([[0.5, 0.0], [0.2, 0.3]])
    with pytest.raises(ModelError, match="disagree about 'x1'"):
        bl.MRFLearner(target).fit_marginals(marginals)


def test_tied_tables_have_the_gradient_of_their_sum():
    rng = np.random.default_rng(1)
    rows = (rng.random((300, 4)) < 0.5).astype(int)
    rows[:, 1] = np.where(rng.random(300) < 0.8, rows[:, 0], rows[:, 1])
    chain = bl.FactorGraph.pairwise(np.zeros((4, 2)), [(0, 1), (1, 2), (2, 3)], np.zeros((2, 2)))
    learner = bl.MRFLearner(chain, l2=1e-4).fit(rows)
    mu = bl.infer(learner.model_).mu
    assert mu + 2e-4 * learner.model_.theta == pytest.approx(learner.frequencies_, abs=1e-4)
    assert learner.model_.layout.tied


def test_missing_cells_have_the_gradient_of_the_observed_likelihood():
    rows = rows_of(60)
    rows[np.random.default_rng(2).random(rows.shape) < 0.3] = -1
    naming = Naming.of([f"x{v}" for v in range(5)], None, np.array([2, 3, 2, 2, 2]))
    structure = field_over(LOOPY, naming)
    learner = bl.MRFLearner(bl.FactorGraph.build(structure.layout, np.zeros(structure.layout.n_cells), naming), l2=0.01)
    learner.fit(rows)
    objective = -learner.result_.log_likelihood + 0.01 * float(learner.model_.theta @ learner.model_.theta)
    assert learner.score(rows) == pytest.approx(learner.result_.log_likelihood)
    rng = np.random.default_rng(3)
    for _ in range(3):  # a stationary point, by differences of the exact likelihood
        step = rng.normal(size=structure.layout.n_cells)
        values = []
        for h in (1e-3, -1e-3):
            theta = learner.model_.theta + h * step
            graph = bl.FactorGraph.build(structure.layout, theta, naming)
            values.append(-bl.log_likelihood(graph, rows).mean + 0.01 * float(theta @ theta))
        assert (values[0] - values[1]) / 2e-3 == pytest.approx(0.0, abs=1e-3)
        assert min(values) > objective - 1e-9
    hidden = bl.MRFLearner([("x0", "h"), ("x1", "h"), ("x2", "h")], hidden={"h": 2}, l2=0.01).fit(rows_of()[:, :3])
    assert hidden.result_.converged and hidden.model_.n_vars == 4


def test_surrogates_say_what_they_are():
    rows = rows_of()
    exact, upper = (bl.MRFLearner(LOOPY, inference=i, l2=1e-3).fit(rows) for i in (None, "trw"))
    assert upper.result_.bound is bl.Bound.LOWER and exact.result_.bound is bl.Bound.EXACT
    assert upper.result_.log_likelihood < exact.result_.log_likelihood + 1e-9
    assert upper.score(rows) <= exact.score(rows) + 1e-3


def test_loss_has_the_gradient_of_its_value():
    naming = Naming.of([f"x{v}" for v in range(5)], None, np.array([2, 3, 2, 2, 2]))
    structure = field_over(LOOPY, naming)
    rng = np.random.default_rng(4)
    n = structure.layout.n_cells
    rows = FieldRows(rng.dirichlet(np.ones(n)), 1.0, None, {})
    loss = FieldLikelihood(structure=structure, inference=bl.JunctionTree(), l2=0.1)
    theta, step = rng.normal(size=n), rng.normal(size=n)
    grad = loss.evaluate(theta, rows).grad
    ends = [loss.evaluate(theta + h * step, rows).value for h in (1e-5, -1e-5)]
    assert grad @ step == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


@pytest.mark.parametrize(
    ("scopes", "reason"),
    [
        (LOOPY, "x0 - x3 - x2 - x1 - x0 has no chord|x0 - x1 - x2 - x3 - x0 has no chord"),
        ([("x0", "x1"), ("x1", "x2"), ("x0", "x2")], r"\(x0, x1, x2\), which is a clique"),
    ],
)
def test_a_field_without_closed_form_says_why(scopes, reason):
    with pytest.raises(ModelError, match=reason):
        bl.MRFLearner(scopes, method="closed_form").fit(rows_of())


def test_decomposable_fields_are_recognised():
    naming = Naming.of([f"x{v}" for v in range(5)], None, np.full(5, 2))
    assert why_not_decomposable(field_over(CHORDAL, naming)) == ""
    assert why_not_decomposable(field_over([("x0",), ("x1", "x2")], naming)) == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure": LOOPY, "method": "magic"}, "method must be one of auto"),
        ({"structure": LOOPY, "l2": -1.0}, "l2"),
        ({"structure": LOOPY, "states": 3}, "states must be a mapping of columns to states, found 3"),
        ({"structure": LOOPY, "max_bytes": float("nan")}, "max_bytes must be None or a number of at least 0"),
        ({"structure": LOOPY, "method": "ipf", "l2": 0.1}, "ipf has no penalties"),
        ({"structure": ["x0"]}, "a scope is a sequence"),
        ({"structure": [("x0", "nobody")]}, "no variable 'nobody'"),
        ({"structure": "tan"}, "makes no field"),
        ({"structure": CHORDAL, "method": "closed_form", "l2": 0.1}, "without penalties"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ModelError, match=message):
        bl.MRFLearner(**options).fit(rows_of(50))
