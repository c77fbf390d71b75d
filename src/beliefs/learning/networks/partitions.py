"""Rows that lie elsewhere, partition by partition (dask): only counts and rows with missing cells travel."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from beliefs.learning.networks.fitting import Gathered, gathered, summed
from beliefs.learning.networks.structure import Structure
from beliefs.learning.parallel import executor_of
from beliefs.learning.rows import partitions_of
from beliefs.model.rows.reading import read_rows

__all__ = ["gathered_partitions", "partitions_of"]


def gathered_partitions(structure: Structure, parts: Sequence[Any], hidden: Collection[str]) -> Gathered:
    """Count every partition where it lies; counts are whole, so their sum is that of the rows in one place."""
    dask: Any = import_module("dask")
    counted = dask.delayed(_counted)
    found = dask.compute(*(counted(part, structure, tuple(hidden)) for part in parts))
    return summed([part for part in found if part is not None])


def _counted(part: Any, structure: Structure, hidden: tuple[str, ...]) -> Gathered | None:
    """Count one partition; None where it has no rows."""
    if not len(part):
        return None
    rows = part if hasattr(part, "columns") else np.asarray(part)
    return gathered(structure, [read_rows(rows, structure.naming, hidden=hidden)], executor_of(1))
