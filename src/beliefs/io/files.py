"""Bytes in and out: compression by suffix, errors in one line, and no half-written file ever.

A file is written beside its destination under a temporary name and renamed when it is whole, so an error or Ctrl-C
leaves what was there before. A compressed file may be a thousand times as long as it looks: it is read in growing
pieces, and each time its format is asked whether a file can begin like that, so that nonsense ends early.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import secrets
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO

from beliefs.errors import FormatError

__all__ = ["StrPath", "check_place", "named_errors", "plain_name", "read_bytes", "write_bytes"]

StrPath = str | os.PathLike[str]

# Time stamps and names are left out of the headers: the same model gives the same bytes.
_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, compresslevel=6, mtime=0),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}
_OPEN: dict[str, Callable[[IO[bytes]], BufferedIOBase]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": lambda file: lzma.LZMAFile(file),
    ".bz2": lambda file: bz2.BZ2File(file),
}
_PIECE = 2**18
_FIRST, _GROWTH = 2**20, 4  # bytes after which the beginning is looked at first, and again when it has grown so much


def plain_name(path: StrPath) -> str:
    """Return the file's name in lower case and without the suffix of its compression."""
    name = os.path.basename(os.fspath(path)).lower()
    stem, suffix = os.path.splitext(name)
    return stem if suffix in _COMPRESS else name


def check_place(path: StrPath) -> None:
    """Refuse, before any work, a path that cannot be written."""
    place = os.fspath(path)
    folder = os.path.dirname(place) or "."
    if not os.path.isdir(folder):
        raise FormatError(f"the folder {folder} does not exist", place)
    if os.path.isdir(place):
        raise FormatError("a folder is there", place)
    special = os.path.exists(place) and not os.path.isfile(place)  # a pipe or a device is written to, not replaced
    if not special and not os.access(folder, os.W_OK):
        raise FormatError(f"the folder {folder} cannot be written to", place)


@contextmanager
def named_errors(path: StrPath) -> Iterator[None]:
    """Add the file's name to a FormatError from a parser, which sees only text."""
    try:
        yield
    except FormatError as error:
        raise error.at(os.fspath(path)) from None


def _compression(path: StrPath) -> str:
    return os.path.splitext(os.fspath(path))[1].lower()


def read_bytes(path: StrPath, check_beginning: Callable[[bytes], None] | None = None) -> bytes:
    """Return a file's content, decompressed if its name ends in ``.gz``, ``.xz`` or ``.bz2``.

    ``check_beginning`` raises a FormatError if no file of the format begins with the bytes it is given.
    """
    place = os.fspath(path)
    try:
        data = Path(place).read_bytes()
    except FileNotFoundError:
        raise FormatError("no such file", place) from None
    except (OSError, ValueError) as error:  # ValueError: a nul character in the name
        raise FormatError(f"the file cannot be read ({_reason(error)})", place) from None
    opened = _OPEN.get(_compression(path))
    if opened is None:
        return data
    try:
        with opened(io.BytesIO(data)) as file:
            return _decompressed(file, check_beginning)
    except FormatError:
        raise
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise FormatError(f"the {_compression(path)} compression is corrupted ({error})", place) from None


def _decompressed(file: BufferedIOBase, check_beginning: Callable[[bytes], None] | None) -> bytes:
    content, due = io.BytesIO(), _FIRST
    while piece := file.read(_PIECE):
        content.write(piece)
        if content.tell() >= due and check_beginning is not None:
            check_beginning(content.getvalue())
            due *= _GROWTH
    return content.getvalue()


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
