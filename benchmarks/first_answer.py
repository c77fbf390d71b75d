"""What the first answer of a fresh installation costs: questions in fresh processes with an empty cache of kernels.

    python -m benchmarks.first_answer --quick            # without `auto` and the warm-up, which take minutes
    python -m benchmarks.first_answer --only exact,bp --json first.json

Seconds are of the processor, children included, for a whole process: interpreter, imports, compiling, the answer. The
yardstick is a process that imports Numba and compiles three plain kernels in the same setting, so ratios carry over to
other machines. A second process asks again, with what the first has left on disk; the last rows are the command line.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.frame import Options, Result, Run, Suite, say
from benchmarks.jobs import processor_seconds
from benchmarks.tables import plain

YARDSTICK = """
import numba, numpy as np

@numba.njit(cache=True, nogil=True, error_model="numpy")
def scores(ptr, cells, theta, out):
    for f in range(ptr.size - 1):
        top = -np.inf
        for k in range(ptr[f], ptr[f + 1]):
            top = max(top, theta[cells[k]])
        for k in range(ptr[f], ptr[f + 1]):
            out[k] = theta[cells[k]] - top

@numba.njit(cache=True, nogil=True, error_model="numpy")
def sweep(edges, tables, messages, beliefs):
    for e in range(edges.shape[0]):
        u, v = edges[e, 0], edges[e, 1]
        total = 0.0
        for j in range(beliefs.shape[1]):
            messages[e, j] = 0.0
            for i in range(beliefs.shape[1]):
                messages[e, j] += tables[e, i, j] * beliefs[u, i]
            total += messages[e, j]
        for j in range(beliefs.shape[1]):
            messages[e, j] /= total
            beliefs[v, j] *= messages[e, j]

@numba.njit(cache=True, nogil=True, error_model="numpy")
def reached(ptr, neighbours, start, queue, seen):
    queue[0], seen[start], head, tail = start, True, 0, 1
    while head < tail:
        v = queue[head]
        head += 1
        for k in range(ptr[v], ptr[v + 1]):
            if not seen[neighbours[k]]:
                seen[neighbours[k]] = True
                queue[tail] = neighbours[k]
                tail += 1
    return tail

ints = np.zeros(2, np.int64)
scores(ints, ints, np.ones(2), np.ones(2))
sweep(np.zeros((1, 2), np.int64), np.ones((1, 2, 2)), np.ones((1, 2)), np.ones((2, 2)))
reached(np.zeros(3, np.int64), ints, 0, ints.copy(), np.zeros(2, np.bool_))
"""

_FIT = """
import numpy as np, beliefs as bl
rng = np.random.default_rng(0)
X = [rng.normal(size=({shape}, 2)) for _ in range(3)]
bl.{name}(max_iters=5).fit(X, [np.abs(x[..., 0] > 0).astype(int) for x in X])
"""

QUESTIONS = {
    "exact": "import beliefs as bl; bl.infer(bl.datasets.load_bn('alarm'))",
    "maximize": "import beliefs as bl; bl.maximize(bl.datasets.load_bn('alarm'))",
    "exact (andes)": "import beliefs as bl; bl.infer(bl.datasets.load_bn('andes'))",
    "bp": "import beliefs as bl; bl.infer(bl.datasets.make_ising_grid(30, seed=0), 'bp')",
    "grid fit": _FIT.format(name="GridCRF", shape="6, 6"),
    "chain fit": _FIT.format(name="ChainCRF", shape="9"),
    "auto": "import beliefs as bl; bl.infer(bl.datasets.make_ising_grid(60, seed=0))",
    "warmup": "from beliefs.cli import main; import sys; sys.argv = ['beliefs', 'warmup']; main()",
}
LONG = ("auto", "warmup")
COMMANDS = {
    "import numpy": ["-c", "import numpy"],
    "beliefs --help": ["-m", "beliefs", "--help"],
    "beliefs infer alarm": ["-m", "beliefs", "infer", "alarm"],
}


def measured(code: str) -> tuple[float, float]:
    """Return the processor seconds of a first and of a second process, which share a folder that was empty."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "question.py"  # Numba keeps no code of what has no file
        script.write_text(f"if __name__ == '__main__':\n    {code.strip().replace(chr(10), chr(10) + '    ')}\n")
        cache = str(Path(folder) / "cache")
        first, second = (processor_seconds([str(script)], NUMBA_CACHE_DIR=cache)[0] for _ in range(2))
    return first, second


def measure(run: Run) -> None:
    """Measure the questions, and the commands unless some questions were chosen."""
    processor_seconds(["-c", "import beliefs.cli.group"])  # Python's own files are compiled before
    run.result |= {"unit": measured(YARDSTICK)[0], "questions": {}, "commands": {}}
    for name in run.options.parts:
        first, second = measured(QUESTIONS[name])
        run.result["questions"][name] = {"first": first, "again": second}
        say(f"{name}: {first:.1f} s, again {second:.1f} s")
    if run.options.only is None:
        for name, arguments in COMMANDS.items():
            run.result["commands"][name] = min(processor_seconds(arguments)[0] for _ in range(3))


def page(result: Result, options: Options) -> str:
    """Return both tables."""
    unit = result["unit"]
    rows = [
        [name, *(f"{found[when] / unit:.1f}x ({found[when]:.1f} s)" for when in ("first", "again"))]
        for name, found in result["questions"].items()
    ]
    lines = [f"three plain kernels: {unit:.2f} s, the unit below", "", *plain(["question", "first", "again"], rows)]
    if result["commands"]:
        rows = [[name, f"{found:.2f}"] for name, found in result["commands"].items()]
        lines += ["", *plain(["command, compiled before", "seconds"], rows)]
    return "\n".join(lines)


SUITE = Suite(
    "first_answer",
    __doc__,
    measure,
    page,
    parts=tuple(QUESTIONS),
    quick_parts=tuple(name for name in QUESTIONS if name not in LONG),
    quick="leave out what takes minutes",
)

if __name__ == "__main__":
    SUITE.main()
