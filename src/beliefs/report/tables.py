"""Tables of a network learned back from rows with holes, beside the tables that the rows were drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beliefs.datasets import load_bn
from beliefs.inference.likelihood import log_likelihood
from beliefs.inference.quiet import quietly
from beliefs.report.page import Markup, Section, code, number, paragraph, picture, seconds, table
from beliefs.typing import Floats, Ints

if TYPE_CHECKING:
    from beliefs.learning.estimators.networks.bayes_net import BNLearner
    from beliefs.model.bayes_net import BayesianNetwork

__all__ = ["LearnedTables", "compile_tables", "learn_tables", "tables_section"]

_ROWS, _HELD_OUT, _MISSING = 5000, 5000, 0.1
_SHOWN = "CVP"


@dataclass(frozen=True, eq=False)
class LearnedTables:
    """The truth, the learners by what they were given, and held-out log-likelihoods by the same names."""

    truth: BayesianNetwork
    learners: dict[str, BNLearner]
    n_rows: dict[str, int]
    scores: dict[str, float]


def holed(rows: Ints, seed: int) -> Ints:
    """Return rows with a tenth of the cells missing, at random."""
    return np.where(np.random.default_rng(seed).random(rows.shape) < _MISSING, -1, rows)


def learn_tables(seed: int = 0) -> LearnedTables:
    """Learn alarm's tables from complete rows, from the same rows with holes, and from what is complete among these."""
    from beliefs.learning.estimators.networks.bayes_net import BNLearner

    truth = load_bn("alarm")
    rows, held_out = truth.sample(_ROWS, seed), truth.sample(_HELD_OUT, seed + 1)
    seen = holed(rows, seed + 2)
    whole = seen[(seen >= 0).all(axis=1)]
    given = {"all cells": rows, "nine cells in ten": seen, "only rows without a hole": whole}
    learners = {name: BNLearner(truth, "bdeu(ess=1)", seed=seed).fit(data) for name, data in given.items()}
    scores = {"the truth": log_likelihood(truth, held_out).mean}
    scores |= {name: learner.score(held_out) for name, learner in learners.items()}
    return LearnedTables(truth, learners, {name: len(data) for name, data in given.items()}, scores)


def compile_tables() -> None:
    """Learn from a few rows, so that no measured time includes compiling."""
    from beliefs.learning.estimators.networks.bayes_net import BNLearner

    network = load_bn("asia")
    rows = network.sample(50)
    with quietly():
        BNLearner(network).fit(rows)
        BNLearner(network, max_iters=1).fit(holed(rows, 1)).score(rows)


def tables_section() -> Section:
    """Show learned tables beside the truth."""
    found = learn_tables()
    lost = {name: found.scores["the truth"] - score for name, score in found.scores.items()}
    first, second, third = found.learners
    return Section(
        "A network learned back from rows with holes",
        f"From {_ROWS:,} rows with a tenth of the cells missing EM learns tables that lose {lost[second]:.2f} nats a "
        f"row against the truth, from complete rows {lost[first]:.2f}; leaving out rows with holes loses "
        f"{lost[third]:.1f}.",
        Markup(
            paragraph(
                f"Rows drawn from alarm, a network of 37 variables, a tenth of their cells taken away at random: "
                f"{found.n_rows[third]} of {_ROWS:,} are still whole. ",
                code('BNLearner(alarm, "bdeu(ess=1)").fit(rows)'),
                " counts where a family is seen whole, and asks for posteriors where it is not.",
            )
            + _scores(found, lost)
            + _pictures(found)
            + _one_table(found)
        ),
    )


def _scores(found: LearnedTables, lost: dict[str, float]) -> Markup:
    rows: list[tuple[Any, ...]] = [("the truth", "", number(found.scores["the truth"], 3), "", "", "")]
    for name, learner in found.learners.items():
        result = learner.result_
        rows.append((
            name, f"{found.n_rows[name]:,}", number(found.scores[name], 3), number(lost[name], 3),
            f"{result.n_iters}", seconds(result.seconds),
        ))  # fmt: skip
    head = ("learned from", "rows", "log-likelihood of a new row", "lost", "iterations", "fitted in")
    return table(head, rows, numeric=(1, 2, 3, 4, 5))


def _pictures(found: LearnedTables) -> Markup:
    from matplotlib.figure import Figure

    learner = found.learners["nine cells in ten"]
    behind = np.concatenate([
        np.repeat(counts.sum(axis=-1).ravel(), counts.shape[-1]) for counts in learner.counts_.values()
    ])  # fmt: skip
    order = np.argsort(behind, kind="stable")
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    points = left.scatter(
        found.truth.probabilities[order], learner.model_.probabilities[order], c=np.log10(behind[order] + 1.0), s=14
    )
    left.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, zorder=0)
    left.set(xlabel="true probability", ylabel="learned, a tenth missing", title="All numbers of all tables")
    bar = figure.colorbar(points, ax=left, ticks=range(5))
    bar.ax.set_yticklabels(["0", "10", "100", "1,000", "10,000"])
    bar.set_label("expected rows behind the column")
    loss = learner.result_.trace.loss
    right.plot(np.arange(loss.size), loss, marker="o", markersize=3)
    right.set(xlabel="iteration of EM", ylabel="minus objective, per row", title="EM never rises")
    return picture(
        figure,
        "Learned probabilities against the true ones, and the falling curve of EM",
        "Left: numbers far from the diagonal belong to parents' states that hardly ever occur. Right: the negative "
        "log-likelihood with the log prior, from random tables.",
    )


def _one_table(found: LearnedTables) -> Markup:
    """Return one variable's table: truth, learned, and a credible interval."""
    learner = found.learners["nine cells in ten"]
    network, v = found.truth, found.truth.index(_SHOWN)
    above = network.variables[int(network.graph.layout.scope(v)[0])]
    low, high = learner.credible_interval(_SHOWN)
    truth, mine = network.cpt(_SHOWN), learner.model_.cpt(_SHOWN)
    rows = []
    for j, given in enumerate(above.states):
        for k, state in enumerate(network.variables[v].states):
            rows.append((
                f"{above.name}={given}", f"{_SHOWN}={state}", number(truth[j, k], 3), number(mine[j, k], 3),
                _interval(low[j, k], high[j, k]),
            ))  # fmt: skip
    return table(("given", "state", "truth", "learned", "95 % interval"), rows, numeric=(2, 3, 4))


def _interval(low: Floats, high: Floats) -> str:
    return f"{number(float(low), 3)} to {number(float(high), 3)}"
