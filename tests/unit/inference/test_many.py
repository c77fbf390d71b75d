"""Many rows of evidence asked of one model are the single questions, row by row."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import beliefs as bl
import families
import reference
from beliefs.deadline import limited
from beliefs.errors import DataWarning, ModelError, UnsupportedError, ZeroProbabilityError
from beliefs.inference import many
from beliefs.inference.base import Problem, Task
from beliefs.inference.parallel import parallel_chunks
from beliefs.inference.rows import best, exact, sweep
from beliefs.model.graph import FactorGraph, as_factor_graph

WAYS: dict[str, dict[str, Any]] = {
    "holes": {"_whole": lambda *_: False},
    "whole": {"_whole": lambda *_: True},
    "one by one": {"_BATCHED": -1},
    "masked": {"_BATCHED": -1, "_PLANNED": 1.0},
    "chunks": {"_CELLS": 20},
}


def some_rows(graph: FactorGraph, n: int, seed: int) -> np.ndarray:
    """Rows with states of their own for a part of the variables each; the first says nothing, the last all."""
    rng = np.random.default_rng(seed)
    states = rng.integers(0, graph.layout.card, (n, graph.n_vars))
    states[rng.random(states.shape) < np.linspace(1.0, 0.0, n)[:, None]] = -1
    return states


def row_by_row(graph: FactorGraph, rows: np.ndarray) -> Iterator[bl.InferenceResult | None]:
    for row in rows:
        try:
            yield bl.infer(graph, "junction_tree", evidence={v: int(x) for v, x in enumerate(row) if x >= 0})
        except ZeroProbabilityError:
            yield None


@pytest.mark.parametrize("way", WAYS)
def test_rows_are_single_questions_on_every_family(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WAYS[way].items():
        monkeypatch.setattr(exact, name, value)
    for name in families.FAMILIES:
        graph = families.family(name)
        rows = some_rows(graph, 7, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            many = bl.infer_many(graph, rows)
        assert many.bound is bl.Bound.EXACT
        for i, single in enumerate(row_by_row(graph, rows)):
            if single is None:
                assert many.log_z[i] == -np.inf and not many.marginals[i].any(), (name, i)
            else:
                scale = max(1.0, abs(single.log_z))
                np.testing.assert_allclose(many.log_z[i], single.log_z, rtol=0, atol=1e-12 * scale, err_msg=name)
                np.testing.assert_allclose(many.marginals[i], single.mu_var, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("way", ["holes", "whole", "one by one"])
def test_soft_evidence_targets_and_evidence_of_the_model(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WAYS[way].items():
        monkeypatch.setattr(exact, name, value)
    bn = families.sprinkler()
    given = bn.condition({"Cloudy": "yes"})
    rows: list[dict[str, Any]] = [{"Slip": "yes"}, {}, {"Grass": "wet", "Rain": None}, {"Cloudy": "yes", "Rain": "no"}]
    soft: dict[str, Any] = {"Grass": [[0.5, 0.2, 2.0], [1, 1, 0], [3, 1, 0.1], [1, 1, 1]], "Cloudy": [[0.3, 0.9]] * 4}
    many = bl.infer_many(given, rows, targets=["Rain", "Grass"], likelihoods=soft)
    for i, row in enumerate(rows):
        one = given.with_likelihood({name: values[i] for name, values in soft.items()}).condition(row)
        single = bl.infer(one)
        assert many.log_z[i] == pytest.approx(single.log_z, abs=1e-13)
        for name in ("Rain", "Grass"):
            np.testing.assert_allclose(many.marginal(name)[i], single.marginal(name), rtol=0, atol=1e-13)
    with pytest.raises(UnsupportedError, match="marginal of 'Slip' was not computed"):
        many.marginal("Slip")


def test_rows_of_dicts_frames_and_codes_are_the_same() -> None:
    pd = pytest.importorskip("pandas")
    bn = bl.datasets.load_bn("asia")
    frame = pd.DataFrame({"smoke": ["yes", None, "no"], "xray": ["no", "no", None]}, index=["a", "b", "c"])
    codes = np.full((3, 8), -1)
    for name, labels in (("smoke", [0, -1, 1]), ("xray", [1, 1, -1])):
        codes[:, bn.graph.index(name)] = labels
    dicts = [{"smoke": "yes", "xray": "no"}, {"xray": "no"}, {"smoke": 1}]
    answers = [bl.infer_many(bn, rows) for rows in (frame, codes, dicts)]
    for answer in answers[1:]:
        assert answer.log_z.tobytes() == answers[0].log_z.tobytes()
        assert answer.marginals.tobytes() == answers[0].marginals.tobytes()
    table = answers[0].to_frame()
    assert list(table.index) == ["a", "b", "c"] and table["smoke=yes"]["a"] == 1.0
    assert table["log_z"]["b"] == pytest.approx(bl.infer(bn, evidence={"xray": "no"}).log_z, abs=1e-13)
    assert repr(answers[0]) == "ManyMarginals(junction_tree: 3 rows; log Z EXACT)"
    np.testing.assert_allclose(bl.log_likelihood(bn, frame).per_row, answers[0].log_z, rtol=0, atol=1e-12)


def test_threads_share_what_is_worth_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    bn, used = bl.datasets.load_bn("asia"), list[int]()

    def shared(task: Any, bounds: Any, threads: int) -> int:
        used.append(threads)
        return parallel_chunks(task, bounds, threads)

    monkeypatch.setattr(sweep, "parallel_chunks", shared)
    bl.infer_many(bn, [{"xray": "yes"}] * 20, threads=2)
    assert set(used) == {1}
    monkeypatch.setattr("beliefs.inference.rows.exact._SHARED", 0.0)
    bl.infer_many(bn, [{"xray": "yes"}] * 20, threads=2)
    assert 2 in used


def test_any_number_of_threads_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beliefs.inference.rows.exact._SHARED", 0.0)  # few rows are shared, too
    bn = bl.datasets.load_bn("asia")
    rows = bl.sample(bn, 700, seed=0).samples.copy()
    rows[np.random.default_rng(1).random(rows.shape) < 0.5] = -1
    for way in (dict[str, Any](), WAYS["holes"], WAYS["one by one"]):
        for name, value in way.items():
            monkeypatch.setattr(exact, name, value)
        one, two = (bl.infer_many(bn, rows[: 40 if "_BATCHED" in way else 700], threads=k) for k in (1, 3))
        assert one.log_z.tobytes() == two.log_z.tobytes() and one.marginals.tobytes() == two.marginals.tobytes()
    few, more = (bl.maximize_many(bn, rows[:40], threads=k) for k in (1, 3))
    assert few.assignment.tobytes() == more.assignment.tobytes() and few.log_score.tobytes() == more.log_score.tobytes()


@pytest.mark.parametrize("lots", [1, 64])
def test_the_best_states_of_rows_are_those_of_single_questions(lots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit, ties included: the last of the models has nothing else."""
    monkeypatch.setattr(best, "_LOTS", lots)
    level = bl.FactorGraph.from_tables([2, 3, 2, 2], [((0, 1), np.ones((2, 3))), ((1, 2, 3), np.full((3, 2, 2), 2.0))])
    for name, graph in {**{name: families.family(name) for name in families.FAMILIES}, "level": level}.items():
        rows = np.concatenate([some_rows(graph, 6, 3), some_rows(graph, 6, 4)])
        rows[7:9, 0] = rows[6, 0]
        rows[7:9, 1:] = rows[6, 1:]
        soft = {0: np.random.default_rng(0).integers(0, 3, (12, int(graph.layout.card[0]))) + 0.5}
        for likelihoods in (None, soft):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)
                many = bl.maximize_many(graph, rows, likelihoods=likelihoods)
            for i, row in enumerate(rows):
                known = {v: int(x) for v, x in enumerate(row) if x >= 0}
                one = graph if likelihoods is None else graph.with_likelihood({0: soft[0][i] / soft[0][i].max()})
                scale = 0.0 if likelihoods is None else np.log(soft[0][i].max())
                try:
                    single = bl.maximize(one, "junction_tree", evidence=known)
                except ZeroProbabilityError:
                    assert many.log_score[i] == -np.inf and (many.assignment[i] == -1).all(), (name, i)
                    continue
                assert many.assignment[i].tolist() == single.assignment.tolist(), (name, i)
                assert many.log_score[i] == single.log_score + scale and many.gap[i] == 0.0, (name, i)


