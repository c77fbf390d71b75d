"""The README says what the library does: its table of methods is the library's own, and its example runs."""

import contextlib
import io
import re
from pathlib import Path

import beliefs as bl

README = Path(__file__).parents[2] / "README.md"


def test_table_of_methods_is_current():
    block = re.search(r"<!-- methods:begin -->\n(.*?)\n?<!-- methods:end -->", README.read_text(), re.DOTALL)
    assert block is not None
    assert block.group(1) == bl.methods().markdown(), "paste `bl.methods().markdown()` between the marks"


def test_example_runs_and_prints_what_it_promises():
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert code is not None
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(code.group(1), {})
    lines = shown.getvalue().splitlines()
    assert "EXACT junction_tree exact inference fits" in lines[0]
    assert lines[2].endswith(" 0.0")  # the gap: a proof
