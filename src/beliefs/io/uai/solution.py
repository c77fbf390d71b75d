r"""UAI solution files: a task and its answer.

==========  =========================================  ==============================================================
task        in the file                                in Python
==========  =========================================  ==============================================================
``PR``      :math:`\log_{10} Z`                        float, :math:`\ln Z` (natural: converted only here)
``MAR``     ``n  c_1 p.. c_2 p..  ..``                 list of n arrays, one marginal a variable
``MAP``     ``n  x_1 .. x_n`` (also ``MPE``)           int array (n,)
``MMAP``    ``q  v_1 x_1 .. v_q x_q``                  int array (q, 2) of variable, state
==========  =========================================  ==============================================================

Anytime solvers append; each later solution follows a line ``-BEGIN-`` and the last one counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.io.files import StrPath, named_errors, read_bytes, write_bytes
from beliefs.io.plain import number_texts
from beliefs.io.scanner import Scanner, check_beginning, without_comments
from beliefs.typing import Floats, Ints

__all__ = ["Solution", "TASKS", "dumps_solution", "loads_solution", "read_solution", "write_solution"]

TASKS = ("PR", "MAR", "MAP", "MPE", "MMAP")
Solution = float | list[Floats] | Ints
_BEGIN = b"-BEGIN-"
_LN10 = math.log(10.0)


def read_solution(path: StrPath, task: str | None = None) -> tuple[str, Solution]:
    """Return the task of a solution file and its last solution; see :func:`loads_solution`."""
    with named_errors(path):
        loads = partial(loads_solution, task=task)
        return loads(read_bytes(path, partial(check_beginning, loads)))


def write_solution(path: StrPath, task: str, values: Any) -> None:
    """Write a solution file, whole or not at all; see :func:`dumps_solution`."""
    write_bytes(path, dumps_solution(task, values).encode())


def loads_solution(data: str | bytes, task: str | None = None) -> tuple[str, Solution]:
    """Return the task and the last solution; a ``task`` given must agree and may be missing in the text.

    Examples
    --------
    >>> loads_solution("MMAP\\n2 0 1 5 0")[1].tolist()
    [[0, 1], [5, 0]]
    """
    raw = without_comments(data)
    scan = Scanner(raw)
    start = scan.next_token()
    word = scan.token(start).decode("utf-8", "replace").upper()
    if word in TASKS and task in (None, word):
        scan.at = start + len(word)
        task = word
    elif word in TASKS or task is None:
        raise scan.unexpected(task or "one of the tasks " + ", ".join(TASKS), start)
    elif task not in TASKS:
        raise ModelError(f"unknown task {task!r}; the tasks are {', '.join(TASKS)}")
    last = raw.rfind(_BEGIN)
    if last >= 0:
        scan.at = last + len(_BEGIN)
    solution = _READERS[task](scan)
    scan.end()
    return task, solution


def _read_log_z(scan: Scanner) -> float:
    start = scan.next_token()
    value = float(scan.numbers(1, "the decimal logarithm of Z")[0])
    if not value < math.inf:  # nan as well
        raise scan.unexpected("a finite decimal logarithm of Z, or -inf", start)
    return value * _LN10


def _read_marginals(scan: Scanner) -> list[Floats]:
    n_vars = scan.count("the number of variables", "marginals")
    marginals = []
    for v in range(n_vars):
        card = scan.count(f"the cardinality of variable {v}", "probabilities")
        start = scan.next_token()
        marginal = scan.numbers(card, f"a probability of variable {v}")
        if not ((marginal >= 0) & (marginal < np.inf)).all():
            raise scan.error(f"the marginal of variable {v} must hold finite, non-negative numbers", start)
        marginals.append(marginal)
    return marginals


def _read_states(scan: Scanner) -> Ints:
    count = scan.count("the number of variables", "states")
    return _non_negative(scan, count, "the state of variable {}")


def _read_pairs(scan: Scanner) -> Ints:
    count = scan.count("the number of query variables", "variables and states")
    return _non_negative(scan, 2 * count, "a query variable or its state").reshape(count, 2)


def _non_negative(scan: Scanner, count: int, expected: str) -> Ints:
    begin = scan.at
    numbers = scan.integers(count, expected)
    if (numbers < 0).any():
        k = int(np.argmax(numbers < 0))
        scan.at = begin
        raise scan.unexpected(expected.format(k), scan.next_token(k))
    return numbers


_READERS: dict[str, Callable[[Scanner], Solution]] = {
    "PR": _read_log_z,
    "MAR": _read_marginals,
    "MAP": _read_states,
    "MPE": _read_states,
    "MMAP": _read_pairs,
}


_PARTS = {
    "PR": "result.log_z",
    "MAR": "[result.marginal(v) for v in model]",
    "MAP": "result.assignment",
    "MPE": "result.assignment",
    "MMAP": "dict(zip(result.query, result.assignment))",
}
"""What of an answer goes into a solution."""


def dumps_solution(task: str, values: Any) -> str:
    """Return the text of a solution; ``values`` as in the module's table.

    For ``MAR`` the marginals are a sequence of arrays; for ``MMAP`` a mapping ``{variable: state}`` will do, too.

    Examples
    --------
    >>> dumps_solution("MAP", [0, 2, 1])
    'MAP\\n3 0 2 1\\n'
    """
    if task in _PARTS and type(values).__module__.startswith("beliefs.inference"):
        raise ModelError(f"a solution for {task} is made of arrays, found {type(values).__name__}; give {_PARTS[task]}")
    if task == "PR":
        body = _log10_text(float(values))
    elif task == "MAR":
        if isinstance(values, Mapping):
            raise ModelError(f"marginals are given in the order of the variables: {_PARTS['MAR']}")
        marginals = [np.asarray(values_of_v, np.float64) for values_of_v in values]
        if not all((m.ndim == 1 and ((m >= 0) & (m < np.inf)).all()) for m in marginals):
            raise ModelError("marginals must be one array of finite, non-negative numbers a variable")
        body = " ".join([str(len(marginals)), *(f"{m.size} {' '.join(number_texts(m))}" for m in marginals)])
    elif task in ("MAP", "MPE"):
        states = _integers(values, (-1,))
        body = " ".join(map(str, [states.size, *states.tolist()]))
    elif task == "MMAP":
        pairs = _integers(list(values.items()) if isinstance(values, Mapping) else values, (-1, 2))
        body = " ".join(map(str, [len(pairs), *pairs.ravel().tolist()]))
    else:
        raise ModelError(f"unknown task {task!r}; the tasks are {', '.join(TASKS)}")
    return f"{task}\n{body}\n"


def _log10_text(log_z: float) -> str:
    if not log_z < math.inf:
        raise ModelError(f"log Z must be finite or -inf, found {log_z}")
    return repr(log_z / _LN10)


def _integers(values: Any, shape: tuple[int, ...]) -> Ints:
    array = np.asarray(values)
    whole = array.size == 0 or (array.dtype.kind in "iu" and (array >= 0).all())
    if not whole or (array.size and array.ndim != len(shape)) or (len(shape) == 2 and array.size % 2):
        raise ModelError(f"a solution holds non-negative integers, found an array of {array.dtype} {array.shape}")
    return array.astype(np.int64).reshape(shape if array.size else (0, *shape[1:]))
