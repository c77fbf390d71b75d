"""Kernel calls kept with their arguments, and made again with the arrays laid elsewhere: the bytes must not change.

A compiler may make two versions of a loop, in SIMD and plainly, and choose at run time by how close two arrays are,
which is the allocator's affair. Where a kernel may reassociate sums or contract multiply-adds, the two round
differently. Repeated questions hardly ever show it, because the same allocator mostly does the same again; here arrays
lie one behind the other, in many orders and with small gaps, or far apart.

Which gaps matter depends on the instruction set. :func:`plain_loops` asks the same of all at once: it compiles kernels
so that every such choice falls on the plain version, and calls must do what they do without it.
"""

from __future__ import annotations

import ctypes
import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import llvmlite.binding
import numpy as np
from numba.core.codegen import CPUCodeLibrary

from beliefs.kernels._jit import Kernel

KEPT = 24  # calls of one kernel
LARGEST = 100_000  # bytes of one call: what matters is who lies beside whom
FAR = 1 << 13  # bytes
GAPS = (0, 8, 16, 24, 32, 64)


@dataclass(frozen=True)
class View:
    """An array of a call: which block of memory it lies in, where, and how."""

    block: int
    offset: int
    writeable: bool
    kind: tuple[Any, ...]  # shape, type, strides

    def on(self, buffer: np.ndarray, begins: list[int]) -> np.ndarray:
        shape, dtype, strides = self.kind
        view = np.ndarray(shape, dtype, buffer.data, begins[self.block] + self.offset, strides)
        view.setflags(write=self.writeable)
        return view


