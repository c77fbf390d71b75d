"""Inference problems with reference answers, in UAI format, read where they lie.

The data folder holds ``uai_index.csv``, one row a problem, and the archives ``uai/*.tar.xz`` it names. Inside an
archive a problem ``NAME`` is ``NAME.uai`` with ``NAME.uai.evid``, ``NAME.uai.query`` or ``NAME.map``, and published
answers beside it; ``derived_exact/`` has answers computed independently, which come first where both exist.
"""

from __future__ import annotations

import csv
import math
import os
import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from beliefs.datasets.home import data_home
from beliefs.errors import FormatError, ModelError
from beliefs.io.uai import loads, loads_evidence, loads_query, loads_solution
from beliefs.model.graph import FactorGraph
from beliefs.model.variable import suggestion
from beliefs.typing import Floats, Ints

__all__ = ["Task", "UaiInstance", "load_uai", "uai_instances"]

Task = Literal["PR", "MAR", "MAP", "MMAP"]
T = TypeVar("T")
_LN10 = math.log(10)
_MISCOUNTED = {"uai2014-pr-mar/CNF/2bitcomp_5.cnf"}  # its column for exact values counts the unused variables twice
_SHELL_COMMENT = re.compile(rb"^#.*$", re.MULTILINE)  # some query files open with one


@dataclass(frozen=True)
class UaiInstance:
    """One inference problem: what the index says at once, what the archive holds on request.

    Attributes
    ----------
    key : str
        ``set/category/name``, unique.
    core : bool
        Whether it belongs to the quick suite.
    kind : str
        ``"MARKOV"`` or ``"BAYES"``, the header word.
    n_vars, n_factors, max_states, max_arity, n_evidence : int
    width, log2_max_clique : int, float
        Of a min-fill order: an upper bound on the treewidth, and the logarithm of the largest table it makes.
    log_z : float or None
        Natural logarithm of Z with the evidence, where a trustworthy reference exists.
    log_z_error : float
        Half a unit of the last digit that the reference prints.
    log_z_exact : bool
        Whether ``log_z`` was computed independently of the publisher.
    map_log_score : float or None
        Best known log score, evidence included; ``map_proved`` says whether it is the optimum.
    n_query : int
        Variables of :meth:`query`; 0 where the problem has none.
    mmap_log_value : float or None
        Exact marginal MAP value of :meth:`query`.
    mmap_published : float or None
        Best marginal MAP value of the competition of 2022, published with one decimal of log10.
    tasks : frozenset of {"PR", "MAR", "MAP", "MMAP"}
        The questions with a trustworthy reference.
    notes : str
    """

    key: str
    archive: Path
    member: str
    core: bool
    kind: str
    n_vars: int
    n_factors: int
    max_states: int
    max_arity: int
    n_evidence: int
    width: int
    log2_max_clique: float
    log_z: float | None
    log_z_error: float
    log_z_exact: bool
    map_log_score: float | None
    map_proved: bool
    n_query: int
    mmap_log_value: float | None
    mmap_published: float | None
    tasks: frozenset[Task]
    notes: str

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.split("/", 2)[2]

    @property
    def category(self) -> str:
        """The middle part of the key, such as ``Grids``."""
        return self.key.split("/")[1]

    def graph(self) -> FactorGraph:
        """Read the model, without evidence; nothing is kept."""
        return self._parse(self.member, loads)

    def evidence(self, graph: FactorGraph | None = None) -> dict[int, int]:
        """Read the evidence, ``{variable: state}`` by index; empty if there is none.

        A ``graph`` helps to tell the two dialects of such files apart. Of several samples the first is returned.
        """
        member = self._first(".uai.evid", ".evid")
        if member is None or self.n_evidence == 0:  # a few files announce none and go on with stray numbers
            return {}
        found = self._parse(member, lambda data: loads_evidence(data, graph))
        return found if isinstance(found, dict) else found[0]

    def conditioned(self) -> FactorGraph:
        """Read the model and condition it on its evidence."""
        graph = self.graph()
        return graph.condition(self.evidence(graph))

    def query(self) -> tuple[int, ...] | None:
        """Read the variables to maximise over in marginal MAP, None where the problem has none."""
        member = self._first(".uai.query", ".query", ".uai.map", ".map")
        return None if member is None else self._parse(member, lambda data: loads_query(_SHELL_COMMENT.sub(b"", data)))

    def marginals(self) -> list[Floats] | None:
        """Read the reference marginals, one array a variable, observed ones included; None without a reference."""
        return self._solution("MAR") if "MAR" in self.tasks else None

    def assignment(self) -> Ints | None:
        """Read the assignment that attains ``map_log_score``, ``(n_vars,)``; None unless ``map_proved``."""
        return self._solution("MAP") if self.map_proved else None

    def merlin_assignment(self) -> dict[int, int] | None:
        """Read the states of the query that Merlin found, ``{variable: state}``; None where there is no such file.

        A heuristic answer: often not the optimum, sometimes of value 0. Its files list states alone, in the order of
        the variables' indices.
        """
        member = self._first(".uai.MMAP", folder="Merlin_WMB_MMAP_not_certified")
        if member is None:
            return None
        query, words = sorted(self.query() or ()), _members(self.archive)[member].split()
        if len(words) != len(query) + 2 or int(words[1]) != len(query):
            raise FormatError(f"expected the states of {len(query)} variables").at(f"{self.archive.name}:{member}")
        return {v: int(x) for v, x in zip(query, words[2:], strict=True)}

    def _solution(self, task: Task) -> Any:
        member = self._first(f".uai.{task}", folder="derived_exact") or self._first(f".uai.{task}")
        return None if member is None else self._parse(member, loads_solution)[1]

    def _first(self, *suffixes: str, folder: str = "") -> str | None:
        """Return the first member of the archive that is the problem's name and one of these suffixes."""
        place, file = self.member.removesuffix(".uai").rsplit("/", 1)
        if folder:
            place = f"{place.removesuffix('/converted_to_uai')}/{folder}"
        members = _members(self.archive)
        return next((name for suffix in suffixes if (name := f"{place}/{file}{suffix}") in members), None)

    def _parse(self, member: str, parser: Callable[[bytes], T]) -> T:
        try:
            return parser(_members(self.archive)[member])
        except FormatError as error:
            raise error.at(f"{self.archive.name}:{member}") from None


