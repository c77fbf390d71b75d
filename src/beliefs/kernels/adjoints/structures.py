"""What kernels carry back through message passing."""

from __future__ import annotations

from typing import NamedTuple

from beliefs.typing import Floats

__all__ = ["Adjoints", "Ranks"]


class Adjoints(NamedTuple):
    r"""Adjoints of log messages in two parts, see :mod:`beliefs.kernels.adjoints.messages`.

    The adjoint of the message of edge e of factor c into i is :math:`k_e + \rho_c B_i`.
    """

    variable: Floats  # B, like beliefs: of all that passes through a variable's sum of messages
    message: Floats  # k, like messages: what is a message's own


class Ranks(NamedTuple):
    """Vectors whose outer products are the adjoints of tables, put aside for some passes."""

    slot: int  # of the present pass
    depth: int  # passes after which all are added up; 0: nothing is put aside
    vectors: Floats  # (depth, n_edges, 4, width)
