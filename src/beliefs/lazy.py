"""Names of a package that are loaded at their first use, so that a program waits for what it uses only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["loader"]


def loader(
    package: str,
    homes: Mapping[str, tuple[str, ...]],
    elsewhere: str = "",
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package: its public names by the module below it where they are.

    Modules of the package are loaded by their own names. A name that is found stays in the package; for one that is not
    there, the error says which was meant, by the words of :mod:`beliefs.elsewhere` that ``elsewhere`` names.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        """Load a public name at its first use."""
        if name not in home:
            if name.isidentifier() and name[0] != "_" and find_spec(f"{package}.{name}"):
                return import_module(f"{package}.{name}")
            words = import_module("beliefs.elsewhere")
            hint = words.meant(name, getattr(words, elsewhere, {}), {*home, *vars(sys.modules[package])["__all__"]})
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        found = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        """Return all names, those that are not loaded yet among them."""
        here = vars(sys.modules[package])
        return sorted({*here, *here["__all__"]})

    return load, names