def test_the_best_states_of_rows_are_the_best_of_all() -> None:
    graph = families.family("grid")
    rows = some_rows(graph, 5, 8)
    many = bl.maximize_many(graph, rows)
    joint = reference.joint_table(graph)
    for i, row in enumerate(rows):
        part = joint[tuple(slice(None) if x < 0 else int(x) for x in row)]
        assert many.log_score[i] == pytest.approx(float(part.max()), rel=1e-12)


def test_a_row_of_probability_zero_is_marked_and_the_others_stand() -> None:
    bn = families.sprinkler()
    rows = [{"Rain": "yes"}, {"Sprinkler": "no", "Rain": "no", "Grass": "wet"}, {}]
    with pytest.warns(DataWarning, match=r"^row 1 has probability zero under the model; marked by -inf$"):
        many = bl.infer_many(bn, rows)
    assert many.possible.tolist() == [True, False, True] and many.log_z[1] == -np.inf
    assert not many.marginals[1].any() and np.isfinite(many.log_z[[0, 2]]).all()
    with pytest.warns(DataWarning, match="row 1 has"):
        best = bl.maximize_many(bn, rows)
    assert best.assignment[1].tolist() == [-1] * 5 and best.log_score[1] == -np.inf and best.gap[0] == 0.0
    with pytest.warns(DataWarning, match=r"2 rows have probability zero under the model \(rows 1, 3\)"):
        bl.infer_many(bn, [*rows, rows[1]], "bp")


