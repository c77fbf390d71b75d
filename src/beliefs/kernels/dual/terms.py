"""The bound of generalised dual decomposition, term by term, and the beliefs it comes with."""

from __future__ import annotations

from beliefs.kernels._jit import kernel
from beliefs.kernels.dual.graph import factor_strides
from beliefs.kernels.dual.structure import Axes, Chain
from beliefs.kernels.dual.tables import chain_entropies, chain_marginals, term_chain
from beliefs.kernels.layout import Scopes
from beliefs.kernels.primitives.memory import address, addresses
from beliefs.kernels.primitives.strides import table_index
from beliefs.typing import Floats, Ints

__all__ = ["best_states", "factor_marginals", "term_gradients", "term_values"]


@kernel
def term_values(axes: Axes, weight: Floats, tables: Floats, chain: Chain, values: Floats) -> None:
    """Write the power sum of each table along its axes; for clusters, and likewise for separators.

    Equivalent to folding ``t = w * logsumexp(t / w, axis=0)`` over the axes of each table (maxima at ``w = 0``).
    """
    axes, weight, chain = addresses(axes), address(weight), addresses(chain)
    for c in range(values.size):
        values[c] = term_chain(c, axes, weight, tables, chain)


@kernel
def term_gradients(
    axes: Axes, weight: Floats, tables: Floats, state_ptr: Ints, chain: Chain, beliefs: Floats, entropies: Floats,
    mu_var: Floats,
) -> None:  # fmt: skip
    r"""Write the gradients of every term: beliefs for its table and conditional entropies for its weights.

    :math:`\partial V / \partial r = \mu` and :math:`\partial V / \partial w_k = H(x_k | x_{k+1:m})` (Theorem 3.4.1
    [ping2016]). ``beliefs`` has the shape of ``tables``. To ``mu_var`` is added :math:`w_k \mu(x_k)`.
    """
    n_tables = axes.ptr.size - 1
    axes, weight, chain, entropies = addresses(axes), address(weight), addresses(chain), address(entropies)
    card, p = axes.card, chain.p
    for c in range(n_tables):
        term_chain(c, axes, weight, tables, chain)
        first, last, start = axes.ptr[c], axes.ptr[c + 1], axes.cell[c]
        size = axes.cell[c + 1] - start
        chain_marginals(p, size, card, first, last)
        chain_entropies(size, card, weight, first, last, chain, entropies, first)
        for k in range(size):
            beliefs[start + k] = p[k]
        at = 0
        for a in range(first, last):  # the chain holds the marginal over x_a and all later axes
            inner = size // card[a]
            to = state_ptr[axes.var[a]]
            for x in range(card[a]):
                mass = 0.0
                for y in range(inner):
                    mass += p[at + x * inner + y]
                mu_var[to + x] += weight[a] * mass
            at += size
            size = inner


@kernel
def factor_marginals(
    scopes: Scopes, table_ptr: Ints, home: Ints, clusters: Axes, begin: Ints, beliefs: Floats, mu_var: Floats,
    index: Ints, stride: Ints, mu_factor: Floats,
) -> None:  # fmt: skip
    """Write each factor's normalised marginal from its cluster's belief, of one variable from ``mu_var``.

    The belief of cluster ``c`` begins at ``begin[c]``; ``index`` and ``stride`` are scratch.
    """
    scope_ptr, scope_vars, var_card, state_ptr = scopes.scope_ptr, scopes.scope_vars, scopes.card, scopes.state_ptr
    for f in range(home.size):
        start, end = table_ptr[f], table_ptr[f + 1]
        arity = scope_ptr[f + 1] - scope_ptr[f]
        for k in range(start, end):
            mu_factor[k] = 1.0 if end - start == 1 else 0.0
        if arity == 1:
            v = scope_vars[scope_ptr[f]]
            for x in range(var_card[v]):
                mu_factor[start + x] = mu_var[state_ptr[v] + x]
        elif end - start > 1:  # a cluster of single states alone has no belief to read
            c = home[f]
            first, last = clusters.ptr[c], clusters.ptr[c + 1]
            factor_strides(f, scope_ptr, scope_vars, var_card, clusters.var, first, last, stride)
            size = table_index(clusters.card, stride, first, last, -first, 0, index, 0)
            for k in range(size):
                mu_factor[start + index[k]] += beliefs[begin[c] + k]
        total = 0.0
        for k in range(start, end):
            total += mu_factor[k]
        if not total > 0.0:  # all belief is at states that were found impossible: the variables' own are left
            total = 0.0
            for k in range(start, end):
                rest, product = k - start, 1.0
                for e in range(scope_ptr[f + 1] - 1, scope_ptr[f] - 1, -1):
                    v = scope_vars[e]
                    product *= mu_var[state_ptr[v] + rest % var_card[v]]
                    rest //= var_card[v]
                mu_factor[k] = product
                total += product
        for k in range(start, end):
            mu_factor[k] /= total


@kernel
def best_states(node: Ints, sep_cell: Ints, scores: Floats, states: Ints) -> None:
    """Write the first maximiser of each variable's table in ``scores``; variables without a separator are left."""
    for v in range(node.size):
        if node[v] >= 0:
            begin, best = sep_cell[node[v]], 0
            for x in range(1, sep_cell[node[v] + 1] - begin):
                best = x if scores[begin + x] > scores[begin + best] else best
            states[v] = best
