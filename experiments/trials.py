"""Trials that need not be run twice, and what their differences are worth.

A study of many trials writes each one down as it ends (``experiments/local/NAME.trials.json``), so that a run that was
stopped goes on from there. Delete the file to begin anew, above all when the library has changed. A study of many hours
also stores its trials with its results, so that a checkout elsewhere begins with what is known.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Kept", "mean_and_error", "paired", "shown"]

HERE = Path(__file__).parent
LOCAL = HERE / "local"


class Kept:
    """A dict of finished trials in a file, over those that ``stored`` results have of the same ``setting``."""

    def __init__(self, path: Path | None, stored: Path | None = None, setting: Any = None) -> None:
        self.path = path
        self.found: dict[str, Any] = {}
        if stored is not None and stored.is_file():
            results = json.loads(stored.read_text())
            if results.get("setting") == json.loads(json.dumps(setting)):
                self.found = results["trials"]
        if path is not None and path.is_file():
            self.found |= json.loads(path.read_text())

    @classmethod
    def of_study(cls, name: str, options: Namespace, setting: Any = None) -> Kept:
        """Return the trials of a study; those of a quick run are not kept.

        A ``setting`` says that the results have the trials, too, to go on from.
        """
        if options.quick:
            return cls(None)
        stored = None if setting is None else HERE / "results" / f"{name}.json"
        return cls(LOCAL / f"{name}.trials.json", stored, setting)

    def of(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return a trial's finding, computed now if it is not there."""
        if key not in self.found:
            self.found[key] = compute()
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                beside = self.path.with_suffix(f".{os.getpid()}")
                beside.write_text(json.dumps(self.found) + "\n")
                beside.replace(self.path)
        return self.found[key]


def mean_and_error(values: Any) -> tuple[float, float]:
    """Return the mean of trials, and its standard error (0 for one trial)."""
    values = np.asarray(values, float)
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else 0.0
    return float(values.mean()), float(error)


def paired(one: Any, other: Any) -> tuple[float, float]:
    """Return the mean difference of two learners on the same trials, and its standard error."""
    return mean_and_error(np.asarray(one, float) - np.asarray(other, float))


def shown(pair: tuple[float, float], digits: int = 1) -> str:
    """Return ``+1.5 +- 0.8``."""
    return f"{pair[0]:+.{digits}f} +- {pair[1]:.{digits}f}"
