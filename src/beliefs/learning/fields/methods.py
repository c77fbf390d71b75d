"""The ways to fit a field by their names: losses, how they are minimised, and what to tell of the choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from beliefs.driver import Status
from beliefs.errors import BudgetError, ModelError
from beliefs.inference.base import Bound, Method, Problem
from beliefs.inference.budget import default_budget
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.run import settled
from beliefs.inference.text import named_method
from beliefs.learning.fields.base import FieldLoss, clamped
from beliefs.learning.fields.closed_form import why_not_decomposable
from beliefs.learning.fields.composite import FieldCompositeLikelihood
from beliefs.learning.fields.em import FieldEM
from beliefs.learning.fields.hidden_flow import HiddenFlow
from beliefs.learning.fields.likelihood import IPF, FieldLikelihood
from beliefs.learning.fields.one_variable import FieldProbabilityFlow, FieldPseudoLikelihood
from beliefs.learning.fields.sampled import FieldContrastiveDivergence, FieldStochasticLikelihood
from beliefs.learning.fields.statistics import Cell, FieldRows
from beliefs.learning.fit import fit, optimizer_of
from beliefs.learning.networks.result import JointFit
from beliefs.learning.networks.structure import Structure
from beliefs.learning.optimizers.adam import Adam
from beliefs.learning.optimizers.base import Optimizer
from beliefs.learning.restarts import best_of
from beliefs.learning.result import FitProgress, FitResult
from beliefs.model.graph import FactorGraph
from beliefs.typing import Bools, Floats

__all__ = ["METHODS", "ROWS", "FieldOptions", "chosen", "fitted", "maximum_at_infinity"]

ROWS = ("pseudo_likelihood", "composite_likelihood", "contrastive_divergence", "minimum_probability_flow")
"""Methods that statistics are not enough for."""

METHODS = ("auto", "closed_form", "ipf", "likelihood", "em", "stochastic_likelihood", *ROWS)
_SAMPLED = ("stochastic_likelihood", "contrastive_divergence")
_TURNED = {Bound.UPPER: Bound.LOWER, Bound.LOWER: Bound.UPPER}
_UPDATES = 1000  # of sampled gradients
_SPREAD = 0.5  # of random potentials at the start, where variables are hidden
_REPORT = 200  # iterations for a bound on log Z that is reported and not fitted; it holds after any number
_NAMED = 3  # cells that a message names


@dataclass(frozen=True, kw_only=True, eq=False)
class FieldOptions:
    """How a field is fitted: the options of ``MRFLearner`` of these names, threads, and the cells that are free."""

    inference: Any
    l2: float
    l1: float
    components: Any
    sweeps: int | None
    chains: int
    optimizer: Any
    n_restarts: int
    max_iters: int | None
    tol: float | None
    max_bytes: float | None
    threads: int
    seed: int | None
    callback: Callable[[FitProgress], object] | None
    progress: bool
    free: Bools | None

    def fits(self, structure: Structure) -> bool:
        """Whether exact inference fits the memory."""
        layout = structure.layout
        graph = FactorGraph.build(layout, np.zeros(layout.n_cells), structure.naming)
        limit = default_budget() if self.max_bytes is None else self.max_bytes
        try:
            return JunctionTree().n_bytes(Problem(graph)) <= limit
        except BudgetError:
            return False

    def method(self, structure: Structure) -> Method:
        """Return what gives log Z: what was asked for, else exact inference, else an upper bound."""
        if self.inference is not None:
            method = named_method(self.inference, "inference")
            if not method.deterministic:
                raise ModelError(
                    f"{method} gives estimates, which a likelihood cannot use; take method='stochastic_likelihood'"
                )
            return method
        return JunctionTree() if self.fits(structure) else named_method("trw")


def chosen(method: str, structure: Structure, rows: FieldRows, options: FieldOptions) -> tuple[str, str]:
    """Return the method, and why it was taken."""
    complete = rows.sweep is None
    plain = complete and not options.l2 and not options.l1 and options.inference is None
    if method == "closed_form" and not plain:
        raise ModelError("the closed form is of complete rows without penalties; use method='likelihood'")
    if method != "auto":
        return method, "the field is decomposable" if method == "closed_form" else ""
    if plain and not why_not_decomposable(structure):
        return "closed_form", "the field is decomposable, so its maximum is known"
    if options.inference is not None:
        return "likelihood", f"inference by {options.inference} was asked for"
    if not options.fits(structure):
        if complete and rows.table is not None:
            return "pseudo_likelihood", "exact inference does not fit, and the pseudo-likelihood needs none"
        return "likelihood", "exact inference does not fit, so trw bounds log Z"
    if plain and (rows.frequencies == 0).any() and not structure.layout.tied:
        return "ipf", "some cells never occur, so that the maximum is at infinity, which ipf reaches"
    why = (
        "cells are missing" if not complete else "there are penalties" if not plain else why_not_decomposable(structure)
    )
    return "likelihood", f"exact inference fits, and there is no closed form: {why}"


def loss_of(method: str, structure: Structure, rows: FieldRows, options: FieldOptions) -> FieldLoss:
    """Return the loss of a method."""
    own: dict[str, Any] = {"structure": structure, "l2": options.l2}
    if method in _SAMPLED:
        own |= {"chains": options.chains, "seed": options.seed or 0}
        own |= {} if options.sweeps is None else {"sweeps": options.sweeps}
        cls = FieldContrastiveDivergence if method == "contrastive_divergence" else FieldStochasticLikelihood
        return cls(**own)
    if method == "pseudo_likelihood":
        return FieldPseudoLikelihood(threads=options.threads, **own)
    if method == "composite_likelihood":
        components = options.components
        if not isinstance(components, str):
            components = [[structure.naming.index(ref) for ref in part] for part in components]
        return FieldCompositeLikelihood(
            components=components, threads=options.threads, max_bytes=options.max_bytes, **own
        )
    if method == "minimum_probability_flow":
        if rows.sweep is not None:
            return HiddenFlow(threads=options.threads, max_bytes=options.max_bytes, **own)
        return FieldProbabilityFlow(threads=options.threads, **own)
    return FieldLikelihood(inference=JunctionTree() if method == "ipf" else options.method(structure), **own)


def optimizer_for(method: str, options: FieldOptions) -> Optimizer:
    """Return how the loss is minimised."""
    if method in ("ipf", "em"):
        if options.optimizer is not None:
            raise ModelError(f"{method} is an optimizer of its own; leave optimizer out")
        return IPF() if method == "ipf" else FieldEM()
    if options.optimizer is not None:
        return optimizer_of(options.optimizer)
    return Adam(step=0.1, t0=100.0, average=True) if method in _SAMPLED else optimizer_of("lbfgs")


def fitted(method: str, structure: Structure, rows: FieldRows, options: FieldOptions) -> tuple[Floats, JointFit]:
    """Return log potentials and how they were found; of several starts the best."""
    loss, optimizer = loss_of(method, structure, rows, options), optimizer_for(method, options)
    loss.check(rows)
    if method != "ipf":
        _check_maximum(structure, rows, options)
    best, objectives = best_of(options.n_restarts, partial(_one_run, method, loss, rows, optimizer, options))
    value, bound = _log_likelihood(loss, structure, rows, best, options)
    done = method in _SAMPLED and best.status is Status.MAX_ITERS
    return best.weights, JointFit(
        status=best.status, reason=f"{best.n_iters} updates were made" if done else best.reason, trace=best.trace,
        n_parameters=0, bound=bound, log_likelihood=value, objective=-best.loss, n_iters=best.n_iters,
        restarts=np.array(objectives),
    )  # fmt: skip


def _one_run(
    method: str, loss: FieldLoss, rows: FieldRows, optimizer: Optimizer, options: FieldOptions, restart: int
) -> FitResult:
    start, limit = np.zeros(loss.n_weights), options.max_iters
    if rows.has_hidden or restart:
        start = _SPREAD * np.random.default_rng([options.seed or 0, restart]).standard_normal(loss.n_weights)
    if options.free is not None:
        start = np.where(options.free, start, 0.0)
    if limit is None and method in _SAMPLED:
        limit = _UPDATES
    return fit(
        loss, rows, start, optimizer=optimizer, l1=options.l1, tol=options.tol, max_iters=limit, seed=options.seed,
        callback=options.callback, progress=options.progress, free=None if method == "ipf" else options.free,
    )  # fmt: skip


def _log_likelihood(
    loss: FieldLoss, structure: Structure, rows: FieldRows, found: FitResult, options: FieldOptions
) -> tuple[float, Bound]:
    """Return the mean log-likelihood of a row, and what it is worth: by the loss's own inference where it has some."""
    if isinstance(loss, FieldLikelihood):
        now = replace(loss, l2=0.0).evaluate(found.weights, rows)
        bound = Bound.ESTIMATE if now.bound is None else now.bound
        return -now.value, _TURNED.get(bound, bound)
    method = replace(options, inference=None).method(structure)
    asked = settled(loss.graph(found.weights), method, max_iters=_REPORT)
    return clamped(found.weights, rows)[0] - asked.log_z, _TURNED.get(asked.bound, asked.bound)


def _check_maximum(structure: Structure, rows: FieldRows, options: FieldOptions) -> None:
    """Refuse a loss whose minimum is at infinity, where that can be seen from single cells."""
    if options.l2 or options.l1 or rows.sweep is not None:
        return
    reason = maximum_at_infinity(structure, rows.frequencies)
    if reason:
        raise ModelError(reason)


def maximum_at_infinity(structure: Structure, frequencies: Floats) -> str:
    """Return which cells never occur, or nothing."""
    layout = structure.layout
    numbers = np.flatnonzero(frequencies == 0)
    if not numbers.size:
        return ""
    if layout.tied:
        return f"cell {numbers[0]} of the tied tables never occurs, so the maximum is at infinity; set l2"
    named = "; ".join(str(Cell(structure, int(number))) for number in numbers[:_NAMED])
    more = f" and {numbers.size - _NAMED} more cells never occur" if numbers.size > _NAMED else (
        " never occurs" if numbers.size == 1 else " never occur"
    )  # fmt: skip
    return f"{named}{more}, so the maximum is at infinity; set l2 or ess, or use method='ipf'"
