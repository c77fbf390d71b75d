"""NumPy archives (``.npz``) read with suspicion: plain arrays only, each as large as its bytes, nothing executed.

An array's header is compared with the bytes of its member before anything of its size is made, so that a shape which
the file does not hold is a FormatError and no lack of memory. Archives of our own are stored as they are; those of
others may be compressed, and then need a limit.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from beliefs.errors import FormatError

__all__ = ["check_beginning", "unpacked"]

_LONGEST_HEADER = 10_000  # bytes of an array's own header
_LOCAL = struct.Struct("<4s5H3I2H")  # what stands before each member: signature, ..., sizes, lengths of name and extra
_SIGNATURE, _DIRECTORY = b"PK\x03\x04", b"PK\x01\x02"
_ZIP64 = 0xFFFFFFFF


def unpacked(data: bytes, most: float | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of an archive by name; ``most`` allows compressed members, up to so many bytes in all."""
    found: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            total = sum(info.file_size for info in members)
            if total > (len(data) if most is None else most):
                raise FormatError(f"the arrays would take {total} bytes, more than there can be")
            for info in members:
                name = info.filename.removesuffix(".npy")
                if most is None and info.compress_type != zipfile.ZIP_STORED:
                    raise FormatError(f"the array {name[:40]!r} is compressed; compress whole files, by their suffix")
                if name in found:
                    raise FormatError(f"the array {name[:40]!r} is there twice")
                with archive.open(info) as member:
                    found[name] = _array(name[:40], member, info.file_size)
    except FormatError:
        raise
    except Exception as error:  # zipfile has no common class for what garbage makes it raise
        reason = " ".join(str(error).split())[:80]
        raise FormatError(f"not an .npz archive of plain arrays ({type(error).__name__}: {reason})") from None
    return found


def _array(name: str, member: IO[bytes], size: int) -> np.ndarray:
    """Return the array of one member, which has ``size`` bytes, after comparing it with its header."""
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    reader: Any = readers.get(npy.read_magic(member))
    if reader is None:
        raise FormatError(f"the array {name!r} is of an unknown version")
    shape, fortran, dtype = reader(member, max_header_size=_LONGEST_HEADER)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise FormatError(f"not an .npz archive of plain arrays: {name!r} is none")
    needed = math.prod(shape) * dtype.itemsize
    if needed != size - member.tell():
        raise FormatError(f"the array {name!r} of shape {shape} needs {needed} bytes, found {size - member.tell()}")
    content = member.read(needed)
    if len(content) != needed or member.read(1):
        raise FormatError(f"the array {name!r} is not as long as the archive says")
    flat = np.frombuffer(bytearray(content), dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def check_beginning(data: bytes) -> None:
    """Raise a FormatError unless an archive of stored arrays could begin like this."""
    at = 0
    while at < len(data):
        if data[at : at + 4] in (_DIRECTORY, _DIRECTORY[: len(data) - at]):
            return
        if not _SIGNATURE.startswith(data[at : at + 4]):
            raise FormatError("not an .npz archive of plain arrays")
        if at + _LOCAL.size > len(data):
            return
        _, _, flags, method, _, _, _, size, full, name, extra = _LOCAL.unpack_from(data, at)
        if flags & 9 or method != 0 or (size != full and _ZIP64 not in (size, full)):
            raise FormatError("the archive's members must be stored as they are: whole, plain and with their sizes")
        if _ZIP64 in (size, full):
            if len(data) < at + _LOCAL.size + name + extra:
                return
            size = _long_size(data[at + _LOCAL.size + name : at + _LOCAL.size + name + extra])
        at += _LOCAL.size + name + extra + size


def _long_size(extra: bytes) -> int:
    """Return the size in the extra field of a member that has, or may have, more than 4 GB."""
    at = 0
    while at + 12 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            return int(struct.unpack_from("<Q", extra, at + 4)[0])
        at += 4 + length
    raise FormatError("the archive has a member without a size")
