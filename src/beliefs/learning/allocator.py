"""What a worker's allocator gives back to the system, while data is held there.

The nannies of dask tell the allocator of their workers (glibc's, by ``MALLOC_TRIM_THRESHOLD_``) to give back all but
64 kB of what is free at the end of its memory, and with that setting every array above 128 kB is mapped and unmapped
each time. So memory looks small from outside, and everything that an evaluation works in is new again in the next one:
a seventh of the time of a gradient went into touching pages for the first time. As long as shards are held the
allocator has the thresholds that it finds by itself elsewhere: a thread keeps up to 64 MB that is free. Where nothing
was said to the allocator, or it is another one, nothing is changed.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

__all__ = ["keep_free_memory"]

_VARIABLE = "MALLOC_TRIM_THRESHOLD_"
_TRIM, _MAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
_USUAL_MAP = 2**17
_LARGEST_MAP = 2**25  # what both grow to by themselves, as arrays come and go: this, and twice as much


def keep_free_memory(wanted: bool) -> bool:
    """Let the allocator keep free memory, or do again what it was told; return whether it was asked."""
    told, glibc = os.environ.get(_VARIABLE, ""), _glibc()
    if glibc is None or not told.isdigit():
        return False
    glibc.mallopt(_MAP, _LARGEST_MAP if wanted else _USUAL_MAP)
    glibc.mallopt(_TRIM, 2 * _LARGEST_MAP if wanted else int(told))
    if not wanted:
        glibc.malloc_trim(0)
    return True


def _glibc() -> Any:
    if sys.platform != "linux":
        return None
    own = ctypes.CDLL(None)
    return own if hasattr(own, "mallopt") and hasattr(own, "malloc_trim") else None
