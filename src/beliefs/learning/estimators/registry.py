"""The estimators: one row each, by the word of the command line; classes are loaded when they are asked for.

The choices of ``beliefs fit --model``, the arrays of data files, the classes that files of fitted models may hold,
warm-up and the table of the docs follow from the rows.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from beliefs.errors import ModelError
from beliefs.io.files import StrPath
from beliefs.model.variable import suggestion

if TYPE_CHECKING:
    from beliefs.learning.estimators.base import Estimator
    from beliefs.learning.estimators.boltzmann.machine import MachineEstimator

    AnyEstimator = Estimator[Any] | MachineEstimator

__all__ = [
    "ESTIMATORS",
    "LEARNERS",
    "EstimatorRow",
    "data_table",
    "estimator",
    "estimator_words",
    "learner",
    "learner_words",
    "load_estimator",
    "word_of",
]


class EstimatorRow(NamedTuple):
    """An estimator: the word of the command line, its class, and the module that has it."""

    word: str
    class_name: str
    module: str

    def load(self) -> type[AnyEstimator]:
        """Return the class."""
        found: type[AnyEstimator] = getattr(import_module(self.module), self.class_name)
        return found


ESTIMATORS: tuple[EstimatorRow, ...] = (
    EstimatorRow("grid", "GridCRF", "beliefs.learning.estimators.structured.grid"),
    EstimatorRow("chain", "ChainCRF", "beliefs.learning.estimators.structured.chain"),
    EstimatorRow("graph", "GraphCRF", "beliefs.learning.estimators.structured.graph"),
    EstimatorRow("grid_svm", "GridSVM", "beliefs.learning.estimators.structured.grid_svm"),
    EstimatorRow("chain_svm", "ChainSVM", "beliefs.learning.estimators.structured.chain_svm"),
    EstimatorRow("graph_svm", "GraphSVM", "beliefs.learning.estimators.structured.graph_svm"),
    EstimatorRow("rbm", "BernoulliRBM", "beliefs.learning.estimators.boltzmann.bernoulli_rbm"),
    EstimatorRow("crbm", "ConditionalRBM", "beliefs.learning.estimators.boltzmann.conditional_rbm"),
    EstimatorRow("infinite_rbm", "InfiniteRBM", "beliefs.learning.estimators.boltzmann.infinite_rbm"),
)
"""Every estimator, in the order of the docs."""

LEARNERS: tuple[EstimatorRow, ...] = (
    EstimatorRow("bn", "BNLearner", "beliefs.learning.estimators.networks.bayes_net"),
    EstimatorRow("mrf", "MRFLearner", "beliefs.learning.estimators.networks.markov_field"),
)
"""Every learner of joint models from a table of rows; what ``fit`` writes are their models."""


def estimator_words() -> tuple[str, ...]:
    """Return the words of all estimators."""
    return tuple(row.word for row in ESTIMATORS)


def learner_words() -> tuple[str, ...]:
    """Return the words of all learners of joint models."""
    return tuple(row.word for row in LEARNERS)


def learner(word: str) -> Any:
    """Return the class of a learner of joint models."""
    return next(row.load() for row in LEARNERS if row.word == word)


def estimator(word: str) -> type[AnyEstimator]:
    """Return the class for a word."""
    for row in ESTIMATORS:
        if row.word == word:
            return row.load()
    words = estimator_words()
    raise ModelError(f"no estimator {word!r}{suggestion(word, words)} (known: {', '.join(words)})")


def word_of(cls: type[AnyEstimator]) -> str:
    """Return the word of a class."""
    return next(row.word for row in ESTIMATORS if row.class_name == cls.__name__)


def load_estimator(path: StrPath, **functions: Any) -> AnyEstimator:
    """Read a fitted estimator of whatever class from a file; arguments that are functions are given again, by name."""
    from beliefs.learning.estimators.storage import load  # the command line needs the words long before

    found: AnyEstimator = load(path, {row.class_name: row.load for row in ESTIMATORS}, **functions)
    return found


def data_table() -> str:
    """Return the table of the docs, in Markdown: what a data file holds for each estimator."""
    rows = []
    for row in ESTIMATORS:
        found = row.load()
        form, costs = found.data_form, "`costs`, as `Y` with a last axis of labels" if found.takes_costs else ""
        rows.append(f"| `{row.word}` | {form.x} | {form.y} | {'; '.join(filter(None, (form.further_shown, costs)))} |")
    head = ["| `--model` | `X` of one instance | `Y` | further arrays, named alike |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *(" ".join(line.split()) for line in rows)])
