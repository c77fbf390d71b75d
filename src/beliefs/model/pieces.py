"""Long arrays piece by piece: what is made on the way is then no memory to speak of."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["pieces"]

_LENGTH = 2**15  # some hundred kB an array, which stay in the cache


def pieces(length: int) -> Iterator[slice]:
    """Yield slices that cover an array of this length in turn.

    Examples
    --------
    >>> [(piece.start, piece.stop) for piece in pieces(2**15 + 5)]
    [(0, 32768), (32768, 32773)]
    """
    for begin in range(0, length, _LENGTH):
        yield slice(begin, min(begin + _LENGTH, length))
