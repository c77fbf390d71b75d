"""The estimators by the word of the command line and by the name in a file, each loaded when it is asked for."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from beliefs.errors import ModelError
from beliefs.io.files import StrPath
from beliefs.learning.estimators.crf import CRF
from beliefs.learning.estimators.storage import load
from beliefs.model.variable import suggestion

__all__ = ["ESTIMATORS", "estimator", "load_estimator"]

ESTIMATORS = {"chain": "ChainCRF", "graph": "GraphCRF", "grid": "GridCRF"}
"""Word -> class; the module has the word's name."""


def estimator(word: str) -> type[CRF]:
    """Return the class for a word."""
    if word not in ESTIMATORS:
        raise ModelError(f"no estimator {word!r}{suggestion(word, ESTIMATORS)} (known: {', '.join(ESTIMATORS)})")
    found: type[CRF] = getattr(import_module(f"beliefs.learning.estimators.{word}"), ESTIMATORS[word])
    return found


def load_estimator(path: StrPath, **functions: Any) -> CRF:
    """Read a fitted estimator of whatever class from a file; arguments that are functions are given again, by name."""
    return load(path, {name: partial(estimator, word) for word, name in ESTIMATORS.items()}, **functions)
