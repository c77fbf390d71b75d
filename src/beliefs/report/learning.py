"""A grid learned from one photograph cleans up another: what the choice of loss is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beliefs.datasets import load_pictures, make_noisy
from beliefs.inference.quiet import quietly
from beliefs.metrics import error_rate
from beliefs.report.page import Markup, Section, code, number, paragraph, picture, seconds, table
from beliefs.typing import Floats, Ints

if TYPE_CHECKING:
    from beliefs.learning.estimators.structured.grid import GridCRF
    from beliefs.learning.result import FitProgress

__all__ = ["EXPONENT", "MODELS", "Learned", "compile_learning", "learn", "learning_section"]

EXPONENT = 1.25
MODELS: dict[str, dict[str, Any]] = {
    "independent": {"loss": "univariate_logistic", "n_sweeps": 0},
    "pseudo-likelihood": {"loss": "pseudo_likelihood"},
    "surrogate likelihood": {"loss": "truncated_likelihood", "n_sweeps": 20},
    "clique logistic": {"loss": "clique_logistic", "n_sweeps": 10},
}
"""What each model is fitted with; all predict through TRW."""

_REDUCE = 3  # photographs of 142 x 213 pixels
_ORDER = "flower", "china"  # fitted to, and the other one
_ITERATIONS = 40
_LOOKS = (1, 2, 3, 5, 8, 13, 20, 30, _ITERATIONS)  # iterations at which errors are counted


@dataclass(frozen=True, eq=False)
class Learned:
    """One fitted model and what it makes of the other photograph.

    ``errors``: by iteration the share of pixels wrong in the photograph fitted to, and in the other one.
    """

    name: str
    crf: GridCRF
    marginals: Floats
    error: float
    errors: dict[int, tuple[float, float]]


def learn(seed: int = 0) -> tuple[dict[str, Ints | Floats], list[Learned]]:
    """Fit every model to the flower; return the temple, clean and noisy, and the models."""
    from beliefs.learning.estimators.structured.grid import GridCRF

    photographs = load_pictures(reduce=_REDUCE, level="median")
    noisy = {name: make_noisy(x, exponent=EXPONENT, seed=seed + k) for k, (name, x) in enumerate(photographs.items())}
    found = []
    for name, options in MODELS.items():
        kept: dict[int, Floats] = {}

        def keep(now: FitProgress, kept: dict[int, Floats] = kept) -> None:
            if now.iteration <= max(kept, default=0):  # what came before was the fit of the start
                kept.clear()
            if now.iteration in _LOOKS:
                kept[now.iteration] = now.weights

        crf = GridCRF(max_iters=_ITERATIONS, callback=keep, **options).fit([noisy["flower"]], [photographs["flower"]])
        last = kept[crf.result_.n_iters] = crf.weights_
        errors = {}
        for iteration, crf.weights_ in kept.items():
            marginals = crf.predict_marginals([noisy[k] for k in _ORDER])
            seen = zip(_ORDER, marginals, strict=True)
            train, test = (error_rate([photographs[k]], [m.argmax(axis=-1)]) for k, m in seen)
            errors[iteration] = train, test
        crf.weights_ = last
        found.append(Learned(name, crf, marginals[1][..., 1], errors[crf.result_.n_iters][1], errors))
    return {"photograph": photographs["china"], "seen through noise": noisy["china"]}, found


def compile_learning() -> None:
    """Fit every model to a picture of a few pixels, so that no measured time includes compiling."""
    from beliefs.learning.estimators.structured.grid import GridCRF

    labels = np.eye(4, dtype=np.int64)
    with quietly():
        for options in MODELS.values():
            GridCRF(max_iters=1, **options).fit([make_noisy(labels)], [labels]).predict([labels])


def learning_section() -> Section:
    """Show the pictures that four losses lead to."""
    given, found = learn()
    best = min(found, key=lambda m: m.error)
    alone = next(m for m in found if m.name == "independent")
    return Section(
        "A model of images, learned",
        f"A grid fitted to one noisy photograph cleans up another: pixel by pixel {100 * alone.error:.1f} % of the "
        f"pixels are wrong, with the {best.name} loss {100 * best.error:.1f} %.",
        Markup(
            paragraph(
                "Photographs in black and white, seen through noise that turns "
                f"{100 * (1 - 2 ** (-1 / EXPONENT)):.1f} % of the pixels over if each is judged for itself. A flower "
                "is what the models were fitted to, a temple what they have to clean up. Each model is ",
                code("GridCRF(loss=...).fit([noisy], [clean])"),
                ": the same 12 weights, fitted by different losses, all used with tree-reweighted message passing.",
            )
            + _table(found)
            + _pictures(given, found)
            + _curves(found)
        ),
    )


def _table(found: list[Learned]) -> Markup:
    rows = []
    for m in found:
        result = m.crf.result_
        steps = f"{result.n_iters}"
        rows.append((m.name, code(m.crf.loss), number(m.error, 4), steps, seconds(result.seconds)))
    return table(("model", "loss", "pixels wrong", "iterations", "fitted in"), rows, numeric=(2, 3, 4))


def _pictures(given: dict[str, Any], found: list[Learned]) -> Markup:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.7), layout="constrained")
    truth, noisy = given.items()
    shown = [noisy, *((f"{m.name}: {100 * m.error:.1f} % wrong", m.marginals) for m in found), truth]
    for ax, (title, values) in zip(figure.subplots(2, 3).ravel(), shown, strict=True):
        ax.imshow(np.asarray(values), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        ax.set_title(title, size=10)
        ax.set_axis_off()
    return picture(
        figure,
        "A noisy photograph, marginals of four models, and the photograph",
        "Marginal probability that a pixel is white. Every model has the same form; what it was fitted for makes the "
        "difference.",
    )


def _curves(found: list[Learned]) -> Markup:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    losses, errors = figure.subplots(1, 2)
    for m, colour in zip(found, ("#999999", "#c4541c", "#2e8b57", "#174a6e"), strict=True):
        trace = m.crf.result_.trace
        losses.plot(trace.iteration, trace.loss, color=colour, lw=1.8, label=m.name)
        train, test = zip(*m.errors.values(), strict=True)
        errors.plot(list(m.errors), [100 * e for e in test], color=colour, lw=1.8, marker=".", label=m.name)
        errors.plot(list(m.errors), [100 * e for e in train], color=colour, lw=1.2, ls=(0, (4, 2)))
    losses.set(xlabel="iteration", ylabel="loss a pixel, each its own", ylim=(0, None))
    errors.set(xlabel="iteration", ylabel="% of pixels wrong", ylim=(0, None))
    for ax in (losses, errors):
        ax.spines[["top", "right"]].set_visible(False)
    errors.legend(frameon=False, fontsize=8)
    return picture(
        figure,
        "Loss and errors of four fits by iteration",
        "Learning curves: the loss that each fit lowers, and the pixels wrong in the photograph fitted to (dashed) and "
        "in the other one (solid). Losses of two kinds cannot be compared, pixels can.",
    )
