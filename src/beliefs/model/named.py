"""What every model with named variables answers about them, and how it is built."""

from __future__ import annotations

import os
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from beliefs.elsewhere import MODELS, Hinting
from beliefs.model.naming import Naming
from beliefs.model.variable import Variable
from beliefs.typing import VariableRef

__all__ = ["Built", "Named", "way_in"]


class Built(ABCMeta):
    """The class of models whose constructor is not for users: wrong arguments are told of the builders."""

    def __call__(cls, *args: Any, **fields: Any) -> Any:
        """Make a model from its fields, or raise a TypeError that names the ways to build one."""
        try:
            return super().__call__(*args, **fields)
        except TypeError:
            builders = [
                name for name, made in vars(cls).items() if name[:5] == "from_" and isinstance(made, classmethod)
            ]
            ways = ", ".join(f"{cls.__name__}.{name}" for name in builders)
            raise TypeError(f"{cls.__name__} is not called directly; build one by {ways}, or read(path)") from None


class Named(Hinting):
    """A model as a collection of the names of its variables: ``len(model)``, ``"Rain" in model``, ``list(model)``."""

    __slots__ = ()
    _elsewhere: ClassVar[Mapping[str, str]] = MODELS

    @property
    @abstractmethod
    def _names(self) -> Naming:
        """Names and states."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables, by index."""
        return tuple(self)

    def states(self, variable: VariableRef) -> tuple[str, ...]:
        """Return the labels of a variable's states."""
        return self._names.states(self._names.index(variable))

    def __len__(self) -> int:
        return len(self._names.card)

    def __bool__(self) -> bool:
        return True  # also without variables: `model or other` asks whether there is a model

    def __iter__(self) -> Iterator[str]:
        return map(self._names.name, range(len(self)))

    def __contains__(self, variable: object) -> bool:
        name = variable.name if isinstance(variable, Variable) else variable
        return isinstance(name, str) and self._names.has(name)


def way_in(value: object) -> str:
    """Return a hint how something that is no model becomes one: a file's name, a network of another library."""
    if isinstance(value, str | os.PathLike):
        return "; a file is read by read(path), a bundled network by datasets.load_bn(name)"
    if type(value).__module__.startswith("beliefs.inference"):
        return "; its model was asked, and io.uai.write_solution writes what was found"
    if hasattr(value, "fit") and hasattr(value, "save"):
        return "; an estimator is written by its save(path), and what a learner found is model_"
    library = type(value).__module__.partition(".")[0]
    return f"; BayesianNetwork.from_{library} makes one of it" if library in ("pgmpy", "pyagrum") else ""
