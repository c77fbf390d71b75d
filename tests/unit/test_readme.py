"""The README says what the library does: its table of methods is the library's own, and its example runs."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import beliefs as bl

README = Path(__file__).parents[2] / "README.md"


def test_table_of_methods_is_current():
    block = re.search(r"<!-- methods:begin -->\n(.*?)\n?<!-- methods:end -->", README.read_text(), re.DOTALL)
    assert block is not None
    assert block.group(1) == bl.methods().markdown(), "paste `bl.methods().markdown()` between the marks"


def run_example(number: int) -> tuple[str, list[str]]:
    """Return the code of an example and the lines that it prints."""
    code = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[number]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(code, {})
    return code, shown.getvalue().splitlines()


@pytest.mark.parametrize("number", [0, 1, 2], ids=["first", "bounds", "learning"])
def test_numbers_are_those_that_the_example_shows(number):
    code, lines = run_example(number)
    assert [f"# {line}" for line in lines] == re.findall(r"^# .*$", code, re.MULTILINE)
