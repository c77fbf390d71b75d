"""Thousands of broken files: each ends in a FormatError or in a sound model, quickly, and in nothing else."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beliefs.errors import FormatError
from beliefs.io import bif, erg, fg, limits, npz, read, uai, wcsp, write, xmlbif
from beliefs.model import CRBM, BayesianNetwork, FactorGraph, FractionalRBM, Variable
from beliefs.model.frozen import TwoLayers

pytestmark = pytest.mark.usefixtures("both_ways")

CASES = 3000  # of each kind of file
SLOW = 2.0  # seconds for one file of a few hundred bytes: a hang

UAI = b"""MARKOV
3
2 2 3
4
1 0
2 0 1
2 2 1
0
2 0.4 0.6 /* a comment */
4
 .1 .9 9e-1 1.0E-1
6 1 2 3 4 0 6
1 2.5
"""
LG = b"BAYES 2  2 3  2  1 0  2 0 1  2 -0.5 -inf  6 -1 -2 700 1e-3 0 -12.25\n"
BIF = b"""network "a b" { property x = y; } // comment
variable p { type discrete [ 2 ] { u, v }; property "position = (1, 2)"; }
variable c { type discrete [ 3 ] { <5, 5-12, "12 +" }; }
/* tables */
probability ( p ) { table 0.25, 0.75; }
probability ( c | p ) { (u) 0.1, 0.2, 0.7; default 0.5 0.25 0.25; }
"""
XMLBIF = b"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE BIF [ <!ELEMENT BIF ( NETWORK )*> ]>
<BIF VERSION="0.3"><NETWORK><NAME>n</NAME>
<VARIABLE TYPE="nature"><NAME>p</NAME><OUTCOME>u</OUTCOME><OUTCOME>&lt;v</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature"><NAME>c</NAME><OUTCOME>x</OUTCOME><OUTCOME>y</OUTCOME></VARIABLE>
<DEFINITION><FOR>p</FOR><TABLE>0.25 0.75</TABLE></DEFINITION>
<DEFINITION><FOR>c</FOR><GIVEN>p</GIVEN><TABLE>.1 .9 1 0</TABLE></DEFINITION>
</NETWORK></BIF>
"""
FG = b"# comment\n2\n\n2\n3 7\n2 3\n3\n1 0.5\n2 3\n5 1e-2\n\n1\n7\n3\n2\n0 1\n2 4\n"
WCSP = b"""name 4 3 8 100
2 3 2 2
-2 0 1 5 2
0 0 1
1 2 200
1 1 0 1
2 7
2 2 1 5 -1
2 0 1 -1 >= 1 2
3 0 2 3 -1 salldiff var 9
2 2 3 -1 sdisj 1 1 1 1 3 4
2 0 3 -1 clique 1 1 0 1 1
0 3 0
"""
ERG = b"2\n2 3\n1 1\n0\n/* P */\n6 .1 .9 .2 .8 .3 .7\n3 .5 .25 .25\n/* N */\na b\nu v\nx y z\n"
MAR = b"MAR\n3 2 .5 .5 1 1 2 0.25 .75\n-BEGIN-\n3 2 .5 .5 1 1 2 0 1\n"
NETWORK = BayesianNetwork.from_cpts(
    [Variable("p", ["u", "v"]), Variable("c", 2)], {"p": ([], [0.25, 0.75]), "c": (["p"], [[0.5, 0.5], [1.0, 0.0]])}
)
NPZ = npz.dumps(NETWORK)

KINDS: dict[str, tuple[Callable[[bytes], Any], bytes]] = {
    "uai": (uai.loads, UAI),
    "LG": (lambda data: uai.loads(data, log=True), LG),
    "bif": (bif.loads, BIF),
    "xmlbif": (xmlbif.loads, XMLBIF),
    "fg": (fg.loads, FG),
    "wcsp": (wcsp.loads, WCSP),
    "erg": (erg.loads, ERG),
    "npz": (npz.loads, NPZ),
    "machine": (npz.loads, npz.dumps(FractionalRBM(np.eye(3, 2, dtype=np.float32), counts=[0.5, 2.0]))),
    "conditional machine": (npz.loads, npz.dumps(CRBM(np.eye(3, 2), np.eye(3), np.eye(2, 3)))),
    "evidence": (lambda data: uai.loads_evidence(data, uai.loads(UAI)), b"/* e */ 2\n1 0 1\n2 0 1 2 2\n"),
    "query": (uai.loads_query, b"# q\n3\n 2 0 1\n"),
    "MAR": (uai.loads_solution, MAR),
    "MMAP": (uai.loads_solution, b"MMAP\n2 0 1 5 0\n"),
}

