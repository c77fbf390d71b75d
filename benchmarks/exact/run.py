"""Exact inference, ours beside pyAgrum and pgmpy in one run: accuracy and time, one thread each.

    python benchmarks/exact.py [--only NAMES] [--quick] [--no-peers] [--json FILE] [--markdown FILE] [--from FILE]

Every case runs in a fresh process for each library; interpreter start, imports, building the model and (for us) loading
the compiled kernels are not in the times. The rule of repetition is in ``clock.py``, the models are in ``cases.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cases
import machine
import numpy as np
import tables
from jobs import ask

import beliefs as bl
from beliefs.inference.budget import available_bytes

RESULTS = Path(__file__).parent / "results" / "local" / "exact.json"
PEERS = ("pyagrum", "pgmpy")
MOST_PGMPY_BYTES = {".bif": 300_000, ".uai": 40_000}  # its readers take minutes beyond
AGREE = 1e-6  # columns of published networks sum to one only to their printed digits; pgmpy prunes by that sum
TOUCH = 160  # bytes for each cell of our tree: what a peer's process touches and gives back before its clock starts

Result = dict[str, Any]


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", type=lambda text: text.split(","), metavar="NAMES", help="models, with commas between"
    )
    parser.add_argument("--data", metavar="FOLDER", help="data sets; the environment's BELIEFS_DATA otherwise")
    parser.add_argument("--quick", action="store_true", help="small models, peers capped at 20 s")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    parser.add_argument("--peers", type=lambda text: text.split(","), default=PEERS, metavar="NAMES", help="only these")
    parser.add_argument("--no-models", action="store_true", help="measure only the reading of files")
    parser.add_argument("--no-files", action="store_true", help="measure only inference")
    parser.add_argument("--cap", type=float, default=150.0, help="seconds a peer may take for one question")
    parser.add_argument("--peers-python", default=sys.executable, metavar="FILE", help="interpreter that has the peers")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where the measurements go")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where the tables go, besides the terminal")
    parser.add_argument("--from", dest="stored", type=Path, metavar="FILE", help="measure nothing: show this JSON file")
    options = parser.parse_args(arguments)
    known = dict.fromkeys((*cases.NAMES, *cases.UAI_FILES, *cases.BIF_FILES))
    if options.data is not None:
        os.environ["BELIEFS_DATA"] = options.data
    unknown = set(options.only or ()) - set(known)
    if unknown:
        parser.error(f"unknown model {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    if not set(options.peers) <= set(PEERS):
        parser.error(f"the peers are {', '.join(PEERS)}")
    options.cap = min(options.cap, 20.0) if options.quick else options.cap
    wanted = options.only or (cases.QUICK if options.quick else cases.NAMES)
    options.names = [] if options.no_models else [name for name in cases.NAMES if name in wanted]
    return options


def say(text: str) -> None:
    """Tell the one who waits."""
    print(text, file=sys.stderr, flush=True)


def measure(options: argparse.Namespace) -> Result:
    """Measure the machine, every model and every file."""
    started = time.time()
    result: Result = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine.description(),
        "versions": machine.versions(),
        "method": repr(bl.JunctionTree()),
        "cap": options.cap,
        "cases": {},
        "files": {},
        "notes": [],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warm = ask("ours.py", {"task": "warm up"}, folder)
        if "failed" in warm:
            raise SystemExit(f"our own warm-up failed: {warm['failed']}")
        say(f"kernels compiled or loaded in {warm['warm_up']:.1f} s (not counted below)")
        result["peers"] = _peers(options, folder, result["notes"])
        result["speed"] = machine.speed()
        for model in options.names:
            _case(model, options, folder, result)
            result["speed"] = machine.better(result["speed"], machine.speed())  # other tenants come and go
        if not options.no_files:
            _files(options, folder, result)
    result["seconds"] = time.time() - started
    return result


def _peers(options: argparse.Namespace, folder: Path, notes: list[str]) -> dict[str, str]:
    """Return the peers that are installed, with their versions; note the others."""
    found: dict[str, str] = {}
    for peer in () if options.no_peers else options.peers:
        answer = ask("peers.py", {"task": "version", "peer": peer}, folder, options.peers_python)
        if "version" in answer:
            found[peer] = answer["version"]
        else:
            notes.append(f"{tables.PEER_NAMES[peer]} is not installed (extra `peers`): {answer['failed']}")
            say(notes[-1])
    return found


def _case(name: str, options: argparse.Namespace, folder: Path, result: Result) -> None:
    """Measure one model, ours first: our cells say how much memory a peer's process should touch."""
    try:
        case = cases.make(name)
    except FileNotFoundError as error:
        result["notes"].append(f"{name}: {error}")
        say(result["notes"][-1])
        return
    path, out = folder / "case.npz", folder / "ours.npz"
    case.save(path)
    ours = ask("ours.py", {"task": "exact", "case": str(path), "out": str(out)}, folder)
    entry: Result = {"name": name, "directed": case.directed, "ours": ours}
    result["cases"][name] = entry
    result["method"] = ours.get("method", result["method"])
    memory = available_bytes()
    for peer in result["peers"]:
        theirs = folder / f"{peer}.npz"
        theirs.unlink(missing_ok=True)
        request = {
            "task": "exact", "peer": peer, "case": str(path), "out": str(theirs), "cap": options.cap,
            "memory": int(0.8 * memory), "touch": int(min(TOUCH * ours.get("cells", 0), 0.5 * memory)),
        }  # fmt: skip
        entry[peer] = ask("peers.py", request, folder, options.peers_python)
        entry[peer] |= {"cap": options.cap, "difference": _differences(out, theirs)}
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


