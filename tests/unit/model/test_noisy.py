"""Noisy-OR and noisy-MAX tables against the definition: all degrees that causes and leak may bring."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import beliefs as bl


def enumerated(causes: list[Any], leak: Any) -> Any:
    """Sum over all degrees of all causes, one by one."""
    n_states = len(leak)
    table = np.zeros([*(len(cause) for cause in causes), n_states])
    for x in itertools.product(*(range(len(cause)) for cause in causes)):
        rows = [leak, *(cause[state] for cause, state in zip(causes, x, strict=True))]
        for degrees in itertools.product(range(n_states), repeat=len(rows)):
            table[(*x, max(degrees))] += np.prod([row[z] for row, z in zip(rows, degrees, strict=True)])
    return table


def test_noisy_max_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    causes = [rng.dirichlet(np.ones(3), size=k) for k in (2, 3, 2)]
    for leak in (rng.dirichlet(np.ones(3)), np.array([1.0, 0.0, 0.0])):
        np.testing.assert_allclose(bl.noisy_max(causes, leak), enumerated(causes, leak), atol=1e-14)
    np.testing.assert_array_equal(bl.noisy_max(causes), bl.noisy_max(causes, [1, 0, 0]))


def test_noisy_or_is_one_minus_the_product() -> None:
    p, leak = np.array([0.8, 0.0, 0.35]), 0.05
    table = bl.noisy_or(p, leak)
    for x in itertools.product(range(2), repeat=3):
        off = (1 - leak) * np.prod(1 - p[np.array(x) == 1])
        np.testing.assert_allclose(table[x], [off, 1 - off], atol=1e-15)
    assert bl.noisy_or([1.0])[0].tolist() == [1.0, 0.0] and bl.noisy_or([]).tolist() == [1.0, 0.0]
    names = [bl.Variable(name, 2) for name in "abcd"]
    cpts: dict[str, Any] = {name: ([], [0.5, 0.5]) for name in "abc"}
    assert bl.BayesianNetwork.from_cpts(names, {**cpts, "d": (["a", "b", "c"], table)}).cpt("d") is not None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bl.noisy_or([0.5, 1.2]), "from 0 to 1, one a cause"),
        (lambda: bl.noisy_or([0.5], leak=2), "leak must be a number from 0 to 1"),
        (lambda: bl.noisy_max([[[1.0, 0.0], [0.5, 0.5]]], [1, 0, 0]), "table of cause 0 must have 3 columns"),
        (lambda: bl.noisy_max([[[1.0, 0.0], [0.5, 0.6]]]), "sum to 1"),
        (lambda: bl.noisy_max([]), "needs a leak"),
        (lambda: bl.noisy_or([0.5] * 30), "join some of the causes first"),
    ],
)
def test_wrong_numbers_are_refused(make: Any, message: str) -> None:
    with pytest.raises(bl.ModelError, match=message):
        make()
