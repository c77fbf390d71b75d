"""Linear chains: training on CoNLL-2000 chunking with CRFsuite's features, ours beside CRFsuite, in one run.

    python benchmarks/chunking.py [--quick] [--iterations N] [--peers-python FILE] [--json FILE] [--markdown FILE]

Both minimise the same function, ``sum of -log p(y | x) + c2 * |w|^2`` over the pairs (attribute, label) and transitions
seen in training, by L-BFGS; ours is divided by the number of tokens, so ``l2 = c2 / n``. Both stop when ten iterations
have lowered it by less than 1e-5 of its value. The time of an iteration is the median over all but the first few, by
the wall clock and by the processor's (all threads together), in turns, each in a process of its own; the smallest of
the turns counts. Held-out sentences are tagged by Viterbi. The data are read from the folder ``nlp`` of
``BELIEFS_DATA``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import chunking_data
import machine
from jobs import Answer, Report, ask, serve

RESULTS = Path(__file__).parent / "results" / "local" / "chunking.json"
FIRST = 3  # iterations that are not counted: their line searches are longer
PERIOD, DELTA = 10, 1e-5  # CRFsuite's rule to stop
SIDES = {"ours_1": "beliefs, 1 thread", "peer": "CRFsuite", "ours_2": "beliefs, 2 threads"}
Result = dict[str, Any]


# -- our side ---------------------------------------------------------------------------------------------------------
def train(request: Answer, report: Report) -> None:
    """Train on the sentences and tag those held out."""
    import beliefs as bl

    def mark(progress: Any) -> bool:
        marks.append((time.perf_counter(), time.process_time(), n * progress.loss))
        return len(marks) > PERIOD + 1 and marks[-PERIOD - 1][2] - marks[-1][2] < DELTA * marks[-1][2]

    start = time.perf_counter()
    sentences, held_out = (chunking_data.sentences(part, request["limit"]) for part in ("train", "test"))
    inputs = [chunking_data.attributes(sentence) for sentence in sentences]
    labels = [chunking_data.tags(sentence) for sentence in sentences]
    extracting, n = time.perf_counter() - start, sum(map(len, labels))
    options = {"all_transitions": False, "n_jobs": request["threads"], "tol": 0.0, "l2": request["c2"] / n}
    marks: list[tuple[float, float, float]] = []
    bl.ChainCRF(max_iters=1, **options).fit(inputs[:99], labels[:99])  # kernels come from the cache
    crf = bl.ChainCRF(max_iters=request["iterations"], callback=mark, **options)
    start = time.perf_counter()
    crf.fit(inputs, labels)
    seconds = time.perf_counter() - start
    held = [chunking_data.attributes(sentence) for sentence in held_out]
    crf.predict(held[:5], "map")
    tagging = time.perf_counter()
    answers = [found.tolist() for found in crf.predict(held, "map")]
    report(
        n_tokens=n,
        n_weights=int(crf.weights_.size),
        extracting=extracting,
        read=marks[0][0] - start,
        marks=marks[1:],
        evaluations=crf.result_.n_evaluations,
        seconds=seconds,
        tagging=time.perf_counter() - tagging,
        f1=chunking_data.f1([chunking_data.tags(sentence) for sentence in held_out], answers),
    )


# -- the run ----------------------------------------------------------------------------------------------------------
def measured(options: argparse.Namespace) -> Result:
    """Let all sides train in turns."""
    result: Result = {"machine": machine.description(), "versions": machine.versions(), "sides": {}, "notes": []}
    result |= {"date": time.strftime("%Y-%m-%d"), "c2": options.c2, "limit": options.limit}
    request = {"task": "train", "c2": options.c2, "iterations": options.iterations, "limit": options.limit}
    for turn in range(options.turns):
        for side in SIDES:
            if side == "peer" and options.no_peers:
                continue
            print(f"turn {turn + 1}: {SIDES[side]}", file=sys.stderr, flush=True)
            script, python = (
                ("chunking_peer.py", options.peers_python) if side == "peer" else (__file__, sys.executable)
            )
            with tempfile.TemporaryDirectory() as folder:
                found = ask(script, request | {"threads": 2 if side == "ours_2" else 1}, Path(folder), python)
            if "failed" in found:
                result["notes"].append(f"{SIDES[side]}: {found['failed']}")
                continue
            result["sides"].setdefault(side, []).append(_summary(found))
    return result


def _summary(found: Answer) -> Answer:
    """Return a run with the medians of its iterations in the place of all its marks."""
    marks = found.pop("marks")
    each = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(marks[:-1], marks[1:], strict=True)][FIRST:]
    return found | {
        "iterations": len(marks),
        "loss": marks[-1][2],
        "wall": statistics.median(wall for wall, _ in each),
        "processor": statistics.median(processor for _, processor in each),
    }


# -- tables -----------------------------------------------------------------------------------------------------------
def page(result: Result) -> str:
    """Return the measurements as Markdown."""
    head = ["", "ms an iteration", "of CRFsuite's", "processor ms", "iterations", "evaluations", "loss", "F1",
            "reading s", "training s", "tagging s"]  # fmt: skip
    peer = result["sides"].get("peer")
    rows = []
    for side, runs in result["sides"].items():
        best = min(runs, key=lambda run: run["wall"])
        ratio = f"{best['wall'] / min(run['wall'] for run in peer):.2f}" if peer else ""
        row = [SIDES[side], f"{1e3 * best['wall']:.0f}", ratio]
        row += [f"{1e3 * min(run['processor'] for run in runs):.0f}", str(best["iterations"])]
        row += [str(best["evaluations"]), f"{best['loss']:.1f}", f"{best['f1']:.2f}"]
        rows.append(row + [f"{best[name]:.1f}" for name in ("read", "seconds", "tagging")])
    ours = next((runs[0] for side, runs in result["sides"].items() if side != "peer"), None)
    about = f"load before the run {result['machine']['load_before']}, {result['machine']['cores']} cores"
    if ours is not None:
        about = (
            f"{ours['n_tokens']} tokens, {ours['n_weights']} weights, c2 = {result['c2']:g}; attributes of all tokens "
            f"made in {ours['extracting']:.1f} s; {about}"
        )
    lines = [about, "", *(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))]
    return "\n".join([*lines, *(["", *(f"- left out: {note}" for note in result["notes"])] if result["notes"] else [])])


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1000 sentences, 30 iterations, one turn")
    parser.add_argument("--iterations", type=int, default=400, help="iterations at most")
    parser.add_argument("--turns", type=int, default=2, help="runs of each side")
    parser.add_argument("--c2", type=float, default=1.0, help="the ridge, in CRFsuite's scale")
    parser.add_argument("--data", metavar="FOLDER", help="data sets; the environment's BELIEFS_DATA otherwise")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    parser.add_argument("--peers-python", default=sys.executable, metavar="FILE", help="interpreter that has the peer")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where the measurements go")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where the table goes, besides the terminal")
    parser.add_argument("--from", dest="stored", type=Path, metavar="FILE", help="measure nothing: show this JSON file")
    options = parser.parse_args(arguments)
    if options.data is not None:
        os.environ["BELIEFS_DATA"] = options.data
    options.limit = 1000 if options.quick else None
    if options.quick:
        options.iterations, options.turns = min(options.iterations, 30), 1
    return options


def main(arguments: list[str]) -> int:
    """Measure, show and store."""
    options = parsed(arguments)
    if options.stored is None and chunking_data.folder() is None:
        print("CoNLL-2000 is not here: set BELIEFS_DATA to a folder with nlp/conll2000_train.txt.gz; nothing measured")
        return 0
    result = measured(options) if options.stored is None else json.loads(options.stored.read_text())
    if options.stored is None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(page(result))
    if options.markdown is not None:
        options.markdown.write_text(page(result) + "\n")
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 3 and all(name.endswith(".json") for name in sys.argv[1:]):
        serve({"train": train})
    else:
        sys.exit(main(sys.argv[1:]))
