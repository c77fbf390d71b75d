"""One class for each kind of trouble; callers may catch the builtin parent instead."""

from __future__ import annotations

from pathlib import Path

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
