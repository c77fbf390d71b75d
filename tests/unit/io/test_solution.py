"""Solution files: the four tasks, natural logs inside and decimal ones in the file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beliefs.errors import FormatError, ModelError
from beliefs.io.uai import dumps_solution, loads_solution, read_solution, write_solution


def task_and_states(text: str, expected: str | None = None) -> tuple[str, list[Any]]:
    """The task of a solution and its states, which are an array."""
    task, states = loads_solution(text, expected)
    assert isinstance(states, np.ndarray)
    return task, states.tolist()


def test_log_z_is_decimal_in_the_file_only() -> None:
    assert float(dumps_solution("PR", math.log(1000.0)).split()[1]) == pytest.approx(3.0)
    task, value = loads_solution("PR\n-2\n")
    assert task == "PR" and value == pytest.approx(math.log(0.01))
    assert loads_solution(dumps_solution("PR", -math.inf)) == ("PR", -math.inf)


def test_marginals(tmp_path: Path) -> None:
    marginals = [np.array([0.25, 0.75]), np.array([1.0]), np.array([0.1, 0.2, 0.7])]
    write_solution(tmp_path / "m.MAR", "MAR", marginals)
    assert (tmp_path / "m.MAR").read_text() == "MAR\n3 2 0.25 0.75 1 1 3 0.1 0.2 0.7\n"
    task, again = read_solution(tmp_path / "m.MAR")
    assert task == "MAR" and isinstance(again, list)
    assert [m.tolist() for m in again] == [m.tolist() for m in marginals]


@pytest.mark.parametrize("task", ["MAP", "MPE"])
def test_assignments(task: str) -> None:
    assert dumps_solution(task, np.array([2, 0, 1])) == f"{task}\n3 2 0 1\n"
    assert task_and_states(f"{task}\n3 2 0 1") == (task, [2, 0, 1])
    assert task_and_states(dumps_solution(task, [])) == (task, [])


def test_marginal_map_is_pairs() -> None:
    assert dumps_solution("MMAP", {7: 1, 0: 2}) == dumps_solution("MMAP", [[7, 1], [0, 2]]) == "MMAP\n2 7 1 0 2\n"
    assert task_and_states("MMAP\n2 7 1 0 2") == ("MMAP", [[7, 1], [0, 2]])
    none = loads_solution(dumps_solution("MMAP", {}))[1]
    assert isinstance(none, np.ndarray) and none.shape == (0, 2)


def test_the_last_solution_counts() -> None:
    text = "MPE\n2 0 0\n-BEGIN-\n2 0 1\n-BEGIN-\n2 1 1\n"
    assert task_and_states(text) == ("MPE", [1, 1])


def test_a_missing_task_may_be_given() -> None:
    assert task_and_states("2 0 1", "MAP") == ("MAP", [0, 1])
    with pytest.raises(FormatError, match="line 1: expected PR, found 'MAP'"):
        loads_solution("MAP\n2 0 1", "PR")
    with pytest.raises(ModelError, match="unknown task 'XYZ'"):
        loads_solution("2 0 1", "XYZ")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "expected one of the tasks PR, MAR, MAP, MPE, MMAP, found the end of the file"),
        ("2 0 1", 1, "expected one of the tasks"),
        ("PR\n", 1, "expected the decimal logarithm of Z, found the end of the file"),
        ("PR\nnan", 2, "expected a finite decimal logarithm of Z, or -inf, found 'nan'"),
        ("PR\n1\n2", 3, "expected the end of the file, found '2'"),
        ("MAR\n2 2 .5 .5", 2, "expected the cardinality of variable 1, found the end of the file"),
        ("MAR\n1 2\n.5 -0.5", 3, "the marginal of variable 0 must hold finite, non-negative numbers"),
        ("MAR\n1 9\n.5 .5", 2, "promises 9 probabilities"),
        ("MAP\n2 0 -1", 2, "expected the state of variable 1, found '-1'"),
        ("MAP\n3 0\n10", 3, "expected the state of variable 2, found the end of the file"),
        ("MAP\n3 0\n1", 2, "promises 3 states and has only 4 bytes left"),
        ("MMAP\n2 0 1 2", 2, "expected a query variable or its state, found the end of the file"),
        ("MPE\n2 0 1\n-BEGIN-\n2 00", 4, "expected the state of variable 1, found the end of the file"),
    ],
)
def test_malformed(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        loads_solution(text)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("task", "values"),
    [
        ("PR", math.nan), ("PR", math.inf), ("MAR", [[0.5, math.nan]]), ("MAR", [[[0.5]]]), ("MAP", [0.5]),
        ("MAP", [-1]), ("MAP", [[0, 1]]), ("MMAP", [0, 1]), ("WHAT", 0),
    ],
)  # fmt: skip
def test_what_is_no_solution_is_not_written(task: str, values: object) -> None:
    with pytest.raises(ModelError):
        dumps_solution(task, values)


def test_errors_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.PR").write_text("PR\nx\n")
    with pytest.raises(FormatError, match=r"a\.PR, line 2: "):
        read_solution(tmp_path / "a.PR")