def test_other_methods_and_maxima_are_asked_row_by_row() -> None:
    graph = families.family("grid")
    rows = some_rows(graph, 4, 5)
    for method in ("mean_field", "bp", "mini_bucket(ibound=2)", "enumeration"):
        many = bl.infer_many(graph, rows, method, targets=[0, 5])
        for i, row in enumerate(rows):
            single = bl.infer(graph, method, evidence={v: int(x) for v, x in enumerate(row) if x >= 0})
            assert (many.log_z[i], many.log_upper[i]) == (single.log_z, single.log_upper)
            assert single.bound in (many.bound, bl.Bound.EXACT)
            assert many.marginal(5)[i].tobytes() == single.marginal(5).tobytes()
    best = bl.maximize_many(graph, rows)
    for i, row in enumerate(rows):
        found = bl.maximize(graph, evidence={v: int(x) for v, x in enumerate(row) if x >= 0})
        assert best.log_score[i] == found.log_score and best.assignment[i].tolist() == found.assignment.tolist()
    rbm = families.rbm()
    rows = some_rows(as_factor_graph(rbm), 3, 7)
    many = bl.infer_many(rbm, rows)
    for i, one in enumerate(row_by_row(as_factor_graph(rbm), rows)):
        assert one is not None
        np.testing.assert_allclose(many.marginals[i], one.mu_var, rtol=0, atol=1e-12)


