"""Every script of the gallery runs, on its small setting, without a warning, and writes a picture."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import beliefs as bl

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SOURCE = Path(bl.__file__).parents[1]
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))


def test_scripts_are_found_and_the_gallery_shows_each() -> None:
    gallery = (EXAMPLES.parent / "docs" / "gallery.md").read_text()
    assert SCRIPTS and [name for name in SCRIPTS if f"examples/{name}" not in gallery] == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_quick_run_prints_its_answer_and_saves_its_figure(script: str, tmp_path: Path) -> None:
    env = os.environ | {"QUICK": "1", "PYTHONPATH": str(SOURCE), "MPLBACKEND": "agg", "MPLCONFIGDIR": str(tmp_path)}
    figure = tmp_path / "figure.png"
    command = [sys.executable, "-W", "error", str(EXAMPLES / script), str(figure)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(".") and "NOT always" not in done.stdout
    assert figure.read_bytes().startswith(b"\x89PNG")
