"""What this machine allows: memory bandwidth, the cost of an exponential, the price of memory never touched before."""

from __future__ import annotations

import math
import os
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.clock import least

N_STREAM = 2**25  # 256 MB an array: beyond any cache
N_CACHED = 2**11  # 16 kB: within the first


@numba.njit(cache=True, fastmath={"reassoc", "nsz", "contract"})
def _read(a: NDArray[np.float64]) -> float:
    total = 0.0
    for i in range(a.size):
        total += a[i]
    return total


@numba.njit(cache=True, error_model="numpy")
def _exponentials(a: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    for i in range(a.size):
        out[i] = math.exp(a[i])


@numba.njit(cache=True, error_model="numpy")
def _logarithms(a: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    for i in range(a.size):
        out[i] = math.log(a[i])


def speed() -> dict[str, float]:
    """Measure one thread's bandwidths in GB/s (a copy counts what it reads and what it writes), and costs in ns."""
    fresh = time.perf_counter()
    a = np.empty(N_STREAM)
    a[:] = 1.0
    fresh = time.perf_counter() - fresh
    b = np.ones(N_STREAM)
    x, y = np.linspace(-20.0, 0.0, N_CACHED), np.empty(N_CACHED)
    _read(x), _exponentials(x, y)  # compile first
    z = np.exp(x)
    _logarithms(z, y)
    many = 200
    return {
        "read_gb_per_s": a.nbytes / least(lambda: _read(a), 7) / 1e9,
        "copy_gb_per_s": 2 * a.nbytes / least(lambda: np.copyto(b, a), 7) / 1e9,
        "copy_2_threads_gb_per_s": 2 * a.nbytes / _copy_by_two(a, b) / 1e9,
        "write_ns_per_cell": least(lambda: a.fill(2.0), 7) / N_STREAM * 1e9,
        "first_write_ns_per_cell": fresh / N_STREAM * 1e9,
        "exp_ns": least(lambda: [_exponentials(x, y) for _ in range(many)], 7) / (many * N_CACHED) * 1e9,
        "log_ns": least(lambda: [_logarithms(z, y) for _ in range(many)], 7) / (many * N_CACHED) * 1e9,
        "numpy_exp_ns": least(lambda: [np.exp(x, out=y) for _ in range(many)], 7) / (many * N_CACHED) * 1e9,
    }


def _copy_by_two(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the seconds that two threads take to copy, half of the array each."""
    half = a.size // 2
    with ThreadPoolExecutor(2) as pool:

        def run() -> None:
            other = pool.submit(np.copyto, b[:half], a[:half])
            np.copyto(b[half:], a[half:])
            other.result()

        return least(run, 7)


def matrix_product() -> float:
    """Measure GFLOP/s of a matrix product, with as many threads as BLAS may use here."""
    n = 768
    a = np.random.default_rng(0).normal(size=(n, n))
    return 2.0 * n**3 / least(lambda: a @ a, 5) / 1e9


def better(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    """Join two measurements: the larger bandwidths, the smaller costs, and the first of the first writes."""
    joined = {name: (max if name.endswith("_per_s") else min)(a[name], b[name]) for name in a}
    return joined | {"first_write_ns_per_cell": a["first_write_ns_per_cell"]}


def description() -> dict[str, Any]:
    """Say what the machine is, without naming it."""
    return {
        "processor": _from_proc("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(_memory_bytes() / 1e9, 1),
        "system": platform.system(),
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of our side's libraries."""
    ours = {name: metadata.version(name) for name in ("beliefs", "numpy", "numba")}
    return {"python": platform.python_version(), **ours}


def _from_proc(path: str, key: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")


def _memory_bytes() -> float:
    kilobytes = _from_proc("/proc/meminfo", "MemTotal").removesuffix("kB").strip()
    return 1024.0 * float(kilobytes or 0)
