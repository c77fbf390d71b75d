"""The API reference describes every public name once, and nothing that does not exist."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "api"
DIRECTIVE = re.compile(r"^\.\. (?:(currentmodule)|(?:auto|py:)(?:class|function|exception|data)):: (\S+)", re.MULTILINE)
MODULES = (
    "beliefs",
    "beliefs.cycles",
    "beliefs.datasets",
    "beliefs.learning.losses",
    "beliefs.metrics",
    "beliefs.plot",
)
LISTS = {"LOSSES"}  # of classes that are described one by one


def described() -> list[str]:
    """Full names, in the order of the pages."""
    names = []
    for page in sorted(PAGES.glob("*.md")):
        module = ""
        for begins, name in DIRECTIVE.findall(page.read_text()):
            if begins:
                module = name
            else:
                names.append(f"{module}.{name}")
    return names


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_described(module: str) -> None:
    room = importlib.import_module(module)
    public = {f"{module}.{name}" for name in room.__all__ if name not in LISTS}
    rooms = {name for name in public if isinstance(getattr(room, name.rsplit(".")[-1]), ModuleType)}
    assert sorted(public - rooms - set(described())) == []


def test_what_is_described_exists_and_is_described_once() -> None:
    for name in described():
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name
    assert [name for name, times in Counter(described()).items() if times > 1] == []