def test_products_that_underflow_are_done_in_logs() -> None:
    """A message of a lost state, 1e-313 at first, is all that is left when others are excluded later."""
    far = -720.0
    graph = bl.FactorGraph.from_tables(
        [3, 2, 2], [((0,), [0.0, far / 2, -2.0]), ((0, 1), [[0, far], [far / 2, far / 2], [-1, far]]),
                    ((1, 2), [[0.0, far], [far, 0.0]]), ((2,), [far / 2, 0.0])], log=True,
    )  # fmt: skip
    rows = np.array([[-1, -1, -1], [-1, -1, 1], [1, -1, 1]])
    many = bl.infer_many(graph, rows)
    for i, single in enumerate(row_by_row(graph, rows)):
        assert single is not None and many.log_z[i] == pytest.approx(single.log_z, rel=1e-13)
        np.testing.assert_allclose(many.marginals[i], single.mu_var, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"Rain": "yes"}, {"Rain": "maybe"}], "row 1: .*'Rain'"),
        ([{}, {"Hail": "yes"}], "row 1: no variable 'Hail'"),
        ({"Rain": ["yes", "maybe"]}, "column 'Rain', row 1: no state 'maybe'"),
        ({"Hail": ["yes"]}, "no variable 'Hail' for this column"),
        (np.zeros((0, 5), int), "no rows"),
        ([], "no rows|two axes"),
        (np.full((2, 5), 7), "row 0: expected states 0..1, found 7"),
        ([{}, {"Cloudy": "no"}], "row 1: variable 'Cloudy' is already observed as 'yes'"),
        ([{"Rain": [1, 2]}], "row 0: "),
        ([{"Rain": "yes"}, 3], "row 0 names its columns, and row 1 is 3"),
        (np.array([{}, None], object), "row 0 names its columns, and row 1 is None"),
        (([0, 1, 0, 1, 0] for _ in range(2)), "a single row is passed as \\[row\\], rows as a list"),
    ],
)
def test_bad_rows_name_row_and_column(rows: object, message: str) -> None:
    with pytest.raises(ModelError, match=message) as error:
        bl.infer_many(families.sprinkler().condition({"Cloudy": "yes"}), rows)
    assert "\n" not in str(error.value)


def test_rows_that_say_nothing_are_the_model_itself() -> None:
    pd = pytest.importorskip("pandas")
    bn = families.sprinkler()
    many = bl.infer_many(bn, pd.DataFrame({"Rain": [np.nan, np.nan]}))
    np.testing.assert_allclose(many.marginal("Rain"), [bl.infer(bn).marginal("Rain")] * 2, rtol=0, atol=1e-14)
    with pytest.raises(ModelError, match="likelihood of 'Rain', row 1: it is zero for every state"):
        bl.infer_many(bn, [{}, {}], likelihoods={"Rain": [[1, 1], [0, 0]]})
    with pytest.raises(ModelError, match=r"likelihoods of 'Rain' must be .* \(2, 2\), found rows of different length"):
        bl.infer_many(bn, [{}, {}], likelihoods={"Rain": [[1, 1], [0]]})
    with pytest.raises(TypeError, match="callback"):
        bl.infer_many(bn, [{}], callback=print)  # type: ignore[call-arg]


def test_evidence_of_a_door_means_condition_and_adds_up() -> None:
    bn = families.sprinkler()
    first, second = {"Grass": "wet"}, {"Rain": "no"}
    both = bn.condition({**first, **second})
    assert bl.infer(bn, evidence={**first, **second}).mu_var.tobytes() == bl.infer(both).mu_var.tobytes()
    assert bl.infer(bn.condition(first), targets=["Slip"], evidence=second).log_z == bl.infer(both).log_z
    assert bl.maximize(bn.condition(first), evidence=second).states() == bl.maximize(both).states()
    asked = bl.marginal_map(bn.condition(first), ["Cloudy"], evidence=second)
    assert asked.log_value == bl.marginal_map(both, ["Cloudy"]).log_value
    drawn = bl.sample(bn.condition(first), 5, evidence=second)
    assert drawn.samples.tobytes() == bl.sample(both, 5).samples.tobytes()
    with pytest.raises(ModelError, match="'Grass' is already observed as 'wet', and cannot become 'dry'"):
        bl.infer(bn.condition(first), evidence={"Grass": "dry"})
    with pytest.raises(UnsupportedError, match="takes no evidence"):
        bl.log_likelihood(bn, [[0, 0, 0, 0, 0]], evidence=first)


@pytest.mark.parametrize("rows", [[], (), np.zeros((0, 2), np.int64)])
def test_no_rows_are_refused_as_such(rows: Any) -> None:
    graph = bl.FactorGraph.from_tables([2, 2], [((0, 1), np.ones((2, 2)))])
    for door in (bl.infer_many, bl.maximize_many):
        with pytest.raises(bl.ModelError, match="no rows"):
            door(graph, rows)


