"""Bayesian networks learned from a table of rows: tables of a given structure, and trees.

>>> rows = [[0, 0], [0, 0], [0, 1], [1, 1]]
>>> learner = BNLearner([("x0", "x1")], estimate="mle").fit(rows)
>>> learner.model_.cpt("x1").round(3).tolist()
[[0.667, 0.333], [0.0, 1.0]]
>>> learner.predict([[0, -1]]).tolist()
[[0, 0]]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from beliefs.errors import ModelError
from beliefs.inference.rows.posteriors import filled_rows, row_posteriors
from beliefs.inference.rows.sweep import RowSweep, scored_rows
from beliefs.io.files import StrPath
from beliefs.learning.estimators.bins import binned, learned_bins
from beliefs.learning.networks.counts import FamilyCounts, check_budget
from beliefs.learning.networks.estimates import Estimate, estimate_of
from beliefs.learning.networks.fitting import EMOptions, Gathered, fitted_tables, gathered
from beliefs.learning.networks.posterior import credible_interval, posterior_networks
from beliefs.learning.networks.priors import prior_of
from beliefs.learning.networks.result import JointFit
from beliefs.learning.networks.storage import load_learner, save_learner
from beliefs.learning.networks.structure import Structure, given_network, hidden_states, structure_over
from beliefs.learning.networks.trees import check_target, search_of
from beliefs.learning.parallel import Executor, executor_of
from beliefs.learning.rows import opened, table_of
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.naming import Naming
from beliefs.model.rows.reading import are_chunks, chunk_tables, read_rows, row_weights
from beliefs.model.rows.table import RowTable
from beliefs.options import MANY, check_integer, check_option
from beliefs.typing import Floats, Ints, VariableRef

__all__ = ["BNLearner", "threads_of"]


@dataclass(eq=False, repr=False)
class BNLearner(BaseEstimator):  # type: ignore[misc]
    """Tables of a Bayesian network from rows of observations, complete or not.

    Rows are NumPy integers (codes; -1 missing) or floats (nan missing), lists, a pandas frame, a mapping of columns,
    the path of a CSV or Parquet file, or an iterator of chunks of these.

    Parameters
    ----------
    structure : BayesianNetwork, arcs, mapping, or str
        A network (its variables, states and arcs), arcs ``(parent, child)``, ``{child: parents}``, or a search:
        ``"chow_liu"``, ``"forest"``, ``"tan"`` and ``"naive_bayes"`` (below ``target``).
    prior : str, BayesianNetwork, mapping, Prior or None
        ``"bdeu(ess=10)"``, ``"k2"``, ``"laplace"``, ``"dirichlet(alpha=0.5)"``, a network that imaginary rows come from
        (ten of them; :class:`~beliefs.learning.networks.priors.NetworkPrior` for others), or tables by name.
    estimate : {"mean", "map", "mle"}
        Posterior mean or mode, or maximum likelihood (the prior is not used).
    hidden : names, or mapping of names to states
        Variables without a column; with their states where the structure is no network.
    tied : sequence of groups of variables
        Variables of a group share one table.
    fixed : sequence of variables
        Variables that keep the table of the given network.
    states : mapping, optional
        States of columns, in order, where the structure is no network.
    bins : int or mapping, optional
        Into how many bins of equal frequency continuous columns are cut; the cuts are kept for later rows.
    target, root : variable, optional
        The variable to be predicted, of ``"tan"`` and ``"naive_bayes"``; the variable that a tree begins with.
    start : {"random", "model"}
        Where EM starts: random tables, or those of the given network.
    n_restarts : int
        Starts of EM; the best is kept.
    max_iters, tol : optional
        Of EM: iterations, and the relative rise of the objective at which to stop.
    checkpoint : path, optional
        File from which an interrupted EM goes on.
    max_bytes : float, optional
        Memory for tables; None: half of what is available.
    n_jobs : int, optional
        Threads: None means one, -1 all cores. It changes no byte of the answer.
    seed : int, optional
        Of random starts and samples; None means 0.
    callback : callable, optional
        Called with a :class:`~beliefs.learning.result.FitProgress` after each iteration of EM; True stops.
    progress : bool
        Whether to show a line on standard error.

    Attributes
    ----------
    model_ : BayesianNetwork
    counts_ : dict
        Counts of each variable's family, by name, axes as of ``model_.cpt``; a sparse matrix (joint states of the
        parents, states) where cells outnumber rows; expected counts after EM.
    result_ : JointFit
        Status, trace, log-likelihood, number of parameters.
    """

    structure: Any
    prior: Any = "bdeu(ess=10)"
    estimate: str = "mean"
    hidden: Any = ()
    tied: Any = ()
    fixed: Any = ()
    states: Any = None
    bins: Any = None
    target: Any = None
    root: Any = None
    start: str = "random"
    n_restarts: int = 1
    max_iters: int | None = None
    tol: float | None = None
    checkpoint: Any = None
    max_bytes: float | None = None
    n_jobs: int | None = None
    seed: int | None = None
    callback: Any = None
    progress: bool = False

    # -- fitting --------------------------------------------------------------------------------------------------
    def fit(self, data: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows; an error or Ctrl-C leaves the learner as it was."""
        return self._whole(lambda: self._fit(data, sample_weight))

    def partial_fit(self, data: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Add the counts of complete rows to those of earlier calls; states must be known beforehand."""
        return self._whole(lambda: self._partial_fit(data, sample_weight))

    def _whole(self, work: Any) -> Self:
        before = dict(self.__dict__)
        try:
            work()
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, data: Any, sample_weight: ArrayLike | None) -> None:
        self._check_options()
        network = given_network(self.structure)
        naming = None if network is None else network.graph.naming
        names = None if naming is None else [naming.name(v) for v in range(naming.card.size)]
        self.bins_: dict[str, Floats] = learned_bins(data, self.bins, names)
        data = binned(data, self.bins_, names)
        structure, tables, weight = self._structure_and_tables(data, sample_weight)
        check_budget(structure, self.max_bytes)
        estimate = self._estimate(structure)
        self._learn(structure, estimate, gathered(structure, tables, self._executor), weight)

    def _partial_fit(self, data: Any, sample_weight: ArrayLike | None) -> None:
        self._check_options()
        if not hasattr(self, "structure_"):
            self.bins_ = {}
            self._structure = self._known_structure()
        structure = self.structure_ if hasattr(self, "structure_") else self._structure
        check_budget(structure, self.max_bytes)
        table = self._rows(data, structure.naming, sample_weight)
        if table.n_missing.any():
            c = int(np.argmax(table.n_missing > 0))
            row = int(np.argmax(table.codes[c] == table.missing))
            raise ModelError(
                f"column {table.names[c]!r}, row {row}: partial_fit takes complete rows, found a missing cell; use fit"
            )
        found = gathered(structure, [table], self._executor)
        counts = found.counts.plus(self._family_counts) if hasattr(self, "_family_counts") else found.counts
        self._learn(structure, self._estimate(structure), Gathered(counts, None), 0.0)

    def _learn(self, structure: Structure, estimate: Estimate, data: Gathered, tree_weight: float) -> None:
        options = EMOptions(tables=self._given_tables(), **{
            f.name: getattr(self, f.name) for f in fields(EMOptions) if f.name != "tables"
        })  # fmt: skip
        options.check()
        tables, counts, result = fitted_tables(estimate, data, options, self._executor)
        self.structure_, self._family_counts = structure, data.counts
        self.model_: BayesianNetwork = structure.network(tables)
        self._counts = counts
        if data.incomplete is None:
            self.counts_ = data.counts.by_name()
        else:
            layout = structure.layout
            self.counts_ = {
                structure.naming.name(v): counts[layout.cells(v)].reshape(layout.shape(v))
                for v in range(structure.n_vars)
            }
        self.result_ = JointFit(**{f.name: getattr(result, f.name) for f in fields(JointFit)} | {
            "tree_weight": tree_weight
        })  # fmt: skip
        self.n_features_in_ = structure.n_vars - len(hidden_states(self.hidden))

    def _structure_and_tables(
        self, data: Any, sample_weight: ArrayLike | None
    ) -> tuple[Structure, Iterable[RowTable], float]:
        """Return the structure, the rows (chunk by chunk where they come so) and the weight of a tree."""
        network, search, hidden = given_network(self.structure), search_of(self.structure), hidden_states(self.hidden)
        data = opened(data)
        if network is not None:
            structure = Structure(network.graph.naming, network.graph.layout)
            _check_hidden(hidden, structure.naming)
            if are_chunks(data) and sample_weight is None:
                return structure, chunk_tables(data, structure.naming, hidden), 0.0
            return structure, [read_rows(data, structure.naming, hidden=hidden, weights=sample_weight)], 0.0
        states = {**(self.states or {}), **{name: labels for name, labels in hidden.items() if labels is not None}}
        table = table_of(data, states=states, hidden=hidden, weights=sample_weight)
        naming = Naming.of(table.names, table.labels, table.card)
        if search is None:
            return structure_over(self.structure, naming), [table], 0.0
        if hidden:
            raise ModelError(f"structure={search.name!r} is found from columns; hidden variables need given arcs")
        root = 0 if self.root is None else naming.index(self.root)
        found = search.of(naming, table, check_target(search, naming, self.target), root)
        return found.structure, [table], found.weight

    def _known_structure(self) -> Structure:
        """Return a structure that needs no rows."""
        network = given_network(self.structure)
        if network is not None:
            return Structure(network.graph.naming, network.graph.layout)
        if search_of(self.structure) is not None or not self.states:
            raise ModelError("partial_fit needs a network, or arcs and states=: later rows may have further states")
        labels = [tuple(map(str, states)) for states in self.states.values()]
        naming = Naming.of(list(self.states), labels, np.array([len(states) for states in labels], np.int64))
        return structure_over(self.structure, naming)

    def _estimate(self, structure: Structure) -> Estimate:
        network = given_network(self.structure)
        return estimate_of(structure, prior_of(self.prior), self.estimate, self.tied, self.fixed, network)

    def _given_tables(self) -> Floats | None:
        network = given_network(self.structure)
        return None if network is None else np.array(network.probabilities)

    def _check_options(self) -> None:
        threads_of(self.n_jobs)
        check_integer("seed", self.seed, 0, none=True)

    @property
    def _threads(self) -> int:
        return threads_of(self.n_jobs)

    @property
    def _executor(self) -> Executor:
        return executor_of(self._threads)

    # -- answers --------------------------------------------------------------------------------------------------
    def _rows(self, data: Any, naming: Naming, weights: ArrayLike | None = None) -> RowTable:
        names = [naming.name(v) for v in range(naming.card.size)]
        data = binned(opened(data), self.bins_, names)
        return read_rows(data, naming, hidden=hidden_states(self.hidden), weights=weights)

    def score_samples(self, data: Any) -> Floats:
        """Return the log-probability of each row, missing cells summed out ``(n_rows,)``."""
        self._check_fitted()
        table, graph = self._rows(data, self.structure_.naming), self.model_.graph
        scores = scored_rows(graph.layout, graph.theta, table, self._threads)
        if not table.n_missing.any():
            return scores
        sweep = RowSweep(graph.layout, table, max_bytes=self.max_bytes, threads=self._threads)
        return sweep.added_to(scores, sweep.run(self.model_.probabilities, backward=False))

    def score(self, data: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean log-probability of a row."""
        scores = self.score_samples(data)
        weights = row_weights(sample_weight, scores.size)
        return float(np.mean(scores) if weights is None else np.average(scores, weights=weights))

    def predict_proba(self, data: Any, variable: VariableRef) -> Floats:
        """Return the posterior of one variable in each row given the row's other cells, ``(n_rows, states)``."""
        self._check_fitted()
        table, v = self._rows(data, self.structure_.naming), self.model_.index(variable)
        codes = table.codes.copy()
        codes[v] = table.missing
        asked = RowTable(table.names, table.labels, codes)
        where = self.model_.graph.layout.state_ptr
        found = row_posteriors(self.model_.graph, asked, threads=self._threads, max_bytes=self.max_bytes)
        parts = [soft[:, where[v] : where[v + 1]] for _, soft in found]
        return np.concatenate(parts)

    def predict(self, data: Any) -> Any:
        """Return the rows with missing cells filled by their likeliest states, hidden variables included.

        A frame comes back as a frame of labels; anything else as codes ``(n_rows, n_vars)`` in the model's order.
        """
        self._check_fitted()
        table = self._rows(data, self.structure_.naming)
        filled = filled_rows(self.model_.graph, table, threads=self._threads, max_bytes=self.max_bytes)
        if not hasattr(data, "columns"):
            return filled.codes.T.astype(np.int64)
        values = dict(zip(filled.names, filled.labelled(), strict=True))
        order = [*map(str, data.columns), *(name for name in filled.names if name not in set(map(str, data.columns)))]
        return type(data)({name: values[name] for name in order}, index=data.index)

    def sample(self, n: int = 1, seed: int | None = None) -> Ints:
        """Draw rows from the fitted network, codes ``(n, n_vars)``."""
        self._check_fitted()
        return self.model_.sample(n, (self.seed or 0) if seed is None else seed)

    def credible_interval(self, variable: VariableRef, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return lower and upper ends for each number of a variable's table; after EM, of its expected counts."""
        self._check_fitted()
        return credible_interval(self._estimate(self.structure_), self._counts, self.model_.index(variable), level)

    def sample_networks(self, n: int = 1, seed: int | None = None) -> list[BayesianNetwork]:
        """Draw networks from the posterior of the tables."""
        self._check_fitted()
        check_integer("n", n, 1, MANY)
        return posterior_networks(
            self._estimate(self.structure_), self._counts, n, (self.seed or 0) if seed is None else seed
        )

    # -- files ----------------------------------------------------------------------------------------------------
    def save(self, path: StrPath) -> None:
        """Write the fitted learner to an ``.npz`` file, whole or not at all, without pickles."""
        self._check_fitted()
        save_learner(self, path)

    @classmethod
    def load(cls, path: StrPath) -> Self:
        """Read a fitted learner."""
        return load_learner(cls, path)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "model_")

    def _restore(self, structure: Structure, tables: Floats, counts: Floats, total: float, bins: Any) -> None:
        """Take up what a file has kept."""
        self.structure_, self.model_, self._counts, self.bins_ = structure, structure.network(tables), counts, bins
        layout = structure.layout
        parts = tuple(counts[layout.cells(v)] for v in range(layout.n_vars))
        self._family_counts = FamilyCounts(structure, parts, total)
        self.counts_ = self._family_counts.by_name()
        self.n_features_in_ = structure.n_vars - len(hidden_states(self.hidden))


def threads_of(n_jobs: int | None) -> int:
    """Return the number of threads that is meant; raise for one that is not."""
    check_integer("n_jobs", n_jobs, -MANY, MANY, none=True)
    check_option(n_jobs != 0, "n_jobs", "None or an integer other than 0", n_jobs)
    return int(effective_n_jobs(n_jobs))


def _check_hidden(hidden: Iterable[str], naming: Naming) -> None:
    for name in hidden:
        naming.index(name)