def _files(options: argparse.Namespace, folder: Path, result: Result) -> None:
    """Measure reading, from unpacked files."""
    for suffix, names, text in ((".uai", cases.UAI_FILES, cases.uai_text), (".bif", cases.BIF_FILES, cases.bif_text)):
        for name in names:
            wanted = options.only if options.only is not None else cases.QUICK_FILES if options.quick else names
            if name not in wanted:
                continue
            try:
                data = text(name)
            except FileNotFoundError:
                continue  # noted already, as a model
            path = folder / f"{name}{suffix}"
            path.write_bytes(data)
            request = {"task": "read", "path": str(path), "cap": options.cap}
            entry: Result = {"name": path.name, "bytes": len(data), "ours": ask("ours.py", request, folder)}
            for peer in result["peers"]:
                if peer != "pgmpy" or len(data) <= MOST_PGMPY_BYTES[suffix]:
                    entry[peer] = ask("peers.py", {**request, "peer": peer}, folder, options.peers_python)
                    entry[peer]["cap"] = options.cap
                else:
                    entry[peer] = {"failed": "not asked"}
            result["files"][path.name] = entry
            _note_failures(entry, result["notes"])
            say(_line(entry, "read"))


def _line(entry: Result, phase: str) -> str:
    """Return one line on one case, for the one who waits."""
    shown = []
    for who in ("ours", *PEERS):
        if who in entry:
            found = entry[who].get(phase)
            shown.append(f"{who} {tables.seconds(found['best']) if found else entry[who].get('failed', '-')}")
    return f"{entry['name']}: {', '.join(shown)}"


def main(arguments: list[str]) -> None:
    """Measure or load, then print and write."""
    options = parsed(arguments)
    if options.stored is not None:
        result: Result = json.loads(options.stored.read_text())
    else:
        result = measure(options)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
        say(f"measured in {result['seconds']:.0f} s; wrote {options.json}")
    text = tables.page(result)
    print(text)
    if options.markdown is not None:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(text)
    if any("failed" in entry["ours"] for entry in (*result["cases"].values(), *result["files"].values())):
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
