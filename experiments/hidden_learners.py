"""The learners of [ping2016] section 4.7.1 on one trial: how each is fitted, and how it predicts outputs.

=======  ============================================================  ================================================
MSSVM    marginal structured SVM, hidden variables summed in the loss  best outputs, hidden variables summed out
LSSVM    latent structured SVM, hidden variables maximised             best joint state
HCRF     hidden CRF, the likelihood of the outputs                     likeliest state of each output
M3E      max-margin min-entropy of order 2 [miller2012]                outputs of least generalised entropy
ModLat   see :mod:`modlat`                                             best joint state of its predictor
=======  ============================================================  ================================================
"""

from __future__ import annotations

import numpy as np
from hidden_models import Trial
from modlat import ROUNDS, joint_map, modlat

import beliefs as bl
from beliefs.learning import fit, losses
from beliefs.learning.instances import Instance
from beliefs.learning.losses import Loss

__all__ = [
    "BATCH",
    "CCCP",
    "LEARNERS",
    "SGD",
    "THREE",
    "UPDATES",
    "accuracy",
    "fitted",
    "loss_of",
    "predicted",
    "sgd_text",
]

LEARNERS = ("MSSVM", "LSSVM", "HCRF", "M3E", "ModLat")
THREE = LEARNERS[:3]
SGD = {"MSSVM": (0.02, 100), "LSSVM": (0.001, 400), "HCRF": (0.02, 100), "M3E": (0.005, 150)}  # rate, iterations
UPDATES, BATCH = 500, 32  # of mini-batches
CCCP = "cccp(inner_iters=30)"  # thirty planes a round; until a round gains less than 0.1 %
_CORNERS = {"MSSVM": {"eps_y": 0.0, "eps_h": 1.0}, "LSSVM": {"eps_y": 0.0, "eps_h": 0.0}}


def loss_of(name: str, trial: Trial) -> Loss:
    """Return the loss that a learner minimises."""
    if name == "HCRF":
        return losses.Likelihood(template=trial.shape.template, l2=trial.l2)
    if name == "M3E":
        return losses.MinEntropy(template=trial.shape.template, l2=trial.l2, order=2.0)
    return losses.MaxMargin(template=trial.shape.template, l2=trial.l2, **_CORNERS[name])


def sgd_text(trial: Trial, rate: float) -> str:
    """Return Algorithm 4.1: whole passes; the rate is that of 1/2 |w|^2 + sum U, which is ours times the labels."""
    labels = sum(instance.n_labelled for instance in trial.train)
    return f"sgd(step={rate * labels}, t0=None, batch_size={len(trial.train)})"


def fitted(name: str, trial: Trial, optimizer: str, *, iterations: int | None = None) -> np.ndarray:
    """Return the weights of a learner by ``"sgd"``, ``"cccp"`` or ``"adam"`` (mini-batches), from a random start."""
    start = trial.shape.start(trial.seed)
    if name == "ModLat":
        return modlat(trial, start, _by_planes, ROUNDS if iterations is None else 1).w
    loss = loss_of(name, trial)
    if optimizer == "adam":
        size = min(BATCH, len(trial.train))
        text = f"adam(step=0.05, t0=100, batch_size={size}, average=True)"
        passes = iterations or -(-UPDATES * size // len(trial.train))
        return fit(loss, trial.train, start, optimizer=text, max_iters=passes).weights
    if optimizer == "sgd" or name == "M3E":
        rate, most = SGD[name]
        text = sgd_text(trial, rate)
        return fit(loss, [trial.examples], start, optimizer=text, max_iters=iterations or most).weights
    return fit(loss, [trial.examples], start, optimizer=CCCP, tol=1e-3, max_iters=iterations or 50).weights


def _by_planes(loss: Loss, instances: list[Instance], start: np.ndarray) -> np.ndarray:
    return fit(loss, instances, start, optimizer="one_slack", tol=0.01, max_iters=300).weights


def predicted(name: str, trial: Trial, weights: np.ndarray, instance: Instance) -> np.ndarray:
    """Return the states of the outputs of an instance, in their order."""
    graph = instance.graph(trial.shape.template.theta(weights, instance.inputs))
    outputs = np.flatnonzero(instance.labelled)
    if name == "HCRF":
        return bl.infer(graph, "junction_tree").mu_var.reshape(instance.labels.size, -1)[outputs].argmax(axis=1)
    if name == "MSSVM":
        return bl.marginal_map(graph, outputs.tolist(), "elimination").assignment
    if name == "M3E":
        return losses.MinEntropy(template=trial.shape.template).best(graph.theta, instance)[outputs]
    return joint_map(graph)[outputs]


def accuracy(name: str, trial: Trial, weights: np.ndarray, instance: Instance | None = None) -> float:
    """Return the share of outputs predicted rightly, of the test examples or of another instance."""
    instance = trial.test if instance is None else instance
    return float((predicted(name, trial, weights, instance) == instance.labels[instance.labelled]).mean())
