"""Results answer by name, stay frozen, and say what each number is worth."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

import beliefs as bl
import reference
from families import FAMILIES, evidence, family, oracle, sprinkler

EXACT = ["enumeration", "elimination", "junction_tree"]


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("name", [n for n in FAMILIES if n not in ("single_variable", "huge_range")])
def test_joint_marginals_of_any_set(method: str, name: str) -> None:
    """Pairs and triples whether or not a factor covers them, observed variables included, axes as asked."""
    observed = 1
    graph, joint = family(name).condition(evidence(name, observed)), oracle(name, observed)
    result = bl.infer(graph, method)
    n = graph.n_vars
    for scope in ([n - 1, 0], [0, n // 2, n - 1], [n // 2], [], list(range(min(n, 4)))):
        wanted = list(dict.fromkeys(scope))
        np.testing.assert_allclose(result.marginal(wanted), reference.marginal(joint, wanted), atol=1e-10)


def test_a_joint_marginal_by_names() -> None:
    joint = reference.joint_table(sprinkler().graph)
    table = bl.infer(sprinkler()).marginal(["Slip", "Cloudy"])
    np.testing.assert_allclose(table, reference.marginal(joint, [0, 4]), atol=1e-12)


@pytest.mark.parametrize("method", EXACT)
def test_mutual_information_against_its_definition(method: str) -> None:
    result = bl.infer(sprinkler(), method)
    joint = reference.joint_table(sprinkler().graph)
    for u, v in ((0, 4), (2, 3), (1, 0)):
        p = reference.marginal(joint, [u, v])
        q = p.sum(1, keepdims=True) * p.sum(0, keepdims=True)
        expected = float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum())
        assert result.mutual_information(u, v) == pytest.approx(expected, abs=1e-12)
        assert result.mutual_information(v, u) == pytest.approx(expected, abs=1e-12)


def test_independent_variables_share_no_information() -> None:
    result = bl.infer(family("isolated_variables"))
    assert result.mutual_information(0, 1) == pytest.approx(0, abs=1e-12)
    assert result.mutual_information(0, 1) >= 0
    assert bl.infer(sprinkler().condition({"Rain": 1})).mutual_information("Rain", "Slip") == pytest.approx(
        0, abs=1e-12
    )


def test_entropies_in_nats() -> None:
    result = bl.infer(bl.FactorGraph.from_tables([2, 4], [((0,), [1, 3])]))
    assert result.entropy(1) == pytest.approx(math.log(4))
    assert result.entropy(0) == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))
    assert result.entropy([0, 1]) == pytest.approx(result.entropy(0) + result.entropy(1))
    assert bl.infer(bl.FactorGraph.from_tables([2], [((0,), [1, 0])])).entropy(0) == 0.0


def test_loopy_bp_gives_joints_where_a_factor_covers_them() -> None:
    result = bl.infer(family("higher_order"), "bp")
    assert result.bound is bl.Bound.ESTIMATE
    covered = result.marginal([1, 0])  # within factor (0, 2, 1)
    np.testing.assert_allclose(covered, result.factor_marginal(0).sum(axis=1).T)
    with pytest.raises(bl.UnsupportedError, match=r"no factor covers \(x0, x4\); bp gives joints of factors only"):
        result.marginal([0, 4])


def test_a_joint_marginal_beyond_the_budget_is_refused() -> None:
    graph = bl.FactorGraph.from_tables([10] * 7, [((v, v + 1), np.ones((10, 10))) for v in range(6)])
    result = bl.infer(graph, max_bytes=200_000)
    assert result.marginal([0, 6]).shape == (10, 10)
    with pytest.raises((bl.UnsupportedError, bl.BudgetError), match="budget|limit"):
        result.marginal(range(7))


def test_what_is_not_a_set_of_variables() -> None:
    result = bl.infer(sprinkler())
    with pytest.raises(bl.ModelError, match="must not name a variable twice"):
        result.marginal(["Rain", 3])
    with pytest.raises(bl.ModelError, match="addressed by name"):
        result.marginal(None)  # type: ignore[arg-type]
    with pytest.raises(bl.ModelError, match="no variable 7"):
        result.marginal(7)
    with pytest.raises(bl.ModelError, match="no factor 5: the model has factors 0..4"):
        result.factor_marginal(5)
    with pytest.raises(bl.ModelError, match="no factor 'Rain'"):
        result.factor_marginal("Rain")  # type: ignore[arg-type]
    assert result.mutual_information("Rain", "Rain") == pytest.approx(result.entropy("Rain"))


def test_mpm_and_mean() -> None:
    graph = bl.FactorGraph.from_tables([3, 2, 2], [((0,), [1, 2, 1]), ((1,), [1, 1])])
    result = bl.infer(graph.condition({2: 1}))
    assert result.mpm().tolist() == [1, 0, 1] and result.mpm().dtype == np.int64  # ties to the smallest index
    assert result.mean() == pytest.approx([1.0, 0.5, 1.0])


def test_arrays_are_read_only_and_results_frozen() -> None:
    for result in (bl.infer(family("grid")), bl.infer(family("tied_tables"))):
        for array in (result.mu_var, result.mu_factor, result.mu, result.marginal(0), result.factor_marginal(0)):
            with pytest.raises(ValueError):
                array[...] = 0
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.log_z = 0.0  # type: ignore[misc]
    with pytest.raises(ValueError):
        bl.maximize(family("grid")).assignment[0] = 1


def test_repr_is_four_lines_with_the_sign_of_the_bound() -> None:
    exact = repr(bl.infer(family("single_variable"))).split("\n")
    assert exact[0] == "InferenceResult" and exact[1] == "  method  junction_tree" and len(exact) == 4
    assert exact[2].startswith("  log Z   = ") and exact[2].endswith("(EXACT)")
    assert exact[3].startswith("  status  CONVERGED after 1 step, ")
    estimate = repr(bl.infer(family("grid"), "bp")).split("\n")
    assert estimate[2].startswith("  log Z   ~ ") and "steps" in estimate[3]
    upper = repr(bl.infer(family("single_variable"), bl.Elimination(tau=[2.0])))
    assert "log Z   <= " in upper and "(UPPER)" in upper


def test_repr_of_the_other_results() -> None:
    graph = family("grid")
    assert "score   " in repr(bl.maximize(graph)) and "(optimal)" in repr(bl.maximize(graph))
    assert "value   = " in repr(bl.marginal_map(graph, [0])) and "(optimal)" in repr(bl.marginal_map(graph, [0]))
    assert "samples  3 (EXACT)" in repr(bl.sample(graph, 3))


def test_states_by_name_and_label() -> None:
    given = sprinkler().condition({"Grass": "wet"})
    best = bl.maximize(given)
    assert best.states()["Grass"] == "wet" and set(best.states()) == {"Slip", "Grass", "Sprinkler", "Rain", "Cloudy"}
    assert given.log_score(best.states()) == pytest.approx(best.log_score)
    assert set(bl.marginal_map(given, ["Rain", "Cloudy"]).states()) == {"Rain", "Cloudy"}
    rows = bl.sample(given, 4).states()
    assert len(rows) == 4 and all(row["Grass"] == "wet" for row in rows)


def test_a_gap_without_an_upper_bound_is_infinite() -> None:
    done = bl.maximize(family("grid"))
    open_ended = dataclasses.replace(done, log_upper=math.inf)
    assert done.gap == 0.0 and open_ended.gap == math.inf and "gap inf" in repr(open_ended)
    assert dataclasses.replace(done, log_score=-math.inf).gap == math.inf
    query = bl.marginal_map(family("grid"), [0])
    assert dataclasses.replace(query, log_lower=-math.inf).gap == math.inf
    assert dataclasses.replace(query, log_upper=query.log_lower + 2).gap == pytest.approx(2)


def test_bounds_that_meet_prove_log_z_and_nothing_about_marginals() -> None:
    """All tables are equal, so nothing is lost by mini-buckets; their marginals are those of a bound with a kink."""
    pairs = [(u, v) for u in range(5) for v in range(u)]
    graph = bl.FactorGraph.from_tables([2] * 5, [(pair, np.full((2, 2), -1.0)) for pair in pairs], log=True)
    split = bl.infer(graph, "mini_bucket(ibound=1)")
    assert split.log_lower == split.log_z == split.log_upper and split.bound is bl.Bound.EXACT
    assert not split.exact_marginals and "marginals: estimates of mini_bucket" in str(split)
    with pytest.raises(bl.UnsupportedError, match="use junction_tree"):
        split.marginal([0, 1, 2])
    for method in ("auto", "mini_bucket", "wmb", "ijgp", "junction_tree", "elimination", "enumeration"):
        whole = bl.infer(graph, method)
        assert whole.exact_marginals and "marginals: exact" in str(whole)
        np.testing.assert_allclose(whole.mu_var, 0.5, atol=1e-12)
    bounded = bl.infer(graph, max_bytes=1500)
    assert not bounded.exact_marginals and "marginals: estimates" in str(bounded)


def test_answers_are_indexed_by_variables_and_run_through_their_names() -> None:
    model = bl.datasets.load_bn("asia")
    marginals: Any = bl.infer(model, evidence={"dysp": "yes"})
    best = bl.maximize(model)
    assert list(marginals) == list(best) == list(model) and "bronc" in marginals and "zebra" not in best
    np.testing.assert_array_equal(marginals["bronc"], marginals.marginal("bronc"))
    np.testing.assert_array_equal(marginals["smoke", "bronc"], marginals.marginal(["smoke", "bronc"]))
    assert {name: best[name] for name in best} == best.states() and best[0] == best["asia"]
    some = bl.marginal_map(model, ["lung", "tub"])
    assert list(some) == ["lung", "tub"] and "asia" not in some and {v: some[v] for v in some} == some.states()
    with pytest.raises(bl.UnsupportedError, match="'asia' is not in the query: it was summed over"):
        some["asia"]
    few = bl.infer(model, targets=["smoke"])
    assert list(few) == ["smoke"] and "lung" not in few
    draws: Any = bl.sample(model, 5, seed=1)
    assert draws["bronc"].tolist() == [row["bronc"] for row in draws.states()]
    for wrong in (lambda: draws[0], lambda: marginals["zebra"], lambda: marginals[{"bronc": "yes"}]):
        with pytest.raises(bl.ModelError):
            wrong()
    with pytest.raises(TypeError, match="not iterable"):
        list(draws)
    assert np.array([marginals, best]).shape == (2,) and marginals  # no sequence of states to NumPy


def test_answers_as_plain_python() -> None:
    """JSON's own types alone, by name, with infinities as None; the marginals are those of the answer."""
    model = bl.datasets.load_bn("asia")
    answers: list[Any] = [
        bl.infer(model, "bp(damping=0.5)", evidence={"dysp": "yes"}, max_iters=50),
        bl.maximize(model, "local_search", max_iters=3),
        bl.marginal_map(model, ["lung"]),
        bl.sample(model, 3, seed=0),
        bl.infer_many(model, [{"dysp": "yes"}, {"asia": "yes", "smoke": "no"}]),
        bl.maximize_many(model, [{"dysp": "yes"}]),
    ]
    for answer in answers:
        found = answer.to_dict()
        assert json.loads(answer.to_json()) == found and found["method"] == repr(answer.method)
    one, best, some, draws, many, decoded = (answer.to_dict() for answer in answers)
    assert one["marginals"]["bronc"] == dict(zip(("yes", "no"), answers[0]["bronc"].tolist(), strict=True))
    assert one["evidence"] == {"dysp": "yes"} and one["log_upper"] is None and one["bound"] == "ESTIMATE"
    assert best["assignment"] == answers[1].states() and some["assignment"] == answers[2].states()
    assert [dict(zip(draws["variables"], row, strict=True)) for row in draws["samples"]] == answers[3].states()
    assert many["marginals"]["lung"]["yes"] == answers[4]["lung"][:, 0].tolist()
    assert decoded["assignment"]["dysp"] == ["yes"] == answers[5]["dysp"].tolist()
    assert list(answers[0].to_dict(["lung", "tub"])["marginals"]) == ["lung", "tub"]
    with pytest.raises(bl.UnsupportedError, match="nothing is known here about 'asia'"):
        answers[2].to_dict(["asia"])


