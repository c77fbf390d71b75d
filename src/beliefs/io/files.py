"""Bytes in and out: compression by suffix, errors in one line, and no half-written file ever.

A file is written beside its destination under a temporary name and renamed when it is whole, so an error or Ctrl-C
leaves what was there before.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import secrets
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from beliefs.errors import FormatError

__all__ = ["StrPath", "named_errors", "plain_name", "read_bytes", "write_bytes"]

StrPath = str | os.PathLike[str]

# Time stamps and names are left out of the headers: the same model gives the same bytes.
_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, compresslevel=6, mtime=0),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}
_DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
}


def plain_name(path: StrPath) -> str:
    """Return the file's name in lower case and without the suffix of its compression."""
    name = os.path.basename(os.fspath(path)).lower()
    stem, suffix = os.path.splitext(name)
    return stem if suffix in _COMPRESS else name


@contextmanager
def named_errors(path: StrPath) -> Iterator[None]:
    """Add the file's name to a FormatError from a parser, which sees only text."""
    try:
        yield
    except FormatError as error:
        raise error.at(os.fspath(path)) from None


def _compression(path: StrPath) -> str:
    return os.path.splitext(os.fspath(path))[1].lower()


def read_bytes(path: StrPath) -> bytes:
    """Return a file's content, decompressed if its name ends in ``.gz``, ``.xz`` or ``.bz2``."""
    place = os.fspath(path)
    try:
        data = Path(place).read_bytes()
    except FileNotFoundError:
        raise FormatError("no such file", place) from None
    except (OSError, ValueError) as error:  # ValueError: a nul character in the name
        raise FormatError(f"the file cannot be read ({_reason(error)})", place) from None
    decompress = _DECOMPRESS.get(_compression(path))
    if decompress is None:
        return data
    try:
        return decompress(data)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise FormatError(f"the {_compression(path)} compression is corrupted ({error})", place) from None


def write_bytes(path: StrPath, data: bytes, *, durable: bool = False) -> None:
    """Write a file whole or not at all, compressed as its name says; ``durable`` waits until the disk has it."""
    place = os.path.realpath(os.fspath(path))  # a link keeps pointing to its file
    compress = _COMPRESS.get(_compression(path))
    content = data if compress is None else compress(data)
    try:
        if os.path.exists(place) and not os.path.isfile(place):  # a pipe or a device is written to, not replaced
            Path(place).write_bytes(content)
        else:
            _replace(place, content, durable)
    except (OSError, ValueError) as error:
        raise FormatError(f"the file cannot be written ({_reason(error)})", os.fspath(path)) from None


def _replace(place: str, content: bytes, durable: bool) -> None:
    folder, name = os.path.split(place)
    temporary = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(6)}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, place)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
