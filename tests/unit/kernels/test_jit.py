"""Compiled kernels are cached on disk, and a change in a kernel that they call makes them compile again."""

import os
import pickle
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from beliefs.kernels import _front_end

CALLEE = "from beliefs.kernels._jit import kernel\n\n\n@kernel\ndef inner(x):\n    return x + {step}\n"
CALLER = (
    "from callee import inner\n\nfrom beliefs.kernels._jit import kernel\n\n\n@kernel\ndef outer(x):\n"
    "    return 10 * inner(x)\n"
)
RUN = "from caller import outer; print(outer(1), sum(outer.stats.cache_hits.values()))"


def run(folder: Path) -> list[str]:
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
        "NUMBA_CACHE_DIR": str(folder / "cache"),
    }
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, env=env, check=True)
    return done.stdout.split()


def test_cache_is_used_and_follows_the_kernels_that_are_called(tmp_path):
    (tmp_path / "callee.py").write_text(CALLEE.format(step=1))
    (tmp_path / "caller.py").write_text(CALLER)
    assert run(tmp_path) == ["20", "0"]
    assert run(tmp_path) == ["20", "1"], "the second process reads the cache"
    (tmp_path / "callee.py").write_text(CALLEE.format(step=22))
    assert run(tmp_path) == ["230", "0"], "the caller holds the callee's code and must be compiled again"


def test_cache_follows_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "callee.py").write_text(CALLEE.format(step=1))
    (tmp_path / "caller.py").write_text(CALLER)
    changed = (
        "from beliefs.kernels import _jit; known = _jit._contents\n"
        "_jit._contents = lambda path: known(path) + str(path.endswith('{name}'))\n" + RUN
    )
    hits = [
        printed(changed.format(name=name), tmp_path) for name in ("?", "?", "_jit.py", "_compiler.py", "_front_end.py")
    ]
    assert hits == ["20 0\n", "20 1\n", "20 0\n", "20 0\n", "20 0\n"]


FIRST = """
import sys
import beliefs as bl
from beliefs.kernels._jit import kernels
for name in ("asia", "alarm"):
    network = bl.datasets.load_bn(name)
    bl.infer(network), bl.maximize(network)
    print(name == "asia" and "numba" in sys.modules, sum(bool(kernel.signatures) for kernel in kernels()))
"""

TWOFOLD = """
import numpy as np
from beliefs.kernels._jit import twofold_kernel

@twofold_kernel
def total(x):
    s = 0
    for i in range(x.size):
        s += x[i]
    return s

def asked(n):
    result = total(np.ones(n, np.int64))
    assert type(result) is int and result == n
    return bool(total.signatures)
"""


def printed(code: str, folder: Path, name: str = "cache") -> str:
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "NUMBA_CACHE_DIR": str(folder / name)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True).stdout


def test_first_answers_on_a_small_network_need_no_compiler(tmp_path: Path) -> None:
    assert printed(FIRST, tmp_path) == "False 0\nFalse 0\n"


def test_small_arguments_are_interpreted_and_large_ones_compiled(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(TWOFOLD)
    assert printed("from example import asked; print(asked(10), asked(10**6), asked(10))", tmp_path) == (
        "False True True\n"
    )
    spent = "from example import asked, total; type(total)._spent = 1.0; print(asked(10))"
    assert printed(spent, tmp_path) == "True\n", "what is on disk is loaded once interpreting has taken its time"
    assert printed(spent, tmp_path, "other") == "False\n", "what is not goes on being interpreted"
    long = spent.replace("print", "total.seconds = 99.0; print")
    assert printed(long, tmp_path, "other") == "True\n", "until that has cost as much as compiling would"


def test_an_index_of_other_sources_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "callee.py").write_text(CALLEE.format(step=1))
    (tmp_path / "caller.py").write_text(CALLER)
    run(tmp_path)
    for index in (tmp_path / "cache").rglob("*.nbi"):
        index.write_bytes(pickle.dumps(version("numba")) + b"cabsent_module\nabsent_type\n.")
    assert run(tmp_path) == ["20", "0"]


def test_what_only_kernels_call_is_part_of_them_until_python_calls_it(tmp_path: Path) -> None:
    (tmp_path / "callee.py").write_text(CALLEE.format(step=1))
    (tmp_path / "caller.py").write_text(CALLER)
    run(tmp_path)
    on_disk = {path.name.split(".")[1].split("-")[0] for path in (tmp_path / "cache").rglob("*.nbc")}
    assert on_disk == {"outer"}
    both = "from caller import outer; from callee import inner; print(outer(1), inner(1), len(inner.signatures))"
    assert printed(both, tmp_path) == "20 2 1\n"
    assert printed(both.replace("outer(1), inner(1)", "inner(1), outer(1)"), tmp_path, "other") == "2 20 1\n"


