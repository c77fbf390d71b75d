"""A small exact conditional random field for tests of fitting: chains, two states, the likelihood by enumeration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

import reference
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import InstanceLoss, Loss
from beliefs.model.features import FactorType, LogLinearTemplate, Rows
from beliefs.model.layout import Layout

WIDTH = 3
TEMPLATE = LogLinearTemplate([FactorType("node", 2, WIDTH), FactorType("pair", 4)])
TRUTH = np.array([0.3, -1.0, 0.5, -0.2, 1.2, 0.1, 0.8, -0.6, -0.4, 0.7])


@dataclass(frozen=True, kw_only=True)
class Enumerated(Loss):
    """The negative log-likelihood from the joint table; hidden variables are summed out."""

    name: ClassVar[str] = "enumerated"
    hidden: ClassVar[bool] = True

    def part(self, theta: np.ndarray, instance: Instance) -> InstanceLoss:
        states, statistics = enumerated(instance.layout.n_vars)
        agrees = ((states == instance.labels) | (instance.labels < 0)).all(1)
        scores = statistics @ theta
        free, clamped = np.exp(scores - scores.max()), np.exp(scores[agrees] - scores.max())
        grad = free @ statistics / free.sum() - clamped @ statistics[agrees] / clamped.sum()
        return InstanceLoss(float(np.log(free.sum()) - np.log(clamped.sum())), grad)


@cache
def enumerated(length: int) -> tuple[np.ndarray, np.ndarray]:
    """All joint states of a chain, and their statistics: the scores are ``statistics @ theta``."""
    states = np.array(reference.joint_states([2] * length))
    n_cells = 2 * length + (4 if length > 1 else 0)
    statistics = np.zeros((len(states), n_cells))
    for row, x in zip(statistics, states):
        row[2 * np.arange(length) + x] = 1.0
        np.add.at(row, 2 * length + 2 * x[:-1] + x[1:], 1.0)
    return states, statistics


def chain(length: int, rng: np.random.Generator, name: str = "the instance") -> Instance:
    """A chain with random features and labels drawn from the model with the true weights."""
    pairs = [(v, v + 1) for v in range(length - 1)]
    scopes = [(v,) for v in range(length)] + pairs
    starts = np.concatenate([2 * np.arange(length), np.full(len(pairs), 2 * length)])
    ptr = np.concatenate([[0], np.cumsum([len(s) for s in scopes])])
    layout = Layout.build(np.full(length, 2), ptr, np.concatenate([np.array(s) for s in scopes]), starts)
    features = np.column_stack([np.ones(length), rng.normal(size=(length, WIDTH - 1))])
    inputs = (Rows(length, features), Rows(len(pairs)))
    blank = Instance(layout, inputs, np.zeros(length, np.int64))
    p = reference.probabilities(reference.joint_table(blank.graph(TEMPLATE.theta(TRUTH, inputs))))
    drawn = np.unravel_index(rng.choice(p.size, p=p.ravel() / p.sum()), p.shape)
    return Instance(layout, inputs, np.array(drawn, np.int64), name=name)


def chains(n: int, seed: int = 0) -> list[Instance]:
    """Chains of two to five variables."""
    rng = np.random.default_rng(seed)
    return [chain(2 + k % 4, rng, f"chain {k}") for k in range(n)]
