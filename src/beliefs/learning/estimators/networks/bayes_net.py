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
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from beliefs.errors import ModelError
from beliefs.io.files import StrPath
from beliefs.learning.estimators.describing import DescribedEstimator
from beliefs.learning.estimators.networks.bins import binned, learned_bins
from beliefs.learning.estimators.networks.network_answers import NetworkAnswers
from beliefs.learning.estimators.networks.options import check_shared_options, given_states
from beliefs.learning.estimators.unchanged import unchanged_by_errors
from beliefs.learning.networks.counts import FamilyCounts, check_budget
from beliefs.learning.networks.em import MissingRows, NetworkLikelihood
from beliefs.learning.networks.estimates import Estimate, estimate_of
from beliefs.learning.networks.fitting import (
    EMOptions,
    Gathered,
    fitted_tables,
    gathered,
    missing_rows,
    start_of,
    with_leaves,
)
from beliefs.learning.networks.leaves import Leaves, checked_leaves
from beliefs.learning.networks.partitions import gathered_partitions, partitions_of
from beliefs.learning.networks.priors import prior_of
from beliefs.learning.networks.stepwise import Stream, stepped
from beliefs.learning.networks.storage import LearnedNetwork, load_learner, save_learner
from beliefs.learning.networks.structure import Structure, given_network, hidden_states, structure_over
from beliefs.learning.networks.trees import check_target, search_of
from beliefs.learning.parallel import Executor, executor_of, threads_of
from beliefs.learning.rows import opened, table_of
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.naming import Naming
from beliefs.model.rows.columns import are_chunks
from beliefs.model.rows.reading import chunk_tables, read_rows
from beliefs.model.rows.table import RowTable
from beliefs.options import check_option, is_iterable, is_number
from beliefs.typing import Floats

__all__ = ["BNLearner"]


