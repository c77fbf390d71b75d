"""Whatever number an option is given, the answer is one line that names it, before any work."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import beliefs as bl
from beliefs.cli import commands
from beliefs.datasets.pairwise import PairwiseOptions
from beliefs.inference.door_options import Options
from beliefs.inference.orders.orders import plan_order
from beliefs.learning.fit import fit
from beliefs.learning.gradients.registry import GRADIENTS
from beliefs.learning.image_features import EdgeFeatures
from beliefs.learning.losses.pseudo_likelihood import PseudoLikelihood
from beliefs.learning.losses.registry import LOSSES
from beliefs.learning.optimizers import OPTIMIZERS
from beliefs.learning.schedules import Doubling
from families import family

NO_INTEGER = (10**20, 2**63, -(10**20), 10**400, 10**5000, math.inf, -math.inf, math.nan, 1e300, 1.5, True, "many")
NO_NUMBER = (math.inf, -math.inf, math.nan, 10**400, -(10**400), 10**5000, True, "many")
MAY_BE_ENDLESS = {"time_limit"}
MAY_BE_NEGATIVE = {"n_jobs"}
ARRAYS = {"coupling"}

CLASSES = (*bl.METHODS, *GRADIENTS, *LOSSES, *OPTIMIZERS, Doubling, EdgeFeatures)
DATA = [bl.datasets.__dict__[name] for name in sorted(bl.datasets.__all__) if name.startswith("make_")]
GRID = family("grid")
DOORS: dict[str, Callable[..., Any]] = {
    "infer": lambda **given: bl.infer(GRID, "bp", **given),
    "maximize": lambda **given: bl.maximize(GRID, **given),
    "marginal_map": lambda **given: bl.marginal_map(GRID, [0], "wmb", **given),
    "sample": lambda n=1, **given: bl.sample(GRID, n, "gibbs(burn_in=1)", **given),
    "plan_order": lambda **given: plan_order([2, 2], [0, 2], [0, 1], **given),
    "BayesianNetwork.sample": lambda n=1, **given: bl.datasets.load_bn("asia").sample(n, **given),
    "fit": lambda **given: fit(PseudoLikelihood(template=None), [], **given),  # type: ignore[arg-type]
}
KEYWORDS = {
    "infer": Options.__annotations__,
    "maximize": Options.__annotations__,
    "marginal_map": Options.__annotations__,
    "sample": {**Options.__annotations__, "n": "int"},
    "plan_order": plan_order.__annotations__,
    "BayesianNetwork.sample": {"n": "int", "seed": "int"},
    "fit": fit.__annotations__,
}


def kind(annotation: Any) -> str:
    """`int`, `float`, or neither: what an annotation says besides None and generators."""
    words = str(getattr(annotation, "__forward_arg__", annotation)).replace(" ", "").split("|")
    return next((word for word in ("int", "float") if word in words), "")


def wrong(name: str, what: str) -> Iterator[Any]:
    if what == "int":
        yield from NO_INTEGER
    else:
        known = {math.inf} if name in MAY_BE_ENDLESS else {True} if name in ARRAYS else set()
        yield from (value for value in NO_NUMBER if value not in known)
    if name not in MAY_BE_NEGATIVE:
        yield -1


def refuses(call: Callable[..., Any], name: str, value: Any) -> None:
    with pytest.raises(bl.BeliefsError) as caught:
        call(**{name: value})
    message = str(caught.value)
    assert name.removeprefix("n_") in message or name == "n", message
    assert "\n" not in message and len(message) < 300, message


def marked(*rows: tuple[Any, ...]) -> list[Any]:
    return [pytest.param(*row, id=f"{row[0] if isinstance(row[0], str) else row[0].__name__}-{row[1]}") for row in rows]


def of_classes() -> list[Any]:
    rows = [(cls, f.name, kind(f.type)) for cls in CLASSES for f in fields(cls)]
    return marked(*(row for row in rows if row[2]))


def of_doors() -> list[Any]:
    rows = [(door, name, kind(annotation)) for door, known in KEYWORDS.items() for name, annotation in known.items()]
    return marked(*(row for row in rows if row[2]))


def of_generators() -> list[Any]:
    rows = []
    for make in DATA:
        known = dict(make.__annotations__)
        if "options" in known:
            known |= PairwiseOptions.__annotations__
        rows += [(make, name, kind(known[name]) if name != "coupling" else "float") for name in known]
    return marked(*(row for row in rows if row[2] and row[1] != "return"))


def of_estimators() -> list[Any]:
    rows = [
        (cls, name, kind(p.annotation))
        for cls in (bl.GridCRF, bl.ChainCRF, bl.GraphCRF)
        for name, p in inspect.signature(cls).parameters.items()
    ]
    return marked(*(row for row in rows if row[2]))


def needed(cls: Any) -> dict[str, Any]:
    """Fields without a default; what they are does not matter to the checks of numbers."""
    method = bl.TRW()
    known = {"template": None, "method": method, "through": GRADIENTS[0](method=method)}  # type: ignore[call-arg]
    return {f.name: known[f.name] for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}


def given_to(make: Any) -> dict[str, Any]:
    """Arguments without a default."""
    known = {"n_vars": 3, "edges": [(0, 1)], "labels": [[0, 1]]}
    return {n: known[n] for n, p in inspect.signature(make).parameters.items() if n in known and p.default is p.empty}


@pytest.mark.parametrize(("cls", "name", "what"), of_classes())
def test_options_of_classes(cls: Any, name: str, what: str) -> None:
    for value in wrong(name, what):
        refuses(lambda **given: cls(**{**needed(cls), **given}), name, value)


@pytest.mark.parametrize(("door", "name", "what"), of_doors())
def test_keywords_of_functions(door: str, name: str, what: str) -> None:
    for value in wrong(name, what):
        refuses(DOORS[door], name, value)


@pytest.mark.parametrize(("make", "name", "what"), of_generators())
def test_arguments_of_generators(make: Any, name: str, what: str) -> None:
    for value in wrong(name, what):
        refuses(lambda **given: make(**{**given_to(make), **given}), name, value)


@pytest.mark.parametrize(
    "make", [m for m in DATA if m is not bl.datasets.make_noisy and m is not bl.datasets.make_traffic]
)
def test_models_beyond_memory_are_refused_before_they_are_drawn(make: Any) -> None:
    sizes = ("n_vars", "rows", "n_rungs", "length", "n_visible")
    name = next(n for n in sizes if n in make.__annotations__)
    with pytest.raises(bl.BudgetError, match="would take about"):
        make(**{**given_to(make), name: 10**9})


@pytest.mark.parametrize(("cls", "name", "what"), of_estimators())
def test_options_of_estimators(cls: Any, name: str, what: str) -> None:
    x, y = (np.zeros((3, 1)), [0, 1, 0]) if cls is bl.ChainCRF else (np.zeros((2, 2, 1)), [[0, 1], [1, 0]])
    inputs = [(np.zeros((2, 1)), [(0, 1)])] if cls is bl.GraphCRF else [x]
    labels = [[0, 1]] if cls is bl.GraphCRF else [y]
    for value in wrong(name, what):
        refuses(lambda **given: cls(**given).fit(inputs, labels), name, value)


def told(*arguments: str) -> None:
    done = CliRunner().invoke(commands, ["infer", "alarm", *arguments])
    assert done.exit_code == 2, done.output
    assert len(done.stderr.strip().splitlines()) == 1 and done.stderr.startswith("beliefs: error:"), done.stderr


@pytest.mark.parametrize(
    ("cls", "name"), [row.values[:2] for row in of_classes() if row.values[0] in bl.METHODS], ids=lambda x: str(x)
)
def test_method_texts_in_the_shell(cls: Any, name: str) -> None:
    values = ("99999999999999999999", "-1", "1e400", "9" * 400, "9" * 5000)
    for value in values[1:] if name in ("weight_step", "smoothing", "plan_seconds") else values:
        told("--method", f"{cls.name}({name}={value})")


@pytest.mark.parametrize("flag", ["--max-iters", "--seed", "--threads", "--trace-every", "--max-bytes"])
def test_flags_in_the_shell(flag: str) -> None:
    for value in ("99999999999999999999", "9" * 400, "9" * 5000, "nan", "-1"):
        told(flag, value)


@pytest.mark.parametrize("method", ["wmb", "mini_bucket", "gdd"])
def test_the_largest_legal_ibound_works(method: str) -> None:
    exact = bl.infer(GRID, "junction_tree").log_z
    found = bl.infer(GRID, f"{method}(ibound={10**9})", threads=10**9).log_z
    assert exact - 1e-9 <= found <= exact + 0.01  # to the floor of the weights


@pytest.mark.parametrize("method", ["gibbs(burn_in=1)", "junction_tree", "enumeration"])
def test_the_largest_seed_works(method: str) -> None:
    seed = sys.maxsize
    first, again = (bl.sample(GRID, 3, method, seed=seed).samples for _ in range(2))
    assert np.array_equal(first, again)
