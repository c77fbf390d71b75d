"""What is planned for a structure once and kept with it: orders, junction trees, colourings; safe under threads."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["PlanKey", "Plans"]

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
PlanKey = tuple[Callable[..., object], *tuple[Hashable, ...]]
"""The function that makes a plan, and what it depends on besides the layout."""

_LOCK = threading.Lock()  # around the plans of all layouts: held for a moment, and layouts are copied and pickled
_ABSENT: Any = object()  # a plan may be None
_MOST = 32  # plans and conditioned layouts kept on one layout


class Plans(OrderedDict[PlanKey, Any]):
    """The plans of one layout by their keys; of too many the least recently used is dropped first."""

    def of(self, key: PlanKey, make: Callable[[], T]) -> T:
        """Return the plan kept under ``key``, made on first use."""
        with _LOCK:
            found: T = self.get(key, _ABSENT)
            if found is not _ABSENT:
                self.move_to_end(key)
                return found
        started = time.perf_counter()
        made = make()  # not under the lock: it may take long, and ask for other plans
        _LOG.debug("planned %s in %.3g s", key[0].__qualname__, time.perf_counter() - started)
        with _LOCK:
            found = self.setdefault(key, made)  # another thread may have made the same one: all have the first
            if len(self) > _MOST:
                self.popitem(last=False)
            return found
