r"""Tables of many causes from few numbers: noisy-OR and noisy-MAX.

Every cause acts on its own: with state :math:`x_i` it brings the effect to a degree :math:`Z_i` drawn from row
:math:`x_i` of its table, a leak :math:`Z_0` stands for all causes that are not modelled, and the effect is the largest,

.. math:: y = \max(Z_0, Z_1, \dots, Z_n), \qquad P(y \le k \mid x) = P(Z_0 \le k) \prod_i P(Z_i \le k \mid x_i)

[pearl1988, diez1993]. With two states each that is the noisy-OR,
:math:`P(y = 1 \mid x) = 1 - (1 - p_0) \prod_{i: x_i = 1} (1 - p_i)`. The table is exact; its size is the product of all
cardinalities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.model.factor import check_axes, numeric
from beliefs.options import check_option, is_number
from beliefs.typing import Floats

__all__ = ["noisy_max", "noisy_or"]

_MOST_CELLS = 10**8
_TOLERANCE = 1e-4  # of sums of rows, as in conditional tables


def noisy_or(probabilities: ArrayLike, leak: float = 0.0) -> Floats:
    """Return the conditional table of a noisy-OR, with axes ``(causes..., effect)`` of two states each.

    Parameters
    ----------
    probabilities : array_like (n,)
        For each cause, how probable the effect is if that cause alone is present (state 1).
    leak : float
        How probable the effect is without any cause.

    Examples
    --------
    >>> noisy_or([0.8, 0.5], leak=0.1)[1, 0].round(3)
    array([0.18, 0.82])
    """
    p = numeric(probabilities, "probabilities")
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ModelError(
            f"probabilities must be a list of numbers from 0 to 1, one a cause, found {probabilities!r:.80}"
        )
    check_option(is_number(leak) and 0 <= leak <= 1, "leak", "a number from 0 to 1", leak)
    return noisy_max([[[1.0, 0.0], [1 - float(q), float(q)]] for q in p], [1 - leak, leak])


def noisy_max(causes: Sequence[ArrayLike], leak: ArrayLike | None = None) -> Floats:
    """Return the conditional table of a noisy-MAX, with axes ``(causes..., effect)``.

    Parameters
    ----------
    causes : sequence of array_like (K_i, K)
        For each cause, the distribution of the degree that it brings the effect to, a row a state of the cause. States
        of the effect are ordered from none to most.
    leak : array_like (K,), optional
        The distribution of the degree without any cause; surely none (state 0) unless given.

    Examples
    --------
    >>> noisy_max([[[1, 0, 0], [0.5, 0.3, 0.2]], [[1, 0, 0], [0.4, 0.4, 0.2]]])[1, 1].round(2)
    array([0.2 , 0.44, 0.36])
    """
    tables = [numeric(table, f"table of cause {i}") for i, table in enumerate(causes)]
    if not tables and leak is None:
        raise ModelError("a noisy-MAX without causes needs a leak")
    n_states = len(numeric(leak, "leak")) if leak is not None else tables[0].shape[-1] if tables[0].ndim else 0
    base = np.eye(1, n_states)[0] if leak is None else numeric(leak, "leak")
    for name, table in (("leak", base[None]), *((f"table of cause {i}", t) for i, t in enumerate(tables))):
        if table.ndim != 2 or table.shape[1] != n_states or not len(table):
            raise ModelError(f"{name} must have {n_states} columns, one a state of the effect, found {table.shape}")
        if (table < 0).any() or (np.abs(table.sum(axis=1) - 1) > _TOLERANCE).any():
            raise ModelError(f"each row of the {name} must be probabilities that sum to 1")
    shape = [len(table) for table in tables]
    check_axes(len(shape) + 1, "divorce the causes: join some of them by a variable of their own")
    if math.prod(shape) * n_states > _MOST_CELLS:
        raise ModelError(
            f"a table of {math.prod(shape) * n_states:.3g} cells is too large; join some of the causes first"
        )
    below = np.cumsum(base)
    for table in tables:  # P(largest so far <= k), one more axis for each cause
        below = below[..., None, :] * np.cumsum(table, axis=1)
    effect = np.maximum(np.diff(below, axis=-1, prepend=0.0), 0.0)
    normalised: Floats = effect / effect.sum(axis=-1, keepdims=True)
    return normalised
