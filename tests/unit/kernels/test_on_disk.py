"""What is on disk for a kernel is right or absent, however processes end, and one of them compiles it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from numba.core.caching import IndexDataCacheFile

from beliefs.kernels import _on_disk

PATIENCE = 60.0


def files(folder: Path, stamp: str = "sources") -> IndexDataCacheFile:
    return IndexDataCacheFile(str(folder), "sweep-1.py311", stamp)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.nbc"))


def test_what_is_saved_is_found(tmp_path: Path) -> None:
    for key in ("two states", "three states"):
        _on_disk._save(files(tmp_path), key, key.upper())
    assert [files(tmp_path).load(key) for key in ("two states", "three states", "four")] == [
        "TWO STATES",
        "THREE STATES",
        None,
    ]
    assert len(names(tmp_path)) == 2


@pytest.mark.parametrize("stopped_at", ["_save_index", "_save_data"])
def test_stopped_between_index_and_code_there_is_no_code_of_older_sources(tmp_path: Path, stopped_at: str) -> None:
    _on_disk._save(files(tmp_path, "old sources"), "key", "old code")
    new = files(tmp_path, "new sources")
    saved = getattr(new, stopped_at)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    setattr(new, stopped_at, stop)
    with pytest.raises(KeyboardInterrupt):
        _on_disk._save(new, "key", "new code")
    assert files(tmp_path, "new sources").load("key") is None
    setattr(new, stopped_at, saved)
    _on_disk._save(new, "key", "new code")
    assert files(tmp_path, "new sources").load("key") == "new code"
    assert len(names(tmp_path)) == 1, "code of sources that are no more is removed"


def test_processes_that_save_two_forms_at_once_never_take_one_for_the_other(tmp_path: Path) -> None:
    first, second = files(tmp_path), files(tmp_path)
    save = first._save_index

    def meanwhile(overloads: dict[str, str]) -> None:
        _on_disk._save(second, "max", "code of maxima")
        save(overloads)

    first._save_index = meanwhile  # type: ignore[method-assign]
    _on_disk._save(first, "sum", "code of sums")
    assert files(tmp_path).load("sum") == "code of sums"
    assert files(tmp_path).load("max") in (None, "code of maxima")


def _holding(path: str, ready: object) -> None:
    _on_disk.claim_in(path)
    _on_disk._lock("sweep")
    ready.set()  # type: ignore[attr-defined]
    time.sleep(PATIENCE)


@pytest.fixture
def no_claims(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened: list[Any] = []
    monkeypatch.setattr(_on_disk, "_CLAIMS", opened)
    yield
    for file in opened:
        file.close()


@pytest.mark.usefixtures("no_claims")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="locks of POSIX")
def test_a_claim_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    claims.touch()
    context = get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=_holding, args=(str(claims), ready))
    holder.start()
    try:
        assert ready.wait(PATIENCE)
        _on_disk.claim_in(str(claims))
        started = time.perf_counter()
        _on_disk._lock("another kernel")
        assert time.perf_counter() - started < 1.0
        assert holder.pid is not None
        killed = subprocess.Popen([sys.executable, "-c", f"import os, time; time.sleep(1); os.kill({holder.pid}, 9)"])
        _on_disk._lock("sweep")
        assert time.perf_counter() - started > 0.5, "it was waited for"
        killed.wait()
        holder.join(PATIENCE)
        assert holder.exitcode == -signal.SIGKILL
    finally:
        holder.kill()


@pytest.mark.usefixtures("no_claims")
@pytest.mark.parametrize("failing", ["no locks", "no file"])
def test_without_locks_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    claims = tmp_path / "claims"
    if failing == "no locks":
        monkeypatch.setitem(sys.modules, "fcntl", None)
        claims.touch()
    _on_disk.claim_in(str(claims))
    for _ in range(2):
        with _on_disk._claimed("sweep"):
            pass


SHARED = """
import sys, time
from pathlib import Path
from typing import Any
from beliefs.kernels import _on_disk
from beliefs.kernels._jit import kernel

@kernel
def total(x):
    out = 0.0
    for k in range(x.size):
        out += x[k]
    return out

if __name__ == "__main__":
    import numpy as np
    folder, me = Path(sys.argv[1]), sys.argv[2]
    _on_disk.claim_in(str(folder / "claims"))
    total.dispatcher
    (folder / me).touch()
    while len(list(folder.glob("ready-*"))) < 2:
        time.sleep(0.001)
    assert total(np.arange(4.0)) == 6.0
    print(sum(total.stats.cache_misses.values()))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="locks of POSIX")
def test_of_two_processes_one_compiles_and_the_other_loads(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text(SHARED)
    (tmp_path / "claims").touch()
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(tmp_path / "shared.py"), str(tmp_path)]
    both = [
        subprocess.Popen([*command, f"ready-{k}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        for k in range(2)
    ]
    found = [process.communicate(timeout=PATIENCE) for process in both]
    assert [errors for _, errors in found] == ["", ""]
    assert sorted(text.strip() for text, _ in found) == ["0", "1"]
