"""Names of a package that are loaded at their first use, so that a program waits for what it uses only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["loader"]


def loader(
    package: str,
    homes: Mapping[str, tuple[str, ...]],
    modules: tuple[str, ...] = (),
    hint: Callable[[str], str] = lambda _: "",
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: its public names by the module below it where they are, and its modules.

    A name that is found stays in the package; for one that is not there, ``hint`` may say which was meant.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        """Load a public name at its first use."""
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint(name)}")
        found = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return load
