"""Exact inference, ours beside pyAgrum and pgmpy in one run: accuracy and time, one thread each.

    python -m benchmarks.exact [--only NAMES] [--quick] [--no-peers] [--json FILE] [--markdown FILE] [--from FILE]

Every case runs in a fresh process for each library; interpreter start, imports, building the model and (for us) loading
the compiled kernels are not in the times. The rule of repetition is in ``clock.py``, the models are in ``cases.py``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import beliefs as bl
from beliefs.inference.budget import available_bytes
from benchmarks import machine
from benchmarks.exact import cases, tables
from benchmarks.frame import Options, Result, Run, Suite, names, say
from benchmarks.tables import seconds

OURS, THEIRS = "benchmarks.exact.ours", "benchmarks.exact.peers"
PEERS = ("pyagrum", "pgmpy")
MOST_PGMPY_BYTES = {".bif": 300_000, ".uai": 40_000}  # its readers take minutes beyond
AGREE = 1e-6  # columns of published networks sum to one only to their printed digits; pgmpy prunes by that sum
TOUCH = 160  # bytes for each cell of our tree: what a peer's process touches and gives back before its clock starts


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add which peers, which half of the run, and their cap."""
    parser.add_argument("--peers", type=names, default=PEERS, metavar="NAMES", help="only these")
    parser.add_argument("--no-models", action="store_true", help="measure only the reading of files")
    parser.add_argument("--no-files", action="store_true", help="measure only inference")
    parser.add_argument("--cap", type=float, default=150.0, help="seconds a peer may take for one question")


def settle(options: Options) -> str | None:
    """Choose the models."""
    options.cap = min(options.cap, 20.0) if options.quick else options.cap
    wanted = options.only or (cases.QUICK if options.quick else cases.NAMES)
    options.names = [] if options.no_models else [name for name in cases.NAMES if name in wanted]
    return None if set(options.peers) <= set(PEERS) else f"the peers are {', '.join(PEERS)}"


def measure(run: Run) -> None:
    """Measure the machine, every model and every file."""
    options, result = run.options, run.result
    result |= {"method": repr(bl.JunctionTree()), "cap": options.cap, "cases": {}, "files": {}}
    warm = run.quietly(OURS, {"task": "warm up"})
    if "failed" in warm:
        raise SystemExit(f"our own warm-up failed: {warm['failed']}")
    say(f"kernels compiled or loaded in {warm['warm_up']:.1f} s (not counted below)")
    result["peers"] = _peers(run)
    result["speed"] = machine.speed()
    for model in options.names:
        _case(model, run)
        result["speed"] = machine.better(result["speed"], machine.speed())  # other tenants come and go
    if not options.no_files:
        _files(run)


def _peers(run: Run) -> dict[str, str]:
    """Return the peers that are installed, with their versions; note the others."""
    found: dict[str, str] = {}
    for peer in () if run.options.no_peers else run.options.peers:
        answer = run.quietly(THEIRS, {"task": "version", "peer": peer}, peer=True)
        if "version" in answer:
            found[peer] = answer["version"]
        else:
            run.note(f"{tables.PEER_NAMES[peer]} is not installed (extra `peers`): {answer['failed']}")
    return found


def _case(name: str, run: Run) -> None:
    """Measure one model, ours first: our cells say how much memory a peer's process should touch."""
    try:
        case = cases.make(name)
    except FileNotFoundError as error:
        run.note(f"{name}: {error}")
        return
    result, cap = run.result, run.options.cap
    path, out = run.folder / "case.npz", run.folder / "ours.npz"
    case.save(path)
    ours = run.quietly(OURS, {"task": "exact", "case": str(path), "out": str(out)})
    entry: Result = {"name": name, "directed": case.directed, "ours": ours}
    result["cases"][name] = entry
    result["method"] = ours.get("method", result["method"])
    memory = available_bytes()
    for peer in result["peers"]:
        theirs = run.folder / f"{peer}.npz"
        theirs.unlink(missing_ok=True)
        request = {
            "task": "exact", "peer": peer, "case": str(path), "out": str(theirs), "cap": cap,
            "memory": int(0.8 * memory), "touch": int(min(TOUCH * ours.get("cells", 0), 0.5 * memory)),
        }  # fmt: skip
        entry[peer] = run.quietly(THEIRS, request, peer=True)
        entry[peer] |= {"cap": cap, "difference": _differences(out, theirs)}
        _note_disagreement(entry, peer, result["notes"])
    _note_failures(entry, result["notes"])
    say(_line(entry, "marginals"))


