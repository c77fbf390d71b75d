"""Answers as plain Python, for JSON and for other programs: words, numbers, lists and dicts; infinities are None."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

__all__ = ["json_text", "plain"]


def plain(value: Any) -> Any:
    """Return numbers and arrays as Python's own, infinities as None.

    Examples
    --------
    >>> import numpy as np
    >>> plain(np.array([0.25, -np.inf])), plain(np.float64(2.0))
    ([0.25, None], 2.0)
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def json_text(found: dict[str, Any]) -> str:
    """Return a document as JSON, one key a line."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in found.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"
