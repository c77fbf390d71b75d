"""Limits that keep a small file from asking for all the memory there is."""

from __future__ import annotations

__all__ = ["MAX_CARD", "MOST_ENTRIES", "max_cells"]

MAX_CARD = 2**31 - 1
"""States of one variable."""

MOST_ENTRIES = 2**33
"""What a file may promise of anything; more fits on no machine, and reading would never end."""

_MAX_CELLS = 2**27


def max_cells() -> int:
    """Return the most cells (1 GB of them) that formats with implied entries may fill; UAI files list every entry."""
    return _MAX_CELLS
