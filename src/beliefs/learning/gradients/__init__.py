"""Gradients through inference: truncated, at convergence, by perturbation, implicit, and through exact inference."""

from beliefs.learning.gradients.base import Beliefs, Gradient
from beliefs.learning.gradients.convergence import AtConvergence
from beliefs.learning.gradients.exact import Exact
from beliefs.learning.gradients.implicit import Implicit
from beliefs.learning.gradients.perturbation import Perturbation
from beliefs.learning.gradients.registry import GRADIENTS, make_gradient
from beliefs.learning.gradients.truncated import Truncated

__all__ = [
    "GRADIENTS",
    "AtConvergence",
    "Beliefs",
    "Exact",
    "Gradient",
    "Implicit",
    "Perturbation",
    "Truncated",
    "make_gradient",
]
