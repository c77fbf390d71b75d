r"""Structured support vector machines: what those on chains, grids and graphs share.

.. math:: \min_w\; \tfrac12 \lVert w \rVert^2 + C \sum_s U_s(w)

with the margin loss U of :class:`~beliefs.learning.losses.max_margin.MaxMargin`, which has one temperature for outputs
and one for hidden variables. Divided by :math:`C n`, with n the labelled variables, each weighted like its instance,
this is the objective of every fit here, with the ridge :math:`\lambda = 1 / (2 C n)`: ``result_`` is in those units,
``objective_`` and ``gap_`` in the ones above.

=========================================  =============================================================================
the problem                                ``optimizer="auto"``
=========================================  =============================================================================
smooth: ``eps_y > 0``, ``eps_h > 0``       ``lbfgs``
hidden variables                           ``cccp``
convex otherwise                           ``one_slack``; the first passes of ``bcfw`` gain more, its last ones less
potentials not linear in the weights       ``sgd`` unless it is smooth; also with hidden variables where instances are
                                           loaded one by one, or with slack rescaling
=========================================  =============================================================================

**Predictions** (``decode="auto"``) are the best outputs, what is declared hidden summed or maximised out:
:math:`\arg\max_y \varepsilon_h \log \sum_h \exp(\theta(y, h) / \varepsilon_h)` at ``eps_y = 0``, and the likeliest
label of each variable at these temperatures else: the free term of the loss, asked without costs, so by the method, the
tolerance and the iterations of the fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.inference.base import Method
from beliefs.inference.messages.bp import BP
from beliefs.inference.messages.schedule import is_forest
from beliefs.learning.data import LabelledData
from beliefs.learning.estimators.examples import Examples, inputs_of
from beliefs.learning.estimators.fitting import FitOptions
from beliefs.learning.estimators.structured.crf import CRF, DECODERS
from beliefs.learning.estimators.structured.prediction import all_marginals, likeliest_states, method_of
from beliefs.learning.estimators.structured.states import Outputs
from beliefs.learning.instances import Instance
from beliefs.learning.joined import Joiner
from beliefs.learning.losses.base import Loss
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.model.features import DifferentiableTemplate, LogLinearTemplate, Template
from beliefs.model.layout import Layout
from beliefs.options import check_option, is_number
from beliefs.typing import Floats, Ints

__all__ = ["SVM"]

_LARGEST_C = 1e15  # beyond, and below its inverse, rounding of the ridge hides the losses


@dataclass(kw_only=True, eq=False, repr=False)
class SVM(CRF):
    """Base of the machines; for the other options see :class:`CRF` and :class:`Estimator`.

    Parameters
    ----------
    C : float
        How much losses count beside half the squared norm of the weights; they are added up, as in scikit-learn.
    eps_y, eps_h : float
        Temperatures of outputs and of hidden variables: 0 maximises, 1 sums.
    delta : str or array_like (K, K)
        What wrong labels cost: ``"hamming"`` (weighted by ``class_weight``), ``"zero_one"``, ``"none"``, or a table
        ``[true, predicted]``; or arrays given to :meth:`fit`.
    rescaling : {"margin", "slack"}
        Whether costs are added to the margin or multiply it.
    certified : bool
        Whether approximate inference is to give an upper bound on the loss.
    optimizer : str
        ``"auto"``, ``"bcfw"``, ``"one_slack"``, ``"n_slack"``, ``"cccp"``, ``"sgd"``, ``"lbfgs"``, with options.
    tol : float, optional
        Of ``"bcfw"``, ``"one_slack"`` and ``"n_slack"`` the gap relative to the objective (1e-3).
    inference : str or Method, optional
        The method through which is fitted and predicted; None: exact.
    decode : {"auto", "mpm", "map", "mean"}
        What :meth:`predict` returns: the best outputs at the temperatures of the fit, or as in :class:`CRF`.

    Attributes
    ----------
    objective_ : float
        Half the squared norm of the weights, plus C times the sum of the losses.
    gap_ : float
        A certified bound on how far that is above its minimum; inf where there is none.
    n_labelled_ : float
        The labelled variables fitted to, weighted like their instances.
    is_exact_ : bool
        Whether inference was exact in the fit. ``bp`` is on forests whose hidden variables are leaves; the exact
        mechanism, which is faster for many small graphs and certifies more, then answers in its place.
    """

    C: float = 1.0
    eps_y: float = 0.0
    eps_h: float = 1.0
    delta: Any = "hamming"
    rescaling: str = "margin"
    certified: bool = False
    optimizer: Any = "auto"
    inference: Any = "bp"
    decode: str = "auto"

    # what a field has and a machine has not
    loss: Any = field(default="max_margin", init=False)
    l2: float = field(default=0.0, init=False)
    l1: float = field(default=0.0, init=False)
    n_sweeps: int | None = field(default=None, init=False)
    gradient: Any = field(default="auto", init=False)

    takes_costs: ClassVar[bool] = True
    _decoders: ClassVar[tuple[str, ...]] = ("auto", *DECODERS)
    _of_the_fit: ClassVar[tuple[str, ...]] = ("n_labelled_", "is_exact_", "objective_", "gap_")  # into files, too

    # -- fitting ------------------------------------------------------------------------------------------------
    def fit(self, X: Any, Y: Any = None, sample_weight: ArrayLike | None = None, costs: Any = None) -> Self:
        """Fit the weights to inputs ``X`` and labels ``Y`` (-1 where hidden), one entry per instance each.

        ``costs`` has an array for each instance, in the shape of its labels and a last axis of states: what each label
        costs there, at least 0, and 0 for the true one. They take the place of ``delta``.
        """
        if costs is None:
            return super().fit(X, Y, sample_weight)
        if self.class_weight is not None:
            raise ModelError("costs say what each wrong label costs; leave out class_weight, which weighs delta")
        return super().fit(Examples(X, Y, sample_weight, costs))

    def _check_options(self) -> None:
        super()._check_options()
        good = is_number(self.C) and 1.0 / _LARGEST_C <= self.C <= _LARGEST_C
        check_option(good, "C", f"a positive number, of {1.0 / _LARGEST_C:g} to {_LARGEST_C:g}", self.C)
        self._margin_loss(LogLinearTemplate([]), 0.0)  # options that do not go together are refused before any work

    def _count(self, data: LabelledData) -> None:
        """Count the labelled variables, by which C becomes a ridge; see what is hidden, and whether bp is exact."""
        self.n_labelled_, self._any_hidden, self.is_exact_ = 0.0, False, True
        for instance in cast("Iterable[Instance]", data):
            self.n_labelled_ += instance.n_counted
            self._any_hidden |= instance.n_labelled < instance.labels.size
            self.is_exact_ = self.is_exact_ and self._answers_exactly(instance)

    def _answers_exactly(self, instance: Instance) -> bool:
        """Whether the inference is exact, or as good: bp on forests whose hidden variables are leaves, if any are."""
        if self.inference is None or self._method.guarantee == "exact":
            return True
        if not (isinstance(self._method, BP) and is_forest(instance.layout)):
            return False
        return self.eps_y == self.eps_h or bool((_degrees(instance.layout)[~instance.labelled] <= 1).all())

    @property
    def _ridge(self) -> float:
        return 1.0 / (2.0 * float(self.C) * self.n_labelled_)

    def _loss(self) -> Loss:
        return self._margin_loss(self.template_, self._ridge, self.is_exact_)

    def _margin_loss(self, template: Template, l2: float, exact: bool = False) -> MaxMargin:
        exact = exact or self.inference is None
        return MaxMargin(
            template=template, l2=l2, threads=self._threads, eps_y=self.eps_y, eps_h=self.eps_h, delta=self.delta,
            rescaling=self.rescaling, method=None if exact else self._method,
            certified=self.certified, tol=self.inference_tol,
        )  # fmt: skip

    def _fit_options(self, data: LabelledData) -> FitOptions:
        options = super()._fit_options(data)
        for instance in data if isinstance(data, list) else ():  # mini-batches would meet a bad one late
            self.loss_.check(instance)
        auto = isinstance(options.init, str) and options.init == "auto"
        init = "zeros" if auto and not self._any_hidden else options.init  # convex: the start does not matter
        optimizer = self._chosen_optimizer(data) if _is_auto(self.optimizer) else self.optimizer
        return replace(options, init=init, optimizer=optimizer)

    def _chosen_optimizer(self, data: LabelledData) -> str:
        if self.eps_y > 0 and (self.eps_h > 0 or not self._any_hidden):
            return "lbfgs"
        if isinstance(self.template_, DifferentiableTemplate):
            return "sgd"
        if self._any_hidden:
            return "cccp" if self.rescaling == "margin" and isinstance(data, list) else "sgd"
        return "one_slack"

    def _conclude(self, data: LabelledData) -> None:
        scale, found = float(self.C) * self.n_labelled_, self.result_
        if found.was_stopped and math.isinf(found.gap):  # perhaps while a start was being found, by another loss
            found = self.result_ = replace(found, loss=self.loss_.evaluate(self.weights_, data).value)
        self.objective_, self.gap_ = scale * found.loss, scale * found.gap

    # -- answers ------------------------------------------------------------------------------------------------
    def _decoded(self, X: Any, how: str) -> list[tuple[np.ndarray, Outputs]]:
        if how != "auto":
            return super()._decoded(X, how)
        self._check_fitted()
        exact, by_method = (
            replace(self._margin_loss(self.template_, 0.0, e), delta="none", rescaling="margin", certified=False)
            for e in (True, False)
        )

        def solve(instance: Instance) -> Floats:
            free = exact if self.is_exact_ and self._answers_exactly(instance) else by_method
            return free.free(self._graph(instance), instance).mu_var

        joiner = Joiner.of(exact) if self.is_exact_ else None
        found = all_marginals(solve, self._asked, inputs_of(X), joiner, self._executor)
        return [(likeliest_states(self._spaces.label_marginals(mu, outputs)), outputs) for mu, outputs in found]

    @property
    def _method(self) -> Method:
        return method_of("junction_tree" if self.inference is None else self.inference)


def _degrees(layout: Layout) -> Ints:
    """Return in how many factors of several variables each variable is, ``(n_vars,)``."""
    joining = layout.arity[layout.edge_factor] > 1
    degrees: Ints = np.bincount(layout.scope_vars[joining], minlength=layout.n_vars)
    return degrees


def _is_auto(optimizer: Any) -> bool:
    return isinstance(optimizer, str) and optimizer.strip() == "auto"
