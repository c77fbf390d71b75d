r"""Data in shards, held by processes that need not share memory, and sums over shards in a fixed order.

What is added to what must not depend on who holds which shard. Sums follow a binary tree over the numbers of the
shards,

.. math:: S_{0,i} = \text{shard } i, \qquad S_{l+1,i} = S_{l,2i} + S_{l,2i+1},

the last of an odd row going up by itself. A process adds up the nodes whose leaves it holds and sends those; what is
left is added where they meet. So the bytes are the same for any number of processes, and one that holds neighbouring
shards sends one sum, or a few (at most :math:`2 \log_2 n`), whatever the number of its shards.

Packed data keeps what matters to kernels: arrays that were read-only are read-only again, and layouts that are equal
are one object in a process, so that their plans are made once.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, TypeVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.inference.engine import Summand
from beliefs.inference.parallel import one_thread_of_blas
from beliefs.learning.allocator import keep_free_memory
from beliefs.learning.instances import Instance
from beliefs.learning.parallel import Threads
from beliefs.model.layout import Layout
from beliefs.options import shown

__all__ = ["Missing", "Request", "drop", "evaluate", "layout_bytes", "merged", "n_held", "packed", "put", "unpacked"]

S = TypeVar("S", bound=Summand)
Node = tuple[int, int]


def merged(parts: dict[Node, S], n: int) -> dict[Node, S]:
    """Add up the nodes ``(level, number)`` of a tree over ``n`` leaves as far as both halves are here.

    Examples
    --------
    >>> class Word(str):
    ...     def plus(self, other):
    ...         return Word(f"({self}{other})")
    >>> merged({(0, k): Word(letter) for k, letter in enumerate("abcde")}, 5)
    {(3, 0): '(((ab)(cd))e)'}
    >>> merged({(0, k): Word("abcde"[k]) for k in (0, 1, 3)}, 5)
    {(0, 3): 'd', (1, 0): '(ab)'}
    """
    found, level = dict(parts), 0
    while n > 1:
        for node in [node for node in found if node[0] == level and node[1] % 2 == 0]:
            i = node[1]
            if i + 1 == n:
                found[level + 1, i // 2] = found.pop(node)
            elif (level, i + 1) in found:
                found[level + 1, i // 2] = found.pop(node).plus(found.pop((level, i + 1)))
        level, n = level + 1, (n + 1) // 2
    return found


# -- packing ----------------------------------------------------------------------------------------------------------
_LAYOUTS: dict[str, Layout] = {}
_LOCK = threading.Lock()


def packed(thing: Any) -> bytes:
    """Return anything as bytes, functions of interactive sessions included."""
    import cloudpickle  # comes with dask

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            if (
                type(obj) is np.ndarray
                and not obj.flags.writeable
                and obj.flags.c_contiguous
                and not obj.dtype.hasobject
            ):
                return _array, (obj.tobytes(), obj.dtype, obj.shape)
            if type(obj) is Instance:  # without what was derived from it, and what losses keep with it
                return Instance, tuple(getattr(obj, f.name) for f in fields(Instance) if f.init)
            if type(obj) is Layout:
                return _layout, (_name(obj), *(getattr(obj, f) for f in _FIELDS))
            return super().reducer_override(obj)

    file = io.BytesIO()
    try:
        Packer(file, protocol=5).dump(thing)
    except (TypeError, ValueError, AttributeError, RecursionError, pickle.PicklingError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{shown(thing)} cannot be sent to other processes: {reason}") from None
    return file.getvalue()


def unpacked(data: bytes) -> Any:
    """Return what was packed."""
    return pickle.loads(data)


_FIELDS = ("card", "scope_ptr", "scope_vars", "cell_ptr", "factor_size", "n_cells", "observed")


def layout_bytes(items: Iterable[Any]) -> dict[int, int]:
    """Return the bytes of the layouts of some items by their identity; a process holds each once."""
    layouts = {id(layout): layout for item in items if (layout := getattr(item, "layout", None)) is not None}
    arrays = {key: [getattr(layout, name) for name in _FIELDS] for key, layout in layouts.items()}
    return {key: sum(a.nbytes for a in own if isinstance(a, np.ndarray)) for key, own in arrays.items()}


def _name(layout: Layout) -> str:
    return layout.plan(_fingerprint)


def _fingerprint(layout: Layout) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in ("card", "scope_ptr", "scope_vars", "cell_ptr", "observed"):
        array = getattr(layout, name)
        digest.update(str(array.size).encode() + array.tobytes())
    return digest.hexdigest()


def _array(data: bytes, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(data, dtype).reshape(shape)  # read-only, as bytes are


def _layout(name: str, *arrays: Any) -> Layout:
    with _LOCK:
        return _LAYOUTS.setdefault(name, Layout(*arrays))


# -- in the process that holds shards ---------------------------------------------------------------------------------
@dataclass(eq=False)
class Shard:
    """Items, and what jobs keep with them."""

    items: list[Any]
    states: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """The answer of a process that does not hold what it is asked about: these keys."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Request:
    """What is asked: the key of a job, its argument, and of each leaf of the tree the key of a shard.

    ``chosen``: of each shard the numbers of the items that count; None: all.
    """

    job: str
    argument: Any
    n_leaves: int
    leaves: tuple[int, ...]
    keys: tuple[str, ...]
    chosen: tuple[tuple[int, ...], ...] | None = None


_HELD: dict[str, Any] = {}  # of this process: shards and jobs by their keys


def put(key: str, data: bytes, is_shard: bool) -> int:
    """Hold a shard or a job; return its bytes."""
    thing = unpacked(data)
    keep_free_memory(True)
    with _LOCK:
        _HELD[key] = Shard(thing) if is_shard else thing
    return len(data)


def drop(prefix: str) -> int:
    """Let go of everything whose key begins so, and of what jobs of that name keep; return how many keys."""
    with _LOCK:
        gone = [key for key in _HELD if key.startswith(prefix)]
        for key in gone:
            del _HELD[key]
        for shard in [held for held in _HELD.values() if isinstance(held, Shard)]:
            for job in [job for job in shard.states if job.startswith(prefix)]:
                del shard.states[job]
        if not _HELD:
            _LAYOUTS.clear()
            keep_free_memory(False)
    return len(gone)


def n_held() -> int:
    """Return how many shards this process holds."""
    with _LOCK:
        return sum(isinstance(held, Shard) for held in _HELD.values())


def evaluate(request: Request, threads: int) -> Missing | dict[Node, Any]:
    """Run a job on the shards asked for, side by side, and add up what meets in the tree."""
    missing = tuple(key for key in (request.job, *request.keys) if key not in _HELD)
    if missing:
        return Missing(missing)
    job = _HELD[request.job]
    chosen: Sequence[tuple[int, ...] | None] = request.chosen or [None] * len(request.keys)
    with one_thread_of_blas():
        answers = Threads(threads).map(partial(_run, job, request), list(zip(request.keys, chosen, strict=True)))
    parts = {(0, leaf): found for leaf, found in zip(request.leaves, answers, strict=True)}
    return merged(parts, request.n_leaves)


def _run(job: Callable[..., Any], request: Request, one: tuple[str, tuple[int, ...] | None]) -> Any:
    shard: Shard = _HELD[one[0]]
    state = shard.states.setdefault(request.job, {})
    items = shard.items if one[1] is None else [shard.items[k] for k in one[1]]
    return job(items, state, request.argument)