def _note_failures(entry: Result, notes: list[str]) -> None:
    """Keep the reasons that are too long for a table."""
    for who in ("ours", *PEERS):
        reason = entry.get(who, {}).get("failed", "")
        if reason != tables.brief(reason):
            notes.append(f"{entry['name']}, {who}: {reason}")


def _note_disagreement(entry: Result, peer: str, notes: list[str]) -> None:
    """Say it where two exact answers are not the same answer."""
    for phase, difference in entry[peer]["difference"].items():
        if not difference <= AGREE:
            notes.append(f"{entry['name']}: {phase} differ from {tables.PEER_NAMES[peer]}'s by {difference:.1e}")


def _differences(ours: Path, theirs: Path) -> dict[str, float]:
    """Return the largest absolute difference of a marginal, without and with evidence."""
    if not (ours.exists() and theirs.exists()):
        return {}
    with np.load(ours) as a, np.load(theirs) as b:
        pairs = {"marginals": "prior", "evidence": "evidence"}
        return {k: float(np.abs(a[v] - b[v]).max()) for k, v in pairs.items() if v in a.files and v in b.files}


def _files(run: Run) -> None:
    """Measure reading, from unpacked files."""
    options = run.options
    for suffix, known, text in ((".uai", cases.UAI_FILES, cases.uai_text), (".bif", cases.BIF_FILES, cases.bif_text)):
        for name in known:
            wanted = options.only if options.only is not None else cases.QUICK_FILES if options.quick else known
            if name not in wanted:
                continue
            try:
                data = text(name)
            except FileNotFoundError:
                continue  # noted already, as a model
            path = run.folder / f"{name}{suffix}"
            path.write_bytes(data)
            request = {"task": "read", "path": str(path), "cap": options.cap}
            entry: Result = {"name": path.name, "bytes": len(data), "ours": run.quietly(OURS, request)}
            for peer in run.result["peers"]:
                if peer != "pgmpy" or len(data) <= MOST_PGMPY_BYTES[suffix]:
                    entry[peer] = run.quietly(THEIRS, {**request, "peer": peer}, peer=True)
                    entry[peer]["cap"] = options.cap
                else:
                    entry[peer] = {"failed": "not asked"}
            run.result["files"][path.name] = entry
            _note_failures(entry, run.result["notes"])
            say(_line(entry, "read"))


def _line(entry: Result, phase: str) -> str:
    """Return one line of progress on one case."""
    shown = []
    for who in ("ours", *PEERS):
        if who in entry:
            found = entry[who].get(phase)
            shown.append(f"{who} {seconds(found['best']) if found else entry[who].get('failed', '-')}")
    return f"{entry['name']}: {', '.join(shown)}"


def has_failed(result: Result) -> bool:
    """Whether one of our own answers is missing."""
    return any("failed" in entry["ours"] for entry in (*result["cases"].values(), *result["files"].values()))


SUITE = Suite(
    "exact",
    __doc__,
    measure,
    lambda result, options: tables.page(result),
    parts=tuple(dict.fromkeys((*cases.NAMES, *cases.UAI_FILES, *cases.BIF_FILES))),
    quick="small models, peers capped at 20 s",
    has_peers=True,
    add_options=add_options,
    settle=settle,
    has_failed=has_failed,
)
