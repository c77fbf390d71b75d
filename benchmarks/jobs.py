"""One case, one fresh process: nothing is inherited, memory is given back, and a cap can be kept.

A request is a JSON file; the process writes its answer to another file after every phase, so that what was measured
before a cap or a crash is kept. Standard library only, because the processes that run the peers import it too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Answer = dict[str, Any]
Report = Callable[..., None]

# One thread for everybody, whatever library is inside.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[1]
SLACK = 240.0  # seconds for imports and for building the model, which are not timed


def ask(module: str, request: Answer, folder: Path, python: str = sys.executable) -> Answer:
    """Run ``module`` on a request; the answer has ``"failed"`` with the reason if it did not end well."""
    asked, answered = folder / "request.json", folder / "answer.json"
    asked.write_text(json.dumps(request))
    answered.unlink(missing_ok=True)
    cap = float(request.get("cap", 0.0))
    command = [python, "-m", module, str(asked), str(answered)]
    try:
        done = subprocess.run(
            command,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=(6 * cap + SLACK) if cap else None,
            check=False,
        )
        code, errors = done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        code, errors = -int(signal.SIGALRM) if hasattr(signal, "SIGALRM") else -1, ""
    answer: Answer = json.loads(answered.read_text()) if answered.exists() else {}
    if code:
        answer["failed"] = _reason(code, errors, cap)
    return answer


def environment() -> dict[str, str]:
    """Return the variables of a process that measures: one thread, and this package where Python looks for it."""
    where = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return os.environ | ONE_THREAD | {"PYTHONPATH": where}


def _reason(code: int, errors: str, cap: float) -> str:
    if hasattr(signal, "SIGALRM") and code == -signal.SIGALRM:
        return f"over {cap:g} s"
    if code < 0:
        return f"ended by signal {-code}"
    lines = [line for line in errors.splitlines() if line.strip()]
    last = lines[-1] if lines else f"exit code {code}"
    return "out of memory" if "MemoryError" in last or "bad_alloc" in last else last[:200]


class ProcessError(Exception):
    """A process ended with an error; the text is the last line that it wrote."""


def processor_seconds(arguments: list[str], **variables: str) -> tuple[float, str]:
    """Run Python with these arguments and environment variables; return its processor time and what it printed.

    Children count. Python's own files are compiled once, whatever the environment says: that is not what is measured.
    """
    import resource  # where there is none, the other functions still work

    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | variables
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise ProcessError(_reason(done.returncode, done.stderr, 0.0))
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def load_arrays(path: str | Path) -> dict[str, Any]:
    """Read all arrays of an ``.npz`` file."""
    import numpy as np

    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def serve(handlers: dict[str, Callable[[Answer, Report], None]]) -> None:
    """Answer the request named on the command line; ``report(name=value)`` adds to the answer and saves it."""
    asked, answered = Path(sys.argv[1]), Path(sys.argv[2])
    request: Answer = json.loads(asked.read_text())
    answer: Answer = {}

    def report(**found: Any) -> None:
        answer.update(found)
        whole = answered.with_suffix(".part")
        whole.write_text(json.dumps(answer))
        whole.replace(answered)

    handlers[request["task"]](request, report)
