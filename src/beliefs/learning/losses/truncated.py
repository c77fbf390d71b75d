r"""The likelihood with the free energy of beliefs after N sweeps in the place of log Z.

With :math:`\mu = \mu^N(\theta)` the beliefs after exactly N sweeps and :math:`\tilde A_N(\theta) = \theta \cdot \mu +
\tilde H(\mu)` ([domke2013] section 7.3; the entropy is Eqs. (16)-(17), with the sign in the truncated value put right),

.. math::
    L(\theta) = \tilde A_N(\theta) - \theta \cdot f(\hat x), \qquad
    \frac{dL}{d\theta} = \mu - f(\hat x) + \Bigl(\frac{d\mu}{d\theta}\Bigr)^{\!\top} (\theta + \nabla \tilde H(\mu))

The gradient is exact for this objective whether or not inference has converged; the correction vanishes as N grows.
With hidden variables (``truncated_em``) the term of the labels is :math:`\tilde A_N(\theta, z)`, truncated likewise.

Failure mode: with too few sweeps the objective is unbounded below (with none it is linear in theta). A positive
surrogate log-probability of the labels, which cannot occur at a converged optimum, raises the ``diverged`` flag: use
more sweeps or a larger ridge. Cost: one inference and its way back, two with hidden variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError, UnsupportedError
from beliefs.learning.gradients.truncated import Truncated
from beliefs.learning.instances import Instance
from beliefs.learning.losses.base import InstanceLoss, Needs
from beliefs.learning.losses.difference import impossible, scattered
from beliefs.learning.losses.free_energy import free_energy
from beliefs.learning.losses.inference import InferenceSpec
from beliefs.learning.losses.label_scores import label_scores
from beliefs.learning.losses.through import LossThroughInference
from beliefs.model.graph import FactorGraph
from beliefs.options import check_option, is_word
from beliefs.typing import Floats

__all__ = ["TruncatedEM", "TruncatedLikelihood"]


@dataclass(frozen=True, kw_only=True)
class TruncatedLikelihood(LossThroughInference):
    """The likelihood with the free energy after a number of sweeps.

    Parameters
    ----------
    through : Truncated
        The inference and its number of sweeps, at least one.
    entropy : {"literal", "counted"}
        Which of two forms of the entropy, equal at convergence; see :mod:`beliefs.kernels.messages.free_energy`.
    """

    through: Truncated
    entropy: str = "literal"

    name: ClassVar[str] = "truncated_likelihood"
    by_variable: ClassVar[bool] = False
    clamps: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs.SWEEPS

    @classmethod
    def taken(cls, inference: InferenceSpec) -> dict[str, Any]:
        """Return the sweeps and the way back through them."""
        through = inference.through()
        if not isinstance(through, Truncated):
            raise UnsupportedError(
                f"{cls.name} is defined by a number of sweeps: give n_sweeps and an inference of messages or mean "
                f"field (found {inference.method}, n_sweeps={inference.n_sweeps}); or use surrogate_likelihood or "
                "surrogate_em"
            )
        return {"through": through}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(is_word(self.entropy, ("literal", "counted")), "entropy", "'literal' or 'counted'", self.entropy)
        if self.through.n_sweeps < 1:
            raise ModelError(f"{self.name} needs n_sweeps of at least 1: with none it is linear and has no minimum")

    def part(self, theta: Floats, instance: Instance) -> InstanceLoss:
        """Return the truncated free energy minus the score of the labels, or minus that of the clamped model."""
        whole = instance.graph(theta)
        values, grad = self._energies(whole, instance)
        if instance.n_labelled == instance.labels.size:
            scores, expected = instance.by_part(label_scores(whole, instance)), instance.statistics
        else:
            graph = instance.clamped(theta)
            scores, within = self._energies(graph, instance)
            expected = scattered(graph, within, theta.size)
        return InstanceLoss(float(values.sum() - scores.sum()), grad - expected, diverged=impossible(values, scores))

    def _energies(self, graph: FactorGraph, instance: Instance) -> tuple[Floats, Floats]:
        """Return the truncated free energies of an instance's parts, and their gradient in the graph's cells."""
        beliefs = self.through.run(graph)
        bar_var, bar_factor = np.empty(graph.layout.n_states), np.empty(int(graph.layout.table_ptr[-1]))
        of_vars, of_factors = free_energy(self.entropy, graph, beliefs, bar_var, bar_factor)
        grad = graph.layout.in_cells(beliefs.mu_factor) + beliefs.pullback(bar_var, bar_factor)
        return instance.by_part(of_factors, of_vars), grad


@dataclass(frozen=True, kw_only=True)
class TruncatedEM(TruncatedLikelihood):
    """The truncated likelihood with hidden variables: both terms after the same number of sweeps."""

    name: ClassVar[str] = "truncated_em"
    hidden: ClassVar[bool] = True