def uai_instances(
    *,
    core: bool | None = None,
    task: Task | None = None,
    category: str | None = None,
    home: str | os.PathLike[str] | None = None,
) -> list[UaiInstance]:
    """Return the problems of the data folder, in the order of its index; only the index is read.

    Parameters
    ----------
    core : bool, optional
        Only those in the quick suite (True) or outside it (False).
    task : {"PR", "MAR", "MAP", "MMAP"}, optional
        Only those with a trustworthy reference for this question.
    category : str, optional
        Such as ``"Grids"``.
    home : path, optional
        The data folder; see :func:`data_home`.
    """
    if task is not None and task not in get_args(Task):
        raise ModelError(f"task must be one of {', '.join(get_args(Task))}, found {task!r}")
    folder = data_home(home)
    index = folder / "uai_index.csv"
    if not index.is_file():
        raise FileNotFoundError(f"the data folder {folder} has no uai_index.csv")
    with index.open(newline="") as file:
        found = [_instance(row, folder) for row in csv.DictReader(file)]
    return [
        p
        for p in found
        if (core is None or p.core == core)
        and (task is None or task in p.tasks)
        and (category is None or p.category == category)
    ]


def load_uai(key: str, *, home: str | os.PathLike[str] | None = None) -> UaiInstance:
    """Return one problem by its key ``set/category/name``, or by its name alone where that is unique."""
    known = uai_instances(home=home)
    found = [p for p in known if key in (p.key, p.name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ModelError(f"several problems are called {key!r}: {', '.join(p.key for p in found)}")
    raise ModelError(f"no problem {key!r}{suggestion(key, [name for p in known for name in (p.name, p.key)])}")


def _instance(row: dict[str, str], folder: Path) -> UaiInstance:
    scored = "do not score" not in row["notes"].lower()
    key = f"{row['set']}/{row['category']}/{row['name']}"
    exact = "" if key in _MISCOUNTED else row["PR_exact_log10"]
    log10_z = exact or (row["PR_published_log10"] if scored else "")
    tasks: dict[Task, bool] = {
        "PR": bool(log10_z),
        "MAR": row["MAR_exact"] == "yes" or (row["MAR_published"] == "yes" and scored),
        "MAP": bool(row["MAP_ln"]),
        "MMAP": bool(row["MMAP_exact_ln"]),
    }
    return UaiInstance(
        key=key,
        archive=folder / row["archive"],
        member=row["member"],
        core=row["core"] == "1",
        kind=row["type"],
        n_vars=int(row["n_vars"]),
        n_factors=int(row["n_factors"]),
        max_states=int(row["max_domain"]),
        max_arity=int(row["max_arity"]),
        n_evidence=int(row["n_evidence"]),
        width=int(row["tw_ub_minfill"]),
        log2_max_clique=float(row["log2_max_clique"]),
        log_z=_number(log10_z, _LN10),
        log_z_error=_LN10 * _half_digit(log10_z),
        log_z_exact=bool(exact),
        map_log_score=_number(row["MAP_ln"]),
        map_proved=row["MAP_status"].startswith(("optimal", "exact")),
        n_query=int(row["MMAP_n_query"] or 0),
        mmap_log_value=_number(row["MMAP_exact_ln"]),
        mmap_published=_number(row["UAI2022_MMAP_log10_best"], _LN10),
        tasks=frozenset(task for task, given in tasks.items() if given),
        notes=row["notes"],
    )


def _number(text: str, unit: float = 1.0) -> float | None:
    return unit * float(text) if text else None


def _half_digit(text: str) -> float:
    """Return half a unit of the last digit printed; 0 for nothing and for infinities."""
    if not text or math.isinf(float(text)):
        return 0.0
    exponent = Decimal(text).as_tuple().exponent
    return 0.5 * 10.0 ** int(exponent)


@lru_cache(maxsize=2)
def _members(archive: Path) -> dict[str, bytes]:
    """Unpack an archive into memory; the two last used are kept, because their problems are read one by one."""
    if not archive.is_file():
        raise FileNotFoundError(f"the archive {archive} does not exist")
    with tarfile.open(archive) as tar:
        files = ((member.name, tar.extractfile(member)) for member in tar if member.isfile())
        return {name: file.read() for name, file in files if file is not None}
