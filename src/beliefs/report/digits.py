"""Digits with a patch covered are completed through a hidden layer: what inference a machine is learned through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beliefs.datasets import occlude
from beliefs.metrics import error_rate
from beliefs.report.page import Markup, Section, code, number, paragraph, picture, seconds, table

if TYPE_CHECKING:
    from beliefs.learning.estimators.boltzmann.conditional_rbm import ConditionalRBM

__all__ = ["LEARNERS", "Completed", "compile_digits", "complete", "digits_section"]

LEARNERS: dict[str, dict[str, Any]] = {
    "logistic regression": {"n_components": 0},
    "CD-1": {"loss": "contrastive_divergence"},
    "belief propagation": {},
}
"""What each machine is fitted with."""

_SHAPE, _PATCH = (8, 8), 3
_BRIGHT = 7  # of 16 grey levels
_LEARNED, _SHOWN = 1200, 12
_PASSES, _RATE = 40, 0.1


@dataclass(frozen=True, eq=False)
class Completed:
    """One fitted machine and what it makes of digits that it has not seen."""

    name: str
    crbm: ConditionalRBM
    bits: np.ndarray
    error: float
    changed: float


def complete(seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[Completed]]:
    """Fit every machine to covered digits; return others, clean and covered, and the machines."""
    from sklearn.datasets import load_digits

    from beliefs.learning.estimators.boltzmann.conditional_rbm import ConditionalRBM

    bits = (load_digits().data > _BRIGHT).astype(np.uint8)
    bits = bits[np.random.default_rng(seed).permutation(len(bits))]
    covered = occlude(bits, _SHAPE, _PATCH, seed=seed)
    V, X, clean, seen = bits[:_LEARNED], covered[:_LEARNED], bits[_LEARNED:], covered[_LEARNED:]
    found = []
    for name, options in LEARNERS.items():
        settings = {"n_components": 32, **options}
        crbm = ConditionalRBM(**settings, n_iter=_PASSES, learning_rate=_RATE, batch_size=10, random_state=seed)
        crbm.fit(X, V)
        states = crbm.predict(seen)
        errors = error_rate(clean, states), error_rate(clean, states, where=clean != seen)
        found.append(Completed(name, crbm, states, *errors))
    return clean, seen, found


def compile_digits() -> None:
    """Fit every machine to bits of a few pixels, so that no measured time includes compiling."""
    from beliefs.learning.estimators.boltzmann.conditional_rbm import ConditionalRBM

    bits = np.eye(4, dtype=np.uint8)
    for options in LEARNERS.values():
        ConditionalRBM(**{"n_components": 2, **options}, n_iter=1).fit(bits, bits).predict(bits)


def digits_section() -> Section:
    """Show digits, covered and completed."""
    clean, seen, found = complete()
    alone, best = found[0], min(found, key=lambda m: m.changed)
    return Section(
        "Pictures completed through a hidden layer",
        f"Of the pixels that were covered, logistic regression gets {100 * alone.changed:.0f} % wrong, a conditional "
        f"machine learned through {best.name} {100 * best.changed:.0f} %.",
        Markup(
            paragraph(
                f"Handwritten digits of 8 x 8 pixels with a patch of {_PATCH} x {_PATCH} covered. The machines have 32 "
                "hidden units that tie pixels together; each is ",
                code("ConditionalRBM(...).fit(covered, clean)"),
                f" on {_LEARNED:,} digits, and predicts with the inference that it was learned through.",
            )
            + _table(found)
            + _pictures(clean, seen, found)
        ),
    )


def _table(found: list[Completed]) -> Markup:
    rows = []
    for m in found:
        size, spent = f"{m.crbm.model_.n_parameters:,}", seconds(m.crbm.result_.seconds)
        rows.append((m.name, number(m.error, 4), number(m.changed, 4), size, spent))
    head = ("learned by", "pixels wrong", "of those covered", "parameters", "fitted in")
    return table(head, rows, numeric=(1, 2, 3, 4))


def _pictures(clean: np.ndarray, seen: np.ndarray, found: list[Completed]) -> Markup:
    from matplotlib.figure import Figure

    from beliefs.plot.images import plot_images

    lost = (clean != seen).sum(axis=1)
    shown = np.sort(np.argsort(-lost, kind="stable")[:_SHOWN])  # those that have lost most
    rows = {"covered": seen, **{m.name: m.bits for m in found}, "truth": clean}
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    for ax, (title, bits) in zip(figure.subplots(len(rows), 1), rows.items(), strict=True):
        plot_images(bits[shown], _SHAPE, n_columns=_SHOWN, ax=ax)
        ax.set_title(title, size=9, loc="left")
    return picture(
        figure,
        "Digits covered, completed by three machines, and as they were",
        "Digits that were not learned from, those that have lost most pixels.",
    )
