"""CoNLL-2000 chunking [tjongkimsang2000]: sentences, the features of CRFsuite's example, and the score of a chunker.

Standard library only, because the process that runs the peer imports it too. The two files are read from the folder
``nlp`` of ``BELIEFS_DATA``; a line holds a word, its part of speech and its tag, an empty line ends a sentence.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from pathlib import Path

Sentence = list[tuple[str, str, str]]
FILES = {"train": "conll2000_train.txt.gz", "test": "conll2000_test.txt.gz"}

# Columns and offsets of each attribute: words and parts of speech around the token, pairs and triples of neighbours.
TEMPLATES: tuple[tuple[tuple[str, int], ...], ...] = (
    *((("w", at),) for at in range(-2, 3)),
    *((("w", at), ("w", at + 1)) for at in range(-1, 1)),
    *((("pos", at),) for at in range(-2, 3)),
    *((("pos", at), ("pos", at + 1)) for at in range(-2, 2)),
    *((("pos", at), ("pos", at + 1), ("pos", at + 2)) for at in range(-2, 1)),
)


def folder() -> Path | None:
    """Return where the files are, if they are anywhere."""
    home = os.environ.get("BELIEFS_DATA")
    here = None if home is None else Path(home) / "nlp"
    return here if here is not None and all((here / name).exists() for name in FILES.values()) else None


def sentences(part: str, limit: int | None = None) -> list[Sentence]:
    """Read the sentences of ``"train"`` or ``"test"``, or the first few of them."""
    where = folder()
    assert where is not None
    found: list[Sentence] = []
    now: Sentence = []
    with gzip.open(where / FILES[part], "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                word, pos, tag = line.split()
                now.append((word, pos, tag))
            elif now:
                found.append(now)
                now = []
    return (found + [now] if now else found)[:limit]


def attributes(sentence: Sentence) -> list[list[str]]:
    """Return the attributes of each token; those that reach over an end of the sentence do not exist."""
    columns = {"w": [token[0] for token in sentence], "pos": [token[1] for token in sentence]}
    n = len(sentence)
    found: list[list[str]] = [[] for _ in range(n)]
    for template in TEMPLATES:
        name = "|".join(f"{column}[{at}]" for column, at in template) + "="
        offsets = [at for _, at in template]
        begin, end = max(0, -min(offsets)), n - max(0, max(offsets))
        shifted = [columns[column][begin + at : end + at] for column, at in template if end > begin]
        for t, words in enumerate(zip(*shifted, strict=True), begin):
            found[t].append(name + "|".join(words))
    found[0].append("__BOS__")
    found[-1].append("__EOS__")
    return found


def tags(sentence: Sentence) -> list[str]:
    """Return the labels."""
    return [token[2] for token in sentence]


def chunks(labels: Sequence[str]) -> set[tuple[int, int, str]]:
    """Return the chunks (begin, end, type) that tags B-type, I-type and O mean; an I without its B begins one."""
    found, begin, kind = set(), 0, ""
    for t, label in enumerate([*labels, "O"]):
        mark, _, here = label.partition("-")
        if kind and (mark != "I" or here != kind):
            found.add((begin, t, kind))
            kind = ""
        if mark != "O" and not kind:
            begin, kind = t, here
    return found


def f1(truth: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> float:
    """Return the harmonic mean of precision and recall of chunks, in per cent."""
    right = found = there = 0
    for a, b in zip(truth, answers, strict=True):
        expected, given = chunks(a), chunks(b)
        right, found, there = right + len(expected & given), found + len(given), there + len(expected)
    return 200.0 * right / max(found + there, 1)
