"""The interactive examples of the documentation print what they show; its other Python runs."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import os
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md") if "```pycon" in path.read_text())
PYTHON = sorted(path.name for path in DOCS.glob("*.md") if "```python" in path.read_text())


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


@pytest.mark.parametrize("page", PYTHON)
def test_python_of_a_page_runs(page: str) -> None:
    """The blocks of a page are one program; what they need and is not installed here, or not there, skips them."""
    program = "".join(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL))
    if "import torch" in program:
        pytest.importorskip("torch")
    if "uai_instances" in program and "BELIEFS_DATA" not in os.environ:
        pytest.skip("BELIEFS_DATA names no directory of published problems")
    with contextlib.redirect_stdout(io.StringIO()):
        exec(program, {})


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        (r"\tfrac12 x", ("1", "2")),
        (r"\frac1n \sum_i", ("1", "n")),
        (r"\tfrac\lambda2 y", ("λ", "2")),
        (r"\frac{1}{n}", ("1", "n")),
    ],
)
def test_short_fractions_of_formulas_have_both_their_parts(written: str, parts: tuple[str, str]) -> None:
    """The reader of formulas takes what follows as one number: a half would be shown as twelve over something."""
    pytest.importorskip("sphinx")
    nodes = pytest.importorskip("docutils.nodes")
    made = _mathml().mathml(nodes.math(written, written), block=False)
    fraction = re.sub(r"\s", "", made.partition("<mfrac")[2].partition("</mfrac>")[0])
    assert re.findall(r"<m[in]>(.*?)</m[in]>", fraction) == list(parts)


@pytest.mark.parametrize("written", [r"\log \mu_i(\hat y_i)", r"\hat{y}_{i}^2", r"\bar u^2"])
def test_the_index_of_a_letter_with_an_accent_is_beside_it(written: str) -> None:
    pytest.importorskip("sphinx")
    nodes = pytest.importorskip("docutils.nodes")
    made = _mathml().mathml(nodes.math(written, written), block=False)
    assert "<mover" in made and "<munder" not in made


def _mathml() -> Any:
    spec = importlib.util.spec_from_file_location("mathml", DOCS / "_extensions" / "mathml.py")
    assert spec is not None and spec.loader is not None
    extension = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(extension)
    return extension
