r"""Linear chains in the log domain: sums where potentials span too much for doubles, and samples.

.. math:: a_t(y) = u_t(y) + \log \sum_x e^{a_{t-1}(x) + A(x, y)}, \qquad
          b_{t-1}(x) = \log \sum_y e^{A(x, y) + u_t(y) + b_t(y)}

The posterior of a label is :math:`e^{a_t + b_t - \log Z}`; going back from the last token, :math:`p(x_{t-1} \mid x_t)
\propto e^{a_{t-1}(x_{t-1}) + A(x_{t-1}, x_t)}` draws exact samples. Log potentials are finite; impossible labels are
-1e300.

Shapes: ``unary (n_tokens * width,)``, ``table (K * K,)``; rows of u have ``width`` entries, K of them used.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import kernel
from beliefs.kernels.chains.linear import Chains
from beliefs.kernels.primitives.random import uniform
from beliefs.typing import Bits, Bools, Floats, Ints

__all__ = ["log_posteriors", "sample_labels"]


@kernel
def log_sum(values: Floats, begin: int, n: int) -> float:
    """Return ``log(sum(exp(values[begin:begin + n])))``, shifted by the largest."""
    top: float = values[begin]
    for x in range(1, n):
        top = max(top, values[begin + x])
    total = 0.0
    for x in range(n):
        total += math.exp(values[begin + x] - top)
    return top + math.log(total)


@kernel
def log_filter(first: int, n: int, states: int, width: int, table: Floats, unary: Floats, a: Floats) -> float:
    """Write ``a[t * states + y]`` of one chain, with one row to spare at the end of ``a``; return log Z."""
    spare = n * states
    for t in range(n):
        for y in range(states):
            here = unary[(first + t) * width + y]
            if t > 0:
                for x in range(states):
                    a[spare + x] = a[(t - 1) * states + x] + table[x * states + y]
                here += log_sum(a, spare, states)
            a[t * states + y] = here
    return log_sum(a, (n - 1) * states, states)


@kernel
def log_posteriors(
    chains: Chains, table: Floats, weight: Floats, wide: Bools, unary: Floats, a: Floats, log_z: Floats, pairs: Floats
) -> None:
    """Replace the log potentials of the chains marked ``wide`` by posteriors, times the chains' weights.

    Writes ``log_z`` and adds the posteriors of neighbours, weighted, to ``pairs (K * width,)``. ``a`` has room for
    ``(longest + 3) * K``. Cost: 3 K^2 exponentials a token.
    """
    starts, begin, end, states, width = chains
    for s in range(begin, end):
        if not wide[s]:
            continue
        first, n = starts[s], starts[s + 1] - starts[s]
        whole = log_filter(first, n, states, width, table, unary, a)
        log_z[s] = whole
        beta, onward = (n + 1) * states, (n + 2) * states
        for x in range(states):
            a[beta + x] = 0.0
        for t in range(n - 1, -1, -1):
            row = (first + t) * width
            for y in range(states):
                a[onward + y] = unary[row + y] + a[beta + y]
                unary[row + y] = weight[s] * math.exp(a[t * states + y] + a[beta + y] - whole)
            for y in range(states, width):
                unary[row + y] = 0.0
            if t > 0:
                for x in range(states):
                    for y in range(states):
                        a[n * states + y] = table[x * states + y] + a[onward + y]
                        here = math.exp(a[(t - 1) * states + x] + a[n * states + y] - whole)
                        pairs[x * width + y] += weight[s] * here
                    a[beta + x] = log_sum(a, n * states, states)


@kernel
def sample_labels(chains: Chains, table: Floats, unary: Floats, keys: Bits, a: Floats, labels: Ints) -> None:
    """Draw labellings of each chain from its posterior: row i of ``labels (n_samples, n_tokens)`` is sample i.

    ``keys (n_chains,)`` are streams of :mod:`beliefs.kernels.primitives.random`, ``a`` has room for ``(longest + 1) *
    K``. Cost: K^2 exponentials a token, and K for each sample.
    """
    starts, begin, end, states, width = chains
    for s in range(begin, end):
        first, n = starts[s], starts[s + 1] - starts[s]
        log_filter(first, n, states, width, table, unary, a)
        spare = n * states
        for i in range(labels.shape[0]):
            after = 0
            for t in range(n - 1, -1, -1):
                for x in range(states):
                    a[spare + x] = a[t * states + x]
                    if t < n - 1:
                        a[spare + x] += table[x * states + after]
                whole = log_sum(a, spare, states)
                left = uniform(keys[s], i * n + t)
                chosen = 0
                for x in range(states):
                    p = math.exp(a[spare + x] - whole)
                    if p > 0.0:
                        chosen = x
                    left -= p
                    if left < 0.0:
                        break
                labels[i, first + t] = chosen
                after = chosen
