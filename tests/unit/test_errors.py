"""One class for each kind of trouble; callers may catch the builtin parent instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import beliefs as bl


@pytest.mark.parametrize(
    "error, parents",
    [
        (bl.ModelError, (bl.BeliefsError, ValueError)),
        (bl.ZeroProbabilityError, (bl.ModelError, ValueError)),
        (bl.FormatError, (bl.BeliefsError, ValueError)),
        (bl.BudgetError, (bl.BeliefsError, RuntimeError)),
        (bl.NotConvergedError, (bl.BeliefsError, RuntimeError)),
        (bl.UnsupportedError, (bl.BeliefsError, NotImplementedError)),
        (bl.ConvergenceWarning, (UserWarning,)),
        (bl.DataWarning, (UserWarning,)),
    ],
)
def test_each_error_has_the_parents_that_callers_rely_on(error: type[Exception], parents: tuple[type, ...]) -> None:
    assert all(issubclass(error, parent) for parent in parents)


def test_a_warning_is_no_error_of_ours() -> None:
    assert not issubclass(bl.ConvergenceWarning, bl.BeliefsError) and not issubclass(bl.FormatError, bl.ModelError)


@pytest.mark.parametrize(
    "path, line, text",
    [
        (None, None, "expected a number"),
        ("a.uai", None, "a.uai: expected a number"),
        (None, 3, "line 3: expected a number"),
        (Path("a.uai"), 3, "a.uai, line 3: expected a number"),
    ],
)
def test_a_format_error_says_where(path: str | Path | None, line: int | None, text: str) -> None:
    error = bl.FormatError("expected a number", path, line)
    assert str(error) == text and (error.path, error.line, error.message) == (path, line, "expected a number")


def test_a_parser_that_sees_only_text_gets_its_files_name_later() -> None:
    inner = bl.FormatError("expected a number", line=3)
    assert str(inner.at("a.uai")) == "a.uai, line 3: expected a number"
    assert str(inner.at("a.uai").at("b.uai")) == "a.uai, line 3: expected a number"


untyped: Any = bl  # what types would refuse is typed all the same
RAIN, GRASS = bl.Variable("Rain", ["no", "yes"]), bl.Variable("Grass", ["dry", "wet"])


@pytest.mark.parametrize(
    "ask, text",
    [
        (
            lambda bn: untyped.infer(bn, {"Rain": "no"}),
            "method must be a Method or its text, found dict; write evidence={...}",
        ),
        (
            lambda bn: untyped.maximize(bn, ["Rain"]),
            "found list; marginals of some variables alone: targets=[...], their best states: marginal_map",
        ),
        (
            lambda bn: untyped.infer_many(bn, {"Rain": "no"}),
            "'Rain' must be a list, found 'no'; a single row is passed as [row]",
        ),
        (
            lambda bn: untyped.BayesianNetwork.from_cpts(["Rain"], {"Rain": ([], [0.5, 0.5])}),
            "variables are listed as Variable(name, states), found 'Rain'",
        ),
        (
            lambda bn: bl.BayesianNetwork.from_cpts(
                [RAIN, GRASS], {"Rain": ([], [1, 0]), "Grass": (["Rain"], [[1], [0]])}
            ),
            "conditional table of 'Grass' must have shape (2, 2) (parents' states, then its own), found (2, 1)",
        ),
        (
            lambda bn: bl.infer(bl.datasets.make_ising_grid(2, seed=0), evidence={"Rain": 1}),
            "no variable 'Rain' (variables have no names: x0 to x3)",
        ),
    ],
)
def test_what_newcomers_type_first_is_answered_by_what_they_meant(ask: Callable[[Any], object], text: str) -> None:
    bn = bl.BayesianNetwork.from_cpts([RAIN], {"Rain": ([], [0.8, 0.2])})
    with pytest.raises(bl.ModelError, match=re.escape(text)):
        ask(bn)
    soft = bl.infer(bn.with_likelihood({"Rain": [0.5, 1.0]})).marginal("Rain")
    assert soft.tolist() == pytest.approx([2 / 3, 1 / 3])
