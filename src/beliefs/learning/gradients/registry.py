"""All ways to differentiate through inference by name, and which one goes with which inference."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from beliefs.errors import ModelError
from beliefs.inference.base import Derivative, Method
from beliefs.inference.text import parse_named
from beliefs.learning.gradients.base import Gradient
from beliefs.learning.gradients.convergence import AtConvergence
from beliefs.learning.gradients.exact import Exact
from beliefs.learning.gradients.implicit import Implicit
from beliefs.learning.gradients.perturbation import Perturbation
from beliefs.learning.gradients.truncated import Truncated

__all__ = ["GRADIENTS", "make_gradient"]

GRADIENTS: tuple[type[Gradient], ...] = (Truncated, AtConvergence, Perturbation, Implicit, Exact)
"""Every way to differentiate through inference."""


def make_gradient(
    text: str | Gradient, method: Method, *, n_sweeps: int | None = None, tol: float | None = None
) -> Gradient:
    """Return the way written as ``name`` or ``name(field=literal, ...)`` for an inference.

    ``"auto"``: exact for exact methods; truncated for messages and mean field with a number of sweeps, at convergence
    without; by perturbation for everything else that gives marginals. Another way that has no number of sweeps
    refuses one.
    """
    if isinstance(text, Gradient):
        return text
    given: dict[str, Any] = {"method": method}
    if n_sweeps is not None:
        given["n_sweeps"] = n_sweeps
    if tol is not None:
        given["tol"] = tol
    cls, values = _fitting(method, n_sweeps), dict[str, Any]()
    if text != "auto":
        cls, values = parse_named(text, GRADIENTS, "gradient", also=("auto",))
    known = {f.name for f in fields(cls)}
    way = cls(**{name: value for name, value in given.items() if name in known} | values)
    if text != "auto" and n_sweeps is not None and "n_sweeps" not in known:
        raise ModelError(
            f"gradient={cls.name} takes inference to its end, not n_sweeps={n_sweeps}: give n_sweeps=None, or "
            "gradient=truncated"
        )
    return way


def _fitting(method: Method, n_sweeps: int | None) -> type[Gradient]:
    if method.derivative is Derivative.EXACT:
        return Exact
    if method.derivative.reversible:
        return AtConvergence if n_sweeps is None else Truncated
    return Perturbation
