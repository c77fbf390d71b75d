"""Exceptions and warnings: one class for each kind of trouble, so that a caller can catch what it means.

Every message says what was expected, what was found and what to do, in the user's own names.
"""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "BeliefsError",
    "BudgetError",
    "ConvergenceWarning",
    "DataWarning",
    "FormatError",
    "ModelError",
    "NotConvergedError",
    "UnsupportedError",
    "ZeroProbabilityError",
]


class BeliefsError(Exception):
    """Root of all exceptions that this library raises on purpose."""


class ModelError(BeliefsError, ValueError):
    """A model, or a question about it, that contradicts itself: unknown names, wrong shapes, bad numbers."""


class ZeroProbabilityError(ModelError):
    """The model, or the model with its evidence, gives every assignment weight zero: Z = 0 was proved."""


class FormatError(BeliefsError, ValueError):
    """A file that does not follow its format.

    Parameters
    ----------
    message : str
        What was expected and what was found.
    path : str or Path, optional
        The file.
    line : int, optional
        Line number, from 1.
    """

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None) -> None:
        self.message, self.path, self.line = message, path, line
        place = ", ".join(
            part for part in ("" if path is None else str(path), "" if line is None else f"line {line}") if part
        )
        super().__init__(f"{place}: {message}" if place else message)

    def at(self, path: str | Path) -> FormatError:
        """Return the same error with the file's name, for parsers that see only text."""
        return self if self.path is not None else FormatError(self.message, path, self.line)


class BudgetError(BeliefsError, RuntimeError):
    """The work needs more memory or time than allowed: by prediction, before it was begun, or by the clock."""

    parts: tuple[str, float, float, str, str] | None = None  # of the message about memory, where it is one


class NotConvergedError(BeliefsError, RuntimeError):
    """Raised only by ``result.require_converged()``."""


class UnsupportedError(BeliefsError, NotImplementedError):
    """The method cannot answer this question for this model; the message names one that can."""


class ConvergenceWarning(UserWarning):
    """A fixed-point method stopped short; the numbers are those of its last iterate."""


class DataWarning(UserWarning):
    """Data from which a model can be fitted, but hardly the one that was meant; the message names what is odd."""
