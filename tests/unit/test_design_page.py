"""The tree on the design page is the real one."""

from __future__ import annotations

import re
from pathlib import Path

import beliefs

PACKAGE = Path(beliefs.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "design.md"


def test_the_tree_of_the_design_page_is_the_real_one() -> None:
    """Every room and every part of a room is shown, below its room, and no other."""
    shown: dict[str, set[str]] = {}
    room_of = ""
    for line in PAGE.read_text().partition("```\nsrc/beliefs/\n")[2].partition("```")[0].splitlines():
        indent, names = len(line) - len(line.lstrip()), re.split(r"\s{2,}", line.strip())[0]
        if indent == 2:
            room_of = names.rstrip("/")
        else:
            shown.setdefault(room_of, set()).update(re.findall(r"(\w+)/", names))
    real = {
        path.parent.name: {part.parent.name for part in path.parent.glob("*/__init__.py")}
        for path in PACKAGE.glob("*/__init__.py")
    }
    assert {name: parts for name, parts in shown.items() if parts} == {n: parts for n, parts in real.items() if parts}
