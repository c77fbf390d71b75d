"""Variables and the addressing of variables and states: an int is an index, a str a name or label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.model.variable import suggestion


def test_a_number_of_states_gets_labels_by_index() -> None:
    x = bl.Variable("x", 3)
    assert x.states == ("0", "1", "2") and x.card == 3
    assert x.index("2") == 2 and x.index(2) == 2 and x.index(np.int32(1)) == 1  # type: ignore[arg-type]


def test_labels_are_kept_in_order() -> None:
    rain = bl.Variable("Rain", ["no", "yes"])
    assert rain.index("yes") == 1 and repr(rain) == "Variable('Rain', ['no', 'yes'])"


def test_variables_are_values() -> None:
    assert bl.Variable("a", 2) == bl.Variable("a", ["0", "1"]) and bl.Variable("a", 2) != bl.Variable("a", 3)
    assert len({bl.Variable("a", 2), bl.Variable("a", 2)}) == 1
    with pytest.raises(AttributeError):
        bl.Variable("a", 2).name = "b"  # type: ignore[misc]


@pytest.mark.parametrize(
    "name, states, message",
    [
        ("", 2, "name must be a non-empty string, found ''"),
        (3, 2, "name must be a non-empty string, found 3"),
        ("x", 0, "'x' needs at least one state, found cardinality 0"),
        ("x", [], "'x' needs at least one state"),
        ("x", "ab", "states of 'x' must be a number or a list of labels"),
        ("x", None, "states of 'x' must be a number or a list of labels"),
        ("x", [0, 1], "state labels of 'x' must be strings, found 0"),
        ("x", ["a", "b", "a"], "'x' has the state 'a' twice"),
    ],
)
def test_a_malformed_variable_is_refused(name: Any, states: Any, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        bl.Variable(name, states)


@pytest.mark.parametrize(
    "state, message",
    [
        ("maybe", r"'Rain' has no state 'maybe' \(its states are no, yes\)"),
        (2, r"'Rain' has states 0..1, found state 2"),
        (-1, "found state -1"),
        (0.5, r"must be an index \(int\) or a label \(str\), found 0.5"),
        (None, r"must be an index \(int\) or a label \(str\), found None"),
        ([0], "must be an index"),
        (np.array([0, 1]), "must be an index"),
    ],
)
def test_an_unknown_state_is_refused_in_the_users_words(state: Any, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        bl.Variable("Rain", ["no", "yes"]).index(state)


@pytest.mark.parametrize("state", [1, True, np.True_, 1.0, np.float32(1), np.int8(1), np.array(1)])
def test_anything_that_is_the_number_one_is_state_one(state: Any) -> None:
    assert bl.Variable("x", 2).index(state) == 1


def test_a_label_that_looks_like_a_number_is_a_label() -> None:
    x = bl.Variable("x", ["1", "0"])
    assert x.index("1") == 0 and x.index(1) == 1


def test_long_lists_of_states_are_cut_short() -> None:
    with pytest.raises(bl.ModelError, match=r"its states are 0, 1, 2, 3, 4, 5, 6, 7, \.\.\.\)"):
        bl.Variable("x", 50).index("50")


def test_suggestions_are_given_only_for_near_misses() -> None:
    assert suggestion("Rian", ["Rain", "Grass"]) == "; did you mean 'Rain'?"
    assert suggestion("entirely different", ["Rain"]) == ""