NUMBERS = (
    b"0 1 -1 2 3 1e999 nan -inf inf 1e-320 0.10.10.1 99999999999999999 9999999999999999999999999999999 2147483648"
    b" 1000000000000 -9223372036854775808 4294967297 1.5 0x1f 1_0"
).split()
NUMBERS += [b"2 2", b""]
SPLICE = [b"\x00", b"\xff\xfe", b"/*", b"*/", b"//", b"]]>", b"\n", *(bytes([c]) for c in b'"{}();#<&')]


def mutated(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Return the bytes after one to four random accidents."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        b = min(b, a + rng.choice((1, 3, 20, 1000)))
        kind = rng.randrange(9)
        if kind == 0 and data:  # flip a bit, or change a byte
            k = rng.randrange(len(data))
            data = data[:k] + bytes([data[k] ^ 1 << rng.randrange(8)]) + data[k + 1 :]
        elif kind == 1:
            data = data[:a] + data[b:]
        elif kind == 2:
            data = data[:b] + data[a:b] * rng.choice((1, 2, 50)) + data[b:]
        elif kind == 3:
            data = data[:a]
        elif kind in (4, 5):  # another number for a number
            spans = [m.span() for m in re.finditer(rb"-?[0-9.]+", data)]
            if spans:
                i, j = rng.choice(spans)
                data = data[:i] + rng.choice(NUMBERS) + data[j:]
        elif kind == 6:  # two tokens change places
            tokens = re.split(rb"(\s+)", data)
            i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
            tokens[i], tokens[j] = tokens[j], tokens[i]
            data = b"".join(tokens)
        elif kind == 7:
            data = data[:a] + rng.choice(SPLICE) + data[a:]
        else:
            other = rng.choice(others)
            data = data[:a] + other[rng.randrange(len(other)) :][: rng.choice((5, 200))] + data[b:]
    return data


def assert_sound(found: Any) -> None:
    """What came out is a whole model: legal numbers, and an archive of it reads again."""
    if isinstance(found, FactorGraph | BayesianNetwork):
        graph = found.to_factor_graph()
        assert graph.theta.shape == (graph.layout.n_cells,)
        assert (graph.theta < np.inf).all()
        if graph.layout.n_cells < 1000:
            assert type(npz.loads(npz.dumps(found))) is type(found)  # type: ignore[arg-type]
    if isinstance(found, TwoLayers):
        assert np.isfinite(found.weights).all() and (getattr(found, "counts", np.zeros(0)) >= 0).all()
        assert type(npz.loads(npz.dumps(found))) is type(found)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutated cardinality may ask for a large table, legally; keep those small here."""
    monkeypatch.setattr(limits, "_MAX_CELLS", 2**16)


@pytest.mark.parametrize("kind", KINDS)
def test_only_format_errors_come_out(kind: str) -> None:
    loads, data = KINDS[kind]
    assert_sound(loads(data))
    rng = random.Random(kind)
    others = [text for _, text in KINDS.values()]
    rejected = 0
    for case in range(CASES):
        broken = mutated(data, rng, others)
        start = time.process_time()
        try:
            assert_sound(loads(broken))
        except FormatError as error:
            rejected += 1
            assert "\n" not in str(error), broken
        except Exception as error:
            raise AssertionError(f"case {case}: {type(error).__name__}: {error}\n{broken!r}") from error
        assert time.process_time() - start < SLOW, broken
    assert rejected > CASES // 4


@pytest.mark.parametrize("compression", [".gz", ".xz", ".bz2"])
def test_broken_compression(compression: str, tmp_path: Path) -> None:
    path = tmp_path / f"model.uai{compression}"
    write(uai.loads(UAI), path)
    whole = path.read_bytes()
    rng = random.Random(compression)
    for _ in range(300):
        path.write_bytes(mutated(whole, rng, [UAI]))
        try:
            assert_sound(read(path))
        except FormatError as error:
            assert error.path == str(path)


def test_random_bytes() -> None:
    rng = random.Random(0)
    for _ in range(300):
        data = rng.randbytes(rng.randrange(200))
        for loads, _ in KINDS.values():
            with pytest.raises(FormatError):
                loads(data)
