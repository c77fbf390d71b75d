r"""How far apart two states can be in a message, whatever comes in from elsewhere.

With

.. math:: \lambda_{ci}(x_i) = R_{x_{c \setminus i}} [\theta_c(x_c) / \rho_c + q(x_{c \setminus i})] + \text{const}

and the same q for every :math:`x_i`, two states of a message differ by no more than two cells of the table,
:math:`(\max \theta_c - \min \theta_c) / \rho_c`. Messages of other potentials may be far beyond: damped, they come back
slowly, and while they do all beliefs are 0 or 1 and stand still.
"""

from __future__ import annotations

import math

from beliefs.kernels._jit import twofold_kernel
from beliefs.kernels.layout import Scopes
from beliefs.kernels.messages.damping import normalise
from beliefs.kernels.messages.structures import Reweighted
from beliefs.typing import Bools, Floats

__all__ = ["keep_within_reach"]

_ROUNDED = 1e-6  # by how much messages of the same potentials may be beyond them


@twofold_kernel
def keep_within_reach(scopes: Scopes, model: Reweighted, summed: Bools, messages: Floats) -> None:
    """Bring messages to what their factors could have said, in place; those of factors with hard zeros stay.

    Equivalent to ``m = np.maximum(m, m.max() - np.ptp(theta_c) / rho_c)`` for each message that this changes by more
    than rounding, normalised.
    Shapes: as in the structures; ``summed (n_vars,)``, ``messages`` flat.
    Cost: one read of all tables and messages.
    Numerics: an entry of ``-inf`` becomes finite where no cell is.
    """
    for f in range(scopes.cell_ptr.size):
        first, last = scopes.scope_ptr[f], scopes.scope_ptr[f + 1]
        size = 1
        for e in range(first, last):
            size *= model.message_ptr[e + 1] - model.message_ptr[e]
        least, most = math.inf, -math.inf
        for i in range(scopes.cell_ptr[f], scopes.cell_ptr[f] + size):
            least, most = min(least, model.theta[i]), max(most, model.theta[i])
        span = (most - least) / model.rho[f] if least > -math.inf else math.inf
        room = span + _ROUNDED * (span + 1.0)
        for e in range(first, last):
            run = messages[model.message_ptr[e] : model.message_ptr[e + 1]]
            top = -math.inf
            for x in range(run.size):
                top = max(top, run[x])
            beyond = False
            for x in range(run.size):
                if run[x] < top - room:
                    run[x], beyond = top - span, True
            if beyond:
                normalise(run, summed[scopes.scope_vars[e]])
