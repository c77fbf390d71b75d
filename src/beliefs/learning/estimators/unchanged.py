"""A fit that fails leaves the estimator as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["unchanged_by_errors"]


@contextmanager
def unchanged_by_errors(estimator: object) -> Iterator[None]:
    """Within, an error or Ctrl-C puts all attributes back to what they were."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