@dataclass(frozen=True)
class Call:
    """A kernel, its arguments with views for arrays, and what was in memory; arrays that overlap share a block."""

    kernel: Any
    arguments: tuple[Any, ...]
    blocks: tuple[bytes, ...]

    @classmethod
    def of(cls, kernel: Any, arguments: tuple[Any, ...]) -> Call:
        arrays: list[np.ndarray] = []
        each_array(arguments, arrays.append)
        bounds = [np.lib.array_utils.byte_bounds(a) if a.size else (0, 0) for a in arrays]
        blocks: list[tuple[int, int]] = []
        block = [0] * len(arrays)
        for i in sorted(range(len(arrays)), key=bounds.__getitem__):
            low, high = bounds[i]
            if blocks and low < blocks[-1][1]:
                blocks[-1] = blocks[-1][0], max(high, blocks[-1][1])
            else:
                blocks.append((low, high))
            block[i] = len(blocks) - 1
        views = iter(
            View(b, low - blocks[b][0], a.flags.writeable, (a.shape, a.dtype, a.strides))
            for a, b, (low, _) in zip(arrays, block, bounds, strict=True)
        )
        held = tuple(ctypes.string_at(low, high - low) for low, high in blocks)
        return cls(kernel, each_array(arguments, lambda _: next(views)), held)

    def again(self, order: list[int], gaps: list[int]) -> tuple[Any, list[bytes]]:
        """Call with the blocks in that order, each after its gap; return the answer and all memory after it."""
        begins, end = [0] * len(self.blocks), 64
        for b, gap in zip(order, gaps, strict=True):
            begins[b] = end + gap
            end = begins[b] + -(-len(self.blocks[b]) // 8) * 8
        buffer = np.zeros(end // 8 + 8).view(np.uint8)
        for begin, held in zip(begins, self.blocks, strict=True):
            buffer[begin : begin + len(held)] = np.frombuffer(held, np.uint8)
        answer = self.kernel.dispatcher(*each_array(self.arguments, lambda view: view.on(buffer, begins)))
        after = [buffer[a : a + len(held)].tobytes() for a, held in zip(begins, self.blocks, strict=True)]
        return plain(answer), after

    @property
    def name(self) -> str:
        return f"{self.kernel.py_func.__module__.removeprefix('beliefs.kernels.')}.{self.kernel.py_func.__name__}"

    def far(self) -> tuple[Any, list[bytes]]:
        """Call with the blocks far apart."""
        return self.again(list(range(len(self.blocks))), [FAR] * len(self.blocks))

    def outcome(self) -> tuple[str, str]:
        """Return the kernel's name with a digest of what goes in, and a digest of what comes out."""
        into, out = (hashlib.sha256(repr(x).encode()).hexdigest() for x in ((self.arguments, self.blocks), self.far()))
        return f"{self.name} {into}", out

    def is_stable(self) -> bool:
        """Whether the call does the same wherever its arrays are."""
        n, rng = len(self.blocks), random.Random(len(self.blocks))
        far = self.far()
        layouts = ((order, gaps) for order in neighbours(n) for gaps in ([0] * n, rng.choices(GAPS, k=n)))
        return all(self.again(*layout) == far for layout in layouts)


def neighbours(n: int) -> list[list[int]]:
    """Orders of n things in which each thing comes right before each other one (a row-complete Latin square)."""
    even = n + n % 2
    zigzag = [k // 2 if k % 2 == 0 else even - 1 - k // 2 for k in range(even)]
    return [[order for k in zigzag if (order := (k + row) % even) < n] for row in range(even)]


def each_array(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of nested tuples with every array, or what stands for one, changed."""
    if isinstance(value, np.ndarray | View):
        return change(value)
    if not isinstance(value, tuple):
        return value
    parts = [each_array(part, change) for part in value]
    return value._make(parts) if hasattr(value, "_make") else tuple(parts)


def plain(answer: Any) -> Any:
    """What a kernel returned, in terms that can be compared: nan equals nan."""
    if isinstance(answer, tuple):
        return tuple(plain(part) for part in answer)
    return answer.tobytes() if isinstance(answer, np.ndarray) else np.float64(answer or 0).tobytes()


@contextmanager
def recorded() -> Iterator[dict[Any, list[Call]]]:
    """Keep some calls of every kernel, of as many sizes as there are."""
    kept: dict[Any, list[Call]] = {}
    seen: dict[Any, set[tuple[int, ...]]] = {}
    rng, lock = random.Random(0), threading.Lock()
    straight = Kernel.__call__

    def record(kernel: Any, *arguments: Any) -> Any:
        sizes = [a for a in arguments if isinstance(a, int)]  # other numbers may lead through other loops
        n_numbers = len(sizes)
        each_array(arguments, lambda array: sizes.append(array.nbytes))
        with lock:
            known = seen.setdefault(kernel, set())
            if tuple(sizes) not in known and sum(sizes[n_numbers:]) <= LARGEST:
                known.add(tuple(sizes))
                calls = kept.setdefault(kernel, [])
                place = len(calls) if len(calls) < KEPT else rng.randrange(len(known))
                if place < KEPT:
                    calls[place : place + 1] = [Call.of(kernel, arguments)]
        return straight(kernel, *arguments)

    Kernel.__call__ = record  # type: ignore[assignment]
    try:
        yield kept
    finally:
        Kernel.__call__ = straight  # type: ignore[method-assign]


def unstable(calls: dict[Any, list[Call]]) -> list[str]:
    """The kernels that have a call whose bytes depend on where its arrays are."""
    return sorted({call.name for some in calls.values() for call in some if not call.is_stable()})


def plain_loops() -> None:
    """From now on, compile every loop that has two versions so that the plain one is taken; for a cache of its own."""
    optimize = CPUCodeLibrary._optimize_final_module

    def plainly(library: Any) -> None:
        optimize(library)
        lines, among = str(library._final_module).split("\n"), False
        for i, line in enumerate(lines):
            if line.endswith("{") or (line and not line[0].isspace()):
                among = line.startswith("vector.memcheck")
            elif among and line.lstrip().startswith("br i1 "):
                lines[i] = "  br i1 true," + line.split(",", 1)[1]
        library._final_module = llvmlite.binding.parse_assembly("\n".join(lines))

    CPUCodeLibrary._optimize_final_module = plainly  # type: ignore[method-assign]
