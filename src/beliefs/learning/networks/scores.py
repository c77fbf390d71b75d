r"""How well a structure fits complete rows: decomposable scores, larger is better, natural logarithms.

With counts :math:`N_{jk}` of joint state j of the parents and state k, r states, q joint states of the parents:

.. math::
    \text{log\_likelihood} &= \textstyle\sum_{jk} N_{jk} \log (N_{jk} / N_j) \\
    \text{aic} &= \text{log\_likelihood} - q (r - 1), \qquad
    \text{bic} = \text{log\_likelihood} - \tfrac12 \log N \cdot q (r - 1) \\
    \text{bdeu, k2} &= \textstyle\sum_j \log \frac{\Gamma(\alpha_j)}{\Gamma(\alpha_j + N_j)}
        + \sum_{jk} \log \frac{\Gamma(\alpha_{jk} + N_{jk})}{\Gamma(\alpha_{jk})}

with :math:`\alpha_{jk} = ess / (q r)` for bdeu [heckerman1995] and 1 for k2 [cooper1992]. Networks with the same
independences have the same log_likelihood, aic, bic and bdeu. Cost: the counting; sparse counts are enough.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.inference.base import written
from beliefs.inference.text import parse
from beliefs.learning.networks.counts import FamilyCounts, count
from beliefs.learning.networks.structure import given_network, structure_over
from beliefs.learning.parallel import executor_of
from beliefs.learning.rows import table_of
from beliefs.model.naming import Naming
from beliefs.model.rows.table import RowTable
from beliefs.options import check_number
from beliefs.typing import Floats

__all__ = ["SCORES", "FamilyScore", "structure_score"]


@dataclass(frozen=True, kw_only=True, repr=False)
class FamilyScore(ABC):
    """A score that is a sum over families."""

    name: ClassVar[str]

    @abstractmethod
    def of(self, counts: Floats, sums: Floats, card: int, n_columns: int, total: float) -> float:
        """Return the score of one family from its positive counts and those of its parents' states."""

    def __repr__(self) -> str:
        return written(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class LogLikelihoodScore(FamilyScore):
    """The largest log-likelihood."""

    name: ClassVar[str] = "log_likelihood"

    def of(self, counts: Floats, sums: Floats, card: int, n_columns: int, total: float) -> float:
        """Return sum N log N - sum N_j log N_j."""
        return float(counts @ np.log(counts) - sums @ np.log(sums))


@dataclass(frozen=True, kw_only=True, repr=False)
class AIC(LogLikelihoodScore):
    """Akaike's criterion, halved and turned around."""

    name: ClassVar[str] = "aic"

    def of(self, counts: Floats, sums: Floats, card: int, n_columns: int, total: float) -> float:
        """Take one for every free number."""
        return super().of(counts, sums, card, n_columns, total) - n_columns * (card - 1)


@dataclass(frozen=True, kw_only=True, repr=False)
class BIC(LogLikelihoodScore):
    """Schwarz's criterion, halved and turned around."""

    name: ClassVar[str] = "bic"

    def of(self, counts: Floats, sums: Floats, card: int, n_columns: int, total: float) -> float:
        """Take half the log of the rows for every free number."""
        return super().of(counts, sums, card, n_columns, total) - 0.5 * math.log(total) * n_columns * (card - 1)


@dataclass(frozen=True, kw_only=True, repr=False)
class BDeuScore(FamilyScore):
    """The marginal likelihood under the prior ``bdeu(ess)``."""

    ess: float = 10.0

    name: ClassVar[str] = "bdeu"

    def __post_init__(self) -> None:
        check_number("ess", self.ess, positive=True)

    def of(self, counts: Floats, sums: Floats, card: int, n_columns: int, total: float) -> float:
        """Return the ratio of Gamma functions with ess spread over the cells."""
        return _marginal(counts, sums, self.ess / (n_columns * card), self.ess / n_columns)


@dataclass(frozen=True, kw_only=True, repr=False)
class K2Score(FamilyScore):
    """The marginal likelihood with one imaginary row in every cell."""

    name: ClassVar[str] = "k2"

    def of(self, counts: Floats, sums: Floats, card: int, n_columns: int, total: float) -> float:
        """Return the ratio of Gamma functions with ones."""
        return _marginal(counts, sums, 1.0, float(card))


def _marginal(counts: Floats, sums: Floats, alpha: float, alpha_sum: float) -> float:
    from scipy.special import gammaln

    cells = gammaln(alpha + counts).sum() - counts.size * gammaln(alpha)
    return float(cells - gammaln(alpha_sum + sums).sum() + sums.size * gammaln(alpha_sum))


SCORES: tuple[type[FamilyScore], ...] = (BIC, AIC, BDeuScore, K2Score, LogLikelihoodScore)
"""The scores, by their texts."""


def structure_score(
    structure: Any, data: Any, score: Any = "bic", *, sample_weight: ArrayLike | None = None, threads: int | None = None
) -> float:
    """Return how well a structure fits complete rows; larger is better.

    Parameters
    ----------
    structure : BayesianNetwork, arcs, or mapping of children to parents
        Only who is whose parent matters.
    data : table of rows
        As of :class:`~beliefs.learning.estimators.networks.bayes_net.BNLearner`, without missing cells.
    score : str
        ``"bic"``, ``"aic"``, ``"bdeu(ess=10)"``, ``"k2"`` or ``"log_likelihood"``.

    Examples
    --------
    >>> rows = [[0, 0], [0, 0], [1, 1], [1, 0]]
    >>> round(structure_score([("x0", "x1")], rows, "bdeu(ess=1)"), 6)
    -7.113793
    >>> round(structure_score([("x1", "x0")], rows, "bdeu(ess=1)"), 6)
    -7.113793
    """
    chosen = score if isinstance(score, FamilyScore) else parse(str(score), SCORES, "score")
    network = given_network(structure)
    table = table_of(data, None if network is None else network.graph.naming, weights=sample_weight)
    _check_complete(table)
    naming = Naming.of(table.names, table.labels, table.card) if network is None else network.graph.naming
    return score_of(count(structure_over(structure, naming), table, executor_of(threads)), chosen)


def score_of(counts: FamilyCounts, score: FamilyScore) -> float:
    """Return the score of counted families."""
    structure = counts.structure
    parts = []
    for v in range(structure.n_vars):
        cells, sums, _ = counts.columns(v)
        parts.append(score.of(cells, sums, int(structure.layout.card[v]), int(structure.n_columns[v]), counts.total))
    return float(np.sum(parts))


def _check_complete(table: RowTable) -> None:
    if table.n_missing.any():
        c = int(np.argmax(table.n_missing > 0))
        row = int(np.argmax(table.codes[c] == table.missing))
        raise ModelError(
            f"column {table.names[c]!r}, row {row}: a score needs complete rows, found a missing cell; leave such rows "
            "out, or compare log_likelihood of fitted networks"
        )
