"""Evidence: the one entrance, what it keeps, what it accepts and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beliefs as bl
import reference
from families import family, sprinkler
from strategies import examples, factor_graphs, possible_evidence, tied_graphs


def test_everything_keeps_its_place() -> None:
    bn = sprinkler()
    given_ = bn.condition({"Grass": "wet", "Cloudy": 0})
    assert isinstance(given_, bl.FactorGraph) and given_.n_vars == 5 and given_.n_factors == 5
    assert list(given_.variables) == list(bn.variables) and given_.evidence == {1: 2, 4: 0}
    assert given_.layout.scope(bn.index("Cloudy")).size == 0  # fully observed: a constant
    assert given_.factors[bn.index("Cloudy")].table == pytest.approx(0.5)
    assert repr(given_).endswith("2 observed)")


@given(data=st.data(), graph=st.one_of(factor_graphs(), tied_graphs()))
@examples(100)
def test_the_table_is_sliced_and_the_map_to_the_parent_is_kept(data: st.DataObject, graph: bl.FactorGraph) -> None:
    seen = data.draw(possible_evidence(graph))
    given_ = graph.condition(seen)
    assert given_.parent_cells is not None
    np.testing.assert_array_equal(given_.theta, graph.theta[given_.parent_cells])
    for f in range(graph.n_factors):
        whole = graph.theta[graph.layout.cells(f)].reshape(graph.layout.shape(f))
        index = tuple(seen.get(int(v), slice(None)) for v in graph.layout.scope(f))
        part = given_.theta[given_.layout.cells(f)].reshape(given_.layout.shape(f))
        np.testing.assert_array_equal(part, whole[index])
        assert [int(v) for v in given_.layout.scope(f)] == [int(v) for v in graph.layout.scope(f) if v not in seen]


def test_a_second_conditioning_maps_to_the_first() -> None:
    graph = family("higher_order")
    first = graph.condition({0: 1})
    second = first.condition({4: 2})
    assert first.parent_cells is not None and second.parent_cells is not None
    np.testing.assert_array_equal(second.theta, first.theta[second.parent_cells])
    np.testing.assert_array_equal(second.theta, graph.theta[first.parent_cells[second.parent_cells]])


def test_tied_factors_stay_tied_unless_they_lose_a_variable() -> None:
    """Edges (0,1), (1,2), (2,3) share a table; observing 0 slices the first only."""
    graph = bl.FactorGraph.pairwise(np.zeros((4, 2)), [(0, 1), (1, 2), (2, 3)], [[0.0, 1.0], [2.0, 3.0]])
    given_ = graph.condition({0: 1})
    lay = given_.layout
    assert lay.cell_ptr[5] == lay.cell_ptr[6] != lay.cell_ptr[4]
    assert given_.theta[lay.cells(4)].tolist() == [2.0, 3.0]


def test_observing_again_changes_nothing_and_another_state_is_refused() -> None:
    given_ = sprinkler().condition({"Rain": "yes"})
    again = given_.condition({"Rain": 1})
    assert again.layout.equals(given_.layout) and again.theta.tolist() == given_.theta.tolist()
    with pytest.raises(bl.ModelError, match="'Rain' is already observed as 'yes', and cannot become 'no'"):
        given_.condition({"Rain": "no"})


def test_no_evidence_is_the_same_model() -> None:
    graph = family("grid")
    given_ = graph.condition({})
    assert given_.evidence == {} and given_.theta.tolist() == graph.theta.tolist()
    assert given_.parent_cells is not None and given_.parent_cells.tolist() == list(range(graph.layout.n_cells))


def test_other_potentials_keep_the_evidence() -> None:
    given_ = family("grid").condition({3: 1})
    other = given_.with_theta(given_.theta * 2)
    assert other.evidence == {3: 1} and other.layout is given_.layout
    assert bl.infer(other).marginal(3).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    "evidence, message",
    [
        ({"Rian": 1}, "no variable 'Rian'; did you mean 'Rain'"),
        ({"Rain": "maybe"}, r"'Rain' has no state 'maybe' \(its states are no, yes\)"),
        ({"Rain": 2}, r"'Rain' has states 0\.\.1, found state 2"),
        ({"Rain": 0.5}, "a state of 'Rain' must be"),
        ({"Rain": np.array([0, 1])}, "a state of 'Rain' must be"),
        ({"Rain": 0, 3: 1}, "evidence gives two states for variable 'Rain'"),
        ({9: 0}, r"no variable 9: the model has variables 0\.\.4"),
        ([("Rain", 1)], "evidence must map variables to states, found list"),
        (None, "evidence must map variables to states, found NoneType"),
        (bl.maximize(sprinkler()), r"found MapResult; give its states\(\)"),
    ],
)
def test_bad_evidence_is_refused_in_the_users_words(evidence: Any, message: str) -> None:
    for model in (sprinkler(), sprinkler().graph):
        with pytest.raises(bl.ModelError, match=message):
            model.condition(evidence)


class TestPandasRows:
    def test_missing_values_are_not_observed(self) -> None:
        rows = pd.DataFrame({"Rain": ["yes", None], "Grass": [2.0, np.nan], "Cloudy": [np.nan, 1.0]})
        bn = sprinkler()
        assert bn.condition(rows.iloc[0]).evidence == {3: 1, 1: 2}
        assert bn.condition(rows.iloc[1]).evidence == {4: 1}

    @pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, float("nan"), np.float32("nan")])
    def test_every_kind_of_missing_value(self, missing: Any) -> None:
        assert sprinkler().condition({"Rain": missing, "Grass": 0}).evidence == {1: 0}

    def test_nullable_and_boolean_columns(self) -> None:
        bn = sprinkler()
        whole = pd.Series({"Rain": 1, "Grass": pd.NA}, dtype="Int64")
        assert bn.condition(whole).evidence == {3: 1}
        flags = pd.DataFrame({"Rain": [True], "Cloudy": [False]}).iloc[0]
        assert bn.condition(flags).evidence == {3: 1, 4: 0}

    def test_a_categorical_column_gives_labels(self) -> None:
        column = pd.Series(pd.Categorical(["dry", "wet"]), name="Grass")
        assert sprinkler().condition(pd.DataFrame(column).iloc[1]).evidence == {1: 2}


class TestSoftEvidence:
    def test_a_likelihood_is_one_more_unary_factor(self) -> None:
        bn = sprinkler()
        soft = bn.graph.with_likelihood({"Rain": [0.7, 0.3]})
        assert soft.n_factors == 6 and soft.layout.scope(5).tolist() == [3]
        np.testing.assert_allclose(np.exp(soft.theta[-2:]), [0.7, 0.3])
        prior = bl.infer(bn).marginal("Rain")
        posterior = prior * [0.7, 0.3] / (prior @ [0.7, 0.3])
        assert bl.infer(soft).marginal("Rain") == pytest.approx(posterior)
        assert bl.infer(soft).log_z == pytest.approx(np.log(prior @ [0.7, 0.3]))

    def test_a_likelihood_of_an_observed_variable_is_a_constant(self) -> None:
        seen = sprinkler().condition({"Rain": "yes"})
        soft = seen.with_likelihood({"Rain": [0.7, 0.3]})
        assert soft.layout.scope(5).size == 0 and soft.evidence == seen.evidence
        assert bl.infer(soft).log_z == pytest.approx(bl.infer(seen).log_z + np.log(0.3))

    @pytest.mark.parametrize(
        "values, message",
        [
            ([1, 2, 3], r"likelihood of 'Rain' must have shape \(2,\), found \(3,\)"),
            ([0, 0], "likelihood of 'Rain' is zero for every state"),
            ([-1, 1], "non-negative entries, found -1.0"),
            (["a", "b"], "must be an array of numbers"),
        ],
    )
    def test_a_malformed_likelihood_is_refused(self, values: Any, message: str) -> None:
        with pytest.raises(bl.ModelError, match=message):
            sprinkler().graph.with_likelihood({"Rain": values})

    def test_more_factors_come_after_the_present_ones(self) -> None:
        graph = family("tied_tables")
        more = graph.with_factors([((8, 0), np.zeros((2, 2))), ((), np.array(1.5))])
        assert more.layout.tied and more.layout.scope(more.n_factors - 2).tolist() == [8, 0]
        np.testing.assert_array_equal(more.theta[: graph.theta.size], graph.theta)
        joint = reference.joint_table(graph)
        assert bl.infer(more).log_z == pytest.approx(reference.log_z(joint) + 1.5)


def test_soft_evidence_by_label() -> None:
    model = bl.FactorGraph.from_tables([2], [((0,), [1, 3])], names=["Rain"], states=[["no", "yes"]])
    soft = model.with_likelihood({"Rain": {"yes": 0.75, "no": 0.25}})
    assert soft == model.with_likelihood({"Rain": [0.25, 0.75]})
    with pytest.raises(bl.ModelError, match="likelihood of 'Rain' gives no number for the state 'no'"):
        model.with_likelihood({"Rain": {"yes": 1}})
    with pytest.raises(bl.ModelError, match="variable 'Rain' has no state 'maybe'"):
        model.with_likelihood({"Rain": {"maybe": 1}})
    with pytest.raises(bl.ModelError, match="likelihood of 'Rain' gives two numbers for the state 'yes'"):
        model.with_likelihood({"Rain": {"yes": 1, 1: 2, "no": 1}})
