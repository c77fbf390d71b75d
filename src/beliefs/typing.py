"""Array aliases and the glossary of shapes.

======================  ======================================================================
``n_vars``              variables of a model; index ``v``
``n_factors``           factors; index ``f``
``n_edges``             (factor, variable) incidences, the sum of all scope lengths; index ``e``
``n_states``            sum of the cardinalities; ``mu_var`` has this length; index ``x``
``n_cells``             length of ``theta`` and ``mu``; index ``k``
``*_ptr``               offsets into a flat array, one more than there are rows
======================  ======================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bits", "BlockMaps", "Bools", "Evidence", "Floats", "Ints", "StateRef", "VariableRef"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Bits: TypeAlias = NDArray[np.uint64]
BlockMaps: TypeAlias = NDArray[np.uint32]
"""Positions within a block of a table; see :mod:`beliefs.kernels.trees.plan`."""

VariableRef: TypeAlias = int | str
"""A variable: its index (int) or its name (str)."""

StateRef: TypeAlias = int | str
"""A state: its index (int) or its label (str)."""

Evidence: TypeAlias = Mapping[Any, Any]
"""Variable -> state, each by index or name; a pandas row (Series) is accepted too."""
