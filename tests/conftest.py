"""Fixtures of all tests. Kernels are compiled at their first call here: some tests measure the second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beliefs.kernels._jit import Twofold
from twofold import made_both_ways

Twofold.always_compiled = True


@pytest.fixture(scope="module")
def both_ways() -> Iterator[None]:
    """Kernels that may be interpreted are, and compiled as well, and the results compared at every call."""
    with made_both_ways():
        yield
