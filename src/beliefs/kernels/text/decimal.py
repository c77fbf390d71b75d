"""Decimal text to the nearest float64, without the interpreter.

A number ``w x 10^q`` with at most 19 digits is rounded by three paths, cheapest first: exact arithmetic where both
parts are exact in float64 (``w <= 2^53``, ``|q| <= 22``); the Eisel-Lemire product of ``w`` with 128 bits of ``5^q``
(D. Lemire, "Number parsing at a gigabyte per second", 2021); and *hard*, left to the caller, for what these two do
not decide: subnormal results, and numbers of more than 19 digits that lie too near the middle between two floats.
So every value that is returned is bit for bit what ``float(text)`` gives.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from beliefs.kernels._jit import twofold_kernel

__all__ = ["HARD", "NOT_A_NUMBER", "VALUE", "Bytes", "parse_number"]

Bytes: TypeAlias = NDArray[np.uint8]
Words: TypeAlias = NDArray[np.uint64]

VALUE, NOT_A_NUMBER, HARD = 0, 1, 2

_LOWEST, _HIGHEST = -342, 308  # powers of ten beyond which 19 digits give zero or infinity


def _powers_of_five() -> tuple[Words, Words]:
    """Return the leading 128 bits of ``5^q`` as two words.

    Truncated, but for the reciprocals of powers below 2^64: these may divide ``w`` exactly, and are rounded up.
    """
    high, low = [], []
    for q in range(_LOWEST, _HIGHEST + 1):
        power = 5 ** abs(q)
        if q >= 0:
            shift = power.bit_length() - 128
            bits = power >> shift if shift > 0 else power << -shift
        else:
            bits = (1 << (power.bit_length() + 127)) // power + (q >= -27)
        high.append(bits >> 64)
        low.append(bits & (2**64 - 1))
    return np.array(high, np.uint64), np.array(low, np.uint64)


_FIVE_HIGH, _FIVE_LOW = _powers_of_five()
_TEN = np.array([float(10**k) for k in range(23)])
_INFINITY, _NAN = np.frombuffer(b"infinity", np.uint8), np.frombuffer(b"nan", np.uint8)

_0, _1, _3 = np.uint64(0), np.uint64(1), np.uint64(3)
_10, _32, _63 = np.uint64(10), np.uint64(32), np.uint64(63)
_LOW_HALF = np.uint64(2**32 - 1)
_ALL = np.uint64(2**64 - 1)
_LOST_BITS = np.uint64(2**9 - 1)  # of 64 product bits, 55 are needed: 53 of the result, one to round, one of slack
_HIDDEN_BIT = np.uint64(2**52)
_EXACT = np.uint64(2**53)
_ROOM_FOR_A_DIGIT = np.uint64(10**18)  # below it, w * 10 + 9 fits into 64 bits


@twofold_kernel
def _multiply(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the high and low word of ``a * b``. Equivalent to ``divmod(int(a) * int(b), 2**64)``."""
    a0, a1 = a & _LOW_HALF, a >> _32
    b0, b1 = b & _LOW_HALF, b >> _32
    low, cross = a0 * b0, a1 * b0
    middle = a0 * b1 + (low >> _32) + (cross & _LOW_HALF)
    return a1 * b1 + (cross >> _32) + (middle >> _32), (middle << _32) | (low & _LOW_HALF)


@twofold_kernel
def _round(w: np.uint64, q: int) -> tuple[np.uint64, int]:
    """Return the float64 bits of ``w * 10**q`` and VALUE, or HARD where the product does not decide the rounding.

    Equivalent to ``float(f"{w}e{q}")`` for ``w > 0``. Cost: two or four multiplications.
    """
    if q < _LOWEST:
        return _0, VALUE
    if q > _HIGHEST:
        return np.uint64(0x7FF) << np.uint64(52), VALUE
    zeros = 0
    while not w >> _63:
        w <<= _1
        zeros += 1
    high, low = _multiply(w, _FIVE_HIGH[q - _LOWEST])
    if high & _LOST_BITS == _LOST_BITS:  # the truncated product may still carry into the bits that count
        more, _ = _multiply(w, _FIVE_LOW[q - _LOWEST])
        low += more
        if more > low:
            high += _1
        if low == _ALL and (q < -27 or q > 55):
            return _0, HARD
    top = high >> _63
    shift = top + np.uint64(9)
    mantissa = high >> shift
    exponent = ((217706 * q) >> 16) + 63 + np.int64(top) - zeros + 1023  # 217706 / 2^16 is log2(10), rounded down
    if exponent <= 0:
        return _0, HARD
    if low <= _1 and -4 <= q <= 23 and mantissa & _3 == _1 and mantissa << shift == high:
        mantissa ^= _1  # exactly between two floats: to the even one
    mantissa = (mantissa + (mantissa & _1)) >> _1
    if mantissa >= _HIDDEN_BIT << _1:
        mantissa = _HIDDEN_BIT
        exponent += 1
    if exponent >= 0x7FF:
        return np.uint64(0x7FF) << np.uint64(52), VALUE
    return (mantissa & (_HIDDEN_BIT - _1)) | (np.uint64(exponent) << np.uint64(52)), VALUE


