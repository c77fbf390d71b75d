"""Files: models, evidence, queries and solutions in the formats of the field.

A format is a module with ``loads`` (text or bytes to model) and ``dumps`` (model to text or bytes), and a row of
:data:`~beliefs.io.formats.FORMATS`; :func:`read` and :func:`write` choose it by the file's suffix. Every malformed file
ends in a FormatError with file, line, what was expected and what was found.
"""

from typing import TYPE_CHECKING

from beliefs.lazy import loader

if TYPE_CHECKING:
    from beliefs.io import uai
    from beliefs.io.by_suffix import SUFFIXES, read, read_evidence, read_query, write
    from beliefs.io.formats import FORMATS
    from beliefs.io.rg import read_regions, write_regions

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "read",
    "read_evidence",
    "read_query",
    "read_regions",
    "uai",
    "write",
    "write_regions",
]

_HOMES = {
    "by_suffix": ("SUFFIXES", "read", "read_evidence", "read_query", "write"),
    "formats": ("FORMATS",),
    "rg": ("read_regions", "write_regions"),
}
__getattr__, __dir__ = loader(__name__, _HOMES, "PACKAGE")
