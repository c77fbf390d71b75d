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

__all__ = ["EXPONENT", "MODELS", "Learned", "compile_learning", "learn", "learning_section"]

EXPONENT = 1.25
MODELS: dict[str, dict[str, Any]] = {
    "independent": {"loss": "univariate_logistic", "n_sweeps": 0},
    "pseudo-likelihood": {"loss": "pseudo_likelihood"},
    "truncated likelihood": {"loss": "truncated_likelihood", "n_sweeps": 20},
    "clique logistic": {"loss": "clique_logistic", "n_sweeps": 10},
}
"""What each model is fitted with; all predict through TRW."""

_REDUCE = 3  # photographs of 142 x 213 pixels
_ITERATIONS = 40


@dataclass(frozen=True, eq=False)
class Learned:
    """One fitted model and what it makes of the other photograph."""

    name: str
    crf: GridCRF
    marginals: Floats
    error: float


def learn(seed: int = 0) -> tuple[dict[str, Ints | Floats], list[Learned]]:
    """Fit every model to the flower; return the temple, clean and noisy, and the models."""
    from beliefs.learning.estimators.structured.grid import GridCRF

    photographs = load_pictures(reduce=_REDUCE, level="median")
    noisy = {name: make_noisy(x, exponent=EXPONENT, seed=seed + k) for k, (name, x) in enumerate(photographs.items())}
    found = []
    for name, options in MODELS.items():
        crf = GridCRF(max_iters=_ITERATIONS, **options).fit([noisy["flower"]], [photographs["flower"]])
        marginals = crf.predict_marginals([noisy["china"]])[0]
        error = error_rate([photographs["china"]], [marginals.argmax(axis=-1)])
        found.append(Learned(name, crf, marginals[..., 1], error))
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
    shown = [*given.items(), *((f"{m.name}: {100 * m.error:.1f} % wrong", m.marginals) for m in found)]
    for ax, (title, values) in zip(figure.subplots(2, 3).ravel(), shown, strict=True):
        ax.imshow(np.asarray(values), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        ax.set_title(title, size=10)
        ax.set_axis_off()
    return picture(
        figure,
        "A photograph, its noisy version, and marginals of four models",
        "Marginal probability that a pixel is white. Every model has the same form; what it was fitted for makes the "
        "difference.",
    )