def test_numba_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "callee.py").write_text(CALLEE.format(step="missing"))
    (tmp_path / "caller.py").write_text(CALLER)
    code = (
        "from numba.core.errors import TypingError\nfrom numba.core.types.functions import BaseFunction\n"
        "from caller import outer\nbefore = BaseFunction.get_call_type\ntry:\n    outer(1)\n"
        "except TypingError:\n    print(BaseFunction.get_call_type is before)"
    )
    assert printed(code, tmp_path) == "True\n"


SAME_CODE = """
import re
import numpy as np
from beliefs.kernels import _compiler
from beliefs.kernels._jit import kernel

def totals(x, ptr, out):
    best, at = -np.inf, 0
    for s in range(ptr.size - 1):
        total = 0.0
        for k in range(ptr[s], ptr[s + 1]):
            if x[k] < 0.0:
                continue
            total += np.exp(x[k]) if x[k] < 1.0 else max(x[k], total)
        out[s] = total
        if total > best:
            best, at = total, s
    return at, best

def machine_code():
    compiled = kernel(totals)
    compiled.dispatcher._cache.flush()
    assert compiled(np.arange(6.0) / 3, np.array([0, 2, 6]), np.zeros(2))[0] == 1
    text = compiled.inspect_asm(compiled.signatures[0])
    return re.sub(r"B[0-9]+v[0-9]+|v[0-9]+|[0-9a-zA-Z_$.]*totals[0-9a-zA-Z_$.]*|-?[0-9]{8,}", "", text)

with_ours, ours = machine_code(), _compiler.replacements
for left_out in range(len(ours())):
    _compiler.replacements = lambda: [r for k, r in enumerate(ours()) if k != left_out]
    assert machine_code() == with_ours, ours()[left_out]
print(len(with_ours) > 5000)
"""


def test_what_the_front_end_remembers_changes_no_machine_code(tmp_path: Path) -> None:
    (tmp_path / "same_code.py").write_text(SAME_CODE)
    assert printed("import same_code", tmp_path) == "True\n"


def test_new_definitions_are_found_in_whichever_registry_and_context() -> None:
    refreshed: list[Any] = []
    refresh = _front_end._refreshed_if_new(refreshed.append)
    lists = [SimpleNamespace(functions=[], getattrs=[]) for _ in range(3)]

    def context() -> Any:
        return SimpleNamespace(_registries=lists[:2], typing_context=SimpleNamespace(_registries=lists[2:]))

    one = context()
    for _ in range(2):
        refresh(one)
    assert len(refreshed) == 1
    for registry in lists:
        registry.functions.append("a definition")
        refresh(one)
        registry.getattrs.append("another")
        refresh(one)
    assert len(refreshed) == 7
    refreshed.clear()
    seen = 0
    for _ in range(100):  # of which most would lie where one has died
        refresh(context())
        seen += len(refreshed)
        refreshed.clear()
    assert seen == 100


COUNTED = """
import sys
from typing import NamedTuple
import numpy as np
from beliefs.kernels._jit import kernel
from beliefs.typing import Floats

class Half(NamedTuple):
    cells: Floats

@kernel
def largest(x: "Floats") -> "float":
    top = x[0]
    for value in x:
        top = max(top, value)
    return top

@kernel
def half(x: "Floats") -> "Half":
    return Half(x[x.size // 2 :])

@kernel
def doubled(x: "Floats") -> "Floats":
    out = np.empty(x.size)
    for k in range(x.size):
        out[k] = 2.0 * x[k]
    return out

@kernel
def plain(x: "Floats") -> "float":
    return largest(half(x).cells)

@kernel
def making(x: "Floats") -> "float":
    return largest(half(doubled(x)).cells) + largest(half(x).cells)

x = np.arange(6.0)
held = sys.getrefcount(x)
for _ in range(50):
    assert plain(x) == 5.0 and making(x) == 15.0
assert sys.getrefcount(x) == held
from numba.core.runtime import rtsys
made = rtsys.get_allocation_stats()
making(x)
now = rtsys.get_allocation_stats()
assert now.alloc - made.alloc == now.free - made.free > 0
print([k.counts for k in (largest, half, doubled, plain, making)], *(sorted(k._parts) for k in (largest, half)))
"""


def test_only_kernels_that_make_arrays_count_references_and_those_lose_none(tmp_path):
    (tmp_path / "counted.py").write_text(COUNTED)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    env["NUMBA_NRT_STATS"] = "1"
    done = subprocess.run([sys.executable, tmp_path / "counted.py"], capture_output=True, text=True, env=env)
    assert not done.stderr
    assert done.stdout.strip() == "[False, False, True, False, True] [False] [False, True]"
