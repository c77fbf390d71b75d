"""Boltzmann machines in our own format (``.npz``): what the header says, and which arrays there are.

Every array has the header's ``dtype`` (float32 or float64) and is written row by row, but for ``counts`` of fractional
machines, float64. See :mod:`beliefs.io.npz`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from beliefs.errors import FormatError
from beliefs.model.crbm import CRBM
from beliefs.model.fractional_rbm import FractionalRBM
from beliefs.model.rbm import RBM

__all__ = ["MODELS", "NAMES", "TYPES", "Machine", "arrays", "check_header", "header", "model", "needed"]

Machine = RBM | FractionalRBM | CRBM
MODELS: dict[Any, type[Machine]] = {"RBM": RBM, "FractionalRBM": FractionalRBM, "CRBM": CRBM}
TYPES = ("<f4", "<f8")
_DTYPES = {"float32": np.float32, "float64": np.float64}
_RBM = {"weights": ("n_visible", "n_hidden"), "visible_bias": ("n_visible",), "hidden_bias": ("n_hidden",)}
_SHAPES: dict[type[Machine], dict[str, tuple[str, ...]]] = {
    RBM: _RBM,
    FractionalRBM: {**_RBM, "counts": ("n_hidden",)},
    CRBM: {**_RBM, "visible_input": ("n_visible", "n_inputs"), "hidden_input": ("n_hidden", "n_inputs")},
}
NAMES = {name for shapes in _SHAPES.values() for name in shapes}


def _sizes(kind: type[Machine]) -> list[str]:
    """Return the names of the sizes in a machine's header."""
    return list(dict.fromkeys(size for shape in _SHAPES[kind].values() for size in shape))


def needed(name: str) -> set[str]:
    """Return the names of the arrays of a machine, by its name in the header."""
    return set(_SHAPES[MODELS[name]])


def header(machine: Machine) -> dict[str, Any]:
    """Return the fields of the header that are a machine's own."""
    sizes = {size: getattr(machine, size) for size in _sizes(type(machine))}
    return {"model": type(machine).__name__, "dtype": machine.dtype.name, **sizes}


def arrays(machine: Machine) -> dict[str, np.ndarray]:
    """Return the arrays to write, each of one dimension."""
    return {name: getattr(machine, name).ravel() for name in _SHAPES[type(machine)]}


def check_header(fields: Mapping[str, Any]) -> None:
    """Raise a FormatError unless the fields are those of a machine."""
    sizes = [fields.get(size) for size in _sizes(MODELS[fields["model"]])]
    whole = all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes)
    if not whole or not isinstance(fields.get("dtype"), str) or fields["dtype"] not in _DTYPES:
        raise FormatError("the header has a field of a wrong type")


def model(fields: Mapping[str, Any], found: Mapping[str, np.ndarray]) -> Machine:
    """Return the machine of a checked header and its arrays."""
    kind, numbers = MODELS[fields["model"]], {}
    for name, sizes in _SHAPES[kind].items():
        shape, dtype = tuple(fields[size] for size in sizes), "float64" if name == "counts" else fields["dtype"]
        if found[name].size != math.prod(shape) or found[name].dtype != _DTYPES[dtype]:
            raise FormatError(f"the array {name!r} should have {math.prod(shape)} entries of {dtype}")
        numbers[name] = found[name].reshape(shape)
    return kind(**numbers)
