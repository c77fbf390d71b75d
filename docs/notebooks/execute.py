"""Run the notebooks of this folder and store them with what they show: ``python docs/notebooks/execute.py [NAME ...]``.

What differs from run to run without a reason (times, versions, addresses of objects) is left out, so that a notebook
changes when its code or its answers do.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
LIMIT = 60  # seconds a notebook


def tidy(notebook: Any) -> None:
    """Leave out times, versions and addresses of objects."""
    notebook.metadata.pop("language_info", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            output.pop(
                "metadata", None
            ) if output.output_type == "stream" else output.metadata.clear()
            for kind, text in output.get("data", {}).items():
                if kind.startswith("text/"):
                    output.data[kind] = re.sub(r" at 0x[0-9a-f]+", "", text)


def execute(path: Path) -> float:
    """Run one notebook in its own kernel, store it, and return the seconds it took."""
    notebook = nbformat.read(path, as_version=4)
    start = time.perf_counter()
    NotebookClient(notebook, timeout=LIMIT, kernel_name="python3").execute()
    seconds = time.perf_counter() - start
    tidy(notebook)
    nbformat.write(notebook, path)
    return seconds


if __name__ == "__main__":
    for path in sorted(HERE.glob("*.ipynb")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            print(f"{path.stem}: {execute(path):.1f} s")
