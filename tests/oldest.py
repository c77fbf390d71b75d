"""The oldest releases that pyproject.toml allows, as requirements: the core, what tests need, pictures and images.

Run as a program it prints one line a package, ``numpy==2.0``.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

EXTRAS = ("plot", "image", "dev")
NOT_RUN = ("mypy", "ruff", "pytest-xdist")
BOUND = re.compile(r"(?P<name>[\w-]+)(?:\[[\w,]+\])?>=(?P<version>[\w.]+)")


def oldest(project: dict[str, Any]) -> list[str]:
    """Every lower bound as ``name==version``."""
    written = [
        *project["dependencies"],
        *(text for extra in EXTRAS for text in project["optional-dependencies"][extra]),
    ]
    found = [bound for bound in map(BOUND.match, written) if bound is not None]
    return [f"{bound['name']}=={bound['version']}" for bound in found if bound["name"] not in NOT_RUN]


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[1]
    print(*oldest(tomllib.loads((root / "pyproject.toml").read_text())["project"]), sep="\n")