@twofold_kernel
def _convert(w: np.uint64, q: int, more_digits: bool) -> tuple[float, int]:
    """Return ``w * 10**q`` rounded once; ``more_digits`` says that the true ``w`` lies up to one above."""
    if w == _0 and not more_digits:
        return 0.0, VALUE
    if not more_digits and w <= _EXACT and -22 <= q <= 22:
        return (np.float64(w) * _TEN[q] if q >= 0 else np.float64(w) / _TEN[-q]), VALUE
    bits, status = _round(w, q)
    if more_digits and status == VALUE:
        above, status = _round(w + _1, q)
        if above != bits:
            status = HARD
    return np.uint64(bits).view(np.float64), status


@twofold_kernel
def _starts_with(buf: Bytes, at: int, stop: int, word: Bytes) -> bool:
    """Return whether ``buf[at:stop]`` starts with ``word``, a lower-case word, in any case."""
    if at + word.size > stop:
        return False
    for k in range(word.size):
        if buf[at + k] | 32 != word[k]:
            return False
    return True


@twofold_kernel
def _named(buf: Bytes, at: int, stop: int) -> tuple[float, int]:
    """Return the value of ``inf``, ``infinity`` or ``nan`` (any case) at ``at`` and the position after it."""
    if _starts_with(buf, at, stop, _INFINITY):
        return np.inf, at + 8
    if _starts_with(buf, at, stop, _INFINITY[:3]):
        return np.inf, at + 3
    if _starts_with(buf, at, stop, _NAN):
        return np.nan, at + 3
    return 0.0, at


@twofold_kernel
def parse_number(buf: Bytes, at: int, stop: int) -> tuple[float, int, int]:
    """Read the longest number that starts at ``buf[at]``; return its value, the position after it and its status.

    Equivalent to ``float(buf[at:end])`` for the grammar ``[+-] digits [. digits] [e [+-] digits]``, ``[+-] inf``,
    ``[+-] infinity``, ``nan``. With status HARD only the position counts; with NOT_A_NUMBER nothing does.
    Never reads ``buf[stop]``. Cost: one pass over the characters.
    """
    i = at
    negative = False
    if i < stop and (buf[i] == 43 or buf[i] == 45):  # + -
        negative = buf[i] == 45
        i += 1
    if i < stop and buf[i] >= 65:
        value, end = _named(buf, i, stop)
        return (-value if negative else value), end, (VALUE if end > i else NOT_A_NUMBER)
    w = _0
    q = 0
    digits = 0
    more_digits = False
    after_point = False
    while i < stop:
        c = buf[i]
        if 48 <= c <= 57:
            digits += 1
            if w < _ROOM_FOR_A_DIGIT:
                w = w * _10 + np.uint64(c - 48)
                q -= after_point
            else:
                more_digits |= c != 48
                q += not after_point
        elif c == 46 and not after_point:
            after_point = True
        else:
            break
        i += 1
    if digits == 0:
        return 0.0, at, NOT_A_NUMBER
    if i < stop and (buf[i] | 32) == 101:  # e
        i += 1
        down = False
        if i < stop and (buf[i] == 43 or buf[i] == 45):
            down = buf[i] == 45
            i += 1
        first = i
        power = 0
        while i < stop and 48 <= buf[i] <= 57:
            if power < 1 << 40:  # more digits than any file has
                power = power * 10 + int(buf[i]) - 48
            i += 1
        if i == first:
            return 0.0, at, NOT_A_NUMBER
        q += -power if down else power
    value, status = _convert(w, q, more_digits)
    return (-value if negative else value), i, status
