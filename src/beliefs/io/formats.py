"""The formats of models: one row each, from which reading, writing, help, warm-up and the table of the docs follow."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from beliefs.errors import FormatError
from beliefs.io import archive, bif, erg, fg, npz, uai, wcsp, xmlbif
from beliefs.io.files import StrPath, plain_name
from beliefs.io.machines import Machine
from beliefs.io.scanner import check_beginning
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.graph import FactorGraph

__all__ = ["FORMATS", "Format", "format_of", "formats_table", "suffixes"]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of models.

    Attributes
    ----------
    title : str
        How the docs call it.
    suffixes : tuple of str
        As they are shown; files are recognised in any case.
    loads : callable
        From bytes to a model.
    dumps : callable, optional
        From a model to text or bytes; None: the format is only read.
    reads_as, writes : str
        What ``loads`` returns and what ``dumps`` takes, in words for the docs.
    begins : callable, optional
        Raises unless a file may begin with some bytes; None: ``loads`` is asked.
    sample : str
        A small file, where nothing writes one.
    """

    title: str
    suffixes: tuple[str, ...]
    loads: Callable[[bytes], FactorGraph | BayesianNetwork | Machine]
    dumps: Callable[[Any], str | bytes] | None = None
    reads_as: str = "`FactorGraph`"
    writes: str = "-"
    begins: Callable[[bytes], None] | None = None
    sample: str = ""

    def check_beginning(self, data: bytes) -> None:
        """Raise a FormatError if no file of the format begins with these bytes."""
        if self.begins is not None:
            self.begins(data)
        else:
            check_beginning(self.loads, data)

    def sample_of(self, network: BayesianNetwork) -> bytes:
        """Return a file of the format: the network, or its sample."""
        if self.dumps is None:
            return self.sample.encode()
        text = self.dumps(network if "Bayesian" in self.reads_as else network.to_factor_graph())
        return text.encode() if isinstance(text, str) else text


_EVERY_NUMBER = "Bayesian networks, numbers as given"
FORMATS: tuple[Format, ...] = (
    Format(title="UAI", suffixes=(".uai",), loads=uai.loads, dumps=uai.dumps, writes="any model"),
    Format(
        title="UAI, logarithms",
        suffixes=(".LG", ".uai.LG"),
        loads=partial(uai.loads, log=True),
        dumps=partial(uai.dumps, log=True),
        writes="any model, every bit",
    ),
    Format(
        title="BIF",
        suffixes=(".bif",),
        loads=bif.loads,
        dumps=bif.dumps,
        reads_as="`BayesianNetwork`",
        writes=_EVERY_NUMBER,
        begins=bif.check_beginning,
    ),
    Format(
        title="XMLBIF 0.3",
        suffixes=(".xmlbif", ".xml"),
        loads=xmlbif.loads,
        dumps=xmlbif.dumps,
        reads_as="`BayesianNetwork`",
        writes=_EVERY_NUMBER,
        begins=xmlbif.check_beginning,
    ),
    Format(title="libDAI factor graph", suffixes=(".fg",), loads=fg.loads, dumps=fg.dumps, writes="any model"),
    Format(
        title="toulbar2 cost functions",
        suffixes=(".wcsp",),
        loads=wcsp.loads,
        dumps=wcsp.dumps,
        writes="any model, to 1e-6",
    ),
    Format(
        title="native arrays",
        suffixes=(".npz",),
        loads=npz.loads,
        dumps=npz.dumps,
        reads_as="the model that was written",
        writes="any model, everything",
        begins=archive.check_beginning,
    ),
    Format(title="Ergo", suffixes=(".erg",), loads=erg.loads, sample="2 2 2  0 1 0  2 0.5 0.5  4 0.9 0.1 0.2 0.8"),
)
"""Every format of models, in the order of the docs."""


def suffixes(*, written: bool = False) -> tuple[str, ...]:
    """Return the known suffixes in lower case, or those that can be written."""
    known = [form for form in FORMATS if form.dumps is not None or not written]
    return tuple(suffix.lower() for form in known for suffix in form.suffixes)


def format_of(path: StrPath, *, written: bool = False) -> Format:
    """Return the format of a file by its suffix: of several that fit, that of the longest."""
    if not isinstance(path, str | os.PathLike):
        raise FormatError(f"a file is given by its path (str or Path), found {type(path).__name__}")
    name, known = plain_name(path), suffixes(written=written)
    fitting = [suffix for suffix in known if name.endswith(suffix)]
    if not fitting:
        listed = ", ".join(known)
        word = not written and name == os.fspath(path) and name.isidentifier()
        bundled = f"; a bundled network is loaded by datasets.load_bn({name!r})" if word else ""
        raise FormatError(
            f"unknown suffix; known are {listed}, plain or followed by .gz, .xz or .bz2{bundled}", str(path)
        )
    longest = max(fitting, key=len)
    return next(form for form in FORMATS if longest in (suffix.lower() for suffix in form.suffixes))


def formats_table() -> str:
    """Return the table of the docs, in Markdown."""
    rows = [
        f"| {form.title} | {', '.join(f'`{suffix}`' for suffix in form.suffixes)} | {form.reads_as} | {form.writes} |"
        for form in FORMATS
    ]
    return "\n".join(["| format | suffix | reads as | writes |", "| --- | --- | --- | --- |", *rows])
