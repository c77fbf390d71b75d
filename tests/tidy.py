"""What every file that is kept must satisfy: text ends in one newline, no line in blanks, nothing is large.

Run as a program with the names of files it prints what is wrong with each, and ends with 1 if anything is.
"""

from __future__ import annotations

import sys
from pathlib import Path

MAX_BYTES = 2_000_000


def faults(path: Path) -> list[str]:
    """What is wrong with one file."""
    data = path.read_bytes()
    found = [f"{path}: {len(data)} bytes, more than {MAX_BYTES}"] if len(data) > MAX_BYTES else []
    if b"\0" in data or not data:
        return found
    if not data.endswith(b"\n") or data.endswith(b"\n\n"):
        found.append(f"{path}: does not end in exactly one newline")
    blank = [number for number, line in enumerate(data.split(b"\n"), 1) if line != line.rstrip(b" \t\r")]
    return found + [f"{path}, line {number}: ends in blanks" for number in blank[:1]]


if __name__ == "__main__":
    wrong = [fault for name in sys.argv[1:] for fault in faults(Path(name))]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))
