"""Published inference problems with reference answers: log Z, marginals, MAP and marginal MAP.

The problems lie in the folder named by ``BELIEFS_DATA``; without it the file is skipped. Small problems of the core set
run by default, all others that fit into 4e8 cells are marked ``long``. Agreement is asked to 1e-6 (relative in log Z,
absolute in marginals), or to half a unit of the last digit that the reference prints where that is coarser.
"""

from __future__ import annotations

import csv
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.datasets import UaiInstance
from beliefs.datasets.uai import Task, _members
from beliefs.inference.base import Problem
from beliefs.inference.base import Task as Question

MAX_CELLS = 1.5e9  # of all cliques together: about ten seconds of work
HOPELESS = 14.0  # log10 of the cells of a min-fill order, which ours may improve a millionfold
QUICK_BITS = 21.0  # log2 of the largest clique of a min-fill order
MALFORMED = "small/merlin/bn"  # stray numbers after the last table


def instances() -> list[UaiInstance]:
    try:
        return bl.datasets.uai_instances()
    except (FileNotFoundError, bl.BeliefsError):
        return []


PROBLEMS = instances()
if not PROBLEMS:
    pytest.skip("no inference problems here: BELIEFS_DATA names no folder with uai_index.csv", allow_module_level=True)


@lru_cache(maxsize=1)
def index() -> dict[str, dict[str, str]]:
    """The rows of the index as text, by key."""
    with (bl.datasets.data_home() / "uai_index.csv").open(newline="") as file:
        return {f"{row['set']}/{row['category']}/{row['name']}": row for row in csv.DictReader(file)}


def with_reference(task: Task) -> list[Any]:
    """The problems with a trustworthy answer to a question; those beyond the quick suite are marked long."""
    return [
        pytest.param(p, id=p.key, marks=() if p.core and p.log2_max_clique <= QUICK_BITS else pytest.mark.long)
        for p in PROBLEMS
        if task in p.tasks and p.key != MALFORMED and float(index()[p.key]["log10_total_clique_states"]) <= HOPELESS
    ]


@lru_cache(maxsize=1)
def model(problem: UaiInstance) -> bl.FactorGraph:
    """The conditioned graph; its plans are kept while the questions about one problem follow one another."""
    return problem.conditioned()


def fitting(problem: UaiInstance, question: Question, query: tuple[int, ...] = ()) -> bl.FactorGraph:
    """The model if exact inference fits, else skip."""
    graph = model(problem)
    asked = Problem(graph, question, query=np.sort(np.array(query, np.int64)))
    order = bl.JunctionTree().planned(asked)
    if order.total_cells > MAX_CELLS:
        pytest.skip(f"exact inference needs more than {MAX_CELLS:.2g} cells")
    return graph


def half_digit(text: str) -> float:
    """Half a unit of the last digit printed; 0 for an infinity."""
    exponent = Decimal(text).as_tuple().exponent
    return 0.5 * 10.0**exponent if isinstance(exponent, int) else 0.0


def printed_value(problem: UaiInstance, column: str) -> tuple[float, float]:
    """A reference value of the index, and how finely it was printed."""
    text = index()[problem.key][column]
    return float(text), half_digit(text)


def printed_marginals(problem: UaiInstance) -> tuple[np.ndarray, np.ndarray]:
    """The reference marginals as one array, and how finely each was printed."""
    found = problem.marginals()
    assert found is not None
    member = problem._first(".uai.MAR", folder="derived_exact") or problem._first(".uai.MAR")
    assert member is not None
    numbers = re.findall(r"[-+0-9.][-+0-9.eE]*", _members(problem.archive)[member].decode())
    cards = [len(p) for p in found]
    tokens = numbers[-(sum(cards) + len(cards)) :]
    kept, at = [], 0
    for card in cards:
        assert int(tokens[at]) == card
        kept += tokens[at + 1 : at + 1 + card]
        at += 1 + card
    values = np.concatenate(found)
    np.testing.assert_array_equal(values, np.array(kept, float))
    return values, np.array([half_digit(t) for t in kept])


def test_a_malformed_model_is_refused() -> None:
    with pytest.raises(bl.FormatError, match=r"bn\.uai, line \d+: expected the end of the file"):
        bl.datasets.load_uai(MALFORMED).graph()


@pytest.mark.parametrize("problem", with_reference("PR"))
def test_log_z(problem: UaiInstance) -> None:
    graph = fitting(problem, Question.INFER)
    assert problem.log_z is not None
    if problem.log_z == -np.inf:
        with pytest.raises(bl.ZeroProbabilityError):
            bl.infer(graph, "junction_tree")
        return
    result = bl.infer(graph, "junction_tree")
    assert result.bound is bl.Bound.EXACT
    room = max(1e-6 * abs(problem.log_z), problem.log_z_error + 1e-9)
    assert abs(result.log_z - problem.log_z) <= room


@pytest.mark.parametrize("problem", with_reference("MAR"))
def test_marginals(problem: UaiInstance) -> None:
    graph = fitting(problem, Question.INFER)
    values, resolution = printed_marginals(problem)
    result = bl.infer(graph, "junction_tree")
    off = np.abs(result.mu_var - values)
    worst = int(np.argmax(off - np.maximum(1e-6, resolution)))
    assert off[worst] <= max(1e-6, resolution[worst] + 1e-12), f"{result.mu_var[worst]} for {values[worst]}"


@pytest.mark.parametrize("problem", with_reference("MAP"))
def test_map(problem: UaiInstance) -> None:
    """At least as good as the best known score; equal to it where it was proved to be the optimum."""
    graph = fitting(problem, Question.MAXIMIZE)
    known, printed = printed_value(problem, "MAP_ln")
    result = bl.maximize(graph, "junction_tree")
    rounding = 1e-9 * max(1.0, abs(known))
    assert result.gap == 0 and result.log_score == graph.log_score(result.assignment)
    assert result.log_score >= known - printed - rounding
    if problem.map_proved:
        assert result.log_score <= known + printed + rounding
    row = problem.assignment()
    if row is not None:
        assert result.log_score == pytest.approx(graph.log_score(row), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("problem", with_reference("MMAP"))
def test_marginal_map(problem: UaiInstance) -> None:
    query = problem.query()
    assert query is not None
    graph = fitting(problem, Question.MARGINAL_MAP, query)
    known, printed = printed_value(problem, "MMAP_exact_ln")
    if known == -np.inf:
        with pytest.raises(bl.ZeroProbabilityError):
            bl.marginal_map(graph, query, "junction_tree")
        return
    result = bl.marginal_map(graph, query, "junction_tree")
    assert result.gap == 0 and abs(result.log_value - known) <= printed + 1e-9 * max(1.0, abs(known))
    best = dict(zip(query, result.assignment.tolist(), strict=True))
    assert bl.infer(graph.condition(best), "junction_tree").log_z == pytest.approx(result.log_value, rel=1e-9, abs=1e-9)
