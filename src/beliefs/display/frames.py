"""Answers as pandas frames; pandas is loaded when a frame is asked for, and needed for nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beliefs.errors import UnsupportedError

__all__ = ["categories", "frame"]


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise UnsupportedError("to_frame needs pandas, which is not installed: pip install pandas") from None
    return pandas


def frame(columns: Mapping[str, Any]) -> Any:
    """Return a pandas DataFrame of these columns."""
    return _pandas().DataFrame(dict(columns))


def categories(codes: Any, labels: Sequence[str]) -> Any:
    """Return a column of categories from the numbers of their labels."""
    return _pandas().Categorical.from_codes(codes, labels)
