"""Every command line that the documentation shows runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import beliefs as bl
from beliefs.cli import commands

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/command-line.md")


def shown(page: str) -> list[str]:
    """The lines of shell blocks that call the program."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return [line for line in "".join(blocks).splitlines() if re.match(r"(\w+=\S+ )*beliefs ", line)]


@pytest.mark.parametrize(("page", "line"), [(page, line) for page in PAGES for line in shown(page)])
def test_command_runs(page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = bl.datasets.make_chain(6, seed=0)
    bl.write(graph, "model.uai")
    bl.write(graph, "model.uai.gz")
    Path("model.uai.evid").write_text("1 0 1")
    Path("model.uai.query").write_text("2 1 3")
    np.savez("data.npz", X=np.arange(24.0).reshape(2, 3, 4) % 5, Y=np.arange(24).reshape(2, 3, 4) % 2)
    if "rows.csv" in line:
        bl.write(bl.datasets.load_bn("asia"), "learned.bif")
        CliRunner().invoke(commands, ["sample", "asia", "-n", "200", "-o", "rows.csv"])
    elif " predict " in line:
        CliRunner().invoke(commands, ["fit", "data.npz", "--model", "grid", "-o", "model.npz", "--max-iters", "2"])
    words = shlex.split(line, comments=True)
    start = words.index("beliefs")
    settings = dict(word.split("=", 1) for word in words[:start])
    result = CliRunner().invoke(commands, words[start + 1 :], env=settings)
    assert (result.exit_code, result.stderr) == (0, "")


def test_pages_show_commands() -> None:
    assert all(len(shown(page)) > 5 for page in PAGES)


def test_every_command_is_explained() -> None:
    text = (ROOT / "docs/command-line.md").read_text()
    assert [name for name in commands.commands if f"| `{name}" not in text] == []