@pytest.mark.parametrize("rows", [None, 0, 1.5])
def test_what_is_no_table_is_refused_in_one_line(rows: Any) -> None:
    graph = bl.FactorGraph.from_tables([2, 2], [((0, 1), np.ones((2, 2)))])
    with pytest.raises(bl.ModelError, match="must be a table"):
        bl.infer_many(graph, rows)


def test_no_targets_are_no_marginals() -> None:
    for method in ("auto", "bp"):
        many = bl.infer_many(bl.FactorGraph.from_tables([2], [((0,), [1, 3])]), [{}, {"x0": 1}], method, targets=[])
        assert many.marginals.shape == (2, 0) and np.exp(many.log_z) == pytest.approx([4, 3])


@pytest.mark.parametrize("method", ["gibbs(chains=2)", "wmb(ibound=1)", "wmb(ibound=1, side=lower)"])
def test_bounds_hold_to_the_last_digit_whatever_likelihoods_are_divided_by(method: str) -> None:
    """Two variables, where these bounds are the value itself up to rounding."""
    rng = np.random.default_rng(0)
    graph = bl.FactorGraph.pairwise(rng.normal(size=(2, 2)), [(0, 1)], rng.normal(size=(1, 2, 2)))
    soft = rng.uniform(0.01, 1, (200, 2)) * 1e-300
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        many = bl.infer_many(graph, np.full((200, 2), -1), method, likelihoods={1: soft}, max_iters=5)
        best = bl.maximize_many(graph, np.full((200, 2), -1), "trw(damping=0.5)", likelihoods={1: soft}, max_iters=200)
    joint = reference.joint_table(graph).astype(np.longdouble)
    for row in range(200):
        weighed = joint + np.log(soft[row].astype(np.longdouble))
        slack = 1e-12 * (many.bound is bl.Bound.EXACT)
        truth = np.logaddexp.reduce(weighed.ravel())
        assert many.log_lower[row] - slack <= truth <= many.log_upper[row] + slack, row
        assert best.log_upper[row] >= weighed.max() or best.gap[row] == 0.0, row


def test_rows_come_one_by_one_or_in_chunks() -> None:
    """A generator of dicts is its list; chunks of columns may name some variables alone."""
    model = bl.datasets.load_bn("asia")
    rows = [{"dysp": "yes"}, {"smoke": "no", "xray": "yes"}, {}]
    whole = bl.infer_many(model, rows)
    np.testing.assert_array_equal(bl.infer_many(model, (row for row in rows)).log_z, whole.log_z)
    np.testing.assert_array_equal(bl.infer_many(model, iter(rows))["lung"], whole["lung"])
    chunks = ({"dysp": [state]} for state in ("yes", "no"))
    ends = bl.infer_many(model, [{"dysp": "yes"}, {"dysp": "no"}]).log_z
    np.testing.assert_array_equal(bl.infer_many(model, chunks).log_z, ends)
    frames = (pd.DataFrame({"dysp": [state]}) for state in ("yes", "no"))
    np.testing.assert_array_equal(bl.infer_many(model, frames).log_z, ends)
    with pytest.raises(bl.ModelError, match="indexed by the name of a variable"):
        whole[0]  # type: ignore[index]
    with pytest.raises(TypeError, match="not iterable"):
        list(whole)  # type: ignore[call-overload]


def test_rows_of_frames_and_dicts_in_any_collection() -> None:
    pd = pytest.importorskip("pandas")
    bn, rows = families.sprinkler(), [{"Rain": "yes", "Slip": None}, {"Rain": "no", "Slip": "yes"}]
    expected = bl.infer_many(bn, rows)
    frame = pd.DataFrame(rows)
    one_by_one = [row for _, row in frame.iterrows()]
    by_name = {"a": rows[0], "b": rows[1]}
    for given in (one_by_one, iter(one_by_one), by_name.values(), pd.Series(rows), np.array(rows, object)):
        np.testing.assert_array_equal(bl.infer_many(bn, given).log_z, expected.log_z)
    assert "Rain" in expected and "Hail" not in expected and 0 not in expected
    assert "Slip" not in bl.infer_many(bn, rows, targets=["Rain"]) and "Slip" in bl.maximize_many(bn, rows)