@dataclass(eq=False, repr=False)
class BNLearner(DescribedEstimator, NetworkAnswers, BaseEstimator):  # type: ignore[misc]
    """Tables of a Bayesian network from rows of observations, complete or not.

    Rows are NumPy integers (codes; -1 missing) or floats (nan missing), lists, dicts, a pandas frame, a mapping of
    columns, the path of a CSV or Parquet file, or an iterator of chunks of these.

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
    tied : sequence of groups of variables, or of leaves
        Variables of a group share one table, leaves their means and covariances.
    fixed : sequence of variables
        Variables that keep the table of the given network.
    states : mapping, optional
        States of columns, in order, where the structure is no network.
    leaves : mapping of names to GaussianLeaf, optional
        Columns of numbers that are normal given discrete parents.
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
    step_power : float
        Of ``partial_fit`` with missing cells: how fast steps fall, above 0.5 and up to 1.
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
    leaves_ : dict
        The fitted leaves, by name.
    """

    structure: Any
    prior: Any = "bdeu(ess=10)"
    estimate: str = "mean"
    hidden: Any = ()
    tied: Any = ()
    fixed: Any = ()
    states: Any = None
    leaves: Any = None
    bins: Any = None
    target: Any = None
    root: Any = None
    start: str = "random"
    n_restarts: int = 1
    max_iters: int | None = None
    tol: float | None = None
    step_power: float = 0.7
    checkpoint: Any = None
    max_bytes: float | None = None
    n_jobs: int | None = None
    seed: int | None = None
    callback: Any = None
    progress: bool = False

    directed: ClassVar[bool] = True
    """Whether a structure is made of arcs; False: of scopes."""

    # -- fitting --------------------------------------------------------------------------------------------------
    def fit(self, data: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows; an error or Ctrl-C leaves the learner as it was."""
        with unchanged_by_errors(self):
            self._fit(data, sample_weight)
        return self

    def partial_fit(self, data: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Add the counts of rows to those of earlier calls; states must be known beforehand.

        Missing cells are one step of stepwise EM: see :mod:`beliefs.learning.networks.stepwise`.
        """
        with unchanged_by_errors(self):
            self._partial_fit(data, sample_weight)
        return self

    def _fit(self, data: Any, sample_weight: ArrayLike | None) -> None:
        self._check_options()
        network = given_network(self.structure)
        naming = None if network is None else network.graph.naming
        names = None if naming is None else [naming.name(v) for v in range(naming.card.size)]
        self._column_names: list[str] | None = None
        leaves, values = checked_leaves(self.leaves), list[Floats]()
        parts = partitions_of(data)
        if parts is not None and network is not None and sample_weight is None and not leaves and self.bins is None:
            self.bins_ = {}
            return self._learn_partitions(network, parts)
        if leaves:
            data, values = self._split(opened(data), leaves, naming)
        self.bins_: dict[str, Floats] = learned_bins(data, self.bins, names)
        data = binned(data, self.bins_, names)
        structure, tables, weight = self._structure_and_tables(data, sample_weight)
        check_budget(structure, self.max_bytes)
        if not leaves:
            loss = NetworkLikelihood(self._estimate(structure))
            return self._learn(loss, gathered(structure, tables, self._executor), weight)
        (table,) = tables
        bound = Leaves.of(structure, leaves, self._tied_leaves(), values)
        loss = NetworkLikelihood(self._estimate(structure), bound)
        found = gathered(structure, [table], self._executor, merge=False)
        return self._learn(loss, with_leaves(found, bound, table, values), weight)

    def _learn_partitions(self, network: BayesianNetwork, parts: list[Any]) -> None:
        """Learn from rows that stay where they are."""
        structure, hidden = Structure(network.graph.naming, network.graph.layout), hidden_states(self.hidden)
        _check_hidden(hidden, structure.naming)
        check_budget(structure, self.max_bytes)
        loss = NetworkLikelihood(self._estimate(structure))
        self._learn(loss, gathered_partitions(structure, parts, hidden), 0.0)

    def _learn(self, loss: NetworkLikelihood, data: Gathered, tree_weight: float) -> None:
        options = self._em_options()
        options.check()
        weights, expected, result = fitted_tables(loss, data, options, self._executor)
        whole = data.counts.flat() if data.sums is None else np.concatenate([data.counts.flat(), data.sums])
        stream = Stream(np.zeros(loss.n_weights))
        if data.incomplete is not None and data.incomplete.total:
            stream = Stream((expected - whole) / data.incomplete.total, data.incomplete.total)
        self._take(loss, data.counts, data.sums, (weights, expected), stream)
        self.result_ = replace(result, tree_weight=tree_weight)

    def _partial_fit(self, data: Any, sample_weight: ArrayLike | None) -> None:
        self._check_options()
        fresh = not hasattr(self, "structure_")
        if fresh:
            self.bins_, self._column_names = {}, None
        structure = self._known_structure() if fresh else self.structure_
        check_budget(structure, self.max_bytes)
        table, values = self._rows_and_leaves(data, structure.naming, sample_weight)
        leaves = checked_leaves(self.leaves)
        bound = (
            None if not leaves else Leaves.of(structure, leaves, self._tied_leaves(), values) if fresh else self._leaves
        )
        found = gathered(structure, [table], self._executor, merge=bound is None)
        if bound is not None:
            found = with_leaves(found, bound, table, values)
        if found.incomplete is not None and not found.incomplete.total:  # rows without weight
            found = replace(found, incomplete=None)
        loss = NetworkLikelihood(self._estimate(structure), bound)
        counts = found.counts if fresh else found.counts.plus(self._family_counts)
        sums = found.sums if fresh or found.sums is None or self._sums is None else found.sums + self._sums
        stream = Stream(np.zeros(loss.n_weights)) if fresh else self._stream
        if found.incomplete is None and not stream.weight:
            return self._learn(loss, replace(found, counts=counts, sums=sums), 0.0)
        whole = counts.flat() if sums is None else np.concatenate([counts.flat(), sums])
        if found.incomplete is None:
            expected = whole + stream.weight * stream.mean
            weights, result = loss.maximised(expected), self.result_
        else:
            options = self._em_options()
            options.check()
            rows = missing_rows(loss, found, self.max_bytes, self._executor)
            now = start_of(loss, rows, options, 0, values) if fresh else self._weights
            batch = MissingRows(
                np.zeros(loss.n_cells), rows.total, rows.rows, rows.sweep, rows.columns,
                None if sums is None else np.zeros(sums.size),
            )  # fmt: skip
            weights, expected, stream, result = stepped(loss, whole, batch, now, stream, self.step_power)
        self._take(loss, counts, sums, (weights, expected), stream)
        self.result_ = result

    def _take(
        self, loss: NetworkLikelihood, counts: FamilyCounts, sums: Floats | None, found: tuple[Floats, Floats],
        stream: Stream,
    ) -> None:  # fmt: skip
        """Keep what was found: tables and leaves, and the statistics that they follow from."""
        structure, n = counts.structure, loss.n_cells
        self._weights, self._stream, self._sums, self._leaves = found[0], stream, sums, loss.leaves
        self.structure_, self._family_counts, self._counts = structure, counts, found[1][:n]
        self.model_: BayesianNetwork = structure.network(found[0][:n])
        expected = FamilyCounts(structure, tuple(
            self._counts[structure.layout.cells(v)] for v in range(structure.n_vars)
        ), counts.total)  # fmt: skip
        self.counts_ = (expected if stream.weight else counts).by_name()
        self.leaves_ = {} if loss.leaves is None else loss.leaves.fitted(found[0][n:], structure.naming)
        self.n_features_in_ = structure.n_vars - len(hidden_states(self.hidden)) + sum(
            len(leaf.columns) for leaf in self.leaves_.values()
        )  # fmt: skip

    def _em_options(self) -> EMOptions:
        return EMOptions(tables=self._given_tables(), **{
            f.name: getattr(self, f.name) for f in fields(EMOptions) if f.name != "tables"
        })  # fmt: skip

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
        states = given_states(self.states) | {name: labels for name, labels in hidden.items() if labels is not None}
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
        leaves = checked_leaves(self.leaves)
        tied = [group for group in self.tied if not any(name in leaves for name in group)]
        return estimate_of(structure, prior_of(self.prior), self.estimate, tied, self.fixed, network)

    def _tied_leaves(self) -> list[Any]:
        leaves = checked_leaves(self.leaves)
        groups = [group for group in self.tied if any(name in leaves for name in group)]
        for group in groups:
            other = [name for name in group if name not in leaves]
            if other:
                raise ModelError(f"{other[0]!r} is no leaf and cannot be tied to one")
        return groups

    def _given_tables(self) -> Floats | None:
        network = given_network(self.structure)
        return None if network is None else np.array(network.probabilities)

    def _check_options(self) -> None:
        check_shared_options(self)
        for name, what in (("tied", "a list of groups of variables"), ("fixed", "a list of variables")):
            value = getattr(self, name)
            check_option(is_iterable(value) and not isinstance(value, str), name, what, value)
        power = self.step_power
        check_option(is_number(power) and 0.5 < power <= 1, "step_power", "above 0.5 and up to 1", power)

    @property
    def _threads(self) -> int:  # type: ignore[override]
        return threads_of(self.n_jobs)

    @property
    def _executor(self) -> Executor:
        return executor_of(self._threads)

    # -- files ----------------------------------------------------------------------------------------------------
    def save(self, path: StrPath) -> None:
        """Write the fitted learner to an ``.npz`` file, whole or not at all, without pickles."""
        self._check_fitted()
        save_learner(self, path)

    @classmethod
    def load(cls, path: StrPath) -> Self:
        """Read a fitted learner."""
        return load_learner(cls, path)

    def _learned(self) -> LearnedNetwork:
        """Return what a file keeps."""
        counts, leaves = self._family_counts, self._leaves
        origins, overall = ((), ()) if leaves is None else (leaves.origins, leaves.overall)
        return LearnedNetwork(
            self.structure_, self._weights, counts.flat(), self._counts, counts.total, self._stream, self._sums,
            origins, overall, self._column_names, self.bins_,
        )  # fmt: skip

    def _restore(self, learned: LearnedNetwork) -> None:
        """Take up what a file has learned."""
        structure = learned.structure
        self.bins_, self._column_names = learned.cuts, learned.column_names
        layout, leaves = structure.layout, checked_leaves(self.leaves)
        bound = (
            Leaves.bound(structure, leaves, self._tied_leaves(), learned.origins, learned.overall) if leaves else None
        )
        loss = NetworkLikelihood(self._estimate(structure), bound)
        parts = tuple(learned.counts[layout.cells(v)] for v in range(layout.n_vars))
        counts = FamilyCounts(structure, parts, learned.total)
        self._take(loss, counts, learned.sums, (learned.weights, learned.expected), learned.stream)


def _check_hidden(hidden: Iterable[str], naming: Naming) -> None:
    for name in hidden:
        naming.index(name)
