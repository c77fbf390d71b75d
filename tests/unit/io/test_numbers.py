"""The compiled number parser gives, bit for bit, what Python's float gives."""

from __future__ import annotations

import random
import struct
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefs.errors import FormatError
from beliefs.io.scanner import Scanner
from strategies import examples


def bits(values: list[float]) -> list[bytes]:
    return [struct.pack("<d", value) for value in values]


def read(tokens: list[str]) -> list[float]:
    return Scanner(" ".join(tokens).encode()).numbers(len(tokens), "a number").tolist()


def assert_exact(tokens: list[str]) -> None:
    wrong = [t for t, got, want in zip(tokens, bits(read(tokens)), bits([float(t) for t in tokens])) if got != want]
    assert wrong == []


@examples(300)
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=30))
def test_every_float_survives_its_repr(values: list[float]) -> None:
    assert bits(read([repr(v) for v in values])) == bits(values)


@examples(300)
@given(st.from_regex(r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?", fullmatch=True))
def test_any_decimal_text(token: str) -> None:
    assert_exact([token])


def test_many_digits_and_exponents() -> None:
    rng = random.Random(1)
    assert_exact([f"{rng.randrange(10 ** rng.randrange(1, 26))}e{rng.randrange(-360, 320)}" for _ in range(20_000)])


def test_numbers_between_two_floats() -> None:
    """Halves of the last bit, exactly and one unit off: the cases that rounding gets wrong."""
    rng = random.Random(2)
    tokens = []
    for _ in range(2000):
        odd = 2 * (rng.getrandbits(53) | 1 << 52) + 1
        tokens += [str(odd), f"{odd * 5}e{rng.randrange(-25, 25)}"]
        exact = Decimal(odd) * Decimal(2) ** rng.randrange(-30, 30)
        tokens += [str(exact), str(exact) + "1", str(exact.next_minus())]
    assert_exact(tokens)


@pytest.mark.parametrize(
    "token",
    ["0", "-0", "-0.0", "+0.5", "5.", ".5", "1E5", "1e+5", "00012", "0e999999999999", "1e400", "-1e400", "1e-400"]
    + ["inf", "-inf", "Infinity", "1e23", "8.5e22", "9007199254740993", "2.2250738585072011e-308", "5e-324", "4.9e-324"]
    + ["2.4703282292062327e-324", "2.4703282292062328e-324", "1.7976931348623157e308", "1.7976931348623159e308"]
    + ["1" + "0" * 400, "0." + "0" * 400 + "1", "123456789012345678901234567890.123456789e-10"],
)
def test_edges_of_the_range(token: str) -> None:
    assert_exact([token])


def test_nan_is_read_for_the_caller_to_reject() -> None:
    assert np.isnan(read(["nan", "-NaN"])).all()


def test_more_hard_numbers_than_fit_one_pass() -> None:
    assert_exact(["4.9e-324", "0.25"] * 3000)


@pytest.mark.parametrize(
    "token", ["1_000", "0x10", "1e", "1e+", "--1", "+", ".", "1.2.3", "infi", "1,5", "½", "1d5", "\x00"]
)
def test_what_is_not_a_number(token: str) -> None:
    with pytest.raises(FormatError, match=r"^line 2: expected entry 1, found "):
        Scanner(f"1\n{token} 3".encode()).numbers(3, "entry {}")


@pytest.mark.parametrize("token", ["1.0", "1e3", "1234567890123456789", "x", "-", "0x1"])
def test_what_is_not_an_integer(token: str) -> None:
    with pytest.raises(FormatError, match=r"^line 3: expected a count, found "):
        Scanner(f"\n\n {token}".encode()).integer("a count")


def test_integers() -> None:
    assert Scanner(b"7 -3\t+2\r\n123456789012345678").integers(4, "").tolist() == [7, -3, 2, 123456789012345678]
