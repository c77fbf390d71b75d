"""Random numbers one after the other: a xorshift generator with one word of state, and shuffles."""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import twofold_kernel
from beliefs.typing import Bits, Ints

__all__ = ["draw", "shuffle"]


@twofold_kernel
def draw(state: Bits) -> float:
    """Return the next number in [0, 1) of a xorshift generator; ``state (1,)`` is not zero and changes."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return float(x >> np.uint64(11)) * 2.0**-53


@twofold_kernel
def shuffle(items: Ints, state: Bits) -> None:
    """Permute at random, in place."""
    for i in range(items.shape[0] - 1, 0, -1):
        j = int(draw(state) * (i + 1))
        items[i], items[j] = items[j], items[i]
