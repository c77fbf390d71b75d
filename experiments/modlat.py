r"""Loss-based learning by modelling latent variables ([kumar2012]), the baseline ModLat of [ping2016] Table 4.3.

Two models: a predictor (y(w), h(w)) = argmax w . f(x, y, h), and p(h | x, y; v), which says how sure one can be of h.

    D(w, v) = sum_n  sum_h cost(y_n, h; y(w), h(w)) p(h | x_n, y_n; v) - beta sum_hh' cost(h, h') p(h) p(h')

is lowered in w and v in turn, with 1/2 |w|^2 and 1/2 |v|^2. The cost is the number of wrong outputs plus SHARE times
that of wrong hidden states (a cost without hidden states would leave the latent SVM). Here hidden variables are
independent given the outputs, so the expected cost of hidden state s is 1 - p_k(s), one number a state:

    w: CCCP on max_{y,h} [w . f(y, h) + expected cost(y, h)] - max_h w . f(y_n, h), an upper bound, by a bundle method
    v: gradient descent with p_k a softmax, g_s = -[s = h_k(w)] + 2 beta p_s, dD / d logit_s = p_s (g_s - sum_t p_t g_t)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from hidden_models import K, Shape, Trial

from beliefs.inference.portfolio.auto import exact_method
from beliefs.inference.run import answer, best_states
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import InstanceLoss, Loss
from beliefs.model.graph import FactorGraph

__all__ = ["BETA", "ROUNDS", "SHARE", "ModLat", "Study", "joint_map", "modlat"]

BETA, SHARE = 0.1, 0.5
ROUNDS, STEPS, RATE = 8, 50, 0.05

Minimise = Callable[[Loss, list[Instance], np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class ExpectedCosts(Loss):
    """The best state, with what it is expected to cost, against the labels; costs are those of the instance."""

    name: ClassVar[str] = "expected_costs"
    by_variable: ClassVar[bool] = False

    def part(self, theta: np.ndarray, instance: Instance) -> InstanceLoss:
        assert instance.costs is not None
        augmented = theta.copy()
        augmented[: instance.costs.size] += instance.costs  # the vertices come first
        best = Instance(instance.layout, None, joint_map(instance.graph(augmented)))
        value = augmented[best.label_cells].sum() - theta[instance.label_cells].sum()
        return InstanceLoss(float(value), best.statistics - instance.statistics, minorant=True)


def joint_map(graph: FactorGraph) -> np.ndarray:
    """Return the best joint state, exactly."""
    return np.array(best_states(graph, exact_method(graph.layout))[0], np.int64)


@dataclass(frozen=True)
class ModLat:
    """The weights of the predictor and of the hidden variables' model."""

    w: np.ndarray
    v: np.ndarray


def modlat(trial: Trial, start: np.ndarray, minimise: Minimise, rounds: int = ROUNDS) -> ModLat:
    """Take turns; ``minimise`` solves a convex problem from some weights."""
    template, w, v = trial.shape.template, start, start
    study = Study(trial.shape, trial.examples)
    for _ in range(rounds):
        imputed = study.imputed(w, v)
        w = minimise(ExpectedCosts(template=template, l2=0.5 / imputed.n_labelled), [imputed], w)
        predicted = joint_map(imputed.graph(template.theta(w, imputed.inputs)))
        for _ in range(STEPS):
            v = v - RATE * (v + study.slope(v, predicted))
    return ModLat(w, v)


@dataclass(frozen=True, eq=False)
class Study:
    """Examples side by side in one instance."""

    shape: Shape
    instance: Instance

    @cached_property
    def hidden(self) -> np.ndarray:
        """Which vertices are hidden, of all examples."""
        return ~self.instance.labelled

    def marginals(self, v: np.ndarray) -> np.ndarray:
        """Return p_k(s) of all vertices given the outputs, ``(n, K)``; point masses at outputs."""
        clamped = self.instance.clamped(self.shape.template.theta(v, self.instance.inputs))
        return answer(clamped, exact_method(clamped.layout), max_iters=1).mu_var.reshape(-1, K)

    def imputed(self, w: np.ndarray, v: np.ndarray) -> Instance:
        """Fix hidden variables at their best states given the outputs, and say what each state is expected to cost."""
        best = joint_map(self.instance.clamped(self.shape.template.theta(w, self.instance.inputs)))
        costs = (1.0 - self.marginals(v)) * np.where(self.hidden, SHARE, 1.0)[:, None]
        return replace(self.instance, labels=best, costs=costs.ravel())

    def slope(self, v: np.ndarray, states: np.ndarray) -> np.ndarray:
        """Return the gradient of the dissimilarity in v, for these predictions."""
        p = self.marginals(v)
        g = 2 * BETA * p - np.eye(K)[states]
        of_logits = SHARE * p * (g - (p * g).sum(axis=1, keepdims=True)) * self.hidden[:, None]
        layout, labels = self.instance.layout, self.instance.labels
        cells = np.zeros(layout.n_cells)
        cells[: of_logits.size] = of_logits.ravel()
        tables = cells[of_logits.size :].reshape(-1, K, K)
        i, j = layout.scope_vars[labels.size :].reshape(-1, 2).T
        e, first, second = np.arange(i.size), self.hidden[i], self.hidden[j]
        tables[e[first], :, labels[j[first]]] = of_logits[i[first]]
        tables[e[second], labels[i[second]], :] = of_logits[j[second]]
        out = np.zeros(v.size)
        self.shape.template.add_pullback(v, self.instance.inputs, cells, out)
        return out
