"""What margins of chains do besides the search for labels: costs of labels, and labellings as indicators.

Rows have ``width`` entries, the number of states rounded up to a multiple of four. Loops over tokens, so that threads
work side by side without the interpreter.
"""

from __future__ import annotations

from beliefs.kernels._jit import kernel
from beliefs.kernels.chains.linear import Chains
from beliefs.typing import Floats, Ints

__all__ = ["add_costs", "expected_costs", "label_indicators"]


@kernel
def add_costs(chains: Chains, costs: Floats, cost_row: Ints, rows: Floats) -> None:
    """Add what each label of each token of these chains costs: ``rows[t, :K] += costs[cost_row[t]]``.

    Shapes: ``costs (n * K,)``, ``cost_row (n_tokens,)``, ``rows (n_tokens * width,)``. Cost: one read and write.
    """
    starts, begin, end, states, width = chains
    for t in range(starts[begin], starts[end]):
        row, cost = t * width, cost_row[t] * states
        for y in range(states):
            rows[row + y] += costs[cost + y]


@kernel
def expected_costs(chains: Chains, costs: Floats, cost_row: Ints, rows: Floats) -> float:
    """Return ``sum(rows[t, :K] * costs[cost_row[t]])`` over the tokens of these chains, in their order."""
    starts, begin, end, states, width = chains
    total = 0.0
    for t in range(starts[begin], starts[end]):
        row, cost = t * width, cost_row[t] * states
        for y in range(states):
            total += rows[row + y] * costs[cost + y]
    return total


@kernel
def label_indicators(chains: Chains, labels: Ints, weight: Floats, rows: Floats, pairs: Floats) -> None:
    """Replace rows by indicators of labels, times the weight of the chain, and add those of neighbours.

    Shapes: ``labels (n_tokens,)``, ``rows (n_tokens * width,)``, ``pairs (K * K,)``. Cost: one write.
    """
    starts, begin, end, states, width = chains
    for s in range(begin, end):
        for t in range(starts[s], starts[s + 1]):
            for y in range(width):
                rows[t * width + y] = 0.0
            rows[t * width + labels[t]] = weight[s]
            if t > starts[s]:
                pairs[labels[t - 1] * states + labels[t]] += weight[s]
