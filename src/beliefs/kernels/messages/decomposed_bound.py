r"""An upper bound on log Z, on the best score or on the best marginal score, from messages at any iterate.

Let the counting numbers be a mixture of rooted forests: :math:`a_{c,j}` is the probability that factor :math:`c` is in
the forest and hangs from its variable :math:`j`, :math:`\rho_c = \sum_j a_{c,j}`, and
:math:`w_i = 1 - \sum_{c \ni i} (\rho_c - a_{c,i})` is the probability that variable :math:`i` is a root. For any log
messages :math:`\lambda_{ci}(x_i)` with :math:`\beta_i = \sum_{c \ni i} \rho_c \lambda_{ci}` (unary factors are factors
with :math:`\rho = 1`),

.. math:: L = \sum_i w_i R_i(\beta_i) + \sum_c \sum_{j \in c} a_{c,j} \max_{x_j} \Bigl[ R_{x_{c \setminus j}}
    \Bigl( \theta_c / \rho_c + \sum_{i \in c \setminus j} (\beta_i - \lambda_{ci}) \Bigr) - \lambda_{cj}(x_j) \Bigr]

is an upper bound. :math:`R` is the log-sum-exp over variables of temperature 1, then the maximum over those of
temperature 0.

*Proof.* Give the forest :math:`T` the score
:math:`\theta^T = \sum_{c \in T} [\theta_c / \rho_c + \sum_{i \in c \setminus p_T(c)} (\beta_i - \lambda_{ci}) -
\lambda_{c p_T(c)}] + \sum_{i\ \mathrm{root}} \beta_i`, where :math:`p_T(c)` is the variable that :math:`c` hangs from.
Its mean over :math:`T` is :math:`\sum_c \theta_c`: each :math:`\beta_i` comes once, as that of a root or of a child,
and each :math:`\lambda_{ci}` comes :math:`-\rho_c` times. The power sum is convex in the score, so its value is at most
the mean of those of the forests. For one forest, Hölder's inequality for power sums [ping2015] with weight
:math:`\tau_i` where variable :math:`i` is a child (or, for roots, in :math:`\beta_i`) and 0 elsewhere splits it over
the factors. The global order is: sum variables from the leaves to the root, then maximised ones; so the parent,
which has weight 0, comes after all children that are summed.

The same holds without forests if every factor hangs from the last of its variables in one fixed order (an *acyclic*
orientation) and all :math:`w_i \geq 0`: then the inequality is used once, with weights :math:`\rho_c` and :math:`w_i`.
An orientation that is neither gives no bound, even with all :math:`w_i \geq 0`: two edges between the same two
variables, oriented as a directed cycle, claim less than log Z.

At a fixed point of tree-reweighted sum-product all brackets are constant in :math:`x_j` and :math:`L` is the
tree-reweighted value [wainwright2005]; on a forest with :math:`\rho = 1` it is log Z.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.layout import Scopes
from beliefs.kernels.messages.bound_terms import factor_terms, log_power, pair_terms
from beliefs.kernels.messages.structures import Reweighted
from beliefs.typing import Floats

__all__ = ["decomposed_bound"]


@kernel
def decomposed_bound(
    scopes: Scopes, model: Reweighted, tau: Floats, parent: Floats, messages: Floats, beta: Floats
) -> float:
    """Return the bound ``L`` of this module's first lines; constants (empty scopes) are added.

    Equivalent to, with ``c = theta_f / rho_f + sum_i (beta_i - message_fi)`` on the axes of each factor,
    ``sum_i w_i R(beta_i) + sum_f sum_j parent_fj max_x_j [R(c, axes other than j) - beta_j]``.

    Shapes: ``tau (n_vars,)`` of 0.0 and 1.0; ``parent (n_edges,)``; the message of edge ``e`` is
    ``messages[message_ptr[e] : message_ptr[e + 1]]``; ``beta (n_states,)`` is the weighted sum of the messages, and at
    an observed variable (in no scope, not counted in Z) 0 at its state and ``-inf`` elsewhere. Cost: arity times cells;
    edges with ``parent`` 0 cost nothing.

    Numerics: shifted by maxima. A ``-inf`` in a message must have been derived from zeros of ``theta``: a state with
    ``beta = -inf`` counts as proved impossible and is left out. Where a message is ``-inf`` and its factor does not
    confirm it, the answer is ``+inf`` (no bound). If no state of a variable or factor is left the answer is ``-inf``.
    """
    card = scopes.card
    root = np.ones(card.size)
    largest = 1
    for v in range(card.size):
        largest = max(largest, card[v])
    for f in range(scopes.cell_ptr.size):
        size = 1
        for e in range(scopes.scope_ptr[f], scopes.scope_ptr[f + 1]):
            root[scopes.scope_vars[e]] -= model.rho[f] - parent[e]
            size *= card[scopes.scope_vars[e]]
        largest = max(largest, size)
    cavity, cells, work = np.empty(largest), np.empty(largest), np.empty(largest)
    total, impossible = 0.0, False
    for v in range(card.size):
        value = log_power(beta, scopes.state_ptr[v], card[v], tau[v])
        if value == -math.inf:
            impossible = True
        elif root[v] > 0.0:
            total += root[v] * value
    pairs = pair_terms(scopes, model, tau, parent, messages, beta, cavity, cells, work)
    others = factor_terms(scopes, model, tau, parent, messages, beta, cavity, cells, work)
    if pairs == math.inf or others == math.inf:
        return math.inf
    return -math.inf if impossible else total + pairs + others
