"""Several starts, of which the best fit is kept."""

from __future__ import annotations

from collections.abc import Callable

from beliefs.learning.result import FitResult

__all__ = ["best_of"]


def best_of(n_restarts: int, one_run: Callable[[int], FitResult]) -> tuple[FitResult, list[float]]:
    """Return the fit of least loss, and the objective (minus the loss) of every run; a stopped one is the last."""
    found: list[FitResult] = []
    for restart in range(n_restarts):
        found.append(one_run(restart))
        if found[-1].was_stopped:
            break
    return min(found, key=lambda fit: fit.loss), [-fit.loss for fit in found]
