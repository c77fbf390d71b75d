r"""Gradients by perturbation: inference once more, at potentials moved a little along the gradient in the beliefs.

Marginals of variational inference (and of exact inference) are the gradient of :math:`A(\theta)`, so their Jacobian is
symmetric and the pullback is a directional derivative: with :math:`q = dQ/d\mu`, [domke2010], Eq. (24) and Algorithm 1
[domke2013],

.. math:: \frac{dL}{d\theta} = \frac{d\mu}{d\theta}\, q = \lim_{r \to 0} \frac{\mu(\theta + r q) - \mu(\theta)}{r}.

=====  =======================================================================================  ==============
sides  difference                                                                               error
=====  =======================================================================================  ==============
1      :math:`[\mu(\theta + rq) - \mu(\theta)] / r`                                             :math:`O(r)`
2      :math:`[\mu(\theta + rq) - \mu(\theta - rq)] / 2r`                                       :math:`O(r^2)`
4      :math:`[-\mu_{+2} + 8\mu_{+1} - 8\mu_{-1} + \mu_{-2}] / 12r`, :math:`\mu_{\pm k} =       :math:`O(r^4)`
       \mu(\theta \pm k r q)`
=====  =======================================================================================  ==============

The step is :math:`r = m\, \delta^{e}\, (1 + \lVert\theta\rVert_\infty) / \lVert q \rVert_\infty` for marginals good to
:math:`\delta`: the tolerance of inference, but no better than machine epsilon. Where inference is judged by its bound,
:math:`\delta` is a tenth of the root of the tolerance, since a bound is flat at its optimum. The error is about
:math:`r^p + \delta / r`, so :math:`e = 1/(1 + p)` is the natural exponent; the paper has 1/3 throughout. Perturbed runs
start from the messages of the first, which also keeps mean field in its local optimum. Where a logistic loss meets a
label that is nearly impossible, q is huge, the step tiny, and rounding costs digits: about one for each factor of ten
in :math:`\lVert q \rVert_\infty`; back-propagation has no such trouble.

Whether inference has settled as far as a difference needs is judged by the difference itself, on three counts. It is
large beside what inference may be off by, a few times :math:`\delta`. Its second difference
:math:`\mu(\theta + rq) - 2\mu(\theta) + \mu(\theta - rq)` is smaller by a factor of about r, since marginals are
smooth: runs that end in different optima are not. And it is that of the values: :math:`r\, q^\top
[\mu(\theta + rq) - \mu(\theta - rq)] / 2` equals :math:`A(\theta + rq) - 2A(\theta) + A(\theta - rq)`, which runs that
stop short fail, because values are right to second order where marginals are to first; so do steps that are too long.
A gradient that fails does not count as converged.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beliefs.inference.base import Bound, Method
from beliefs.inference.run import Answer, answer
from beliefs.learning.gradients.base import Beliefs, Gradient
from beliefs.learning.gradients.directions import direction
from beliefs.learning.gradients.smooth import check_smooth, untied
from beliefs.model.graph import FactorGraph
from beliefs.options import check_integer, check_number, check_option
from beliefs.typing import Floats

__all__ = ["Perturbation"]

_DIFFERENCES = {
    1: ((0, -1.0), (1, 1.0)),
    2: ((1, 0.5), (-1, -0.5)),
    4: ((2, -1 / 12), (1, 8 / 12), (-1, -8 / 12), (-2, 1 / 12)),
}
"""Steps in multiples of r, and the weight of the marginals there."""

_EXPONENTS = {1: 1 / 2, 2: 1 / 3, 4: 1 / 5}
_TOL, _TOL_OF_BOUNDS = 1e-14, 1e-12
_SLOW = 4.0  # times its tolerance: how far from its end inference may stop
_NOISY = 3e-3  # of a difference that this may account for
_ROUGH = 1e-3  # of a difference that its curvature may be, whatever the step
_BEND, _MOST_BENT = 10.0, 0.1  # curvature over slope of marginals along a direction of size one, and at most
_APART = 3e-3  # of the curvature of log Z that the difference may miss
_LONG = 3e-3  # of a step with one side, whose error is of the size of the step
_ROUNDING = 16 * sys.float_info.epsilon


@dataclass(frozen=True, kw_only=True)
class Perturbation(Gradient):
    """The gradient by finite differences of beliefs along one direction, whatever the number of parameters.

    Parameters
    ----------
    method : Method
        Any that gives marginals: bp, trw, fractional_bp, mean_field, junction_tree, ...; not sampling.
    sides : {1, 2, 4}
        How many perturbed runs (one-sided also uses the unperturbed one).
    multiplier : float
        The m of the step rule.
    exponent : float, optional
        The exponent of machine epsilon; None: 1/2, 1/3 and 1/5 for one, two and four sides.
    tol, max_iters
        When inference stops; the step follows from it. None: 1e-14, a step of about 1e-5 for two sides; for methods
        that are judged by their bound 1e-12, and 0.005.

    Examples
    --------
    >>> import beliefs as bl
    >>> grid = bl.datasets.make_ising_grid(4, seed=0)
    >>> beliefs = Perturbation(method=bl.TRW()).run(grid)
    >>> abs(float(beliefs.pullback(bar_var=beliefs.mu_var).sum())) < 1e-8
    True
    """

    method: Method
    sides: int = 2
    multiplier: float = 1.0
    exponent: float | None = None
    tol: float | None = None
    max_iters: int = 10_000

    name: ClassVar[str] = "perturbation"

    def __post_init__(self) -> None:
        check_integer("sides", self.sides, 1, 4)
        check_option(self.sides in _DIFFERENCES, "sides", "1, 2 or 4", self.sides)
        check_number("multiplier", self.multiplier, positive=True)
        check_number("exponent", self.exponent, positive=True, none=True)
        check_number("tol", self.tol, none=True)
        check_integer("max_iters", self.max_iters, 1)
        check_smooth(self.method, "a perturbation")

    def run(self, graph: FactorGraph, warm: Any = None) -> Beliefs:
        """Run inference at the potentials themselves."""
        own = untied(graph)
        found = answer(own, self.method, tol=self.inner_tol, max_iters=self.max_iters, warm=warm)
        return PerturbedBeliefs(self, graph, own, found)

    def step(self, theta: Floats, along: Floats, noise: float | None = None) -> float:
        """Return r for a direction that is not zero; ``noise`` None: that of the method."""
        largest = float(np.abs(theta[theta > -np.inf]).max(initial=0.0))
        noise = self.noise if noise is None else noise
        return float(self.multiplier * noise**self.power * (1 + largest) / np.abs(along).max())

    @property
    def power(self) -> float:
        """The exponent e of the step rule."""
        return float(_EXPONENTS[self.sides] if self.exponent is None else self.exponent)

    @property
    def inner_tol(self) -> float:
        """The tolerance of inference: one given, or one that the method can meet."""
        if self.tol is not None:
            return float(self.tol)
        return _TOL_OF_BOUNDS if self.method.residual_of == "bound" else _TOL

    @property
    def noise(self) -> float:
        """How far marginals may be from those of converged inference."""
        if not self.method.iterative:
            return sys.float_info.epsilon
        tol = 0.1 * math.sqrt(self.inner_tol) if self.method.residual_of == "bound" else (self.tol or 0.0)
        return max(float(tol), sys.float_info.epsilon)


class PerturbedBeliefs(Beliefs):
    """Converged beliefs that are differentiated by running inference again nearby."""

    def __init__(self, way: Perturbation, graph: FactorGraph, own: FactorGraph, found: Answer) -> None:
        self.way, self.own, self.found = way, own, found
        self.layout, self.mu_var, self.rho = graph.layout, found.mu_var, found.rho
        self.converged, self.warm_state = found.converged, found.warm_state
        self.log_z = found.log_z

    @property
    def mu_factor(self) -> Floats:
        """Every factor's own table."""
        return self.found.mu_factor

    def _pulled(self, bar_var: Floats, bar_factor: Floats | None) -> Floats:
        along = direction(self.layout, bar_var, bar_factor)
        if not along.any():
            return np.zeros(self.layout.n_cells)
        way = self.way
        noise = sys.float_info.epsilon if self.found.bound is Bound.EXACT else way.noise
        r = way.step(self.own.theta, along, noise)
        change, near = np.zeros(along.size), {0: self.found}
        for steps, weight in _DIFFERENCES[way.sides]:
            if steps:
                near[steps] = self._near(steps * r * along)
            change += weight * near[steps].mu_factor
        self.converged &= all(found.converged for found in near.values()) and self._is_sound(
            near, change, along, r, noise
        )
        return self.layout.in_cells(change / r)

    def _is_sound(self, near: dict[int, Answer], change: Floats, along: Floats, r: float, noise: float) -> bool:
        """Whether the difference is one of the marginals, and no accident of where inference has stopped."""
        size, most = r * float(np.abs(along).max()), float(np.abs(change).max())
        promised = _SLOW * noise ** (1.0 - _EXPONENTS[self.way.sides])  # for gradients in the beliefs of about 1
        if _SLOW * noise > max(_NOISY * most, promised * r):
            return False
        if -1 not in near:
            return size <= _LONG
        bent = float(np.abs(near[1].mu_factor - 2 * self.mu_factor + near[-1].mu_factor).max())
        if bent > min(max(_ROUGH, _BEND * size), _MOST_BENT) * 2 * most + promised * r:
            return False
        curved = near[1].log_z - 2 * self.found.log_z + near[-1].log_z
        turned = r * float(along @ (near[1].mu_factor - near[-1].mu_factor)) / 2
        rounding = _ROUNDING * max(1.0, abs(self.found.log_z)) + promised * r * size
        return not abs(curved - turned) > _APART * abs(turned) + rounding

    def _near(self, shift: Floats) -> Answer:
        """Return the answer at shifted potentials."""
        way, moved = self.way, self.own.with_theta(self.own.theta + shift)
        return answer(moved, way.method, tol=way.inner_tol, max_iters=way.max_iters, warm=self.found.warm_state)
