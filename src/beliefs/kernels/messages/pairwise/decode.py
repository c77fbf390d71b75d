r"""A state read off the max-beliefs of a pairwise model; see :mod:`beliefs.kernels.messages.decode` for any model.

With messages held in logs, :math:`\beta_v = \theta_v + \sum_{e \ni v} \rho_e \lambda_{e \to v}`, and for edges whose
other end has been decided the message is replaced by the table at that state:

.. math:: x_v = \arg\max_x \; \beta_v(x) + \sum_{e = (v, u),\, u \text{ decided}}
          \rho_e \big( \psi_e(x, x_u) - \lambda_{e \to v}(x) \big), \qquad \psi_e = \theta_e / \rho_e.

Cost: edges times states. Tables, messages and products are held as in :mod:`beliefs.kernels.messages.pairwise.setup`.
"""

from __future__ import annotations

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.messages.pairwise.structures import PairTables
from beliefs.typing import Floats, Ints

__all__ = ["decode_pairs"]


@kernel
def decode_pairs(
    pairs: PairTables,
    width: int,
    rho: Floats,
    product: Floats,
    messages: Floats,
    near_ptr: Ints,
    near: Ints,
    order: Ints,
    tie: float,
    out: Ints,
) -> None:
    """Decide the variables in ``order``; ``out (n_vars,)`` comes in as -1 where open.

    The ends of edges at variable i are ``near[near_ptr[i] : near_ptr[i + 1]]``: ``2 e`` if it is ``u[e]``, else
    ``2 e + 1``. Of states within ``tie`` of the best the first is taken.
    """
    states, u, v, at, psi = pairs.states, pairs.u, pairs.v, pairs.at, pairs.psi
    score = np.empty(states)
    size = 3 if width == 1 else states * states
    for i in order:
        if out[i] >= 0:
            continue
        if width == 1:
            gain = product[i]
        else:
            for x in range(states):
                score[x] = product[i * width + x]
        for k in range(near_ptr[i], near_ptr[i + 1]):
            e, first = near[k] // 2, near[k] % 2 == 0
            other = out[v[e] if first else u[e]]
            if other < 0:
                continue
            table = at[e] if at.size > 0 else size * e
            if width == 1:
                one, two = psi[table + (1 if first else 0)], psi[table + 2] - psi[table + (0 if first else 1)]
                gain += rho[e] * ((one if other == 0 else two) - messages[near[k]])
                continue
            begin, step = (table + other, states) if first else (table + other * states, 1)
            sent = near[k] * width
            for x in range(states):
                score[x] += rho[e] * (psi[begin + x * step] - messages[sent + x])
        best = 0
        if width == 1:
            best = 1 if gain > tie else 0
        else:
            for x in range(1, states):
                if score[x] > score[best] + tie:
                    best = x
        out[i] = best