def test_answers_about_rows_are_single_objects_to_numpy() -> None:
    model = bl.FactorGraph.from_tables([2], [((0,), [1, 3])])
    for answer in (bl.sample(model, 2), bl.infer_many(model, [{}, {}]), bl.maximize_many(model, [{}])):
        assert np.array([answer, answer], object).shape == (2,) and np.asarray(answer).item() is answer
        with pytest.raises(TypeError, match=r"is no array of numbers; its to_frame\(\) is a table"):
            np.asarray(answer, float)


def test_a_single_variable_is_no_list_to_tell_about() -> None:
    with pytest.raises(bl.ModelError, match=r"variables must be a list of variables, found 'x0'; write \['x0'\]"):
        bl.infer(bl.FactorGraph.from_tables([2], [((0,), [1, 3])])).to_dict("x0")


def test_the_worth_of_a_number_is_a_word() -> None:
    result = bl.infer(sprinkler())
    assert result.bound == "EXACT" and result.status == "CONVERGED" and json.dumps(result.bound) == '"EXACT"'
    assert [bound.sign for bound in bl.Bound] == ["=", "<=", ">=", "~"]
    assert pickle.loads(pickle.dumps(result.status)) is bl.Status.CONVERGED
    assert all(status.advice for status in bl.Status)
