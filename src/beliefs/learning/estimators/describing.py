"""Estimators in words: what was chosen, whether it is fitted, and how the fit ended."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from beliefs.display.description import Described, Description, shortened
from beliefs.elsewhere import ESTIMATORS, Hinting
from beliefs.options import Suggesting

__all__ = ["DescribedEstimator"]


class DescribedEstimator(Hinting, Described, metaclass=Suggesting):
    """An estimator that notebooks show by its description, in place of scikit-learn's diagram."""

    _elsewhere: ClassVar[Mapping[str, str]] = ESTIMATORS

    def _description(self) -> Description:
        chosen = ", ".join(f"{name}={shortened(repr(value))}" for name, value in _changed(self))
        facts = [("options", chosen or "all as by default")]
        result = getattr(self, "result_", None)
        if result is None:
            return Description(type(self).__name__, [*facts, ("fitted", "not yet")])
        facts.append(("fitted", f"{result.status} after {result.n_iters} iterations, {result.seconds:.3g} s"))
        facts += [(name, value) for name, value in result._description().facts if name in _OF_THE_FIT]
        weights, classes = getattr(self, "weights_", None), getattr(self, "classes_", None)
        if weights is not None:
            facts.append(("weights", f"{np.size(weights)}"))
        if classes is not None:
            facts.append(("classes", shortened(", ".join(map(str, classes[:_FEW])) + ", ..." * (len(classes) > _FEW))))
        return Description(type(self).__name__, facts)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return both forms; scikit-learn's own would come first otherwise."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


_FEW = 10
_OF_THE_FIT = ("loss", "log-likelihood", "worth", "gap", "advice")


def _changed(estimator: Any) -> list[tuple[str, Any]]:
    """Return the parameters that differ from their defaults."""
    defaults = {name: p.default for name, p in inspect.signature(type(estimator)).parameters.items()}
    given = estimator.get_params(deep=False)
    return [(name, value) for name, value in given.items() if not _same(value, defaults.get(name, ...))]


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, np.ndarray) or isinstance(default, np.ndarray):
        return value is default
    try:
        return bool(value is default or value == default)
    except (TypeError, ValueError):
        return False
