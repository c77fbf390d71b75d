"""What a learner of networks answers once it is fitted: scores of rows, missing cells, samples, the posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from beliefs.inference.rows.posteriors import Evidence, filled_rows, row_posteriors
from beliefs.inference.rows.sweep import RowSweep, scored_rows
from beliefs.learning.estimators.networks.bins import binned
from beliefs.learning.estimators.networks.leaf_columns import drawn_leaves, joined_columns
from beliefs.learning.networks.estimates import Estimate
from beliefs.learning.networks.gaussian import FittedLeaf, GaussianLeaf
from beliefs.learning.networks.leaf_rows import LeafRows, leaf_values
from beliefs.learning.networks.leaves import Leaves, checked_leaves
from beliefs.learning.networks.posterior import credible_interval, posterior_networks
from beliefs.learning.networks.structure import Structure, hidden_states
from beliefs.learning.rows import filled_like, opened
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.naming import Naming
from beliefs.model.rows.columns import CodedColumn, without_column
from beliefs.model.rows.reading import read_rows, row_weights
from beliefs.model.rows.table import RowTable
from beliefs.options import MANY, check_integer
from beliefs.typing import Floats, VariableRef

__all__ = ["NetworkAnswers"]


class NetworkAnswers:
    """The questions that a fitted learner answers; its options and what it has learned are the learner's."""

    if TYPE_CHECKING:
        hidden: Any
        leaves: Any
        max_bytes: float | None
        seed: int | None
        model_: BayesianNetwork
        structure_: Structure
        leaves_: dict[str, FittedLeaf]
        bins_: dict[str, Floats]
        _leaves: Leaves | None
        _weights: Floats
        _counts: Floats
        _column_names: list[str] | None
        _threads: int

        def _estimate(self, structure: Structure) -> Estimate: ...

    def _rows_and_leaves(
        self, data: Any, naming: Naming, weights: ArrayLike | None = None, *, asked: bool = False
    ) -> tuple[RowTable, list[Floats]]:
        """Return rows over the variables, and the numbers of leaves; what is asked may lack columns: unknown cells."""
        names, leaves = [naming.name(v) for v in range(naming.card.size)], checked_leaves(self.leaves)
        data, values = opened(data), list[Floats]()
        if leaves:
            data, values = self._split(data, leaves, naming)
        data = binned(data, self.bins_, names)
        hidden = {*hidden_states(self.hidden), *(without_column(data, naming) if asked else ())}
        return read_rows(data, naming, hidden=hidden, weights=weights), values

    def _split(
        self, data: Any, leaves: dict[str, GaussianLeaf], naming: Naming | None
    ) -> tuple[dict[str, Any], list[Floats]]:
        """Return the discrete columns, those of hidden variables too, and the numbers of leaves."""
        hidden = hidden_states(self.hidden)
        if naming is not None:
            hidden = {name: naming.states(naming.index(name)) for name in hidden}
        names = self._column_names
        if names is None and naming is not None:
            names = [naming.name(v) for v in range(naming.card.size)]
            names += [column for leaf in leaves.values() for column in leaf.column_names]
        columns = joined_columns(data, names, hidden)
        if naming is None:
            self._column_names = list(columns)
        values = leaf_values(leaves, columns)
        apart = {column for leaf in leaves.values() for column in leaf.column_names}
        rest = {name: column for name, column in columns.items() if name not in apart}
        for name, labels in hidden.items():
            if labels is not None and name not in rest:
                rest[name] = CodedColumn(np.full(len(values[0]), -1), labels, -1)
        return rest, values

    def _evidence(self, data: Any) -> tuple[RowTable, Evidence | None, Floats | None]:
        """Return rows, the soft evidence of their leaves, and the logs it was divided by."""
        table, values = self._rows_and_leaves(data, self.structure_.naming, asked=True)
        if self._leaves is None:
            return table, None, None
        numbers = self._weights[self.structure_.layout.n_cells :]
        soft, shift = LeafRows(self._leaves, table, values).evidence(numbers)
        return table, (self._leaves.layout, soft), shift

    def score_samples(self, data: Any) -> Floats:
        """Return the log-probability of each row, missing cells summed out ``(n_rows,)``; with leaves, log density."""
        self._check_fitted()
        (table, evidence, shift), graph = self._evidence(data), self.model_.graph
        scores = scored_rows(graph.layout, graph.theta, table, self._threads)
        scores = scores if shift is None else scores + shift
        if not table.n_missing.any():
            return scores
        layout, soft = evidence or (None, None)
        sweep = RowSweep(graph.layout, table, soft=layout, max_bytes=self.max_bytes, threads=self._threads)
        return sweep.added_to(scores, sweep.run(self.model_.probabilities, soft, backward=False))

    def score(self, data: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean log-probability of a row."""
        scores = self.score_samples(data)
        weights = row_weights(sample_weight, scores.size)
        return float(np.mean(scores) if weights is None else np.average(scores, weights=weights))

    def predict_proba(self, data: Any, variable: VariableRef) -> Floats:
        """Return the posterior of one variable in each row given the row's other cells, ``(n_rows, states)``."""
        self._check_fitted()
        table, values = self._rows_and_leaves(data, self.structure_.naming, asked=True)
        v = self.model_.index(variable)
        codes = table.codes.copy()
        codes[v] = table.missing
        asked = RowTable(table.names, table.labels, codes)
        evidence = None
        if self._leaves is not None:
            numbers = self._weights[self.structure_.layout.n_cells :]
            evidence = self._leaves.layout, LeafRows(self._leaves, asked, values).evidence(numbers)[0]
        where = self.model_.graph.layout.state_ptr
        found = row_posteriors(
            self.model_.graph, asked, evidence=evidence, threads=self._threads, max_bytes=self.max_bytes
        )
        parts = [soft[:, where[v] : where[v + 1]] for _, soft in found]
        return np.minimum(np.concatenate(parts), 1.0)  # which rounding may be above, and scikit-learn refuses

    def predict(self, data: Any) -> Any:
        """Return the rows with missing cells filled by their likeliest states, hidden variables and absent columns too.

        A frame comes back as a frame of labels, with columns of leaves as they were; anything else as codes
        ``(n_rows, n_vars)`` in the model's order.
        """
        self._check_fitted()
        data = data.compute() if hasattr(data, "to_delayed") else data
        table, evidence, _ = self._evidence(data)
        filled = filled_rows(
            self.model_.graph, table, evidence=evidence, threads=self._threads, max_bytes=self.max_bytes
        )
        return filled_like(data, filled, [name for leaf in self.leaves_.values() for name in leaf.columns])

    def sample(self, n: int = 1, seed: int | None = None) -> Any:
        """Draw rows from the fitted network, codes ``(n, n_vars)``; with leaves, a mapping of names to columns."""
        self._check_fitted()
        seed = (self.seed or 0) if seed is None else seed
        codes = self.model_.sample(n, seed)
        if self._leaves is None:
            return codes
        columns: dict[str, Any] = {variable.name: codes[:, v] for v, variable in enumerate(self.model_.variables)}
        return columns | drawn_leaves(self.leaves_, columns, seed)

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

    def _check_fitted(self) -> None:
        check_is_fitted(self, "model_")
