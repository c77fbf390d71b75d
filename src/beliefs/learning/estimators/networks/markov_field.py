"""Markov random fields learned from a table of rows, or from marginals.

>>> rows = [[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0]]
>>> learner = MRFLearner([("x0", "x1"), ("x1", "x2")]).fit(rows)
>>> learner.method_, learner.result_.bound.name, round(learner.score(rows), 6)
('closed_form', 'EXACT', -1.966176)
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from beliefs.errors import ModelError
from beliefs.inference.doors import sample
from beliefs.inference.likelihood import LogLikelihood, log_likelihood
from beliefs.inference.rows.posteriors import filled_rows
from beliefs.inference.rows.sweep import RowSweep
from beliefs.io.files import StrPath
from beliefs.learning.estimators.describing import DescribedEstimator
from beliefs.learning.estimators.networks.options import check_shared_options, given_states
from beliefs.learning.fields.closed_form import closed_form
from beliefs.learning.fields.forms import identifiable, identified, weight_cells
from beliefs.learning.fields.methods import METHODS, ROWS, FieldOptions, chosen, fitted
from beliefs.learning.fields.statistics import FieldRows, field_over, given_field, marginal_statistics, n_free
from beliefs.learning.fields.storage import LearnedField, load_field, save_field
from beliefs.learning.networks.counts import FamilyCounts, check_budget
from beliefs.learning.networks.fitting import gathered
from beliefs.learning.networks.result import JointFit
from beliefs.learning.networks.structure import Structure, hidden_states
from beliefs.learning.networks.trees import check_target, search_of
from beliefs.learning.parallel import executor_of, threads_of
from beliefs.learning.rows import filled_like, joined_rows, opened, table_of
from beliefs.model.graph import FactorGraph
from beliefs.model.naming import Naming
from beliefs.model.rows.columns import are_chunks
from beliefs.model.rows.reading import chunk_tables, read_rows, row_weights
from beliefs.model.rows.table import RowTable
from beliefs.options import MANY, check_integer, check_number, check_option, is_word
from beliefs.typing import Floats, Ints

__all__ = ["MRFLearner"]


@dataclass(eq=False, repr=False)
class MRFLearner(DescribedEstimator, BaseEstimator):  # type: ignore[misc]
    """Log potentials of a Markov random field from rows of observations.

    Rows are as of :class:`~beliefs.learning.estimators.networks.bayes_net.BNLearner`; they enter as sufficient
    statistics.

    Parameters
    ----------
    structure : FactorGraph or other model, scopes, or str
        A model (its variables, states, scopes and tied tables), scopes such as ``[("a", "b"), ("b", "c")]``, or
        ``"chow_liu"`` or ``"forest"``.
    method : str
        ``closed_form``: frequencies of cliques and separators, where scopes have a junction tree. ``ipf``: iterative
        proportional fitting. ``likelihood``: L-BFGS on the likelihood, also with penalties, tied tables, missing
        cells and, as a surrogate, the log Z of any ``inference``. ``em``: for missing cells and hidden variables.
        ``pseudo_likelihood``, ``composite_likelihood``, ``minimum_probability_flow``: losses without log Z.
        ``stochastic_likelihood``, ``contrastive_divergence``: gradients from Markov chains. ``auto`` takes the first
        that applies: closed form; ``ipf`` where cells never occur; ``likelihood`` where exact inference fits; else
        ``pseudo_likelihood``, or with missing cells ``likelihood`` with ``trw``.
    inference : Method or str, optional
        Of ``likelihood`` and ``em``; None: exact where it fits, else ``trw``, whose likelihood is a lower bound.
    form : {"tables", "identifiable"}
        What is fitted: all cells of all tables, or of a pairwise field K - 1 weights a vertex and (K - 1)^2 an edge,
        to which penalties then apply; see :mod:`beliefs.learning.fields.forms`.
    l2, l1 : float
        Ridge and lasso, relative to the mean log-likelihood of a row.
    ess : float
        Imaginary rows, spread evenly over all joint states, that are added to the frequencies of the real ones.
    hidden : names, or mapping of names to states
        Variables without a column.
    states : mapping, optional
        States of columns, in order, where the structure is no model.
    components : str or list of lists
        Sets of ``composite_likelihood``: a word of :mod:`beliefs.learning.losses.components`, or variables.
    sweeps, chains : int
        Gibbs sweeps an update (None: 5 of ``stochastic_likelihood``, 1 of ``contrastive_divergence``), and chains.
    optimizer : Optimizer or str, optional
        Of the losses; None: ``lbfgs``, and ``adam(step=0.1, t0=100, average=True)`` for sampled gradients.
    n_restarts : int
        Random starts, of which the best is kept; with hidden variables all starts are random.
    max_iters, tol, max_bytes, n_jobs, seed, callback, progress
        As of ``BNLearner``; ``tol`` is on the largest entry of the gradient: that of the likelihood is the largest
        difference of marginals and frequencies.

    Attributes
    ----------
    model_ : FactorGraph
    counts_ : dict
        How often each factor's cells occur, by the names of its scope, axes in its order; a sparse matrix where cells
        outnumber rows. Rows count for the factors that they observe whole.
    frequencies_ : ndarray (n_cells,)
        What the marginals of an unpenalised maximum are, cell by cell as in ``model_.theta``.
    weights_ : ndarray
        Of ``form="identifiable"``: the weights of all vertices, then those of the edges in the model's order.
    method_ : str
        What was taken; ``result_.reason`` says why.
    result_ : JointFit
    """

    structure: Any
    method: str = "auto"
    inference: Any = None
    form: str = "tables"
    l2: float = 0.0
    l1: float = 0.0
    ess: float = 0.0
    hidden: Any = ()
    states: Any = None
    components: Any = "acyclic"
    sweeps: int | None = None
    chains: int = 100
    optimizer: Any = None
    n_restarts: int = 1
    max_iters: int | None = None
    tol: float | None = None
    max_bytes: float | None = None
    n_jobs: int | None = None
    seed: int | None = None
    callback: Any = None
    progress: bool = False

    directed: ClassVar[bool] = False
    """Whether a structure is made of arcs; False: of scopes."""

    def fit(self, data: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows; an error or Ctrl-C leaves the learner as it was."""
        self._check_options()
        given, tables = self._structure_and_tables(data, sample_weight)
        structure = self._formed(given)
        check_budget(structure, self.max_bytes)
        needed = self.method in ROWS or (self.method == "auto" and not self._options(structure).fits(structure))
        if needed:
            tables = [joined_rows(list(tables))]
        executor = executor_of(threads_of(self.n_jobs))
        found = gathered(structure, tables, executor)
        layout = structure.layout
        counts = layout.in_cells(found.counts.flat())
        sweep = None
        if found.incomplete is not None:
            sweep = RowSweep(layout, found.incomplete, max_bytes=self.max_bytes, threads=executor.n_workers)
        real = found.counts.total
        sizes = np.repeat(layout.factor_size, layout.factor_size)
        imaginary = layout.in_cells(self.ess / sizes) if self.ess else 0.0
        marks = {} if found.incomplete is None else found.incomplete.fingerprint()
        rows = FieldRows(
            (counts + imaginary) / (real + self.ess), real + self.ess, sweep, marks | {"all rows": f"{real:.17g}"},
            tables[0] if needed else None, real,
        )  # fmt: skip
        return self._learn(structure, rows, found.counts)

    def fit_marginals(self, marginals: Mapping[Any, Any]) -> Self:
        """Fit to given marginals, ``{scope: table}`` with one for each factor, without rows."""
        self._check_options()
        graph = given_field(self.structure)
        if graph is None:
            raise ModelError("marginals are of the factors of a model; the structure is none")
        structure = Structure(graph.naming, graph.layout)
        return self._learn(structure, FieldRows(marginal_statistics(structure, marginals), 1.0, None, {}), None)

    def _learn(self, structure: Structure, rows: FieldRows, counts: FamilyCounts | None) -> Self:
        began = time.perf_counter()
        options = self._options(structure)
        method, reason = chosen(self.method, structure, rows, options)
        if self.ess and method in ROWS:
            raise ModelError(f"imaginary rows (ess) are frequencies, and {method} looks at rows; set l2 instead")
        if method == "closed_form":
            theta = closed_form(structure, rows.frequencies)
            seen = rows.frequencies > 0
            value = float(rows.frequencies[seen] @ theta[seen])
            result = JointFit(n_parameters=0, log_likelihood=value, objective=value)
        else:
            theta, result = fitted(method, structure, rows, options)
        if self.form == "identifiable":
            theta = identified(structure.layout, theta)
        words = reason if method == "closed_form" else f"{result.reason} ({reason})" if reason else result.reason
        free, seconds = n_free(structure.layout), time.perf_counter() - began
        self._restore(LearnedField(structure, method, theta, rows.frequencies, counts))
        self.result_ = replace(result, reason=words, n_parameters=free, seconds=seconds)
        return self

    def _learned(self) -> LearnedField:
        """Return what a file keeps."""
        return LearnedField(self.structure_, self.method_, self.model_.theta, self.frequencies_, self._counts)

    def _restore(self, learned: LearnedField) -> None:
        """Take up what was fitted, or what a file has kept."""
        structure, theta, layout = learned.structure, learned.theta, learned.structure.layout
        self.structure_, self.method_, self._counts = structure, learned.method, learned.counts
        self.model_: FactorGraph = FactorGraph.build(layout, theta, structure.naming)
        self.frequencies_: Floats = learned.frequencies
        if self.form == "identifiable":
            self.weights_: Floats = theta[weight_cells(layout)]
        self.n_features_in_ = structure.n_vars - len(hidden_states(self.hidden))

    @property
    def counts_(self) -> dict[tuple[str, ...], Any]:
        """Counts of cells by scope."""
        check_is_fitted(self, "model_")
        if self._counts is None:
            raise ModelError("the field was fitted to marginals; there are no counts")
        layout, naming = self.structure_.layout, self.structure_.naming
        return {
            tuple(naming.name(int(v)) for v in layout.scope(f)): table.reshape(layout.shape(f))
            if isinstance(table, np.ndarray)
            else table
            for f, table in enumerate(self._counts.tables)
        }

    def _formed(self, structure: Structure) -> Structure:
        return identifiable(structure) if self.form == "identifiable" else structure

    def _options(self, structure: Structure) -> FieldOptions:
        own = {f.name: getattr(self, f.name) for f in fields(FieldOptions) if f.name not in ("threads", "free")}
        held = self.form == "identifiable" and (
            self.l2 or self.l1
        )  # else any tables do, and are written anew at the end
        free = weight_cells(structure.layout) if held else None
        return FieldOptions(threads=threads_of(self.n_jobs), free=free, **own)

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
        states = given_states(self.states) | {name: labels for name, labels in hidden.items() if labels is not None}
        table = table_of(data, states=states, hidden=hidden, weights=weights)
        naming = Naming.of(table.names, table.labels, table.card)
        if search is None:
            return field_over(self.structure, naming), [table]
        if search.needs_target or hidden:
            raise ModelError(f"structure={search.name!r} makes no field; use chow_liu, forest or scopes")
        found = search.of(naming, table, check_target(search, naming, None), 0)
        return Structure(naming, found.structure.layout), [table]

    def _check_options(self) -> None:
        check_option(is_word(self.method, METHODS), "method", f"one of {', '.join(METHODS)}", self.method)
        check_option(is_word(self.form, ("tables", "identifiable")), "form", "tables or identifiable", self.form)
        check_integer("chains", self.chains, 1, MANY)
        check_integer("sweeps", self.sweeps, 1, MANY, none=True)
        for name in ("l2", "l1", "ess"):
            check_number(name, getattr(self, name))
        check_shared_options(self)

    def _rows(self, data: Any) -> RowTable:
        check_is_fitted(self, "model_")
        return read_rows(opened(data), self.structure_.naming, hidden=hidden_states(self.hidden))

    # -- answers --------------------------------------------------------------------------------------------------
    def log_likelihood(self, data: Any) -> LogLikelihood:
        """Return log-likelihoods of rows, and what they are worth."""
        check_is_fitted(self, "model_")
        table = self._rows(data)
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

    def predict(self, data: Any) -> Any:
        """Return the rows with missing cells filled by their likeliest states, hidden variables included.

        A frame comes back as a frame of labels; anything else as codes ``(n_rows, n_vars)`` in the model's order.
        """
        table = self._rows(data)
        filled = filled_rows(self.model_, table, threads=threads_of(self.n_jobs), max_bytes=self.max_bytes)
        return filled_like(data, filled)

    # -- files ----------------------------------------------------------------------------------------------------
    def save(self, path: StrPath) -> None:
        """Write the fitted learner to an ``.npz`` file, whole or not at all, without pickles."""
        check_is_fitted(self, "model_")
        save_field(self, path)

    @classmethod
    def load(cls, path: StrPath) -> Self:
        """Read a fitted learner; how it was fitted (``result_``) is not in the file."""
        return load_field(cls, path)
