"""The interactive examples of the documentation print what they show."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md") if "```pycon" in path.read_text())


def test_pages_with_examples_are_found() -> None:
    assert "message-passing.md" in PAGES


@pytest.mark.parametrize("page", PAGES)
def test_examples_print_what_the_page_shows(page: str) -> None:
    """The blocks of a page are one session."""
    session = "".join(re.findall(r"```pycon\n(.*?)```", (DOCS / page).read_text(), re.DOTALL))
    test = doctest.DocTestParser().get_doctest(session, {}, page, page, 0)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)
