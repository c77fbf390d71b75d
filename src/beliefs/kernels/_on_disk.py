"""Compiled kernels on disk, and which of several processes compiles which.

Numba names the files of a kernel's code by numbers and writes into the index which is whose before the code is there.
A process that is stopped in between, or two that compile forms of one kernel at once, leave an index that takes old
code, or another form's, for what was asked. So here files are named after the sources and types that they were made
from, and the index comes last: whatever happens, it names what is right, or a file that is not there, which is as if
nothing had been compiled.

Processes that compile side by side (``beliefs warmup``) claim what they begin with, by locking a byte of a file that
they share: who comes second waits, and loads what the first has made. A claim ends with its process. Where files cannot
be locked, both compile.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from beliefs.interrupts import interrupts_wait

__all__ = ["claim_in", "keep_on_disk"]

_BYTES = 2**62  # of the file of claims; it stays empty, as bytes may be locked that are not there

_CLAIMS: list[Any] = []  # the file in which this process claims, if it does; its last entry


def claim_in(path: str) -> None:
    """Claim kernels from now on, before compiling them, in a file that other processes claim in as well."""
    with suppress(OSError):
        _CLAIMS.append(Path(path).open("r+b"))


def keep_on_disk(compiled: Any, stamp: str) -> None:
    """Let a dispatcher of Numba's keep its code as said above, while the digest of its sources stays the same."""
    cache = compiled._cache
    files = cache._cache_file
    files._source_stamp = stamp  # compared by equality when the index is read
    files._load_index = partial(_overloads, files._load_index)
    files.save = partial(_save, files)
    cache.load_overload = partial(_load_or_claim, cache, cache.load_overload)
    cache.save_overload = partial(_save_and_release, cache, cache.save_overload)


def _overloads(load: Callable[[], dict[Any, str]]) -> dict[Any, str]:
    """Read what is on disk for a kernel: nothing of use if it names types that these sources no longer have."""
    try:
        return load()
    except (AttributeError, ImportError, EOFError, pickle.UnpicklingError):
        return {}


def _save(files: Any, key: Any, data: Any) -> None:
    """Write the code, and then its name into the index; of other sources' code nothing is left."""
    stem = files._data_name_pattern.partition(".{number")[0]
    name = f"{stem}.{hashlib.sha256(repr((files._source_stamp, key)).encode()).hexdigest()[:16]}.nbc"
    with _claimed(files._index_path):
        overloads = files._load_index()
        if not overloads and Path(files._index_path).exists():
            for old in Path(files._cache_path).glob(f"{stem}.*.nbc"):
                old.unlink(missing_ok=True)
        files._save_data(name, data)
        files._save_index({**overloads, key: name})


def _load_or_claim(cache: Any, load: Callable[..., Any], signature: Any, context: Any) -> Any:
    """Load code; where there is none, claim it, which may take until another process has made it."""
    found = _whole(load, signature, context)
    if found is None and _CLAIMS:
        what = cache._index_key(signature, context.codegen())
        _lock(what)
        found = _whole(load, signature, context)
        if found is not None:
            _release(what)
    return found


def _save_and_release(cache: Any, save: Callable[..., None], signature: Any, data: Any) -> None:
    try:
        _whole(save, signature, data)
    finally:
        if _CLAIMS:
            _release(cache._index_key(signature, data.codegen))


def _whole(do: Callable[..., Any], *arguments: Any) -> Any:
    """Load or save without an interrupt in between: LLVM calls back as it loads, and what is raised there is lost."""
    with interrupts_wait():
        return do(*arguments)


@contextmanager
def _claimed(what: Any) -> Iterator[None]:
    _lock(what)
    try:
        yield
    finally:
        _release(what)


def _lock(what: Any) -> None:
    _locking("LOCK_EX", what)


def _release(what: Any) -> None:
    _locking("LOCK_UN", what)


def _locking(operation: str, what: Any) -> None:
    """Lock or free the byte that stands for something; without locks (a file system's, or Windows) do nothing."""
    if _CLAIMS:
        with suppress(ImportError, OSError):
            import fcntl

            byte = int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:8], "big") % _BYTES
            fcntl.lockf(_CLAIMS[-1], getattr(fcntl, operation), 1, byte)
