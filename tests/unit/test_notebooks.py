"""Every notebook runs from its first cell to its last without a warning, is stored with its pictures, and is shown."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted(path.stem for path in (DOCS / "notebooks").glob("*.ipynb"))


def cells(name: str, kind: str) -> list[dict[str, Any]]:
    notebook = json.loads((DOCS / "notebooks" / f"{name}.ipynb").read_text())
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_there_are_five_and_the_documentation_shows_each() -> None:
    index = (DOCS / "notebooks.md").read_text()
    assert len(NOTEBOOKS) == 5
    assert [name for name in NOTEBOOKS if f"notebooks/{name}" not in index] == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_is_stored_as_it_ran(name: str) -> None:
    """In one go from an empty kernel, with no cell that failed, and with pictures."""
    code = cells(name, "code")
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"] == []
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one namespace and without a kernel; the last expression of a cell is evaluated, as a notebook would."""
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("agg")
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    namespace: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells(name, "code"):
            source = "".join(cell["source"])
            exec(compile(ast.parse(source), f"{name}, cell {cell['id']}", "exec"), namespace)
    assert plt.get_fignums() == []  # every figure was shown