def test_no_probability_is_above_one() -> None:
    """Not by a rounding error either: scikit-learn's measures refuse such a number."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        tables = [((v, v + 1), np.exp(rng.normal(scale=30, size=(3, 3)))) for v in range(5)]
        graph = bl.FactorGraph.from_tables([3] * 6, tables)
        assert bl.infer_many(graph, [{0: 0}, {1: 1}, {}]).marginals.max() <= 1.0
        for method in ("enumeration", "elimination", "junction_tree", "mean_field", "wmb(ibound=1)"):
            assert bl.infer(graph, method, max_iters=20).mu_var.max() <= 1.0


def test_an_estimate_is_no_proof_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_found(*_: Any, **__: Any) -> Any:
        return replace(found, log_z=-np.inf)

    graph = FactorGraph.from_tables([2], [((0,), [1, 3])])
    found = bl.infer(graph, "gibbs(chains=1)", max_iters=0)
    monkeypatch.setattr(many, "infer", nothing_found)
    answer = bl.infer_many(graph, [{}], "gibbs(chains=1)", max_iters=0)
    assert answer.log_z[0] == -np.inf and answer.log_upper[0] == np.inf
    assert answer.bound is found.bound and answer.possible.all() and "zero" not in repr(answer)


class TestTimeIsShared:
    ROWS: ClassVar[list[dict[int, int]]] = [{0: k % 2} for k in range(12)]

    @pytest.mark.parametrize("limit", [0.0, 0.05])
    @pytest.mark.parametrize("method", ["auto", "bp", "trw", "mean_field", "wmb(ibound=2)"])
    def test_no_time_is_an_answer(self, method: str, limit: float) -> None:
        grid = bl.datasets.make_ising_grid(40, seed=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.ConvergenceWarning)
            try:
                found = bl.infer_many(grid, self.ROWS, method, time_limit=limit, threads=1)
            except bl.BudgetError as error:  # a method by name may not even have begun with the last row
                assert method != "auto" and str(error).startswith(f"the rows were not done after {limit:g} s")
                return
            if method == "auto":
                assert np.isfinite([found.log_lower, found.log_upper]).all()
                best = bl.maximize_many(grid, self.ROWS, time_limit=limit, threads=1)
                assert np.isfinite([best.log_score, best.log_upper]).all()

    def test_every_row_has_its_share(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given: list[float] = []

        def asked(model: bl.FactorGraph, method: str, **options: Any) -> Any:
            given.append(options["time_limit"])
            return bl.infer(model, method)

        monkeypatch.setattr(many, "infer", asked)
        grid = bl.datasets.make_ising_grid(3, seed=0)
        bl.infer_many(grid, self.ROWS, "mean_field", time_limit=1200, threads=1)
        assert given == sorted(given) and 99 < given[0] <= 100 and given[-1] > 1100  # what is left over goes on
        given.clear()
        bl.infer_many(grid, self.ROWS, "elimination", time_limit=1200, threads=1)
        assert min(given) > 1100  # half an exact answer is none

    def test_exact_inference_must_fit_all_rows(self) -> None:
        grid = bl.datasets.make_ising_grid(16, seed=0)
        limit = 2.0 * bl.JunctionTree().seconds(Problem(grid))
        for n_rows, method in ((1, bl.JunctionTree()), (12, "auto")):
            assert many._method(grid, "auto", Task.INFER, n_rows, 10**9, {"time_limit": limit})[0] == method

    def test_rows_that_have_not_begun_are_a_budget_error(self) -> None:
        grid = bl.datasets.make_ising_grid(3, seed=0)
        with limited(0.0, grace=False), pytest.raises(bl.BudgetError, match=r"the rows were not done after 5 s"):
            bl.infer_many(grid, self.ROWS, "bp", time_limit=5)
        with limited(0.0, grace=False), pytest.warns(bl.ConvergenceWarning):
            found = bl.infer_many(bl.datasets.make_ising_grid(40, seed=0), self.ROWS, time_limit=5)
        assert np.isfinite([found.log_lower, found.log_upper]).all()
