"""Boltzmann machines in our own format (``.npz``): what the header says, and which arrays there are.

``weights`` row by row, ``visible_bias``, ``hidden_bias``, all of the header's ``dtype`` (float32 or float64), and for
fractional machines ``counts``, float64. See :mod:`beliefs.io.npz`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from beliefs.errors import FormatError
from beliefs.model.fractional_rbm import FractionalRBM
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM

__all__ = ["MODELS", "NAMES", "OPTIONAL", "TYPES", "arrays", "check_header", "header", "model"]

MODELS: dict[Any, type[BoltzmannMachine]] = {"RBM": RBM, "FractionalRBM": FractionalRBM}
NAMES = {"weights", "visible_bias", "hidden_bias", "counts"}
OPTIONAL = {"counts"}
TYPES = ("<f4", "<f8")
_DTYPES = {"float32": np.float32, "float64": np.float64}


def header(machine: BoltzmannMachine) -> dict[str, Any]:
    """Return the fields of the header that are a machine's own."""
    return {
        "model": type(machine).__name__,
        "dtype": machine.dtype.name,
        "n_visible": machine.n_visible,
        "n_hidden": machine.n_hidden,
    }


def arrays(machine: BoltzmannMachine) -> dict[str, np.ndarray]:
    """Return the arrays to write, each of one dimension."""
    found = {name: getattr(machine, name) for name in ("weights", "visible_bias", "hidden_bias")}
    if isinstance(machine, FractionalRBM):
        found["counts"] = machine.counts
    return {name: array.ravel() for name, array in found.items()}


def check_header(fields: Mapping[str, Any]) -> None:
    """Raise a FormatError unless the fields are those of a machine."""
    sizes = [fields.get("n_visible"), fields.get("n_hidden")]
    whole = all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes)
    if not whole or not isinstance(fields.get("dtype"), str) or fields["dtype"] not in _DTYPES:
        raise FormatError("the header has a field of a wrong type")


def model(fields: Mapping[str, Any], found: Mapping[str, np.ndarray]) -> BoltzmannMachine:
    """Return the machine of a checked header and its arrays."""
    n, m, dtype = fields["n_visible"], fields["n_hidden"], _DTYPES[fields["dtype"]]
    for name, length in (("weights", n * m), ("visible_bias", n), ("hidden_bias", m)):
        if found[name].size != length or found[name].dtype != dtype:
            raise FormatError(f"the array {name!r} should have {length} entries of {fields['dtype']}")
    numbers = (found["weights"].reshape(n, m), found["visible_bias"], found["hidden_bias"])
    if fields["model"] == "RBM":
        return RBM(*numbers)
    if "counts" not in found or found["counts"].dtype != np.float64:
        raise FormatError("a FractionalRBM needs the array 'counts' of float64")
    return FractionalRBM(*numbers, found["counts"])
