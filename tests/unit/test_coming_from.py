"""Our side of every row on the page for newcomers runs, with the names that the page gives."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import warnings
from pathlib import Path
from typing import Any

from beliefs.errors import ConvergenceWarning

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text()
ROW = re.compile(r"^\| (?P<theirs>.+?) \| (?P<ours>.+?) \| (?P<notes>.*?)\|$", re.MULTILINE)


def calls() -> list[str]:
    """The code of the middle columns, in the order of the page."""
    rows = [row for row in ROW.finditer(PAGE) if row["ours"] not in ("here", "---")]
    assert all(re.fullmatch(r"`.+`", row["ours"]) for row in rows)
    return [row["ours"][1:-1] for row in rows]


def test_every_table_is_found() -> None:
    assert len(calls()) == sum(line.startswith("| ") for line in PAGE.splitlines()) - 2 * PAGE.count(
        "| --- | --- | --- |"
    )
    assert len(calls()) > 60


def test_our_side_runs() -> None:
    given = "".join(re.findall(r"```pycon\n(.*?)```", PAGE, re.DOTALL))
    names: dict[str, Any] = {}
    failed: list[str] = []
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore", ConvergenceWarning)  # a row may stop early
        for example in doctest.DocTestParser().get_examples(given):
            exec(example.source, names)
        for call in calls():
            try:
                exec(call, names)
            except Exception as error:  # all that fail are told at once
                failed.append(f"{call}: {error!r}")
    assert failed == []
