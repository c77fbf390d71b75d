"""What the first answer of a fresh installation costs: questions in fresh processes with an empty cache of kernels.

Seconds are of the processor, children included, for a whole process: interpreter, imports, compiling, the answer. The
yardstick is a process that imports Numba and compiles three plain kernels in the same setting, so ratios carry over to
other machines. A second process asks again, with what the first has left on disk; the last rows are the command line.

    python benchmarks/first_answer.py --quick            # without `auto` and the warm-up, which take minutes
    python benchmarks/first_answer.py --only exact,bp --json first.json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

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
COMMANDS = {"beliefs --help": ["--help"], "beliefs infer alarm": ["infer", "alarm"]}


def processor_seconds(arguments: list[str], cache: str | None) -> float:
    """Run a process of its own and return its processor time; ``cache`` is the folder of its compiled kernels."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if cache is not None:
        env["NUMBA_CACHE_DIR"] = cache
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(code: str) -> tuple[float, float]:
    """Return the processor seconds of a first and of a second process, which share a folder that was empty."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "question.py"  # Numba keeps no code of what has no file
        script.write_text(f"if __name__ == '__main__':\n    {code.strip().replace(chr(10), chr(10) + '    ')}\n")
        first, second = (processor_seconds([str(script)], str(Path(folder) / "cache")) for _ in range(2))
    return first, second


def main() -> None:
    """Measure, print the table, write JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    parser.add_argument("--only", help="questions, with commas between them")
    parser.add_argument("--json", type=Path, help="write the measurements to this file")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [n for n in QUESTIONS if not (options.quick and n in LONG)]
    processor_seconds(["-c", "import beliefs.cli.group"], None)  # Python's own files are compiled before
    unit, _ = measured(YARDSTICK)
    found: dict[str, dict[str, float]] = {"three plain kernels": {"first": unit}}
    print(f"three plain kernels: {unit:.2f} s, the unit below\n\n| question | first | again |\n| --- | --- | --- |")
    for name in names:
        first, second = measured(QUESTIONS[name])
        found[name] = {"first": first, "again": second}
        print(f"| {name} | {first / unit:.1f}x ({first:.1f} s) | {second / unit:.1f}x ({second:.1f} s) |", flush=True)
    if not options.only:
        print("\n| command, compiled before | seconds |\n| --- | --- |")
        bare = min(processor_seconds(["-c", "import numpy"], None) for _ in range(3))
        print(f"| import numpy | {bare:.2f} |")
        for name, arguments in COMMANDS.items():
            seconds = min(processor_seconds(["-m", "beliefs", *arguments], None) for _ in range(3))
            found[name] = {"again": seconds}
            print(f"| {name} | {seconds:.2f} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
