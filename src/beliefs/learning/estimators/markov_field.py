"""Markov random fields learned from a table of rows, or from marginals.

>>> rows = [[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0]]
>>> learner = MRFLearner([("x0", "x1"), ("x1", "x2")]).fit(rows)
>>> learner.method_, learner.result_.bound.name, round(learner.score(rows), 6)
('closed_form', 'EXACT', -1.966176)
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from beliefs.errors import BudgetError, ModelError
from beliefs.inference.base import Bound, Method, Problem
from beliefs.inference.budget import default_budget
from beliefs.inference.doors import sample
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.likelihood import LogLikelihood, log_likelihood
from beliefs.inference.rows.sweep import RowSweep
from beliefs.inference.text import named_method
from beliefs.learning.estimators.bayes_net import threads_of
from beliefs.learning.estimators.describing import DescribedEstimator
from beliefs.learning.fields.closed_form import closed_form, why_not_decomposable
from beliefs.learning.fields.likelihood import IPF, FieldLikelihood
from beliefs.learning.fields.statistics import Cell, FieldRows, field_over, given_field, marginal_statistics, n_free
from beliefs.learning.fit import fit
from beliefs.learning.networks.counts import check_budget
from beliefs.learning.networks.fitting import gathered
from beliefs.learning.networks.result import JointFit
from beliefs.learning.networks.structure import Structure, hidden_states
from beliefs.learning.networks.trees import check_target, search_of
from beliefs.learning.parallel import executor_of
from beliefs.learning.rows import opened, table_of
from beliefs.model.graph import FactorGraph
from beliefs.model.naming import Naming
from beliefs.model.rows.reading import are_chunks, chunk_tables, read_rows, row_weights
from beliefs.options import check_integer, check_option, is_number, is_word
from beliefs.typing import Floats, Ints

__all__ = ["MRFLearner"]

_METHODS = ("auto", "closed_form", "ipf", "likelihood")
_TURNED = {Bound.UPPER: Bound.LOWER, Bound.LOWER: Bound.UPPER}


@dataclass(eq=False, repr=False)
class MRFLearner(DescribedEstimator, BaseEstimator):  # type: ignore[misc]
    """Log potentials of a Markov random field from rows of observations.

    Rows are as of :class:`~beliefs.learning.estimators.bayes_net.BNLearner`; they enter as sufficient statistics.

    Parameters
    ----------
    structure : FactorGraph or other model, scopes, or str
        A model (its variables, states, scopes and tied tables), scopes such as ``[("a", "b"), ("b", "c")]``, or
        ``"chow_liu"`` or ``"forest"``.
    method : {"auto", "closed_form", "ipf", "likelihood"}
        ``closed_form``: frequencies of cliques and separators, where scopes have a junction tree. ``ipf``: iterative
        proportional fitting. ``likelihood``: L-BFGS on the likelihood, also with penalties, tied tables, missing
        cells and approximate inference. ``auto`` takes the first that applies: closed form, then likelihood.
    inference : Method or str, optional
        Of ``likelihood``; None: exact where it fits, else ``trw``, whose likelihood is a lower bound.
    l2, l1 : float
        Ridge and lasso of ``likelihood``, relative to the mean log-likelihood of a row.
    ess : float
        Imaginary rows, spread evenly over all joint states, that are added to the real ones.
    hidden : names, or mapping of names to states
        Variables without a column.
    states : mapping, optional
        States of columns, in order, where the structure is no model.
    max_iters, tol, max_bytes, n_jobs, seed, callback, progress
        As of ``BNLearner``; ``tol`` is on the largest difference of marginals and frequencies.

    Attributes
    ----------
    model_ : FactorGraph
    frequencies_ : ndarray (n_cells,)
        What the marginals of an unpenalised maximum are, cell by cell as in ``model_.theta``.
    method_ : str
        What was taken; ``result_.reason`` says why.
    result_ : JointFit
    """

    structure: Any
    method: str = "auto"
    inference: Any = None
    l2: float = 0.0
    l1: float = 0.0
    ess: float = 0.0
    hidden: Any = ()
    states: Any = None
    max_iters: int | None = None
    tol: float | None = None
    max_bytes: float | None = None
    n_jobs: int | None = None
    seed: int | None = None
    callback: Any = None
    progress: bool = False

    def fit(self, data: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows; an error or Ctrl-C leaves the learner as it was."""
        self._check_options()
        structure, tables = self._structure_and_tables(data, sample_weight)
        check_budget(structure, self.max_bytes)
        executor = executor_of(threads_of(self.n_jobs))
        found = gathered(structure, tables, executor)
        layout = structure.layout
        counts = layout.in_cells(found.counts.flat())
        sweep = None
        if found.incomplete is not None:
            sweep = RowSweep(layout, found.incomplete, max_bytes=self.max_bytes, threads=executor.n_workers)
        total = found.counts.total + self.ess
        sizes = np.repeat(layout.factor_size, layout.factor_size)
        imaginary = layout.in_cells(self.ess / sizes) if self.ess else 0.0
        marks = {} if found.incomplete is None else found.incomplete.fingerprint()
        rows = FieldRows((counts + imaginary) / total, total, sweep, marks | {"all rows": f"{total:.17g}"})
        return self._learn(structure, rows)

    def fit_marginals(self, marginals: Mapping[Any, Any]) -> Self:
        """Fit to given marginals, ``{scope: table}`` with one for each factor, without rows."""
        self._check_options()
        graph = given_field(self.structure)
        if graph is None:
            raise ModelError("marginals are of the factors of a model; the structure is none")
        structure = Structure(graph.naming, graph.layout)
        return self._learn(structure, FieldRows(marginal_statistics(structure, marginals), 1.0, None, {}))

    def _learn(self, structure: Structure, rows: FieldRows) -> Self:
        began = time.perf_counter()
        method, reason = self._chosen(structure, rows)
        theta, result = self._fitted(method, structure, rows)
        self.structure_, self.method_ = structure, method
        self.model_: FactorGraph = FactorGraph.build(structure.layout, theta, structure.naming)
        self.frequencies_: Floats = rows.frequencies
        words = reason if method == "closed_form" else f"{result.reason} ({reason})" if reason else result.reason
        self.result_ = replace(result, reason=words, seconds=time.perf_counter() - began)
        self.n_features_in_ = structure.n_vars - len(hidden_states(self.hidden))
        return self

    def _fitted(self, method: str, structure: Structure, rows: FieldRows) -> tuple[Floats, JointFit]:
        free = n_free(structure.layout)
        if method == "closed_form":
            theta = closed_form(structure, rows.frequencies)
            seen = rows.frequencies > 0
            value = float(rows.frequencies[seen] @ theta[seen])
            return theta, JointFit(n_parameters=free, log_likelihood=value, objective=value)
        inference = self._inference(structure) if method == "likelihood" else JunctionTree()
        loss = FieldLikelihood(structure, inference, self.l2)
        if method == "likelihood":
            self._check_maximum(structure, rows)
        found = fit(
            loss, rows, np.zeros(structure.layout.n_cells), optimizer=IPF() if method == "ipf" else "lbfgs", l1=self.l1,
            tol=self.tol, max_iters=self.max_iters, seed=self.seed, callback=self.callback, progress=self.progress,
        )  # fmt: skip
        value = -replace(loss, l2=0.0).evaluate(found.weights, rows).value
        bound = Bound.EXACT if found.bound is None else _TURNED.get(found.bound, found.bound)
        return found.weights, JointFit(
            status=found.status, reason=found.reason, trace=found.trace, n_parameters=free, bound=bound,
            log_likelihood=value, objective=-found.loss, n_iters=found.n_iters,
        )  # fmt: skip

    def _chosen(self, structure: Structure, rows: FieldRows) -> tuple[str, str]:
        """Return the method, and why it was taken."""
        complete = rows.sweep is None
        plain = complete and not self.l2 and not self.l1 and self.inference is None
        if self.method == "closed_form" and not plain:
            raise ModelError("the closed form is of complete rows without penalties; use method='likelihood'")
        if self.method != "auto":
            return self.method, "the field is decomposable" if self.method == "closed_form" else ""
        if plain and not why_not_decomposable(structure):
            return "closed_form", "the field is decomposable, so its maximum is known"
        unseen = complete and not self.l2 and (rows.frequencies == 0).any() and self.inference is None
        if unseen and not self.l1 and not structure.layout.tied and self._fits(structure):
            return "ipf", "some cells never occur, so that the maximum is at infinity, which ipf reaches"
        return "likelihood", "" if self._fits(structure) else "exact inference does not fit"

    def _fits(self, structure: Structure) -> bool:
        layout = structure.layout
        graph = FactorGraph.build(layout, np.zeros(layout.n_cells), structure.naming)
        limit = default_budget() if self.max_bytes is None else self.max_bytes
        try:
            return JunctionTree().n_bytes(Problem(graph)) <= limit
        except BudgetError:
            return False

    def _inference(self, structure: Structure) -> Method:
        if self.inference is not None:
            return named_method(self.inference, "inference")
        return JunctionTree() if self._fits(structure) else named_method("trw")

    def _check_maximum(self, structure: Structure, rows: FieldRows) -> None:
        """Refuse a likelihood whose maximum is at infinity, where that can be seen from single cells."""
        if self.l2 or self.l1 or rows.sweep is not None or not (rows.frequencies == 0).any():
            return
        number = int(np.argmax(rows.frequencies == 0))
        if structure.layout.tied:
            raise ModelError(f"cell {number} of the tied tables never occurs, so the maximum is at infinity; set l2")
        raise ModelError(
            f"{Cell(structure, number)} never occurs, so the maximum is at infinity; set l2 or ess, or use method='ipf'"
        )

    def _structure_and_tables(self, data: Any, weights: ArrayLike | None) -> tuple[Structure, Any]:
        graph, search, hidden = given_field(self.structure), search_of(self.structure), hidden_states(self.hidden)
        data = opened(data)
        if graph is not None:
            if graph.layout.observed.any():
                raise ModelError("a model with evidence is no structure; give it before conditioning")
            structure = Structure(graph.naming, graph.layout)
            if are_chunks(data) and weights is None:
                return structure, chunk_tables(data, graph.naming, hidden)
            return structure, [read_rows(data, graph.naming, hidden=hidden, weights=weights)]
        states = {**(self.states or {}), **{name: labels for name, labels in hidden.items() if labels is not None}}
        table = table_of(data, states=states, hidden=hidden, weights=weights)
        naming = Naming.of(table.names, table.labels, table.card)
        if search is None:
            return field_over(self.structure, naming), [table]
        if search.needs_target or hidden:
            raise ModelError(f"structure={search.name!r} makes no field; use chow_liu, forest or scopes")
        found = search.of(naming, table, check_target(search, naming, None), 0)
        return Structure(naming, found.structure.layout), [table]

    def _check_options(self) -> None:
        check_option(is_word(self.method, _METHODS), "method", f"one of {', '.join(_METHODS)}", self.method)
        for name in ("l2", "l1", "ess"):
            value = getattr(self, name)
            check_option(is_number(value) and 0 <= value < math.inf, name, "a number of at least 0", value)
        check_integer("seed", self.seed, 0, none=True)
        threads_of(self.n_jobs)

    # -- answers --------------------------------------------------------------------------------------------------
    def log_likelihood(self, data: Any) -> LogLikelihood:
        """Return log-likelihoods of rows, and what they are worth."""
        check_is_fitted(self, "model_")
        table = read_rows(opened(data), self.structure_.naming, hidden=hidden_states(self.hidden))
        limit = None if self.max_bytes is None else int(self.max_bytes)
        return log_likelihood(self.model_, table, "auto", max_bytes=limit, threads=threads_of(self.n_jobs))

    def score_samples(self, data: Any) -> Floats:
        """Return the log-probability of each row, missing cells summed out ``(n_rows,)``."""
        return self.log_likelihood(data).per_row

    def score(self, data: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean log-probability of a row."""
        scores = self.score_samples(data)
        weights = row_weights(sample_weight, scores.size)
        return float(np.mean(scores) if weights is None else np.average(scores, weights=weights))

    def sample(self, n: int = 1, seed: int | None = None) -> Ints:
        """Draw rows from the fitted field, codes ``(n, n_vars)``."""
        check_is_fitted(self, "model_")
        return sample(self.model_, n, seed=(self.seed or 0) if seed is None else seed).samples
